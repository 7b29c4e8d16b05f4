"""A run of 10,000 sites and 1,000 steps: what it takes to write, to keep and to read back.

    python benchmarks/store.py                            # some minutes
    python benchmarks/store.py --steps 100 --rival-steps 10

Three ways to keep the same numbers, ten a site and step: the run store; TensorBoard
event files, written by gradwatch's own event writer and read by TensorBoard's own
`EventAccumulator`; a CSV file, written by the `CSV` sink and read with Python's `csv`.
The rivals write fewer steps, as they would take too long: sizes and writing
times are compared per row, and their reading times are of the fewer steps, so the
ratios of reading times are lower bounds.
"""

import argparse
import csv
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import gradwatch
from gradwatch.core import FIELDS, Kind, Reading, Site, Summary
from gradwatch.sinks import CSV, RunInfo
from gradwatch.sinks.event_file import EventFile, scalar, summary_event
from gradwatch.store import sealing
from gradwatch.store.writer import StoreWriter

RESULTS = Path(__file__).parent / "results"


def site_names(count):
    parts = [(kind, part) for kind in (Kind.WEIGHT, Kind.GRADIENT) for part in ("kernel", "bias")]
    return [
        Site(parts[i % 4][0], f"model/block_{i // 4}/dense/{parts[i % 4][1]}") for i in range(count)
    ]


