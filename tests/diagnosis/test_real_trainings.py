"""Every rule on real, tiny trainings in torch: the sick one is named, its healthy twin is not."""

import math

import numpy as np
import pytest

from gradwatch.core import OptimizerFacts
from gradwatch.diagnosis import ModelFacts

from .support import alarms, facts_of, found, observed, trained

torch = pytest.importorskip("torch")
nn = torch.nn
mse = nn.functional.mse_loss


@pytest.fixture
def data():
    """A smooth function of eight numbers, and its sign as two classes."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((512, 8)).astype("float32")
    y = np.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.5 * x[:, 3:4]
    return torch.tensor(x), torch.tensor(y)


def mlp(activation, depth=2, width=32, seed=0):
    torch.manual_seed(seed)
    layers, inputs = [], 8
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), activation()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def diagnosis_of(module, data, directory, facts=None, loss=mse, **options):
    x, y = data
    return observed(trained(module, loss, x, y, directory, **options), facts)


@pytest.mark.parametrize(
    ("activation", "options"),
    [
        (nn.ReLU, {"optimizer": "Adam", "rate": 1e-2}),
        (nn.Tanh, {"optimizer": "Adam", "rate": 1e-2}),
        (nn.GELU, {"optimizer": "AdamW", "rate": 1e-2}),
        (nn.ReLU, {"optimizer": "SGD", "rate": 0.05}),
        (nn.ReLU, {"optimizer": "Adam", "rate": 1e-2, "batch": 4}),
    ],
)
def test_healthy_trainings_give_no_alarm(activation, options, data, tmp_path):
    diagnosis = diagnosis_of(mlp(activation), data, tmp_path, steps=60, **options)
    assert alarms(diagnosis) == []


def test_a_head_that_starts_at_zero_gives_no_alarm(data, tmp_path):
    module = mlp(nn.ReLU)
    with torch.no_grad():
        module[-1].weight.zero_()
        module[-1].bias.zero_()
    diagnosis = diagnosis_of(module, data, tmp_path, optimizer="Adam", steps=60)
    assert alarms(diagnosis) == []


def test_vanishing_gradients_are_named_with_the_layer_from_which_they_vanish(data, tmp_path):
    diagnosis = diagnosis_of(mlp(nn.Sigmoid, depth=10), data, tmp_path, steps=30)
    finding = found(diagnosis, "vanishing-gradients")
    assert finding.detected <= 10
    assert finding.evidence["ratio"] < 1e-3
    expected = finding.evidence["smallest layer norm"] / finding.evidence["largest layer norm"]
    assert math.isclose(finding.evidence["ratio"], expected, rel_tol=1e-9)
    # Layers 0, 2, ..., 18 are the hidden ones; the upper ones still get something.
    assert 2 <= int(finding.layer) <= 16
    # What is more severe is not explained away.
    assert set(alarms(diagnosis)) == {"vanishing-gradients", "constant-output"}


def test_dead_units_are_counted_and_explain_the_missing_gradients(data, tmp_path):
    module = mlp(nn.ReLU)
    with torch.no_grad():
        module[0].bias.fill_(-50.0)
    diagnosis = diagnosis_of(module, data, tmp_path, steps=20, rate=1e-3)
    finding = found(diagnosis, "dead-units")
    assert finding.layer == "1"
    assert finding.detected == 4
    assert (finding.evidence["dead units"], finding.evidence["units"]) == (32, 32)
    assert finding.severity == "error"
    assert found(diagnosis, "zero-gradients").explained_by == "dead-units"
    assert alarms(diagnosis) == ["dead-units"]


def test_saturated_units_are_named_with_the_first_layer(data, tmp_path):
    module = mlp(nn.Tanh)
    with torch.no_grad():
        module[0].weight.mul_(100.0)
    diagnosis = diagnosis_of(module, data, tmp_path, steps=20, rate=1e-4)
    finding = found(diagnosis, "saturated-activations")
    assert finding.layer == "1"
    assert finding.evidence["saturated share"] > 0.8


def test_a_part_that_is_cut_off_gets_no_gradient_and_is_named(data, tmp_path):
    class Cut(nn.Module):
        def forward(self, x):
            return x.detach()

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), Cut(), nn.Linear(16, 1))
    diagnosis = diagnosis_of(module, data, tmp_path, steps=20)
    finding = found(diagnosis, "zero-gradients")
    assert finding.layer == "0"
    assert finding.detected == 4
    assert finding.evidence["weight matrices without gradient"] == 1
    assert finding.evidence["weight matrices in total"] == 2


def test_a_learning_rate_far_too_high_is_named_within_a_few_steps(data, tmp_path):
    diagnosis = diagnosis_of(mlp(nn.ReLU), data, tmp_path, steps=30, rate=3.0)
    first = min(diagnosis.alarms, key=lambda finding: finding.detected)
    assert first.rule in ("learning-rate-too-high", "exploding-gradients", "non-finite")
    assert first.detected <= 5


@pytest.mark.parametrize(
    ("rate", "rule"), [(1e-7, "stalled-weights"), (3e-5, "learning-rate-too-low")]
)
def test_steps_too_small_to_learn_anything_are_named(rate, rule, data, tmp_path):
    diagnosis = diagnosis_of(mlp(nn.ReLU), data, tmp_path, steps=40, rate=rate)
    assert alarms(diagnosis) == [rule]


def test_an_optimizer_that_is_not_given_the_weights_leaves_them_where_they_are(data, tmp_path):
    class Zero(torch.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                group["lr"] = 0.0
            return super().step(closure)

    torch.optim.Zero = Zero
    try:
        diagnosis = diagnosis_of(mlp(nn.ReLU), data, tmp_path, steps=20, optimizer="Zero")
    finally:
        del torch.optim.Zero
    finding = found(diagnosis, "stalled-weights")
    assert finding.severity == "error"
    assert finding.evidence["largest update ratio"] == 0
    assert finding.evidence["weight matrices"] == 3
    assert finding.evidence["weight matrices in total"] == 3


def test_constant_output_is_named_where_softmax_is_over_one_unit(data, tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softmax(dim=1))
    x, y = data
    diagnosis = diagnosis_of(module, (x, (y > 0).float()), tmp_path, steps=20)
    finding = found(diagnosis, "constant-output")
    assert finding.layer == "3"
    assert finding.evidence["smallest output"] == finding.evidence["largest output"] == 1
    assert alarms(diagnosis) == ["constant-output"]


def test_the_wrong_sign_of_a_loss_is_named(data, tmp_path):
    def negative(output, target):
        return -mse(output, target)

    diagnosis = diagnosis_of(mlp(nn.ReLU), data, tmp_path, steps=60, rate=0.1, loss=negative)
    assert {"negative-loss", "exploding-gradients", "non-finite"} & set(alarms(diagnosis))


def test_signals_that_explode_through_the_layers_are_named(data, tmp_path):
    module = mlp(nn.ReLU, depth=6)
    with torch.no_grad():
        for layer in module:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(10.0)
    x, y = data
    diagnosis = diagnosis_of(module, (x, y), tmp_path, steps=15, rate=1e-12)
    finding = found(diagnosis, "exploding-gradients")
    assert finding.evidence["largest RMS"] > 100
    assert "stalled-weights" not in alarms(diagnosis)


def test_a_unit_of_half_precision_that_loses_its_gradients_is_named(data, tmp_path):
    def tiny(output, target):
        return mse(output, target) * 1e-9

    facts = ModelFacts(precision="mixed_float16", optimizer=OptimizerFacts("sgd"))
    diagnosis = diagnosis_of(mlp(nn.ReLU), data, tmp_path, facts, steps=12, loss=tiny)
    finding = found(diagnosis, "underflow")
    assert finding.evidence["share lost"] == 1
    assert finding.evidence["smallest normal number"] == 2.0**-14
    without_facts = diagnosis_of(mlp(nn.ReLU), data, tmp_path / "2", steps=12, loss=tiny)
    assert "underflow" not in alarms(without_facts)


def test_known_relus_are_asked_and_other_layers_are_not(data, tmp_path):
    class Silent(nn.Module):
        def forward(self, x):
            return x * 0.0

    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), Silent(), nn.Linear(16, 1))
    facts = facts_of(
        [("0", "Linear", None, 16), ("1", "ReLU", None, 16), ("2", "Silent", None, 16),
         ("3", "Linear", None, 1)]
    )  # fmt: skip
    diagnosis = diagnosis_of(module, data, tmp_path, facts, steps=15)
    assert "dead-units" not in [finding.rule for finding in diagnosis.findings]
    # The head's bias alone is left: it answers the same to everything.
    assert alarms(diagnosis) == ["constant-output"]
    assert found(diagnosis, "zero-gradients").explained_by == "constant-output"
