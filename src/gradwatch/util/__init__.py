"""Small helpers that know nothing of training: files, threads, messages, text."""

from gradwatch.util.background import Background
from gradwatch.util.json_type import Json
from gradwatch.util.reporter import GradwatchWarning, Reporter, described, say
from gradwatch.util.suggestions import did_you_mean, suggests_arguments
from gradwatch.util.text import display_width, encodable, listed, printable, shortened, without_root
from gradwatch.util.text_table import TextColumn
from gradwatch.util.words import bytes_, compact, counted, duration, percent, percent_range, when
from gradwatch.util.worker import Worker

__all__ = [
    "Background",
    "GradwatchWarning",
    "Json",
    "Reporter",
    "TextColumn",
    "Worker",
    "bytes_",
    "compact",
    "counted",
    "described",
    "did_you_mean",
    "display_width",
    "duration",
    "encodable",
    "listed",
    "percent",
    "percent_range",
    "printable",
    "say",
    "shortened",
    "suggests_arguments",
    "when",
    "without_root",
]
