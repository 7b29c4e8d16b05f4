"""Whether a second moment that lags behind is found before the loss spikes.

In the planted trainings, Adam's second moment has seen nothing of some inputs when these begin:
features, a channel of images, new tokens at new places. Their weights start at 0, so the loss tells
nothing at first; but the next steps are several times too large, and the loss spikes. Its spike
begins at the first loss above half as much again as any of the 40 before it, at most 15 steps after
the inputs began. A training whose loss does not spike, or at once, is no planted spike, and is
listed. A finding counts if it is made in a step before the spike.

Healthy are the same trainings with a quicker second moment (beta_2 of 0.95), where the loss does
not spike; those in which nothing begins; and others that are noisy: small batches, outliers, rare
tokens, restarts, warm-up, tasks in turns, dropout. An alarm of the rule in any of them is false.

    python benchmarks/planted_lags.py [--part loops|optax|torch|jax|tensorflow] [--runs 9]
"""

import argparse
import math
import tempfile
import time
import warnings
from itertools import pairwise

import numpy as np
from common import RESULTS, machine, tell, told_by

RULE = "second-moment-lagging"
SIGNALS = ("features", "slowly", "channel", "tokens")
RUNS = {"loops": 6, "optax": 5, "torch": 1, "jax": 1, "tensorflow": 1}
"""How many trainings with each signal."""
QUICK, NOTHING = "beta_2 of 0.95", "nothing begins"
NOISY = (
    "one sample", "four samples", "outliers", "rare tokens", "restarts", "warm-up",
    "tasks in turns", "dropout", "rare features", "few samples", "clipped", "heavy tails",
)  # fmt: skip
NOISY_RUNS = 4
STEPS, FRESH = 150, 15
KNOWN, VOCABULARY, LENGTH, MORE, CLASSES = 100, 120, 12, 8, 4


class Stream:
    """Batches of a task, in which something begins with a step, or nothing at all."""

    def __init__(self, signal, seed, begin, name=None):
        self.rng = rng = np.random.default_rng(seed)
        self.signal, self.begin, self.name = signal, begin, name
        self.batch = {"one sample": 1, "four samples": 4}.get(name, 32)
        self.size = float(rng.uniform(8, 18))
        self.task = rng.standard_normal((16, CLASSES))
        self.other = rng.standard_normal((16, CLASSES))
        self.words = rng.standard_normal((VOCABULARY, CLASSES))
        self.kept = None

    def share(self, step):
        """How much of what begins is there."""
        if self.begin is None or step < self.begin:
            return 0.0
        return min((step - self.begin + 1) / 10, 1.0) if self.signal == "slowly" else 1.0

    def __call__(self, step):
        if self.name == "few samples":
            self.kept = self.kept or [self._batch(step) for _ in range(3)]
            return self.kept[step % 3]
        return self._batch(step)

    def _batch(self, step):
        make = {"channel": self.images, "tokens": self.tokens}
        return make.get(self.signal, self.features)(self.share(step), step)

    def labels(self, score):
        return (score + self.rng.gumbel(size=score.shape)).argmax(1).astype("i4")

    def features(self, share, step):
        rng, n = self.rng, self.batch
        x = rng.standard_normal((n, 16))
        if self.name == "heavy tails":
            x = rng.standard_t(2.5, (n, 16))
        if self.name == "rare features":
            x *= rng.random((n, 16)) < 0.02
        if self.name == "outliers" and rng.random() < 0.03:
            x[0] *= 30.0
        in_turns = self.name == "tasks in turns" and step // 40 % 2
        more = np.zeros((n, 8))
        if share:
            more = self.size * share * (1 + 0.5 * rng.standard_normal((n, 8)))
        y = self.labels(2 * x @ (self.other if in_turns else self.task))
        return np.concatenate([x, more], 1).astype("f"), y

    def images(self, share, step):
        rng, n = self.rng, self.batch
        x = rng.standard_normal((n, 8, 8, 3))
        y = self.labels(6 * x[..., :2].reshape(n, 8, 16).mean(1) @ self.task)
        x[..., 2] = share * 2 * self.size * (1 + 0.5 * x[..., 2])
        return x.astype("f"), y

    def tokens(self, share, step):
        rng, n = self.rng, self.batch
        x = rng.integers(1, KNOWN, (n, LENGTH))
        if self.name == "rare tokens":
            x = np.minimum(rng.zipf(1.3, (n, LENGTH)), KNOWN - 1)
        y = self.labels(10 * self.words[x].mean(1))
        more = rng.integers(KNOWN, VOCABULARY, (n, MORE))
        return np.concatenate([x, more * (share > 0)], 1).astype("i4"), y


