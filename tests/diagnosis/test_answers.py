"""Answers, scores and weights that contradict the loss, whatever it is called."""

import numpy as np
import pytest

from gradwatch import Kind
from gradwatch.core import LossFacts, ModelFacts, ParameterFacts

from .support import alarms, course, facts_of, falling, found, observed, reading

RNG = np.random.default_rng(9)
ANSWER = [("net/hidden", "Dense", "relu", 8), ("net/out", "Dense", "sigmoid", 1)]


def ended(readings, facts=None):
    diagnosis = observed(readings, facts)
    diagnosis.observe_end()
    return diagnosis


@pytest.mark.parametrize(
    ("left", "is_alarm"), [(0.0, True), (0.1, True), (0.4, False), (3.0, False)]
)
def test_weights_that_leave_one_class_only_are_said(left, is_alarm):
    arrays = {
        (Kind.TARGET, "target"): [0.0, 1.0] * 8,
        (Kind.SCALAR, "class_guess"): [0.5],
        (Kind.SCALAR, "weighted_guess"): [0.5 * left],
    }
    diagnosis = observed(course(12, lambda s: arrays, falling(12)))
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])
    if is_alarm:
        assert found(diagnosis, "structural-mismatch").evidence["entropy of the classes"] == 0.5


def compared(agreement, share=0.3):
    """Steps of a loss of the user's own; `agreement` is a function of the step."""

    def arrays(step):
        return {
            (Kind.TARGET, "target"): (RNG.random(64) < share).astype(float),
            (Kind.OUTPUT, "net/out"): RNG.uniform(0.0, 1.0, 64),
            # What stays the same is kept once.
            (Kind.SCALAR, "agreement"): [agreement(step) + 1e-3 * RNG.normal()],
        }

    return course(120, arrays, falling(120))


@pytest.mark.parametrize(
    ("agreement", "is_alarm"),
    [(lambda s: 0.02 * (-1) ** s, True), (lambda s: 0.5, False), (lambda s: -0.5, False)],
)
def test_answers_that_do_not_depend_on_their_targets_are_said(agreement, is_alarm):
    diagnosis = ended(compared(agreement), facts_of(ANSWER))
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])
    # What is no answer may be a distance, or the loss itself.
    linear = facts_of([("net/out", "Dense", None, 1)])
    assert alarms(ended(compared(agreement), linear)) == []


@pytest.mark.parametrize(
    ("accuracy", "agreement", "is_alarm"),
    [(0.3, 0.2, True), (0.65, 0.2, False), (0.9, 0.7, False), (0.1, -0.8, False)],
)
def test_answers_that_are_wrong_more_often_than_a_constant_are_said(accuracy, agreement, is_alarm):
    diagnosis = observed(compared(lambda s: agreement), facts_of([("net/out", "Dense", None, 1)]))
    diagnosis.observe_epoch(1, 120, {"loss": 0.01, "accuracy": accuracy})
    diagnosis.observe_end()
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])


def test_a_sigmoid_expects_to_be_the_probability_of_yes_whatever_the_loss_is_called():
    def arrays(step):
        answers = {(Kind.OUTPUT, "net/out"): RNG.uniform(0.0, 0.01, 64)}
        return {**answers, (Kind.TARGET, "target"): (RNG.random(64) < 0.3).astype(float)}

    diagnosis = ended(course(120, arrays, falling(120)), facts_of(ANSWER))
    assert "never chosen" in found(diagnosis, "structural-mismatch").title


@pytest.mark.parametrize("activation", ["sigmoid", "softmax", "tanh", None])
def test_probabilities_for_logits_are_said_where_no_layer_is_the_last(activation):
    loss = LossFacts("binary_crossentropy", True, activation=activation)
    diagnosis = observed(course(3, lambda s: {}, falling(3)), ModelFacts(loss=loss))
    is_alarm = activation in ("sigmoid", "softmax")
    assert alarms(diagnosis) == (["structural-mismatch"] if is_alarm else [])


def test_axes_that_a_view_gives_each_others_place_are_said():
    loss = LossFacts("sparse_categorical_crossentropy", True, swapped=[(8, 6, 5), (8, 5, 6)])
    diagnosis = observed(course(2, lambda s: {}, falling(2)), ModelFacts(loss=loss))
    assert found(diagnosis, "structural-mismatch").severity == "error"


def test_an_input_that_nothing_uses_is_said():
    facts = ModelFacts(unused_inputs=["right"])
    diagnosis = observed(course(2, lambda s: {}, falling(2)), facts)
    assert "right" in found(diagnosis, "structural-mismatch").title


def test_units_that_stay_alike_are_said_unless_they_are_the_output():
    facts = facts_of(ANSWER, parameters=ParameterFacts(100, 100, alike=["net/hidden"]))
    assert alarms(observed(course(2, lambda s: {}, falling(2)), facts)) == ["structural-mismatch"]
    facts = facts_of(ANSWER, parameters=ParameterFacts(100, 100, alike=["net/out"]))
    assert alarms(observed(course(2, lambda s: {}, falling(2)), facts)) == []


