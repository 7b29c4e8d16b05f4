"""Is what a GPU measures of an optimizer's step in JAX that of float64 NumPy?

    PYTHONPATH=src python benchmarks/moments_check_jax.py           # needs a GPU and JAX

It goes where the tests, which interpret the kernel on a CPU, cannot: large tensors of the types
that the kernel reads, of odd sizes, beside small ones, inside and outside `jax.jit`; NaN and
infinities, numbers that are nearly equal, and numbers whose squares do not fit a float32. `--small`
needs no GPU, and shows that the script works.
"""

import argparse

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from gradwatch.core import reference
from gradwatch.measure import jax as measure_jax
from gradwatch.measure import numpy as truth
from gradwatch.measure.kernels import jax_pallas
from gradwatch.measure.kernels.jax_program import CHUNK
from gradwatch.measure.kernels.jax_rows import GPU_LARGE

CORRECTION, FLOOR = 0.3, 1e-4
ROLES = ("gradient", "first", "second", "normalized", "below", "cosine", "weight", "update")
STRANGE = (np.nan, np.inf, -np.inf, 1e30, 1e-35)
rng = np.random.default_rng(7)


def step(size, dtype=np.float32, scale=1.0, offset=0.0):
    """A variable's tensors: gradient, both moments, weight and update."""
    gradient = (scale * (offset + rng.normal(size=size))).astype(dtype)
    first = (0.3 * gradient.astype(np.float32) + scale * rng.normal(size=size)).astype(np.float32)
    second = (rng.normal(size=size) ** 2 * 1e-3).astype(np.float32)
    second[: size // 3] = 1e-12
    weight = (0.02 * rng.normal(size=size)).astype(np.float32)
    update = (1e-4 * rng.normal(size=size)).astype(np.float32)
    update[::3] = 0
    return [gradient, first, second, weight, update]


def cases(large):
    """Names and variables."""
    sizes = (large, large + 17, 2 * large + 5 * CHUNK, 3 * large - 1, 9, 3000)
    for dtype in (np.float32, ml_dtypes.bfloat16, np.float16):
        for size in sizes:
            yield f"{np.dtype(dtype)} of {size}", step(size, dtype)
    for k in range(jax_pallas.TOGETHER_OF_SEVERAL + 3):
        yield f"alike, {k}", step(large + CHUNK)
    for place, name in enumerate(("gradient", "first", "second", "weight", "update")):
        for strange in STRANGE:
            for size in (large + 5, 40):
                one = step(size)
                one[place][[3, size - 1]] = strange
                yield f"{name} with {strange}, {size}", one
    for scale in (1e-10, 1e-17, 1e-27, 1e20):
        one = step(large + 5)
        one[2] *= np.float32(scale)
        yield f"second moments times {scale}", one
    yield "nearly equal", step(large, offset=1000.0)
    yield "tiny", step(large, scale=1e-25)
    yield "large", step(large, scale=1e18)
    zero = step(large)
    zero[0][:] = 0
    yield "zeros", zero
    zero = step(large)
    zero[1][:] = 0
    yield "a momentum of zeros", zero


def asked(one):
    """All that is measured of them, as `HeldMoments` asks for it."""
    gradient, first, second, weight, update = one
    return [
        gradient,
        first,
        second,
        measure_jax.normalized(gradient, second, CORRECTION, FLOOR),
        measure_jax.below(second, FLOOR),
        -measure_jax.cosine(gradient, first),
        weight,
        update,
    ]


def expected(one):
    gradient, first, second, weight, update = one
    gradient = gradient.astype(np.float64)
    return [
        gradient,
        first,
        second,
        truth.normalized(gradient, second, CORRECTION, FLOOR),
        truth.below(second, FLOOR),
        -truth.cosine(gradient, first),
        weight,
        update,
    ]


def difference(name, row, tensor):
    """In words what is wrong; None if nothing is."""
    true = np.asarray(reference.summarize(np.asarray(tensor)))
    counts = np.array_equal(row[:5], true[:5])
    with np.errstate(invalid="ignore"):
        off = np.where(row[5:] == true[5:], 0, np.abs(row[5:] - true[5:]))
    sizes = np.concatenate([true[[6, 6, 7]], np.abs(true[8:])])
    near = 1e-6 * (np.ones(5) if name.endswith("cosine") else sizes) + 1e-37
    if counts and (off <= near).all():
        return None
    return f"{name}: {row}, not {true}"


def differences(several, names, measure):
    with np.errstate(all="ignore"):
        every = [x for one in several for x in expected(one)]
    rows, cells = (np.asarray(x) for x in measure([list(map(jnp.asarray, one)) for one in several]))
    roles = [f"{name}, {role}" for name in names for role in ROLES]
    for i, (role, tensor) in enumerate(zip(roles, every, strict=True)):
        yield difference(role, rows[i], tensor)
    for k, one in enumerate(several):
        if not np.array_equal(cells[k], reference.count_cells(one[0].astype(np.float64))):
            yield f"{names[k]}: the histogram of its gradient"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    large = 3 * CHUNK if parser.parse_args().small else GPU_LARGE
    named = dict(cases(large))
    names, several = list(named), list(named.values())

    def measure(variables):
        tensors = [x for one in variables for x in asked(one)]
        return measure_jax.measure(tensors, range(0, len(tensors), len(ROLES)), True)

    wrong = [*differences(several, names, jax.jit(measure)), *differences(several, names, measure)]
    wrong = [words for words in wrong if words]
    print("\n".join(wrong[:40]))
    kernel = jax.default_backend() == "gpu" and jax_pallas.is_available()
    how = "with" if kernel else "without"
    print(f"{len(several)} variables, {how} the kernel: {len(wrong)} differences")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
