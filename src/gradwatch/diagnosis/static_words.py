"""Words that the checks of a model's structure share."""

from gradwatch.diagnosis.finding import Severity
from gradwatch.diagnosis.history import History


def about_severity(name: str, severity: Severity) -> str:
    # A finding keeps its first step: as a warning, it is another one.
    return f"{name}, nothing learned" if severity is Severity.WARNING else name


def since_severity(history: History, severity: Severity) -> int:
    """Advice that becomes a warning explains nothing that was there before."""
    return history.step if severity is Severity.WARNING else history.first_step
