"""Whether planted spikes of the loss are found, at their step and with their sample.

60 trainings have one spike each: a target or an input that is far off, a batch with wrong labels,
a learning rate that jumps, weights that are overwritten. 60 are healthy: small batches, a short
last one, schedules that restart, signed losses, adversaries, outliers, dropout. All run with the
defaults (`Monitor(directory)`, `watch(model, optimizer, directory)`), in torch loops with
`losses=`, and in `fit` on three backends. Where the loss does not rise above half as much again as
any of the 40 before it within 4 steps, there is no spike to be found, and the training is not
counted.

    python benchmarks/planted_spikes.py [--part loops|torch|jax|tensorflow] [--runs 3]
"""

import argparse
import math
import tempfile
import time
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
from common import RESULTS, machine, tell, told_by

FAULTS = ("target", "input", "labels", "rate", "weights")
HEALTHY = (
    "one sample", "four samples", "short last batch", "restarts", "signed", "adversaries",
    "outliers", "dropout", "adam", "learned",
)  # fmt: skip
LOOPS, FIT = 8, {"torch": 2, "jax": 2, "tensorflow": 2}
"""How many trainings with each fault."""
HEALTHY_LOOPS, HEALTHY_FIT = 4, 2
STEPS = 240


def data(rng, samples, is_classes):
    x = rng.standard_normal((samples, 8)).astype("f")
    score = np.tanh(x[:, :4]).sum(1) - x[:, 4] * x[:, 5]
    return x, (score > 0).astype("i8") if is_classes else score.astype("f")[:, None]


def spike_of(fault, seed):
    """The step and the sample of a spike."""
    rng = np.random.default_rng(1000 + seed)
    return int(rng.integers(60, 200)), int(rng.integers(0, 32)) if fault in FAULTS[:2] else None


def spoil(fault, x, y, sample):
    """The batch of the spike."""
    x, y = x.copy(), y.copy()
    if fault == "target":
        y[sample] = 60.0
    elif fault == "input":
        x[sample] *= 300.0
        y[sample] = 1 - y[sample]
    else:
        y[:] = 1 - y
    return x, y


def true_step(losses, step):
    """The first step of a spike, by the losses of all steps; None if there is none."""
    before = losses[step - 41 : step - 1]
    least = before.max() + 0.5 * abs(before.max())
    high = [at for at in range(step, step + 5) if losses[at - 1] > least]
    return high[0] if high else None


def judged(monitor, losses, planted, sample):
    """What was found, as facts."""
    import gradwatch

    step = planted and true_step(np.array(losses), planted)
    spikes = [f for f in monitor.findings if f.rule == "loss-spike"]
    known = gradwatch.open(monitor.directory).samples().get(step) if step else None
    here = [f for f in spikes if f.since == step]
    named = [name for f in here for name in f.evidence if name.startswith("loss of sample")]
    return {
        "is_spike": step is not None,
        "alarms": [f.rule for f in monitor.findings if f.is_alarm],
        "severity": str(here[0].severity) if here else None,
        "since": [f.since for f in spikes],
        "exact": bool(here),
        "has_samples": known is not None and sample is not None,
        "sample_first": bool(named) and f"sample {sample} of the batch" in named[0],
        "layer": here[0].layer if here else "",
    }


