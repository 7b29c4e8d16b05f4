"""Whether a network learns: against the best constant guess, and against its own noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gradwatch import Kind, Site, Summary
from gradwatch.capture.constant_guess import constant_loss
from gradwatch.core import OptimizerFacts, ParameterFacts, Reading
from gradwatch.diagnosis import Diagnosis, History, ModelFacts, Verdict
from gradwatch.diagnosis.chance import constant_accuracy, constant_guess
from gradwatch.diagnosis.judgement import Word, judgement

from .support import facts_of

CLASSES = facts_of(
    [("net/out", "Dense", "softmax", 4)], "sparse_categorical_crossentropy", batch_size=32
)
VALUES = facts_of([("net/out", "Dense", None, 3)], "mean_squared_error", batch_size=16)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def history_of(losses, targets=None, loss=None, epochs=()):
    """A history of losses; `targets(step)` are those of the steps."""
    history = History()
    for step, value in enumerate(losses, 1):
        rows = {Site(Kind.LOSS, "loss"): [value]}
        if targets is not None:
            batch = np.asarray(targets(step), np.float64)
            rows[Site(Kind.TARGET, "target")] = batch
            rows[Site(Kind.SCALAR, "constant_loss")] = [constant_loss(np, loss, batch)]
        packed = np.stack([Summary.of(np.asarray(x, np.float64)).pack() for x in rows.values()])
        history.add(Reading(step, 1, 0.0, list(rows), Summary.unpack(packed)))
    for epoch, logs in enumerate(epochs, 1):
        history.add_epoch(epoch, len(losses), logs)
    return history


def test_the_constant_guess_of_batches_is_that_of_all_data(rng):
    shares = np.array([0.7, 0.1, 0.1, 0.1])
    history = history_of(
        [1.0] * 200, lambda step: rng.choice(4, 32, p=shares), "sparse_categorical_crossentropy"
    )
    truth = -(shares * np.log(shares)).sum()
    assert constant_guess(history, CLASSES).value == pytest.approx(truth, rel=0.03)
    assert constant_accuracy(history, CLASSES) == pytest.approx(0.7, abs=0.02)
    history = history_of(
        [1.0] * 200, lambda step: np.array([0, 10, 20]) + rng.standard_normal((16, 3)), "mse"
    )
    guess = constant_guess(history, VALUES)
    assert guess.low < 1.0 < guess.high


def test_batches_of_one_class_each_are_not_guessed_by_themselves():
    history = history_of(
        [1.0] * 40, lambda step: np.full(32, step % 4), "sparse_categorical_crossentropy"
    )
    assert constant_guess(history, CLASSES).value == pytest.approx(math.log(4))


def word(losses, facts=None, **options):
    return judgement(history_of(list(losses), **options), facts or ModelFacts()).word


def test_few_losses_say_nothing():
    assert word([1.0] * 9) is Word.UNKNOWN


def test_a_loss_below_that_of_the_constant_guess_has_learned(rng):
    low = 0.3 + 0.05 * rng.standard_normal(60)
    assert word([*np.linspace(1.4, 0.3, 40), *low], CLASSES) is Word.LEARNED
    # It may have been pretrained.
    assert word(low, CLASSES) is Word.LEARNED


def test_a_loss_at_that_of_the_constant_guess_has_learned_nothing(rng):
    at_chance = math.log(4) + 0.02 * rng.standard_normal(80)
    assert word(at_chance, CLASSES) is Word.LEARNED_NOTHING
    assert word([*np.linspace(9.0, 1.5, 40), *at_chance], CLASSES) is Word.LEARNED_NOTHING


def test_an_accuracy_above_that_of_the_constant_guess_is_evidence_too(rng):
    odd = math.log(4) + 0.02 * rng.standard_normal(80)
    assert word(odd, CLASSES, epochs=[{"loss": 1.4, "accuracy": 0.8}]) is Word.LEARNED
    assert word(odd, CLASSES, epochs=[{"loss": 1.4, "accuracy": 0.27}]) is Word.LEARNED_NOTHING


def test_a_loss_that_falls_slowly_but_surely_is_still_learning(rng):
    slow = np.linspace(1.40, 1.32, 200) + 0.01 * rng.standard_normal(200)
    assert word(slow, CLASSES) is Word.STILL_LEARNING


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_progress(seed):
    noise = np.random.default_rng(seed).standard_normal(100)
    # Of losses that depend on each other, fewer say anything.
    drifting = 5.0 + np.convolve(noise, np.ones(5) / 5, "same")
    assert judgement(history_of(drifting), ModelFacts()).is_flat


def test_a_signed_loss_is_judged_by_its_own_start_and_noise(rng):
    noise = 0.1 * rng.standard_normal(100)
    assert word(noise - np.linspace(0, 8, 100)) is not Word.LEARNED_NOTHING
    assert word(-3.0 + noise) is Word.UNKNOWN


def test_a_loss_above_its_start_got_worse(rng):
    noise = 0.05 * rng.standard_normal(100)
    assert word(1.0 + noise + np.linspace(0, 1, 100)) is Word.GOT_WORSE


def ended(losses, facts=None, **options):
    diagnosis = Diagnosis(facts)
    for step, value in enumerate(losses, 1):
        diagnosis.observe_losses([(step, value)])
    for epoch, logs in enumerate(options.get("epochs", ()), 1):
        diagnosis.observe_epoch(epoch, len(losses), logs)
    diagnosis.observe_end()
    return diagnosis


def test_a_training_that_ends_at_the_constant_guess_has_learned_nothing(rng):
    diagnosis = ended(math.log(4) + 0.02 * rng.standard_normal(80), CLASSES)
    [finding] = diagnosis.alarms
    assert (finding.rule, finding.detected) == ("learned-nothing", 80)
    assert "labels did not depend on the inputs" in finding.evidence["reason 1"]
    assert diagnosis.verdict.word == "learned nothing"
    # Validation that is no worse than training says nothing for either.
    same = [{"loss": 1.38, "val_loss": 1.34}] * 4
    [finding] = ended(math.log(4) + 0.02 * rng.standard_normal(80), CLASSES, epochs=same).alarms
    assert finding.rule == "learned-nothing"
    # One that was hardly begun may learn yet.
    assert ended([math.log(4)] * 30, CLASSES).alarms == []


@pytest.mark.parametrize(
    ("level", "steps", "trainable", "expected"),
    [
        (0.96, 80, 100, []),
        (0.96, 80, 1000, ["learned-nothing"]),
        (0.96, 160, 100, ["learned-nothing"]),
        # No better than a guess.
        (1.0, 80, 100, ["learned-nothing"]),
    ],
)
def test_the_first_fit_of_a_head_on_a_frozen_base_may_come_to_little(
    level, steps, trainable, expected, rng
):
    facts = replace(CLASSES, parameters=ParameterFacts(1000, trainable))
    losses = level * math.log(4) + 0.02 * rng.standard_normal(steps)
    assert [each.rule for each in ended(losses, facts).alarms] == expected


def test_a_training_that_ends_while_its_loss_falls_too_slowly_says_how_long_it_would_take(rng):
    slow = np.linspace(1.42, 1.38, 200) + 0.002 * rng.standard_normal(200)
    [finding] = ended(slow, CLASSES).alarms
    assert "steps more" in finding.evidence["reason 1"]


@pytest.mark.parametrize(("fall", "expected"), [(0.004, ["learned-nothing"]), (0.3, [])])
def test_a_short_training_whose_loss_only_creeps_has_learned_nothing(fall, expected):
    assert [
        each.rule for each in ended(1.386 - np.linspace(0, fall, 60), CLASSES).alarms
    ] == expected


@pytest.mark.parametrize(
    ("fall", "scale", "word"),
    [
        (8e-4, 1e-3, Word.LEARNED),
        # Without such a temperature, or if the logits have hardly moved, it is nothing.
        (8e-4, None, Word.LEARNED_NOTHING),
        (1e-4, 1e-3, Word.LEARNED_NOTHING),
    ],
)
def test_logits_that_hardly_count_may_have_moved_by_much(fall, scale, word, rng):
    facts = replace(CLASSES, loss=replace(CLASSES.loss, scale=scale))
    losses = math.log(4) - fall * (1 - np.exp(-np.arange(200) / 8)) + 1e-6 * rng.normal(size=200)
    history = history_of(losses)
    assert judgement(history, facts).word is word


@pytest.mark.parametrize(("agreement", "expected"), [(0.0, ["learned-nothing"]), (0.6, [])])
def test_a_step_of_the_users_own_has_learned_nothing_if_its_answers_are_deaf(
    agreement, expected, rng
):
    """Alone, a loss that rests says nothing: it may be that of an adversary."""
    facts = facts_of([("net/out", "Dense", None, 4)])
    facts = replace(facts, loss=replace(facts.loss, is_of_own_step=True))

    def readings(numbers):
        for step in range(1, 101):
            rows = {Site(Kind.LOSS, "loss"): [2.3 + 0.01 * rng.standard_normal()]}
            rows |= {Site(Kind.SCALAR, name): [value()] for name, value in numbers.items()}
            packed = np.stack([Summary.of(np.asarray(x, "float64")).pack() for x in rows.values()])
            yield Reading(step, 1, 0.0, list(rows), Summary.unpack(packed))

    def said(numbers):
        diagnosis = Diagnosis(facts)
        for each in readings(numbers):
            diagnosis.observe(each)
        diagnosis.observe_end()
        return [each.rule for each in diagnosis.alarms]

    assert said({"agreement": lambda: agreement + 0.02 * rng.standard_normal()}) == expected
    assert said({}) == []


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"epsilon": 1.0}, "epsilon of 1"),
        ({"beta_1": 0.9999}, "beta_1=0.9999"),
        ({"momentum": 1.0}, "momentum of 1"),
        ({"clip_norm": 1e-6}, "clip_norm=1e-06"),
        ({"epsilon": 1e-7, "beta_1": 0.9, "momentum": 0.99, "clip_norm": 1.0}, "labels"),
    ],
)
def test_odd_constants_of_the_optimizer_are_reasons_why_nothing_is_learned(rng, constants, words):
    facts = replace(CLASSES, optimizer=OptimizerFacts(**constants))
    [finding] = ended(math.log(4) + 0.02 * rng.standard_normal(80), facts).alarms
    assert words in finding.evidence["reason 1"]


def test_a_training_that_learns_ends_without_a_finding(rng):
    diagnosis = ended([*np.linspace(1.4, 0.3, 60)], CLASSES)
    assert diagnosis.alarms == []
    assert Verdict.from_json(diagnosis.verdict.facts()) == diagnosis.verdict


def test_a_signed_loss_of_unknown_meaning_need_not_fall(rng):
    assert ended(0.1 * rng.standard_normal(400)).alarms == []


def test_the_verdict_says_since_when_the_model_does_not_generalise():
    course = [(1.3, 1.35), (0.9, 1.0), (0.5, 0.8), (0.3, 0.9), (0.2, 1.1), (0.1, 1.3)]
    epochs = [{"loss": train, "val_loss": validation} for train, validation in course]
    verdict = ended([*np.linspace(1.4, 0.1, 60)], CLASSES, epochs=epochs).verdict
    assert verdict.text().endswith("does not generalise since epoch 3")
    good = [{"loss": train, "val_loss": 1.05 * train} for train, _ in course]
    assert ended([*np.linspace(1.4, 0.1, 60)], CLASSES, epochs=good).verdict.generalises is True


def test_the_metrics_of_a_loop_are_its_validation():
    diagnosis = Diagnosis(CLASSES)
    for step, value in enumerate(np.linspace(1.4, 0.1, 60), 1):
        diagnosis.observe_losses([(step, value)])
        if step % 10 == 0:
            diagnosis.observe_metrics(step, {"valid_loss": 1.0 + abs(step - 20) / 50})
    assert diagnosis.verdict.generalises is False


def test_a_loss_that_falls_past_the_constant_guess_is_not_flat(rng):
    noise = rng.standard_normal(24)
    losses = 12.0 * 0.94 ** np.arange(24) * (1 + 0.15 * noise)
    targets = [2.0 * rng.standard_normal((16, 3)) for _ in losses]
    for length in range(15, 25):
        history = history_of(losses[:length], lambda step: targets[step - 1], "mse")
        assert not judgement(history, VALUES).is_flat


def test_the_same_batches_tell_the_skill_better_than_the_levels_do(rng):
    # What makes a batch hard for a guess makes it hard for the network.
    targets = [rng.standard_normal((16, 3)) * rng.uniform(0.5, 2.0) for _ in range(60)]
    guesses = [float(constant_loss(np, "mse", batch)) for batch in targets]
    for left, word in ((1.07, Word.LEARNED_NOTHING), (0.9, Word.LEARNED)):
        losses = [left * guess for guess in guesses]
        so_far = judgement(history_of(losses, lambda step: targets[step - 1], "mse"), VALUES)
        assert so_far.skill.error < 0.01
        # Each batch's own guess is a sixteenth too good.
        assert so_far.skill.value == pytest.approx(1.0 - left * 15 / 16, abs=0.01)
        assert so_far.word is word


def test_losses_of_single_samples_are_averaged_once_their_number_is_known():
    history = History()
    for step in range(1, 17):
        history.add_loss(step, float(step))
    history.losses.pool_by(8)
    assert history.losses.values.tolist() == [4.5, 12.5]
    assert history.losses.steps.tolist() == [8, 16]
    for step in range(17, 25):
        history.add_loss(step, 1.0)
    assert history.losses.values.tolist() == [4.5, 12.5, 1.0]


def test_what_is_memorised_is_said_if_no_validation_shows_it(rng):
    targets = [rng.integers(0, 4, 32) for _ in range(120)]
    falls = np.linspace(1.39, 1.2, 120) + 0.02 * rng.standard_normal(120)

    def alarms_of(validation):
        diagnosis = Diagnosis(CLASSES)
        for step, (loss, batch) in enumerate(zip(falls, targets, strict=True), 1):
            guess = constant_loss(np, "sparse_categorical_crossentropy", batch.astype(float))
            rows = {
                Site(Kind.LOSS, "loss"): [loss],
                Site(Kind.TARGET, "target"): batch.astype(float),
                Site(Kind.SCALAR, "constant_loss"): [guess],
            }
            packed = np.stack([Summary.of(np.asarray(x, np.float64)).pack() for x in rows.values()])
            diagnosis.observe(Reading(step, 1, 0.0, list(rows), Summary.unpack(packed)))
        for epoch, loss in enumerate(validation, 1):
            diagnosis.observe_epoch(epoch, 30 * epoch, {"loss": 1.3, "val_loss": loss})
        diagnosis.observe_end()
        return [finding.title[:36] for finding in diagnosis.alarms]

    assert alarms_of([1.39, 1.4, 1.42, 1.45]) == ["What the network has learned does no"]
    # It may only be late.
    assert alarms_of([1.6, 1.45, 1.42, 1.37]) == []
    assert alarms_of([1.35, 1.3, 1.25, 1.2]) == []


def with_returns(returns):
    """A loss that says nothing, beside the returns that a loop reports every fifth step."""
    rng = np.random.default_rng(0)
    history = history_of(rng.standard_normal(200))
    for i, value in enumerate(returns):
        history.add_metrics(5 * i + 1, {"loss": -value, "mean_return": value, "steps": 9.0 * i})
    return judgement(history, ModelFacts())


def test_a_score_that_rises_tells_that_a_network_learns_where_its_loss_does_not():
    noise = np.random.default_rng(1).standard_normal(40)
    assert not with_returns([]).has_learned
    assert not with_returns(noise).has_learned
    assert not with_returns(noise - 0.2 * np.arange(40)).has_learned
    rising = with_returns(noise + 0.2 * np.arange(40))
    assert (rising.has_learned, rising.is_flat, rising.word) == (True, False, Word.LEARNED)


def test_a_known_guess_tells_more_than_scores():
    targets = np.arange(32) % 4
    history = history_of([1.4] * 100, lambda step: targets, "sparse_categorical_crossentropy")
    for step in range(40):
        history.add_metrics(step, {"reward": float(step)})
    assert not judgement(history, CLASSES).has_learned