def readings(sites, steps):
    """Random walks of statistics of float32 tensors: the last bits are noise, as in training."""
    rng = np.random.default_rng(0)
    count = rng.choice([64, 4096, 65536], len(sites)).astype(float)
    scale = np.exp(rng.normal(-4, 1, len(sites)))
    mean = np.zeros(len(sites))
    for step in range(1, steps + 1):
        scale = (scale * np.exp(rng.normal(0, 0.05, len(sites)))).astype("float32").astype(float)
        mean += rng.normal(0, 0.01, len(sites)) * scale
        rows = {
            "count": count,
            **dict.fromkeys(("nan", "posinf", "neginf"), np.zeros(len(sites))),
            "zeros": rng.binomial(64, 0.01, len(sites)).astype(float),
            "sum": mean * count,
            "sum_abs": 0.8 * scale * count,
            "sum_squares": (scale**2 + mean**2) * count,
            "min": (mean - 4 * scale),
            "max": (mean + 4 * scale),
        }
        rows = {name: rows[name].astype("float32").astype(float) for name in FIELDS}
        yield Reading(step, 1 + step // 100, 1.7e9 + 0.1 * step, sites, Summary(*rows.values()))


def resident():
    """Megabytes of memory in use."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def size(directory):
    return sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())


def timed(call, rounds=1):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), times, result


def write_all(given, write):
    """Seconds spent in `write`, without those of making up the numbers, and memory on the way."""
    seconds, memory = 0.0, []
    for reading in given:
        start = time.perf_counter()
        write(reading)
        seconds += time.perf_counter() - start
        if reading.step % 25 == 0:
            memory.append(resident())
    return seconds, memory


def store(directory, sites, steps, rounds):
    writer = StoreWriter(directory)
    writing, memory = write_all(readings(sites, steps), writer.write)
    start = time.perf_counter()
    writer.close()
    while list(directory.glob("journal-*.gwj")):
        sealing.sealer.finish(time.monotonic() + 60)
        time.sleep(0.05)
    sealing_rest = time.perf_counter() - start
    site, step = sites[len(sites) // 3], steps // 2
    opening, _, run = timed(lambda: gradwatch.open(directory))
    # Each first time is said apart: there DuckDB reads files that it has not seen.
    results = {"open": [opening]}
    for name, call in {
        "one series": lambda: run.series(site.kind, site.path, "l2"),
        "one step": lambda: run.at(step),
    }.items():
        results[name] = timed(call, rounds)[1]

    def fresh_heatmap():
        # Without what an earlier one has left in memory: the files are merged anew.
        run._row_tables = type(run._row_tables)()
        return run.heatmap(Kind.GRADIENT, "l2")

    run.steps()
    results["one heatmap, merged anew"] = timed(fresh_heatmap, rounds)[1]
    results["the same heatmap again"] = timed(lambda: run.heatmap(Kind.GRADIENT, "l2"), rounds)[1]
    half = steps // 2
    results["the same, zoomed to half"] = timed(
        lambda: run.heatmap(Kind.GRADIENT, "l2", steps=(1, half)), rounds
    )[1]
    found_steps, found = run.series(site.kind, site.path, "l2")
    true = [np.sqrt(r.summary.sum_squares[len(sites) // 3]) for r in readings(sites, steps)]
    assert found_steps.tolist() == list(range(1, steps + 1))
    assert found.tolist() == true, "what was read is not what was written"
    run.close()
    return {
        "steps": steps,
        "bytes a row": size(directory) / (len(sites) * steps),
        "bytes": size(directory),
        "write us a row": 1e6 * writing / (len(sites) * steps),
        "write ms a step": 1e3 * writing / steps,
        "end s": sealing_rest,
        "memory MB": memory,
        "read s": results,
    }


def tensorboard(directory, sites, steps, names, rounds):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    directory.mkdir(parents=True, exist_ok=True)
    events = EventFile(directory)
    tags = {name: [f"{s.kind}_{name}/{s.path}" for s in sites] for name in names}

    def write(reading):
        values = [
            scalar(tag, float(value))
            for name in names
            for tag, value in zip(tags[name], reading.statistic(name), strict=True)
        ]
        events.append([summary_event(reading.step, reading.time, values)])

    writing, _ = write_all(readings(sites, steps), write)
    events.close()
    tag = tags[names[0]][len(sites) // 3]

    def read():
        loaded = EventAccumulator(str(directory), size_guidance={"scalars": 0})
        loaded.Reload()
        return loaded

    EventAccumulator(str(directory)).Tags()  # What it imports is imported.
    _, times, loaded = timed(read, rounds)
    assert len(loaded.Scalars(tag)) == steps
    return {
        "steps": steps,
        "scalars a row": len(names),
        "bytes a row": size(directory) / (len(sites) * steps),
        "write us a row": 1e6 * writing / (len(sites) * steps),
        "read s": {"one series": times, "one step": times, "one heatmap": times},
    }


def csv_file(directory, sites, steps, rounds):
    directory.mkdir(parents=True, exist_ok=True)
    sink = CSV()
    sink.open(RunInfo(directory))
    writing, _ = write_all(readings(sites, steps), sink.write)
    sink.close()
    wanted = sites[len(sites) // 3]

    def read():
        with (directory / "summaries.csv").open(newline="") as file:
            rows = csv.DictReader(file)
            return [
                float(r["l2"])
                for r in rows
                if r["path"] == wanted.path and r["kind"] == wanted.kind
            ]

    _, times, found = timed(read, rounds)
    assert len(found) == steps
    return {
        "steps": steps,
        "bytes a row": size(directory) / (len(sites) * steps),
        "write us a row": 1e6 * writing / (len(sites) * steps),
        "read s": {"one series": times, "one step": times, "one heatmap": times},
    }


def report(results, arguments):
    ours, ten = results["store"], results["event files"]
    one, table = results["event files, L2 only"], results["csv"]
    memory = ours["memory MB"]
    settled = memory[len(memory) // 4 :]
    lines = [
        "# The run store beside event files and CSV",
        "",
        f"`benchmarks/store.py`, {results['machine']}. {arguments.sites:,} sites. The store holds "
        f"{ours['steps']:,} steps, the rivals {ten['steps']}: their reading times are of those, so "
        "the ratios are lower bounds. A row is a site at a step: ten numbers.",
        "",
        "| | store | event files | event files, L2 only | CSV |",
        "|---|---|---|---|---|",
        f"| numbers a row | 10 | {ten['scalars a row']} | 1 | 14 |",
        "| bytes a row | "
        + " | ".join(f"{each['bytes a row']:.1f}" for each in (ours, ten, one, table))
        + " |",
        "| relative size | 1 | "
        + " | ".join(f"{e['bytes a row'] / ours['bytes a row']:.1f}" for e in (ten, one, table))
        + " |",
        "| writing, us a row | "
        + " | ".join(f"{each['write us a row']:.2f}" for each in (ours, ten, one, table))
        + " |",
        "| steps read | "
        + " | ".join(f"{each['steps']:,}" for each in (ours, ten, one, table))
        + " |",
    ]
    median = statistics.median
    series = median(ours["read s"]["one series"])
    step = median(ours["read s"]["one step"])
    heat = median(ours["read s"]["one heatmap, merged anew"])
    for name, mine in (("one series", series), ("one step", step), ("one heatmap", heat)):
        rivals = [median(each["read s"][name]) for each in (ten, one, table)]
        cells = " | ".join(f"{1e3 * r:,.0f} ms ({r / mine:,.0f} x)" for r in rivals)
        lines.append(f"| {name} | {1e3 * mine:.0f} ms | {cells} |")
    lines += [
        "",
        "Event files and CSV have to be read through for any of these; once TensorBoard has "
        "loaded a file it keeps all of it in memory.",
        "",
        "| store, reading | median | first | slowest |",
        "|---|---|---|---|",
    ]
    for name, times in ours["read s"].items():
        cells = [median(times), times[0], max(times)]
        lines.append(f"| {name} | {' | '.join(f'{1e3 * t:.0f} ms' for t in cells)} |")
    lines += [
        "",
        f"Writing took {ours['write ms a step']:.1f} ms a step on the background thread; the whole "
        f"run is {ours['bytes'] / 1e6:.0f} MB; {ours['end s']:.1f} s after the last step all of it "
        "was sealed.",
        "",
        f"Memory of the writing process: {memory[0]:.0f} MB after 25 steps, {settled[0]:.0f} MB "
        f"after a quarter of the run, {settled[-1]:.0f} MB at its end, "
        f"{max(memory):.0f} MB at most.",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rival-steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--name", default="store-cpu", help="of the files in results/")
    arguments = parser.parse_args()
    sites = site_names(arguments.sites)
    results = {"machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores"}
    load = [os.getloadavg()[0]]
    ten = ("l2", "count", "nan", "posinf", "neginf", "zeros", "sum", "l1", "min", "max")
    with tempfile.TemporaryDirectory() as place:
        root, few = Path(place), arguments.rival_steps
        results["store"] = store(root / "store", sites, arguments.steps, arguments.rounds)
        results["event files"] = tensorboard(root / "ten", sites, few, ten, 1)
        results["event files, L2 only"] = tensorboard(root / "one", sites, few, ("l2",), 3)
        results["csv"] = csv_file(root / "csv", sites, few, 3)
    load.append(os.getloadavg()[0])
    results["machine"] += f", load average {load[0]:.1f} before and {load[1]:.1f} after"
    text = report(results, arguments)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / f"{arguments.name}.md").write_text(text)


if __name__ == "__main__":
    main()
