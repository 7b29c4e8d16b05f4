"""NaN and Inf: the first tensor in the order of execution, at once, and nothing else beside it."""

import numpy as np
import pytest

from gradwatch import Kind, Site

from .support import alarms, course, facts_of, falling, found, observed, reading, trained

G, W, U, OUT = Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE, Kind.OUTPUT
OG = Kind.OUTPUT_GRADIENT
GOOD, BAD = [1.0, 2.0], [np.nan, 2.0]
LAYERS = ["net/a", "net/b", "net/c"]


def step_with(outputs=(), output_gradients=(), gradients=(), updates=(), weights=(), inputs=GOOD):
    """The arrays of a step, good but for the layers that are named."""
    arrays = {(Kind.INPUT, "x"): inputs}
    arrays |= {(OUT, path): BAD if path in outputs else GOOD for path in LAYERS}
    arrays |= {(OG, path): BAD if path in output_gradients else GOOD for path in LAYERS}
    for kind, bad in ((G, gradients), (U, updates), (W, weights)):
        arrays |= {(kind, f"{p}/kernel"): BAD if p in bad else GOOD for p in LAYERS}
    return arrays


def diagnosed(arrays, loss=1.0, facts=None):
    readings = [reading(1, step_with(), 1.0), reading(2, arrays, loss)]
    return observed(readings, facts)


def test_it_is_found_in_its_first_step_and_names_the_first_output():
    arrays = step_with(LAYERS[1:], LAYERS, LAYERS, LAYERS, LAYERS)
    finding = found(diagnosed(arrays, np.nan), "non-finite")
    assert (finding.since, finding.detected, finding.severity) == (2, 2, "error")
    assert finding.layer == "net/b"
    assert finding.sites[0] == Site(OUT, "net/b")
    assert finding.evidence["NaN"] == 1
    assert finding.evidence["elements"] == 2
    assert finding.evidence["last finite step"] == 1
    # Two outputs, the loss, and three each of output gradients, gradients, updates and weights.
    assert finding.evidence["tensors affected"] == 15


def test_the_facts_order_of_execution_goes_before_that_of_the_sites():
    order = [("net/c", "Dense", None, 1), ("net/b", "Dense", None, 1), ("net/a", "Dense", None, 1)]
    arrays = step_with(["net/a", "net/b"], LAYERS, LAYERS)
    assert found(diagnosed(arrays, np.nan, facts_of(order)), "non-finite").layer == "net/b"


def test_a_bad_input_is_named_as_such_with_the_layer_it_goes_into():
    arrays = step_with(LAYERS, LAYERS, LAYERS, inputs=BAD)
    finding = found(diagnosed(arrays, np.nan), "non-finite")
    assert finding.sites[0] == Site(Kind.INPUT, "x")
    assert finding.layer == "net/a"
    assert "data" in finding.remedy


def test_a_loss_that_overflows_by_itself_is_named():
    arrays = step_with((), LAYERS, LAYERS, LAYERS, LAYERS)
    finding = found(diagnosed(arrays, np.inf), "non-finite")
    assert finding.sites[0].kind is Kind.LOSS
    assert finding.layer == ""


def test_in_the_backward_pass_the_layer_whose_derivative_it_is_is_named():
    # b's own gradient is fine; what comes out of b, towards a, is not.
    arrays = step_with((), ["net/a"], ["net/a"], ["net/a"], ["net/a"])
    finding = found(diagnosed(arrays), "non-finite")
    assert finding.sites[0] == Site(OG, "net/a")
    assert finding.layer == "net/b"
    assert "sqrt" in finding.remedy


def test_of_gradients_alone_that_of_the_later_layer_is_computed_first():
    bad = ["net/a", "net/b"]
    arrays = step_with((), (), bad, bad, bad)
    finding = found(diagnosed(arrays), "non-finite")
    assert finding.sites[0] == Site(G, "net/b/kernel")


def test_nothing_else_is_said_once_numbers_are_not_finite():
    nothing = step_with(LAYERS, LAYERS, LAYERS, LAYERS, LAYERS)
    readings = [reading(1, step_with(), 1.0)]
    readings += [reading(s, nothing, np.nan) for s in range(2, 40)]
    diagnosis = observed(readings)
    assert [f.rule for f in diagnosis.findings] == ["non-finite"]
    assert diagnosis.findings[0].detected == 2


