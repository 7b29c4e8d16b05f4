"""A training in a process of its own, which writes as far as it is told to.

    python -m tests.view.browser.writer DIRECTORY

Each line of its input is the step to write up to; it answers with that line. At the end of its
input it ends properly.
"""

import sys
from pathlib import Path

from gradwatch.core import Kind, Site
from tests.store.recorded import Recorder

PATHS = ("net/a/kernel", "net/a/bias", "net/b/kernel", "net/b/bias")
SITES = [Site(kind, path) for path in PATHS for kind in (Kind.WEIGHT, Kind.GRADIENT)]


def main() -> None:
    recorder = Recorder(Path(sys.argv[1]), sites=list(SITES))
    written = 0
    for line in sys.stdin:
        recorder.write(range(written + 1, int(line) + 1), histograms=True)
        written = int(line)
        sys.stdout.write(line)
        sys.stdout.flush()
    recorder.close()


if __name__ == "__main__":
    main()
