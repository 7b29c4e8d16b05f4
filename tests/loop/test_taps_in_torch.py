"""Taps in torch, eager and inside of torch.compile, seen by gradwatch.watch."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradwatch
from gradwatch import GradwatchWarning, Kind
from gradwatch.capture.user_taps import STATE, TapCollector
from gradwatch.compat.torch_names import recompile_limit_name
from tests.loop.support import Keep, assert_measured, paths
from tests.loop.tapped import WEIGHTS, X, assert_blocks

STEPS = 4
LIMIT = recompile_limit_name(torch._dynamo.config)
# torch.compile itself gives these, for any torch.autograd.Function and with its inductor.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]


class Blocks(nn.Module):
    """Three blocks of h = tanh(h @ w), whose outputs pass taps."""

    def __init__(self, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.weights = nn.ParameterList([torch.tensor(w) for w in WEIGHTS[:3]])

    def block(self, h, i):
        return gradwatch.tap(torch.tanh(h @ self.weights[i]), f"h/{i}")

    def forward(self, h):
        for i in range(3):
            if self.recompute:
                h = checkpoint(self.block, h, i, use_reentrant=False)
            else:
                h = self.block(h, i)
        return h


PATHS = ["h/0", "h/1", "h/2"]


def trained(run, module, directory=None, steps=STEPS, **options):
    """Train, watched or not; returns what was kept, and the parameters."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    keep = Keep()
    if directory is not None:
        options = {"every": 2, "sinks": [keep], "diagnose": False} | options
        monitor = gradwatch.watch(module, optimizer, directory, **options)
    before = []
    for _ in range(steps):
        optimizer.zero_grad()
        before.append([p.detach().numpy().copy() for p in module.parameters()])
        run(torch.tensor(X)).square().mean().backward()
        optimizer.step()
    if directory is not None:
        monitor.close()
    return keep.readings, [p.detach().clone() for p in module.parameters()], before


def assert_trained_alike(one, other):
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture
def compiled():
    """Compiles in one graph."""
    torch._dynamo.reset()
    config = torch._dynamo.config
    with config.patch({LIMIT: getattr(config, LIMIT)}):
        yield lambda run, backend="aot_eager": torch.compile(run, fullgraph=True, backend=backend)
    torch._dynamo.reset()


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_taps_are_recorded_when_due_and_training_is_the_same(
    tmp_path, compiled, is_compiled, recompute
):
    def run(module):
        return compiled(module) if is_compiled else module

    module = Blocks(recompute)
    bare = Blocks(recompute)
    _, expected, _ = trained(run(bare), bare)
    readings, weights, before = trained(run(module), module, tmp_path)
    assert_trained_alike(weights, expected)
    assert [reading.step for reading in readings] == [1, 2, 4]
    for reading in readings:
        assert_blocks(reading, PATHS, weights=np.stack(before[reading.step - 1]))


