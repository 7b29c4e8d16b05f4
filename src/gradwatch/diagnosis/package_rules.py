"""Rules that other installed packages bring."""

import sys
import threading
from functools import cache

from gradwatch.diagnosis.rule import RULES
from gradwatch.util import plugins

_LOCK = threading.RLock()


def load_package_rules() -> None:
    """Import the modules that declare them, once."""
    with _LOCK:
        _load()


@cache
def _load() -> None:
    for entry in plugins.installed(plugins.RULES):
        before, is_new = dict(RULES), entry.module not in sys.modules
        loaded = plugins.load(entry)
        declared = [name for name, rule in RULES.items() if before.get(name) is not rule]
        for name in declared:
            # A package that is only installed does not change what the others find.
            if name in before:
                RULES[name] = before[name]
                plugins.leave_out(
                    entry, f"has a rule {name!r}, which is left out: that name is taken."
                )
        if loaded is not None and is_new and not declared:
            plugins.leave_out(entry, f"declares no rule with @rule: {entry.value}")
