"""Published rules of others, written anew from their definitions, on the same traces."""

from ..alarms import Tool
from .autotrainer import autotrainer
from .sagemaker import sagemaker
from .terminate_on_nan import terminate_on_nan

RIVALS: dict[str, Tool] = {
    "Keras TerminateOnNaN": terminate_on_nan,
    "SageMaker Debugger rules": sagemaker,
    "AutoTrainer rules": autotrainer,
}
