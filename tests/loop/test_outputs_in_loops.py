"""Outputs of layers, and gradients with respect to them, in hand-written loops."""

import copy
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradwatch
from gradwatch import GradwatchWarning, Kind, Site
from tests.loop.support import Keep, assert_measured, assert_no_elements, paths

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 4)).astype("f")
KERNEL = rng.normal(size=(4, 3)).astype("f")
BOTH = [gradwatch.outputs(), gradwatch.output_gradients()]


def truth():
    """Of h = X @ KERNEL, a = relu(h) and the loss mean(a**2), in float64."""
    hidden = X.astype("f8") @ KERNEL.astype("f8")
    active = np.maximum(hidden, 0)
    slope = 2 * active / active.size
    return {"net/h": hidden, "net/a": active}, {"net/h": slope * (hidden > 0), "net/a": slope}


def assert_both(reading, outputs, gradients):
    assert_measured(reading, Kind.OUTPUT, outputs)
    assert_measured(reading, Kind.OUTPUT_GRADIENT, gradients)


# Tensors that the loop has, by name.


def in_numpy(monitor):
    outputs, gradients = truth()
    monitor.record(outputs=outputs, output_gradients=gradients)


def in_tensorflow(monitor, **options):
    @tf.function(**options)
    def step(x):
        with tf.GradientTape() as tape:
            h = x @ tf.constant(KERNEL)
            tape.watch(h)
            a = tf.nn.relu(h)
            loss = tf.reduce_mean(a**2)
        outputs = {"net": {"h": h, "a": a}}
        gradients = {"net": tape.gradient(loss, {"h": h, "a": a})}
        return monitor.measure(outputs=outputs, output_gradients=gradients)

    monitor.record(step(tf.constant(X)))


def in_jax(monitor):
    @jax.jit
    def step(x):
        def loss(probes):
            h = x @ KERNEL + probes["net/h"]
            a = jax.nn.relu(h) + probes["net/a"]
            return jnp.mean(a**2), {"net/h": h, "net/a": a}

        zeros = {"net/h": jnp.zeros((5, 3)), "net/a": jnp.zeros((5, 3))}
        gradients, outputs = jax.grad(loss, has_aux=True)(zeros)
        return monitor.measure(outputs=outputs, output_gradients=gradients)

    monitor.record(step(X))


def in_torch(monitor):
    h = (torch.from_numpy(X) @ torch.from_numpy(KERNEL)).requires_grad_()
    a = torch.relu(h)
    a.retain_grad()
    (a**2).mean().backward()
    # torch's own spelling of names.
    monitor.record(
        outputs={"net.h": h, "net.a": a}, output_gradients={"net.h": h.grad, "net.a": a.grad}
    )


@pytest.mark.parametrize(
    "loop",
    [
        in_numpy,
        in_tensorflow,
        lambda monitor: in_tensorflow(monitor, jit_compile=True),
        in_jax,
        in_torch,
    ],
    ids=["numpy", "tf_graph", "tf_xla", "jax", "torch"],
)
def test_tensors_given_by_name_are_recorded(make_monitor, loop):
    watch = [gradwatch.outputs(per_unit=True, histogram=True), gradwatch.output_gradients()]
    monitor, keep = make_monitor(watch=watch)
    loop(monitor)
    monitor.close()
    outputs, gradients = truth()
    reading = keep.readings[0]
    assert_both(reading, outputs, gradients)
    for path, output in outputs.items():
        dead = np.all(output == 0, axis=0)
        at = reading.position[Site(Kind.DEAD_UNIT, path)]
        assert reading.statistic("count")[at] == 3
        assert reading.statistic("sum")[at] == dead.sum()
        histogram = reading.histogram(reading.position[Site(Kind.OUTPUT, path)])
        assert histogram.cells.sum() == output.size
    assert not paths(reading, Kind.SATURATED)


