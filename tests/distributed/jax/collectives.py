"""Counting the collectives of a compiled program."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

_NAMES = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
_CALL = re.compile(rf"= .*? ({_NAMES})(?:-start)?\(")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRUE_FALSE = re.compile(r"(?:true|false)_computation=%?([\w.\-]+)")


def of(function: Any, *args: Any) -> Counter[str]:
    """How many of each kind one run of a jitted function takes."""
    return in_text(function.lower(*args).compile().as_text())


def in_text(text: str) -> Counter[str]:
    """The same of a compiled program's text; of the branches of a conditional, one is run."""
    found: dict[str, Counter[str]] = {}
    branches: dict[str, list[list[str]]] = {}
    name = ""
    for line in text.splitlines():
        start = _COMPUTATION.match(line.strip())
        if start:
            name = start[1]
        call = _CALL.search(line)
        if call:
            found.setdefault(name, Counter())[call[1]] += 1
        if " conditional(" in line:
            listed = _BRANCHES.search(line)
            both = re.findall(r"[\w.\-]+", listed[1]) if listed else _TRUE_FALSE.findall(line)
            branches.setdefault(name, []).append(both)
    inside = {branch for several in branches.values() for both in several for branch in both}
    total = sum((c for n, c in found.items() if n not in inside), Counter())
    for several in branches.values():
        for both in several:
            counts = [found.get(branch, Counter()) for branch in both]
            total += max(counts, key=lambda count: count.total())
    return total
