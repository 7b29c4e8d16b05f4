"""What is kept of a training: against NumPy, in bounded memory."""

import numpy as np
import pytest

from gradwatch import Kind, Site, Summary
from gradwatch.diagnosis import History, ModelFacts
from gradwatch.diagnosis.chance import chance_level
from gradwatch.diagnosis.losses import Losses
from gradwatch.diagnosis.network_order import LayerOrder, matrices
from gradwatch.diagnosis.quantities import typical_ratios, update_ratios
from gradwatch.diagnosis.value_table import ValueTable

from .support import facts_of, reading

G, W, U = Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_statistic_of_the_last_steps_equals_numpys(rng):
    history, arrays = History(depth=4), []
    for step in range(1, 12):
        arrays.append([rng.standard_normal(6), rng.standard_normal(3)])
        history.add(reading(step, {(G, "a/kernel"): arrays[-1][0], (G, "a/bias"): arrays[-1][1]}))
    expected = [[np.linalg.norm(x) for x in step] for step in arrays[-3:]]
    np.testing.assert_allclose(history[G].statistic("l2", 3), expected, rtol=1e-12)
    expected = [[x.std() for x in step] for step in arrays[-3:]]
    np.testing.assert_allclose(history[G].statistic("std", 3), expected, rtol=1e-6)
    layers = [[np.linalg.norm(np.concatenate(step))] for step in arrays[-3:]]
    np.testing.assert_allclose(history[G].l2_by_layer(3), layers, rtol=1e-12)
    assert history[G].steps[-3:].tolist() == [9, 10, 11]
    assert history[G].measured == 11


def test_memory_does_not_grow_with_the_steps():
    history = History(depth=8)
    for step in range(1, 200):
        history.add(reading(step, {(G, "a/kernel"): [1.0]}))
    assert len(history[G]) <= 16
    assert history[G].since(3) == 197


def test_what_was_not_measured_in_a_step_is_nan():
    history = History()
    history.add(reading(1, {(G, "a/kernel"): [3.0]}))
    history.add(reading(2, {(G, "b/kernel"): [4.0]}))
    np.testing.assert_array_equal(history[G].statistic("l2", 2), [[3, np.nan], [np.nan, 4]])
    np.testing.assert_array_equal(history[G].l2_by_layer(2), [[3, np.nan], [np.nan, 4]])
    history.add(reading(3, {(G, "a/kernel"): [5.0], (G, "a/bias"): [12.0]}))
    history.add(reading(4, {(G, "a/bias"): [7.0]}))
    np.testing.assert_array_equal(history[G].l2_by_layer(2), [[13, np.nan], [7, np.nan]])


def test_two_readings_of_a_step_are_one_row():
    history = History()
    history.add(reading(1, {(G, "a/kernel"): [3.0]}, loss=0.5))
    history.add(reading(1, {(W, "a/kernel"): [1.0]}))
    history.add(reading(1, {(G, "b/kernel"): [4.0]}))
    assert history[G].latest("l2").tolist() == [3.0, 4.0]
    assert history.is_fresh(W)
    assert len(history.losses) == 1


def test_slices_of_variables_are_left_out():
    history = History()
    history.add(reading(1, {(G, "a/kernel"): [3.0], (G, "a/kernel[forget]"): [3.0]}))
    assert history[G].sites == (Site(G, "a/kernel"),)


def test_a_running_number_is_that_of_each_kept_step(rng):
    table = ValueTable(G, depth=3)
    seen = []
    for step in range(1, 20):
        value = rng.standard_normal(4)
        seen.append(np.abs(value).sum())
        table.add(step, [Site(G, "a/k")], Summary.of(value).pack()[None])
        if step % 4:
            running = table.series("l1", lambda steps: table.rows(steps)[:, 0, 6])
            np.testing.assert_allclose(running, seen[-len(table) :])


def test_update_ratios_are_norms_of_the_same_step_and_of_matrices_only(rng):
    history = History()
    for step in range(1, 6):
        kernel, change = rng.standard_normal(8), rng.standard_normal(8)
        arrays = {(W, "a/kernel"): kernel, (W, "a/bias"): [1.0]}
        if step != 3:
            arrays |= {(U, "a/kernel"): change, (U, "a/bias"): [1.0]}
        history.add(reading(step, arrays))
    ratios = update_ratios(history, ModelFacts(), 4)
    assert ratios.shape == (4, 2)
    assert np.isnan(ratios[:, 1]).all()
    truth = np.linalg.norm(change) / np.linalg.norm(kernel)
    np.testing.assert_allclose(ratios[-1, 0], truth, rtol=1e-12)
    np.testing.assert_allclose(typical_ratios(history, ModelFacts())[-1], truth, rtol=1e-12)
    # Of a step of which the weights are not known, those of the next one do not do.
    history.add(reading(6, {(U, "a/kernel"): change}))
    history.add(reading(7, {(W, "a/kernel"): kernel}))
    assert np.isnan(update_ratios(history, ModelFacts(), 1)[0, 0])


