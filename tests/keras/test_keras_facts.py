"""What Keras's operations are replaced by gives what they give."""

import keras
import numpy as np
import pytest

from gradwatch.compat import keras_facts


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX alone has several ways to search")
@pytest.mark.parametrize("compared", [1 << 14, 0])
def test_a_search_on_a_gpu_finds_what_keras_finds(monkeypatch, compared):
    import jax

    labels = np.sort(np.random.default_rng(0).integers(0, 20, 300)).astype(np.float32)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(keras_facts, "_COMPARED", compared)
    for side in ("left", "right"):
        found = keras_facts.OPS.searchsorted(keras.ops.convert_to_tensor(labels), labels, side=side)
        np.testing.assert_array_equal(np.asarray(found), np.searchsorted(labels, labels, side))