def test_the_compiled_module_is_one_graph_and_two_with_and_without_measurements(tmp_path, compiled):
    module = Blocks()
    for is_on in (False, True):
        torch._dynamo.reset()
        with STATE.collecting(TapCollector()) if is_on else nullcontext():
            explained = torch._dynamo.explain(module)(torch.tensor(X))
        assert (explained.graph_count, explained.graph_break_count) == (1, 0)
        assert (explained.op_count > 6) == is_on
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    trained(compiled(module), module, tmp_path, steps=6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


def test_what_a_compiled_tap_returns_can_be_changed_in_place(tmp_path, compiled):
    class InPlace(Blocks):
        def block(self, h, i):
            return torch.relu_(gradwatch.tap(h @ self.weights[i], f"h/{i}"))

    module, bare = InPlace(), InPlace()
    _, expected, _ = trained(compiled(bare), bare)
    readings, weights, _ = trained(compiled(module), module, tmp_path)
    assert_trained_alike(weights, expected)
    assert all(set(paths(reading, Kind.OUTPUT)) == set(PATHS) for reading in readings)


def test_values_of_the_inductor_equal_those_of_eager_code(tmp_path, compiled):
    module, eager = Blocks(), Blocks()
    bare = Blocks()
    readings, weights, _ = trained(compiled(module, "inductor"), module, tmp_path / "a", 2)
    expected, _, _ = trained(eager, eager, tmp_path / "b", 2)
    _, unwatched, _ = trained(compiled(bare, "inductor"), bare, steps=2)
    for a, b in zip(weights, unwatched, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
    for one, other in zip(readings, expected, strict=True):
        assert one.sites == other.sites
        np.testing.assert_allclose(
            one.statistic("l2"), other.statistic("l2"), rtol=1e-6, atol=1e-12
        )


def test_blocks_that_are_compiled_one_by_one_are_told_apart_in_their_order(tmp_path, compiled):
    class Block(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(w))

        def forward(self, h):
            return gradwatch.tap(torch.tanh(h @ self.weight), "h")

    module = nn.Sequential(*[Block(w) for w in WEIGHTS[:3]])
    for block in module:
        block.compile(fullgraph=True, backend="aot_eager")
    readings, _, _ = trained(module, module, tmp_path, 1, every=1, watch=[gradwatch.gradients()])
    assert_blocks(readings[0], ["h", "h@2", "h@3"])


@pytest.mark.parametrize("is_compiled", [False, True])
def test_micro_batches_are_calls_of_their_own(tmp_path, compiled, is_compiled):
    module = Blocks()
    run = compiled(module) if is_compiled else module
    optimizer, keep = torch.optim.SGD(module.parameters(), lr=0.1), Keep()
    monitor = gradwatch.watch(
        module, optimizer, tmp_path, every=1, sinks=[keep], watch=[gradwatch.gradients()]
    )
    for x in (X, -2 * X):
        run(torch.tensor(x)).square().mean().backward()
    optimizer.step()
    monitor.close()
    assert paths(keep.readings[0], Kind.OUTPUT_GRADIENT) == [
        f"{path}{call}" for call in ("", "@2") for path in PATHS
    ]


class Odd(nn.Module):
    """A layer, and a function that uses a tap in a way that cannot be measured."""

    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(WEIGHTS[0]))
        self.function = function

    def forward(self, x):
        return gradwatch.tap(self.function(x @ self.weight), "good")


def mapped(h):
    return torch.func.vmap(lambda row: gradwatch.tap(torch.tanh(row), "bad"))(h)


def evaluated(h):
    with torch.no_grad():
        gradwatch.tap(torch.tanh(h), "bad")
    return h * 1.0


def counted(h):
    return h + gradwatch.tap(h.detach().to(torch.int32), "bad")


def unreached(h):
    return h + gradwatch.tap(h * 1.0, "bad").detach()


def twice(h):
    return gradwatch.tap(gradwatch.tap(h * 2.0, "bad") * 2.0, "bad")


REFUSED = {
    mapped: "'bad' is not recorded: it is inside torch.func.vmap.* Put the tap outside",
    evaluated: "'bad' is not recorded: it was called under torch.no_grad",
    counted: "'bad' is not recorded: taps measure dense tensors of floats",
    unreached: "bad.*loss does not depend on",
    twice: "'bad' is passed more than once in a step.* Give each place a name",
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("function", REFUSED)
def test_bad_use_is_told_and_training_goes_on(tmp_path, compiled, function, is_compiled):
    module, bare = Odd(function), Odd(function)
    run = compiled(module) if is_compiled else module
    with pytest.warns(GradwatchWarning, match=REFUSED[function]):
        readings, weights, _ = trained(run, module, tmp_path, watch=[gradwatch.gradients()])
    _, expected, _ = trained(compiled(bare) if is_compiled else bare, bare)
    assert_trained_alike(weights, expected)
    assert "good" in paths(readings[0], Kind.OUTPUT)


def differentiated(h):
    return h + torch.func.grad(lambda x: gradwatch.tap(torch.tanh(x), "bad").sum())(h).detach()


def test_a_tap_in_a_function_that_torch_transforms_is_told(tmp_path):
    module = nn.Linear(6, 3)
    with pytest.warns(GradwatchWarning, match=r"inside torch.func.vmap or another function of"):
        trained(lambda x: differentiated(module(x)), module, tmp_path)


@pytest.mark.parametrize("watch", [None, [gradwatch.outputs(), gradwatch.output_gradients()]])
def test_a_tap_with_the_name_of_a_layer_has_another_path_at_every_step(tmp_path, watch):
    module = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3))

    def run(x):
        return module[1](gradwatch.tap(torch.tanh(module[0](x)), "0"))

    with pytest.warns(GradwatchWarning, match=r"The tap '0' has the name of a layer.*'0 \(tap\)'"):
        everything, _, before = trained(run, module, tmp_path, watch=watch, diagnose=True)
    # The loss that the diagnosis reads comes by itself.
    readings = [each for each in everything if paths(each, Kind.OUTPUT)]
    assert {2, 4} <= {reading.step for reading in readings}
    for reading in readings:
        assert len(set(reading.sites)) == len(reading.sites)
        w, b = before[reading.step - 1][:2]
        i = reading.sites.index(gradwatch.Site(Kind.OUTPUT, "0 (tap)"))
        truth = np.linalg.norm(np.tanh(X.astype("f8") @ w.T + b))
        np.testing.assert_allclose(reading.statistic("l2")[i], truth, rtol=1e-6)
        assert "0 (tap)" in paths(reading, Kind.OUTPUT_GRADIENT)


