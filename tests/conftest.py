"""What tests share: readings of real arrays, a full disk, fresh processes, TensorBoard."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# Before NumPy and torch are imported. pytest keeps all cores busy already; a second thread for
# tiny tensors, in each of its processes, only spins while it waits for a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# trackio reads it when it is imported.
os.environ.setdefault("TRACKIO_DIR", tempfile.mkdtemp(prefix="gradwatch-trackio-"))

import numpy as np
import pytest

import gradwatch
from gradwatch.core import Reading, Site, Summary
from gradwatch.core.reference import count_cells, summarize
from gradwatch.maintain import upload_run as completing
from gradwatch.record import directory as rundir
from gradwatch.sinks import RunInfo, pipeline
from gradwatch.store import writer as store_writer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a shell: the processes that tests start would not know Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCES = str(Path(gradwatch.__file__).parent.parent)
_CLOSING_TIME = pipeline.CLOSING_TIME


def _be_patient(seconds: float) -> None:
    """Let nothing be given up before so many seconds, in this process."""
    pipeline.CLOSING_TIME = pipeline.EPOCH_PATIENCE = seconds
    rundir.PATIENCE = completing.PATIENCE = seconds


def pytest_configure() -> None:
    # Not when this is imported, which the processes that tests start do as well. A machine that
    # is busy with other tests is slower than any that would train.
    _be_patient(60.0)
    from hypothesis import HealthCheck, settings

    # The same examples every time, however long a busy machine takes for one of them.
    slow = [HealthCheck.too_slow]
    settings.register_profile("here", deadline=None, derandomize=True, suppress_health_check=slow)
    settings.load_profile("here")


@pytest.fixture(autouse=True)
def _no_module_is_listened_to() -> Iterator[None]:
    """After each test: a hook that stays would change what later tests of the process see."""
    yield
    calls = sys.modules.get("gradwatch.capture.torch.module_calls")
    if calls is not None and calls._remove is not None:
        gc.collect()
        assert calls._remove is None, "This test has left a torch module watched."


@pytest.fixture(autouse=True)
def _subnormal_numbers_are_kept() -> None:
    """torch before 2.6 has a thread that has compiled anything round them to 0 from then on."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture
def closing_time() -> float:
    """Seconds for which what hangs holds users up at the end, outside of these tests."""
    return _CLOSING_TIME


@pytest.fixture
def be_patient() -> Iterator[Callable[[float], None]]:
    """For tests of what hangs: `be_patient(seconds)` says when it is given up."""
    yield _be_patient
    _be_patient(60.0)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Before the first test: what makes each of them cheaper, and changes nothing else."""
    # Keras has the garbage collected at the beginning of each of its tests: not among the
    # half a million objects that came with the modules.
    gc.collect()
    gc.freeze()
    session.config.add_cleanup(gc.unfreeze)
    if "jax" in sys.modules:
        _keep_compiled_programs(session.config)


def _keep_compiled_programs(config: pytest.Config) -> None:
    """Have JAX load what it has compiled before: many tests train the same small networks."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    # One for each process: JAX writes them in place, and another could read half of one.
    place = tempfile.TemporaryDirectory(prefix="gradwatch-compiled-", ignore_cleanup_errors=True)
    config.add_cleanup(place.cleanup)
    jax.config.update("jax_compilation_cache_dir", place.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # It has decided that there is no cache, if anything was compiled so far.
    compilation_cache.reset_cache()


def _make_reading(
    step: int,
    arrays: Mapping[Site, Any],
    *,
    histograms: bool = False,
    epoch: int = 1,
    time: float = 1_700_000_000.25,
) -> Reading:
    with np.errstate(over="ignore"):  # the squares of huge elements
        rows = np.array([summarize(array) for array in arrays.values()]).reshape(-1, 10)
    cells = {i: count_cells(a) for i, a in enumerate(arrays.values())} if histograms else {}
    return Reading(step, epoch, time, list(arrays), Summary.unpack(rows), cells)


@pytest.fixture(scope="session")
def make_reading() -> Callable[..., Reading]:
    """`make_reading(step, {Site: array}, histograms=False)`."""
    return _make_reading


@pytest.fixture
def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that is closed in this test stays one, however long the test takes.

    Otherwise it would be sealed in the background, a second later.
    """
    monkeypatch.setattr(store_writer, "LINGER", 3600.0)


@pytest.fixture
def run(tmp_path: Path) -> RunInfo:
    return RunInfo(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, timeout=60)
    except OSError as fault:
        pytest.skip(f"there is no mount here: {fault}")
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=60)


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a fresh process, with a time limit: it may fork at will."""

    def run_it(code: str, *args: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )

    return run_it


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


@pytest.fixture
def no_complaint(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails the test if gradwatch said anything at all, apart from what it found in the training.

    Where warnings are errors, as in these tests, gradwatch logs what it has to
    say rather than raise into training.
    """
    yield
    said = [r.getMessage() for r in caplog.get_records("call") if r.name == "gradwatch"]
    assert [words for words in said if not words.startswith("gradwatch · ")] == []
