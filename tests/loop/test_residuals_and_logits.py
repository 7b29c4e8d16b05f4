"""Residual branches against their stream, and logits, of torch modules: NumPy in float64."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import gradwatch
from gradwatch import Kind, Site

nn = torch.nn
SIZE, CLASSES = 8, 4
VITALS = (Kind.RESIDUAL_RATIO, Kind.LOGIT)


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


class Block(nn.Module):
    """A residual branch, added in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.way, self.norm = way, nn.LayerNorm(SIZE)
        self.mlp = nn.Sequential(nn.Linear(SIZE, SIZE), nn.GELU(), nn.Linear(SIZE, SIZE))

    def branch(self, x):
        return self.mlp(self.norm(x)) * (0.5 if self.way == "scaled" else 1.0)

    def forward(self, x):
        if self.way == "checkpointed":
            return torch.utils.checkpoint.checkpoint(
                lambda x: x + self.branch(x), x, use_reentrant=False
            )
        branch = self.branch(x)
        if self.way == "in place":
            branch += x
            return branch
        if self.way == "in place, other way":
            return x.mul(1.0).add_(branch)
        return torch.add(x, branch) if self.way == "function" else branch + x


class Net(nn.Module):
    def __init__(self, way="operator"):
        super().__init__()
        self.inner = nn.Linear(SIZE, SIZE)
        self.blocks = nn.ModuleList([Block(way), Block(way)])
        self.head = nn.Linear(SIZE, CLASSES)

    def forward(self, x):
        x = self.inner(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def truths(model, x):
    """Ratios and logits in float64, by site."""
    model, x = copy.deepcopy(model).double(), x.double()
    found = {}
    with torch.no_grad():
        stream = model.inner(x)
        for i, block in enumerate(model.blocks):
            branch = block.branch(stream)
            ratio = np.linalg.norm(branch.numpy(), axis=-1) / np.linalg.norm(stream, axis=-1)
            found[Site(Kind.RESIDUAL_RATIO, f"blocks/{i}/mlp")] = ratio
            stream = stream + branch
        found[Site(Kind.LOGIT, "head")] = model.head(stream).numpy()
    return found


def losses(way):
    targets = torch.arange(15) % CLASSES
    if way == "log_softmax":
        return lambda y: F.nll_loss(y.log_softmax(-1).flatten(0, 1), targets)
    if way == "sigmoid":
        return lambda y: F.binary_cross_entropy_with_logits(y, torch.ones_like(y))
    return lambda y: 0.5 * nn.CrossEntropyLoss()(y.flatten(0, 1), targets)


def train(directory, model, loss, watch=None, steps=4, shape=(3, 5, SIZE)):
    """Readings, truths by step, weights; of a bare training if nothing is watched."""
    kept, found, monitor = Kept(), {}, None
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if watch is not None:
        monitor = gradwatch.watch(
            model, optimizer, directory, watch=watch, sinks=[kept], diagnose=False
        )
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for step in range(1, steps + 1):
            x = 2 * torch.randn(*shape)
            if isinstance(model, Net):
                found[step] = truths(model, x)
            optimizer.zero_grad()
            loss(model(x)).backward()
            optimizer.step()
    if monitor is not None:
        monitor.close()
    return kept.readings, found, model.state_dict()


def seeded(make, *args):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(*args)


def check(reading, truth):
    assert {site for site in reading.sites if site.kind in VITALS} == set(truth)
    for site, true in truth.items():
        found = reading.summary[reading.position[site]]
        assert found.count == true.size
        for name in ("max", "min", "sum"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(true, name)(), rtol=1e-5, atol=1e-5, err_msg=str(site)
            )


WATCH = (gradwatch.residuals(every=2), gradwatch.logits(every=2, histogram=True))


@pytest.mark.parametrize(
    "way",
    ["operator", "function", "in place", "in place, other way", "scaled", "checkpointed"],
)
def test_ratios_and_logits_are_true_and_training_is_the_same(tmp_path, way):
    own = {name: vars(torch.Tensor).get(name) for name in ("__add__", "__iadd__", "add", "add_")}
    readings, truth, weights = train(tmp_path, seeded(Net, way), losses("cross_entropy"), WATCH)
    assert [reading.step for reading in readings] == [2, 4]
    for reading in readings:
        check(reading, truth[reading.step])
        (row,) = (i for i, s in enumerate(reading.sites) if s == Site(Kind.LOGIT, "head"))
        assert reading.histogram(row).cells.sum() == 3 * 5 * CLASSES
    _, _, bare = train(None, seeded(Net, way), losses("cross_entropy"))
    for name, x in weights.items():
        assert torch.equal(x, bare[name]), name
    assert {name: vars(torch.Tensor).get(name) for name in own} == own


@pytest.mark.parametrize("way", ["log_softmax", "sigmoid"])
def test_logits_of_other_losses_are_true(tmp_path, way):
    readings, truth, _ = train(tmp_path, seeded(Net), losses(way), WATCH)
    for reading in readings:
        check(reading, truth[reading.step])


class NotResidual(nn.Module):
    """Sums that are no residual branches: of projections, of a gate, without weights, of parts."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.gate = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.position = nn.Parameter(torch.zeros(5, SIZE))

    def forward(self, x):
        x = self.a(x) + self.b(x)
        x = x + 0.1 * x**3
        x = x + self.position.expand_as(x)
        gate, new = torch.sigmoid(self.gate(x)), torch.tanh(x)
        x = new + gate * (x - new)
        first, second = x.chunk(2, -1)
        return torch.cat([first + self.a(x)[..., : SIZE // 2].tanh().detach(), second], -1)


def test_other_sums_are_not_taken_for_residual_branches(tmp_path):
    with pytest.warns(gradwatch.GradwatchWarning, match="No residual branch was seen"):
        readings, _, _ = train(
            tmp_path,
            seeded(NotResidual),
            lambda y: y.square().mean(),
            [gradwatch.residuals(every=1)],
        )
    assert not any(site.kind in VITALS for reading in readings for site in reading.sites)


def test_steps_that_are_not_due_have_no_hooks_but_those_of_the_outermost_modules(tmp_path):
    seen = []

    class Looking(Net):
        def forward(self, x):
            hooks = len(self.blocks[0].mlp._forward_hooks)
            seen.append((hooks, "__add__" in vars(torch.Tensor)))
            return super().forward(x)

    add = vars(torch.Tensor).get("__add__")
    train(tmp_path, seeded(Looking), losses("cross_entropy"), WATCH)
    is_own = add is not None
    assert seen == [(0, is_own), (2, True), (0, is_own), (2, True)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_functions_are_put_back_where_a_module_raises(tmp_path, error):
    add, fails = torch.Tensor.__add__, [True]

    class Failing(Net):
        def forward(self, x):
            y = super().forward(x)
            if fails.pop():
                raise error("of the user")
            return y

    model, kept = Failing(), Kept()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = [gradwatch.residuals(every=1)]
    monitor = gradwatch.watch(model, optimizer, tmp_path, watch=watch, sinks=[kept], diagnose=False)
    x = torch.randn(3, 5, SIZE)
    with pytest.raises(error):
        model(x)
    fails.append(False)
    model(x).mean().backward()
    optimizer.step()
    assert torch.Tensor.__add__ is add
    monitor.close()
    (reading,) = kept.readings
    assert [s.path for s in reading.sites if s.kind in VITALS] == ["blocks/0/mlp", "blocks/1/mlp"]


def test_models_of_transformers_have_their_branches_and_logits(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 11, "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 8}
    makes = {
        "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig),
        "bert": (transformers.BertForMaskedLM, transformers.BertConfig),
        "gemma2": (transformers.Gemma2ForCausalLM, transformers.Gemma2Config),
    }
    expected = {
        "llama": ["model/layers/0/self_attn", "model/layers/0/mlp", "lm_head"],
        "bert": [
            "bert/encoder/layer/0/attention/output/dense",
            "bert/encoder/layer/0/output/dense",
            "cls/predictions/decoder",
        ],
        # Which caps its logits itself.
        "gemma2": [
            "model/layers/0/post_attention_layernorm",
            "model/layers/0/post_feedforward_layernorm",
            "logits",
        ],
    }
    tokens = torch.arange(22).reshape(2, 11) * 7 % 11
    for name, (make, config) in makes.items():
        model = seeded(lambda: make(config(num_attention_heads=4, **sizes)))  # noqa: B023
        kept, optimizer = Kept(), torch.optim.SGD(model.parameters(), lr=0.1)
        watch = [gradwatch.residuals(every=1), gradwatch.logits(every=1)]
        options = {"watch": watch, "sinks": [kept], "diagnose": False}
        with gradwatch.watch(model, optimizer, tmp_path / name, **options):
            found = model(input_ids=tokens, labels=tokens)
            found.loss.backward()
            optimizer.step()
        (reading,) = kept.readings
        paths = [site.path for site in reading.sites if site.kind in VITALS]
        assert sorted(paths) == sorted(expected[name]), name
        logits = reading.summary[reading.position[Site(Kind.LOGIT, expected[name][-1])]]
        assert logits.max == found.logits.detach().max().item(), name


def test_a_compiled_module_has_logits_and_a_notice_of_its_branches(tmp_path):
    model, kept = seeded(Net), Kept()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"watch": list(WATCH), "sinks": [kept], "diagnose": False}
    with pytest.warns(
        gradwatch.GradwatchWarning, match=r"Residual branches are not seen.*compiles"
    ):
        monitor = gradwatch.watch(compiled, optimizer, tmp_path, **options)
    with monitor:
        for _ in range(2):
            y = compiled(torch.randn(3, 5, SIZE))
            losses("cross_entropy")(y).backward()
            optimizer.step()
    (reading,) = kept.readings
    assert [str(site) for site in reading.sites if site.kind in VITALS] == ["logit logits"]
    assert reading.summary[reading.position[Site(Kind.LOGIT, "logits")]].max == y.max().item()


def test_a_loss_that_takes_no_softmax_is_named(tmp_path):
    with pytest.warns(gradwatch.GradwatchWarning, match="No logits were seen"):
        train(tmp_path, seeded(Net), lambda y: y.square().mean(), [gradwatch.logits(every=1)])
