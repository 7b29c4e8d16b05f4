"""Causes that other findings once hid: of inputs, normalizations, cells and parts of a network."""

from __future__ import annotations

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LossFacts, ModelFacts
from gradwatch.diagnosis.judgement import Word, judgement

from .support import FLAT, alarms, course, facts_of, found, given, kernels, observed, reading

G, W, OUT, DEAD = Kind.GRADIENT, Kind.WEIGHT, Kind.OUTPUT, Kind.DEAD_UNIT
RNG = np.random.default_rng(5)


@pytest.mark.parametrize(("cut", "is_hidden"), [(("c",), False), (("a", "b", "c"), True)])
def test_a_part_without_gradient_does_not_explain_that_the_others_learn_nothing(cut, is_hidden):
    arrays = kernels({name: 0.0 if name in cut else 1.0 for name in "abcdef"})
    diagnosis = observed(course(200, lambda s: arrays, FLAT))
    diagnosis.observe_end()
    assert ("learned-nothing" not in alarms(diagnosis)) == is_hidden
    assert "zero-gradients" in alarms(diagnosis)


def test_units_are_not_dead_if_an_embedding_gives_them_zeros_only():
    def at(embedded):
        return {
            (Kind.INPUT, "words"): [3.0, 5.0, 9.0, 2.0],
            (Kind.TARGET, "target"): [0.0, 1.0, 1.0, 0.0],
            (OUT, "embed"): embedded,
            (OUT, "hidden"): [0.0] * 4,
            (OUT, "out"): [0.5] * 4,
            (DEAD, "embed"): [0.0] * 2,
            (DEAD, "hidden"): [1.0] * 2,
        }

    facts = facts_of(
        [
            ("embed", "Embedding", None, 2),
            ("hidden", "Dense", "relu", 2),
            ("out", "Dense", "sigmoid", 1),
        ],
        "binary_crossentropy",
    )
    nothing = alarms(observed(course(12, lambda s: at([0.0] * 4), FLAT), facts))
    assert ("dead-units" in nothing, "constant-output" in nothing) == (False, True)
    some = alarms(observed(course(12, lambda s: at([0.1, -0.2, 0.3, 0.2]), FLAT), facts))
    assert "dead-units" in some


def normalized(returned, scale=1.0, kind="LayerNormalization", before=(-1.0, 2.0)):
    arrays = {
        (OUT, "narrow"): list(before),
        (OUT, "norm"): returned,
        (OUT, "out"): [0.1, 0.3],
        (W, "norm/gamma"): [scale],
    }
    layers = [("narrow", "Dense", None, 1), ("norm", kind, None, 1), ("out", "Dense", None, 2)]
    return alarms(observed(course(3, lambda s: arrays, FLAT), facts_of(layers)))


def test_a_normalization_of_single_values_returns_nothing():
    assert normalized([0.0, 0.0]) == ["structural-mismatch"]
    assert normalized([1e-5, -1e-5], kind="GroupNorm") == ["structural-mismatch"]
    assert normalized([-1.0, 1.0]) == []
    # A branch that starts with nothing; one that is given nothing; another kind of layer.
    assert normalized([0.0, 0.0], scale=0.0) == []
    assert normalized([0.0, 0.0], before=(0.3, 0.3)) == []
    assert normalized([0.0, 0.0], kind="Dense") == []


@pytest.mark.parametrize(("noise", "wanted"), [(0.0, ["constant-output"]), (1.0, [])])
def test_a_generator_that_is_given_no_noise_is_said(noise, wanted):
    facts = ModelFacts(loss=LossFacts(is_through_others=True))

    def at(step):
        z = noise * RNG.standard_normal(64)
        return {(Kind.INPUT, "z"): z, (OUT, "net/made"): [0.2, 0.7], **kernels({"a": 1.0})}

    assert alarms(observed(course(8, at, FLAT), facts)) == wanted


def test_columns_beside_an_embedding_may_be_too_large():
    tower = [("tower", "Linear", None, 2)]
    embedding, norm = ("embed", "Embedding", None, 8), ("norm", "BatchNorm1d", None, 8)
    dollars = course(6, lambda s: given(1e5 * np.array([-1.0, 0.5, 1.3])), FLAT)
    assert alarms(observed(dollars, facts_of([embedding, *tower]))) == ["input-scale"]
    # They may be normalized, and what is looked up may have any size.
    assert alarms(observed(dollars, facts_of([embedding, norm, *tower]))) == []
    indices = course(6, lambda s: given(np.array([3.0, 4e5, 12.0])), FLAT)
    assert alarms(observed(indices, facts_of([embedding, *tower]))) == []


