"""Runs an unmodified training script for some steps and reports whether it trains."""

from gradwatch.integrations.checking.script import run_script

__all__ = ["run_script"]