def test_selectors_schedules_and_groups_hold_for_outputs(make_monitor):
    watch = [gradwatch.gradients(), gradwatch.outputs("h", every=2), gradwatch.output_gradients(-1)]
    monitor, keep = make_monitor(watch=watch)
    outputs, gradients = truth()
    for _ in range(2):
        monitor.record(
            gradients={"w": KERNEL},
            variables={"w": KERNEL},
            outputs=outputs,
            output_gradients=gradients,
            group="critic",
        )
    monitor.close()
    first, second = keep.readings
    gradient = ["gradient critic/w", "output_gradient critic/net/a"]
    assert [str(site) for site in first.sites] == gradient
    assert {str(site) for site in second.sites} == {*gradient, "output critic/net/h"}
    assert_measured(second, Kind.OUTPUT, {"critic/net/h": outputs["net/h"]})


def test_dead_channels_of_a_torch_image_are_on_its_second_axis(make_monitor):
    image = torch.ones(2, 3, 4, 5)
    image[:, 1] = 0
    monitor, keep = make_monitor(watch=gradwatch.outputs(per_unit=True))
    monitor.record(outputs={"conv": image})
    monitor.close()
    dead = keep.readings[0].summary[keep.readings[0].position[Site(Kind.DEAD_UNIT, "conv")]]
    assert (int(dead.count), float(dead.sum)) == (3, 1.0)


def test_batches_of_another_size_are_the_same_sites(make_monitor):
    monitor, keep = make_monitor(watch=gradwatch.outputs())
    for size in (5, 3):
        monitor.record(outputs={"h": X[:size]})
    monitor.close()
    assert [float(r.statistic("count")[0]) for r in keep.readings] == [20, 12]
    # One object, by which sinks recognise them.
    assert keep.readings[0].sites is keep.readings[1].sites


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outputs": [X]}, "outputs= takes tensors by name"),
        ({"output_gradients": X}, "output_gradients= takes tensors by name"),
        ({"outputs": {"h": "text"}}, "'h'.* is no tensor"),
        ({"outputs": {"h": None}}, "no tensor for 'h'"),
        ({"outputs": {"h": X}, "output_gradients": {"h": X.T}}, "'h' has the shape"),
        ({"outputs": {"nope": X}}, r"outputs\('h'\) matched none of 1 layers"),
    ],
)
def test_misuse_is_an_error_that_says_what_to_do(make_monitor, arguments, message):
    monitor, _ = make_monitor(watch=gradwatch.outputs("h"))
    with pytest.raises((TypeError, ValueError), match=message):
        monitor.record(**arguments)


def test_a_gradient_that_does_not_exist_has_count_0(make_monitor):
    monitor, keep = make_monitor(watch=gradwatch.output_gradients())
    monitor.record(output_gradients={"h": None, "a": X})
    monitor.close()
    assert_no_elements(keep.readings[0], Kind.OUTPUT_GRADIENT, "h")


def test_outputs_that_nobody_watches_are_remarked_on(make_monitor):
    monitor, _ = make_monitor(diagnose=False)
    with pytest.warns(GradwatchWarning, match=r"Make it with watch=\[gradwatch.outputs"):
        monitor.record(outputs={"h": X})


# Submodules of a torch module.


