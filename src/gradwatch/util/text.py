"""Names as text: safe to print, measured and shortened by the columns they take."""

from collections.abc import Sequence


def printable(name: str) -> str:
    """The text with control characters, direction marks and the like escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def display_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """The text in at most that many terminal columns; its middle is left out."""
    if display_width(text) <= width:
        return text
    half = min(len(text) // 2, width)  # characters of no width do not matter here
    head, tail = text[:half], text[len(text) - half :]
    while head + tail and display_width(head + tail) > width - 1:
        if display_width(head) > display_width(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def without_root(paths: Sequence[str]) -> list[str]:
    """The paths without the model's name, if all of them begin with it."""
    roots = {path.partition("/")[0] for path in paths}
    short = [path.partition("/")[2] for path in paths]
    return short if len(roots) == 1 and all(short) else list(paths)


def encodable(text: str, encoding: str) -> str:
    """The text with characters that the encoding lacks replaced by others of the same width."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
    except LookupError:
        return text
    return text.encode(encoding, errors="replace").decode(encoding)


_ASCII = str.maketrans({"·": "-", "…": "~", "▼": "v", "▲": "^", "↑": "^", "↓": "v"})
