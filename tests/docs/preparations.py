"""What is there before the blocks of a page run: models, data and runs, by page."""

import contextlib
import functools
import warnings
from pathlib import Path

import numpy as np

import gradwatch

ROOT = Path(__file__).parents[2]


def images(count=32):
    random = np.random.default_rng(0)
    return random.normal(size=(count, 8, 8, 1)).astype("f"), random.integers(4, size=count)


def network():
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu", name="conv1"),
            layers.Conv2D(4, 3, activation="relu", name="conv2"),
            layers.Flatten(),
            layers.Dense(4, activation="softmax", name="dense"),
        ],
        name="net",
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    fit = model.fit
    vars(model)["fit"] = lambda *args, **options: fit(*args, verbose=0, **options)
    return model


@contextlib.contextmanager
def in_fit():
    """A Keras model that fits `x` to `y`."""
    x, y = images()
    yield {"gradwatch": gradwatch, "model": network(), "x": x, "y": y, "make_model": network}


def record(directory, steps=(1, 100, 200, 400), **options):
    """A run with the sites that the pages about reading name."""
    random = np.random.default_rng(1)
    watch = [
        gradwatch.gradients(every=1, histogram=True),
        gradwatch.weights(every=1, histogram=True),
        gradwatch.updates(every=1),
        gradwatch.pictures("conv1/kernel", every=1),
    ]
    sinks = [gradwatch.Store()]
    monitor = gradwatch.Monitor(directory, watch=watch, sinks=sinks, diagnose=False, **options)
    paths = {"conv1/kernel": (3, 3, 1, 2), "conv1/bias": (2,), "dense/kernel": (4, 3)}
    before = {path: random.normal(size=shape) for path, shape in paths.items()}
    for step in steps:
        after = {path: value + 0.01 for path, value in before.items()}
        monitor.record(
            gradients={path: random.normal(size=shape) for path, shape in paths.items()},
            variables=after,
            previous=before,
            loss=1.0 / step,
            losses=random.random(8),
            metrics={"accuracy": 0.5},
            step=step,
        )
        before = after
    monitor.close()


@contextlib.contextmanager
def with_runs():
    """Runs `mnist`, `other`, `a` and `b`, opened."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name in ("mnist", "other", "first", "a", "b", "lr1"):
        record(f"runs/{name}")
    run, other = gradwatch.open("runs/mnist"), gradwatch.open("runs/other")
    with in_fit() as names:
        yield names | {"run": run, "other": other}
    plt.close("all")


@contextlib.contextmanager
def in_a_notebook():
    """The runs, and widgets that are closed."""
    import ipywidgets

    with with_runs() as names:
        yield names
        ipywidgets.Widget.close_all()


@contextlib.contextmanager
def in_a_bucket():
    """A run in a bucket that is in memory, see `test_blocks`."""
    record("runs/a")
    gradwatch.maintain.upload("runs/a", to="memory://bucket/runs/a")
    yield {"gradwatch": gradwatch}


@contextlib.contextmanager
def with_samples():
    """A torch loop whose batches have the numbers of their samples, beside a `fit`."""
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(3, 4))
    data = [(torch.randn(8, 3), torch.randint(4, (8,)), torch.arange(8)) for _ in range(3)]
    with in_fit() as names:
        yield names | {
            "torch": torch,
            "module": module,
            "optimizer": torch.optim.SGD(module.parameters(), 0.1),
            "batches": data,
        }


@contextlib.contextmanager
def one_rank():
    """A torch training of one process."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    store = dist.HashStore()
    dist.init_process_group("gloo", rank=0, world_size=1, store=store)
    names = {
        "gradwatch": gradwatch,
        "torch": torch,
        "DistributedDataParallel": DistributedDataParallel,
        "model": torch.nn.Linear(3, 2),
    }
    try:
        yield names
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def in_torch():
    import torch

    model = torch.nn.Linear(3, 2)
    names = {"gradwatch": gradwatch, "model": model}
    yield names | {"optimizer": torch.optim.SGD(model.parameters(), 0.1)}


@contextlib.contextmanager
def with_attention():
    """A Keras model and a torch module that have layers of attention."""
    import keras
    import torch

    inputs = keras.Input((5, 4))
    model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 2)(inputs, inputs))
    model.compile("sgd", "mse")
    x = np.zeros((8, 5, 4), "f")
    encoder = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    module = torch.nn.ModuleDict({"encoder": encoder})
    names = {"gradwatch": gradwatch, "model": model, "x": x, "y": x, "module": module}
    yield names | {"optimizer": torch.optim.SGD(module.parameters(), 0.1)}


