"""Outputs of the submodules of compiled torch modules, without edits of their code."""

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn

import gradwatch
from gradwatch import GradwatchWarning, Kind
from gradwatch.capture.user_taps import STATE
from gradwatch.compat.torch_names import recompile_limit_name
from tests.loop.support import Keep, paths

STEPS = 4
LIMIT = recompile_limit_name(torch._dynamo.config)
BOTH = [gradwatch.outputs(), gradwatch.output_gradients()]
X = np.random.default_rng(0).normal(size=(5, 4)).astype("f")
# torch.compile itself gives these, for any torch.autograd.Function and with its inductor.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.act = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x):
        z = self.linear(x)
        return {"h": self.act(z), "sum": z.sum(-1)}


class Net(nn.Module):
    """A module that is called twice, one that returns two tensors, and one that works in place."""

    def __init__(self):
        super().__init__()
        self.branch, self.shared = Branch(), nn.Linear(4, 4)
        self.relu, self.last = nn.ReLU(inplace=True), nn.Linear(4, 1)

    def forward(self, x):
        found = self.branch(x)
        h = self.relu(self.shared(self.shared(found["h"])))
        return self.last(h) + found["sum"][:, None]


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return Net().to(dtype)


def trained(module, directory=None, steps=STEPS, **options):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    keep = Keep()
    if directory is not None:
        options = {"every": 2, "watch": BOTH, "sinks": [keep], "diagnose": False} | options
        monitor = gradwatch.watch(module, optimizer, directory, **options)
    x = torch.tensor(X, dtype=next(module.parameters()).dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()
    if directory is not None:
        monitor.close()
    return keep.readings, [p.detach().clone() for p in module.parameters()]


@pytest.fixture
def compiled():
    """Compiles in one graph, as torch.compile(module) or in place."""
    torch._dynamo.reset()

    def compile_module(module, backend="aot_eager", in_place=False):
        if in_place:
            module.compile(fullgraph=True, backend=backend)
            return module
        return torch.compile(module, fullgraph=True, backend=backend)

    config = torch._dynamo.config
    with config.patch({LIMIT: getattr(config, LIMIT)}):
        yield compile_module
    torch._dynamo.reset()


def assert_alike(readings, truths, unseen=()):
    assert [r.step for r in readings] == [r.step for r in truths]
    for reading, truth in zip(readings, truths, strict=True):
        for kind in (Kind.OUTPUT, Kind.OUTPUT_GRADIENT):
            expected = [path for path in paths(truth, kind) if path not in unseen]
            assert paths(reading, kind) == expected
        for name in ("l2", "mean", "min", "max"):
            known = dict(zip(truth.sites, truth.statistic(name), strict=True))
            found = reading.statistic(name)
            np.testing.assert_allclose(
                found, [known[site] for site in reading.sites], rtol=1e-6, atol=1e-7
            )


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.filterwarnings("ignore:Outputs of relu are not recorded")
def test_outputs_are_those_of_eager_code_in_float64(tmp_path, compiled, in_place):
    truths, _ = trained(net(torch.float64), tmp_path / "eager")
    readings, _ = trained(compiled(net(), in_place=in_place), tmp_path / "a")
    assert paths(readings[0], Kind.OUTPUT) == [
        "branch:0", "branch:1", "branch/linear", "branch/act", "shared", "shared@2", "last",
    ]  # fmt: skip
    assert_alike(readings, truths, unseen=["relu"])


def test_one_graph_without_taps_and_one_with_them_and_weights_are_the_same(tmp_path, compiled):
    _, expected = trained(compiled(net()), steps=20)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module = net()
    with pytest.warns(GradwatchWarning, match="relu are not recorded.* no new tensors"):
        _, weights = trained(compiled(module), tmp_path, steps=20)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
    assert not torch._dynamo.utils.counters["graph_break"]
    assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    assert not any(m._forward_hooks for m in module.modules())
    assert not STATE.are_owners_on


def operations(module):
    torch._dynamo.reset()
    explained = torch._dynamo.explain(module)(torch.tensor(X))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)
    return explained.op_count


