"""A step of a torch loop that is not finite names its first tensor, though it is not due."""

import gc
import importlib
import inspect
import warnings

import pytest

import gradwatch
from gradwatch.diagnosis import diagnose

torch = pytest.importorskip("torch")

_WARNS = "global hooks" in inspect.getsource(importlib.import_module("torch._dynamo.eval_frame"))
NAN = float("nan")
STEP = 5


class Odd(torch.nn.Module):
    """Does something odd in its call `STEP`."""

    def __init__(self, what=lambda x: x):
        super().__init__()
        self.what = what
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.what(x) if self.calls == STEP else x


def poisoned(parameters, lr):
    """An optimizer that makes a parameter NaN in its step `STEP`."""
    optimizer = torch.optim.SGD(parameters, lr)
    steps = []

    def poison(*_):
        steps.append(None)
        if len(steps) == STEP:
            optimizer.param_groups[0]["params"][2].data.mul_(NAN)

    optimizer.register_step_post_hook(poison)
    return optimizer


def make_net(what=lambda x: x):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), Odd(what)]
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(8, 1))


def train(net, optimizer, monitor=None, steps=8, before=lambda step, x: x, loss_of=lambda x: x):
    torch.manual_seed(1)
    for step in range(1, steps + 1):
        x = before(step, torch.randn(16, 4))
        optimizer.zero_grad()
        loss = (net(x) - 1.0).square().mean()
        loss.backward()
        optimizer.step()
        if monitor is not None:
            monitor.record(loss=loss_of(step, loss) if step == STEP else loss)


def trained(tmp_path, net, optimizer=torch.optim.SGD, **how):
    """The finding about a training none of whose steps is due, live and replayed."""
    stepper = optimizer(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(
        net, stepper, tmp_path, every=1000, sinks=[gradwatch.Store()], diagnose=["non-finite"]
    )
    train(net, stepper, monitor, **{"loss_of": lambda step, loss: loss, **how})
    monitor.close()
    replayed = diagnose(gradwatch.open(tmp_path), rules=["non-finite"]).findings
    assert [f.title for f in replayed] == [f.title for f in monitor.findings]
    return monitor.findings


def with_nan(step, x):
    return x * torch.where(torch.arange(4) == 2, NAN, 1.0) if step == STEP else x


@pytest.mark.parametrize(
    ("what", "first", "layer"),
    [
        (lambda x: x * NAN, "NaN in step 5, first in output 3.", "3"),
        (lambda x: torch.log(x * 0), "Inf in step 5, first in output 3.", "3"),
        (lambda x: torch.sqrt(x * 0), "output_gradient 2, computed by 3.", "3"),
    ],
)
def test_the_layer_that_makes_nan_is_named(tmp_path, what, first, layer):
    (found,) = trained(tmp_path, make_net(what))
    assert found.title.endswith(first)
    assert (found.severity, found.since, found.layer) == ("error", STEP, layer)


def test_clipping_that_spreads_nan_does_not_hide_where_it_began(tmp_path):
    net = make_net(lambda x: torch.sqrt(x * 0))

    def clipping(parameters, lr):
        optimizer, own = torch.optim.SGD(parameters, lr), list(net.parameters())
        optimizer.register_step_pre_hook(
            lambda *_: torch.nn.utils.clip_grad_norm_(own, 1.0) and None
        )
        return optimizer

    (found,) = trained(tmp_path, net, clipping)
    assert found.title.endswith("first in output_gradient 2, computed by 3.")


def test_nan_in_the_data_is_told_from_nan_of_a_layer(tmp_path):
    (found,) = trained(tmp_path, make_net(), before=with_nan)
    assert (found.title, found.layer) == ("NaN in step 5, first in input input.", "0")


def test_a_parameter_that_is_set_to_nan_names_its_layer(tmp_path):
    net = make_net()

    def poison(step, x):
        if step == STEP:
            net[2].weight.data[0, 0] = NAN
        return x

    (found,) = trained(tmp_path, net, before=poison)
    assert (found.title, found.layer) == ("NaN in step 5, first in output 2.", "2")


def test_the_optimizer_that_makes_nan_is_told_from_its_gradients(tmp_path):
    (found,) = trained(tmp_path, make_net(), poisoned)
    assert found.title == "NaN in step 5, first in weight 2/weight."


def test_a_loss_that_is_nan_by_itself_is_told(tmp_path):
    (found,) = trained(tmp_path, make_net(), loss_of=lambda step, loss: loss * NAN)
    assert (found.since, found.layer) == (STEP, "")
    assert "loss" in found.title


def test_inputs_and_layers_of_a_measured_step_are_named_too(tmp_path):
    net = make_net(lambda x: x * NAN)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1, sinks=[gradwatch.Store()])
    train(net, optimizer, monitor, loss_of=lambda step, loss: loss)
    monitor.close()
    assert monitor.findings[0].title == "NaN in step 5, first in output 3."


