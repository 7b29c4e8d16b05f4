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


def shortened(text: str, width: int, share: float = 0.5) -> str:
    """The text in at most that many terminal columns; its middle is left out.

    Its beginning has that share of what is left.
    """
    if display_width(text) <= width:
        return text
    room = max(width - 1, 0)
    # No more characters than columns; those of no width do not matter here.
    head, tail = text[:room], text[len(text) - room :]
    while display_width(head) > share * room:
        head = head[:-1]
    while display_width(head + tail) > room:
        tail = tail[1:]
    return f"{head}…{tail}"


def shortened_apart(names: Sequence[str], width: int) -> list[str]:
    """Names in at most that many terminal columns each, that still differ if they can.

    >>> from gradwatch.util.text import shortened_apart
    >>> shortened_apart(["block_0_mix/query", "block_1_mix/query"], 12)
    ['block_0…uery', 'block_1…uery']
    """
    different = len(set(names))
    best: list[str] = []
    for share in (0.5, 0.65, 0.35, 0.8, 0.2, 1.0, 0.0):
        short = [shortened(name, width, share) for name in names]
        if len(set(short)) == different:
            return short
        best = max(best, short, key=lambda each: len(set(each)))
    return best


def width_apart(names: Sequence[str], least: int) -> int:
    """The width, from `least` on, to which names can be shortened and still differ."""
    longest = max(map(display_width, names), default=0)
    different = len(set(names))
    return next(
        (
            width
            for width in range(least, longest)
            if len(set(shortened_apart(names, width))) == different
        ),
        longest,
    )


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


def listed(paths: Sequence[str]) -> str:
    """The first of them, in words."""
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
