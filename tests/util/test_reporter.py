"""What the user is told, and that telling it never raises."""

import threading
import warnings
from types import FunctionType

import pytest

from gradwatch.util import GradwatchWarning, Reporter, say


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def test_an_internal_error_says_what_was_done_and_what_is_lost_once():
    said = []
    reporter = Reporter(said.append)
    for i in range(3):
        reporter.internal_error(ValueError(f"number {i}"), "measuring a step", "that step")
    assert said == [
        "Internal error in gradwatch while measuring a step. Not recorded: that step. "
        "Training is not affected. ValueError: number 0"
    ]


def test_no_exception_is_too_odd_to_be_reported():
    said = []
    Reporter(said.append).internal_error(UnspeakableError(), "measuring a step", "that step")
    assert said[0].endswith("UnspeakableError")

    def refuse(message):
        raise OSError("stderr is gone")

    Reporter(refuse).internal_error(ValueError(), "measuring a step", "that step")


def test_a_guard_reports_and_does_not_raise():
    said = []
    with Reporter(said.append).guard("closing the run", "perhaps the last steps"):
        raise UnspeakableError
    assert "while closing the run. Not recorded: perhaps the last steps." in said[0]


def test_a_warning_points_at_the_line_of_the_user():
    with pytest.warns(GradwatchWarning) as given:
        Reporter().notice("something")
    assert given[0].filename == __file__


def test_a_warning_without_a_line_of_the_user_shows_no_source_line():
    ours = {"say": say, "__name__": "gradwatch.ours"}
    tell = FunctionType(compile("say('something')", "nowhere", "exec"), ours)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()
    (warning,) = given
    text = warnings.formatwarning(
        warning.message, warning.category, warning.filename, warning.lineno
    )
    assert text == "<gradwatch>:1: GradwatchWarning: something\n"


def test_warnings_may_be_errors_and_hooks_may_raise(monkeypatch, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        say("turned into an error")

    def broken(*args, **kwargs):
        raise OSError("stderr is gone")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", broken)
        say("not shown")
    assert [record.message for record in caplog.records] == ["turned into an error", "not shown"]