@contextlib.contextmanager
def in_micro_batches():
    """A torch module, and batches of several micro-batches."""
    import torch

    random = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 1))

    def micro_batch():
        x = torch.randn(8, 3, generator=random)
        return x, x.sum(1, keepdim=True) + torch.randn(8, 1, generator=random)

    batches = [[micro_batch() for _ in range(4)] for _ in range(40)]
    names = {"gradwatch": gradwatch, "torch": torch, "model": model, "batches": batches}
    names["loss_fn"] = torch.nn.functional.mse_loss
    yield names | {"optimizer": torch.optim.SGD(model.parameters(), 0.01)}


@contextlib.contextmanager
def with_trackers():
    """Trackers that keep to this machine."""
    import os

    import mlflow
    import wandb

    place = Path.cwd()
    local = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
    local |= {f"WANDB_{each}_DIR": str(place) for each in ("DATA", "CACHE", "CONFIG")}
    before = dict(os.environ)
    os.environ.update(local)
    # Another test of this process may have set wandb up with places of its own.
    wandb.teardown()
    mlflow.set_tracking_uri((place / "mlruns").as_uri())
    try:
        with in_fit() as names:
            yield names
        names["own"].finish()
        assert list(place.rglob("offline-run-*"))
    finally:
        wandb.teardown()
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def in_all_kinds_of_training():
    """In Keras, in torch, and with optax."""
    import jax
    import jax.numpy as jnp
    import optax
    import torch

    x, y = images()
    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    params = {"w": jnp.ones((3, 2))}
    names = {"gradwatch": gradwatch, "keras_model": network(), "x": x, "y": y}
    names |= {"module": module, "optimizer": optimizer, "jax": jax, "optax": optax}
    yield names | {"params": params, "loss_fn": lambda p, batch: jnp.mean((batch @ p["w"]) ** 2)}


@contextlib.contextmanager
def in_compiled_code():
    """All frameworks; torch compiles without its inductor, which takes long."""
    import jax
    import jax.numpy as jnp
    import keras
    import tensorflow as tf
    import torch

    names = {"gradwatch": gradwatch, "jax": jax, "jnp": jnp, "keras": keras, "tf": tf}
    names |= {"torch": torch, "weights": jnp.ones((3, 4, 4)) / 4, "inputs": [jnp.ones((2, 4))] * 3}
    names["batches"] = [(torch.randn(8, 16), torch.randn(8, 1)) for _ in range(3)]
    compile_fully = torch.compile
    torch.compile = functools.partial(compile_fully, backend="aot_eager")
    try:
        with warnings.catch_warnings():
            # Of torch's own, for any torch.autograd.Function.
            warnings.filterwarnings("ignore", ".*should not be instantiated", DeprecationWarning)
            # Of torch's own, where a monitor of another test still watches a module.
            warnings.filterwarnings(
                "ignore", "(?s).*there are global hooks on modules", UserWarning
            )
            yield names
    finally:
        torch.compile = compile_fully
    for path, site in {"runs/compiled": "block", "runs/scan": "block/2"}.items():
        recorded = gradwatch.open(path).sites("output_gradient")
        assert site in [each.path for each in recorded]
    names["monitor"] = gradwatch.Monitor("runs/function", every=1)
    names["monitor"].record(names["train"](tf.ones((2, 4)), tf.Variable(tf.ones((4, 3)))))
    names["monitor"].close()
    recorded = [str(each) for each in gradwatch.open("runs/function").sites()]
    assert {"output hidden", "output_gradient hidden"} <= set(recorded)


PREPARATIONS = {
    "README.md": in_fit,
    "attention.md": with_attention,
    "ci.md": in_fit,
    "clusters.md": one_rank,
    "compiled.md": in_compiled_code,
    "diagnosis.md": with_runs,
    "distributed.md": one_rank,
    "does-not-learn.md": in_fit,
    "from-keras.md": in_fit,
    "from-sagemaker.md": in_fit,
    "from-wandb.md": in_torch,
    "index.md": in_fit,
    "inspect.md": in_fit,
    "keras-fit.md": in_fit,
    "loss-spike.md": with_samples,
    "nan.md": in_fit,
    "noise.md": in_micro_batches,
    "notebooks.md": in_a_notebook,
    "optimizer-state.md": in_all_kinds_of_training,
    "outputs.md": in_fit,
    "pictures.md": in_fit,
    "precision.md": with_runs,
    "reading.md": with_runs,
    "remote.md": in_a_bucket,
    "schedules.md": in_fit,
    "selecting.md": in_fit,
    "trackers.md": with_trackers,
    "width.md": in_fit,
}
