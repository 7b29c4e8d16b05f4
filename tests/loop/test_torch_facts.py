"""What the graph of a loss in a torch loop tells the diagnosis."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import gradwatch
from gradwatch import Kind
from gradwatch.capture.torch.layer_graph import read_layers
from gradwatch.capture.torch.loss_graph import read_loss
from gradwatch.capture.torch.softmax_scale import softmax_scale
from gradwatch.capture.torch.variation import variation
from gradwatch.diagnosis import ModelFacts
from tests.distributed.patience import until_written

X = torch.linspace(-1.0, 1.0, 15).reshape(5, 3)
CLASSES = torch.tensor([0, 1, 0, 1, 1])
VALUES = torch.linspace(0.0, 1.0, 5)
SPARSE, CATEGORICAL = "sparse_categorical_crossentropy", "categorical_crossentropy"
SQUARES, BINARY = "mean_squared_error", "binary_crossentropy"


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("loss", "name", "from_logits", "reduction", "activation"),
    [
        (lambda p: F.cross_entropy(p, CLASSES), SPARSE, True, "mean", "linear"),
        (lambda p: nn.CrossEntropyLoss()(p.softmax(1), CLASSES), SPARSE, True, "mean", "softmax"),
        (lambda p: F.nll_loss(p.log_softmax(1), CLASSES), SPARSE, True, "mean", "linear"),
        (lambda p: F.nll_loss(p.softmax(1), CLASSES), "nll_loss", None, "mean", "softmax"),
        (
            lambda p: -p.log_softmax(1).gather(1, CLASSES[:, None]).mean(),
            SPARSE, True, "mean", "linear",
        ),
        (lambda p: F.cross_entropy(p, p.detach().softmax(1)), CATEGORICAL, True, "mean", "linear"),
        (
            lambda p: F.cross_entropy(p, CLASSES, label_smoothing=0.1),
            SPARSE, True, "other", "linear",
        ),
        (lambda p: F.mse_loss(p[:, 0], VALUES), SQUARES, None, "mean", "linear"),
        (lambda p: F.mse_loss(p[:, 0], VALUES) / 1, SQUARES, None, "mean", "linear"),
        (lambda p: F.mse_loss(p[:, 0], VALUES) * 1.0, SQUARES, None, "mean", "linear"),
        (lambda p: F.mse_loss(p[:, 0], VALUES) / 4, SQUARES, None, "other", "linear"),
        (lambda p: ((VALUES - p[:, 0]) ** 2).sum(), SQUARES, None, "sum", "linear"),
        (lambda p: (p[:, 0] - VALUES).abs().mean(), "mean_absolute_error", None, "mean", "linear"),
        (lambda p: F.smooth_l1_loss(p[:, 0].tanh(), VALUES), "smooth_l1", None, "mean", "tanh"),
        (
            lambda p: F.binary_cross_entropy(p[:, 0].sigmoid(), VALUES),
            BINARY, False, "mean", "sigmoid",
        ),
        (
            lambda p: F.binary_cross_entropy_with_logits(p[:, 0].sigmoid(), VALUES),
            BINARY, True, "mean", "sigmoid",
        ),
    ],
)  # fmt: skip
def test_losses_are_recognized_however_they_are_written(
    loss, name, from_logits, reduction, activation
):
    seen = read_loss(loss(net()(X)).grad_fn)
    facts = seen.facts
    assert (facts.name, facts.from_logits, facts.reduction) == (name, from_logits, reduction)
    assert seen.term.activation == activation


@pytest.mark.parametrize(
    "loss",
    [
        lambda p: p.mean(),
        lambda p: F.cross_entropy(p, CLASSES) + F.mse_loss(p[:, 0], VALUES),
        # A policy gradient: its loss may be negative, and need not fall.
        lambda p: -(p.log_softmax(1).gather(1, CLASSES[:, None])[:, 0] * VALUES).mean(),
    ],
)
def test_what_is_no_known_loss_is_left_open(loss):
    assert read_loss(loss(net()(X)).grad_fn).facts.name is None


def test_targets_are_those_that_the_loss_was_given():
    output = net()(X)
    masked = torch.tensor([0, -100, 1, -100, 1])
    assert read_loss(F.cross_entropy(output, masked).grad_fn).term.target().tolist() == [0, 1, 1]
    target = read_loss(F.mse_loss(output[:, 0], VALUES).grad_fn).term.target()
    assert target.tolist() == VALUES.tolist()


@pytest.mark.parametrize("loss", [F.mse_loss, lambda p, y: ((p - y) ** 2).mean()])
def test_broadcasting_is_seen(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shapes = read_loss(loss(net()(X)[:, :1], VALUES).grad_fn).facts.shapes
    assert shapes == ((5, 1), (1, 5))
    assert read_loss(loss(net()(X)[:, 0], VALUES).grad_fn).facts.shapes is None


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Not in the order in which they are called.
        self.out, self.first = nn.Linear(8, 2), nn.Linear(3, 8)

    def forward(self, x):
        return self.out(torch.tanh(self.first(x)))


def _owners(module):
    return {id(p): name.rpartition(".")[0] for name, p in module.named_parameters()}


def test_layers_are_seen_in_the_order_of_execution_with_functional_activations():
    module = Functional()
    term = read_loss(F.cross_entropy(module(X), CLASSES).grad_fn).term
    layers = read_layers(term.output, _owners(module))
    assert layers.order == ("first", "out")
    assert layers.activations == {"first": "tanh"}
    assert (layers.last, layers.is_linear) == ("out", False)


def test_a_network_without_activations_is_linear():
    module = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 2))
    term = read_loss(F.cross_entropy(module(X).sigmoid(), CLASSES).grad_fn).term
    assert read_layers(term.output, _owners(module)).is_linear is True


@pytest.mark.parametrize(
    ("norm", "wanted"),
    [
        (nn.BatchNorm1d(8), (pytest.approx(0.9), True)),
        (nn.BatchNorm1d(8, momentum=1e-6), (pytest.approx(1 - 1e-6), True)),
        (nn.BatchNorm1d(8, momentum=None), (None, True)),
        (nn.BatchNorm1d(8, track_running_stats=False), (None, None)),
        (nn.BatchNorm1d(8).eval(), (None, True)),
    ],
)
def test_how_much_of_its_statistics_a_normalization_keeps(tmp_path, norm, wanted):
    run = _trained(nn.Sequential(nn.Linear(3, 8), norm, nn.Linear(8, 2)), tmp_path)
    layer = ModelFacts.from_json(run.facts["model"]).layer("1")
    assert (layer.momentum, layer.is_fresh) == wanted


@pytest.mark.parametrize("shift", [0, 1])
def test_targets_that_are_the_inputs_are_found(tmp_path, shift):
    ids = torch.randint(0, 7, (8, 9), generator=torch.Generator().manual_seed(1))
    module = nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 7))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, sinks=[gradwatch.Store()])
    given, targets = (ids, ids) if shift == 0 else (ids[:, :-1], ids[:, 1:])
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(given).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    monitor.close()
    run = gradwatch.open(tmp_path)
    share = run.series("scalar", "copied_classes", "value")[1]
    np.testing.assert_allclose(share, (given == targets).double().mean(), rtol=1e-6)
    titles = [f.title for f in monitor.findings if f.rule == "structural-mismatch"]
    assert titles == (
        ["The targets are the inputs: each answer is the input in its place."] * (1 - shift)
    )


@pytest.mark.parametrize(("shift", "is_alarm"), [(0, True), (1, False)])
def test_a_decoder_that_is_told_what_it_is_to_say_is_found(tmp_path, shift, is_alarm):
    """Its parts are called one by one; what the encoder is given may be the targets."""
    ids = torch.randint(0, 7, (8, 9), generator=torch.Generator().manual_seed(1))
    parts = {"embed": nn.Embedding(8, 6), "cell": nn.GRU(6, 5, batch_first=True)}
    module = nn.ModuleDict({**parts, "out": nn.Linear(5, 7)})
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, sinks=[gradwatch.Store()])
    told = torch.cat([torch.full((8, shift), 7), ids[:, : 9 - shift]], 1)
    for _ in range(6):
        optimizer.zero_grad()
        state = module["cell"](module["embed"](ids))[1]
        answers = module["out"](module["cell"](module["embed"](told), state)[0])
        loss = F.cross_entropy(answers.transpose(1, 2), ids)
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    monitor.close()
    share = gradwatch.open(tmp_path).series("scalar", "copied_classes", "value")[1]
    np.testing.assert_allclose(share, (told == ids).double().mean(), rtol=1e-6)
    titles = [f.title for f in monitor.findings if f.rule == "structural-mismatch"]
    assert any("The targets are the inputs" in title for title in titles) == is_alarm


def test_a_head_whose_body_has_no_graph_is_no_linear_network(tmp_path):
    module = Functional()
    module.forward = lambda x: module.out(module.first(x).detach())
    run = _trained(module, tmp_path)
    assert ModelFacts.from_json(run.facts["model"]).is_linear is None


def _trained(module, directory, steps=4, **options):
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.1)
    monitor = gradwatch.watch(module, optimizer, directory, every=1, sinks=None, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(X), CLASSES)
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    until_written(monitor)
    monitor.close()
    return gradwatch.open(directory)


def test_a_watched_loop_records_facts_and_batches(tmp_path):
    original, module = torch.autograd.backward, Functional()
    run = _trained(module, tmp_path)
    facts = ModelFacts.from_json(run.facts["model"])
    assert facts.loss.name == SPARSE
    assert [layer.path for layer in facts.layers] == ["first", "out"]
    assert facts.last_layer.units == 2
    assert (facts.optimizer.name, facts.optimizer.weight_decay) == ("adamw", 0.1)
    assert facts.parameters.trainable == facts.parameters.total == 50
    _, means = run.series(Kind.TARGET, "target", "mean")
    np.testing.assert_allclose(means, [0.6] * 4)
    paths = {s.path for s in run.sites() if s.kind in (Kind.INPUT, Kind.OUTPUT)}
    assert paths == {"input", "first", "out"}
    assert torch.autograd.backward is original
    assert not module._forward_hooks


def test_watching_losses_changes_no_weight(tmp_path):
    torch.manual_seed(1)
    first, second = Functional(), Functional()
    second.load_state_dict(first.state_dict())
    _trained(first, tmp_path / "a")
    _trained(second, tmp_path / "b", diagnose=False)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_each_of_several_optimizers_has_facts_of_its_own(tmp_path):
    nets = {"one": nn.Linear(3, 2), "two": nn.Linear(3, 1)}
    losses = {
        "one": lambda p: F.cross_entropy(p, CLASSES),
        "two": lambda p: F.mse_loss(p[:, 0], VALUES),
    }
    monitor = gradwatch.Monitor(tmp_path, every=1, sinks=None)
    optimizers = {}
    for name, module in nets.items():
        optimizers[name] = torch.optim.SGD(module.parameters(), lr=0.1)
        gradwatch.watch(module, optimizers[name], monitor, group=name)
    for _ in range(3):
        for name, module in nets.items():
            optimizers[name].zero_grad()
            losses[name](module(X)).backward()
            optimizers[name].step()
    until_written(monitor)
    monitor.close()
    facts = ModelFacts.from_json(gradwatch.open(tmp_path).facts["model"])
    assert {name: each.loss.name for name, each in facts.groups.items()} == {
        "one": SPARSE,
        "two": SQUARES,
    }


class Hiding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Linear(3, 3)]
        self.body, self.out = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.body(self.hidden[0](x)).relu())


@pytest.mark.parametrize(
    ("held", "others", "unheld"),
    [(("out", "body"), (), ()), (("body",), (), ("out",)), (("body",), ("out",), ())],
)
def test_parameters_that_no_optimizer_changes_are_facts(tmp_path, held, others, unheld):
    torch.manual_seed(0)  # With 1 of 25 others, all units are dead, and nothing gets a gradient.
    module = Hiding()
    optimizer = torch.optim.SGD([p for n in held for p in getattr(module, n).parameters()], lr=0.1)
    more = [p for n in others for p in getattr(module, n).parameters()]
    # Another one, which is not watched.
    unwatched = torch.optim.SGD(more, lr=0.1) if more else None
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, sinks=None)
    for _ in range(6):
        module.zero_grad()
        loss = F.cross_entropy(module(X), CLASSES)
        loss.backward()
        if unwatched is not None:
            unwatched.step()
        optimizer.step()
        monitor.record(loss=loss)
    until_written(monitor)
    monitor.close()
    facts = ModelFacts.from_json(gradwatch.open(tmp_path).facts["model"])
    assert facts.parameters.unregistered == ("hidden/0",)
    assert facts.parameters.unheld == unheld
    assert any("parameters of hidden/0: they are not" in found.title for found in monitor.findings)


@pytest.mark.parametrize(
    ("loss", "scale"),
    [
        (lambda p: F.cross_entropy(p / 50.0, CLASSES), 0.02),
        (lambda p: F.cross_entropy((p / 50.0).masked_fill(p > 9.0, -1e9), CLASSES), 0.02),
        (lambda p: F.kl_div((p * 3.0).log_softmax(1), p.detach().softmax(1)), 3.0),
        (lambda p: F.cross_entropy(p, CLASSES) / 50.0, None),
        (lambda p: F.mse_loss(p[:, 0] / 50.0, VALUES), None),
    ],
)
def test_the_factor_before_a_softmax_is_seen(loss, scale):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # About kl_div's reduction.
        found = softmax_scale(loss(net()(X)).grad_fn)
    assert found == (None if scale is None else pytest.approx(scale))


def test_variation_is_that_between_samples():
    few, many = torch.tensor([[3.0], [5.0], [3.0], [5.0]]), torch.randn(6, 9)
    np.testing.assert_allclose(variation(few), np.sqrt(1.0 / 17.0), rtol=1e-6)
    unit = (many / many.norm(dim=1, keepdim=True)).double().numpy()
    expected = np.sqrt(((unit - unit.mean(0)) ** 2).mean() / (unit**2).mean())
    np.testing.assert_allclose(variation(many), expected, rtol=1e-5)
    assert variation(torch.ones(5, 3)) == 0.0
    assert variation(torch.ones(2, 3)) is None


@pytest.mark.parametrize(
    ("labels", "is_one"),
    [((1.0, 0.0), True), ((0.9, 0.1), True), ((1.0,), True), ((0.0,), None), ((1.0, 1.0), None)],
)
def test_the_loss_of_a_discriminator_need_not_fall(labels, is_one):
    p = net()(X)[:, 0]
    losses = [F.binary_cross_entropy_with_logits(p, torch.full_like(p, x)) for x in labels]
    assert read_loss(sum(losses).grad_fn).facts.is_of_own_step is is_one
    mixed = F.binary_cross_entropy_with_logits(p, CLASSES.float())
    assert read_loss(mixed.grad_fn).facts.is_of_own_step is None


def test_a_discriminator_is_known_as_the_judge_of_a_generator(tmp_path):
    make, judge = nn.Linear(3, 2), nn.Linear(2, 1)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (make, judge)]
    monitor = gradwatch.watch(make, optimizers[0], tmp_path / "run", group="make")
    gradwatch.watch(judge, optimizers[1], monitor, group="judge")
    for _ in range(2):
        for loss, optimizer in (
            (lambda: judge(make(X).detach()).mean(), optimizers[1]),
            (lambda: -judge(make(X)).mean(), optimizers[0]),
        ):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
    monitor.close()
    facts = ModelFacts.from_json(gradwatch.open(tmp_path / "run").facts["model"])
    made, judged = facts.groups["make"].loss, facts.groups["judge"].loss
    assert (made.through, made.is_through_others, made.judges) == (("judge",), True, ())
    assert (judged.through, judged.is_through_others, judged.judges) == ((), False, ("make",))


class Silent(nn.Module):
    """Its activations are no modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(4, 6), nn.Linear(6, 2)
        nn.init.constant_(self.a.bias[:3], -100.0)
        nn.init.constant_(self.b.bias[:3], 100.0)

    def forward(self, x):
        return self.c(torch.tanh(self.b(F.relu(self.a(x)))))


def test_units_behind_functional_activations_are_dead_or_saturated(tmp_path):
    torch.manual_seed(0)
    run = _trained(Silent(), tmp_path)

    def last(kind, path):
        return run.series(kind, path, "mean")[1][-1]

    assert last(Kind.DEAD_UNIT, "a") >= 0.75
    assert last(Kind.DEAD_UNIT, "b") == last(Kind.DEAD_UNIT, "c") == 0.0
    assert last(Kind.SATURATED, "b") >= 0.5
    assert [s.path for s in run.sites() if s.kind is Kind.SATURATED] == ["b"]