def test_inputs_are_recorded_without_a_gradient(tmp_path, compiled):
    module = nn.Linear(6, 1)

    watch = [gradwatch.gradients()]

    def forward(x):
        return module(gradwatch.tap(x, "in"))

    for name, run in {"a": forward, "b": compiled(forward)}.items():
        readings, _, _ = trained(run, module, tmp_path / name, 1, every=1, watch=watch)
        assert_measured(readings[0], Kind.OUTPUT, {"in": X})
        assert paths(readings[0], Kind.OUTPUT_GRADIENT) == []


def test_no_hook_is_left_at_a_parameter_that_passes_a_tap(tmp_path):
    module = nn.Linear(6, 1, bias=False)

    def forward(x):
        hooks.append(len(module.weight._backward_hooks or {}))
        return x @ gradwatch.tap(module.weight, "w").T

    hooks = []
    readings, _, _ = trained(forward, module, tmp_path, every=1, watch=[gradwatch.gradients()])
    assert [len(paths(r, Kind.OUTPUT_GRADIENT)) for r in readings] == [1] * STEPS
    assert hooks == [0] * STEPS
    assert not module.weight._backward_hooks


def test_a_tap_is_the_tensor_itself_where_nothing_is_watched():
    x = torch.ones(3, requires_grad=True)
    assert gradwatch.tap(x, "x") is x
    assert not STATE.is_on


def test_two_optimizers_take_what_passed_before_their_steps(tmp_path):
    modules = {"first": Blocks(), "second": Blocks()}
    keep = Keep()
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=[keep], watch=[gradwatch.gradients()])
    optimizers = {n: torch.optim.SGD(m.parameters(), lr=0.1) for n, m in modules.items()}
    for name, module in modules.items():
        gradwatch.watch(module, optimizers[name], monitor, group=name)
    for name, module in modules.items():
        module(torch.tensor(X)).square().mean().backward()
        optimizers[name].step()
    monitor.close()
    for name, reading in zip(modules, keep.readings, strict=True):
        assert_blocks(reading, [f"{name}/{path}" for path in PATHS])
    assert not STATE.is_on


@pytest.mark.parametrize("every", [2, 4])
def test_compiling_twice_does_not_meet_the_limit_of_torch(tmp_path, compiled, monkeypatch, every):
    setattr(torch._dynamo.config, LIMIT, 2)
    monkeypatch.setattr(STATE, "_may_compile_twice", False)
    module = Blocks()
    run = compiled(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = [gradwatch.gradients(every=every)]
    monitor = gradwatch.watch(module, optimizer, tmp_path, watch=watch, sinks=[Keep()])
    for rows in (4, 3, 2, 4, 3, 2):
        run(torch.tensor(X[:rows])).square().mean().backward()
        optimizer.step()
    monitor.close()


def test_a_loop_without_watch_gives_taps_to_record(make_monitor):
    monitor, keep = make_monitor()
    module = Blocks()

    def step(x):
        loss = module(x).square().mean()
        loss.backward()
        return loss

    loss, taps = gradwatch.with_taps(step)(torch.tensor(X))
    monitor.record(loss=loss, taps=taps, variables=module)
    monitor.close()
    assert_blocks(keep.readings[0], PATHS)