class Net(nn.Module):
    """Overwrites an output in place, calls a module twice, and has one with several outputs."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True))
        self.shared = nn.Linear(6, 6)
        self.squash = nn.Tanh()
        self.recurrent = nn.GRU(6, 3, batch_first=True)

    def forward(self, x, note=lambda path, tensor: tensor):
        relu = torch.relu if x.dtype is torch.float64 else None
        if relu is None:
            x = self.first(x)
        else:  # Once more, by hand: nothing in place.
            x = note("first", note("first/1", relu(note("first/0", self.first[0](x)))))
        x = note(
            "squash", self.squash(note("shared@2", self.shared(note("shared", self.shared(x)))))
        )
        sequence, state = self.recurrent(x[:, None])
        sequence, state = note("recurrent:0", sequence), note("recurrent:1", state)
        return (sequence[:, 0] ** 2).mean() + state.sum() / 7


def data(seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 4)).astype("f"))


def true_of(net, x):
    """The outputs and gradients by path, from a copy in float64, without gradwatch."""
    net = copy.deepcopy(net).double()
    kept = {}

    def note(path, tensor):
        # A tensor of its own, so that each has its own gradient.
        kept[path] = tensor * 1
        kept[path].retain_grad()
        return kept[path]

    net(x.double(), note).backward()
    outputs = {path: tensor.detach().numpy() for path, tensor in kept.items()}
    return outputs, {path: tensor.grad.numpy() for path, tensor in kept.items()}


def hooks_of(net):
    return [len(module._forward_hooks) for module in net.modules()]


def test_the_outputs_of_a_torch_module_are_the_true_ones(make_monitor):
    torch.manual_seed(0)
    net, x = Net(), data()
    watch = [gradwatch.outputs(per_unit=True), gradwatch.output_gradients()]
    monitor, keep = make_monitor(watch=watch)
    with monitor.outputs_of(net) as seen:
        net(x).backward()
    assert not any(hooks_of(net))
    monitor.record(variables=net, outputs=seen)
    monitor.close()
    reading = keep.readings[0]
    outputs, gradients = true_of(net, x)
    assert_both(reading, outputs, gradients)
    for path, output in outputs.items():
        dead = np.all(output == 0, axis=tuple(range(output.ndim - 1)))
        at = reading.position[Site(Kind.DEAD_UNIT, path)]
        assert reading.statistic("sum")[at] == dead.sum()
    near = np.abs(outputs["squash"]) >= 0.99
    assert paths(reading, Kind.SATURATED) == ["squash", "recurrent:0", "recurrent:1"]
    at = reading.position[Site(Kind.SATURATED, "squash")]
    assert reading.statistic("sum")[at] == near.sum()


def test_the_context_restores_all_when_the_step_fails(make_monitor):
    net = Net()
    monitor, _ = make_monitor(watch=BOTH)
    with pytest.raises(RuntimeError, match=r"size|shape"), monitor.outputs_of(net):
        net(torch.ones(2, 3))
    assert not any(hooks_of(net))


def test_misuse_of_the_context_is_an_error(make_monitor):
    net = Net()
    monitor, _ = make_monitor(watch=BOTH)
    other, _ = make_monitor(watch=BOTH)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        monitor.outputs_of([X])
    with pytest.raises(ValueError, match="has seen nothing"):
        monitor.record(outputs=monitor.outputs_of(net))
    with monitor.outputs_of(net) as seen:
        net(data()).backward()
    with pytest.raises(ValueError, match="another monitor"):
        other.record(outputs=seen)
    with pytest.raises(ValueError, match=r"same group=.*'' and 'critic'"):
        monitor.record(outputs=seen, group="critic")
    with pytest.raises(TypeError, match="Leave output_gradients= out"):
        monitor.record(outputs=seen, output_gradients={"h": X})
    with pytest.raises(TypeError, match="outputs= takes tensors by name"):
        monitor.record(outputs=net)


def test_a_selector_that_matches_no_submodule_is_an_error(make_monitor):
    net = Net()
    monitor, _ = make_monitor(watch=gradwatch.outputs("shard"))
    with monitor.outputs_of(net) as seen:
        net(data()).backward()
    with pytest.raises(ValueError, match="Closest: shared"):
        monitor.record(outputs=seen)


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_checkpointed_is_right_or_refused_by_name(make_monitor, reentrant):
    block = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    x = data().requires_grad_()
    monitor, keep = make_monitor(watch=BOTH)
    with monitor.outputs_of(block) as seen:
        checkpoint(block, x, use_reentrant=reentrant).square().sum().backward()
    if reentrant:
        with pytest.warns(GradwatchWarning) as said:
            monitor.record(outputs=seen)
        assert [str(w.message) for w in said] == [
            "Outputs of 0, 1 are not recorded: they are recomputed in the backward pass "
            "(checkpointing)."
        ]
        return
    monitor.record(outputs=seen)
    monitor.close()
    x64, (linear, _) = x.detach().double(), copy.deepcopy(block).double()
    hidden = linear(x64).detach().numpy()
    squashed = np.tanh(hidden)
    assert_both(
        keep.readings[0],
        {"0": hidden, "1": squashed},
        {"0": 2 * squashed * (1 - squashed**2), "1": 2 * squashed},
    )


# `watch`, by itself.


@pytest.fixture
def watched(tmp_path):
    def make(module, optimizer, **options):
        keep = Keep()
        options = {"every": 1} | options
        return gradwatch.watch(module, optimizer, tmp_path, sinks=[keep], **options), keep

    return make


def test_watch_records_outputs_with_the_steps_that_are_due(watched):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    watch = [
        gradwatch.gradients("shared*"),
        gradwatch.outputs(every=2, histogram=True),
        gradwatch.output_gradients("first", every=2),
    ]
    monitor, keep = watched(net, optimizer, watch=watch)
    expected = []
    for step in range(4):
        x = data(step)
        expected.append(true_of(net, x))
        with torch.no_grad():
            net(data())  # An evaluation, which is no part of the step.
        optimizer.zero_grad()
        net(x).backward()
        optimizer.step()
    monitor.close()
    assert keep.steps == [1, 2, 3, 4]
    assert not any(hooks_of(net))
    for reading in keep.readings:
        assert paths(reading, Kind.GRADIENT) == ["shared/weight", "shared/bias"]
    assert not paths(keep.readings[0], Kind.OUTPUT)
    for step in (1, 3):
        outputs, gradients = expected[step]
        reading = keep.readings[step]
        assert_measured(reading, Kind.OUTPUT, outputs)
        chosen = {p: g for p, g in gradients.items() if p.startswith("first")}
        assert_measured(reading, Kind.OUTPUT_GRADIENT, chosen)
        for path, output in outputs.items():
            histogram = reading.histogram(reading.position[Site(Kind.OUTPUT, path)])
            assert histogram.cells.sum() == output.size


def test_with_a_closure_each_evaluation_is_a_call(watched):
    net = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    monitor, keep = watched(net, optimizer, watch=gradwatch.outputs(every=2))

    def closure():
        optimizer.zero_grad()
        loss = net(data()).square().sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    monitor.close()
    assert keep.steps == [2]
    assert paths(keep.readings[0], Kind.OUTPUT)[:2] == ["0", "0@2"]


def test_copies_and_files_of_a_watched_module_have_nothing_of_ours(watched):
    net = Small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, _ = watched(net, optimizer, watch=gradwatch.outputs())
    file = io.BytesIO()
    torch.save(net, file)
    assert b"gradwatch" not in file.getvalue()
    file.seek(0)
    for other in (copy.deepcopy(net), torch.load(file, weights_only=False)):
        assert torch.equal(other(data()), net(data()))
    monitor.close()
    assert not any(hooks_of(net))


def test_the_gradient_of_an_output_that_is_overwritten_in_place_is_the_true_one(make_monitor):
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 3)), nn.ReLU(inplace=True))
    monitor, keep = make_monitor(watch=gradwatch.output_gradients())
    with monitor.outputs_of(net) as seen:
        net(data()).sum().backward()
    monitor.record(outputs=seen)
    monitor.close()
    hidden = copy.deepcopy(net[0]).double()(data().double()).detach().numpy()
    for path in ("0", "0/0"):
        at = keep.readings[0].position[Site(Kind.OUTPUT_GRADIENT, path)]
        assert keep.readings[0].statistic("sum")[at] == (hidden > 0).sum()


def test_training_is_bit_identical_with_outputs_watched(watched):
    def train(is_watched):
        torch.manual_seed(0)
        net = Net()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        monitor = watched(net, optimizer, watch=BOTH, every=2)[0] if is_watched else None
        for step in range(6):
            optimizer.zero_grad()
            net(data(step)).backward()
            optimizer.step()
        if monitor:
            monitor.close()
        return [p.detach().numpy() for p in net.parameters()]

    for ours, theirs in zip(train(True), train(False), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_fault_of_ours_does_not_reach_the_loop(watched, monkeypatch):
    net = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watched(net, optimizer, watch=[*BOTH, gradwatch.weights()])
    monkeypatch.setattr("gradwatch.capture.torch.torch_layers.pytree.tree_leaves", lambda _: 1 / 0)
    with pytest.warns(GradwatchWarning, match="division by zero"):
        net(data()).sum().backward()
    optimizer.step()
    monitor.close()
    assert keep.steps == [1]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.squash = nn.Linear(4, 2), nn.Tanh()

    def forward(self, x):
        return self.squash(self.dense(x))


def graph_counter():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    return graphs, backend


def test_submodules_that_a_compiled_module_calls_elsewhere_are_refused_by_name(watched):
    net = Small()
    graphs, backend = graph_counter()
    run = torch.compile(net, backend=backend, fullgraph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    watch = [gradwatch.gradients(), gradwatch.outputs("squash")]
    monitor, keep = watched(net, optimizer, watch=watch)

    def train():
        for _ in range(3):
            run(data()).sum().backward()
            optimizer.step()

    with pytest.warns(GradwatchWarning, match=r"Outputs of squash are not .*torch\.compile"):
        train()
    monitor.close()
    assert len(graphs) == 1
    measured = [reading for reading in keep.readings if len(reading.sites) > 1]
    assert [reading.step for reading in measured] == [1, 2, 3]
    assert [str(site) for site in measured[0].sites] == [
        "gradient dense/weight",
        "gradient dense/bias",
    ]


def test_a_compiled_part_of_a_module_is_seen_from_outside(make_monitor):
    graphs, backend = graph_counter()
    part = torch.compile(nn.Sequential(nn.Linear(4, 2), nn.Tanh()), backend=backend)
    net = nn.Sequential(part, nn.Linear(2, 1))
    monitor, keep = make_monitor(watch=gradwatch.outputs("!_orig_mod"))
    with monitor.outputs_of(net) as seen:
        net(data()).sum().backward()
    monitor.record(outputs=seen)
    monitor.close()
    assert len(graphs) == 1
    assert paths(keep.readings[0], Kind.OUTPUT) == ["0", "1"]


class Branches(nn.Module):
    """Holds its parts as Hugging Face's models do: in containers that are never called."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"query": nn.Linear(4, 4), "unused": nn.Linear(4, 4)}) for _ in range(8)
        )
        self.scales = nn.ParameterList([torch.ones(4)])

    def forward(self, x):
        for block in self.blocks:
            x = block["query"](x) * self.scales[0]
        return x


@pytest.mark.parametrize("compiled", [False, True])
def test_layers_that_are_not_seen_for_the_same_reason_share_a_notice(make_monitor, compiled):
    net = Branches()
    called = torch.compile(net, backend=graph_counter()[1]) if compiled else net
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = make_monitor(watch=BOTH)
    said = []
    monitor._reporter.show = said.append
    gradwatch.watch(called, optimizer, monitor)
    for _ in range(2):
        called(data()).sum().backward()
        optimizer.step()
    monitor.close()
    (notice,) = said
    assert notice.startswith("Outputs of blocks/0/unused, blocks/1/unused, ")
    assert " and 3 more are not recorded: " in notice
    seen = {site.path for reading in keep.readings for site in reading.sites}
    assert not seen & {"blocks", "blocks/0", "scales"}
