"""What the fast ways of measuring torch tensors share: flat views, and folding counts."""

from __future__ import annotations

from typing import Any

import torch

from gradwatch.core import BINS_A_SIDE, CELLS, NONFINITE, ZERO
from gradwatch.measure.layout import FloatBits
from gradwatch.measure.torch_plain import dense


def flat(x: Any) -> Any:
    """All elements in a row, in whatever order they lie; a copy only if they lie scattered.

    Raises:
        TypeError: they are complex.
    """
    if x.layout is torch.strided and x.is_contiguous() and not (x.is_complex() or x.is_neg()):
        return x if x.ndim == 1 else x.view(-1)  # Nearly always; with hundreds, this adds up.
    x = dense(x)
    if x.is_neg():
        x = x.resolve_neg()  # A view that negates as it is read.
    if not x.is_contiguous():
        # No statistic depends on the order: transposed and channels-last ones stay in place.
        stride = x.stride()
        x = x.permute(sorted(range(x.ndim), key=stride.__getitem__, reverse=True))
    return x.reshape(-1)


def folded(counts: Any, zeros: Any, form: FloatBits) -> Any:
    """Histogram cells from counts by the floats' own top bits.

    Args:
        counts: for each tensor a row; -0 has been counted as 0.
        zeros: for each tensor, how many of its elements are 0.
        form: of the floats that were counted.
    """
    lowest, top = form.lowest, form.lowest + BINS_A_SIDE
    infinity, half = form.infinity >> form.shift, form.keys // 2
    positive, negative = counts[:, :half], counts[:, half:]
    cells = torch.empty((len(counts), CELLS), dtype=torch.int64, device=counts.device)
    cells[:, 0] = negative[:, top:infinity].sum(1)
    cells[:, 1 : ZERO - 1] = negative[:, lowest:top].flip(1)
    cells[:, ZERO - 1] = negative[:, :lowest].sum(1)
    cells[:, ZERO] = zeros
    cells[:, ZERO + 1] = positive[:, :lowest].sum(1) - zeros
    cells[:, ZERO + 2 : NONFINITE - 1] = positive[:, lowest:top]
    cells[:, NONFINITE - 1] = positive[:, top:infinity].sum(1)
    cells[:, NONFINITE] = positive[:, infinity:].sum(1) + negative[:, infinity:].sum(1)
    return cells
