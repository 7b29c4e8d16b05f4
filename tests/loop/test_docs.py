"""The code in docs/loops.md runs, block by block, and records what it says."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tensorflow as tf
import torch

import gradwatch
from tests.loop.support import Keep

PAGE = Path(__file__).parents[2] / "docs" / "loops.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
rng = np.random.default_rng(0)
DATA = [
    (rng.normal(size=(4, 3)).astype("f"), rng.normal(size=(4, 2)).astype("f")) for _ in range(3)
]


class Linear(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.ones((3, 2)))

    def __call__(self, x, training):
        return x @ self.w


class Descent:
    def apply_gradients(self, pairs):
        for gradient, variable in pairs:
            variable.assign_sub(0.1 * gradient)

    def apply(self, gradients, variables):
        self.apply_gradients(zip(gradients, variables, strict=True))


def by_hand():
    variables = {"w": np.ones((3, 2))}

    def compute(variables, x, y):
        error = x @ variables["w"] - y
        return {"w": x.T @ error}, float((error**2).sum() / 2)

    def update(variables, grads):
        variables["w"] = variables["w"] - 0.01 * grads["w"]

    def add(total, grads):
        return {"w": total["w"] + grads["w"]}

    return {
        "variables": variables,
        "compute": compute,
        "update": update,
        "add": add,
        "total": {"w": np.zeros((3, 2))},
        "batches": DATA,
        "micro_batches": DATA,
    }


def in_tensorflow():
    def loss_fn(y, outputs):
        return tf.reduce_mean((outputs - y) ** 2)

    x, y = map(tf.constant, DATA[0])
    model = Linear()
    return {"model": model, "optimizer": Descent(), "loss_fn": loss_fn, "x": x, "y": y}


def in_jax():
    def loss_fn(params, x, y):
        return jnp.mean((x @ params["w"] - y) ** 2)

    optimizer = optax.sgd(0.1)
    params = {"w": jnp.ones((3, 2))}

    def plain_step(params, state, x, y):
        return params, state

    def measured_step(params, state, x, y):
        return params, state, {}

    return {
        "params": params,
        "state": optimizer.init(params),
        "optimizer": optimizer,
        "loss_fn": loss_fn,
        "plain_step": plain_step,
        "measured_step": measured_step,
    }


def in_torch():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2))
    return {
        "module": module,
        "optimizer": torch.optim.SGD(module.parameters(), lr=0.1),
        "loss_fn": torch.nn.functional.mse_loss,
        "batches": [tuple(map(torch.from_numpy, pair)) for pair in DATA],
    }


def with_hidden():
    def compute_hidden(variables, x, y):
        hidden = x @ variables["w"]
        return hidden, hidden - y

    return by_hand() | {"compute_hidden": compute_hidden, "x": DATA[0][0], "y": DATA[0][1]}


def two_networks():
    net = {"dense": {"kernel": np.ones(2)}}
    names = ("g_grads", "generator", "d_grads", "critic")
    return {"g_loss": 1.0, "d_loss": 2.0, **dict.fromkeys(names, net)}


# For each block: what is there beforehand, and the steps that are then recorded.
CASES = [
    (by_hand, [1, 2, 3]),
    (in_tensorflow, [1]),
    (in_tensorflow, [1, 2, 3]),
    (in_jax, [1, 2, 3]),
    (in_jax, []),
    (in_torch, [1, 1, 2, 2, 3, 3]),
    (with_hidden, [1]),
    (in_torch, [1, 2, 3]),
    (in_torch, []),
    (two_networks, [1, 1]),
    (by_hand, [1, 1, 1, 1]),
    (dict, []),
]


def test_every_block_is_tried():
    assert len(BLOCKS) == len(CASES)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_block_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare, steps = CASES[number]
    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path / "run", every=1, sinks=[keep])
    names = {"gradwatch": gradwatch, "monitor": monitor, "tf": tf, "jax": jax, "optax": optax}
    names |= {"batches": DATA, **prepare()}
    # Every step, into the sink that we look at.
    code = re.sub(r'("runs/(loop|torch)"), every=10', r"\1, every=1, sinks=[keep]", BLOCKS[number])
    # AutoGraph reads the source of what it compiles, so there must be a file.
    file = tmp_path / "block.py"
    file.write_text(code)
    names["keep"] = keep
    exec(compile(code, str(file), "exec"), names)
    names["monitor"].close()
    assert keep.steps == steps
