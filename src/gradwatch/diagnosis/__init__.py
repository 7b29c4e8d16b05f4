"""Diagnosis: what is wrong with a training run, where, since when, and what to do."""

from gradwatch.core.model_facts import ModelFacts
from gradwatch.diagnosis.engine import Diagnosis
from gradwatch.diagnosis.finding import Finding, Severity, Symptom
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.replay import diagnose
from gradwatch.diagnosis.rule import Threshold, rule
from gradwatch.diagnosis.silence import silence

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
