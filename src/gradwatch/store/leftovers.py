"""Sealing what processes that died have left in a run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from gradwatch.store import file_names as names
from gradwatch.store import process, sealing
from gradwatch.store.journal import Journal


def seal(directory: Path, is_meant: Callable[[str], bool] = lambda name: True) -> None:
    """Have the whole journals of dead processes sealed in the background.

    Those that are damaged or torn are left to `repair`, which sets them aside.

    Args:
        directory: the run's, to which nobody else writes now.
        is_meant: whether a journal of this name is to be looked at.
    """
    for name in list(names.listed(directory)):
        if names.parse_journal(name) is not None and is_meant(name):
            path = directory / name
            sealing.sealer.later((path, "left over"), 0.0, partial(_seal, path))


def _seal(path: Path) -> None:
    journal = Journal(path)
    try:
        journal.advance()
    except FileNotFoundError:
        return
    # This process's own included: it runs.
    is_ours = process.is_running(journal.writer)
    if journal.frame_count and not (is_ours or journal.torn or journal.damage):
        sealing.sealer.submit(path, journal.frame_count)
