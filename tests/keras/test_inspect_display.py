"""`gradwatch.inspect`: what it says of mistakes, and how its result is shown."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch
from gradwatch.inspection.table_text import as_text
from gradwatch.util import percent_range
from tests.keras.support import classes, normal

pytestmark = pytest.mark.any_backend

BACKEND = keras.backend.backend()
X, Y = normal(8, 6), classes(3, 8)


def make() -> Any:
    model = keras.Sequential(
        [keras.Input((6,), name="features"), layers.Dense(8), layers.Dense(3, name="last")],
        name="net",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    return model


def test_what_a_user_may_get_wrong_is_said_clearly() -> None:
    model = make()
    with pytest.raises(ValueError, match=r"'features' .*\(None, 6\).*Received: shape \(8, 5\)"):
        gradwatch.inspect(model, normal(8, 5), Y)
    with pytest.raises(ValueError, match=r"y has 3 where the first of x has 8"):
        gradwatch.inspect(model, X, Y[:3])
    with pytest.raises(ValueError, match=r"inspect\('lasst'\).*Closest: net/last"):
        gradwatch.inspect(model, X, Y, layers=["lasst"])
    with pytest.raises(ValueError, match=r"one number.*shape \(8, 3\)"):
        gradwatch.inspect(model, X, normal(8, 3), loss=lambda t, p: (t - p) ** 2)
    with pytest.raises(ValueError, match=r"one number.*shape \(8,\)"):
        gradwatch.inspect(
            model, X, normal(8, 3), loss=keras.losses.MeanSquaredError(reduction=None)
        )
    with pytest.raises(ValueError, match=r"y of shape \(8, 4\) for outputs of shape \(8, 3\)"):
        gradwatch.inspect(model, X, normal(8, 4), loss="mse")
    bare = keras.Sequential([keras.Input((6,)), layers.Dense(1)], name="bare")
    with pytest.raises(ValueError, match=r"needs a loss.*'bare' is not compiled.*loss=\"mse\""):
        gradwatch.inspect(bare, X, Y)
    bare.compile("sgd")
    with pytest.raises(ValueError, match=r"needs a loss.*compiled without one"):
        gradwatch.inspect(bare, X, Y)
    with pytest.raises(TypeError, match="Keras model"):
        gradwatch.inspect("net", X, Y)
    with pytest.raises(KeyError, match="Closest: net/last"):
        gradwatch.inspect(model, X, Y, show=False).numpy("net/lost")


class Picky(keras.Model):
    def __init__(self) -> None:
        super().__init__(name="picky")
        self.dense = layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def test_a_subclassed_model_that_cannot_be_called_on_the_batch_says_so() -> None:
    model = Picky()
    model.compile("sgd", "mse")
    gradwatch.inspect(model, X, normal(8, 2), show=False)
    with pytest.raises(ValueError, match=r"'picky' cannot be called.*\(8, 5\)"):
        gradwatch.inspect(model, normal(8, 5), normal(8, 2))


def test_it_prints_plain_text_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    found = gradwatch.inspect(make(), X, Y, layers=["last"])
    shown = capsys.readouterr().out
    assert shown == as_text(found) + "\n" == str(found) + "\n"
    title, header, *rows = shown.splitlines()
    assert title.startswith("gradwatch · net · loss ")
    assert " ".join(header.split()) == (
        "gradient of shape dtype sum L1 L2 mean std min max zeros NaN/Inf lost in float16 "
        "first values"
    )
    assert [row.split()[0] for row in rows] == [
        "net/last/kernel",
        "net/last/bias",
        "net/last",
        "all",
    ]
    assert "net/last" not in repr(found)


def test_it_tells_what_casts_of_the_gradients_would_lose() -> None:
    keras.utils.set_random_seed(0)
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = gradwatch.inspect(model, X, Y, loss=lambda t, p: 1e-7 * loss(t, p), show=False)
    true = np.concatenate([found.numpy(e.site).ravel() for e in found.entries if e.trainable])
    is_lost = true.astype(np.float16) == 0
    assert 0 < is_lost.mean() < 1
    for entry in found.entries:
        own = found.numpy(entry.site).ravel()
        own = own[own != 0]
        zero = entry.lost("float16").zero
        assert zero.low <= (own.astype(np.float16) == 0).sum() <= zero.high
        assert entry.to_dict()["casts"]["bfloat16"]["zero"] == (0.0, 0.0)
        low, high = entry.to_dict()["casts"]["float16"]["zero"]
        assert (low, high) == (zero.low / own.size, zero.high / own.size)
    weights = [e for e in found.entries if e.site.kind is gradwatch.Kind.GRADIENT]
    every = np.concatenate([found.numpy(e.site).ravel() for e in weights])
    lost = found.total_histogram().lost("float16")
    assert lost.zero.low <= (every[every != 0].astype(np.float16) == 0).sum() <= lost.zero.high
    last = as_text(found).splitlines()[-1]
    assert last.split()[-1] == percent_range(*(n / lost.elements for n in lost.zero)).split()[-1]


def test_a_notebook_shows_html_in_which_names_are_escaped() -> None:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1, name="<b>bold")], name="net")
    # TensorFlow has such a name in no graph.
    model.compile("sgd", "mse", run_eagerly=BACKEND == "tensorflow")
    found = gradwatch.inspect(model, X, normal(8, 1), show=False)
    html = found._repr_html_()
    assert "&lt;b&gt;bold" in html
    assert "<b>bold" not in html
    assert html.count("<tr>") == 1 + len(found.entries) + 1


def test_it_prints_tables_in_a_terminal_of_any_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    for columns in ("240", "60"):
        monkeypatch.setenv("COLUMNS", columns)
        gradwatch.inspect(make(), X, Y, layers=["last"])
        shown = capsys.readouterr().out
        assert "net/last/kernel" in shown
        assert "NaN/Inf" in shown
