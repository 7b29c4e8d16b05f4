"""What agents can ask about runs: the commands of the command line, as JSON of a bounded size."""

import io
import json
import threading
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import click

from gradwatch.cli.compare import compare
from gradwatch.cli.diagnose import diagnose
from gradwatch.cli.exit_codes import CommandError, user_errors
from gradwatch.cli.ls import ls
from gradwatch.cli.show import show
from gradwatch.read import Run
from gradwatch.read import open as open_place
from gradwatch.util import did_you_mean
from gradwatch.view.data import bounded, to_json

MAX_BYTES = 16_000
"""The size of an answer: a model reads all of it."""


class AgentTools:
    """The tools, about the runs in a directory, or about one run.

    A run is named as `list_runs` names it, and no part of a request ever becomes part of a path.
    Answers are those of the commands with `--json`, cut to `MAX_BYTES` and never empty of what was
    cut: `left_out` counts it. Errors are `CommandError`s.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        # The commands print to `sys.stdout`, of which there is one.
        self._lock = threading.Lock()
        self._names()

    def list_runs(self, contains: str = "") -> str:
        """List the recorded trainings: status, health, verdict, last step, losses, settings.

        Begin here: the other tools take the names of runs from this list. With `contains`, only
        runs whose name has that text.
        """
        entries = self._asked(ls, [str(self._place)])
        return self._answer({"runs": [e for e in entries if contains in e["name"]]})

    def summary(self, run: str) -> str:
        """Show a training: its health, losses, numbers, gradients and layers in network order."""
        return self._answer(self._asked(show, [self._path(run)]))

    def findings(self, run: str) -> str:
        """Diagnose a training: what is wrong, since which step, in which layer, and what to do."""
        return self._answer(self._asked(diagnose, [self._path(run)]))

    def series(self, run: str, kind: str = "gradient", sites: str = "", statistic: str = "") -> str:
        """Show a statistic over time: a row for each site, as at most 100 values.

        Args:
            kind: gradient, weight, update, output, loss, ...
            sites: a pattern of paths such as `*/dense/kernel`; all sites by default.
            statistic: l2, rms, mean, std, max, zeros, nan, ...
        """
        options = _options(kind=kind, sites=sites, statistic=statistic)
        return self._answer(self._asked(show, [self._path(run)], options))

    def compare(
        self,
        runs: list[str],
        kind: str = "",
        sites: str = "",
        statistic: str = "",
        align: str = "step",
    ) -> str:
        """Compare a statistic of each site of the first run with that of the others.

        Args:
            runs: the names of two runs or more.
            align: `step` compares the same steps, `fraction` the same fraction of training.
        """
        options = _options(kind=kind, sites=sites, statistic=statistic, align=align)
        return self._answer(self._asked(compare, list(map(self._path, runs)), options))

    def _names(self) -> dict[str, str]:
        """The path of each run by its name."""
        with user_errors(), open_place(self._place) as found:
            if isinstance(found, Run):
                return {found.name: str(self._place)}
            return {name: str(self._place / name) for name in found.names}

    def _path(self, name: str) -> str:
        names = self._names()
        if name not in names:
            raise CommandError(
                f"There is no run {name!r}. {did_you_mean(name, names)}list_runs names all runs."
            )
        return names[name]

    def _asked(
        self, command: click.Command, arguments: Sequence[str], options: Sequence[str] = ()
    ) -> Any:
        with self._lock:
            said = io.StringIO()
            with redirect_stdout(said), redirect_stderr(io.StringIO()):
                try:
                    command.main(
                        ["--json", *options, "--", *arguments],
                        prog_name=str(command.name),
                        standalone_mode=False,
                    )
                except click.ClickException as error:
                    raise CommandError(error.format_message()) from None
        return json.loads(said.getvalue())

    def _answer(self, found: dict[str, Any]) -> str:
        return to_json(bounded(found, MAX_BYTES))


def _options(**given: str) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items() if value]
