"""Merges the readings of a step that a loop has recorded in several calls."""

from dataclasses import replace

import numpy as np

from gradwatch.core import Reading, Summary
from gradwatch.util.by_identity import ByIdentity


def completes(reading: Reading, other: Reading) -> bool:
    """Whether the other reading adds the loss or the batch to the tensors of the same step."""
    return (
        (reading.step, reading.group, reading.micro_batch)
        == (other.step, other.group, other.micro_batch)
        and other.layout.has_no_tensors
        and not reading.layout.has_no_tensors
    )


def merged(reading: Reading, other: Reading) -> Reading:
    rows = np.concatenate([reading.summary.pack(), other.summary.pack()])
    sites = _both(reading.sites, other.sites)
    return replace(reading, sites=sites, summary=Summary.unpack(rows), members={})


_both = ByIdentity(lambda sites, others: (*sites, *others))
