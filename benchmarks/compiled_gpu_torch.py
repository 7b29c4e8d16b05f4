"""The part of `compiled_gpu.py` that compiles a transformer with torch."""

import statistics
import tempfile
import time
from collections import Counter

import torch
from common import turns
from torch.nn import functional

import gradwatch

SIZES = {
    "large": {"width": 768, "depth": 12, "heads": 12, "length": 512, "vocabulary": 32_000},
    "small": {"width": 32, "depth": 2, "heads": 2, "length": 16, "vocabulary": 100},
}
BATCH = {"large": 16, "small": 2}
STEPS = {"large": 20, "small": 3}
"""Steps of a block that is timed."""
WARM = 10
"""Steps before a block, in which a run begins."""
ROUNDS = 40
"""At most, as time allows."""
NEVER = 10**9
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        wide, narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.mlp = torch.nn.Sequential(wide, torch.nn.GELU(), narrow)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


def make_module(width, depth, heads, length, vocabulary):
    """A causal language model; its class is its own, so that it shares no compiled code."""

    class Transformer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = torch.nn.Embedding(vocabulary, width)
            self.positions = torch.nn.Parameter(torch.randn(length, width) / width)
            self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(depth)])
            self.norm = torch.nn.LayerNorm(width)
            self.head = torch.nn.Linear(width, vocabulary, bias=False)

        def forward(self, x, y):
            logits = self.head(self.norm(self.blocks(self.tokens(x) + self.positions)))
            return functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())

    torch.manual_seed(0)
    return Transformer().to(DEVICE)


def synchronise():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def allocated():
    return torch.cuda.memory_allocated() if DEVICE == "cuda" else 0


class Count(gradwatch.Sink):
    """Counts the sites of a reading, by kind."""

    def __init__(self):
        self.kinds = Counter()

    def write(self, reading):
        self.kinds |= Counter(str(site.kind) for site in reading.sites)


class Training:
    """A compiled module with its optimizer."""

    def __init__(self, size, factor=1):
        before = allocated()
        sizes = SIZES[size]
        self.module = torch.compile(make_module(**sizes), fullgraph=True)
        parameters = self.module.parameters()
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        self.count = Count()
        shape = (BATCH[size] * factor, sizes["length"])
        draw = torch.Generator(DEVICE).manual_seed(0)
        self.x = torch.randint(sizes["vocabulary"], shape, device=DEVICE, generator=draw)
        self.y = self.x.roll(-1, 1)
        for p in self.module.parameters():  # So that the optimizer has its state.
            p.grad = torch.zeros_like(p)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.own_bytes = allocated() - before
        """Of weights, the optimizer's state and the batch."""

    def watch(self, options, directory):
        sinks = [gradwatch.Store(), gradwatch.TensorBoard(), self.count]
        return gradwatch.watch(self.module, self.optimizer, directory, sinks=sinks, **options)

    def steps(self, count, monitor=None):
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = self.module(self.x, self.y)
            loss.backward()
            self.optimizer.step()
            if monitor is not None:
                monitor.record(loss=loss.detach())

    def timed(self, options, count):
        """Milliseconds of a step, and the peak of memory in bytes; None is bare."""
        with tempfile.TemporaryDirectory() as directory:
            monitor = None if options is None else self.watch(options, f"{directory}/run")
            self.steps(WARM, monitor)
            self.optimizer.zero_grad()
            time.sleep(0.1)
            synchronise()
            others = allocated() - self.own_bytes
            if DEVICE == "cuda":
                torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            self.steps(count, monitor)
            synchronise()
            ms = (time.perf_counter() - start) / count * 1e3
            peak = torch.cuda.max_memory_allocated() - others if DEVICE == "cuda" else 0
            self.optimizer.zero_grad()
            if monitor is not None:
                monitor.close()
            return ms, peak


def compare(label, training, bare, variants, count, seconds):
    """Lines of a table: variants take turns with the bare training."""
    goals = {name: goal for name, (_, goal) in variants.items()}
    peaks = {None: []} | {name: [] for name in variants}

    def fit(name):
        options = None if name is None else variants[name][0]
        ms, peak = (bare if name is None else training).timed(options, count)
        peaks[name].append(peak)
        return ms

    until = time.monotonic() + seconds
    for name in (None, *variants):
        fit(name)  # Compiles the kernels that measure.
    peaks = {name: [] for name in peaks}
    left = until - time.monotonic()
    times, beside = turns(fit, {name: name for name in variants}, ROUNDS, left)
    for name, own in times.items():
        yield {
            "training": label,
            "step": name,
            "ms": own,
            "bare": beside[name],
            "goal": goals[name],
            "peak": statistics.median(peaks[name]),
            "bare_peak": statistics.median(peaks[None]),
        }


def prepare(is_small, factor=1):
    """Compile, for so many times the batch; returns what measures, within so many seconds."""
    size = "small" if is_small else "large"
    two = [gradwatch.gradients(), gradwatch.weights()]
    variants = {
        "gradients and weights, every step": ({"every": 1, "watch": two}, 1.05),
        "not due": ({"every": NEVER, "watch": two}, 1.005),
    }
    start = time.perf_counter()
    bare = Training(size, factor)
    bare.steps(2)
    synchronise()
    facts = f"{described(bare, size)}; compiled in {time.perf_counter() - start:.0f} s"

    def measure(seconds):
        yield {"text": f"{facts}; {host_time(bare)}"}
        label = f"torch.compile, batch {len(bare.x)}"
        yield from compare(label, bare, bare, variants, STEPS[size], seconds)

    return measure


def described(training, size):
    parameters = list(training.module.parameters())
    count = sum(p.numel() for p in parameters)
    return (
        f"torch: {count / 1e6:.1f} M parameters in {len(parameters)} tensors, {SIZES[size]}, batch "
        f"{len(training.x)}, bf16 autocast, fused AdamW on {DEVICE}"
    )


def host_time(training):
    """Whether a bare step waits for the host or for the device, in words."""
    singles = []
    for _ in range(10):
        synchronise()
        start = time.perf_counter()
        training.steps(1)
        launched = time.perf_counter() - start
        synchronise()
        singles.append((launched * 1e3, (time.perf_counter() - start) * 1e3))
    launched, ended = map(statistics.median, zip(*singles, strict=True))
    return f"a single bare step is launched in {launched:.1f} ms and has ended after {ended:.1f} ms"
