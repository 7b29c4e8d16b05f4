"""Diagnosis: finds out what is wrong with a training run, where, since when, and what to do."""

from gradwatch.core import ModelFacts
from gradwatch.diagnosis.alerts import Alerts
from gradwatch.diagnosis.engine import Diagnosis
from gradwatch.diagnosis.finding import (
    Finding,
    Severity,
    Symptom,
    counted_alarms,
    how_to_read_more,
    worst_first,
)
from gradwatch.diagnosis.history import History
from gradwatch.diagnosis.live import LiveDiagnosis
from gradwatch.diagnosis.rank_rule import all_rules, facts_of_rules
from gradwatch.diagnosis.replay import (
    KnownFindings,
    all_findings,
    diagnose,
    findings_of,
    known_findings,
)
from gradwatch.diagnosis.rule import Rule, Threshold, rule
from gradwatch.diagnosis.settings import DiagnosisSpec, Settings, as_severity
from gradwatch.diagnosis.silence import silence
from gradwatch.diagnosis.verdict import Verdict

__all__ = [
    "Alerts",
    "Diagnosis",
    "DiagnosisSpec",
    "Finding",
    "History",
    "KnownFindings",
    "LiveDiagnosis",
    "ModelFacts",
    "Rule",
    "Settings",
    "Severity",
    "Symptom",
    "Threshold",
    "Verdict",
    "all_findings",
    "all_rules",
    "as_severity",
    "counted_alarms",
    "diagnose",
    "facts_of_rules",
    "findings_of",
    "how_to_read_more",
    "known_findings",
    "rule",
    "silence",
    "worst_first",
]
