"""The metrics and settings that a list of runs shows as columns."""

from collections.abc import Iterable, Sequence
from typing import Any

from gradwatch.util import compact
from gradwatch.view.data.plain import Answer


def metric_names(entries: Sequence[Answer], most: int) -> list[str]:
    """The metrics of runs: those of validation first, else in the order in which they are met."""
    names = _names(entry["metrics"] for entry in entries)
    return sorted(names, key=lambda name: not name.rpartition("/")[2].startswith("val_"))[:most]


def setting_names(entries: Sequence[Answer], most: int) -> list[str]:
    """The settings that are not the same in all runs; of one run, all."""
    known = [entry["config"] for entry in entries if entry["config"] is not None]
    names = _names(known)
    if len(known) > 1:
        names = [name for name in names if len({str(config.get(name)) for config in known}) > 1]
    return names[:most]


def metric_text(entry: Answer, name: str) -> str:
    """The last value of a metric; "-" if the run has none."""
    value = (entry["metrics"] or {}).get(name)
    return compact(None if value is None else float(value))


def setting_text(entry: Answer, name: str) -> str:
    """A setting as the user gave it; "-" if the run has none."""
    value = (entry["config"] or {}).get(name)
    if isinstance(value, float) and len(repr(value)) > 9:
        return compact(value)
    return "-" if value is None else str(value)


def _names(given: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(name for each in given for name in each or ()))
