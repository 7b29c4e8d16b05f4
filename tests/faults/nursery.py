"""Starts programs in processes of their own by forking, so that many cost one import.

It is a process that has imported everything, started no thread and opened no run; each
order is a line of JSON, and each answer a line with a number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import SOURCES

ROOT = str(Path(SOURCES).parent)


class Nursery:
    """The side of the tests.

    Args:
        folder: for what the programs print.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-W", "always", "-m", "tests.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, ROOT])},
        )
        self._outputs: dict[int, Path] = {}
        self._living: set[int] = set()

    def start(self, program: str, *args: Any, **options: Any) -> int:
        """Start a function of a module of this folder: `"programs.train"`; its process number."""
        path = self._folder / f"output-{len(self._outputs)}"
        order = [program, [str(a) if isinstance(a, Path) else a for a in args], options, str(path)]
        child = self._ask(order)
        self._outputs[child] = path
        self._living.add(child)
        return child

    def wait(self, child: int) -> int:
        """Wait for its end; its exit status, negative if a signal ended it."""
        status = self._ask(child)
        self._living.discard(child)
        return status

    def output(self, child: int) -> str:
        """What it has printed."""
        return self._outputs[child].read_text()

    def run(self, program: str, *args: Any, **options: Any) -> str:
        """Run it to its end, which must be a good one; what it printed."""
        child = self.start(program, *args, **options)
        status = self.wait(child)
        assert status == 0, (status, self.output(child))
        return self.output(child)

    def close(self) -> None:
        # Those that a failed test has left behind; nobody has waited for them, so the
        # numbers are still theirs.
        for child in self._living:
            os.kill(child, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(timeout=300)
        self._process.stdout.close()

    def _ask(self, order: Any) -> int:
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def main() -> None:
    import importlib

    import duckdb  # noqa: F401 - so that the programs need not

    from tests.distributed.patience import be_patient
    from tests.faults import programs  # noqa: F401

    be_patient()
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            print(os.waitstatus_to_exitcode(os.waitpid(order, 0)[1]), flush=True)
            continue
        program, args, options, output = order
        child = os.fork()
        if child == 0:
            # All that it raises goes the way of any script's: out of `main`.
            there = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for descriptor in (1, 2):
                os.dup2(there, descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            module, _, name = program.rpartition(".")
            getattr(importlib.import_module(f"tests.faults.{module}"), name)(*args, **options)
            return
        print(child, flush=True)


if __name__ == "__main__":
    main()
