"""What both a run and a list of runs say, as HTML."""

import time

from gradwatch.view.data import Health
from gradwatch.view.notebook import markup


def health_markup(health: Health) -> str:
    """Its word, coloured, and its line."""
    colours = {"red": markup.SEVERITIES["error"], "yellow": markup.SEVERITIES["warning"]}
    colours["green"] = markup.GOOD
    word = str(health.condition)
    shown = markup.coloured(word, colours[health.colour]) if health.colour else markup.text(word)
    return f"{shown} {markup.text(health.headline, 80)}" if health.headline else shown


def moment(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
