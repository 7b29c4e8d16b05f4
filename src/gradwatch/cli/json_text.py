"""Strict JSON, whatever the numbers are: what commands print as `--json`."""

from gradwatch.view.glance.json_text import dumps as dumps
from gradwatch.view.glance.json_text import plain as plain