def loop(fault, seed, name=None):
    """A torch loop with a planted spike, or a healthy one."""
    import torch

    import gradwatch

    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    is_classes = fault == "labels" or name in ("learned", "dropout") or (not name and seed % 2)
    is_classes = is_classes and fault != "target"
    step, sample = spike_of(fault, seed) if fault else (None, None)
    batch = {"one sample": 1, "four samples": 4}.get(name, 32)
    x, y = data(rng, 1600, is_classes)
    if name == "outliers":
        y = y + 0.3 * rng.standard_t(3, y.shape).astype("f")
    widths = [8, 64, 32, {"signed": 2}.get(name, 2 if is_classes else 1)]
    layers = []
    for a, b in pairwise(widths):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        layers += [torch.nn.Dropout(0.3)] if name == "dropout" else []
    net = torch.nn.Sequential(*layers[: 5 if name != "dropout" else 7])
    adam = name == "adam" or seed % 3 == 0
    rate = 3e-3 if adam else 0.03
    optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(net.parameters(), rate)
    steps = 4 * STEPS if name == "learned" else STEPS
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        monitor = gradwatch.watch(net, optimizer, directory, sinks=[gradwatch.Store()])
        order, seen = np.array([], "i8"), []
        for at in range(1, steps + 1):
            if name == "restarts":
                share = 0.5 * (1 + math.cos(math.pi * (at % 60) / 60))
                optimizer.param_groups[0]["lr"] = rate * (0.01 + 2 * share)
            if order.size < (1 if name == "short last batch" else batch):
                order = rng.permutation(131 if name == "short last batch" else len(x))
            chosen, order = order[:batch], order[batch:]
            own_x, own_y = x[chosen], y[chosen]
            if at == step and fault in FAULTS[:3]:
                own_x, own_y = spoil(fault, own_x, own_y, sample)
            if at == step and fault == "weights":
                kept = [p.detach().clone() for p in net.parameters()]
                with torch.no_grad():
                    net[2].weight.mul_(-40.0)
            if fault == "rate":
                optimizer.param_groups[0]["lr"] = rate * (100 if step <= at < step + 4 else 1)
            out, wanted = net(torch.from_numpy(own_x)), torch.from_numpy(own_y)
            if is_classes:
                losses = torch.nn.functional.cross_entropy(out, wanted, reduction="none")
            elif name == "signed":
                spread = out[:, 1].clamp(-6, 6)
                losses = 0.5 * ((out[:, 0] - wanted[:, 0]) ** 2 * torch.exp(-spread) + spread)
            elif name == "adversaries":
                losses = (1 if at // 10 % 2 else -1) * (out[:, 0] - wanted[:, 0]).tanh() + 1
            else:
                losses = ((out - wanted) ** 2)[:, 0]
            optimizer.zero_grad()
            seen.append(float(losses.mean().detach()))
            losses.mean().backward()
            optimizer.step()
            monitor.record(loss=losses.mean(), losses=losses)
            if at == step and fault == "weights" and seed % 2:
                with torch.no_grad():
                    for p, before in zip(net.parameters(), kept, strict=True):
                        p.copy_(before)
        monitor.close()
        return judged(monitor, seen, step, sample)


def fit(fault, seed, name=None):
    """Keras's `fit` with a planted spike, or a healthy one."""
    import keras

    import gradwatch

    rng = np.random.default_rng(seed)
    keras.utils.set_random_seed(seed)
    is_classes = fault == "labels" or name in ("learned", "dropout")
    batch = {"one sample": 1, "four samples": 4}.get(name, 32)
    step, sample = spike_of(fault, seed) if fault else (None, None)
    x, y = data(rng, 131 if name == "short last batch" else 40 * batch, is_classes)
    if name == "outliers":
        y = y + 0.3 * rng.standard_t(3, y.shape).astype("f")
    epochs = 6 if name != "short last batch" else 40

    class Plant(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.losses = []

        def on_train_batch_end(self, index, logs=None):
            # Keras reports the mean of the epoch so far.
            mean = float(logs["loss"])
            before = sum(self.losses[len(self.losses) - index :]) if index else 0.0
            self.losses.append(mean * (index + 1) - before)

        def on_train_batch_begin(self, index, logs=None):
            at = self.at = getattr(self, "at", 0) + 1
            if fault == "rate":
                self.model.optimizer.learning_rate = 3.0 if step <= at < step + 4 else 0.03
            if fault == "weights" and at == step:
                kernel = self.model.layers[1].kernel
                kernel.assign(-40.0 * kernel)

    def batches():
        at = 0
        for _ in range(epochs):
            order = rng.permutation(len(x))
            for begin in range(0, len(x), batch):
                at += 1
                chosen = order[begin : begin + batch]
                own = x[chosen], y[chosen]
                is_odd = at == step and fault in FAULTS[:3]
                yield spoil(fault, *own, sample) if is_odd else own

    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(32, "relu")]
    layers += [keras.layers.Dropout(0.3)] if name == "dropout" else []
    model = keras.Sequential([*layers, keras.layers.Dense(2 if is_classes else 1)])
    per_epoch = math.ceil(len(x) / batch)
    rate = 0.03
    if name == "restarts":
        rate = keras.optimizers.schedules.CosineDecayRestarts(0.05, 60)
    optimizer = keras.optimizers.Adam(3e-3) if name == "adam" else keras.optimizers.SGD(rate)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if is_classes else "mse"
    model.compile(optimizer, loss)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        monitor, plant = gradwatch.Monitor(directory, sinks=[gradwatch.Store()]), Plant()
        model.fit(batches(), epochs=epochs, steps_per_epoch=per_epoch, verbose=0,
                  callbacks=[plant, monitor])  # fmt: skip
        return judged(monitor, plant.losses, step, sample)


def run_part(part, fewer):
    """Prints a line of JSON for each training."""
    warnings.simplefilter("ignore")
    train = loop if part == "loops" else fit
    count = LOOPS if part == "loops" else FIT[part]
    cases = [(fault, None, i) for fault in FAULTS for i in range(min(count, fewer))]
    if part in ("loops", "torch"):
        count = HEALTHY_LOOPS if part == "loops" else HEALTHY_FIT
        names = [
            name for name in HEALTHY if part == "loops" or name not in ("signed", "adversaries")
        ]
        names += ["one sample", "restarts"] if part == "torch" else []
        cases += [(None, name, i) for name in names for i in range(min(count, fewer))]
    for number, (fault, name, _) in enumerate(cases):
        found = train(fault, number, name)
        fact = {"part": part, "fault": fault, "name": name, "seed": number, **found}
        tell(fact)


def collected(parts, fewer):
    rows = []
    for part in parts:
        backend = "torch" if part == "loops" else part
        arguments = ["--child", "--part", part, "--runs", fewer]
        rows += told_by(__file__, arguments, KERAS_BACKEND=backend)
    return rows


def report(rows, seconds):
    planted = [row for row in rows if row["fault"] and row["is_spike"]]
    healthy = [row for row in rows if not row["fault"]]
    lines = [
        "# Planted spikes of the loss", "",
        f"`benchmarks/planted_spikes.py` on {machine()}; {seconds:.0f} s. Trainings of {STEPS} "
        "steps with the defaults: torch loops with `losses=`, and `fit` on three backends.", "",
        "| planted | trainings | step exact | an alarm | samples known | worst named first |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for fault in [*FAULTS, None]:
        own = [row for row in planted if fault in (None, row["fault"])]
        known = [row for row in own if row["has_samples"]]
        cells = [fault or "all", len(own), sum(r["exact"] for r in own)]
        cells += [sum(bool(r["alarms"]) for r in own), len(known)]
        cells += [sum(row["sample_first"] for row in known) if known else "-"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "Severity of the spikes: " + ", ".join(
        f"{count} {name}" for name, count in Counter(r["severity"] for r in planted).items()
    ) + "."]  # fmt: skip
    spikes = [row for row in healthy if "loss-spike" in row["alarms"]]
    lines += [
        "",
        f"Healthy trainings: {len(healthy)}; with an alarm of `loss-spike`: {len(spikes)}.",
    ]
    lines += [f"- {row['part']}, {row['name']}" for row in spikes]
    for row in planted:
        if not row["exact"] or (row["has_samples"] and not row["sample_first"]):
            lines.append(f"- missed: {row['part']}, {row['fault']} {row['seed']}, {row['since']}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=["loops", *FIT])
    parser.add_argument("--runs", type=int, default=99, help="trainings of each sort, at most")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_part(options.part, options.runs)
        return
    began = time.perf_counter()
    rows = collected([options.part] if options.part else ["loops", *FIT], options.runs)
    text = report(rows, time.perf_counter() - began)
    print(text)
    if not options.part and options.runs > LOOPS:
        (RESULTS / "planted_spikes.md").write_text(text)


if __name__ == "__main__":
    main()
