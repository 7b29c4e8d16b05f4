"""Losses and metrics that a loop gives are recorded at every step, measured or not."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site

G = {"a/w": np.array([0.5, -1.0])}
FRAMEWORKS = ["numpy", "torch", "jax", "tensorflow"]


def tensor(name, number):
    if name == "torch":
        return pytest.importorskip("torch").tensor(number, requires_grad=True) * 1.0
    if name == "jax":
        return pytest.importorskip("jax.numpy").asarray(number)
    if name == "tensorflow":
        return pytest.importorskip("tensorflow").constant(number)
    return number


def opened(directory, **options):
    return gradwatch.Monitor(directory, sinks=[gradwatch.Store()], **options)


def series(run, kind, path):
    steps, values = run.series(kind, path, "value")
    return steps.tolist(), values.tolist()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_and_metrics_of_all_steps_are_recorded(tmp_path, framework):
    monitor = opened(tmp_path, every=50, watch=[gradwatch.gradients()])
    for step in range(300):
        monitor.record(
            gradients=G,
            loss=tensor(framework, step / 4),
            metrics={"accuracy": tensor(framework, step / 8), "rate": 0.5},
        )
    monitor.close()
    run = gradwatch.open(tmp_path)
    steps = list(range(1, 301))
    assert series(run, "loss", "loss") == (steps, [step / 4 for step in range(300)])
    assert series(run, "metric", "accuracy") == (steps, [step / 8 for step in range(300)])
    assert series(run, "metric", "rate") == (steps, [0.5] * 300)
    assert run.steps("gradient").tolist() == run.measured_steps.tolist() == list(range(50, 301, 50))


def test_numbers_are_those_of_the_time_of_the_call(tmp_path):
    torch = pytest.importorskip("torch")
    monitor = opened(tmp_path, every=100)
    total, array = torch.zeros(()), np.zeros(())
    for _ in range(5):
        total += 1.0
        array += 2.0
        monitor.record(gradients=G, loss=total, metrics={"total": total, "array": array})
    monitor.close()
    run = gradwatch.open(tmp_path)
    assert series(run, "loss", "loss")[1] == series(run, "metric", "total")[1] == [1, 2, 3, 4, 5]
    assert series(run, "metric", "array")[1] == [2, 4, 6, 8, 10]


def test_a_tensor_is_not_kept_with_its_graph(make_monitor):
    import gc
    import weakref

    torch = pytest.importorskip("torch")
    monitor, _ = make_monitor(every=100)
    weight = torch.ones(3, requires_grad=True)
    product = weight * 2
    alive = weakref.ref(product)
    monitor.record(gradients=G, loss=product.sum(), metrics={"sum": product.sum()})
    del product
    gc.collect()
    assert alive() is None
    monitor.close()


def test_numbers_that_are_not_finite_stay_so(tmp_path):
    monitor = opened(tmp_path, every=10)
    for number in (1.0, np.nan, np.inf, -np.inf, 0.0):
        monitor.record(gradients=G, loss=number, metrics={"m": number})
    monitor.close()
    run = gradwatch.open(tmp_path)
    for kind, path in (("loss", "loss"), ("metric", "m")):
        np.testing.assert_array_equal(
            run.series(kind, path, "value")[1], [1.0, np.nan, np.inf, -np.inf, 0.0]
        )


def test_metrics_alone_belong_to_the_last_step_and_steps_are_not_counted_twice(tmp_path):
    monitor = opened(tmp_path, every=1)
    for epoch in (1, 2):
        for _ in range(3):
            monitor.record(gradients=G, loss=1.0, epoch=epoch)
            monitor.record(metrics={"rate": 0.1})
        monitor.record(metrics={"val_loss": float(epoch)}, epoch=epoch)
    monitor.close()
    run = gradwatch.open(tmp_path)
    assert run.steps("gradient").tolist() == run.steps().tolist() == [1, 2, 3, 4, 5, 6]
    assert series(run, "metric", "val_loss") == ([3, 6], [1.0, 2.0])
    assert series(run, "metric", "rate")[0] == [1, 2, 3, 4, 5, 6]


def test_a_loop_that_gives_nothing_but_metrics_counts_its_calls(tmp_path):
    monitor = opened(tmp_path)
    for number in (3.0, 2.0, 1.0):
        monitor.record(metrics={"loss": number})
    monitor.close()
    assert series(gradwatch.open(tmp_path), "metric", "loss") == ([0, 1, 2], [3.0, 2.0, 1.0])


def test_metrics_of_an_earlier_step_hide_nothing(tmp_path):
    monitor = opened(tmp_path, every=1)
    for step in range(1, 7):
        monitor.record(gradients=G, step=step)
    monitor.record(metrics={"val_loss": 0.5}, step=2)  # by the epoch, as some loggers count
    monitor.close()
    run = gradwatch.open(tmp_path)
    assert run.steps("gradient").tolist() == [1, 2, 3, 4, 5, 6]
    assert series(run, "metric", "val_loss") == ([2], [0.5])


def test_losses_of_groups_are_told_apart(tmp_path):
    monitor = opened(tmp_path, every=4, watch=[gradwatch.gradients()])
    for step in range(8):
        monitor.record(gradients=G, loss=1.0 + step, group="generator")
        monitor.record(gradients=G, loss=2.0 * step, metrics={"real": 0.5}, group="critic")
    monitor.close()
    run = gradwatch.open(tmp_path)
    steps = list(range(1, 9))
    assert series(run, "loss", "generator/loss") == (steps, [1.0 + s for s in range(8)])
    assert series(run, "loss", "critic/loss") == (steps, [2.0 * s for s in range(8)])
    assert series(run, "metric", "critic/real") == (steps, [0.5] * 8)


def test_the_loss_of_a_compiled_step_is_recorded_at_every_step(tmp_path):
    jax = pytest.importorskip("jax")
    monitor = opened(tmp_path, every=5, watch=[gradwatch.gradients()])

    @jax.jit
    def step(w):
        loss, gradient = jax.value_and_grad(lambda w: (w**2).sum())(w)
        return w - 0.1 * gradient, monitor.measure(gradients={"w": gradient}, loss=loss)

    w, losses = jax.numpy.array([1.0, 2.0]), []
    for _ in range(11):
        losses.append(float((w**2).sum()))
        w, readings = step(w)
        monitor.record(readings)
    monitor.close()
    steps, values = series(gradwatch.open(tmp_path), "loss", "loss")
    assert steps == list(range(1, 12))
    assert values == pytest.approx(losses, rel=1e-6)


def test_the_loss_of_a_tape_is_recorded_at_every_step(tmp_path):
    tf = pytest.importorskip("tensorflow")
    monitor = opened(tmp_path, every=5)
    v, losses = tf.Variable([1.0, 2.0], name="v"), []
    for _ in range(11):
        with monitor.tape() as tape:
            loss = tf.reduce_sum(v * v)
        v.assign_sub(0.1 * tape.gradient(loss, v))
        losses.append(float(loss))
    monitor.close()
    steps, values = series(gradwatch.open(tmp_path), "loss", "loss")
    assert steps == list(range(1, 12))
    assert values == losses


def test_the_loss_beside_a_watched_module_is_recorded_at_every_step(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    monitor = gradwatch.watch(
        module, optimizer, directory=tmp_path, every=5, sinks=[gradwatch.Store()]
    )
    losses = []
    for _ in range(11):
        optimizer.zero_grad()
        loss = module(torch.ones(4, 2)).square().mean()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss, metrics={"lr": 0.1})
        losses.append(loss.item())
    monitor.close()
    run = gradwatch.open(tmp_path)
    assert series(run, "loss", "loss") == (list(range(1, 12)), losses)
    assert series(run, "metric", "lr")[0] == list(range(1, 12))


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ([1.0], "metrics= takes numbers by name"),
        ({"a": "high"}, r"metrics\['a'\] is of type str"),
        ({"a": np.zeros(3)}, r"metrics\['a'\] is one number.*shape=\(3,\)"),
        ({"": 1.0}, "name of a metric"),
        ({"a": None}, r"metrics\['a'\] is of type NoneType"),
    ],
)
def test_mistakes_are_named(make_monitor, metrics, words):
    monitor, _ = make_monitor(every=1)
    with pytest.raises((TypeError, ValueError), match=words):
        monitor.record(gradients=G, metrics=metrics)
    monitor.close()


def test_a_nan_loss_between_measured_steps_is_found(tmp_path):
    monitor = opened(tmp_path, every=1000)
    for step in range(40):
        monitor.record(gradients=G, loss=np.nan if step == 30 else 1.0)
    monitor.close()
    assert any(f.rule == "non-finite" and f.since == 31 for f in monitor.findings)


def test_readings_have_the_same_sites_as_one_object(make_monitor):
    monitor, keep = make_monitor(every=1000)
    for _ in range(3):
        monitor.record(gradients=G, metrics={"m": 1.0})
    monitor.close()
    assert keep.reports[0].sites == (Site(Kind.METRIC, "m"),)
    assert keep.reports[0].sites is keep.reports[2].sites