def test_the_graph_of_steps_that_are_not_due_has_no_operation_more(tmp_path, compiled):
    bare, module = operations(net()), net()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    run = compiled(module)
    monitor = gradwatch.watch(run, optimizer, tmp_path, every=2, watch=BOTH, sinks=[Keep()])
    for is_due in (False, True, False):
        assert STATE.are_owners_on == is_due
        count = operations(module)
        assert count > bare if is_due else count == bare
        optimizer.step()
    monitor.close()


def test_a_module_that_was_called_before_is_told_and_trains_on(tmp_path, compiled):
    module = compiled(net())
    module(torch.tensor(X)).sum().backward()
    watch = [gradwatch.gradients(), gradwatch.outputs("branch/*")]
    with pytest.warns(GradwatchWarning, match=r"branch/act are not recorded.* before the first"):
        readings, _ = trained(module, tmp_path, watch=watch)
    assert paths(readings[0], Kind.OUTPUT) == []
    assert paths(readings[0], Kind.GRADIENT) != []


@pytest.mark.filterwarnings("ignore:Outputs of relu are not recorded")
def test_another_module_of_the_class_is_not_taken_for_the_watched_one(tmp_path, compiled):
    module, twin = compiled(net()), compiled(net())
    optimizer, keep = torch.optim.SGD(module.parameters(), lr=0.1), Keep()
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, watch=BOTH, sinks=[keep])
    x = torch.tensor(X)
    (module(x).square().mean() + twin(2 * x).square().mean()).backward()
    optimizer.step()
    monitor.close()
    truths, _ = trained(net(torch.float64), tmp_path / "eager", 1, every=1)
    assert len(truths) == 1
    assert_alike(keep.readings, truths, unseen=["relu"])


@pytest.mark.filterwarnings("ignore:Outputs of relu are not recorded")
def test_a_module_that_is_watched_again_is_recorded_again(tmp_path, compiled):
    module = compiled(net())
    first, _ = trained(module, tmp_path / "a", 1, every=1)
    again, _ = trained(module, tmp_path / "b", 1, every=1)
    assert again[0].sites == first[0].sites
    assert not np.array_equal(again[0].statistic("l2"), first[0].statistic("l2"))


class InPlace(nn.Module):
    """Changes what its submodules were given and have returned."""

    def __init__(self):
        super().__init__()
        self.linear, self.same, self.flat = nn.Linear(4, 4), nn.Identity(), nn.Flatten()
        self.relu, self.register = nn.ReLU(inplace=True), nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(5, 4))
        self.held = Held(self)

    def forward(self, x):
        h = self.linear(x)
        self.same(h).mul_(2)
        self.flat(h).add_(1)
        self.held().add_(x)
        self.relu(h)
        self.register(h).add_(self.state)
        return h.sin() + self.register(self.state)


class Held(nn.Module):
    def __init__(self, owner):
        super().__init__()
        self._owner = [owner]

    def forward(self):
        return self._owner[0].state


@pytest.mark.filterwarnings("ignore:Outputs of .* are not recorded")
@pytest.mark.filterwarnings("ignore:The backward pass does not reach")
def test_what_is_changed_in_place_stays_what_it_is(tmp_path, compiled):
    results = []
    for directory in (None, tmp_path):
        torch._dynamo.reset()
        torch.manual_seed(1)
        module = InPlace()
        _, weights = trained(compiled(module), directory)
        results.append([*weights, module.state])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_many_modules_of_a_class_do_not_meet_the_limit_of_torch(tmp_path, compiled):
    setattr(torch._dynamo.config, LIMIT, 4)
    for i in range(5):
        torch.manual_seed(i)
        module = compiled(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
        readings, _ = trained(module, tmp_path / str(i), 2, every=1)
        assert len(readings) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Outputs of relu are not recorded")
def test_values_of_the_inductor_equal_those_of_eager_code(tmp_path, compiled):
    truths, _ = trained(net(torch.float64), tmp_path / "eager")
    _, expected = trained(compiled(net(), "inductor"))
    torch._dynamo.reset()
    readings, weights = trained(compiled(net(), "inductor"), tmp_path / "a")
    assert_alike(readings, truths, unseen=["relu"])
    for a, b in zip(weights, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)
