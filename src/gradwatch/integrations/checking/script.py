"""Runs a training script under the monitor."""

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradwatch.diagnosis import Finding, Verdict
from gradwatch.integrations.checking.checked_training import EnoughSteps
from gradwatch.integrations.checking.import_hook import after_import
from gradwatch.integrations.checking.keras_fit import patch_fit
from gradwatch.integrations.checking.script_training import ScriptTraining
from gradwatch.integrations.checking.torch_steps import patch_optimizers


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


def run_script(script: Path, arguments: Sequence[str], training: ScriptTraining) -> Outcome:
    """Run a script as `python script arguments` would, with monitors.

    Each `fit` of a Keras model is monitored, and each torch optimizer with the module that holds
    its parameters. The script's output passes through.
    """
    failure, code = "", 0
    with _monitored(training), _as_main(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except EnoughSteps:
            pass
        except SystemExit as end:
            failure = f"It ended with the exit code {end.code}." if end.code else ""
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except Exception as error:
            traceback.print_exc()
            failure, code = f"{type(error).__name__}: {error}", 1
    training.close()
    return Outcome(training.findings, training.steps, training.verdict, failure, code)


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
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.absolute().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
