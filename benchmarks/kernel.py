"""How fast measuring reads memory, against the fastest that the same device reads.

    python benchmarks/kernel.py --framework torch --device cuda --name h200
    python benchmarks/kernel.py --framework jax --device cpu --name cpu --largest 1e8

Side by side: a plain sum over one tensor of as many elements, which is what reading
costs; gradwatch's summary of all tensors; summary and histograms; and one reduction a
statistic and tensor, which is how it is done without gradwatch. They take turns. Results
go to `results/kernel-<name>.json` and, of all frameworks measured so far, to `.md`.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
READ, SUMMARY, BOTH, NAIVE = "read", "summary", "summary and histograms", "naive"
# Elements and tensors: first the case that goals are set for, then how it grows.
CASES = [
    (335_000_000, 289),
    *((n, 100) for n in (10**4, 10**5, 10**6, 10**7, 10**8, 10**9)),
    *((10**8, n) for n in (10, 1000, 10_000)),
]


def sizes_of(elements, tensors):
    """Sizes of as many tensors, as unequal as those of a transformer: half are small."""
    small = min(1024, max(1, elements // (4 * tensors)))
    smalls = tensors // 2
    large = (elements - small * smalls) // (tensors - smalls)
    return [small] * smalls + [large] * (tensors - smalls)


class Torch:
    """The variants in torch."""

    def __init__(self, device):
        import torch

        from gradwatch.measure.torch import measure

        self.torch, self.device, self.measure = torch, device, measure

    def name(self):
        if self.device == "cuda":
            return self.torch.cuda.get_device_name()
        return f"CPU, {self.torch.get_num_threads()} threads"

    def variants(self, sizes):
        torch = self.torch
        whole = torch.randn(sum(sizes), device=self.device)
        tensors = [torch.randn(n, device=self.device) * 0.02 for n in sizes]
        everything = range(len(tensors))
        functions = {
            READ: lambda: whole.sum(),
            SUMMARY: lambda: self.measure(tensors, ()),
            BOTH: lambda: self.measure(tensors, everything),
        }
        if len(tensors) <= 1000:
            functions[NAIVE] = lambda: torch.stack([self.naive(x) for x in tensors])
        return functions

    def naive(self, x):
        norm = self.torch.linalg.vector_norm
        found = (x.sum(), norm(x, 1), norm(x), x.amin(), x.amax(), (x == 0).sum())
        return self.torch.stack([each.float() for each in found])

    def time(self, function):
        """Milliseconds of the device, and of the host until it may go on."""
        if self.device == "cpu":
            start = time.perf_counter()
            function()
            took = 1e3 * (time.perf_counter() - start)
            return took, took
        cuda = self.torch.cuda
        cuda.synchronize()
        start = time.perf_counter()
        function()
        host = time.perf_counter() - start
        cuda.synchronize()
        before, after = (cuda.Event(enable_timing=True) for _ in range(2))
        # The device is kept busy until the host has said all: what is timed is its work.
        cuda._sleep(int(3e9 * host))
        before.record()
        function()
        after.record()
        cuda.synchronize()
        return before.elapsed_time(after), 1e3 * host


class Jax:
    """The variants in JAX, each compiled."""

    def __init__(self, device):
        import jax
        import jax.numpy as jnp

        from gradwatch.measure import jax as measure

        jax.config.update("jax_platforms", device)
        self.jax, self.jnp, self.own = jax, jnp, measure

    def name(self):
        return str(self.jax.devices()[0].device_kind)

    def variants(self, sizes):
        jax, jnp = self.jax, self.jnp
        key = jax.random.key(0)
        whole = jax.random.normal(key, (sum(sizes),))
        tensors = [jax.random.normal(key, (n,)) * 0.02 for n in sizes]
        total = jax.jit(jnp.sum)
        summary = jax.jit(lambda xs: self.own.measure(xs)[0])
        both = jax.jit(lambda xs: self.own.measure(xs, range(len(xs))))
        functions = {
            READ: lambda: total(whole),
            SUMMARY: lambda: summary(tensors),
            BOTH: lambda: both(tensors),
        }
        if len(tensors) <= 300:
            naive = jax.jit(lambda xs: jnp.stack([self.naive(x) for x in xs]))
            functions[NAIVE] = lambda: naive(tensors)
        return functions

    def naive(self, x):
        jnp = self.jnp
        found = (x.sum(), jnp.abs(x).sum(), jnp.sqrt((x * x).sum()), x.min(), x.max())
        return jnp.stack([*found, (x == 0).sum().astype(x.dtype)])

    def time(self, function):
        start = time.perf_counter()
        result = function()
        host = time.perf_counter() - start
        self.jax.block_until_ready(result)
        return 1e3 * (time.perf_counter() - start), 1e3 * host


class TensorFlow:
    """The variants in TensorFlow, each a graph."""

    def __init__(self, device):
        import tensorflow as tf

        from gradwatch.measure import tensorflow as measure

        self.tf, self.device, self.own = tf, device, measure

    def name(self):
        threads = self.tf.config.threading.get_intra_op_parallelism_threads()
        return f"{self.device}, {threads or os.cpu_count()} threads"

    def variants(self, sizes):
        tf = self.tf
        whole = tf.random.normal((sum(sizes),))
        # Variables, as weights are: a constant of the graph would be measured while it is made.
        tensors = [tf.Variable(tf.random.normal((n,)) * 0.02) for n in sizes]
        total = tf.function(tf.reduce_sum)
        summary = tf.function(lambda: self.own.measure(tensors)[0])
        both = tf.function(lambda: self.own.measure(tensors, range(len(tensors))))
        functions = {READ: lambda: total(whole), SUMMARY: summary, BOTH: both}
        if len(tensors) <= 300:
            functions[NAIVE] = tf.function(lambda: tf.stack([self.naive(x) for x in tensors]))
        return functions

    def naive(self, x):
        tf = self.tf
        found = [tf.reduce_sum(x), tf.reduce_sum(tf.abs(x)), tf.norm(x)]
        found += [tf.reduce_min(x), tf.reduce_max(x), tf.reduce_sum(tf.cast(x == 0, x.dtype))]
        return tf.stack(found)

    def time(self, function):
        start = time.perf_counter()
        result = function()
        host = time.perf_counter() - start
        self.tf.nest.map_structure(lambda x: x.numpy(), result)
        return 1e3 * (time.perf_counter() - start), 1e3 * host


FRAMEWORKS = {"torch": Torch, "jax": Jax, "tensorflow": TensorFlow}


def measure(framework, elements, tensors, rounds):
    """For each variant its times, in milliseconds, in each round; and compiling first."""
    functions = framework.variants(sizes_of(elements, tensors))
    first = {name: framework.time(function)[1] for name, function in functions.items()}
    for function in functions.values():
        framework.time(function)
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(framework.time(function))
    return {
        name: {
            "device_ms": [device for device, _ in pairs],
            "host_ms": [host for _, host in pairs],
            "first_call_ms": first[name],
        }
        for name, pairs in times.items()
    }


def table(results):
    """All results as Markdown."""
    lines = [
        "| framework | device | elements | tensors | variant | ms (median) | spread | GB/s "
        "| of reading | host ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results.values():
        for case in result["cases"]:
            read = statistics.median(case["times"][READ]["device_ms"])
            for name, found in case["times"].items():
                values = found["device_ms"]
                middle = statistics.median(values)
                lines.append(
                    f"| {result['framework']} | {result['device']} | {case['elements']:,} "
                    f"| {case['tensors']:,} | {name} | {middle:.3f} "
                    f"| {min(values):.3f} to {max(values):.3f} "
                    f"| {4e-6 * case['elements'] / middle:,.0f} | {100 * read / middle:.0f} % "
                    f"| {statistics.median(found['host_ms']):.3f} |"
                )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", choices=tuple(FRAMEWORKS), default="torch")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--name", default="cpu", help="of the machine, in the results' names")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--largest", type=float, default=1e9, help="elements at most")
    parser.add_argument("--most", type=float, default=10_000, help="tensors at most")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    framework = FRAMEWORKS[args.framework](args.device)
    cases = []
    for elements, tensors in CASES:
        if elements <= args.largest and tensors <= args.most:
            times = measure(framework, elements, tensors, args.rounds)
            cases.append({"elements": elements, "tensors": tensors, "times": times})
            print(f"{elements:,} elements in {tensors:,} tensors: done", flush=True)
    file = args.output / f"kernel-{args.name}.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results[f"{args.framework} {args.device}"] = {
        "framework": args.framework,
        "device": framework.name(),
        "cases": cases,
    }
    file.write_text(json.dumps(results))
    file.with_suffix(".md").write_text(table(results) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
