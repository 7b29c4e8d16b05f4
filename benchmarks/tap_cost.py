"""What `gradwatch.tap` costs in compiled steps: a torch module with fullgraph=True, a scan of JAX.

Steps that are not due are compared with those of the same model without taps; so are measured ones,
in which the outputs of all blocks and their gradients are summarised. CPU time of all threads, in
turns. The module has 2 blocks, the scan 24.

    python benchmarks/tap_cost.py [rounds] [torch | jax]
"""

import json
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch
from common import RESULTS, machine

import gradwatch

BLOCKS, SCANNED, WIDTH, BATCH = 2, 24, 256, 512
STEPS = 3


class Block(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.wide, self.out = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.name = name

    def forward(self, x):
        x = x + self.out(torch.relu(self.wide(x)))
        return gradwatch.tap(x, self.name) if self.name else x


def torch_steps():
    """Functions that train for a step, by what they are."""

    def make(is_tapped):
        torch.manual_seed(0)
        names = [f"block/{i}" if is_tapped else None for i in range(BLOCKS)]
        module = torch.nn.Sequential(*map(Block, names))
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
        run = torch.compile(module, fullgraph=True)
        x = torch.randn(BATCH, WIDTH)

        def step():
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()

        return step

    tapped = make(is_tapped=True)
    return {
        "bare": make(is_tapped=False),
        "taps, not measured": tapped,
        "taps measured": lambda: gradwatch.with_taps(tapped)(),
    }


def jax_steps():
    rng = np.random.default_rng(0)
    shapes = (SCANNED, WIDTH, 4 * WIDTH), (SCANNED, 4 * WIDTH, WIDTH)
    weights = [jnp.asarray(rng.normal(size=s) / s[1] ** 0.5, jnp.float32) for s in shapes]
    x = jnp.asarray(rng.normal(size=(BATCH, WIDTH)), jnp.float32)

    def make(tap, wrap=lambda function: function):
        def loss(weights, x):
            def block(h, w):
                return tap(h + jax.nn.relu(h @ w[0]) @ w[1]), None

            return jnp.mean(jax.lax.scan(block, x, weights)[0] ** 2)

        compiled = jax.jit(wrap(jax.value_and_grad(loss)))
        return lambda: jax.block_until_ready(jax.tree.leaves(compiled(weights, x)))

    def tap(h):
        return gradwatch.tap(h, "block")

    return {
        "bare": make(lambda h: h),
        "taps, not measured": make(tap),
        "taps measured": make(tap, gradwatch.with_taps),
    }


def measured(steps, rounds):
    """For each, seconds of CPU and of the wall a step, in each round; the order changes."""
    times = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(3):
            step()
    for i in range(rounds):
        names = list(steps)
        for name in names if i % 2 else names[::-1]:
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(STEPS):
                steps[name]()
            spent = time.process_time() - cpu, time.perf_counter() - wall
            times[name].append([seconds / STEPS for seconds in spent])
    return times


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    every = {"torch": torch_steps, "jax": jax_steps}
    for framework in sys.argv[2:] or every:
        times = measured(every[framework](), rounds)
        lines = [f"{machine()}; {rounds} rounds of {STEPS} steps; ms of CPU time a step", ""]
        lines += ["| step | median | lowest | ratio to bare | ratio of the lowest |"]
        lines += ["|---|---|---|---|---|"]
        bare = [cpu for cpu, _ in times["bare"]]
        for name, values in times.items():
            own = [cpu for cpu, _ in values]
            ratio = statistics.median(a / b for a, b in zip(own, bare, strict=True))
            middle, low = 1e3 * statistics.median(own), 1e3 * min(own)
            lowest = min(own) / min(bare)
            lines.append(f"| {name} | {middle:.1f} | {low:.1f} | x{ratio:.3f} | x{lowest:.3f} |")
        text = "\n".join(lines)
        print(framework, text, sep="\n")
        (RESULTS / f"taps-{framework}-cpu.md").write_text(text + "\n")
        (RESULTS / f"taps-{framework}-cpu.json").write_text(json.dumps(times))


if __name__ == "__main__":
    main()
