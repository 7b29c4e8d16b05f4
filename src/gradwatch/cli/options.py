"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from gradwatch.cli.faults import Fault
from gradwatch.core import select
from gradwatch.view.glance import patterns as patterns_

_Command = Callable[..., Any]


class Steps(click.ParamType):  # type: ignore[type-arg]
    """A stretch of steps: `100:200`, `100:`, `:200`, or one step."""

    name = "FROM:TO"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        first, colon, last = str(value).partition(":")
        try:
            low = int(first) if first else -(1 << 62)
            high = (int(last) if last else 1 << 62) if colon else low
        except ValueError:
            self.fail(f"{value!r} is no stretch of steps such as 100:200, 100: or 100.", param, ctx)
        if high < low:
            self.fail(f"{value!r} ends before it begins.", param, ctx)
        return low, high


def run_argument(name: str = "run") -> Callable[[_Command], _Command]:
    """A run's directory."""
    return click.argument(name, metavar=name.upper(), type=click.Path(path_type=Path))


as_json = click.option("--json", "as_json", is_flag=True, help="Strict JSON instead of text.")
kind = click.option("--kind", help="Only that kind: gradient, weight, update, output, loss, ...")
sites = click.option(
    "--sites",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only sites that it selects: 'conv*/kernel', '!bias'. May be given again.",
)
steps = click.option("--steps", type=Steps(), help="Only these steps: 100:200, 100: or 100.")
rank = click.option("--rank", type=int, help="Of a parallel training, only that process.")


def selector(patterns: Sequence[str]) -> select.Selector | None:
    """What the patterns of `--sites` select; None without any.

    Raises:
        Fault: one of them is no pattern.
    """
    try:
        return patterns_.selector(patterns)
    except ValueError as error:
        raise Fault(str(error)) from None