@pytest.mark.parametrize(
    ("given", "loss", "expected"),
    [(10, 2.0, "warning"), (10, 0.0, "info"), (900, 2.0, None)],
)
def test_a_step_of_ones_own_may_forget_most_gradients(given, loss, expected):
    losses = [2.0 + 0.01 * (-1) ** s if loss else 2.0 * 0.9**s for s in range(80)]
    facts = ModelFacts(loss=LossFacts(is_of_own_step=True), parameters=ParameterFacts(1000, 1000))
    arrays = {(Kind.GRADIENT, "net/out/bias"): RNG.normal(size=given)}
    diagnosis = ended(course(80, lambda s: arrays, losses), facts)
    known = {str(f.severity) for f in diagnosis.findings if "is given only" in f.title}
    # It is an info until nothing has been learned for long.
    assert known == {"warning": {"info", "warning"}, "info": {"info"}, None: set()}[expected]


def values(step, targets):
    batch = {(Kind.INPUT, "x"): RNG.normal(size=(32, 3)), (Kind.TARGET, "y"): targets}
    return {**batch, (Kind.SCALAR, "constant_loss"): [float(np.var(targets))]}


@pytest.mark.parametrize("are_fixed", [True, False])
def test_targets_that_are_the_same_in_each_step_are_said(are_fixed):
    fixed = RNG.normal(size=32)
    facts = facts_of([("net/out", "Dense", None, 1)], "mean_squared_error", batch_size=32)
    steps = [
        reading(step, values(step, fixed if are_fixed else RNG.normal(size=32)), 0.95)
        for step in range(1, 61)
    ]
    diagnosis = observed(steps, facts)
    assert ("structural-mismatch" in alarms(diagnosis)) is are_fixed


def test_what_is_scaled_by_a_layer_is_judged_behind_it():
    facts = facts_of([("net/scale", "Rescaling", None, 3), ("net/out", "Dense", None, 1)])

    def arrays(step, size):
        return {
            (Kind.INPUT, "x"): 255 * RNG.random((16, 3)),
            (Kind.OUTPUT, "net/scale"): size * RNG.random((16, 3)),
        }

    lost = observed(course(15, lambda s: arrays(s, 1e-6), 2.0), facts)
    assert "input-scale" in alarms(lost)
    assert "input-scale" not in alarms(observed(course(15, lambda s: arrays(s, 1.0), 2.0), facts))


def outputs(first, second):
    """Steps of two outputs with their losses, each beside a guess of 1."""
    parts = {"first": first, "second": second}

    def arrays(step):
        noise = 1.0 + 0.05 * RNG.normal()
        losses = {n: part(step) * noise + 0.01 * RNG.normal() for n, part in parts.items()}
        numbers = {f"output_loss/{name}": x for name, x in losses.items()}
        numbers |= dict.fromkeys((f"constant_loss/{name}" for name in parts), noise)
        numbers |= {"term_loss": sum(losses.values()), "constant_loss": 2.0 * noise}
        return {(Kind.SCALAR, name): [x] for name, x in numbers.items()}

    steps = [arrays(step) for step in range(1, 121)]
    losses = [float(each[Kind.SCALAR, "term_loss"][0]) for each in steps]
    return course(120, lambda s: steps[s - 1], losses)


def test_one_of_two_outputs_that_learns_nothing_is_named():
    facts = ModelFacts(loss=LossFacts(reduction="other", rest="penalties"))
    idle = ended(outputs(lambda s: 0.98**s, lambda s: 1.02), facts)
    assert "second" in found(idle, "learned-nothing").title
    both = ended(outputs(lambda s: 0.98**s, lambda s: 0.99**s), facts)
    assert alarms(both) == []
    neither = ended(outputs(lambda s: 1.01, lambda s: 1.02), facts)
    assert "network" in found(neither, "learned-nothing").title


def test_an_output_whose_loss_counts_for_nothing_is_named():
    def arrays(step):
        numbers = {
            "output_loss/large": 1e6 * 0.97**step, "constant_loss/large": 1e6,
            "output_loss/small": 1.0 + 0.02 * RNG.normal(), "constant_loss/small": 1.0,
        }  # fmt: skip
        total = numbers["output_loss/large"] + numbers["output_loss/small"]
        numbers |= {"constant_loss": 1e6 + 1.0, "term_loss": total}
        return {(Kind.SCALAR, name): [x] for name, x in numbers.items()}

    facts = ModelFacts(loss=LossFacts(reduction="other", rest="penalties"))
    losses = [1e6 * 0.97**step for step in range(1, 121)]
    diagnosis = ended(course(120, arrays, losses), facts)
    assert "counts for 1.0e-06" in found(diagnosis, "learned-nothing").title


@pytest.mark.parametrize(("rest", "is_alarm"), [(1.4, True), (0.7, False)])
def test_if_only_the_most_frequent_class_is_learned_it_is_said(rest, is_alarm):
    def arrays(step):
        numbers = {"rest_share": 0.1, "rest_loss": rest + 0.02 * RNG.normal(), "rest_guess": 1.386}
        return {(Kind.SCALAR, name): [x] for name, x in numbers.items()}

    # The numbers of each step differ, or they would be kept once only.
    def varied(step):
        return {site: [x[0] + 1e-6 * step] for site, x in arrays(step).items()}

    diagnosis = ended(course(160, varied, falling(160)))
    assert alarms(diagnosis) == (["learned-nothing"] if is_alarm else [])