def true_step(losses, begin):
    """The first step of the spike after something has begun; None if there is none."""
    before = losses[begin - 41 : begin - 1]
    least = before.max() + 0.5 * abs(before.max())
    high = [at for at in range(begin, begin + FRESH + 1) if not losses[at - 1] <= least]
    return high[0] if high else None


def judged(monitor, losses, begin):
    """What was found, as facts."""
    spike = begin and true_step(np.array(losses), begin)
    own = [f for f in monitor.findings if f.rule == RULE]
    return {
        "begin": begin,
        "spike": spike,
        "height": spike and float(max(losses[spike - 1 : spike + FRESH])),
        "detected": [f.detected for f in own],
        "alarms": [f.detected for f in own if f.is_alarm or f.explained_by],
        "layers": [f.layer for f in own],
        "evidence": [dict(f.evidence) for f in own],
    }


def settings(name, seed):
    """The learning rate and beta_2."""
    rng = np.random.default_rng(500 + seed)
    return float(rng.choice([3e-3, 5e-3, 1e-2])), 0.95 if name == QUICK else 0.999


def rate_at(name, rate, step):
    if name == "restarts":
        return rate * (0.01 + 0.5 * (1 + math.cos(math.pi * (step % 60) / 60)))
    return rate * min(step / 60, 1.0) if name == "warm-up" else rate


def planned(part, fewer):
    """(signal, name, seed) of each training of a part."""
    count = min(RUNS[part], fewer)
    signals = {"loops": SIGNALS, "optax": SIGNALS[:2]}.get(part, ("features", "channel"))
    seeds = {signal: [10 * i + j for j in range(count)] for i, signal in enumerate(signals)}
    shift = 100 * list(RUNS).index(part)
    for name in (None, QUICK, NOTHING):
        yield from ((s, name, shift + seed) for s in signals for seed in seeds[s])
    if part == "loops":
        for i, name in enumerate(NOISY):
            signal = "tokens" if name == "rare tokens" else "features"
            for j in range(min(NOISY_RUNS, fewer)):
                yield signal, name, 1000 + 10 * i + j


def began(name, seed):
    """The step with which something begins."""
    is_planted = name in (None, QUICK)
    return int(np.random.default_rng(seed).integers(80, 120)) if is_planted else None


def torch_model(signal, name):
    """A module, with weights of 0 for what has not begun."""
    import torch
    from torch import nn

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 32, padding_idx=0)
            self.places = nn.Embedding(LENGTH + MORE, 32)
            nn.init.normal_(self.embedding.weight, std=0.05)
            nn.init.normal_(self.places.weight, std=0.05)
            self.attend = nn.MultiheadAttention(32, 2, batch_first=True)
            self.norm, self.end, self.out = nn.LayerNorm(32), nn.LayerNorm(32), nn.Linear(32, 4)

        def forward(self, x):
            there = (x != 0).unsqueeze(-1)
            h = (self.embedding(x) + self.places.weight) * there
            n = self.norm(h)
            h = h + self.attend(n, n, n, key_padding_mask=x == 0, need_weights=False)[0]
            h = (h * there).sum(1) / there.sum(1)
            return self.out(self.end(h))

    with torch.no_grad():
        if signal == "tokens":
            net = Text()
            net.embedding.weight[KNOWN:] = 0
            net.places.weight[LENGTH:] = 0
            return net
        if signal == "channel":
            net = nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2),
                nn.ReLU(), nn.Flatten(), nn.Linear(144, 4),
            )  # fmt: skip
            net[0].weight[:, 2] = 0
            return net
        drop = [nn.Dropout(0.3)] if name == "dropout" else []
        net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), *drop, nn.Linear(64, 64), nn.ReLU(),
                            nn.Linear(64, 4))  # fmt: skip
        net[0].weight[:, 16:] = 0
        return net


