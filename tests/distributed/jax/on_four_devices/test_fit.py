"""`fit` with Keras's distribution API: as on a single device with the same batches."""

from collections import Counter

import keras
import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.distributed.jax import collectives
from tests.distributed.jax.models import MODELS
from tests.distributed.jax.training import assert_same_summaries, fit
from tests.distributed.launching import FULL

pytestmark = pytest.mark.usefixtures("no_complaint")

WATCH = [gradwatch.gradients(), gradwatch.weights(), gradwatch.updates()]
CASES = [("data", "batch_norm"), ("data", "mixed_precision"), ("model", "embedding")]
if FULL:
    every_one = [(how, name) for how in ("data", "model") for name in MODELS]
    CASES += [case for case in every_one if case not in CASES]


def data_parallel():
    return keras.distribution.DataParallel(devices=keras.distribution.list_devices())


def model_parallel():
    mesh = keras.distribution.DeviceMesh(
        (2, 2), ("batch", "model"), keras.distribution.list_devices()
    )
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*(?<!conv2d)/kernel"] = (None, "model")
    layout[".*conv2d/kernel"] = (None, None, None, "model")
    layout[".*embeddings"] = ("model", None)
    layout[".*dense.*bias"] = ("model",)
    return keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")


@pytest.fixture(autouse=True)
def one_device_again():
    yield
    keras.distribution.set_distribution(None)


DISTRIBUTIONS = {"data": data_parallel, "model": model_parallel}


@pytest.mark.parametrize(("how", "name"), CASES)
def test_summaries_and_weights_are_those_of_a_single_device(make_monitor, how, name):
    model = MODELS[name]()
    watch = [gradwatch.outputs(per_unit=True), *WATCH] if name == "batch_norm" else WATCH
    monitor, alone = make_monitor(watch=watch)
    fit(model, [monitor])
    distribution = DISTRIBUTIONS[how]()
    bare = fit(model, [], distribution)
    monitor, together = make_monitor(watch=watch)
    weights = fit(model, [monitor], distribution)
    assert_same_summaries(together.readings, alone.readings, model)
    for a, b in zip(weights, bare, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def recorded_programs(monkeypatch):
    """The step functions that Keras compiles from now on, with their arguments."""
    import jax
    import keras.src.backend.jax.trainer as trainer

    programs, jit = [], trainer.jit

    def recording(function, **options):
        compiled = jit(function, **options)

        def call(*args):
            if not any(known is compiled for known, _ in programs):
                shapes = jax.tree.map(
                    lambda x: jax.ShapeDtypeStruct(
                        x.shape, x.dtype, sharding=getattr(x, "sharding", None)
                    ),
                    args,
                )
                programs.append((compiled, shapes))
            return compiled(*args)

        return call

    monkeypatch.setattr(trainer, "jit", recording)
    return programs


def test_a_measured_step_has_two_more_all_reduces_and_an_unmeasured_one_none(
    make_monitor, monkeypatch
):
    model = MODELS["batch_norm"]()
    programs = recorded_programs(monkeypatch)
    fit(model, [], data_parallel())
    # With all that is measured by default: outputs, dead units, inputs, histograms.
    monitor, keep = make_monitor(every=2)
    fit(model, [monitor], data_parallel())
    bare, unmeasured, measured = (collectives.of(f, *args) for f, args in programs)
    assert unmeasured == bare
    assert measured - unmeasured == Counter({"all-reduce": 2})
    assert Site(Kind.DEAD_UNIT, "net/re_lu") in keep.readings[0].position
