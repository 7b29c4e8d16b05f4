"""Starting the processes of a training, waiting for them, and ending them whatever happens."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 3600.0
"""Seconds after which a training counts as hanging: many, since the machine may be busy."""
FULL = os.environ.get("GRADWATCH_DISTRIBUTED") == "full"
"""Whether to run all there is, which takes several minutes more."""
only_in_full = pytest.mark.skipif(not FULL, reason="takes long: GRADWATCH_DISTRIBUTED=full")


def environment(**more: str) -> dict[str, str]:
    """That of a process of ours, which finds gradwatch and these tests."""
    own = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Which sums oneDNN takes in which order depends on the shapes.
        "TF_ENABLE_ONEDNN_OPTS": "0",
        # So that a port which is kept for it can be listened on, see `kept_ports`.
        "TF_GRPC_REUSE_PORT": "1",
    }
    return {**os.environ, **own, **more}


def xla_flags(devices: int) -> str:
    """Several devices of one CPU, which wait for each other longer than the usual 40 seconds."""
    return (
        f"--xla_force_host_platform_device_count={devices} "
        f"--xla_cpu_collective_call_terminate_timeout_seconds={PATIENCE:.0f}"
    )


@contextmanager
def kept_ports(count: int) -> Iterator[list[int]]:
    """Ports of this machine that nobody else is given while we have them.

    They are bound here and listened on by a process of ours, which gRPC does with the option by
    which several may bind one.
    """
    kept = [socket.socket() for _ in range(count)]
    try:
        for each in kept:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in kept]
    finally:
        for each in kept:
            each.close()


class Processes:
    """The processes of a training; those that are left at the end are killed.

    Args:
        folder: where what they print is kept.
        programs: for each, the arguments of Python.
        environments: for each, its environment.
    """

    def __init__(
        self,
        folder: Path,
        programs: Sequence[Sequence[object]],
        environments: Sequence[Mapping[str, str]],
    ) -> None:
        self._folder = folder
        self._programs, self._environments = programs, environments
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        try:
            for program, own in zip(self._programs, self._environments, strict=True):
                with self._output(len(self._started)).open("wb") as output:
                    started = subprocess.Popen(
                        [sys.executable, *map(str, program)],
                        env=own,
                        cwd=ROOT,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                self._started.append(started)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def wait(self, rank: int) -> int:
        """How a process has ended.

        Raises:
            AssertionError: it does not.
        """
        try:
            return self._started[rank].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            message = f"no end of process {rank} after {PATIENCE:g} s: it hangs\n{self.heard()}"
            raise AssertionError(message) from None

    def wait_for_all(self) -> list[int]:
        """How each has ended."""
        return [self.wait(rank) for rank in range(len(self._started))]

    def heard(self) -> str:
        """The end of what each has printed."""
        texts = (self.said(rank)[-4000:] for rank in range(len(self._started)))
        return "\n---\n".join(texts)

    def said(self, rank: int) -> str:
        """All that a process has printed."""
        return self._output(rank).read_text(errors="replace")

    def _output(self, rank: int) -> Path:
        return self._folder / f"said-{rank}.txt"


def once(factory: pytest.TempPathFactory, name: str, launch: Callable[[Path], None]) -> Path:
    """The folder in which something was run, once, also where tests are spread over workers."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            # A second try would find what the first has left.
            assert not (folder / "begun").exists(), f"{name} has failed already"
            (folder / "begun").touch()
            launch(folder)
            (folder / "done").touch()
    return folder


def run_tests(folder: Path, at_hand: Path, **settings: str) -> None:
    """Run a folder of tests in a process of its own, which begins otherwise than this one."""
    program = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", folder]
    with Processes(at_hand, [program], [environment(**settings)]) as tests:
        assert tests.wait(0) == 0, tests.said(0)[-20_000:]
        assert " passed" in tests.said(0)
