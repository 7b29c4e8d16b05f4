"""Where arrays on several devices are not measured, and what is said instead."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import gradwatch

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
DATA = PartitionSpec("data")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_vma": False}, "check_vma"),
        ({"axis_names": {"data"}}, "a mesh that also has model"),
    ],
)
def test_a_shard_map_in_which_parts_cannot_be_told_from_copies_is_refused(
    make_monitor, caplog, options, words
):
    monitor, keep = make_monitor()
    seen = []

    def step(w):
        seen.append(monitor.measure(gradients={"w": w}, parameters={"w": w}))
        return w * 2

    w = np.ones((4, 4), "float32")
    mapped = jax.shard_map(step, mesh=mesh, in_specs=DATA, out_specs=DATA, **options)
    np.testing.assert_array_equal(jax.jit(mapped)(w), 2 * w)
    monitor.record(seen[0], step=1)
    monitor.close()
    assert seen == [{}]
    assert keep.readings == []
    assert words in caplog.text


def test_dead_units_are_refused_inside_shard_map(make_monitor, caplog):
    monitor, _ = make_monitor(watch=[gradwatch.outputs(per_unit=True)])

    def step(x):
        monitor.measure(outputs={"hidden": x})
        return x

    mapped = jax.shard_map(step, mesh=mesh, in_specs=DATA, out_specs=DATA)
    jax.jit(mapped)(np.ones((4, 4), "float32"))
    assert "Dead units" in caplog.text
