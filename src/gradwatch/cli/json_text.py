"""Strict JSON, whatever the numbers are: what commands print as `--json`."""

from gradwatch.view.glance import dumps as dumps
from gradwatch.view.glance import plain as plain
