"""Diagnosis: what is wrong with a training run, where, since when, and what to do."""

from gradwatch.diagnose.engine import Diagnosis
from gradwatch.diagnose.facts import ModelFacts
from gradwatch.diagnose.finding import Finding, Severity, Symptom
from gradwatch.diagnose.history import History
from gradwatch.diagnose.replay import diagnose
from gradwatch.diagnose.rule import Threshold, rule
from gradwatch.diagnose.silence import silence

__all__ = [
    "Diagnosis",
    "Finding",
    "History",
    "ModelFacts",
    "Severity",
    "Symptom",
    "Threshold",
    "diagnose",
    "rule",
    "silence",
]
