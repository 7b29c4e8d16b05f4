"""The result as tables: to read, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .alarms import Tool
from .ours import diagnose
from .rivals import RIVALS
from .scoring import Judged, judge, summarise
from .trace import load_all

RESULTS = Path(__file__).parent.parent / "results"
TOOLS: dict[str, Tool] = {"gradwatch": diagnose, **RIVALS}


# What has been looked at says how well it was fitted, not how well it will do.
_SEEN = {
    "tuning": (
        "Rules, thresholds and some labels were adjusted while looking at these runs: the numbers "
        "of gradwatch are not an estimate of how it does on others.",
        "",
    )
}


def report(folder: Path, half: str, write: bool = False, misses: bool = False) -> None:
    """Diagnose all confirmed runs below a folder with every tool, and print how well."""
    judged: dict[str, list[Judged]] = {name: [] for name in TOOLS}
    for trace in load_all(folder):
        for name, tool in TOOLS.items():
            judged[name].append(judge(trace.label, tool(trace)))
    results = {name: summarise(each) for name, each in judged.items()}
    text = as_text(half, results)
    print(text)
    if misses:
        print("\n".join(not_right(judged["gradwatch"])))
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"faults-{half}.md").write_text(text + "\n")
        (RESULTS / f"faults-{half}.json").write_text(json.dumps(results, indent=1) + "\n")


def as_text(half: str, results: dict[str, Any]) -> str:
    """The tables in Markdown."""
    any_tool = results["gradwatch"]
    faulty, healthy = any_tool["faulty"], any_tool["healthy"]
    lines = [
        f"# Fault benchmark, {half} half", "",
        f"{faulty['runs']} runs of {faulty['programs']} faulty programs of "
        f"{len(any_tool['kinds'])} kinds, {healthy['runs']} runs of {healthy['programs']} healthy "
        "programs. Only runs whose measured outcome confirms the label.", "",
        *_SEEN.get(half, ()),
        "| tool | right symptom | any alarm | first alarm right | alarms per faulty run "
        "| healthy runs with an alarm (95 % interval) | alarms per healthy run |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, each in results.items():
        f, h = each["faulty"], each["healthy"]
        low, high = h["interval"]
        lines.append(
            f"| {name} | {_percent(f['right'])} | {_percent(f['detected'])} "
            f"| {_percent(f['first_alarm_right'])} | {_number(f['alarms_per_run'])} "
            f"| {_percent(h['share'])} ({_percent(low)} to {_percent(high)}) "
            f"| {_number(h['alarms_per_run'])} |"
        )
    lines += [
        "",
        "Steps from when the fault can first be seen to the right alarm, counting both; a run "
        "without one counts as endless. Median / 95th percentile; `-` is endless.", "",
        "| tool | visible in gradients or outputs | not finite | all | first bad layer right |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, each in results.items():
        f = each["faulty"]
        lines.append(
            f"| {name} | {_steps(f['steps_visible'])} | {_steps(f['steps_non_finite'])} "
            f"| {_steps(f['steps'])} | {_percent(f['layer_right'])} of {f['layers']} |"
        )
    lines += ["", "Right symptom by kind:", "", f"| kind | runs | {' | '.join(results)} |"]
    lines.append("|---" * (2 + len(results)) + "|")
    for kind, numbers in any_tool["kinds"].items():
        shares = [_percent(each["kinds"][kind]["right"]) for each in results.values()]
        lines.append(f"| {kind} | {numbers['runs']} | {' | '.join(shares)} |")
    return "\n".join(lines)


def not_right(judged: list[Judged]) -> list[str]:
    """A line for each run that was not diagnosed rightly."""
    lines = []
    for each in judged:
        label = each.label
        run = f"{label['program']}-{label['seed']}"
        said = ", ".join(f"{a.rule}@{a.step} {a.layer}".strip() for a in each.alarms) or "nothing"
        if label["healthy"] and each.alarms:
            lines.append(f"FALSE ALARM {run}: {said}")
        elif not label["healthy"] and each.right is None:
            wanted = " | ".join(label["symptoms"])
            lines.append(f"MISSED      {run} ({label['kind']}): {said}; right: {wanted}")
        elif each.layer_is_right is False:
            lines.append(f"LAYER       {run} ({label['kind']}): {said}; right: {label['layer']}")
    return lines


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _steps(steps: dict[str, float | None]) -> str:
    return " / ".join("-" if value is None else f"{value:.0f}" for value in steps.values())