def test_levels_of_the_loss_are_medians_at_both_ends(rng):
    values = rng.uniform(1, 2, 100)
    losses = Losses()
    for step, value in enumerate(values, start=1):
        losses.add(step, value)
    assert losses.initial == np.median(values[:5])
    assert losses.recent == np.median(values[-20:])


def test_losses_of_single_samples_are_pooled():
    losses = Losses(pool=4)
    for step in range(1, 13):
        losses.add(step, float(step))
    assert losses.values.tolist() == [2.5, 6.5, 10.5]
    assert (losses.latest, losses.latest_step) == (12.0, 12)


def test_a_million_losses_need_no_more_memory_than_some():
    losses = Losses()
    for step in range(1, 140_000):
        losses.add(step, 1.0 if step < 100 else 0.5)
    assert losses.steps.size <= 1 << 16
    assert (len(losses), losses.initial, losses.recent) == (139_999, 1.0, 0.5)


def test_a_layer_is_executed_after_what_is_inside_it():
    order = LayerOrder([], ["net/a", "net/block", "net/block/inner", "net/block/last", "net/head"])
    mixed = ["net/block", "net/head", "net/block/last", "net/a", "net/block/inner"]
    expected = ["net/a", "net/block/inner", "net/block/last", "net/block", "net/head"]
    assert sorted(mixed, key=order.rank) == expected
    assert order.rank("net/a@2") == order.rank("net/a")


def test_biases_norms_and_embeddings_are_no_matrices():
    history = History()
    paths = {
        "net/dense/kernel": 12, "net/dense/bias": 3, "net/batch_norm/gamma": 3,
        "net/lstm/lstm_cell/recurrent_kernel": 12, "net/words/embeddings": 40,
        "net/4/weight": 6, "net/4/bias": 6, "net/5/weight": 12, "net/5/bias": 6,
        "net/attention/in_proj_bias": 9,
    }  # fmt: skip
    history.add(reading(1, {(G, path): np.ones(size) for path, size in paths.items()}))
    facts = facts_of([("net/words", "Embedding", None, 8)])
    table = history[G]
    chosen = [s.path for s, yes in zip(table.sites, matrices(table, facts), strict=True) if yes]
    assert chosen == [
        "net/dense/kernel", "net/lstm/lstm_cell/recurrent_kernel", "net/5/weight",
    ]  # fmt: skip


def test_the_loss_of_knowing_nothing_is_known_for_classes_and_for_squares(rng):
    history = History()
    y = rng.standard_normal(1000) * 3
    history.add(reading(1, {(Kind.TARGET, "y"): y}))
    ten = facts_of([("net/out", "Dense", "softmax", 10)], "sparse_categorical_crossentropy")
    np.testing.assert_allclose(chance_level(history, ten), np.log(10))
    history = History()
    history.add(reading(1, {(Kind.TARGET, "y"): y}))
    squares = facts_of([("net/out", "Dense", "linear", 1)], "mean_squared_error")
    np.testing.assert_allclose(chance_level(history, squares), y.var(), rtol=1e-6)
    history = History()
    history.add(reading(1, {(Kind.TARGET, "y"): [0, 0, 0, 1]}))
    yes_or_no = facts_of([("net/out", "Dense", "sigmoid", 1)], "binary_crossentropy")
    p = np.array([0.25, 0.75])
    np.testing.assert_allclose(chance_level(history, yes_or_no), -(p * np.log(p)).sum())


@pytest.mark.parametrize(
    ("rates", "base", "expected"),
    [
        ([0.1, 0.2, 0.3], None, True),
        ([0.1, 0.2, 0.2], None, False),
        ([0.3, 0.2, 0.1], None, False),
        ([0.1, 0.2, 0.3], 1.0, True),
        # It would take a thousand times as long.
        ([0.1, 0.2, 0.3], 300.0, False),
    ],
)
def test_a_rate_that_rises_is_warming_up_until_it_stays_or_never_arrives(rates, base, expected):
    history = History()
    for step, rate in enumerate(rates, start=1):
        history.add_number("learning_rate", step, rate)
        if base is not None:
            history.add_number("base_learning_rate", step, base)
    assert history.is_warming_up() is expected
