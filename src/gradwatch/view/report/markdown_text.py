"""Names, sentences and tables in GitHub's Markdown, escaped."""

import re

from gradwatch.util import printable, shortened

MAX_NAME = 120
"""Longer names are shortened in the middle."""

_PLAIN = re.compile(r"[\w ./:,\-+=()\[\]]*", re.ASCII)
_ACTIVE = re.compile(r"[\\`*_\[\]|~$]|:(?=//)|(?<=www)\.")


def code(name: str) -> str:
    """A name as code, without markup, links or mentions."""
    text = _visible(name)
    if text and text == text.strip() and _PLAIN.fullmatch(text):
        return f"`{text}`"
    # As numbers: a backtick in code and a bar in a table cannot be escaped.
    return f"<code>{re.sub(r'[^A-Za-z0-9]', lambda c: f'&#{ord(c[0])};', text)}</code>"


def prose(sentence: str) -> str:
    """A sentence that may contain names, also for a cell of a table."""
    text = _visible(sentence, 4 * MAX_NAME)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    text = _ACTIVE.sub(lambda c: f"\\{c[0]}", text)
    # A zero-width space, so that no account is mentioned.
    return text.replace("@", "@&#8203;")


def table(header: list[str], rows: list[list[str]], right: str = "") -> list[str]:
    """The lines of a table of Markdown cells; `right` has a letter a column, `r` to align right."""
    marks = ["---:" if letter == "r" else "---" for letter in right.ljust(len(header), "l")]
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return [lines[0], f"|{'|'.join(marks)}|", *lines[1:]]


def _visible(text: str, longest: int = MAX_NAME) -> str:
    """On one line, without characters that turn or hide text."""
    return shortened(printable(text), longest)
