"""Losses that compare outputs with targets that are not theirs, and contrasts without a guess."""

import numpy as np
import pytest

from gradwatch import Kind

from .support import alarms, facts_of, found, observed, reading

RNG = np.random.default_rng(4)
CURVE = [("net/hidden", "Dense", "relu", 8), ("net/out", "Dense", None, 1)]


def regression(step, loss):
    """A step of 32 samples of one value; `loss(targets, outputs)`."""
    targets = RNG.normal(1.0, 2.0, 32)
    outputs = 0.3 * targets + RNG.normal(0.5, 0.6, 32)
    arrays = {
        (Kind.TARGET, "target"): targets,
        (Kind.OUTPUT, "net/out"): outputs,
        (Kind.SCALAR, "agreement"): [np.corrcoef(targets, outputs)[0, 1]],
    }
    return reading(step, arrays, float(loss(targets, outputs)))


@pytest.mark.parametrize("is_over_pairs", [True, False])
def test_a_squared_error_over_all_pairs_is_recognized_by_its_value(is_over_pairs):
    def loss(targets, outputs):
        outputs = outputs[:, None] if is_over_pairs else outputs
        return ((targets - outputs) ** 2).mean()

    facts = facts_of(CURVE, "own_loss", batch_size=32)
    diagnosis = observed([regression(step, loss) for step in range(1, 6)], facts)
    if is_over_pairs:
        finding = found(diagnosis, "structural-mismatch")
        assert (finding.severity, finding.layer) == ("error", "net/out")
        assert "over all pairs" in finding.title
    else:
        assert alarms(diagnosis) == []


@pytest.mark.parametrize(("factor", "is_known"), [(1.0, True), (50.0, False)])
def test_a_squared_error_of_ones_own_is_recognized_and_compared_with_a_guess(factor, is_known):
    def loss(targets, outputs):
        return factor * ((targets - outputs) ** 2).mean()

    readings = [regression(step, loss) for step in range(1, 41)]
    verdict = observed(readings, facts_of(CURVE, batch_size=32)).verdict
    guess = verdict.evidence.get("loss of the best constant guess", np.nan)
    assert (guess == pytest.approx(4.0, rel=0.15)) == is_known


def numbers(step, targets):
    arrays = {(Kind.TARGET, "target"): targets, (Kind.OUTPUT, "net/out"): RNG.normal(size=(16, 5))}
    return reading(step, arrays, 4.0)


@pytest.mark.parametrize(
    ("targets", "is_alarm"),
    [
        (np.arange(16) % 5, True),
        # A value per output, and values that are no class numbers.
        (RNG.integers(0, 5, (16, 5)), False),
        (7 * np.arange(16), False),
        (np.arange(16) % 2, False),
    ],
)
def test_class_numbers_as_values_of_all_outputs(targets, is_alarm):
    facts = facts_of([("net/out", "Dense", None, 5)], "mean_squared_error", targets_are_whole=True)
    diagnosis = observed([numbers(step, targets) for step in (1, 2, 3)], facts)
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])


@pytest.mark.parametrize(
    ("share", "answers", "is_alarm"),
    [
        (0.05, (-9.0, -6.0), True),
        (0.95, (6.0, 9.0), True),
        # Nothing but the share is known; some answers are higher; a rare class that weighs more.
        (0.05, (-3.0, -2.9), False),
        (0.05, (-9.0, 1.0), False),
        (0.05, (0.0, 2.0), False),
        # Too few of the rare class were seen.
        (0.0005, (-12.0, -11.0), False),
    ],
)
def test_weights_that_let_a_class_vanish(share, answers, is_alarm):
    facts = facts_of([("net/out", "Dense", None, 1)], "binary_crossentropy", from_logits=True)

    def arrays(step):
        return {
            (Kind.TARGET, "target"): RNG.random(64) < share,
            (Kind.OUTPUT, "net/out"): RNG.uniform(*answers, 64),
        }

    diagnosis = observed([reading(i, arrays(i), 0.9**i) for i in range(1, 121)], facts)
    assert alarms(diagnosis) == []
    diagnosis.observe_end()
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])


@pytest.mark.parametrize("units", [1, 65])
def test_where_one_answer_is_right_for_all_nothing_is_compared_with_it(units):
    """The positive of a contrast comes first: as column 0 of answers, or as class 0."""
    loss = "binary_crossentropy" if units == 1 else "sparse_categorical_crossentropy"
    targets = np.eye(1, 6)[np.zeros(32, int)] if units == 1 else np.zeros(32)
    facts = facts_of([("net/out", "Dense", None, units)], loss, batch_size=32)
    arrays = {(Kind.TARGET, "target"): targets, (Kind.SCALAR, "constant_loss"): [0.0]}
    losses = np.linspace(1.0, 0.4, 60) + 0.01 * RNG.normal(size=60)
    diagnosis = observed(
        [reading(step, arrays, float(loss)) for step, loss in enumerate(losses, 1)], facts
    )
    diagnosis.observe_end()
    assert "loss of the best constant guess" not in diagnosis.verdict.evidence
    assert diagnosis.verdict.word in ("learned", "still learning")
    assert alarms(diagnosis) == []


@pytest.mark.parametrize("score", ["rises", "rests", "falls"])
def test_a_policy_is_judged_by_the_score_that_the_loop_reports(score):
    slope = {"rises": 0.5, "rests": 0.0, "falls": -0.3}[score]
    losses = RNG.normal(0.0, 0.2, 200) - np.linspace(0.0, 0.3, 200)
    diagnosis = observed([])
    for step, loss in enumerate(losses.tolist(), 1):
        diagnosis.observe(reading(step, {}, loss))
        value = 0.4 + slope * step / 200 + RNG.normal(0.0, 0.05)
        diagnosis.observe_metrics(step, {"return": value})
    diagnosis.observe_end()
    # What gets worse, does so by the sign of the loss.
    expected = {"rises": [], "rests": ["learned-nothing"], "falls": ["structural-mismatch"]}
    assert alarms(diagnosis) == expected[score]
    assert (diagnosis.verdict.word == "learned nothing") is (score != "rises")


def test_equal_weights_that_nothing_uses_are_no_symmetric_start():
    """A parameter of the module's own, such as the weights of losses, that a case leaves out."""

    def arrays(step, gradient):
        return {
            (Kind.WEIGHT, "net/a/kernel"): [0.3 + 0.01 * step, -0.2],
            (Kind.WEIGHT, "weights"): [0.0, 0.0],
            (Kind.GRADIENT, "net/a/kernel"): [0.5, 0.1],
            (Kind.GRADIENT, "weights"): gradient,
        }

    for gradient, wanted in (([], []), ([0.0, 0.0], ["structural-mismatch"])):
        losses = np.linspace(2.0, 1.0, 8).tolist()
        steps = [reading(i, arrays(i, gradient), loss) for i, loss in enumerate(losses, 1)]
        found_rules = {f.rule for f in observed(steps).alarms}
        assert [rule for rule in found_rules if rule == "structural-mismatch"] == wanted