def loop(signal, name, seed):
    """A torch loop."""
    import torch

    import gradwatch

    torch.manual_seed(seed)
    begin, (rate, beta) = began(name, seed), settings(name, seed)
    stream, net = Stream(signal, seed, begin, name), torch_model(signal, name)
    optimizer = torch.optim.AdamW(net.parameters(), rate, betas=(0.9, beta))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        monitor = gradwatch.watch(net, optimizer, directory, **watching())
        losses = []
        for step in range(1, (begin or STEPS) + FRESH + 1):
            x, y = map(torch.from_numpy, stream(step))
            x = x.permute(0, 3, 1, 2) if signal == "channel" else x
            optimizer.param_groups[0]["lr"] = rate_at(name, rate, step)
            loss = torch.nn.functional.cross_entropy(net(x), y.long())
            optimizer.zero_grad()
            loss.backward()
            if name == "clipped":
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            optimizer.step()
            losses.append(float(loss.detach()))
            monitor.record(loss=loss)
            caught_up(monitor, step)
        monitor.close()
        return judged(monitor, losses, begin)


def optax_loop(signal, name, seed):
    """A loop with JAX and optax."""
    import jax
    import optax

    import gradwatch

    begin, (rate, beta) = began(name, seed), settings(name, seed)
    stream, rng = Stream(signal, seed, begin, name), np.random.default_rng(seed)
    sizes = (24, 64, 64, 4)
    params = {
        f"dense_{i}": {"kernel": (rng.standard_normal((a, b)) / a**0.5).astype("f"),
                       "bias": np.zeros(b, "f")}
        for i, (a, b) in enumerate(pairwise(sizes))
    }  # fmt: skip
    params["dense_0"]["kernel"][16:] = 0
    adam = optax.adamw(rate, b2=beta)

    def loss_of(params, x, y):
        for i in range(3):
            x = x @ params[f"dense_{i}"]["kernel"] + params[f"dense_{i}"]["bias"]
            x = jax.nn.relu(x) if i < 2 else x
        return optax.softmax_cross_entropy_with_integer_labels(x, y).mean()

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        monitor = gradwatch.Monitor(directory, **watching())

        @jax.jit
        def train(params, state, x, y):
            loss, grads = jax.value_and_grad(loss_of)(params, x, y)
            updates, state = adam.update(grads, state, params)
            after = optax.apply_updates(params, updates)
            return after, state, loss, monitor.measure(
                gradients=grads, parameters=after, previous=params, loss=loss,
                optimizer_state=(adam, state))  # fmt: skip

        state, losses = adam.init(params), []
        for step in range(1, (begin or STEPS) + FRESH + 1):
            params, state, loss, readings = train(params, state, *stream(step))
            losses.append(float(loss))
            monitor.record(readings, step=step, loss=losses[-1])
            caught_up(monitor, step)
        monitor.close()
        return judged(monitor, losses, begin)


def keras_model(signal):
    """A model of Keras, with weights of 0 for what has not begun."""
    import keras
    from keras import layers

    if signal == "channel":
        convolutions = [layers.Conv2D(16, 3, s, "same", activation="relu") for s in (1, 2)]
        model = keras.Sequential(
            [keras.Input((8, 8, 3)), *convolutions, layers.Flatten(), layers.Dense(CLASSES)]
        )
        first, rows = model.layers[0].kernel, np.s_[:, :, 2]
    else:
        hidden = [layers.Dense(64, "relu") for _ in range(2)]
        model = keras.Sequential([keras.Input((24,)), *hidden, layers.Dense(CLASSES)])
        first, rows = model.layers[0].kernel, np.s_[16:]
    start = np.array(keras.ops.convert_to_numpy(first))
    start[rows] = 0
    first.assign(start)
    return model


def fit(signal, name, seed):
    """Keras's `fit`."""
    import keras

    import gradwatch

    keras.utils.set_random_seed(seed)
    begin, (rate, beta) = began(name, seed), settings(name, seed)
    stream, model, losses = Stream(signal, seed, begin, name), keras_model(signal), []
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(rate, beta_2=beta, epsilon=1e-8), loss)
    steps = (begin or STEPS) + FRESH

    class Told(keras.callbacks.Callback):
        def on_train_batch_begin(self, index, logs=None):
            self.model.reset_metrics()  # Else the logs are means over the epoch so far.

        def on_train_batch_end(self, index, logs=None):
            losses.append(float(logs["loss"]))
            caught_up(monitor, index)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        monitor = gradwatch.Monitor(directory, **watching())
        model.fit((stream(step) for step in range(1, steps + 1)), steps_per_epoch=steps,
                  verbose=0, callbacks=[Told(), monitor])  # fmt: skip
        return judged(monitor, losses, begin)