def looped(samples, classes, scale=1.0, other=False):
    """The alarms of a loop whose batches are all the same."""
    x = scale * np.random.default_rng(1).normal(size=samples)
    if scale > 1.0:
        x = np.round(x)
    loss = "sparse_categorical_crossentropy"
    facts = facts_of([("out", "Linear", None, classes)], loss, from_logits=True)

    def at(step):
        batch = x + (step % 7) * other
        return given(batch, [float(i % classes) for i in range(samples)])

    diagnosis = observed(course(60, at, [2.0 * 0.9**step for step in range(60)]), facts)
    diagnosis.observe_end()
    return alarms(diagnosis)


def test_the_same_few_samples_all_the_time_are_no_data_set():
    assert looped(20, 10) == ["unshuffled-data"]
    assert looped(20, 10, other=True) == []
    # All there is, perhaps; a table of truth values.
    assert looped(120, 10) == []
    assert looped(4, 2, scale=3.0) == []


def cell(steps, size, losses=FLAT, kind="RNN"):
    facts = facts_of(
        [("rnn", kind, "tanh", 16), ("out", "Linear", None, 1)],
        "binary_crossentropy",
        from_logits=True,
        batch_size=32,
    )
    recurrent = size * np.tile([1.0, -1.0], 128)
    arrays = {
        (W, "rnn/weight_ih_l0"): 0.1 * np.ones(48),
        (W, "rnn/weight_hh_l0"): recurrent,
        (G, "rnn/weight_ih_l0"): 0.1 * np.ones(48),
        (G, "rnn/weight_hh_l0"): 0.1 * recurrent,
        (G, "out/weight"): 0.1 * np.ones(16),
        (OUT, "rnn"): np.zeros(32 * steps * 16) + 0.1,
        (Kind.SCALAR, "constant_loss"): [2.0],
    }
    return observed(course(110, lambda s: arrays, losses), facts)


def test_gradients_vanish_within_a_plain_cell_of_a_long_sequence():
    finding = found(cell(60, 0.15), "vanishing-gradients")
    assert (finding.layer, finding.evidence["steps"]) == ("rnn", 60)
    assert finding.evidence["left by a step"] == pytest.approx(0.15 * 4)
    for other in (cell(6, 0.15), cell(60, 0.25), cell(60, 0.15, kind="LSTM")):
        assert "vanishing-gradients" not in alarms(other)
    learned = [2.0 * 0.98**step for step in range(110)]
    assert "vanishing-gradients" not in alarms(cell(60, 0.15, learned))


def test_a_likelihood_that_rises_ever_faster_has_the_wrong_sign():
    def negative(losses):
        diagnosis = observed(course(len(losses), lambda s: kernels({"a": 1.0}), list(losses)))
        diagnosis.observe_end()
        return "negative-loss" in alarms(diagnosis)

    step = np.arange(180)
    assert negative(0.5 - 0.2 * np.exp(step / 40.0))
    # A density that becomes sharp does so ever more slowly.
    assert not negative(0.5 - 12.0 * (1 - np.exp(-step / 40.0)))


def test_a_loss_that_hardly_moves_is_neither_learning_nor_learned():
    def word(losses):
        diagnosis = observed(course(len(losses), lambda s: kernels({"a": 1.0}), list(losses)))
        diagnosis.observe_end()
        return judgement(diagnosis._groups[""].history, ModelFacts()).word

    step = np.arange(200)
    # Without noise, and its floor unknown.
    assert word(1.0 + 0.1 * np.exp(-step / 5.0) - 1e-6 * step) is Word.UNKNOWN
    assert word(1.0 - 0.002 * step) is Word.STILL_LEARNING
    assert word(1.0 * np.exp(-step / 20.0) + 0.1) is Word.LEARNED


def test_what_an_own_step_leaves_out_is_named():
    layers = [("first", "Dense", "relu", 8), ("last", "Dense", None, 3)]
    facts = facts_of(layers)
    facts = ModelFacts.from_json(
        {
            **facts.to_json(),
            "layers": [{**each, "trainable": True} for each in facts.to_json()["layers"]],
            "loss": {"is_of_own_step": True},
            "parameters": {"total": 100, "trainable": 100},
        }
    )
    readings = [reading(s, {(G, "last/kernel"): np.ones(24)}, FLAT) for s in range(1, 81)]
    diagnosis = observed(readings, facts)
    diagnosis.observe_end()
    assert alarms(diagnosis) == ["structural-mismatch"]
    assert {each.layer for each in diagnosis.findings if each.is_alarm} == {"first"}