@pytest.mark.parametrize("what", [lambda x: x, lambda x: x * NAN, lambda x: torch.sqrt(x * 0)])
def test_weights_are_the_same_in_every_bit(tmp_path, what):
    bare, watched = make_net(what), make_net(what)
    train(bare, torch.optim.Adam(bare.parameters(), lr=0.01))
    optimizer = torch.optim.Adam(watched.parameters(), lr=0.01)
    monitor = gradwatch.watch(watched, optimizer, tmp_path, every=1000, sinks=[])
    train(watched, optimizer, monitor, loss_of=lambda step, loss: loss)
    monitor.close()
    for one, other in zip(bare.parameters(), watched.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_steps_that_a_loss_scale_skips_are_ordinary(tmp_path):
    net = make_net(lambda x: x * float("inf"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1000, sinks=[])
    for _ in range(8):
        optimizer.zero_grad()
        loss = net(torch.randn(16, 4)).square().mean()
        loss.backward()
        if all(p.grad.isfinite().all() for p in net.parameters()):
            optimizer.step()
            monitor.record(loss=loss)
    monitor.close()
    assert monitor.findings == []


def test_a_bad_step_that_the_loop_skips_is_named_too(tmp_path):
    net = make_net(lambda x: x * NAN)
    stepper = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, stepper, tmp_path, every=1000, sinks=[gradwatch.Store()])
    for _ in range(8):
        stepper.zero_grad()
        loss = net(torch.randn(16, 4)).square().mean()
        loss.backward()
        if torch.isfinite(loss):
            stepper.step()
        monitor.record(loss=loss)
    monitor.close()
    (found,) = monitor.findings
    assert found.title == "NaN in step 5, first in output 3."
    (replayed,) = diagnose(gradwatch.open(tmp_path)).findings
    assert replayed.title == found.title


def test_losses_recorded_before_the_step_are_of_that_step(tmp_path):
    net = make_net()
    stepper = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, stepper, tmp_path, every=3, sinks=[gradwatch.Store()])
    losses = []
    for _ in range(7):
        for _ in range(2):  # Of the parts of a batch, the last one counts.
            stepper.zero_grad()
            loss = net(torch.randn(16, 4)).square().mean()
            loss.backward()
            monitor.record(loss=loss, metrics={"error": loss.sqrt()})
        losses.append(loss.item())
        stepper.step()
    monitor.close()
    steps, values = gradwatch.open(tmp_path).series("loss", "loss", "value")
    assert list(steps) == list(range(1, 8))
    assert values == pytest.approx(losses)


def test_nan_in_an_evaluation_is_not_training(tmp_path):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1000, sinks=[])
    train(net, optimizer, monitor, loss_of=lambda step, loss: loss)
    with torch.no_grad():
        net(torch.full((2, 4), NAN))
    train(net, optimizer, monitor, loss_of=lambda step, loss: loss)
    monitor.close()
    assert monitor.findings == []


@pytest.fixture
def no_hook_is_left():
    gc.collect()  # Monitors of other tests.
    before = set(torch.nn.modules.module._global_forward_hooks)
    yield
    assert set(torch.nn.modules.module._global_forward_hooks) <= before


@pytest.mark.parametrize(
    "also_others",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(not _WARNS, reason="this torch does not warn")),
    ],
)
def test_torch_compile_warns_of_the_hooks_of_others_only(tmp_path, also_others):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, optimizer, tmp_path, every=1, sinks=[])
    compiled = torch.compile(net, backend="eager")
    register = torch.nn.modules.module.register_module_forward_hook
    others = [register(lambda *given: None)] if also_others else []
    try:
        # What a filter of ours would not reach.
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            compiled(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    finally:
        for each in others:
            each.remove()
        monitor.close()
    assert any("global hooks" in str(each.message) for each in warned) == also_others


@pytest.mark.usefixtures("no_hook_is_left")
def test_modules_get_no_hooks(tmp_path):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    monitor = gradwatch.watch(net, optimizer, tmp_path, sinks=[])
    assert not any(module._forward_hooks for module in net.modules())
    monitor.close()


@pytest.mark.usefixtures("no_hook_is_left")
def test_sums_that_take_too_long_are_left_out_one_by_one(tmp_path, monkeypatch):
    from gradwatch.capture.torch import finite_checks

    monkeypatch.setattr(finite_checks, "FREE_SECONDS", 0.0)
    monkeypatch.setattr(finite_checks, "SHARE", 0.0)
    (found,) = trained(tmp_path, make_net(lambda x: x * NAN))
    assert found.title == "NaN in the loss of step 5; nothing else was measured in it."


@pytest.mark.parametrize(
    ("zeroes", "backwards", "is_found"),
    [("never", 1, True), ("before", 1, False), ("after", 1, False), ("fill", 3, False)],
)
def test_gradients_that_are_never_zeroed_are_found(tmp_path, zeroes, backwards, is_found):
    net = make_net()
    # One that the loss uses itself gets its gradient before those of the layers.
    net.weight_of_loss = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    monitor = gradwatch.watch(
        net, optimizer, tmp_path, every=1, sinks=[], diagnose=["kept-gradients"]
    )
    for _ in range(8):
        if zeroes == "before":
            optimizer.zero_grad()
        for _ in range(backwards):
            loss = net(torch.randn(16, 4)).square().mean() * net.weight_of_loss
            loss.backward()
        optimizer.step()
        if zeroes in ("after", "fill"):
            optimizer.zero_grad(set_to_none=zeroes == "after")
        monitor.record(loss=loss)
    monitor.close()
    assert bool(monitor.findings) is is_found


def test_gradients_that_are_put_in_the_place_of_others_are_not_kept(tmp_path):
    """As in first-order meta-learning: only the weights that were reached matter."""
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    monitor = gradwatch.watch(
        net, optimizer, tmp_path, every=1, sinks=[], diagnose=["kept-gradients"]
    )
    for _ in range(8):
        loss = net(torch.randn(16, 4)).square().mean()
        own = list(net.parameters())
        ways = torch.autograd.grad(loss, own)
        for p, way in zip(own, ways, strict=True):
            p.grad = way
        optimizer.step()
        monitor.record(loss=loss)
    monitor.close()
    assert monitor.findings == []
