"""Is what a GPU measures of an optimizer's step that of float64 NumPy?

    PYTHONPATH=src python benchmarks/moments_check.py              # needs a GPU and torch

Without a GPU, Triton's interpreter runs the same kernels:

    TRITON_INTERPRET=1 PYTHONPATH=src python benchmarks/moments_check.py --device cpu

It goes where the tests, which run on a CPU, cannot: the types that the kernels read, odd sizes,
misaligned tensors, optimizers with one moment or both, with and without epsilon, NaN and
infinities, and numbers whose squares do not fit a float32.
"""

import argparse
from contextlib import nullcontext

import numpy as np
import torch

from gradwatch.core import reference
from gradwatch.measure.kernels import cuda_moments
from gradwatch.measure.kernels.cuda_moments import ROWS, StepMoments

ROLES = ("gradient", "first", "second", "normalized", "ruled", "weight", "update", "cosine")
SIZES = (0, 1, 7, 1023, 1024, 4097, 32_768, 70_001)


def step(size, dtype, device, shift=0, scale=1.0, **numbers):
    """A variable's tensors, as an optimizer might leave them."""

    def draw(spread=1.0):
        x = torch.randn(size + shift, dtype=torch.float64) * spread
        return (x * torch.rand(size + shift, dtype=torch.float64)).to(device).to(dtype)[shift:]

    g, w = draw(scale), draw(0.02)
    g[1::5] = 0
    second = (draw(scale).double() ** 2 * 0.1).to(dtype)
    second[::4] = 0
    before = (w.double() + draw(1e-3).double()).to(dtype)
    before[::3] = w[::3]
    tensors = {"before": before, "first": draw(scale), "second": second, "floor": 1e-3 * scale}
    return StepMoments(g, w, **{**tensors, **numbers})


