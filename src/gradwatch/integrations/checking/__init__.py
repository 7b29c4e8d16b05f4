"""Running a training script, without editing it, to see whether it trains."""

from gradwatch.integrations.checking.script import run_script

__all__ = ["run_script"]
