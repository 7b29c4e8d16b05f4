"""Small helpers that know nothing of training: files, threads, messages, text tables."""

from gradwatch.util.background import Background
from gradwatch.util.reporter import GradwatchWarning, Reporter, say
from gradwatch.util.text_table import Column, breadth, printable, shortened, show
from gradwatch.util.worker import Worker

__all__ = [
    "Background",
    "Column",
    "GradwatchWarning",
    "Reporter",
    "Worker",
    "breadth",
    "printable",
    "say",
    "shortened",
    "show",
]
