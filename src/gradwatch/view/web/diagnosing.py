"""Diagnoses one run and writes the findings to stdout, a line of JSON each.

python -m gradwatch.view.web.diagnosing RUN
"""

from __future__ import annotations

import os
import sys

from gradwatch.diagnosis import findings_of
from gradwatch.read import Run


def main(path: str) -> None:
    """Diagnose the run in a directory."""
    if hasattr(os, "nice"):
        os.nice(10)  # Whoever looks at the run comes first, and so does a training.
    with Run(path) as run:
        for finding in findings_of(run):
            sys.stdout.write(f"{finding.to_json()}\n")


if __name__ == "__main__":
    main(sys.argv[1])
