"""Pictures of weights and gradients.

Blue is negative, white zero, red positive, and green whatever is not finite. The
strongest colour is the largest magnitude: of the whole tensor for a matrix, of
each filter by itself for a convolution kernel, so that weak filters show too.
"""

from collections.abc import Sequence
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Image = NDArray[np.uint8]

NEGATIVE, ZERO, POSITIVE = (33, 102, 172), (247, 247, 247), (178, 24, 43)
NONFINITE, GAP = (0, 200, 0), (120, 120, 120)
LARGEST_SIDE = 1024
SMALLEST_SIDE = 256


def picture(
    values: Array, *, owners: Sequence[str] = (), max_outputs: int = 16, max_inputs: int = 16
) -> Image:
    """A tensor as an RGB image of shape (height, width, 3).

    A convolution kernel, laid out as Keras does it (space, inputs, outputs), is tiled: a row for
    each output filter, a column for each input channel; with one input channel, the filters follow
    each other in a square. Other tensors are drawn as a matrix whose columns are their last axis.

    The class names in `owners` tell a convolution kernel from another tensor of three or more axes;
    without them, a tensor of four or more is taken for a kernel. A small image is enlarged without
    smoothing; in one of more than 1024 pixels to a side, each pixel shows the element of largest
    magnitude under it.
    """
    x = np.asarray(values, np.float64)
    if x.size == 0:
        return np.full((SMALLEST_SIDE // 8, SMALLEST_SIDE // 8, 3), GAP, np.uint8)
    if x.ndim >= 3 and any("Conv" in owner for owner in owners or ["Conv"] * (x.ndim > 3)):
        return _filters(x, max_outputs, max_inputs)
    return _enlarged(_coloured(_shrunk(x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1))))


def _filters(x: Array, max_outputs: int, max_inputs: int) -> Image:
    # A kernel over a line is drawn flat, one over a volume as its slices side by side.
    x = x[None] if x.ndim == 3 else x
    x = np.concatenate(list(x), axis=1) if x.ndim == 5 else x
    x = x[:, :, :max_inputs, :max_outputs]
    height, width, inputs, outputs = x.shape
    # With a single input channel the filters themselves fill the rows.
    across = inputs if inputs > 1 else ceil(sqrt(outputs))
    down = outputs if inputs > 1 else ceil(outputs / across)
    breadth, depth = across * (width + 1) + 1, down * (height + 1) + 1
    scale = max(1, min(LARGEST_SIDE // max(breadth, depth), 16))
    canvas = np.full((depth * scale, breadth * scale, 3), GAP, np.uint8)
    for o in range(outputs):
        tiles = _coloured(x[..., o].transpose(2, 0, 1).reshape(inputs * height, width))
        for i in range(inputs):
            row, column = (o, i) if inputs > 1 else divmod(o, across)
            tile = _repeat(tiles[i * height : (i + 1) * height], scale)
            top, left = (row * (height + 1) + 1) * scale, (column * (width + 1) + 1) * scale
            canvas[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return canvas


def _coloured(matrix: Array) -> Image:
    """Each element's colour; the largest magnitude has the strongest."""
    finite = np.isfinite(matrix)
    size = np.abs(np.where(finite, matrix, 0.0)).max(initial=0.0)
    strength = np.where(finite, matrix, 0.0)[..., None] / (size or 1.0)
    end = np.where(strength < 0, np.array(NEGATIVE, float), np.array(POSITIVE, float))
    zero = np.array(ZERO, float)
    rgb = zero + np.abs(strength) * (end - zero)
    return np.where(finite[..., None], np.rint(rgb), np.array(NONFINITE, float)).astype(np.uint8)


def _shrunk(matrix: Array) -> Array:
    """At most 1024 to a side, each block shown by its element of largest magnitude."""
    for axis in (0, 1):
        step = -(-matrix.shape[axis] // LARGEST_SIDE)
        if step > 1:
            pad = [(0, 0), (0, 0)]
            pad[axis] = (0, -matrix.shape[axis] % step)
            blocks = np.moveaxis(np.pad(matrix, pad), axis, 0)
            blocks = blocks.reshape(blocks.shape[0] // step, step, -1)
            # A NaN or infinity is what one wants to see, wherever it hides.
            rank = np.where(np.isfinite(blocks), np.abs(blocks), np.inf)
            best = np.take_along_axis(blocks, rank.argmax(1, keepdims=True), 1)[:, 0]
            matrix = np.moveaxis(best, 0, axis)
    return matrix


def _enlarged(image: Image) -> Image:
    return _repeat(image, max(1, SMALLEST_SIDE // max(image.shape[:2])))


def _repeat(image: Image, times: int) -> Image:
    return image.repeat(times, axis=0).repeat(times, axis=1)