def watching():
    import gradwatch

    watch = [gradwatch.gradients(), gradwatch.optimizer_state()]
    return {"watch": watch, "every": 1, "sinks": [], "diagnose": [RULE, "loss-spike"]}


def caught_up(monitor, step):
    """Steps of a millisecond would be dropped now and then: wait until they are written."""
    while step % 16 == 0 and not monitor._session.is_idle:
        time.sleep(0.0005)


def run_part(part, fewer):
    """Prints a line of JSON for each training."""
    warnings.simplefilter("ignore")
    train = {"loops": loop, "optax": optax_loop}.get(part, fit)
    for signal, name, seed in planned(part, fewer):
        found = train(signal, name, seed)
        fact = {"part": part, "signal": signal, "name": name, "seed": seed, **found}
        tell(fact)


def collected(parts, fewer):
    rows = []
    for part in parts:
        backend = {"loops": "torch", "optax": "jax"}.get(part, part)
        arguments = ["--child", "--part", part, "--runs", fewer]
        rows += told_by(__file__, arguments, KERAS_BACKEND=backend)
    return rows


def report(rows, seconds):
    planted = [row for row in rows if row["name"] is None]
    spikes = [row for row in planted if row["spike"] and row["spike"] > row["begin"]]
    others = [row for row in planted if row not in spikes]
    early = [row for row in spikes if is_early(row)]
    leads = sorted(row["spike"] - min(row["detected"]) for row in early)
    lines = [
        "# Second moments that lag behind", "",
        f"`benchmarks/planted_lags.py` on {machine()}, shared with other work; {seconds:.0f} s. "
        "Adam with beta_2 of 0.999, every step measured. Warned: the rule has found it in a step "
        "before the loss spikes.", "",
        "| part | planted spikes | warned |", "|---|---|---|",
    ]  # fmt: skip
    for part in [*dict.fromkeys(row["part"] for row in rows), "all"]:
        own = [row for row in spikes if part in (row["part"], "all")]
        lines.append(f"| {part} | {len(own)} | {sum(map(is_early, own))} |")
    if leads:
        middle = leads[len(leads) // 2]
        lines += ["", f"Steps from the warning to the spike: {leads[0]} to {leads[-1]}, median "
                  f"{middle}."]  # fmt: skip
    lines += [
        f"- missed: {said(row)}, found in {row['detected']}" for row in spikes if not is_early(row)
    ]
    warned = sum(bool(row["detected"]) for row in others)
    lines += ["", f"Planted, but not counted: {len(others)}, since the loss does not spike, or "
              f"does at once; with a warning: {warned}."]  # fmt: skip
    lines += [f"- {said(row)}, warned in {row['detected']}" for row in others]
    healthy = [row for row in rows if row["name"] is not None]
    quick = [row for row in healthy if row["name"] == QUICK and row["spike"]]
    healthy = [row for row in healthy if row not in quick]
    false = [row for row in healthy if row["alarms"]]
    lines += [
        "", f"Healthy: {len(healthy)}; with a false alarm: {len(false)}. Left out: {len(quick)} "
        f"with {QUICK} whose loss spikes nevertheless.", "",
        "| healthy | trainings | false alarms |", "|---|---|---|",
    ]  # fmt: skip
    for name in (QUICK, NOTHING, *NOISY):
        own = [row for row in healthy if row["name"] == name]
        lines.append(f"| {name} | {len(own)} | {sum(bool(row['alarms']) for row in own)} |")
    lines += [f"- {said(row)}, in {row['alarms']}" for row in false]
    return "\n".join(lines) + "\n"


def is_early(row):
    return any(step < row["spike"] for step in row["detected"])


def said(row):
    """A training in words."""
    kind = row["name"] or "planted"
    spike = f", spike in {row['spike']}" if row["spike"] else ""
    began = f", begins in {row['begin']}{spike}" if row["begin"] else ""
    return f"{row['part']}, {row['signal']}, {kind}, seed {row['seed']}{began}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=[*RUNS])
    parser.add_argument("--runs", type=int, default=99, help="trainings of each sort, at most")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_part(options.part, options.runs)
        return
    begin = time.perf_counter()
    rows = collected([options.part] if options.part else list(RUNS), options.runs)
    text = report(rows, time.perf_counter() - begin)
    print(text)
    if not options.part and options.runs > NOISY_RUNS:
        (RESULTS / "planted_lags.md").write_text(text)


if __name__ == "__main__":
    main()
