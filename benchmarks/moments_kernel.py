"""How long a GPU takes to measure an optimizer's step, and of what shape its kernel should be.

    PYTHONPATH=src python benchmarks/moments_kernel.py       # needs a GPU and torch

The tensors are those of 141 M parameters: gradient, both moments, weights before and after. The
floor is reading each once at the speed at which `torch.sum` reads them.
"""

import argparse

import torch
from torch.cuda import Event

from gradwatch.measure.kernels import cuda_moments
from gradwatch.measure.kernels.cuda_moments import StepMoments
from gradwatch.measure.torch import measure

SHAPES = [(32_000, 1024), (1024, 32_000), *[(4096, 1024)] * 12, *[(1024, 1024)] * 24]
SHAPES += [(1024,)] * 40


def milliseconds(work, rounds=10):
    """The median of the device's time for it."""
    for _ in range(3):
        work()
    found = []
    for _ in range(rounds):
        start, end = Event(enable_timing=True), Event(enable_timing=True)
        torch.cuda._sleep(4_000_000)  # Until the host has launched all of it.
        start.record()
        work()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return sorted(found)[rounds // 2]


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    device = torch.device("cuda")
    five = [[torch.randn(shape, device=device) for shape in SHAPES] for _ in range(5)]
    counts = torch.full((2,), 0.5, device=device)
    several = [
        StepMoments(g, w, b, m, v.square_(), counts[0], counts[1])
        for g, w, b, m, v in zip(*five, strict=True)
    ]
    number = sum(x.numel() for x in five[0])
    copies = [torch.empty_like(x) for x in five[0]]
    flat = torch.randn(number, device=device)
    print(f"{number / 1e6:.1f} M parameters in {len(SHAPES)} tensors")
    print(f"torch.sum, one pass: {milliseconds(flat.sum):.3f} ms")
    print(f"summaries of one: {milliseconds(lambda: measure(five[0])):.3f} ms")
    copy = milliseconds(lambda: torch._foreach_copy_(copies, five[0]))
    print(f"_foreach_copy_: {copy:.3f} ms; copy_: {milliseconds(lambda: flat.clone()):.3f} ms")
    shapes = [(1024, 32, 4, 8), (1024, 64, 4, 8), (1024, 128, 4, 8), (1024, 256, 4, 8)]
    shapes += [(512, 128, 4, 4), (512, 256, 4, 4), (2048, 64, 4, 16), (1024, 128, 4, 4)]
    for shape in shapes:
        names = ("BLOCK", "STEPS", "PER", "WARPS")
        for name, value in zip(names, shape, strict=True):
            setattr(cuda_moments, name, value)
        cuda_moments._plans.clear()
        ms = milliseconds(lambda: cuda_moments.measure(several, device))
        print(f"{dict(zip(names, shape, strict=True))}: {ms:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