def test_a_loss_of_a_step_that_was_not_measured_is_seen_too():
    diagnosis = observed([reading(1, step_with(), 1.0)])
    assert diagnosis.observe_losses([(2, 0.9)]) == []
    [finding] = diagnosis.observe_losses([(3, float("nan"))])
    assert (finding.rule, finding.since) == ("non-finite", 3)


@pytest.mark.parametrize("mask", [[-np.inf, 1.0], GOOD])
def test_minus_infinity_in_a_mask_is_no_alarm(mask):
    arrays = step_with() | {(OUT, "net/b"): mask}
    assert diagnosed(arrays).findings == []


def test_a_mask_that_was_there_before_is_not_the_first_bad_tensor():
    mask = {(OUT, "net/a"): [-np.inf, 1.0]}
    bad = step_with(["net/b", "net/c"], LAYERS, LAYERS, LAYERS, LAYERS)
    readings = [reading(1, step_with() | mask, 1.0), reading(2, bad | mask, np.nan)]
    assert found(observed(readings), "non-finite").sites[0] == Site(OUT, "net/b")


def test_nan_in_an_output_that_the_loss_does_not_see_is_a_warning():
    finding = found(diagnosed(step_with(["net/b"])), "non-finite")
    assert finding.severity == "warning"


def test_a_step_that_loss_scaling_skips_is_no_alarm_but_a_long_row_of_them_is():
    bad = step_with((), LAYERS, LAYERS)
    facts = facts_of([])
    few = [reading(s, bad if s in (2, 3) else step_with(), 1.0) for s in range(1, 10)]
    assert observed(few, facts).findings == []
    many = [reading(s, bad if s > 4 else step_with(), 1.0) for s in range(1, 10)]
    finding = found(observed(many, facts), "non-finite")
    assert (finding.detected, finding.severity) == (7, "warning")


def test_it_is_closed_when_it_has_gone_away():
    readings = course(12, lambda s: step_with(["net/b"] if s == 3 else ()), [1.0] * 12)
    finding = found(observed(readings), "non-finite")
    assert (finding.since, finding.until) == (3, 3)


def test_what_was_first_stays_the_finding_if_it_comes_again():
    bad = {3: ["net/b"], 9: ["net/a"]}
    readings = course(12, lambda s: step_with(bad.get(s, ())), [1.0] * 12)
    finding = found(observed(readings), "non-finite")
    assert (finding.since, finding.title) == (3, "NaN in step 3, first in output net/b.")


def test_a_real_log_of_zero_is_traced_to_its_module(tmp_path):
    torch = pytest.importorskip("torch")

    class Log(torch.nn.Module):
        def forward(self, x):
            return torch.log(x)

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), Log(), torch.nn.Linear(16, 1)
    )
    x = torch.randn(256, 8)
    readings = trained(module, torch.nn.functional.mse_loss, x, x[:, :1], tmp_path, steps=3)
    diagnosis = observed(readings)
    finding = found(diagnosis, "non-finite")
    assert (finding.layer, finding.detected) == ("2", 1)
    assert alarms(diagnosis) == ["non-finite"]


def test_a_real_square_root_at_zero_is_traced_to_its_module(tmp_path):
    torch = pytest.importorskip("torch")

    class Root(torch.nn.Module):
        def forward(self, x):
            return torch.sqrt(torch.clamp(x * 0.0, min=0.0) * x)

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), Root(), torch.nn.Linear(16, 1))
    x = torch.randn(256, 8)
    readings = trained(module, torch.nn.functional.mse_loss, x, x[:, :1], tmp_path, steps=3)
    finding = found(observed(readings), "non-finite")
    assert (finding.layer, finding.detected) == ("1", 1)


def test_a_healthy_course_has_no_finding():
    assert observed(course(60, lambda s: step_with(), falling(60))).findings == []


def test_nan_in_weights_keeps_its_name_while_losses_alone_are_known():
    diagnosis = diagnosed(step_with(LAYERS[1:], weights=LAYERS))
    for step in range(3, 10):
        diagnosis.observe_losses([(step, 1.0)])
    diagnosis.observe(reading(10, step_with(LAYERS, weights=LAYERS), 1.0))
    finding = found(diagnosis, "non-finite")
    assert (finding.title, finding.is_open) == ("NaN in step 2, first in output net/b.", True)


def test_an_infinity_that_is_gone_is_closed():
    def at(step):
        return {(Kind.WEIGHT, "a/kernel"): [np.inf if step == 9 else 1.0]}

    finding = found(observed(course(20, at, 1.0)), "non-finite")
    assert (finding.since, finding.until) == (9, 9)
