"""What a program is given: a seed, and gradwatch as a user would call it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

MODES: dict[str, dict[str, Any] | None] = {"default": {}, "every": {"every": 1}, "bare": None}
"""The arguments of the monitor; None to train without one."""


class Run:
    """One run of a program.

    Args:
        directory: where it is recorded.
        seed: of its data, weights and batches.
        mode: a key of `MODES`.
    """

    def __init__(self, directory: Path, seed: int, mode: str) -> None:
        self.directory = directory
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.heard: list[Any] = []
        self.watcher: Any = None
        self._options = MODES[mode]

    def callbacks(self) -> list[Any]:
        """For `fit`."""
        if self._options is None:
            return []
        import gradwatch

        self.watcher = gradwatch.Monitor(self.directory, **self._all_options())
        return [self.watcher]

    def watch(self, module: Any, optimizer: Any, group: str | None = None) -> Any:
        """For a torch loop; a second optimizer shares the monitor of the first."""
        if self._options is None:
            return _NoMonitor()
        import gradwatch

        if self.watcher is not None:
            return gradwatch.watch(module, optimizer, self.watcher, group=group)
        options = self._all_options()
        self.watcher = gradwatch.watch(module, optimizer, self.directory, group=group, **options)
        return self.watcher

    def close(self) -> None:
        """Ends what is recorded."""
        if self.watcher is not None:
            self.watcher.close()

    def _all_options(self) -> dict[str, Any]:
        return {**(self._options or {}), "on_finding": self.heard.append}


class _NoMonitor:
    """Stands in for the monitor where nothing is recorded."""

    should_stop = False

    def record(self, **_: Any) -> None:
        pass

    def close(self) -> None:
        pass
