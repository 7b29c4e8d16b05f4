"""A report as Markdown: what fits into a pull request."""

from collections.abc import Mapping, Sequence
from typing import Any

from gradwatch.read import RankStatus, Status
from gradwatch.util import compact, counted, duration, percent
from gradwatch.view.data import cast_columns
from gradwatch.view.report.markdown_text import code, prose, table
from gradwatch.view.text import has_stopped, number_names, rank_cells, rank_counts, trend_bars

MARK = "<!-- gradwatch report -->"
"""The first line, so that a report is recognised."""
MAX_FINDINGS = 40
"""GitHub limits a comment to 65,536 characters."""
MAX_CASTS = 12
_SIGNS = {"error": "🔴 error", "warning": "🟡 warning", "info": "🔵 info"}

Facts = Mapping[str, Any]


def markdown(facts: Facts) -> str:
    """The report, in the Markdown of GitHub, of the facts that `digest` gives."""
    lines = [MARK, f"## {code(facts['run'])}: {_verdict(facts)}", "", _summary(facts), ""]
    if facts["learning"] is not None:
        lines += [f"Verdict: {prose(facts['learning']['text'])}", ""]
    lines += _damage(facts)
    lines += _ranks(facts["processes"])
    if facts["numbers"]:
        lines += _numbers(facts["numbers"])
    lines += _findings(facts["findings"])
    if facts["worst_layers"]:
        lines += _layers(facts)
    if facts["casts"]:
        lines += _casts(facts["casts"])
    if facts["facts"]:
        lines += ["<details><summary>Facts</summary>", ""]
        rows = [[prose(each["name"]), prose(each["value"])] for each in facts["facts"]]
        lines += [*table(["", ""], rows), "", "</details>", ""]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(facts: Facts) -> str:
    parts = [counted(facts[f"{what}s"], what) for what in ("error", "warning") if facts[f"{what}s"]]
    sign = _SIGNS["error" if facts["errors"] else "warning"].partition(" ")[0]
    return f"{sign} {', '.join(parts)}" if parts else "🟢 healthy"


def _summary(facts: Facts) -> str:
    last = facts["last_step"]
    steps = "nothing measured yet"
    if last is not None:
        steps = f"to step {last:,}, {counted(facts['measured_steps'], 'step')} measured"
    parts = [facts["status"], steps, f"took {duration(facts['duration'])}"]
    if len(facts["ranks"]) > 1:
        parts.append(f"numbers of rank {facts['rank']}")
    return " · ".join(parts)


def _ranks(processes: Sequence[Facts]) -> list[str]:
    """The statuses of several processes, and a table of those that have stopped."""
    if not processes:
        return []
    each = [RankStatus(**{**one, "status": Status(one["status"])}) for one in processes]
    lines = [f"### Ranks: {prose(rank_counts(each))}", ""]
    rows = [
        [f"{one.rank}", *(prose(words) for words in rank_cells(one))]
        for one in each
        if has_stopped(one)
    ]
    if rows:
        lines += [*table(["rank", "status", "last step", "when"], rows[:MAX_FINDINGS], "rlrl"), ""]
    return lines


def _damage(facts: Facts) -> list[str]:
    lines = [f"- Damaged: {prose(each)}" for each in facts["damage"]]
    if facts["lost_rows"]:
        lines.append(f"- {counted(facts['lost_rows'], 'row')} could not be written at the time.")
    return [*lines, ""] if lines else []


