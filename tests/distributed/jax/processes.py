"""Starting the processes of a training, and ending them whatever happens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def environment(**more: str) -> dict[str, str]:
    """That of a process that trains with Keras on JAX."""
    own = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, **own, "PYTHONPATH": path, **more}


def free_address() -> str:
    """An address of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def run_workers(folder: Path, what: str, timeout: float) -> list[tuple[int, str]]:
    """Run both processes of a training to their end.

    Returns:
        Of each its exit code and all that it printed.

    Raises:
        AssertionError: it took longer than that; they are killed.
    """
    address = free_address()
    command = [sys.executable, "-m", "tests.distributed.jax.worker"]
    started = []
    try:
        for rank in range(2):
            out = (folder / f"{rank}.txt").open("w")
            started.append(
                subprocess.Popen(
                    [*command, str(rank), address, str(folder), what],
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env=environment(),
                    cwd=ROOT,
                )
            )
            out.close()
        codes = [worker.wait(timeout) for worker in started]
    except subprocess.TimeoutExpired:
        texts = [(folder / f"{rank}.txt").read_text()[-3000:] for rank in range(len(started))]
        raise AssertionError("The processes hang. " + "\n---\n".join(texts)) from None
    finally:
        for worker in started:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
    return [(code, (folder / f"{rank}.txt").read_text()) for rank, code in enumerate(codes)]
