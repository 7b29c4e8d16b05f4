"""Names and sentences in GitHub's Markdown, where they stay what they are."""

from __future__ import annotations

import re

from gradwatch.util import printable, shortened

LONGEST = 120
"""Names that are longer are shortened in the middle."""

_PLAIN = re.compile(r"[\w ./:,\-+=()\[\]]*", re.ASCII)
_ACTIVE = re.compile(r"[\\`*_\[\]|~$]|:(?=//)|(?<=www)\.")


def code(name: str) -> str:
    """A name in a type of fixed width: nothing in it is markup, a link or a mention.

    >>> from gradwatch.view.report.escaping import code
    >>> code("dense_1/kernel"), code("a|b`")
    ('`dense_1/kernel`', '<code>a&#124;b&#96;</code>')
    """
    text = _seen(name)
    if text and text == text.strip() and _PLAIN.fullmatch(text):
        return f"`{text}`"
    # By numbers, as a backtick in a span of code and a bar in a table cannot be escaped.
    return f"<code>{re.sub(r'[^A-Za-z0-9]', lambda c: f'&#{ord(c[0])};', text)}</code>"


def prose(sentence: str) -> str:
    """A sentence that may have names in it, for a cell of a table too.

    >>> from gradwatch.view.report.escaping import prose
    >>> prose("<b> of a_b | @all")
    '&lt;b&gt; of a\\\\_b \\\\| @&#8203;all'
    """
    text = _seen(sentence, 4 * LONGEST)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    text = _ACTIVE.sub(lambda c: f"\\{c[0]}", text)
    # With nothing in between, whoever is called so would be told.
    return text.replace("@", "@&#8203;")


def table(header: list[str], rows: list[list[str]], right: str = "") -> list[str]:
    """The lines of a table of cells that are Markdown already.

    Args:
        header: the names of its columns.
        rows: their cells.
        right: a letter for each column: `r` for one of numbers.

    >>> from gradwatch.view.report.escaping import table
    >>> table(["layer", "L2"], [["`a`", "1"]], right="lr")
    ['| layer | L2 |', '|---|---:|', '| `a` | 1 |']
    """
    marks = ["---:" if letter == "r" else "---" for letter in right.ljust(len(header), "l")]
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return [lines[0], f"|{'|'.join(marks)}|", *lines[1:]]


def _seen(text: str, longest: int = LONGEST) -> str:
    """On one line, without what turns or hides text."""
    return shortened(printable(text), longest)
