"""`gradwatch.attention` of torch modules: scores of sampled queries against NumPy in float64."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import gradwatch
from gradwatch import Kind, Site
from tests.attention_truth import attention_truth

nn = torch.nn
LENGTH, SIZE = 20, 8
KINDS = (Kind.ATTENTION_LOGIT, Kind.ATTENTION_ENTROPY)


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


class FusedAttention(nn.Module):
    """Two groups of heads, as in Llama, with a scale of its own."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.out = nn.Linear(SIZE, 16), nn.Linear(SIZE, 8), nn.Linear(16, SIZE)

    def projected(self, x):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, 4, 4).transpose(1, 2)
        return q, self.k(x).view(batch, length, 2, 4).transpose(1, 2)

    def forward(self, x):
        q, k = self.projected(x)
        options = {"is_causal": True, "scale": 0.3, "enable_gqa": True}
        y = F.scaled_dot_product_attention(q, k, k, **options)
        return self.out(y.transpose(1, 2).flatten(2))

    def scores(self, x):
        q, k = self.projected(x)
        return 0.3 * q @ k.repeat_interleave(2, 1).transpose(-1, -2)


class WrittenAttention(nn.Module):
    """Scores, mask and softmax written out."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def scores(self, x):
        return self.q(x) @ self.k(x).transpose(-1, -2)

    def forward(self, x):
        scores = self.scores(x).masked_fill(~CAUSAL, -torch.inf)
        return scores.softmax(dim=-1) @ x


CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
BIAS = torch.linspace(-2, 2, LENGTH)[None, :].repeat(LENGTH, 1)


class Model(nn.Module):
    """Attention in four ways: torch's own with and without weights, fused, written out."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(SIZE, 2, 16, dropout=0.1, batch_first=True)
        self.own = nn.MultiheadAttention(SIZE, 2, batch_first=True)
        self.fused = FusedAttention()
        self.written = WrittenAttention()
        self.head = nn.Linear(SIZE, 1)

    def forward(self, x):
        y = self.encoder(x, src_mask=BIAS)
        y = y + self.own(x, x, x, attn_mask=~CAUSAL)[0]
        # One softmax that is no attention, outside of such a module.
        return self.head(F.softmax(y + self.fused(x) + self.written(x), dim=-1))


