"""Runs a training script under the monitor."""

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gradwatch.diagnosis import Finding, Verdict
from gradwatch.integrations.checking.checked_training import EnoughSteps
from gradwatch.integrations.checking.import_hook import after_import
from gradwatch.integrations.checking.keras_fit import patch_fit
from gradwatch.integrations.checking.script_training import ScriptTraining
from gradwatch.integrations.checking.torch_steps import patch_optimizers

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells tell it."""


@dataclass(frozen=True)
class Outcome:
    """What came of a script.

    Attributes:
        findings: those of all its models.
        steps: how many steps were seen.
        verdict: on its only model; None if there are several.
        failure: how it failed itself; empty if it did not.
        exit_code: the script's own.
    """

    findings: Sequence[Finding]
    steps: int
    verdict: Verdict | None = None
    failure: str = ""
    exit_code: int = 0


def run_script(script: Path | str, arguments: Sequence[str], training: ScriptTraining) -> Outcome:
    """Run a script as `python script arguments` would, or a module as `python -m`, with monitors.

    Each `fit` of a Keras model is monitored, and each torch optimizer with the module that holds
    its parameters. The script's output passes through, and its tracebacks are its own. A module is
    given by its name, a script as a `Path`.
    """
    failure, code = "", 0
    with _monitored(training), _as_main(script, arguments):
        try:
            if isinstance(script, Path):
                # Absolute, as the tracebacks of Python say it.
                runpy.run_path(str(script.absolute()), run_name="__main__")
            else:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
        except EnoughSteps:
            pass
        except SystemExit as end:
            failure = f"It ended with the exit code {end.code}." if end.code else ""
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except (Exception, KeyboardInterrupt) as error:
            own = _own_part(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(own), own)
            failure = f"{type(error).__name__}: {error}"
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    training.close()
    return Outcome(training.findings, training.steps, training.verdict, failure, code)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script on, without what has started it."""
    own = trace
    while own is not None and own.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        own = own.tb_next
    return own


@contextmanager
def _monitored(training: ScriptTraining) -> Iterator[None]:
    with ExitStack() as undo:
        actions = {
            "keras": lambda keras: undo.callback(patch_fit(keras, training)),
            "torch": lambda torch: undo.callback(patch_optimizers(torch, training)),
        }
        with after_import(actions):
            yield


@contextmanager
def _as_main(script: Path | str, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    folder = script.absolute().parent if isinstance(script, Path) else Path.cwd()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
