"""What a row takes: bytes in the journal and sealed, rates of appending and sealing."""

import tempfile
import time
from pathlib import Path

import numpy as np
import scale_run
from store import readings, site_names

from gradwatch.core import Histogram, Kind, Reading, Site
from gradwatch.store import journal, manifest, segments
from gradwatch.store.writer import StoreWriter

NEVER = 1 << 40


def clocks():
    """Seconds by the clock and of this process's own work: others may be at work, too."""
    return np.array([time.perf_counter(), time.process_time()])


def with_histograms(count, steps, elements=4096):
    """Readings with histograms of normally distributed tensors."""
    rng = np.random.default_rng(0)
    sites = [Site(Kind.GRADIENT, f"model/block_{i}/kernel") for i in range(count)]
    for given in readings(sites, steps):
        drawn = rng.normal(0, 0.01, (count, elements)).astype("float32")
        cells = {i: Histogram.of(tensor).cells for i, tensor in enumerate(drawn)}
        yield Reading(given.step, given.epoch, given.time, sites, given.summary, cells)


def own_rows(steps):
    """What is a rank's own, step by step."""
    sites, _ = scale_run.own(100_000)
    return scale_run.of_rank(sites, 1, range(1, steps + 1))


def measure_one(given):
    """Write readings to one journal and seal it; bytes a row, and seconds for all."""
    given = list(given)
    rows = sum(map(len, given))
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        writer = StoreWriter(directory, rows_a_journal=NEVER, bytes_a_journal=NEVER)
        begun = clocks()
        for reading in given:
            writer.write(reading)
        appending = clocks() - begun
        (path,) = directory.glob("journal-*.gwj")
        written = path.stat().st_size
        begun = clocks()
        read = journal.Journal(path)
        read.advance()
        entry = segments.write(read, directory)
        sealing = clocks() - begun
        begun = clocks()
        manifest.add(directory, read, entry)
        naming = clocks() - begun
        (named,) = directory.glob("manifest-*.json")
        sealed = {table: about["bytes"] for table, about in entry["tables"].items()}
        return {
            "rows": rows,
            "steps": len(given),
            "journal bytes": written,
            "sealed bytes": sealed,
            "manifest bytes": named.stat().st_size,
            "append s": appending.tolist(),
            "seal s": sealing.tolist(),
            "manifest s": naming.tolist(),
        }


def measure(quick):
    """Of each kind of rows; `quick` with fewer of them."""
    few = 10 if quick else 1
    sites = site_names(10_000 // few)
    return {
        "summaries": measure_one(readings(sites, 52)),
        "summaries, three steps of 200,000": measure_one(
            readings(scale_run.network(100_000 // few), 3)
        ),
        "with histograms": measure_one(with_histograms(1_000 // few, 20)),
        "a rank's own, 10,000 steps": measure_one(own_rows(10_000 // few)),
        "a rank's own, 100 steps": measure_one(own_rows(100)),
    }


def a_row(one, *tables):
    """Sealed bytes a row of summaries, of these tables or all."""
    sealed = one["sealed bytes"]
    return sum(sealed[t] for t in tables or sealed) / one["rows"]
