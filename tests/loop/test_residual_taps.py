"""`gradwatch.residual`: how large a branch is against its stream, also in compiled code."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from tests.variants import rarely

SITE = Site(Kind.RESIDUAL_RATIO, "block")
WEIGHTS = np.random.default_rng(3).normal(size=(6, 6)).astype(np.float32)


def stream(seed=0, shape=(4, 5, 6)):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ratios(x, branch):
    axes = tuple(range(1, x.ndim)) if x.ndim > 3 else -1
    x, branch = np.float64(x), np.float64(branch)
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = [np.sqrt((each**2).sum(axes)) for each in (branch, x)]
        return np.where(norms[0] == 0, 0, norms[0] / norms[1])


def assert_ratios(summary, true):
    assert summary.count == true.size
    for name in ("max", "min", "sum"):
        np.testing.assert_allclose(getattr(summary, name), getattr(true, name)(), rtol=1e-5)


def summaries(taps):
    return {
        site: gradwatch.Summary.unpack(np.asarray(row, np.float64))
        for sites, array in zip(taps.sites, taps.arrays, strict=True)
        for site, row in zip(sites, np.asarray(array).reshape(len(sites), -1), strict=True)
    }


@pytest.mark.parametrize("shape", [(7,), (3, 6), (4, 5, 6), (2, 3, 4, 6)])
@pytest.mark.parametrize("name", ["numpy", "jax", "tensorflow", "torch"])
def test_ratios_of_all_frameworks_are_those_of_numpy(name, shape):
    from gradwatch.measure import framework

    x, branch = stream(1, shape), 0.3 * stream(2, shape)
    if len(shape) > 1:
        branch[0] = 0
        x[:2] = 0
    module = pytest.importorskip(name)
    make = {"jax": lambda a: module.numpy.asarray(a), "tensorflow": lambda a: module.constant(a)}
    make = make.get(name, module.as_tensor if name == "torch" else np.asarray)
    found = np.asarray(framework(name).residual_ratio(make(branch), make(x)))
    np.testing.assert_allclose(found, ratios(x, branch), rtol=1e-6)


@pytest.mark.parametrize("way", ["jit", "scan", *rarely("eager", "grad", "remat")])
def test_ratios_are_true_in_jax(way):
    jax = pytest.importorskip("jax")
    x, w = stream(), jax.numpy.asarray(WEIGHTS)

    def step(w, x):
        return gradwatch.residual(x, jax.numpy.tanh(x @ w), "block")

    def loss(w, x):
        block = jax.checkpoint(step) if way == "remat" else step
        if way == "scan":
            x, _ = jax.lax.scan(lambda h, _: (block(w, h), None), x, None, length=3)
            return (x**2).mean()
        return (block(w, x) ** 2).mean()

    def bare(w, x):
        h = x
        for _ in range(3 if way == "scan" else 1):
            h = h + jax.numpy.tanh(h @ w)
        return (h**2).mean()

    function = loss if way in ("eager", "jit") else jax.value_and_grad(loss)
    run = gradwatch.with_taps(function)
    result, taps = (run if way == "eager" else jax.jit(run))(w, jax.numpy.asarray(x))
    plain = (bare if way in ("eager", "jit") else jax.value_and_grad(bare))(w, jax.numpy.asarray(x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), result, plain)
    assert not taps.notices
    found, h = summaries(taps), np.float64(x)
    sites = [SITE] if way != "scan" else [Site(SITE.kind, f"block/{i}") for i in range(3)]
    assert list(found) == sites
    for site in sites:
        branch = np.tanh(h @ np.float64(WEIGHTS))
        assert_ratios(found[site], ratios(h, branch))
        h = h + branch


@pytest.mark.parametrize("is_graph", [False, *rarely(True)])
def test_ratios_are_true_in_tensorflow(is_graph):
    tf = pytest.importorskip("tensorflow")
    x, w, arrays = tf.constant(stream()), tf.Variable(WEIGHTS), []

    def loss(combine):
        with tf.GradientTape() as tape:
            y = tf.reduce_mean(combine(x, tf.tanh(x @ w)) ** 2)
        return tape.gradient(y, w)

    def run():
        gradient, taps = gradwatch.with_taps(
            lambda: loss(lambda a, b: gradwatch.residual(a, b, "block"))
        )()
        arrays.append(taps)
        return gradient, taps.arrays

    gradient, found = (tf.function(run) if is_graph else run)()
    bare = tf.function(lambda: loss(lambda a, b: a + b)) if is_graph else None
    # In a graph, only monitor.measure() keeps operations of the training apart.
    own = bare() if bare else loss(lambda a, b: a + b)
    np.testing.assert_allclose(gradient, own, rtol=1e-4 if is_graph else 0)
    assert arrays[0].sites == [[SITE]]
    summary = gradwatch.Summary.unpack(np.asarray(found[0], np.float64)[0])
    assert_ratios(summary, ratios(stream(), np.tanh(np.float64(stream()) @ WEIGHTS)))


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_ratios_are_true_in_torch_and_training_is_the_same(tmp_path, backend, is_frozen):
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(6, 6, bias=False)
            self.head = torch.nn.Linear(6, 1)
            with torch.no_grad():
                self.linear.weight.copy_(torch.tensor(WEIGHTS.T))
            self.linear.requires_grad_(not is_frozen)

        def forward(self, x):
            return self.head(gradwatch.residual(x, torch.tanh(self.linear(x)), "block"))

    def train(directory):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = Block()
        run = model if backend is None else torch.compile(model, fullgraph=True, backend=backend)
        # The branch keeps its weights.
        optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
        kept, monitor = Kept(), None
        if directory is not None:
            watch = [gradwatch.gradients("head", every=2)]
            options = {"watch": watch, "sinks": [kept], "diagnose": False}
            monitor = gradwatch.watch(run, optimizer, directory, **options)
        for step in range(1, 5):
            model.zero_grad()
            run(torch.tensor(stream(step))).square().mean().backward()
            optimizer.step()
        if monitor is not None:
            monitor.close()
        return kept.readings, model.state_dict()

    readings, weights = train(tmp_path)
    _, bare = train(None)
    assert [reading.step for reading in readings] == [2, 4]
    for reading in readings:
        x = np.float64(stream(reading.step))
        assert_ratios(reading.summary[reading.position[SITE]], ratios(x, np.tanh(x @ WEIGHTS)))
        assert not any(site.kind is Kind.OUTPUT_GRADIENT for site in reading.sites)
    assert all(torch.equal(weights[name], bare[name]) for name in weights)


def test_it_returns_the_sum_and_explains_mistakes():
    x = stream()
    np.testing.assert_array_equal(gradwatch.residual(x, 2 * x, "block"), x + 2 * x)
    with pytest.raises(TypeError, match=r"not empty\. Received: ''"):
        gradwatch.residual(x, x, "")
