"""torch: `watch`, through the optimizer's own hooks."""

import copy

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch import Kind
from tests.loop.support import Keep, Line, assert_measured, paths

KEYS = ("dense/weight", "dense/bias")


class Net(torch.nn.Module):
    def __init__(self, line):
        super().__init__()
        self.dense = torch.nn.Linear(3, 2)
        with torch.no_grad():
            self.dense.weight.copy_(torch.from_numpy(line.kernel.T))
            self.dense.bias.copy_(torch.from_numpy(line.bias))

    def forward(self, x):
        return self.dense(x)


def values(net):
    return [p.detach().numpy().copy() for p in net.parameters()]


def loss_of(net, x, y):
    return ((net(torch.from_numpy(x)) - torch.from_numpy(y)) ** 2).mean()


def truth(line, net, *batch):
    weight, bias = values(net)
    kernel, bias = line.gradients(weight.T, bias, *batch)
    return dict(zip(KEYS, (kernel.T, bias), strict=True))


def named(arrays):
    return dict(zip(KEYS, arrays, strict=True))


@pytest.fixture
def watch(tmp_path):
    """`watch(module, optimizer, ...)`, and the sink that keeps the readings."""

    def make(module, optimizer, **options):
        keep = Keep()
        options = {"every": 1} | options
        return gradwatch.watch(module, optimizer, tmp_path, sinks=[keep], **options), keep

    return make


def test_each_step_of_the_optimizer_is_recorded(watch):
    line = Line()
    net = Net(line)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    monitor, keep = watch(
        net,
        optimizer,
        watch=[gradwatch.gradients(histogram=True), gradwatch.weights(), gradwatch.updates()],
    )
    expected = []
    for _ in range(3):
        x, y = line.batch()
        before, slopes = values(net), truth(line, net, x, y)
        optimizer.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
        expected.append((slopes, before, values(net), line.loss(before[0].T, before[1], x, y)))
    monitor.close()
    readings = [r for r in keep.readings if not r.losses()]
    losses = [r for r in keep.readings if r.losses()]
    assert [r.step for r in readings] == [r.step for r in losses] == [1, 2, 3]
    for reading, with_loss, (slopes, before, after, loss) in zip(
        readings, losses, expected, strict=True
    ):
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.WEIGHT, named(after))
        changes = [a.astype("f8") - b for a, b in zip(after, before, strict=True)]
        assert_measured(reading, Kind.UPDATE, named(changes))
        assert with_loss.losses()["loss"] == pytest.approx(loss, rel=1e-5)
        gradient = [i for i, s in enumerate(reading.sites) if s.kind is Kind.GRADIENT]
        assert [reading.histogram(i).cells.sum() for i in gradient] == [6, 2]
    assert "after optimizer.step()" in keep.runs[0].meaning[Kind.WEIGHT]


def test_the_gradient_is_the_accumulated_one(watch):
    line = Line()
    net = Net(line)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer, watch=gradwatch.gradients())
    batches = [line.batch() for _ in range(3)]
    parts = [truth(line, net, *batch) for batch in batches]
    for batch in batches:
        (loss_of(net, *batch) / 3).backward()
    optimizer.step()
    monitor.close()
    mean = {key: sum(part[key] for part in parts) / 3 for key in KEYS}
    assert keep.steps == [1]
    assert_measured(keep.readings[0], Kind.GRADIENT, mean)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale", [False, True])
def test_the_scale_of_a_grad_scaler_is_divided_out(watch, fused, unscale):
    line = Line()
    net = Net(line)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    monitor, keep = watch(net, optimizer, watch=gradwatch.gradients())
    x, y = line.batch()
    slopes = truth(line, net, x, y)
    scaler.scale(loss_of(net, x, y)).backward()
    if unscale:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)


