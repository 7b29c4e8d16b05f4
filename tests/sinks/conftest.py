"""What the sink tests share: a real TensorBoard."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tensorboard() -> Iterator[Callable[[Path], dict[str, Any]]]:
    """Reads a directory as TensorBoard does; see `tensorboard_reader.py` for the answer.

    In a process of its own, because there TensorBoard is kept from importing
    TensorFlow, which would take longer than all these tests.
    """
    pytest.importorskip("tensorboard")
    script = Path(__file__).with_name("tensorboard_reader.py")
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def read(directory: Path) -> dict[str, Any]:
            process.stdin.write(json.dumps(str(directory)).encode() + b"\n")
            process.stdin.flush()
            return pickle.load(process.stdout)

        yield read
        process.stdin.close()
        process.wait(timeout=300)
