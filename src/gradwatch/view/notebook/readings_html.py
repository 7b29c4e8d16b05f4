"""The readings of a step, and a diagnosis, as HTML."""

from collections.abc import Sequence
from typing import Any

from gradwatch.core import VALUE, Reading, Site, Summary, finite, statistic
from gradwatch.diagnosis import Diagnosis
from gradwatch.util import compact, counted
from gradwatch.view.notebook import markup
from gradwatch.view.notebook.run_html import finding_html

MAX_ROWS, MAX_FINDINGS = 100, 20
_STATISTICS = ("l2", "mean", "std", "min", "max", "zeros", "nan")


def readings_html(readings: Sequence[Reading], note: str = "") -> str:
    """A table of all sites of each reading."""
    parts = [markup.line(markup.text(note))] if note else []
    for reading in readings:
        title = markup.line(f"<b>{markup.text(repr(reading))}</b>")
        pairs = list(enumerate(reading.sites))
        rows = [_row(site, reading.summary[i]) for i, site in pairs[:MAX_ROWS]]
        header = ["kind", "path", "elements", *_STATISTICS]
        parts += [title, markup.table(header, rows, frozenset({0, 1}))]
        if len(pairs) > MAX_ROWS:
            more = counted(len(pairs) - MAX_ROWS, "more site")
            parts.append(markup.line(markup.text(f"and {more}"), style=markup.MUTED))
    return markup.whole(*parts)


def _row(site: Site, summary: Summary) -> list[str]:
    name = [markup.text(site.kind), markup.text(site.path, 80)]
    if site.kind.is_number:
        return [*name, "", compact(float(VALUE(summary))), *[""] * (len(_STATISTICS) - 1)]
    count = int(summary.count)
    numbers = {each: float(statistic(each, summary)) for each in _STATISTICS}
    cells = [f"{count:,}", *(_number(each, x, summary) for each, x in numbers.items())]
    return [*name, *cells]


def _number(name: str, number: float, summary: Any) -> str:
    if name in ("zeros", "nan"):
        return f"{int(number):,}" if summary.count else "-"
    if not summary.count:
        return "-"
    return compact(number) if finite(summary) else "NaN"


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The findings with their remedies, the worst first."""
    found = diagnosis.findings
    shown = [finding_html(finding) for finding in found[:MAX_FINDINGS]]
    if len(found) > MAX_FINDINGS:
        more = counted(len(found) - MAX_FINDINGS, "more finding")
        shown.append(markup.line(markup.text(f"and {more}"), style=markup.MUTED))
    if not found:
        shown.append(markup.line(markup.text("No findings."), style=f"color:{markup.GOOD}"))
    return markup.whole(*shown)
