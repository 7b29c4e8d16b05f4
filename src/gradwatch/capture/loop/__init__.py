"""Captures the tensors of hand-written training loops, of any framework."""

from gradwatch.capture.autograph import do_not_convert
from gradwatch.capture.loop.loop_source import LoopSource
from gradwatch.capture.loop.outputs_context import NoOutputs, OutputsContext
from gradwatch.capture.loop.reduced_gradients import ReducedGradients
from gradwatch.capture.loop.step_arguments import StepArguments

__all__ = [
    "LoopSource",
    "NoOutputs",
    "OutputsContext",
    "ReducedGradients",
    "StepArguments",
    "do_not_convert",
]
