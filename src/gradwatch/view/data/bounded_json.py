"""Answers that are not larger than somebody can take."""

from typing import Any

from gradwatch.view.data.strict_json import jsonable, to_json

LEFT_OUT = "left_out"
_LONGEST_TEXT = 200


def bounded(answer: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The answer, as JSON at most so many bytes: of the longest lists only the first items.

    What is missing is counted under `left_out`, by its place in the answer. An answer that fits is
    returned as it is.

    >>> bounded({"run": "a", "layers": ["x" * 8] * 9}, 75)
    {'run': 'a', 'layers': ['xxxxxxxx', 'xxxxxxxx'], 'left_out': {'layers': 7}}

    Raises:
        ValueError: even without any items it does not fit.
    """
    if _size(answer) <= max_bytes:
        return answer
    left_out: dict[str, int] = {}
    made: dict[str, Any] = {**_plain(answer), LEFT_OUT: left_out}
    while _size(made) > max_bytes:
        place, longest = max(_lists(made), key=lambda found: _size(found[1]), default=("", None))
        if longest is None:
            if _shorten(made):
                continue
            raise ValueError(
                f"The answer does not fit into {max_bytes:,} bytes: "
                f"{_size(made):,} are needed without any list."
            )
        gone = (len(longest) + 1) // 2
        del longest[-gone:]
        left_out[place] = left_out.get(place, 0) + gone
        # Lists in items that are gone now.
        for inner in [p for p in left_out if p.startswith(f"{place}[")]:
            if int(inner[len(place) + 1 :].partition("]")[0]) >= len(longest):
                del left_out[inner]
    return made


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """A copy in the types that JSON has."""
    return {key: jsonable(value) for key, value in answer.items()}


def _size(value: Any) -> int:
    return len(to_json(value))


def _lists(value: Any, place: str = "") -> list[tuple[str, list[Any]]]:
    """All lists that are not empty, with their places."""
    found = []
    if isinstance(value, dict):
        for key, each in value.items():
            if key != LEFT_OUT or place:
                found += _lists(each, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and value:
        found.append((place, value))
        for i, each in enumerate(value):
            found += _lists(each, f"{place}[{i}]")
    return found


def _shorten(value: Any) -> bool:
    """Shorten the texts of a value without lists; False if none was too long."""
    shortened = False
    for key, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, str) and len(each) > _LONGEST_TEXT:
            value[key] = each[: _LONGEST_TEXT - 1] + "…"
            shortened = True
        elif isinstance(each, dict):
            shortened |= _shorten(each)
    return shortened
