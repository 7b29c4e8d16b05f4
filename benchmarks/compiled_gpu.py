"""What gradwatch costs in compiled training on a GPU: `torch.compile`, and a scan of JAX.

Needs torch and JAX with a GPU; no Keras:

    python benchmarks/compiled_gpu.py --output benchmarks/results     # within 270 seconds
    python benchmarks/compiled_gpu.py --small                         # tiny models, also on a CPU
    python benchmarks/compiled_gpu.py --parts torch --seconds 150

Transformers of more than 100 M parameters. The parts are processes of their own: they compile at
the same time, and are timed one after the other. Bare blocks of steps and watched ones take turns;
the device is synchronised before and after a block, and a ratio is to the bare blocks before and
after. `truth` compares what taps measure in 24 scanned blocks with the same blocks unrolled, in
float32 and in float64. Every line is printed as soon as it is known.
"""

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
import traceback
from importlib import import_module
from importlib.metadata import version
from multiprocessing.connection import wait
from pathlib import Path

from common import RESULTS, machine

PARTS = {
    "truth": "compiled_gpu_truth",
    "torch": "compiled_gpu_torch",
    "torch-wide": "compiled_gpu_wide",
    "torch-outputs": "compiled_gpu_outputs",
    "jax": "compiled_gpu_jax",
}
HEADER = (
    "| training | step | ms per step | bare | ratio | lowest and highest | goal | blocks "
    "| peak memory, GB | bare | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def run_part(name, is_small, connection):
    """The process of a part: compile, wait for its turn, send lines as they are known."""
    try:
        module = import_module(PARTS[name])
        measure = module.prepare(is_small)
        connection.send("ready")
        for line in measure(connection.recv()):
            connection.send(line)
        connection.send(None)
    except BaseException:
        connection.send({"error": traceback.format_exc()})
        raise


def shown(line):
    """A line of the table."""
    if "error" in line:
        return line["error"]
    if "text" in line:
        return line["text"]
    own, bare = line["ms"], line["bare"]
    ratios = [a / b for a, b in zip(own, bare, strict=True)]
    ratio = line["ratio"] = statistics.median(ratios)
    goal = "" if line["goal"] is None else f"x{line['goal']}"
    if goal and ratio > line["goal"]:
        goal += " **missed**"
    times = f"{statistics.median(own):.3f} | {statistics.median(bare):.3f} | x{ratio:.4f}"
    times += f" | x{min(ratios):.3f} to x{max(ratios):.3f}"
    memory = "? | ? | ?"
    if line["peak"]:
        peak, bare_peak = line["peak"], line["bare_peak"]
        memory = f"{peak / 1e9:.3f} | {bare_peak / 1e9:.3f} | x{peak / bare_peak:.4f}"
    return f"| {line['training']} | {line['step']} | {times} | {goal} | {len(own)} | {memory} |"


def collect(names, is_small, seconds):
    """Run the parts; yields their lines. Who is not ready in time is left out."""
    context = multiprocessing.get_context("spawn")
    until, started = time.monotonic() + seconds, time.monotonic()
    running = {}
    for name in names:
        own, other = context.Pipe()
        process = context.Process(target=run_part, args=(name, is_small, other))
        process.start()
        other.close()
        running[name] = process, own
    ready = []
    waiting = {own: name for name, (_, own) in running.items()}
    while waiting and time.monotonic() < until - 25:
        for own in wait(list(waiting), timeout=1):
            name = waiting.pop(own)
            try:
                said = own.recv()
            except EOFError:
                said = {"error": f"{name}: the process ended"}
            if said == "ready":
                ready.append(name)
                print(f"{name}: ready after {time.monotonic() - started:.0f} s", flush=True)
            else:
                yield {"part": name, **said}
    for name in waiting.values():
        yield {"part": name, "error": f"{name}: left out, it was not ready in time"}
        running[name][0].terminate()
    ready.sort(key=names.index)
    for done, name in enumerate(ready):
        own = running[name][1]
        share = max(until - time.monotonic(), 5) / (len(ready) - done)
        try:
            own.send(share)
            while (line := own.recv()) is not None:
                yield {"part": name, **line}
        except EOFError:
            yield {"part": name, "error": f"{name}: the process ended"}
    for process, _ in running.values():
        process.join(20)
        if process.is_alive():
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=["truth", "torch", "torch-wide", "jax"]
    )
    parser.add_argument("--seconds", type=float, default=240, help="for all of it, about")
    parser.add_argument("--small", action="store_true", help="tiny models, to try the script")
    parser.add_argument("--output", type=Path, help=f"a folder for the result, such as {RESULTS}")
    args = parser.parse_args()
    # Three processes share the GPU.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    print(HEADER, flush=True)
    lines = []
    for line in collect(args.parts, args.small, args.seconds):
        print(shown(line), flush=True)
        lines.append(line)
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "jax"))
    text = [f"{machine()}; Python {platform.python_version()}, {versions}", ""]
    text += [shown(x) for x in lines if "text" in x]
    text += ["", HEADER, *[shown(x) for x in lines if "ms" in x]]
    text += ["", *[x["error"] for x in lines if "error" in x]]
    if args.output:
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "compiled-gpu.md").write_text("\n".join(text).strip() + "\n")
        (args.output / "compiled-gpu.json").write_text(json.dumps(lines, indent=1) + "\n")
    raise SystemExit(any("error" in line for line in lines))


if __name__ == "__main__":
    main()
