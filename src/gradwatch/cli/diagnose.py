"""`gradwatch diagnose`: what is wrong with a run, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from gradwatch.cli import options, verdict
from gradwatch.cli.json_text import dumps
from gradwatch.cli.opening import open_run
from gradwatch.cli.text import counted, echo
from gradwatch.diagnose import findings_file
from gradwatch.diagnose.finding import Finding
from gradwatch.diagnose.replay import diagnose as replay
from gradwatch.diagnose.silence import Silence, silence
from gradwatch.store.reader.run import Run


@click.command(short_help="What is wrong with a run, since when, and what to do.")
@options.run_argument()
@click.option("--strict", is_flag=True, help="End with 1 if there are warnings.")
@options.as_json
def diagnose(run: Path, strict: bool, as_json: bool) -> int:
    """Diagnose RUN from what was recorded of it.

    The rules are those that run while training. What was found then, by losses of steps
    that were not recorded, say, is reported too. Rules that the monitor was told to silence
    are silent here as well.

    The exit code is 0 if no error was found, 2 if one was, and with --strict 1 if there
    are warnings.
    """
    with open_run(run) as opened:
        found = findings_of(opened)
        steps, name = len(opened.steps()), opened.name
    if as_json:
        echo(dumps({"run": name, "steps": steps, **verdict.facts_of(found, strict)}, indent=1))
    else:
        verdict.show(name, found, f"{counted(steps, 'measured step')}")
    return verdict.code_of(found, strict)


def findings_of(run: Run) -> list[Finding]:
    """What the rules find in what is recorded, and what was found besides while training."""
    found = replay(run, silence=list(_silences(run.facts))).findings
    known = {(finding.group, finding.rule) for finding in found}
    live = [f for f in findings_file.read(run.path) if (f.group, f.rule) not in known]
    both = [*found, *live]
    return sorted(both, key=lambda f: (bool(f.explained_by), -f.severity.rank, f.detected))


def _silences(facts: Mapping[str, Any]) -> Iterable[Silence]:
    told = facts.get("diagnose")
    for each in (told.get("silences") or ()) if isinstance(told, Mapping) else ():
        where = None if each["where"] == "everywhere" else each["where"]
        yield silence(each["rule"], where, because=each["because"])
