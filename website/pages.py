"""Pages that are generated from the code: rules, API and command line."""

import inspect
from importlib import import_module

import click

from gradwatch.diagnosis.rank_rule import RANK_RULES
from website.navigation import API

SILENCE = """\
## Change a threshold, or silence it

```python
gradwatch.Monitor("runs/a", diagnose=[{{"{name}": {{{threshold}}}}}])
gradwatch.Monitor("runs/a", diagnose=[gradwatch.silence("{name}", because="by design")])
```

The same for a recorded run: `gradwatch.diagnose(run, thresholds=..., silence=...)`. With a pattern
of paths, both apply to some layers only, see [Diagnosis](../diagnosis.md#thresholds-and-silence).
"""
SILENCE_ALONE = """\
## Silence it

```python
gradwatch.diagnose(run, silence=gradwatch.silence("{name}", because="by design"))
```
"""


def rule_page(rule, written):
    """A rule's page: what is written about it, and what the code says."""
    title, _, rest = written.partition("\n")
    lines = [title, "", f"**{rule.about}** Severity: {rule.severity}.", rest.rstrip()]
    if rule.remedy:
        lines += ["", "## Remedy", "", rule.remedy]
    if rule.thresholds:
        lines += ["", "## Numbers", "", "| threshold | value | why |", "|---|---|---|"]
        lines += [
            f"| `{name}` | {threshold.value:g} | {threshold.reason} |"
            for name, threshold in rule.thresholds.items()
        ]
    if rule.name in RANK_RULES or not rule.thresholds:
        silence = SILENCE_ALONE.format(name=rule.name)
    else:
        first = next(iter(rule.thresholds))
        value = f'"{first}": {rule.thresholds[first].value:g}'
        silence = SILENCE.format(name=rule.name, threshold=value)
    return "\n".join([*lines, "", silence])


def api_pages():
    """The pages of the API reference by path; mkdocstrings fills them in."""
    return {
        f"reference/{file}.md": "\n\n".join(
            [f"# {title}", *(f"::: {_target(name)}" for name in names)]
        )
        + "\n"
        for file, title, names in API
    }


def _target(name):
    """Where the object is defined: `gradwatch.open` is imported late, which griffe does not see."""
    *modules, last = f"gradwatch.{name}".split(".")
    found = getattr(import_module(".".join(modules)), last)
    return found.__name__ if inspect.ismodule(found) else f"{found.__module__}.{found.__name__}"


def commands_page():
    """All commands with their arguments and options, as click has them."""
    from gradwatch.cli.main import main

    lines = ["# All commands and options", "", "`gradwatch COMMAND --help` prints the same."]
    for name, command in main.commands.items():
        context = click.Context(command, info_name=f"gradwatch {name}")
        usage = " ".join(command.collect_usage_pieces(context))
        lines += ["", f"## {name}", "", "```", f"gradwatch {name} {usage}", "```", ""]
        lines += [inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")]
        records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
        options = [record for record in records if record]
        if options:
            lines += ["", "| option | |", "|---|---|"]
            lines += [f"| `{_cell(option)}` | {_cell(text)} |" for option, text in options]
    return "\n".join(lines) + "\n"


def _cell(text):
    return text.replace("|", "\\|")
