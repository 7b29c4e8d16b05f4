"""Runs the programs of a half, each with several seeds, and keeps those that are confirmed."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .catalog import catalog
from .program import Program


def generate(
    folder: Path, half: str, seeds: Sequence[int], names: Sequence[str] = (), record: bool = True
) -> None:
    """Train and record; what is there already is not done again.

    Args:
        folder: runs go to `<folder>/<half>/<program>-<seed>`.
        half: `tuning` or `test`.
        seeds: of each program.
        names: only these programs; all if empty.
        record: False to only see which labels are confirmed.
    """
    from .train import train

    programs = catalog()
    twins = _Twins(folder, programs)
    chosen = [p for p in programs.values() if p.half == half and (not names or p.name in names)]
    for seed in seeds:
        for program in chosen:
            run = folder / half / f"{program.name}-{seed}"
            if (run / "label.json").exists():
                continue
            shutil.rmtree(run, ignore_errors=True)
            run.mkdir(parents=True)
            twin = twins.of(program, seed)
            start = time.perf_counter()
            try:
                label = train(program, seed, run if record else None, twin)
            except Exception as error:
                # Such as a loss that does not take these labels: nobody needs a diagnosis then.
                print(f"FAILED  {run.name}: {type(error).__name__}: {error}", flush=True)
                continue
            twins.keep(label)
            mark = "ok     " if label["confirmed"] else "DROPPED"
            took = time.perf_counter() - start
            print(f"{mark} {run.name}: {label['why']} ({took:.1f} s)", flush=True)
            if not label["confirmed"]:
                for file in run.iterdir():
                    if file.name != "label.json":
                        file.unlink() if file.is_file() else shutil.rmtree(file)


class _Twins:
    """How the healthy twins came out; each is trained once a seed, without being recorded."""

    def __init__(self, folder: Path, programs: dict[str, Program]) -> None:
        self._file = folder / "twins.json"
        self._programs = programs
        self._known: dict[str, Any] = {}
        if self._file.exists():
            self._known = json.loads(self._file.read_text())

    def of(self, program: Program, seed: int) -> dict[str, Any] | None:
        if program.base is None:
            return None
        key = f"{program.base}-{seed}"
        if key not in self._known:
            from .train import train

            print(f"... healthy twin {key}", file=sys.stderr, flush=True)
            self.keep(train(self._programs[program.base], seed, None, None))
        return self._known[key]

    def keep(self, label: dict[str, Any]) -> None:
        if label["healthy"]:
            key = f"{label['program']}-{label['seed']}"
            self._known[key] = {name: label[name] for name in ("score", "loss", "confirmed")}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self._known, indent=1))