def projections(attention, x):
    """Queries and keys of `nn.MultiheadAttention`, of (batch, heads, length, size)."""
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    q, k, _ = (x @ weight.T + bias).chunk(3, -1)
    return (p.unflatten(-1, (2, SIZE // 2)).transpose(1, 2) for p in (q, k))


def truths(model, x):
    """By path, largest scores and entropies of the sampled queries."""
    model, x = copy.deepcopy(model).double(), x.double()
    scores = {}
    with torch.no_grad():
        for path, module in (("encoder/self_attn", model.encoder.self_attn), ("own", model.own)):
            q, k = projections(module, x)
            scores[path] = q @ k.transpose(-1, -2) / np.sqrt(SIZE // 2)
        scores["encoder/self_attn"] += BIAS
        scores |= {"fused": model.fused.scores(x), "written": model.written.scores(x)}
    causal = CAUSAL.numpy()
    masks = {"encoder/self_attn": None, "own": causal, "fused": causal, "written": causal}
    return {path: attention_truth(s.numpy(), masks[path]) for path, s in scores.items()}


def train(directory, watch, steps=4):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        kept, found, monitor = Kept(), {}, None
        if watch:
            monitor = gradwatch.watch(
                model, optimizer, directory, watch=watch, sinks=[kept], diagnose=False
            )
        for step in range(1, steps + 1):
            x = 2 * torch.randn(3, LENGTH, SIZE)
            found[step] = truths(model, x)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        if monitor is not None:
            monitor.close()
        return kept.readings, found, model.state_dict()


def check(reading, truth):
    sites = {Site(kind, path) for kind in KINDS for path in truth}
    assert {site for site in reading.sites if site.kind in KINDS} == sites
    for path, both in truth.items():
        for kind, true in zip(KINDS, both, strict=True):
            found = reading.summary[reading.position[Site(kind, path)]]
            assert found.count == true.size
            for name, value in (("max", true.max()), ("min", true.min()), ("sum", true.sum())):
                shown = getattr(found, name)
                np.testing.assert_allclose(shown, value, rtol=1e-5, atol=1e-5, err_msg=path)


def test_scores_and_entropies_are_true_and_training_is_the_same(tmp_path):
    functions = F.softmax, F.scaled_dot_product_attention, torch.softmax
    readings, truth, weights = train(tmp_path, gradwatch.attention(every=2))
    assert [reading.step for reading in readings] == [2, 4]
    for reading in readings:
        check(reading, truth[reading.step])
    _, _, bare = train(tmp_path, None)
    for name, own in weights.items():
        assert torch.equal(own, bare[name]), name
    assert (F.softmax, F.scaled_dot_product_attention, torch.softmax) == functions
    assert "softmax" not in vars(torch.Tensor)


def test_nothing_is_replaced_in_steps_that_are_not_due_nor_outside_of_the_modules(tmp_path):
    softmax, seen = F.softmax, []

    class Attention(WrittenAttention):
        def forward(self, x):
            seen.append(F.softmax is not softmax)
            return super().forward(x)

    module = nn.Sequential(Attention(), nn.Linear(SIZE, 1))
    outside = []
    module[1].register_forward_hook(lambda *_: outside.append(F.softmax is not softmax))
    optimizer, monitor, _ = watched(module, tmp_path, every=2)
    with monitor:
        for _ in range(4):
            module(torch.randn(2, LENGTH, SIZE)).mean().backward()
            optimizer.step()
    assert seen == [False, True, False, True]
    assert outside == [False] * 4


class Wrapped(nn.Module):
    """A module of attention, `inner`, in another one."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        outputs = self.inner(*args, **kwargs)
        return outputs[0] if isinstance(outputs, tuple) else outputs


def watched(module, directory, every=1):
    """An optimizer, a monitor that watches the module's attention, and what it will record."""
    kept, optimizer = Kept(), torch.optim.SGD(module.parameters(), lr=0.1)
    watch = [gradwatch.attention(every=every), gradwatch.gradients(every=every)]
    options = {"watch": watch, "sinks": [kept], "diagnose": False}
    return optimizer, gradwatch.watch(module, optimizer, directory, **options), kept.readings


def attended(reading):
    return [site.path for site in reading.sites if site.kind is Kind.ATTENTION_LOGIT]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_functions_are_put_back_where_a_module_raises(tmp_path, error):
    softmax, fails = F.softmax, [True]

    class Attention(WrittenAttention):
        def forward(self, x):
            if fails.pop():
                raise error("of the user")
            return super().forward(x)

    module, x = Wrapped(Attention()), torch.randn(2, LENGTH, SIZE)
    optimizer, monitor, readings = watched(module, tmp_path)
    with pytest.raises(error):
        module(x)
    fails.append(False)
    module(x).mean().backward()
    optimizer.step()
    assert F.softmax is softmax
    monitor.close()
    assert [attended(reading) for reading in readings] == [["inner"]]
    assert "softmax" not in vars(torch.Tensor)


def test_copies_and_pickles_of_a_watched_module_are_not_watched(tmp_path):
    module = Wrapped(nn.MultiheadAttention(SIZE, 2, batch_first=True))
    x = torch.randn(1, 5, SIZE)
    optimizer, monitor, readings = watched(module, tmp_path)
    with monitor:
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            assert torch.equal(other(x, x, x), module(x, x, x))
        # Once more, after one call for each of the others.
        module(x, x, x).mean().backward()
        optimizer.step()
    assert [attended(reading) for reading in readings] == [["inner", "inner@2", "inner@3"]]


def test_a_query_from_which_every_key_is_hidden_is_no_number(tmp_path):
    module = Wrapped(nn.MultiheadAttention(SIZE, 1, batch_first=True))
    hidden = torch.zeros(4, 4, dtype=torch.bool)
    hidden[1] = True
    x = torch.randn(1, 4, SIZE)
    optimizer, monitor, readings = watched(module, tmp_path)
    with monitor:
        module(x, x, x, attn_mask=hidden).nan_to_num().mean().backward()
        optimizer.step()
    (reading,) = readings
    logits, entropies = (reading.summary[reading.position[Site(k, "inner")]] for k in KINDS)
    assert (logits.count, logits.neginf, logits.nan) == (4, 1, 0)
    assert (entropies.count, entropies.nan, entropies.min) == (4, 0, 0)


def test_a_module_of_transformers_is_measured(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 11,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        models = {
            name: transformers.LlamaForCausalLM._from_config(
                transformers.LlamaConfig(**sizes), attn_implementation=name
            )
            for name in ("eager", "sdpa")
        }
    models["sdpa"].load_state_dict(models["eager"].state_dict())
    tokens = torch.arange(22).reshape(2, 11) * 7 % 11
    for name, model in models.items():
        optimizer, monitor, readings = watched(model, tmp_path / name)
        with monitor:
            found = model(tokens, labels=tokens, output_attentions=name == "eager")
            found.loss.backward()
            optimizer.step()
        if name == "eager":
            weights = [each.detach().double().numpy() for each in found.attentions]
        for layer, own in enumerate(weights):
            true = -(own * np.log(np.where(own > 0, own, 1))).sum(-1)
            site = Site(Kind.ATTENTION_ENTROPY, f"model/layers/{layer}/self_attn")
            summary = readings[0].summary[readings[0].position[site]]
            assert summary.count == true.size
            np.testing.assert_allclose(summary.sum, true.sum(), rtol=1e-4, err_msg=name)
            np.testing.assert_allclose(summary.max, true.max(), rtol=1e-4, err_msg=name)


def test_modules_in_which_no_attention_is_seen_are_named(tmp_path):
    class LinearAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(SIZE, SIZE)

        def forward(self, x):
            return self.inner(x)

    optimizer, monitor, _ = watched(module := Wrapped(LinearAttention()), tmp_path / "a")
    with monitor:
        module(torch.randn(2, 3, SIZE)).mean().backward()
        with pytest.warns(gradwatch.GradwatchWarning, match="Attention of inner is not recorded"):
            optimizer.step()
    with pytest.warns(gradwatch.GradwatchWarning, match="finds no layer that computes some"):
        watched(nn.Linear(SIZE, 1), tmp_path / "b")[1].close()
