"""Running a training script for a number of steps under the monitor."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradwatch.diagnosis import Finding
from gradwatch.integrations.checking.after_import import after_import
from gradwatch.integrations.checking.course import Course, EnoughSteps
from gradwatch.integrations.checking.keras_fit import watch_fits
from gradwatch.integrations.checking.torch_steps import watch_optimizers


@dataclass(frozen=True)
class Outcome:
    """What came of a script.

    Attributes:
        findings: what was found, the worst first.
        steps: how many training steps were run.
        failure: what the script itself ended with, in words; empty if it did not fail.
    """

    findings: Sequence[Finding]
    steps: int
    failure: str = ""


def run_script(script: Path, arguments: Sequence[str], steps: int, directory: Path) -> Outcome:
    """Run a script as `python script arguments` would, watch what it trains, and end it.

    Each `fit` of a Keras model is watched, and each torch optimizer with the module that
    holds its parameters. The script's output passes through.

    Args:
        script: the file.
        arguments: for the script.
        steps: after how many training steps it is ended.
        directory: where the run is recorded.
    """
    course = Course(directory, steps)
    failure = ""
    with _watched(course), _as_main(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except EnoughSteps:
            pass
        except SystemExit as end:
            failure = f"It ended with the exit code {end.code}." if end.code else ""
        except Exception as error:
            traceback.print_exc()
            failure = f"{type(error).__name__}: {error}"
    course.close()
    return Outcome(course.findings, course.steps, failure)


@contextmanager
def _watched(course: Course) -> Iterator[None]:
    with ExitStack() as undone:

        def once(watch: Callable[[Any, Course], Callable[[], None]]) -> Callable[[Any], None]:
            def do(module: Any) -> None:
                undone.callback(watch(module, course))

            return do

        actions = {"keras": once(watch_fits), "torch": once(watch_optimizers)}
        with after_import(actions):
            yield


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
