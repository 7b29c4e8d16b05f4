"""Rows and sites of a single replica, of several in one step; see docs/distributed.md."""

import re
from collections.abc import Sequence

from gradwatch.core import Site

# What is a replica's own is a part of the training of its own: `replica_0`, or
# `generator/replica_0`, which also begins its paths.
SQL = (
    "TRY_CAST(nullif(regexp_extract(\"group\", '(^|/)replica_([0-9]+)$', 2), '') AS INTEGER)"
    " AS replica"
)
"""The replica that a row is of, or NULL."""

_IN_PATH = re.compile(r"(?:^|/)replica_\d+/")


def common(sites: Sequence[Site], path: str) -> list[Site]:
    """The sites of a path without those of single replicas, unless the path names a replica.

    Where both a replica's gradient and the reduced one are recorded, a total of both would
    be wrong.
    """
    if _IN_PATH.search(f"{path}/"):
        return list(sites)
    without = [site for site in sites if not _IN_PATH.search(site.path)]
    return without or list(sites)