def test_a_step_that_the_scaler_skips_is_not_counted(watch):
    net = Net(Line())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    monitor, keep = watch(net, optimizer)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scaler.scale(loss_of(net, *Line().batch()) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    monitor.close()
    assert keep.steps == [1, 2]


def test_with_a_closure_the_gradient_is_that_of_its_last_evaluation(watch):
    line = Line()
    net = Net(line)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    monitor, keep = watch(net, optimizer, watch=gradwatch.gradients())
    batch, seen = line.batch(), []

    def closure():
        optimizer.zero_grad()
        seen.append(truth(line, net, *batch))
        loss = loss_of(net, *batch)
        loss.backward()
        return loss

    optimizer.step(closure)
    monitor.close()
    assert len(seen) > 1
    assert_measured(keep.readings[0], Kind.GRADIENT, seen[-1])


def with_gradients(keep):
    """Readings without those of losses alone."""
    return [x for x in keep.readings if any(site.kind is Kind.GRADIENT for site in x.sites)]


def test_a_compiled_module_keeps_its_names_and_its_single_graph(watch):
    line = Line()
    net = Net(line)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(net, backend=backend, fullgraph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(compiled, optimizer, watch=gradwatch.gradients())
    expected = []
    for _ in range(3):
        x, y = line.batch()
        expected.append(truth(line, net, x, y))
        optimizer.zero_grad()
        loss_of(compiled, x, y).backward()
        optimizer.step()
    monitor.close()
    assert len(graphs) == 1
    for reading, slopes in zip(with_gradients(keep), expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)


def test_training_is_bit_identical_with_and_without(watch):
    def train(watched):
        torch.manual_seed(0)
        line = Line()
        net = torch.nn.Sequential(Net(line), torch.nn.Dropout(0.5))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        watching = [gradwatch.gradients(histogram=True), gradwatch.updates()]
        monitor = watch(net, optimizer, watch=watching)[0] if watched else None
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(net, *line.batch()).backward()
            optimizer.step()
        if monitor is not None:
            monitor.close()
        return [*values(net), torch.rand(3).numpy()]

    for a, b in zip(train(True), train(False), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_due_steps_are_recorded_and_closing_removes_the_hooks(watch):
    net = Net(Line())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer, watch=gradwatch.gradients(every=2))

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            loss_of(net, *Line().batch()).backward()
            optimizer.step()

    steps(5)
    monitor.close()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    steps(5)
    assert [reading.step for reading in with_gradients(keep)] == [2, 4]


def test_two_optimizers_are_groups_of_one_run(watch):
    generator, critic = Net(Line(0)), Net(Line(1))
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.1) for n in (generator, critic)]
    monitor, keep = watch(generator, optimizers[0], group="generator")
    assert gradwatch.watch(critic, optimizers[1], monitor, group="critic") is monitor
    for net, optimizer, times in ((generator, optimizers[0], 1), (critic, optimizers[1], 2)):
        for _ in range(times):
            loss_of(net, *Line().batch()).backward()
            optimizer.step()
    monitor.close()
    assert [(r.group, r.step) for r in keep.readings] == [
        ("generator", 1),
        ("critic", 1),
        ("critic", 2),
    ]
    assert paths(keep.readings[0], Kind.GRADIENT) == [f"generator/{key}" for key in KEYS]


def test_complex_parameters_are_named_as_not_recorded(watch):
    net = torch.nn.Module()
    net.turn = torch.nn.Parameter(torch.ones(2, dtype=torch.cfloat))
    net.scale = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.warns(gradwatch.GradwatchWarning, match="the numbers are complex: turn"):
        monitor, keep = watch(net, optimizer)
    (net.turn.abs() * net.scale).sum().backward()
    optimizer.step()
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == ["scale"]


