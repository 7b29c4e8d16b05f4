"""The fixed bins of histograms.

A bin is a sign, a binary exponent and the top two mantissa bits: four bins an
octave, from 2^-64 (5.4e-20) to 2^64 (1.8e19), the same for every tensor, step
and machine. The bits of the float itself give the bin, so a bfloat16, float16
or float8 tensor is binned without rounding. Zeros, elements that are too small or
too large, and elements that are not finite have cells of their own. The counts of
all cells add up to the number of elements.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOWEST_EXPONENT, HIGHEST_EXPONENT = -64, 64
MANTISSA_BITS = 2
BINS_A_SIDE = (HIGHEST_EXPONENT - LOWEST_EXPONENT) << MANTISSA_BITS

# Cells from most negative to most positive value, then elements that are not finite:
#   0                        finite, <= -2^64
#   1 .. B                   -2^64 .. -2^-64
#   B + 1                    negative, above -2^-64
#   B + 2                    zero
#   B + 3                    positive, below 2^-64
#   B + 4 .. 2 B + 3         2^-64 .. 2^64
#   2 B + 4                  finite, >= 2^64
#   2 B + 5                  not finite
ZERO = BINS_A_SIDE + 2
NONFINITE = 2 * BINS_A_SIDE + 5
CELLS = NONFINITE + 1


def _positive_edges() -> Array:
    steps = 1 << MANTISSA_BITS
    octaves = np.arange(LOWEST_EXPONENT, HIGHEST_EXPONENT)
    inner = np.ldexp(1.0 + np.arange(steps) / steps, octaves[:, None])
    return np.append(inner.ravel(), np.ldexp(1.0, HIGHEST_EXPONENT))


def _edges() -> Array:
    """The borders between the cells 0 .. 2 B + 4; the zero cell has width 0."""
    positive = _positive_edges()
    return np.concatenate([[-np.inf], -positive[::-1], [0.0, 0.0], positive, [np.inf]])


EDGES: Array = _edges()
