"""What watching the optimizer's state costs at every step on a GPU: time of a step, in turns.

Needs torch, JAX or both, with a GPU, and Keras; no TensorFlow:

    python benchmarks/optimizer_state_gpu.py --output results     # within 150 seconds
    python benchmarks/optimizer_state_gpu.py --places torch --seconds 60 --times 4
    python benchmarks/optimizer_state_gpu.py --small              # a tiny model, also on a CPU

A transformer of 141 million parameters, in a plain torch loop (bfloat16 autocast, fused AdamW) and
in Keras `fit` on JAX (mixed_bfloat16, Adam). Compared with training alone are gradients and weights
at every step, the same with the optimizer's state, which brings updates, and a monitor with all of
it that is not due. Steps are timed between two synchronisations, after the first ones, and a bare
run is between any two others. CPU time is that of all threads. In `fit` nothing waits for a step
between these two; `--waits` adds a callback for which Keras waits for each step.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from common import RESULTS, answer, clocks, turns, worker

PLACES = ("torch", "keras-jax")
WAYS = ("gradients and weights", "with state", "not due")
SIZES = {
    "large": {"width": 1024, "depth": 6, "length": 256, "vocabulary": 32_000},
    "small": {"width": 32, "depth": 2, "length": 16, "vocabulary": 100},
}
BATCH = {"large": 28, "small": 2}
"""Sequences in a step; `--times` multiplies them."""
WARM, STEPS = 4, 40
HEADER = (
    "| place | way | ms per step | bare | ratio | lowest and highest | CPU ms | bare | rounds "
    "| steps measured |\n|---|---|---|---|---|---|---|---|---|---|"
)


class Times:
    """The seconds of the steps after the first `WARM`, wall and CPU, of those of one run."""

    def __init__(self, synchronise):
        self._synchronise = synchronise
        self._steps, self._start = 0, None
        self.per_step = None

    def tick(self):
        """A step has ended, as far as the host is concerned."""
        self._steps += 1
        if self._steps == WARM:
            self._synchronise()
            self._start = clocks()
        if self._steps == WARM + STEPS:
            self._synchronise()
            self.per_step = (clocks() - self._start) / STEPS


def options_of(way, measured):
    """How the monitor is made; the steps that it has measured are added to the set `measured`."""
    import gradwatch

    class Steps(gradwatch.Sink):
        def write(self, reading):
            # The loss may be there at every step.
            if any(site.kind is gradwatch.Kind.WEIGHT for site in reading.sites):
                measured.add(reading.step)

    every = 10**9 if way == "not due" else 1
    watch = [gradwatch.gradients(every=every), gradwatch.weights(every=every)]
    if way != "gradients and weights":
        watch.append(gradwatch.optimizer_state(every=every))
    return {"watch": watch, "sinks": [gradwatch.Store(), Steps()], "diagnose": False}


def torch_trainer(size, directory, batch):
    """A function that trains in a way, or bare; the number of parameters and tensors."""
    import torch
    from torch import nn

    import gradwatch

    width, depth, length, vocabulary = SIZES[size].values()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, steps, _ = x.shape
            parts = self.qkv(self.first(x)).chunk(3, dim=-1)
            q, k, v = (part.reshape(batch, steps, 16, -1).transpose(1, 2) for part in parts)
            h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(h.transpose(1, 2).reshape(batch, steps, width))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    blocks = [Block() for _ in range(depth)]
    layers = [nn.Embedding(vocabulary, width), *blocks, nn.LayerNorm(width)]
    model = nn.Sequential(*layers, nn.Linear(width, vocabulary)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(vocabulary, (batch, length + 1), device=device)

    def synchronise():
        if device == "cuda":
            torch.cuda.synchronize()

    def train(way):
        """The seconds of a step, and how many were measured."""
        steps, monitor = set(), None
        if way is not None:
            options = options_of(way, steps)
            where = tempfile.mkdtemp(dir=directory)
            monitor = gradwatch.watch(model, optimizer, where, **options)
        times = Times(synchronise)
        for _ in range(WARM + STEPS):
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16):
                logits = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            times.tick()
        if monitor is not None:
            monitor.close()
        return times.per_step, len(steps)

    parameters = list(model.parameters())
    return train, sum(p.numel() for p in parameters), len(parameters)


def keras_trainer(size, directory, batch, waits):
    """The same in `fit`. A monitor is kept as long as its way is the same."""
    import jax
    import keras
    from overhead_gpu import transformer

    import gradwatch

    model, x, y = transformer((WARM + STEPS) * batch, **SIZES[size])

    class Ticks(keras.callbacks.Callback):
        """Its methods are none for whose sake Keras would wait for the device."""

        def __init__(self):
            super().__init__()
            self.times = Times(lambda: jax.block_until_ready(model._jax_state))

        def on_train_batch_begin(self, batch, logs=None):
            if batch:
                self.times.tick()

        def on_epoch_end(self, epoch, logs=None):
            self.times.tick()

    class Waits(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])

    known = {}

    def train(way):
        if way is not None and way not in known:
            steps, where = set(), tempfile.mkdtemp(dir=directory)
            known.clear()
            known[way] = gradwatch.Monitor(where, **options_of(way, steps)), steps
        monitor, steps = known.get(way, (None, set()))
        ticks, before = Ticks(), len(steps)
        callbacks = [ticks, *([Waits()] if waits else []), *([monitor] if monitor else [])]
        model.fit(x, y, batch_size=batch, verbose=0, callbacks=callbacks, shuffle=False)
        return ticks.times.per_step, len(steps) - before

    return train, model.count_params(), len(model.trainable_weights)


def measure(place, size, rounds, seconds, waits, times, ways):
    """Print a line for each way as soon as it is known; all numbers."""
    until, batch = time.monotonic() + seconds, BATCH[size] * times
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        if place == "torch":
            train, parameters, tensors = torch_trainer(size, directory, batch)
        else:
            train, parameters, tensors = keras_trainer(size, directory, batch, waits)
        tokens = batch * SIZES[size]["length"]
        print(f"{place}: {parameters:,} parameters, {tokens:,} tokens a step", flush=True)
        train(None)
        for done, way in enumerate(ways):
            start = time.monotonic()
            if until - start < 0:
                print(f"left out for lack of time: {place}, {ways[done:]}", flush=True)
                break
            # The measured step may still be compiled, on a thread; and in the first runs of a
            # process threads import what they write with.
            for done_before in range(5):
                measured = train(way)[1]
                if place == "torch" and done_before < 2 and time.monotonic() < until:
                    continue
                if way == "not due" or measured >= WARM + STEPS or time.monotonic() > until:
                    break
            first, counts = time.monotonic() - start, []

            def fit(variant, counts=counts):
                seconds, measured = train(variant)
                if variant is not None:
                    counts.append(measured)
                return seconds

            share = (until - time.monotonic()) / (len(ways) - done)
            own, beside = turns(fit, {way: way}, rounds, share)
            found[way] = {"times": own[way], "beside": beside[way], "measured": counts}
            print(f"{place}, {way}: {first:.0f} s until it is measured", file=sys.stderr)
            print(row(place, way, found[way]), flush=True)
    return {"parameters": parameters, "tensors": tensors, "ways": found}


def row(place, way, found):
    """A line of the table."""
    pairs = list(zip(found["times"], found["beside"], strict=True))
    ratios = [own[0] / bare[0] for own, bare in pairs]
    middle = [statistics.median(each[clock] for each in pair) * 1e3
              for clock in (0, 1) for pair in (found["times"], found["beside"])]  # fmt: skip
    wall, bare, processor, bare_processor = middle
    cells = [
        f"{place} | {way} | {wall:.2f} | {bare:.2f} | x{statistics.median(ratios):.3f}",
        f"x{min(ratios):.3f} to x{max(ratios):.3f} | {processor:.2f} | {bare_processor:.2f}",
        f"{len(pairs)} | {min(found['measured'])} to {max(found['measured'])} of {WARM + STEPS}",
    ]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", nargs="+", default=list(PLACES), choices=PLACES)
    parser.add_argument("--rounds", type=int, default=8, help="at most, as time allows")
    parser.add_argument("--seconds", type=float, default=140, help="for all of it, about")
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--times", type=int, default=1, help="so many times the sequences")
    parser.add_argument("--waits", action="store_true", help="in fit, for each step")
    parser.add_argument("--output", type=Path, help=f"a folder for the result, such as {RESULTS}")
    parser.add_argument("--place", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.place:
        size = "small" if args.small else "large"
        numbers = args.rounds, args.seconds, args.waits, args.times, args.ways
        answer(measure(args.place, size, *numbers))
        return
    until = time.monotonic() + args.seconds
    print(HEADER, flush=True)
    results = {}
    for done, place in enumerate(args.places):
        # JAX compiles three steps.
        weights = [1 if each == "torch" else 3 for each in args.places[done:]]
        share = (until - time.monotonic()) * weights[0] / sum(weights)
        # Importing and making the model are not yet included.
        options = ["--place", place, "--rounds", args.rounds, "--seconds", share - 10]
        options += ["--times", args.times, "--ways", *args.ways]
        options += ["--small"] if args.small else []
        options += ["--waits"] if args.waits else []
        backend = place.removeprefix("keras-")
        results[place] = worker(__file__, options, KERAS_BACKEND=backend)
    if args.output:
        some = next(iter(results.values()))
        lines = [
            row(place, way, found)
            for place, result in results.items()
            for way, found in result["ways"].items()
        ]
        text = (
            f"Transformer of {some['parameters'] / 1e6:.1f} M parameters; {os.cpu_count()} CPU "
            f"cores.\n\n{HEADER}\n" + "\n".join(lines)
        )
        args.output.mkdir(parents=True, exist_ok=True)
        (args.output / "optimizer-state-gpu.md").write_text(text + "\n")
        file = args.output / "optimizer-state-gpu.json"
        file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
