"""Numbers as a page spells them."""

import numpy as np


def floats(texts):
    """The numbers; NaN where nothing is written."""
    return [float(text) if text else float("nan") for text in texts]


def same(shown, true):
    """Whether numbers are equal, digit by digit; NaN where there is none."""
    return np.array_equal(np.array(floats(shown)), np.asarray(true, float), equal_nan=True)
