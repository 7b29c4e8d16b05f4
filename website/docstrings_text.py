"""Our docstrings as mkdocstrings reads them.

- Doctests are at the docstring's own indentation, which Markdown reads as text: they are fenced.
- Arguments that are described together, `x, y: ...`, are listed one by one.
- `docs/files.md` becomes a link.
"""

import re

SEVERAL = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +\S.*)*)", re.MULTILINE)
PAGE = re.compile(r"\bdocs/([a-z-]+)\.md")


def readable(text: str) -> str:
    """The text of a docstring, as Markdown with sections of Google's style."""
    one_by_one = SEVERAL.sub(
        lambda m: "\n".join(f"{m[1]}{name}: {m[3]}" for name in m[2].split(", ")), text
    )
    return fenced(PAGE.sub(r"[\1](../\1.md)", one_by_one))


def fenced(text: str) -> str:
    """The text, with each paragraph that begins with `>>>` in a fence."""
    lines: list[str] = []
    is_open = False
    for line in text.splitlines():
        if line.startswith(">>>") and not is_open:
            lines.append("```pycon")
            is_open = True
        elif not line.strip() and is_open:
            lines.append("```")
            is_open = False
        lines.append(line)
    if is_open:
        lines.append("```")
    return "\n".join("**Example**" if line == "Example:" else line for line in lines)
