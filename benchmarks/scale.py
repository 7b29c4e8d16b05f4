"""A run of 1,000 ranks and 100,000 tensors: what it takes to write, to keep and to read.

    python benchmarks/scale.py                       # needs Chromium, and ray[data]
    python benchmarks/scale.py --quick --dry-run     # 20 ranks, 2,000 tensors
    python benchmarks/scale.py --keep /tmp/scale     # the run stays, and is used again

First constants are measured: bytes a row, rates of appending and sealing. Then a run is made up
by the writers that training uses (`scale_run.py`), and opened: by the reader and the command
line (`scale_reading.py`), by a distributed engine beside DuckDB (`scale_engine.py`), and
by the viewer in a Chromium (`scale_view.py`). What they find is compared with what was written.
Seconds are given twice: by the clock, and of work on all cores, which says more where the
machine had other things to do.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import scale_constants
import scale_run
from scale_constants import a_row

HERE = Path(__file__).parent
PARTS = ("constants", "reading", "engine", "view", "copies")


def size(files):
    """Bytes of files."""
    return sum(file.stat().st_size for file in files)


def made(directory, ranks, tensors, measured):
    """Make the run, unless it is there; how large it is, and how long that took."""
    told = directory.with_suffix(".json")
    if not told.exists():
        shutil.rmtree(directory, ignore_errors=True)
        begun = time.perf_counter()
        rows = scale_run.make(directory, ranks, tensors, measured)
        about = {"rows": rows, "s": time.perf_counter() - begun}
        told.write_text(json.dumps(about))
    segments = sorted(directory.glob("segments/*.parquet"))
    own = [file for file in segments if "-r0000-" not in file.name]
    others = [file for file in directory.glob("*") if file.is_file()]
    journals = [file for file in others if file.suffix == ".gwj"]
    mine, compared = scale_run.own(tensors)
    return {
        **json.loads(told.read_text()),
        "ranks": ranks,
        "tensors": tensors,
        "measured steps": measured,
        "own steps": scale_run.OFTEN * measured,
        "own rows a step": len(mine),
        "own rows": len(mine) * scale_run.OFTEN * measured + len(compared) * 4,
        "files": len(segments) + len(others),
        "bytes": size(segments) + size(others),
        "rank 0 bytes": size(set(segments) - set(own)),
        "own bytes a rank": size(own) / max(1, len(own)),
        "journals": len(journals),
        "bytes a journal": size(journals) / max(1, len(journals)),
        "manifests bytes": size(f for f in others if f.name.startswith("manifest-")),
        "run.json bytes": size(f for f in others if f.name == "run.json"),
    }


def seconds(found):
    """Two times, for a table."""
    return f"{found['s']:.2f} | {found['cpu s']:.2f}"


def of_constants(constants):
    """The first table."""
    lines = [
        "| rows | bytes a row, in the journal | sealed | of these histograms | appending, rows/s "
        "| MB/s | sealing, rows/s | manifest, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in constants.items():
        rows, cells = one["rows"], one["sealed bytes"].get("histograms", 0)
        work = {what: one[f"{what} s"][1] for what in ("append", "seal", "manifest")}
        lines.append(
            f"| {name} | {one['journal bytes'] / rows:.1f} | {a_row(one):.1f} "
            f"| {cells / rows:.1f} | {rows / work['append']:,.0f} "
            f"| {one['journal bytes'] / work['append'] / 1e6:.0f} "
            f"| {rows / work['seal']:,.0f} | {work['manifest']:.3f} |"
        )
    return [*lines, "", "Rates are of seconds of work of one core."]


def of_run(run):
    """What was made."""
    return [
        f"{run['ranks']:,} ranks; rank 0 has gradients and weights of {run['tensors']:,} tensors "
        f"at {run['measured steps']} steps, every rank {run['own rows a step']} rows of its own at "
        f"{run['own steps']} steps and {scale_run.COMPARED} weights at up to four: "
        f"{run['rows']:,} rows in {run['files']:,} files, {run['bytes'] / 1e6:.0f} MB, of which "
        f"rank 0's segments are {run['rank 0 bytes'] / 1e6:.0f} MB, the manifests "
        f"{run['manifests bytes'] / 1e6:.0f} MB and run.json {run['run.json bytes'] / 1e6:.0f} MB. "
        f"A rank's own segment has {run['own bytes a rank'] / 1e3:.0f} kB; "
        f"{run['journals']} ranks were killed and left a journal of "
        f"{run['bytes a journal'] / 1e3:.0f} kB each. "
        f"Making it up and writing it took {run['s']:.0f} s with two processes."
    ]


def of_reading(reading):
    """Times of the reader and the command line."""
    lines = ["| reading | s | s of work | MB at most so far |", "|---|---|---|---|"]
    for name, found in reading["times"].items():
        lines.append(f"| {name} | {seconds(found)} | {found['peak MB']:.0f} |")
    lines += ["", "| command | s | s of work | lines |", "|---|---|---|---|"]
    for name, found in reading["commands"].items():
        lines.append(f"| gradwatch {name} | {seconds(found)} | {found['lines']} |")
    return lines


def of_engine(engine):
    """Times of the engines."""
    lines = [
        f"{engine['engine']} and DuckDB read the same {engine['files']:,} files and gave the same "
        f"answers; Ray took {engine['ray s']['start']:.1f} s to start.",
        "",
        "| question | groups | DuckDB, s | Ray Data, s |",
        "|---|---|---|---|",
    ]
    for name, groups in engine["groups"].items():
        times = [engine[f"{which} s"][name] for which in ("duckdb", "ray")]
        lines.append(f"| {name} | {groups:,} | {times[0]:.2f} | {times[1]:.1f} |")
    return lines


def of_view(view):
    """Times of the viewer."""
    frames = view["scrolling"]
    return [
        f"In the viewer the heatmap was there {view['page to heatmap s']:.1f} s after the page was "
        f"opened ({view['server cpu s']:.1f} s of work of the server), which took "
        f"{view['bytes of the first view'] / 1e6:.2f} MB; the server took at "
        f"most {view['peak MB of the server']:.0f} MB of memory. With all {view['rows open']:,} "
        f"rows open, half of the frames while scrolling came within {frames['median ms']:.0f} ms, "
        f"95 % within {frames['95 % within ms']:.0f} ms."
    ]


def of_copies(copies):
    """Every tensor on every rank."""
    lines = [
        f"{copies['ranks']:,} ranks x {copies['tensors']:,} tensors at one step: "
        f"{copies['rows']:,} rows, {copies['bytes']['rows'] / 1e6:.0f} MB of rows and "
        f"{copies['bytes']['names'] / 1e6:.0f} MB of manifests, made in {copies['s']:.0f} s with "
        "two processes.",
        "",
        "| reading | s | s of work | MB at most so far |",
        "|---|---|---|---|",
    ]
    for name, found in copies["times"].items():
        lines.append(f"| {name} | {seconds(found)} | {found['peak MB']:.0f} |")
    return lines


TELL = {
    "constants": ("What a row takes", of_constants),
    "run": ("The run that was made", of_run),
    "reading": ("Reading it", of_reading),
    "engine": ("A distributed engine", of_engine),
    "view": ("The viewer", of_view),
    "copies": ("Every tensor on every rank", of_copies),
}


def report(facts):
    """The result in words."""
    loads = " to ".join(f"{load:.0f}" for load in facts["load average"])
    lines = [
        "# A thousand ranks, a hundred thousand tensors",
        "",
        f"`benchmarks/scale.py`, {facts['machine']}, load average {loads} meanwhile. Seconds of "
        "work are those of all cores together; where others had the cores, they say more than the "
        "clock.",
    ]
    for part, (title, tell) in TELL.items():
        if part in facts:
            lines += ["", f"## {title}", "", *tell(facts[part])]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--tensors", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=20, help="at which rank 0 measures all")
    parser.add_argument("--quick", action="store_true", help="20 ranks, 2,000 tensors, 8 steps")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part, ...")
    parser.add_argument("--keep", type=Path, help="where the run is, or is to be kept")
    parser.add_argument("--pictures", type=Path, help="where to put pictures of the viewer")
    parser.add_argument("--name", default="scale-cpu", help="of the files in results/")
    parser.add_argument("--dry-run", action="store_true", help="print, and write no results")
    arguments = parser.parse_args()
    shape = (arguments.ranks, arguments.tensors, arguments.steps)
    if arguments.quick:
        shape = (20, 2_000, 8)
    parts = arguments.only or PARTS
    # Of a part that is not measured now, what was measured before is kept.
    before = common.RESULTS / f"{arguments.name}.json"
    again = bool(arguments.only) and before.exists() and not arguments.dry_run
    facts = json.loads(before.read_text()) if again else {}
    loads = [*facts.get("load average", []), os.getloadavg()[0]]
    if "constants" in parts:
        facts["constants"] = scale_constants.measure(arguments.quick)
    with tempfile.TemporaryDirectory() as place:
        run = (arguments.keep or Path(place)) / "runs" / "large"
        pictures = arguments.pictures or Path(place)
        pictures.mkdir(parents=True, exist_ok=True)
        if set(parts) - {"constants", "copies"}:
            run.parent.mkdir(parents=True, exist_ok=True)
            facts["run"] = made(run, *shape)
        for part, given in {
            "reading": [run, *shape],
            "engine": [run],
            "view": [run.parent, pictures],
            "copies": [run.parent.parent / "copies", max(10, shape[0] // 10), shape[1]],
        }.items():
            if part in parts:
                try:
                    facts[part] = common.worker(HERE / f"scale_{part}.py", given)
                except subprocess.CalledProcessError as error:
                    print(f"{part}: failed with {error.returncode}", file=sys.stderr)
    loads.append(os.getloadavg()[0])
    facts |= {"machine": common.machine(), "load average": [min(loads), max(loads)]}
    common.keep(arguments.name, report(facts), facts, not arguments.dry_run)


if __name__ == "__main__":
    main()
