"""Arguments and options that several commands share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from gradwatch.cli.exit_codes import user_errors
from gradwatch.core import select
from gradwatch.view.data import combined

_Command = Callable[..., Any]


class StepRange(click.ParamType):  # type: ignore[type-arg]
    """A range of steps: `100:200`, `100:`, `:200`, or one step."""

    name = "FROM:TO"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        first, colon, last = str(value).partition(":")
        try:
            low = int(first) if first else -(1 << 62)
            high = (int(last) if last else 1 << 62) if colon else low
        except ValueError:
            self.fail(
                f"{value!r} is not a range of steps such as 100:200, 100: or 100.", param, ctx
            )
        if high < low:
            self.fail(f"{value!r} ends before it begins.", param, ctx)
        return low, high


def run_argument(name: str = "run") -> Callable[[_Command], _Command]:
    """The directory or URL of a run."""
    return click.argument(name, metavar=name.upper(), type=click.Path(path_type=Path))


as_json = click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
strict = click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings.")
kind = click.option("--kind", help="Only this kind: gradient, weight, update, output, loss, ...")
sites = click.option(
    "--sites",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only sites that match, such as 'conv*/kernel'; '!bias' excludes. Can be repeated.",
)
steps = click.option("--steps", type=StepRange(), help="Only these steps: 100:200, 100: or 100.")
rank = click.option("--rank", type=int, help="In a parallel training, only this process.")
wait = click.option("--wait", is_flag=True, help="Wait for a run that has not begun.")
output = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file to write; - is stdout.",
)


def interval(name: str, default: float) -> Callable[[_Command], _Command]:
    """How often to read the run again."""
    return click.option(
        name,
        type=click.FloatRange(min=0.05),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help="How often to read the run.",
    )


def selector(patterns: Sequence[str]) -> select.Selector | None:
    """The selector for the patterns of `--sites`; None without any."""
    with user_errors():
        return combined(patterns)
