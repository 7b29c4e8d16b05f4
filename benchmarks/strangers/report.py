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
    if args.previous:
        # Earlier rules may have been run on some of the programs only.
        both = set(map(_run, judged["these rules"])) & set(map(_run, judged["previous rules"]))
        judged = {
            "these rules": judged["these rules"],
            **{
                f"{name} on {len(both)} runs of both": [x for x in each if _run(x) in both]
                for name, each in judged.items()
            },
        }
    dropped = confirmed["these rules"][1]
    machine = args.machine or _machine()
    text = "\n".join(_tables(judged, dropped, machine, args.note))
    if args.misses:
        text += "\n\n## What was not right\n\n"
        text += "Run, mode and kind of fault; what was said; the verdict.\n\n"
        text += "\n".join(misses(judged["these rules"]))
    print(text)
    if args.write:
        args.write.with_suffix(".md").write_text(text + "\n")
        facts = {
            "machine": machine,
            "note": args.note,
            "dropped": dropped,
            "rows": {name: _numbers(each) for name, each in judged.items()},
        }
        args.write.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def _run(judged: Judged) -> tuple[str, int, str]:
    return judged.line["name"], judged.line["seed"], judged.line["mode"]


def _tables(
    judged: Mapping[str, Sequence[Judged]], dropped: Sequence[str], machine: str, note: str
) -> list[str]:
    ours = judged["these rules"]
    modes = sorted({each.line["mode"] for each in ours})
    numbers = summarise(ours)
    lines = [
        "# Strangers' programs",
        "",
        f"{machine}. {numbers['healthy_programs']} healthy and {numbers['faulty_programs']} "
        f"faulty programs, {numbers['kinds']} kinds of fault. {len(ours)} runs have an outcome "
        f"that confirms the label; {len(dropped)} have not and are left out.",
        *(("", note) if note else ()),
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
    """A line for each run that was not diagnosed rightly, with what was said of it."""
    lines = []
    for each in judged:
        fault, line = each.case.fault, each.line
        run = f"{line['name']}-{line['seed']} {line['mode']}"
        said = ", ".join(f"{a['rule']} @{a['step']} {a['layer']}".strip() for a in each.alarms)
        told = f"{said or 'nothing'}; {line['verdict']}; score {line['score']:.2f}"
        if fault is None and each.alarms:
            lines.append(f"- false alarm, {run}: {told}")
        elif fault is not None and each.right is None:
            what = fault.kind if fault.step == 1 else f"{fault.kind}, from step {fault.step}"
            lines.append(f"- missed, {run} ({what}): {told}")
        elif fault is not None and each.layer_is_right is False:
            where = " or ".join(fault.layer)
            lines.append(f"- layer, {run} ({fault.kind} in {where}): {told}")
    return sorted(lines)


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