def test_the_epoch_is_told_with_the_loss(watch):
    net = Net(Line())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer, watch=gradwatch.gradients(every="epoch"))
    for epoch in (1, 2, 3):
        monitor.record(epoch=epoch)
        for _ in range(4):
            loss_of(net, *Line().batch()).backward()
            optimizer.step()
            monitor.record(loss=0.5, epoch=epoch)
    monitor.close()
    assert [(r.epoch, r.step) for r in keep.readings if not r.losses()] == [(1, 1), (2, 5), (3, 9)]
    steps = [((step + 3) // 4, step) for step in range(1, 13)]
    assert [(r.epoch, r.step) for r in keep.readings if r.losses()] == steps
    assert keep.epochs_ended == [1, 2, 3]


def test_probes_look_at_the_values_of_the_step(watch):
    line = Line()
    net = Net(line)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    watching = [gradwatch.spectral_norms(every=1), gradwatch.pictures(of="gradient", every=1)]
    monitor, keep = watch(net, optimizer, watch=watching)
    loss_of(net, *line.batch()).backward()
    optimizer.step()
    monitor.close()
    (reading,) = keep.readings
    truth = np.linalg.norm(values(net)[0].astype("f8"), 2)
    assert reading.numbers(Kind.SPECTRAL_NORM)["dense/weight"] == pytest.approx(truth, rel=1e-3)
    assert {site.path for site in reading.pictures} == set(KEYS)


def test_frozen_parameters_have_no_gradient(watch):
    net = Net(Line())
    net.dense.bias.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    loss_of(net, *Line().batch()).backward()
    optimizer.step()
    monitor.close()
    assert paths(keep.readings[0], Kind.GRADIENT) == ["dense/weight"]
    assert paths(keep.readings[0], Kind.WEIGHT) == list(KEYS)


def test_a_layer_is_selected_by_its_type_index_or_name(watch, tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    for chosen, expected in {
        torch.nn.LayerNorm: ["1/weight", "1/bias"],
        0: ["0/weight", "0/bias"],
        "1/bias": ["1/bias"],
    }.items():
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        monitor, keep = watch(net, optimizer, watch=gradwatch.gradients(chosen))
        loss_of(net, *Line().batch()).backward()
        optimizer.step()
        monitor.close()
        assert paths(keep.readings[0], Kind.GRADIENT) == expected


def test_mistakes_are_heard_of_at_once(tmp_path):
    net = Net(Line())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    other = torch.optim.SGD(copy.deepcopy(net).parameters(), lr=0.1)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module.*str"):
        gradwatch.watch("net", optimizer, tmp_path)
    with pytest.raises(TypeError, match=r"torch optimizer.*list.*Call it for each.*group='b'"):
        gradwatch.watch(net, [optimizer, optimizer], tmp_path)
    with pytest.raises(TypeError, match=r"torch optimizer.*Net"):
        gradwatch.watch(net, net, tmp_path)
    with pytest.raises(ValueError, match=r"holds none of the parameters"):
        gradwatch.watch(net, other, tmp_path)
    with pytest.raises(ValueError, match=r"'denze'.*Closest: dense/weight"):
        gradwatch.watch(net, optimizer, tmp_path, layers="denze")
    monitor = gradwatch.watch(net, optimizer, tmp_path, sinks=[])
    with pytest.raises(ValueError, match="group= of its own"):
        gradwatch.watch(net, optimizer, monitor)
    with pytest.raises(TypeError, match=r"options already.*every"):
        gradwatch.watch(net, optimizer, monitor, group="b", every=3)
    monitor.close()


def test_the_one_call_form_reads_the_gradients_from_the_parameters(make_monitor):
    line = Line()
    net = Net(line)
    monitor, keep = make_monitor()
    x, y = line.batch()
    slopes = truth(line, net, x, y)
    loss = loss_of(net, x, y)
    loss.backward()
    monitor.record(variables=net, loss=loss)
    monitor.record(variables=net.named_parameters())
    monitor.record(variables=list(net.parameters()))
    gradients = {name: p.grad for name, p in net.named_parameters()}
    monitor.record(gradients=gradients, variables=net)
    monitor.close()
    for reading in (keep.readings[0], keep.readings[1], keep.readings[3]):
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.WEIGHT, named(values(net)))
    assert paths(keep.readings[2], Kind.GRADIENT) == ["0", "1"]


def test_gradients_that_are_gone_are_remarked_on(make_monitor):
    net = Net(Line())
    monitor, _ = make_monitor()
    with pytest.warns(gradwatch.GradwatchWarning, match="zero_grad"):
        monitor.record(variables=net)
    monitor.close()


def test_parameters_that_an_optimizer_is_given_later_are_recorded_from_then_on(watch):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    slopes = {}
    for step in range(1, 7):
        if step == 3:  # A layer thaws.
            optimizer.add_param_group({"params": net[0].parameters()})
        if step == 5:  # A head is replaced.
            net[1] = torch.nn.Linear(2, 4)
            optimizer.param_groups[0]["params"] = list(net[1].parameters())
        net.zero_grad()
        net(torch.randn(5, 3)).square().mean().backward()
        slopes[step] = {
            n.replace(".", "/"): p.grad.numpy().copy() for n, p in net.named_parameters()
        }
        optimizer.step()
    monitor.close()
    readings = [reading for reading in keep.readings if paths(reading, Kind.GRADIENT)]
    assert [reading.step for reading in readings] == [1, 2, 3, 4, 5, 6]
    for reading in readings:
        of_late = ("0/weight", "0/bias") if reading.step > 2 else ()
        expected = {n: slopes[reading.step][n] for n in ("1/weight", "1/bias", *of_late)}
        assert_measured(reading, Kind.GRADIENT, expected)
