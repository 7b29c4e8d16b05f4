"""`gradwatch rules`: what the rules of the diagnosis look for, and their numbers."""

import click

from gradwatch.cli import options
from gradwatch.cli.exit_codes import OK, user_errors
from gradwatch.cli.output import echo, echo_json, style
from gradwatch.diagnosis import Rule, all_rules
from gradwatch.util import did_you_mean, printable


@click.command(short_help="What the rules look for, their remedies and thresholds.")
@click.argument("name", metavar="[RULE]", required=False)
@options.as_json
def rules(name: str | None, as_json: bool) -> int:
    """List the rules of the diagnosis; or explain RULE, the name in brackets below a finding.

    It says what the rule looks for, what to do about it, which numbers it compares with, and how
    to silence it.
    """
    known = all_rules()
    if name is not None and name not in known:
        with user_errors():
            hint = did_you_mean(name, known) or "List them with gradwatch rules."
            raise ValueError(f"There is no rule {name!r}. {hint}".strip())
    chosen = known if name is None else {name: known[name]}
    if as_json:
        echo_json([rule.facts() for rule in chosen.values()])
    elif name is None:
        for each in known.values():
            echo(f"{style(printable(each.name), 'cyan')}: {printable(each.about)}")
    else:
        _explain(known[name])
    return OK


def _explain(rule: Rule) -> None:
    echo(f"{style(printable(rule.name), 'cyan')} ({rule.severity}): {printable(rule.about)}")
    echo(printable(rule.remedy or "What to do depends on the finding, which says it."))
    if rule.thresholds:
        echo("\nThresholds, which you can change:")
    for name, threshold in rule.thresholds.items():
        echo(f"  {printable(name)} = {threshold.value:g}: {printable(threshold.reason)}")
    words = f'gradwatch.silence("{printable(rule.name)}", because="...")'
    echo(f"\nSilence it: gradwatch.Monitor(..., diagnose=[{words}])")
