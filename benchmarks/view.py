"""12,345 series of 1,000 steps in the browser: gradwatch's viewer and TensorBoard, side by side.

    python benchmarks/view.py                     # some minutes; needs Chromium
    python benchmarks/view.py --series 1000 --steps 100 --rounds 1 --dry-run

Both get the same numbers: the run store holds ten numbers a series and step, TensorBoard's
event files the L2 norm alone. In each round both are started anew, one after the other, and looked
at in a fresh Chromium without a cache. The times are those of a person who waits. The heatmap is
drawn when its canvas shows the colours of values, and a chart of TensorBoard when it has its axes.
What the heatmap says under the pointer is compared with what the reader says of the same steps.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import common
import numpy as np
import view_page
from store import readings

import gradwatch
from gradwatch.core import Kind, Reading, Site, Summary
from gradwatch.sinks.event_file import EventFile, scalar, summary_event
from gradwatch.store import sealing
from gradwatch.store.writer import StoreWriter

BIN = Path(sys.executable).parent
PARTS = (
    "attention/query",
    "attention/key",
    "attention/value",
    "attention/out",
    "mlp/up",
    "mlp/down",
)


def series(count):
    """Gradients of a deep network, a dozen a block, 32 blocks a stage."""
    paths = [f"{part}/{kind}" for part in PARTS for kind in ("kernel", "bias")]
    blocks = [(i // len(paths), paths[i % len(paths)]) for i in range(count)]
    return [
        Site(Kind.GRADIENT, f"model/stage_{block // 32}/block_{block}/{path}")
        for block, path in blocks
    ]


def write_both(sites, steps, run, events):
    """The same numbers into a run and into an event file; the bytes of each."""
    writer, file = StoreWriter(run), EventFile(events)
    tags = [f"{site.kind}_l2/{site.path}" for site in sites]
    for reading in readings(sites, steps):
        writer.write(reading)
        loss = Summary.of(np.array([1.0 / reading.step])).pack()[None]
        about = (reading.step, reading.epoch, reading.time)
        writer.write(Reading(*about, [Site(Kind.LOSS, "loss")], Summary.unpack(loss)))
        norms = reading.statistic("l2").tolist()
        values = [scalar(tag, norm) for tag, norm in zip(tags, norms, strict=True)]
        file.append([summary_event(reading.step, reading.time, values)])
    writer.close()
    file.close()
    while list(run.glob("journal-*.gwj")):
        sealing.sealer.finish(time.monotonic() + 60)
        time.sleep(0.05)
    return [sum(f.stat().st_size for f in d.rglob("*") if f.is_file()) for d in (run, events)]


class Server:
    """A program that serves pages, for as long as the `with` lasts."""

    def __init__(self, *command):
        self.begun = time.perf_counter()
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self):
        return self

    def address(self):
        """The first address of a page that it prints."""
        for line in self._process.stdout:
            if found := re.search(r"http://(?:localhost|127\.0\.0\.1)\S*", line):
                return found[0]
        raise RuntimeError(f"the server ended with {self._process.wait()}")

    @property
    def age(self):
        """Seconds since it was started."""
        return time.perf_counter() - self.begun

    def __exit__(self, *_):
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()


def look_at_ours(directory, name, picture):
    """The viewer: when the heatmap is there, and how it moves."""
    with Server(BIN / "gradwatch", "view", directory, "--port", "0", "--no-browser") as server:
        address, ready = server.address(), server.age
        with view_page.browser() as chromium:
            page = view_page.Page(chromium)
            opened = server.age
            page.open(f"{address}#/run/{name}")
            drawn = page.when(view_page.LOOK_FOR_HEATMAP)
            result = {
                "ready s": ready,
                "first content s": page.paints() / 1e3,
                "page to heatmap s": drawn / 1e3,
                "start to heatmap s": server.age - opened + ready,
            }
            page.page.wait_for_load_state("load")
            result["bytes of the first view"] = page.received
            page.page.screenshot(path=picture)
            found = page.under_pointer([(0.1, 0.1), (0.5, 0.5), (0.9, 0.8), (0.3, 0.95)])
            page.page.get_by_role("button", name="Open all").click()
            page.page.wait_for_timeout(1500)
            found += page.under_pointer([(0.2, 0.3), (0.6, 0.7)])
            for what, act in (
                ("scrolling", view_page.scroll),
                ("leaping", view_page.leap),
                ("zooming", view_page.zoom),
            ):
                result[what] = page.frames(act)
                page.page.wait_for_timeout(1000)
            result["rows"] = page.page.eval_on_selector(
                ".heat-scroll", "e => Math.round(e.scrollHeight / 17)"
            )
            result["bytes in all"] = page.received
            return result, found


def look_at_tensorboard(directory, count):
    """TensorBoard: when its server knows all tags, when the page does, and the first chart."""
    command = (BIN / "tensorboard", "--logdir", directory, "--port", "0", "--host", "127.0.0.1")
    with Server(*command) as server:
        address = server.address().rstrip("/")
        ready = server.age
        while True:
            with urllib.request.urlopen(f"{address}/data/plugin/timeseries/tags") as answer:
                tags = json.load(answer)["scalars"]["runTagInfo"]
            if sum(map(len, tags.values())) >= count:
                break
            time.sleep(0.1)
        loaded = server.age
        with view_page.browser() as chromium:
            page = view_page.Page(chromium)
            opened = server.age
            page.open(f"{address}/#timeseries")
            listed = page.when(view_page.LOOK_FOR_COUNT, f"{count:,} cards")
            drawn = page.when(view_page.LOOK_FOR_CHART)
            return {
                "ready s": ready,
                "start to all tags loaded s": loaded,
                "first content s": page.paints() / 1e3,
                "page to tags s": listed / 1e3,
                "page to first chart s": drawn / 1e3,
                "start to first chart s": loaded + server.age - opened,
                "bytes of the first view": page.received,
            }


def compare(run, found):
    """That what the page said is what the reader says: the average step of each column."""
    for path, first, last, value in found:
        steps, norms = run.series("gradient", path, "l2")
        inside = norms[(steps >= first) & (steps <= last)]
        true = float(np.sqrt(np.mean(inside**2)))
        assert abs(value - true) <= 1e-9 * true, (path, first, last, value, true)


def run_id(directory):
    """What the viewer calls the run: the same at every start."""
    with Server(BIN / "gradwatch", "view", directory, "--port", "0", "--no-browser") as server:
        address = server.address()
        with view_page.browser() as chromium:
            page = chromium.new_page()
            page.goto(address)
            answer = page.evaluate("fetch('/api/runs').then((r) => r.json())")
            return answer["runs"][0]["id"]


def report(facts):
    """The result in words."""

    def middle(side, name, scale=1.0, digits=2):
        values = [scale * each[name] for each in facts[side]]
        spread = f"{min(values):.{digits}f} to {max(values):.{digits}f}"
        return f"{statistics.median(values):.{digits}f} ({spread})"

    def of_frames(what, name, digits=0):
        values = [each[what][name] for each in facts["viewer"]]
        return f"{statistics.median(values):.{digits}f}"

    lines = [
        "# The viewer beside TensorBoard",
        "",
        f"`benchmarks/view.py`, {facts['machine']}, Chromium without a graphics card. "
        f"{facts['series']:,} series of {facts['steps']:,} steps each, the same numbers for both: "
        f"the run has ten numbers a series and step in {facts['bytes'][0] / 1e6:.0f} MB, the event "
        f"file one, the L2 norm, in {facts['bytes'][1] / 1e6:.0f} MB. "
        f"Medians of {len(facts['viewer'])} rounds, least and most in brackets; the programs and "
        "the browser are started anew in each.",
        "",
        "| seconds | gradwatch view | TensorBoard |",
        "|---|---|---|",
        f"| from its start until it serves pages | {middle('viewer', 'ready s')} "
        f"| {middle('tensorboard', 'ready s')} |",
        "| from its start until all series are known | - "
        f"| {middle('tensorboard', 'start to all tags loaded s')} |",
        f"| from opening the page to any content | {middle('viewer', 'first content s')} "
        f"| {middle('tensorboard', 'first content s')} |",
        "| from opening the page to the list of series | as below "
        f"| {middle('tensorboard', 'page to tags s')} |",
        f"| from opening the page to what is drawn | {middle('viewer', 'page to heatmap s')} "
        f"| {middle('tensorboard', 'page to first chart s')} |",
        f"| from its start to what is drawn | {middle('viewer', 'start to heatmap s')} "
        f"| {middle('tensorboard', 'start to first chart s')} |",
        "| MB for that "
        f"| {middle('viewer', 'bytes of the first view', 1e-6)} "
        f"| {middle('tensorboard', 'bytes of the first view', 1e-6)} |",
        "",
        "What is drawn: in gradwatch, the heatmap of all layers over the whole run; in "
        "TensorBoard, opened once it has loaded everything, its first charts, of a series each.",
        "",
        f"With all {facts['viewer'][0]['rows']:,} rows open:",
        "",
        "| frames, ms | median | 95 % within | longest | over 50 ms |",
        "|---|---|---|---|---|",
    ]
    for what, words in (
        ("scrolling", "scrolling with the wheel"),
        ("leaping", "leaping with the scroll bar"),
        ("zooming", "zooming in time and back"),
    ):
        cells = [of_frames(what, n) for n in ("median ms", "95 % within ms", "longest ms")]
        many = f"{of_frames(what, 'over 50 ms')} of {of_frames(what, 'frames')}"
        lines.append(f"| {words} | {' | '.join(cells)} | {many} |")
    lines += [
        "",
        f"All of that together transferred {middle('viewer', 'bytes in all', 1e-6)} MB.",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=12_345)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="view-cpu", help="of the files in results/")
    parser.add_argument("--keep", type=Path, help="where the data is, or is to be kept")
    parser.add_argument("--dry-run", action="store_true", help="print, and write no results")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    sites = series(arguments.series)
    with tempfile.TemporaryDirectory() as place:
        root = arguments.keep or Path(place)
        run, events = root / "runs" / "big", root / "logs" / "big"
        if run.exists():
            sizes = [
                sum(f.stat().st_size for f in d.rglob("*") if f.is_file()) for d in (run, events)
            ]
        else:
            events.mkdir(parents=True)
            sizes = write_both(sites, arguments.steps, run, events)
        facts = {
            "series": arguments.series,
            "steps": arguments.steps,
            "bytes": sizes,
            "viewer": [],
            "tensorboard": [],
        }
        name = run_id(run.parent)
        with gradwatch.open(run) as opened:
            for number in range(arguments.rounds):
                result, found = look_at_ours(run.parent, name, Path(place, "view.png"))
                compare(opened, found)
                facts["viewer"].append(result)
                facts["tensorboard"].append(look_at_tensorboard(events.parent, arguments.series))
                print(f"round {number + 1}", json.dumps(facts["viewer"][-1]), file=sys.stderr)
                print(json.dumps(facts["tensorboard"][-1]), file=sys.stderr)
    after = os.getloadavg()[0]
    facts["machine"] = f"{common.machine()}, load average {load:.1f} before and {after:.1f} after"
    common.keep(arguments.name, report(facts), facts, not arguments.dry_run)


if __name__ == "__main__":
    main()