def _findings(findings: Sequence[Facts]) -> list[str]:
    lines = ["### Findings", ""]
    shown = [f for f in findings if not f["explained_by"]][:MAX_FINDINGS]
    if not shown:
        return [*lines, "Nothing is wrong as far as the rules can tell.", ""]
    rows = []
    for finding in shown:
        when = f"step {finding['since']:,}"
        if finding["until"] is not None:
            when = f"steps {finding['since']:,} to {finding['until']:,}"
        evidence = ", ".join(f"{name} {_word(x)}" for name, x in finding["evidence"].items())
        where = code(finding["layer"]) if finding["layer"] else "model"
        what = f"{prose(finding['title'])} ({code(finding['rule'])})"
        said = [where, when, prose(evidence), prose(finding["remedy"])]
        rows.append([_SIGNS[finding["severity"]], what, *said])
    lines += table(["", "what", "where", "since", "evidence", "what to do"], rows)
    explained = [f for f in findings if f["explained_by"]]
    more = len(findings) - len(explained) - len(shown)
    notes = [f"{counted(more, 'more finding')} not shown."] if more else []
    if explained:
        notes.append(f"{counted(len(explained), 'more finding')} explained by these:")
        notes += [
            f"- {prose(f['title'])} ({code(f['rule'])}, by {code(f['explained_by'])})"
            for f in explained[:MAX_FINDINGS]
        ]
    return [*lines, "", *notes, *[""] * bool(notes)]


def _layers(facts: Facts) -> list[str]:
    rows = [
        [
            code(each["layer"]),
            prose(each["why"]),
            _bars(each["gradient_trend"]),
            compact(each["gradient_l2"]),
            percent(each["gradient_zero_share"]),
            compact(each["weight_l2"]),
            compact(each["update_ratio"]),
            f"{each['nonfinite']:,}",
        ]
        for each in facts["worst_layers"]
    ]
    header = ["layer", "why", "gradient over time", "gradient L2", "zeros", "weight L2"]
    header += ["update / weight", "NaN or Inf"]
    of = f" ({len(rows)} of {counted(len(facts['layers']), 'layer')})"
    return [f"### Layers to look at first{of}", "", *table(header, rows, "lllrrrrr"), ""]


def _casts(casts: Sequence[Facts]) -> list[str]:
    """The tensors of which casts would lose something, most in float16 first."""
    worst = [row for row in casts if any(map(_harm, row["casts"]))]
    worst = sorted(worst, key=lambda row: _harm(row["casts"][0]), reverse=True)[:MAX_CASTS]
    columns = cast_columns(worst)
    names = [f"{prose(row['kind'])} {code(row['path'])}" for row in worst]
    rows = [list(row) for row in zip(names, *columns.values(), strict=True)]
    of = f" ({len(rows)} of {counted(len(casts), 'tensor')})"
    lines = ["<details><summary>Elements that casts would lose" + of + "</summary>", ""]
    if columns:
        lines += table(["tensor", *columns], rows, "l" + "r" * len(columns))
    else:
        lines += ["None."]
    return [*lines, "", "</details>", ""]


def _harm(cast: Facts) -> tuple[float, ...]:
    """What is lost, and what loses bits; empty if nothing is."""
    lost = cast["zero"][1] + cast["overflow"][1], cast["subnormal"][1]
    return lost if any(lost) else ()


def _numbers(numbers: Sequence[Facts]) -> list[str]:
    rows = [
        [
            code(name),
            _bars(each["trend"], log=False),
            compact(each["last"]),
            *_best(each),
            *(compact(each[name]) for name in ("first", "lowest", "highest")),
        ]
        for name, each in zip(number_names(numbers), numbers, strict=True)
    ]
    header = ["name", "over time", "last", "best", "at step", "first", "lowest", "highest"]
    lines = table(header, rows, "llrrrrrr")
    return ["### Losses, metrics and other numbers", "", *lines, ""]


def _best(number: Facts) -> tuple[str, str]:
    if number["best"] is None:
        return "", ""
    return compact(number["best"]), f"{number['best_step']:,}"


def _bars(trend: Facts | None, log: bool = True) -> str:
    line = trend_bars(trend, log)
    # Several spaces are one in HTML, and a gap would no longer be as wide as a bar.
    return f"`{line.replace(' ', '·')}`" if line else ""


def _word(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if float(value).is_integer() else compact(value)
