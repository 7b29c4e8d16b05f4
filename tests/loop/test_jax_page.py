"""The blocks of docs/jax.md run, in their order, and are at most ten lines long."""

import inspect
import re
from pathlib import Path

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import gradwatch
from gradwatch import Kind
from tests.loop.support import Keep, paths

PAGE = Path(__file__).parents[2] / "docs" / "jax.md"


def loss_fn(a, b):
    return ((a - b) ** 2).mean()


def loss_of_model(model, x, y):
    return loss_fn(model(x), y)


@pytest.mark.skipif(
    "model" not in inspect.signature(nnx.Optimizer.update).parameters,
    reason="the page is for Flax 0.11 and newer, whose optimizers are given the model",
)
def test_the_blocks_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert all(len(block.splitlines()) <= 10 for block in blocks)
    two_lines, chain, of_nnx, of_equinox, outputs_nnx, outputs_linen, outputs_eqx = blocks
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    batches = [(x, x.sum(1, keepdims=True))] * 12
    shared = {"gradwatch": gradwatch, "jax": jax, "jnp": jnp, "optax": optax, "nnx": nnx}
    shared |= {"eqx": eqx, "batches": batches, "loss_fn": loss_fn}

    def run(block, **names):
        names = shared | names
        exec(compile(block, "jax.md", "exec"), names)
        return names

    def train_step(params, state, x, y):
        def loss_of(params):
            return loss_fn(x @ params["w"], y)

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, state = names["optimizer"].update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    names = {}
    # The block makes the optimizer that its step uses.
    made = two_lines.replace("state = ", "names['optimizer'] = optimizer\nstate = ", 1)
    run(made, params={"w": jnp.ones((3, 1))}, train_step=jax.jit(train_step), names=names)
    steps, _ = gradwatch.open("runs/optax").series("applied_gradient", "w", "l2")
    assert steps.tolist() == [10]

    def monitor_of(*watch):
        keep = Keep()
        watch = watch or (gradwatch.gradients(), gradwatch.updates())
        monitor = gradwatch.Monitor(every=1, sinks=[keep], diagnose=False, watch=list(watch))
        return monitor, keep

    optimizer = run(chain, monitor=monitor_of()[0])["optimizer"]
    optimizer.update({"w": jnp.ones(3)}, optimizer.init({"w": jnp.ones(3)}), {"w": jnp.ones(3)})

    def Model(rngs):  # noqa: N802
        return nnx.Sequential(nnx.Linear(3, 4, rngs=rngs), jnp.tanh, nnx.Linear(4, 1, rngs=rngs))

    @nnx.jit
    def nnx_step(model, optimizer, x, y):
        loss, grads = nnx.value_and_grad(loss_of_model)(model, x, y)
        optimizer.update(model, grads)
        return loss

    monitor, keep = monitor_of()
    run(of_nnx, monitor=monitor, Model=Model, train_step=nnx_step)
    monitor.close()
    assert "layers/0/kernel" in paths(keep.readings[0], Kind.UPDATE)

    mlp = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))

    @eqx.filter_jit
    def equinox_step(model, state, x, y):
        def loss_of(model):
            return loss_fn(jax.vmap(model)(x), y)

        loss, grads = eqx.filter_value_and_grad(loss_of)(model)
        known = eqx.filter(model, eqx.is_array)
        updates, state = names["optimizer"].update(grads, state, known)
        return eqx.apply_updates(model, updates), state, loss

    monitor, keep = monitor_of()
    made = of_equinox.replace("state = ", "names['optimizer'] = optimizer\nstate = ", 1)
    run(made, monitor=monitor, model=mlp, train_step=equinox_step, names=names)
    monitor.close()
    assert "layers/0/weight" in paths(keep.readings[0], Kind.GRADIENT)

    watch = gradwatch.outputs(), gradwatch.output_gradients()
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    linen = nn.Sequential([nn.Dense(4), jnp.tanh, nn.Dense(1)])
    params = linen.init(jax.random.key(0), x)
    for block, own, arguments, expected in (
        (outputs_nnx, {"loss_fn": loss_of_model}, (model, optimizer), "layers/2"),
        (outputs_linen, {"linen_model": linen}, (params,), "layers_2"),
        (outputs_eqx, {}, (mlp,), "layers/1"),
    ):
        monitor, keep = monitor_of(*watch)
        step = run(block, monitor=monitor, **own)["train_step"]
        _, readings = step(*arguments, *batches[0])
        monitor.record(readings)
        monitor.close()
        assert expected in paths(keep.readings[0], Kind.OUTPUT), block
        assert expected in paths(keep.readings[0], Kind.OUTPUT_GRADIENT), block
