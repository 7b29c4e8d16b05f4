"""What the benchmarks share: taking turns, medians with their spread, tables, the machine."""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
ANSWER = "BENCHMARK_ANSWER"


def machine():
    """The processor, its cores and the system, in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    name = names[0] if names else platform.processor()
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def ratio(values, bare):
    """The median over the rounds of each round's ratio to the bare run of the same round."""
    return statistics.median(v / b for v, b in zip(values, bare, strict=True))


def row(label, values, bare):
    """A line of a table: what it is, its median, its spread, and against the bare run."""
    spread = f"{min(values):.2f} to {max(values):.2f}"
    middle = f"{statistics.median(values):.2f}"
    return f"| {' | '.join(label)} | {middle} | {spread} | x{ratio(values, bare):.3f} |"


def clocks():
    """The wall time and the CPU time of all threads by now, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def turns(fit, variants, rounds, seconds=math.inf):
    """Have variants take turns, with a bare run between any two.

    Args:
        fit: trains with what a variant is, or with None, and says how long that took: a number, or
            an array of several.
        variants: by name.
        rounds: how often it is each one's turn.
        seconds: no round begins later than that, but the first.

    Returns:
        For each variant its times, and of each the mean of the bare ones before and after it.
    """
    times = {name: [] for name in variants}
    beside = {name: [] for name in variants}
    until = time.monotonic() + seconds
    before = fit(None)
    for done in range(rounds):
        if done and time.monotonic() > until:
            break
        for name, variant in variants.items():
            times[name].append(fit(variant))
            after = fit(None)
            beside[name].append((before + after) / 2)
            before = after
    return times, beside


def worker(script, arguments, **environment):
    """Run a script with these arguments in a process of its own; what its `answer` was."""
    command = [sys.executable, script, *map(str, arguments)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    # Not through a pipe: a service that the worker has started may hold it open.
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "answer.json")
        own = {ANSWER: str(file)}
        subprocess.run(
            command, env=os.environ | quiet | environment | own, check=True, stdout=sys.stderr
        )
        return json.loads(file.read_text())


def answer(result):
    """What a worker hands back; arrays as lists."""
    Path(os.environ[ANSWER]).write_text(json.dumps(result, default=lambda array: array.tolist()))


def tell(fact):
    """Print a fact for `told_by`, as soon as it is known."""
    print(f"{ANSWER} {json.dumps(fact)}", flush=True)


def told_by(script, arguments, **environment):
    """Run a script with these arguments in a process of its own; what it told, also if it fails."""
    threads = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        env={**os.environ, **threads, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stderr[-2000:])
    lines = [x for x in done.stdout.splitlines() if x.startswith(ANSWER)]
    return [json.loads(line[len(ANSWER) :]) for line in lines]


def keep(name, text, facts, write):
    """Print the result, and keep it in results/ if that is wished for."""
    print(text)
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text + "\n")
        (RESULTS / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
