"""Are the summaries and histograms that a GPU makes those of the float64 NumPy reference?

    PYTHONPATH=src python benchmarks/kernel_check.py              # needs a GPU and torch

It goes where the tests, which run on a CPU, cannot: every type that the kernels read, odd
sizes, misaligned and scattered views, nothing at all, NaN and infinities, numbers whose
squares do not fit a float32, more tensors than one, and more elements than 2^24.
"""

import argparse

import numpy as np
import torch

from gradwatch.core import Summary, reference
from gradwatch.core.statistics import std
from gradwatch.measure.torch import measure

SIZES = (0, 1, 2, 3, 7, 31, 127, 1023, 1024, 1025, 32_767, 32_768, 32_769, 65_537, 300_007)
TYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float64")


def numbers(size, dtype, device):
    """Numbers of several magnitudes, a zero of each sign among them."""
    x = torch.randn(size, dtype=torch.float64)
    x *= torch.rand(size, dtype=torch.float64) ** 3
    x[1::17] = 0.0
    x[2::29] = -0.0
    return x.to(device).to(getattr(torch, dtype))


def cases(device):
    """Names and tensors."""
    for dtype in TYPES:
        for size in SIZES:
            yield f"{dtype} of {size}", numbers(size, dtype, device)
            # A view that begins one element late is not aligned.
            yield f"{dtype} of {size}, misaligned", numbers(size + 1, dtype, device)[1:]
        matrix = numbers(300 * 70, dtype, device).view(300, 70)
        yield f"{dtype} transposed", matrix.T
        yield f"{dtype} every other", matrix[::2, 1::3]
        yield f"{dtype} 0-d", numbers(1, dtype, device).reshape(())
        if dtype != "float8_e4m3fn":  # It has no infinity.
            for size in (9, 70_000):
                x = numbers(size, "float32", device)
                x[[1, 3, 5, size - 1]] = torch.tensor(
                    [np.nan, np.inf, -np.inf, np.inf], device=device
                )
                yield f"{dtype} of {size}, not all finite", x.to(getattr(torch, dtype))
        nothing_finite = torch.full((40_000,), np.nan, device=device)
        yield f"{dtype} all NaN", nothing_finite.to(getattr(torch, dtype))
        yield f"{dtype} all 0", torch.zeros(40_000, device=device).to(getattr(torch, dtype))
    many = 10.0 ** (torch.rand(50_000, dtype=torch.float64) * 70 - 35)
    signs = torch.where(torch.rand(50_000) < 0.5, -1.0, 1.0)
    yield "many magnitudes", (many * signs).float().to(device)
    yield "1e38-sized", torch.tensor([3e38, -3e38, 1e38] * 500, device=device)
    yield "1e100-sized", numbers(5000, "float64", device) * 1e100
    yield "tiny", torch.tensor([1e-30, -1e-25] * 20_000, device=device)
    yield "denormal", torch.tensor([1e-40, -1e-42, 0.0, 1e-39] * 300, device=device)
    yield "denormal beside 1", torch.tensor([1e-40, -1e-42, 0.0, 1.0] * 300, device=device)
    yield "around 1", 1 + 1e-4 * numbers(300_007, "float32", device)
    yield "around 1000", 1000 + numbers(300_007, "float32", device)
    yield "whole numbers", torch.arange(-5, 70_000, device=device)
    yield "bool", torch.tensor([True, False, True], device=device)
    yield "uint8", torch.arange(200, device=device).to(torch.uint8)
    constant = torch.full((2**24 + 5,), 0.1, device=device)
    constant[:2] = torch.tensor([0.0, np.nan], device=device)
    yield "beyond 2^24", constant
    yield "constant", torch.full((2**24 + 5,), 1 / 3, device=device)
    cancelling = torch.randn(2**25, device=device)
    yield "cancelling", torch.cat([cancelling, -cancelling])
    yield "none", None


def difference(name, row, cells, x):
    """In words what is wrong; None if nothing is."""
    truth = np.zeros(0) if x is None else x.double().cpu().numpy()
    expected = reference.summarize(truth)
    if not np.array_equal(row[:5], expected[:5]):
        return f"{name}: counts {row[:5]}, not {expected[:5]}"
    scale = expected[[6, 6, 7]]
    with np.errstate(invalid="ignore"):
        off = np.abs(row[5:8] - expected[5:8])
    if not (off <= 1e-6 * scale).all():
        return f"{name}: sums {row[5:8]}, not {expected[5:8]}"
    if not np.array_equal(row[8:], expected[8:]):
        return f"{name}: min and max {row[8:]}, not {expected[8:]}"
    spreads = [float(std(Summary.unpack(each))) for each in (row, expected)]
    if "around" in name and not np.isclose(*spreads, rtol=1e-5):
        return f"{name}: standard deviation {spreads[0]}, not {spreads[1]}"
    counted = reference.count_cells(truth)
    if cells is not None and not np.array_equal(cells, counted):
        wrong = np.flatnonzero(cells != counted)
        return f"{name}: cells {wrong} hold {cells[wrong]}, not {counted[wrong]}"
    return None


def check(device):
    """The number of tensors, and what is wrong with them, in words."""
    named = dict(cases(device))
    tensors = list(named.values())
    everything = range(len(tensors))
    wrong = []
    for chosen in ((), everything, range(0, len(tensors), 2)):
        rows, cells = measure(tensors, chosen)
        rows, cells = rows.cpu().numpy(), iter(cells.cpu().numpy())
        for i, (name, x) in enumerate(named.items()):
            wrong.append(difference(name, rows[i], next(cells) if i in chosen else None, x))
    for name, x in named.items():  # And each one alone.
        rows, cells = measure([x if x is not None else None], [0])
        wrong.append(difference(f"{name}, alone", rows.cpu().numpy()[0], cells.cpu().numpy()[0], x))
    return len(tensors), [words for words in wrong if words]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    torch.manual_seed(0)
    count, wrong = check(device)
    print("\n".join(wrong[:40]))
    print(f"{count} tensors on {device}: {len(wrong)} differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
