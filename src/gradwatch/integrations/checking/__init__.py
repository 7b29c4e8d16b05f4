"""Runs an unmodified training script under the monitor: for some steps, or to its end."""

from gradwatch.integrations.checking.checked_training import CheckedTraining
from gradwatch.integrations.checking.script import Outcome, run_script
from gradwatch.integrations.checking.script_training import ScriptTraining

__all__ = ["CheckedTraining", "Outcome", "ScriptTraining", "run_script"]
