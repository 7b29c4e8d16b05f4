"""`gradwatch.router`: how many tokens choose each expert, exactly, also in compiled code."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site

EXPERTS, CHOICES = 6, 2
SITE = Site(Kind.EXPERT_LOAD, "moe/router")


def scores(rows=50, seed=0, shape=(5, 10)):
    """Expert 3 is dead, expert 0 is chosen by all."""
    x = np.random.default_rng(seed).normal(size=(rows, EXPERTS)).astype(np.float32)
    x[:, 3], x[:, 0] = -9, 9
    return x.reshape(*shape, EXPERTS)


def true_load(x):
    chosen = np.argsort(-x.reshape(-1, EXPERTS), axis=-1)[:, :CHOICES]
    return np.array([(chosen == expert).sum() for expert in range(EXPERTS)])


def assert_load(summary, x):
    load = true_load(x)
    assert load[3] == 0 < load.min(where=np.arange(EXPERTS) != 3, initial=99)
    assert summary.count == EXPERTS
    assert summary.zeros == (load == 0).sum() == 1
    assert (summary.max, summary.min, summary.sum) == (load.max(), load.min(), load.sum())
    assert summary.sum_squares == (load.astype(float) ** 2).sum()


def summary_in(taps, path="moe/router"):
    """The only row of taps with this path."""
    rows = {
        site: gradwatch.Summary.unpack(np.asarray(row, np.float64))
        for sites, array in zip(taps.sites, taps.arrays, strict=True)
        for site, row in zip(sites, np.asarray(array).reshape(len(sites), -1), strict=True)
    }
    assert {site.path for site in rows if site.kind is not Kind.OUTPUT} == {
        s.path for s in rows if s.kind is Kind.EXPERT_LOAD
    }
    return rows[Site(Kind.EXPERT_LOAD, path)]


@pytest.mark.parametrize("way", ["eager", "jit", "grad", "scan"])
def test_loads_are_exact_in_jax(way):
    jax = pytest.importorskip("jax")
    x = scores()

    def route(x):
        return jax.nn.softmax(gradwatch.router(x, "moe/router", top_k=CHOICES)).var()

    def scanned(x):
        return jax.lax.scan(lambda total, row: (total + route(row), None), 0.0, x)[0]

    function = {"grad": jax.value_and_grad(route), "scan": jax.grad(scanned)}.get(way, route)
    function = gradwatch.with_taps(function)
    _, taps = (function if way == "eager" else jax.jit(function))(jax.numpy.asarray(x))
    if way == "scan":
        loads = [summary_in(taps, f"moe/router/{i}") for i in range(len(x))]
        assert [each.sum for each in loads] == [CHOICES * 10] * len(x)
        assert [each.max for each in loads] == [true_load(row).max() for row in x]
    else:
        assert_load(summary_in(taps), x)


@pytest.mark.parametrize("is_graph", [False, True])
def test_loads_are_exact_in_tensorflow(is_graph):
    tf = pytest.importorskip("tensorflow")
    x = scores()

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.math.reduce_variance(gradwatch.router(x, "moe/router", top_k=CHOICES))
        return tape.gradient(y, x)

    function = gradwatch.with_taps(step)
    arrays = []

    def run(x):
        gradient, taps = function(x)
        arrays.append(taps)
        return gradient, taps.arrays

    gradient, found = (tf.function(run) if is_graph else run)(tf.constant(x))
    np.testing.assert_array_equal(gradient, step(tf.constant(x)))
    taps = arrays[0]
    assert taps.sites == [[SITE]]
    assert_load(gradwatch.Summary.unpack(np.asarray(found[0], np.float64)[0]), x)


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("is_compiled", [False, True])
def test_loads_are_exact_in_torch_and_training_is_the_same(tmp_path, is_compiled):
    torch = pytest.importorskip("torch")

    class Mixture(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.route = torch.nn.Linear(EXPERTS, EXPERTS, bias=False)
            self.out = torch.nn.Linear(EXPERTS, 1)
            with torch.no_grad():
                self.route.weight.copy_(torch.eye(EXPERTS))

        def forward(self, x):
            chosen = gradwatch.router(self.route(x), "moe/router", top_k=CHOICES)
            return self.out(chosen.softmax(-1))

    def train(directory):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = Mixture()
        run = torch.compile(model, fullgraph=True, backend="aot_eager") if is_compiled else model
        # The router keeps its weights, so that its scores are the inputs.
        optimizer = torch.optim.SGD(model.out.parameters(), lr=0.1)
        kept, monitor = Kept(), None
        if directory is not None:
            monitor = gradwatch.watch(
                run,
                optimizer,
                directory,
                watch=[gradwatch.gradients("out", every=2)],
                sinks=[kept],
                diagnose=False,
            )
        for step in range(1, 5):
            optimizer.zero_grad()
            run(torch.tensor(scores(seed=step))).square().mean().backward()
            optimizer.step()
        if monitor is not None:
            monitor.close()
        return kept.readings, model.state_dict()

    readings, weights = train(tmp_path)
    _, bare = train(None)
    assert [reading.step for reading in readings] == [2, 4]
    for reading in readings:
        assert_load(reading.summary[reading.position[SITE]], scores(seed=reading.step))
        assert not any(site.kind is Kind.OUTPUT_GRADIENT for site in reading.sites)
    assert all(torch.equal(weights[name], bare[name]) for name in weights)


def test_it_returns_what_it_was_given_and_explains_mistakes():
    x = scores()
    assert gradwatch.router(x, "moe/router") is x
    with pytest.raises(ValueError, match=r"at least 1\. Received: 0"):
        gradwatch.router(x, "moe/router", top_k=0)
    with pytest.raises(TypeError, match=r"not empty\. Received: ''"):
        gradwatch.router(x, "")
    _, taps = gradwatch.with_taps(lambda: gradwatch.router(np.ones(3, int), "moe/router"))()
    (notice,) = taps.notices
    assert notice.startswith("The tap 'moe/router' is not recorded: taps measure tensors of floats")