def cases(device, sizes):
    """Names and variables."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for size in sizes:
            yield f"{dtype} of {size}", step(size, dtype, device)
        yield f"{dtype}, misaligned", step(2049, dtype, device, shift=1, is_descent=True)
    one = torch.float32
    yield "corrected", step(5000, one, device, correction=0.001999, floor=1e-8)
    away = {
        "correction": torch.tensor(0.5, device=device),
        "floor": torch.tensor(0.1, device=device),
    }
    yield "numbers on the device", step(5000, one, device, **away)
    yield "without a floor", step(5000, one, device, floor=None)
    yield "first alone", step(5000, one, device, second=None, floor=None)
    yield "second alone", step(5000, one, device, first=None)
    yield "no update", step(5000, one, device, before=None)
    yield "small", step(40_000, one, device, scale=1e-12)
    yield "tiny", step(5000, one, device, scale=1e-18)
    yield "denormal", step(5000, one, device, scale=1e-21, floor=1e-25)
    yield "large", step(5000, one, device, scale=1e18)
    yield "no epsilon", step(5000, one, device, second=torch.rand(5000, device=device), floor=0.0)
    zero = torch.zeros(3000, device=device)
    yield "zeros", StepMoments(zero, zero, zero, zero, zero, 0.1, 1e-8)
    ones = torch.ones(3000, device=device)
    yield "alike", StepMoments(ones, ones, ones * 1.001, ones, ones, 1.0, 1e-8)
    for name in ("gradient", "weight", "before", "first", "second"):
        odd = step(40_000, one, device)
        broken = getattr(odd, name).clone()
        broken[[3, 5, 35_000]] = torch.tensor([np.nan, np.inf, -np.inf], device=device)
        yield f"{name} not finite", odd._replace(**{name: broken})


def truth(one):
    """By role, the array that is summarised."""

    def wide(x):
        return None if x is None else x.double().cpu().numpy()

    g, m, v, w, b = map(wide, one.tensors)
    found = {"gradient": g, "weight": w}
    with np.errstate(all="ignore"):
        if b is not None:
            found["update"] = (w.astype(np.float32) - b.astype(np.float32)).astype(float)
        if m is not None:
            found["first"] = m
            norms = np.sqrt(np.sum(g**2)) * np.sqrt(np.sum(m**2))
            cosine = np.sum(g * m) / norms if norms != 0 else 0.0
            found["cosine"] = np.array([-cosine if one.is_descent else cosine])
        if v is not None:
            found["second"] = v
        if v is not None and one.floor is not None:
            floor, correction = float(one.floor), float(one.correction)
            root = np.sqrt(np.where(v < 0, 0, v))
            found["normalized"] = g / np.maximum(root, floor) * correction**0.5
            found["ruled"] = (root < floor).astype(float)
    return found


def differences(name, one, rows):
    """In words what is wrong."""
    for role, x in truth(one).items():
        got, expected = rows[ROLES.index(role)], reference.summarize(x)
        is_odd = role == "cosine" and not np.isfinite(x).all()
        expected = reference.summarize(np.array([np.nan])) if is_odd else expected
        if role == "cosine":
            got, expected = np.delete(got, 4), np.delete(expected, 4)
            sizes, exact = [1.0] * 5, slice(0, 4)
        else:
            sizes, exact = [expected[6], expected[6], expected[7], 0, 0], slice(0, 5)
        if not np.array_equal(got[exact], expected[exact]):
            yield f"{name}, {role}: counts {got[exact]}, not {expected[exact]}"
            continue
        close = 1e-6 * np.abs(expected[-5:]) + 1e-6 * np.nan_to_num(np.array(sizes))
        with np.errstate(invalid="ignore"):
            off = np.where(got[-5:] == expected[-5:], 0, np.abs(got[-5:] - expected[-5:]))
        if not (off <= close).all():
            yield f"{name}, {role}: {got[-5:]}, not {expected[-5:]}"


def loop_differences(steps=30):
    """What is wrong with a watched AdamW on a GPU, against one in float64."""
    import tempfile

    import gradwatch
    from gradwatch import Kind, Site

    torch.manual_seed(1)
    betas, epsilon = (np.float32(0.9).item(), np.float32(0.999).item()), 1e-5
    for options in ({"fused": True}, {"foreach": True}, {"fused": True, "amsgrad": True}):
        module = torch.nn.Linear(70, 90).cuda()
        optimizer = torch.optim.AdamW(module.parameters(), betas=betas, eps=epsilon, **options)
        kept = []

        class Keep(gradwatch.Sink):
            def write(self, reading, kept=kept):
                kept.append(reading)

        watch = [gradwatch.gradients(), gradwatch.optimizer_state(), gradwatch.weights()]
        with tempfile.TemporaryDirectory() as directory:
            monitor = gradwatch.watch(
                module, optimizer, directory, every=1, watch=watch, sinks=[Keep()], diagnose=False
            )
            truths, m, v, most, weight = [], 0.0, 0.0, 0.0, module.weight
            for t in range(1, steps + 1):
                sizes = 10.0 ** torch.linspace(-8, 1, 70, device="cuda")
                for p in module.parameters():
                    p.grad = torch.randn_like(p) * (sizes if p.ndim == 2 else 1.0)
                g, before = weight.grad.double().cpu().numpy(), weight.detach().clone()
                optimizer.step()
                m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
                most = np.maximum(most, v) if "amsgrad" in options else v
                root = np.sqrt(most / (1 - betas[1] ** t))
                truths.append(
                    {
                        Kind.GRADIENT: g,
                        Kind.FIRST_MOMENT: m,
                        Kind.SECOND_MOMENT: v,
                        Kind.NORMALIZED_GRADIENT: g / np.maximum(root, epsilon),
                        Kind.EPSILON_RULED: (root < epsilon).astype(float),
                        Kind.WEIGHT: weight.detach().double().cpu().numpy(),
                        Kind.UPDATE: (weight.detach() - before).double().cpu().numpy(),
                        Kind.MOMENTUM_COSINE: np.sum(g * m) / np.sqrt(np.sum(g**2) * np.sum(m**2)),
                    }
                )
            monitor.close()
        kept = [r for r in kept if Site(Kind.FIRST_MOMENT, "weight") in r.position]
        if len(kept) != steps:
            yield f"{options}: {len(kept)} readings of {steps} steps"
        for t, (reading, truth_of) in enumerate(zip(kept, truths, strict=False), 1):
            for kind, x in truth_of.items():
                got = reading.summary[reading.position[Site(kind, "weight")]]
                size, norm = np.abs(x).sum(), np.sqrt(np.sum(np.square(x)))
                pairs = [
                    (got.sum, np.sum(x), size),
                    (got.sum_squares**0.5, norm, norm),
                    (got.min, np.min(x), size),
                    (got.max, np.max(x), size),
                ]
                if any(abs(float(a) - b) > 1e-6 * max(abs(b), of) for a, b, of in pairs):
                    yield f"{options}, step {t}, {kind}: {pairs}"
                if float(got.count) != x.size:
                    yield f"{options}, step {t}, {kind}: count {got.count}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    if device == "cpu":
        import triton.language as tl

        dtypes = {"float32": tl.float32, "bfloat16": tl.bfloat16, "float16": tl.float16}
        cuda_moments.elements = lambda: {getattr(torch, n): t for n, t in dtypes.items()}
        cuda_moments.to_device = lambda numbers, _: torch.from_numpy(np.asarray(numbers, np.int64))
        torch.cuda.device = lambda _: nullcontext()
    torch.manual_seed(0)
    named = dict(cases(torch.device(device), SIZES))
    several = list(named.values())
    if device != "cpu":
        assert all(map(cuda_moments.can_measure, several))
    rows = cuda_moments.measure(several, torch.device(device)).cpu().numpy()
    rows = rows.reshape(ROWS, len(several), -1)
    wrong = [
        words
        for i, (name, one) in enumerate(named.items())
        for words in differences(name, one, rows[:, i])
    ]
    if device != "cpu":
        wrong += loop_differences()
    print("\n".join(wrong[:40]))
    print(f"{len(several)} variables on {device}: {len(wrong)} differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
