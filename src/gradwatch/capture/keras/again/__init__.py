"""Steps of `fit` that are kept, so that they can be run again, measured, when one went wrong."""

from gradwatch.capture.keras.again.kept_call import KeptCall
from gradwatch.capture.keras.again.loss_breaks import LossBreaks
from gradwatch.capture.keras.again.make_keeper import make_keeper
from gradwatch.capture.keras.again.reruns import Reruns
from gradwatch.capture.keras.again.step_keeper import StepKeeper
from gradwatch.capture.keras.again.step_search import Rerun, StepSearch, is_harmed
from gradwatch.capture.keras.again.user_errors import UserErrors

__all__ = [
    "KeptCall",
    "LossBreaks",
    "Rerun",
    "Reruns",
    "StepKeeper",
    "StepSearch",
    "UserErrors",
    "is_harmed",
    "make_keeper",
]
