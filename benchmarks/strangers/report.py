"""The results as tables: to read, and as JSON."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalog import split_of
from .judging import Judged, calibration, confirm, summarise
from .kinds import KINDS
from .program import Case
from .runner import read

_COLUMNS = (
    "runs of faulty programs", "right symptom (95 % interval)", "any alarm", "median steps",
    "first bad layer", "healthy runs", "healthy runs with an alarm (95 % interval)",
)  # fmt: skip


def report(args: argparse.Namespace, cases: Mapping[str, Case]) -> None:
    """Print, and perhaps write, how well the diagnosis did."""
    tools = {"these rules": args.file} | (
        {"previous rules": args.previous} if args.previous else {}
    )
    confirmed = {name: confirm(read(file), cases) for name, file in tools.items()}
    judged = {name: each for name, (each, _) in confirmed.items()}
    dropped = confirmed["these rules"][1]
    text = "\n".join(_tables(judged, dropped))
    if args.misses:
        text += "\n\n" + "\n".join(misses(judged["these rules"]))
    print(text)
    if args.write:
        args.write.with_suffix(".md").write_text(text + "\n")
        facts = {
            "machine": _machine(),
            "dropped": dropped,
            "rows": {name: _numbers(each) for name, each in judged.items()},
            "runs": {name: [_facts(run) for run in each] for name, each in judged.items()},
        }
        args.write.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def _tables(judged: Mapping[str, Sequence[Judged]], dropped: Sequence[str]) -> list[str]:
    ours = judged["these rules"]
    modes = sorted({each.line["mode"] for each in ours})
    numbers = summarise(ours)
    lines = [
        "# Strangers' programs",
        "",
        f"{_machine()}. {numbers['healthy_programs']} healthy and {numbers['faulty_programs']} "
        f"faulty programs, {numbers['kinds']} kinds of fault. {len(ours)} runs have an outcome "
        f"that confirms the label; {len(dropped)} have not and are left out.",
    ]
    for mode in modes:
        lines += ["", f"## {_MODES[mode]}", ""]
        lines += _table("rules, families", {
            f"{name}, {split}": [x for x in each if x.line["mode"] == mode and inside(x)]
            for split, inside in _SPLITS.items()
            for name, each in judged.items()
        })  # fmt: skip
        lines += ["", "By family:", ""]
        here = [each for each in ours if each.line["mode"] == mode]
        lines += _table("family", _grouped(here, lambda x: x.case.family))
        lines += [
            "",
            "By kind of fault:",
            "",
            "| kind | right | any alarm | of |",
            "|---|---|---|---|",
        ]
        faulty = [each for each in here if each.case.fault]
        for kind, group in sorted(_grouped(faulty, lambda x: x.case.fault.kind).items()):
            row = summarise(group)
            lines.append(f"| {kind} | {row['right']} | {row['detected']} | {row['faulty']} |")
        counts = calibration(here)
        if counts:
            lines += [
                "",
                "| verdict | runs | of these, better than a constant guess |",
                "|---|---|---|",
            ]
            lines += [f"| {word} | {n} | {hits} |" for word, (n, hits) in counts.items()]
    return lines


_MODES = {"default": "`Monitor(directory)`", "every": "`every=1`"}
_SPLITS: dict[str, Callable[[Judged], bool]] = {
    "held-out families": lambda x: split_of(x.case.family) == "held-out",
    "tuning families": lambda x: split_of(x.case.family) == "tuning",
    "all": lambda x: True,
}


def _table(title: str, rows: Mapping[str, Sequence[Judged]]) -> list[str]:
    lines = [f"| {title} | {' | '.join(_COLUMNS)} |", "|---" * (1 + len(_COLUMNS)) + "|"]
    for name, runs in rows.items():
        if runs:
            row = summarise(runs)
            steps = "-" if row["steps"] is None else f"{row['steps']:.0f}"
            lines.append(
                f"| {name} | {row['faulty']} "
                f"| {_share(row['right'], row['faulty'], row['right_interval'])} "
                f"| {_share(row['detected'], row['faulty'])} | {steps} "
                f"| {row['layers_right']} of {row['layers']} | {row['healthy']} "
                f"| {_share(row['healthy_alarms'], row['healthy'], row['healthy_interval'])} |"
            )
    return lines


def misses(judged: Sequence[Judged]) -> list[str]:
    """A line for each run that was not diagnosed rightly."""
    lines = []
    for each in judged:
        fault, line = each.case.fault, each.line
        run = f"{line['name']}-{line['seed']} {line['mode']}"
        said = "; ".join(f"{a['rule']}@{a['step']} {a['title']!r}" for a in each.alarms)
        told = f"{said or 'nothing'}; verdict: {line['verdict']}; score {line['score']:.2f}"
        if fault is None and each.alarms:
            lines.append(f"- FALSE ALARM {run}: {told}")
        elif fault is not None and each.right is None:
            lines.append(
                f"- MISSED {run} ({fault.kind}, from step {fault.step}): {told}; "
                f"hidden: {line['hidden']}; right: {' | '.join(KINDS[fault.kind])}"
            )
        elif each.layer_is_right is False:
            lines.append(f"- LAYER {run} ({fault.kind}): {told}; right: {fault.layer}")
    return lines


def _grouped(
    judged: Sequence[Judged], key: Callable[[Judged], Any]
) -> dict[str, list[Judged]]:  # fmt: skip
    groups: dict[str, list[Judged]] = {}
    for each in judged:
        groups.setdefault(key(each), []).append(each)
    return groups


def _numbers(judged: Sequence[Judged]) -> dict[str, Any]:
    return {
        mode: {"all": summarise(runs), "calibration": calibration(runs)}
        | {f: summarise(each) for f, each in _grouped(runs, lambda x: x.case.family).items()}
        for mode, runs in _grouped(judged, lambda x: x.line["mode"]).items()
    }


def _facts(each: Judged) -> dict[str, Any]:
    keep = ("name", "seed", "mode", "score", "verdict")
    said = [f"{a['rule']}@{a['step']} {a['layer']}".strip() for a in each.alarms]
    kind = each.case.fault.kind if each.case.fault else None
    return {**{key: each.line.get(key) for key in keep}, "kind": kind, "alarms": said,
            "right": None if each.right is None else each.right["rule"]}  # fmt: skip


def _machine() -> str:
    import os

    models = [
        x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")
    ]
    name = models[0].partition(":")[2].strip() if models else platform.processor()
    return f"{name}, {os.cpu_count()} cores"


def _share(hits: int, of: int, interval: tuple[float, float] | None = None) -> str:
    if not of:
        return "-"
    text = f"{100 * hits / of:.1f} %"
    if interval is None:
        return text
    return f"{text} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"
