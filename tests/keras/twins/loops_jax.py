"""Random loops in JAX, with and without `jax.jit`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.keras.twins.loops import Loop

_JAX = """
import jax, jax.numpy as jnp, numpy as np, optax
def train(make, sees=False, change=lambda array: array):
    r = np.random.default_rng(3)
    widths = {widths}
    weight = lambda shape: change((r.normal(size=shape) * {scale}).astype('float32'))
    params = {{f'layer{{i}}': {{'w': jnp.asarray(weight(s)), 'b': jnp.zeros(s[1])}}
              for i, s in enumerate(zip(widths, widths[1:]))}}
    optimizer = {optimizer}
    state = optimizer.init(params)
    x = jnp.asarray(r.normal(size=(8, widths[0])).astype('float32'))
    y = jnp.asarray({target})
    monitor = make and make()
    def forward(params, key):
        h, hidden = x, {{}}
        for i, name in enumerate(params):
            h = h @ params[name]['w'] + params[name]['b']
            if i + 1 < len(params):
                h = {activation}(h)
                kept = jax.random.bernoulli(jax.random.fold_in(key, i), 0.8, h.shape)
                h = jnp.where(kept, h / 0.8, 0.0)
                hidden[name] = h
        return jnp.mean({loss}), hidden
    def step(params, state, key):
        (loss, hidden), grads = jax.value_and_grad(forward, has_aux=True)(params, key)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, grads, hidden
    def measured(before, state, key):
        params, state, loss, grads, hidden = step(before, state, key)
        readings = monitor.measure(
            gradients=grads, parameters=params, previous=before, loss=loss, outputs=hidden)
        return params, state, loss, readings
    losses = []
    {loop}
    if monitor is not None: monitor.close()
    leaves = jax.tree_util.tree_leaves_with_path((params, state))
    return losses, {{jax.tree_util.keystr(k): np.asarray(v) for k, v in leaves}}
"""
_JAX_LOOPS = {
    "eager": """
    for n in range(3):
        before = params
        params, state, loss, grads, hidden = step(params, state, jax.random.key(n))
        if monitor is not None:
            monitor.record(
                gradients=grads, variables=params, previous=before, loss=loss, outputs=hidden)
        losses.append(float(loss))
""",
    "jit": """
    compiled = jax.jit(step if monitor is None else measured)
    for n in range(3):
        params, state, loss, *readings = compiled(params, state, jax.random.key(n))
        if monitor is not None: monitor.record(readings[0], step=n + 1)
        losses.append(float(loss))
""",
}


@st.composite
def jax_loops(draw: Any) -> Loop:
    way = draw(st.sampled_from(["eager", "jit"]))
    classes = draw(st.integers(2, 4))
    loss, target = draw(
        st.sampled_from(
            [
                ("(h - y) ** 2", f"r.normal(size=(8, {classes})).astype('float32')"),
                ("jnp.abs(h - y)", f"r.normal(size=(8, {classes})).astype('float32')"),
                (
                    "optax.softmax_cross_entropy_with_integer_labels(h, y)",
                    f"r.integers(0, {classes}, 8)",
                ),
                ("-jnp.log(jax.nn.softmax(h)[jnp.arange(8), y])", f"r.integers(0, {classes}, 8)"),
            ]
        )
    )
    body = _JAX.format(
        widths=[4, *draw(st.lists(st.integers(1, 6), max_size=3)), classes],
        scale=draw(st.sampled_from(["1.0", "1e-8", "30.0"])),
        optimizer=draw(
            st.sampled_from(
                [
                    "optax.sgd(0.1)",
                    "optax.adam(0.01)",
                    "optax.adamw(0.01)",
                    "optax.lion(0.01)",
                    "optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.1, momentum=0.9))",
                    "optax.MultiSteps(optax.adam(0.01), 2)",
                ]
            )
        ),
        activation=draw(
            st.sampled_from(["jax.nn.relu", "jnp.tanh", "jax.nn.gelu", "jax.nn.sigmoid"])
        ),
        loss=loss,
        target=target,
        loop=_JAX_LOOPS[way].strip(),
    )
    return Loop(body, is_exact=way == "eager")
