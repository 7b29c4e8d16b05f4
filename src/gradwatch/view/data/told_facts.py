"""What the user said about a run: settings, tags and a note."""

import json
from collections.abc import Mapping
from typing import Any

from gradwatch.read import Run, settings_of, tags_and_note
from gradwatch.view.data.plain import Answer


def told_facts(run: Run) -> Answer:
    """As `ls` has them: settings by name, those of nested ones joined by dots."""
    tags, note = tags_and_note(run.facts)
    return {"config": settings_of(run.facts), "tags": list(tags), "note": note}


def told_in_words(told: Mapping[str, Any]) -> dict[str, str]:
    """One line each; empty where nothing was said.

    >>> told_in_words({"config": {"lr": 0.1, "net.bias": True}, "tags": ["a", "b"], "note": ""})
    {'note': '', 'tags': 'a, b', 'config': 'lr 0.1, net.bias true'}
    """
    settings = [
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in told["config"].items()
    ]
    return {
        "note": " ".join(told["note"].split()),
        "tags": ", ".join(told["tags"]),
        "config": ", ".join(settings),
    }
