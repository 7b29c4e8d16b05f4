"""Runs one case, and says what was found and how it came out."""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from .catalog import cases
from .run import Run

TIMEOUT = 240
"""Seconds that a run may take."""


def prepare(backend: str) -> None:
    """Of a process that runs programs."""
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    # Tensors are tiny: threads only get into each other's way.
    torch.set_num_threads(1)


def run_case(name: str, seed: int, mode: str) -> dict[str, Any]:
    """One run as a line of the results."""
    case = cases()[name]
    _seed(case.family, 1000 + seed)
    directory = Path(tempfile.mkdtemp(prefix="strangers-"))
    run = Run(directory / "run", seed, mode)
    line: dict[str, Any] = {"name": name, "seed": seed, "mode": mode, "score": math.nan}
    start, cpu = time.perf_counter(), time.process_time()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(TIMEOUT)
    try:
        with warnings.catch_warnings(), _quiet() as printed:
            warnings.simplefilter("ignore")
            line["score"] = float(case.function(run, case.case))
    except Exception as error:
        line["error"] = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
        with _quiet():
            run.close()
    line["seconds"] = round(time.perf_counter() - start, 2)
    line["cpu"] = round(time.process_time() - cpu, 2)
    if mode != "bare":
        line |= _what_was_said(run)
        line["notices"] = [x for x in printed.getvalue().splitlines() if "nternal error" in x]
    shutil.rmtree(directory, ignore_errors=True)
    return line


def _what_was_said(run: Run) -> dict[str, Any]:
    """The findings that were reported, and those that remained; the verdict, if there is one."""
    if run.watcher is None:
        return {"findings": [], "verdict": None}
    found = {}
    remaining = [each for each in run.watcher.findings if not each.explained_by]
    for each in (*run.heard, *remaining):
        key = each.rule, each.layer
        if key not in found or found[key]["severity"] == "info":
            found[key] = {
                "rule": each.rule,
                "severity": str(each.severity),
                "title": each.title,
                "step": each.detected,
                "since": each.since,
                "layer": each.layer or (each.sites[0].path if each.sites else ""),
            }
    verdict = getattr(run.watcher, "verdict", None)
    return {
        "findings": sorted(found.values(), key=lambda each: each["step"]),
        "hidden": sorted({f.rule for f in run.watcher.findings if f.explained_by}),
        "verdict": None if verdict is None else _in_words(verdict),
    }


def _in_words(verdict: Any) -> str:
    return verdict.word + (", does not generalise" if verdict.generalises is False else "")


def _seed(family: str, seed: int) -> None:
    if family.startswith("keras"):
        import keras

        keras.utils.set_random_seed(seed)
    else:
        import random

        import numpy as np
        import torch

        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)


@contextlib.contextmanager
def _quiet():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"took longer than {TIMEOUT} s")
