"""What optimizers hold, in loops: torch's own, optax's and Keras's."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

import gradwatch
from gradwatch import Kind, Site
from gradwatch.capture.torch import torch_moments
from gradwatch.measure.kernels import cuda_moments
from tests import optimizer_truth as by_hand
from tests.loop.support import Keep
from tests.measure.moments_truth import rows_by_hand
from tests.optimizer_truth import B1, B2, EPSILON, STEPS, assert_state

ADAM: Any = {"betas": (B1, B2), "eps": EPSILON}
RATE = 0.25
OPTIMIZERS: dict[str, tuple[Any, Any, Any]] = {
    "Adam, plain": (torch.optim.Adam, {**ADAM, "foreach": False}, by_hand.adam),
    "Adam, foreach": (torch.optim.Adam, {**ADAM, "foreach": True}, by_hand.adam),
    "Adam, fused": (torch.optim.Adam, {**ADAM, "fused": True}, by_hand.adam),
    "Adam, amsgrad": (
        torch.optim.Adam,
        {**ADAM, "amsgrad": True},
        partial(by_hand.adam, amsgrad=True),
    ),
    "AdamW": (torch.optim.AdamW, {**ADAM, "weight_decay": 0.1}, by_hand.adam),
    "NAdam": (torch.optim.NAdam, ADAM, by_hand.adam),
    "RMSprop": (torch.optim.RMSprop, {"alpha": B1, "eps": EPSILON}, by_hand.rmsprop),
    "RMSprop, centered": (
        torch.optim.RMSprop,
        {"alpha": B1, "eps": EPSILON, "centered": True},
        partial(by_hand.rmsprop, centered=True),
    ),
    "Adagrad": (torch.optim.Adagrad, {"eps": EPSILON}, by_hand.adagrad),
    "Adadelta": (torch.optim.Adadelta, {"rho": B1, "eps": EPSILON}, by_hand.adadelta),
    "Adamax": (torch.optim.Adamax, ADAM, by_hand.adamax),
    "SGD, foreach and nesterov": (
        torch.optim.SGD,
        {"momentum": B1, "nesterov": True, "foreach": True},
        by_hand.momentum,
    ),
    "SGD, maximize": (
        torch.optim.SGD,
        {"momentum": B1, "maximize": True},
        partial(by_hand.momentum, scale=-1.0),
    ),
}


def parameter_of(given: Any) -> Any:
    """A module with one parameter, `scale`, whose gradients will be those given."""
    module = torch.nn.Module()
    module.scale = torch.nn.Parameter(torch.zeros(given.shape[1]))
    return module


def torch_steps(module: Any, optimizer: Any, given: Any) -> Any:
    for gradient in given:
        module.scale.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        yield


def with_state(keep: Keep) -> list[Any]:
    kinds = set(by_hand.KINDS)
    return [r for r in keep.readings if kinds & {site.kind for site in r.sites}]


@pytest.fixture
def are_counts_away(request: Any, monkeypatch: Any) -> None:
    """Whether optimizers count steps on a device, as fused ones do on a GPU."""
    if request.param:
        kind = torch.Tensor
        monkeypatch.setattr(torch_moments, "_is_away", lambda count: isinstance(count, kind))


@pytest.fixture
def passes(monkeypatch: Any) -> list[Any]:
    """What was measured in one pass, as on a GPU, but by NumPy."""
    found: list[Any] = []

    def measure(several: Any, device: Any) -> Any:
        found.append(several)
        return torch.from_numpy(np.nan_to_num(rows_by_hand(several)))

    monkeypatch.setattr(cuda_moments, "reads", lambda x: True)
    monkeypatch.setattr(cuda_moments, "measure", measure)
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_a_gpu_measures_in_one_pass_is_the_same(
    tmp_path: Any, name: str, passes: list[Any]
) -> None:
    make, options, expected = OPTIMIZERS[name]
    given = by_hand.gradients(8)
    keep, module = Keep(), parameter_of(given)
    optimizer = make([module.scale], lr=RATE, **options)
    watch = [gradwatch.gradients(), gradwatch.weights(), gradwatch.optimizer_state(histogram=2)]
    monitor = gradwatch.watch(
        module, optimizer, tmp_path, sinks=[keep], every=1, watch=watch, diagnose=False
    )
    weights = [module.scale.detach().numpy().copy()]
    for _ in torch_steps(module, optimizer, given):
        weights.append(module.scale.detach().numpy().copy())
    monitor.close()
    readings = with_state(keep)
    assert len(readings) == len(passes) == len(given)
    pairs = itertools.pairwise(weights)
    for reading, state, g, (old, new) in zip(readings, expected(given), given, pairs, strict=True):
        assert_state(reading, "scale", state)
        for kind, x in ((Kind.GRADIENT, g), (Kind.WEIGHT, new), (Kind.UPDATE, new - old)):
            got = reading.summary[reading.position[Site(kind, "scale")]]
            assert float(got.sum_squares) == pytest.approx(float(np.sum(x * x)), rel=1e-6), kind
    assert [bool(r.cells) for r in readings] == [r.step % 2 == 0 for r in readings]


def test_gradients_wait_for_the_step_only_if_nothing_else_can_change_them(
    tmp_path: Any, passes: list[Any]
) -> None:
    given = by_hand.gradients(2)
    keep, module = Keep(), parameter_of(given)
    optimizer = torch.optim.AdamW([module.scale])

    def halve(optimizer: Any, args: Any, kwargs: Any) -> None:
        module.scale.grad.mul_(0.5)

    optimizer.register_step_post_hook(halve)
    watch = [gradwatch.gradients(), gradwatch.optimizer_state()]
    monitor = gradwatch.watch(
        module, optimizer, tmp_path, sinks=[keep], every=1, watch=watch, diagnose=False
    )
    for _ in torch_steps(module, optimizer, given):
        pass
    monitor.close()
    assert passes
    for reading, g in zip(with_state(keep), given, strict=True):
        got = reading.summary[reading.position[Site(Kind.GRADIENT, "scale")]]
        assert float(got.sum_squares) == pytest.approx(float(np.sum(g * g)), rel=1e-6)


@pytest.mark.parametrize("are_counts_away", [False, True], indirect=True)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.usefixtures("are_counts_away")
def test_the_state_of_a_watched_torch_optimizer_is_that_in_float64(
    tmp_path: Any, name: str
) -> None:
    make, options, expected = OPTIMIZERS[name]
    given = by_hand.gradients(STEPS if make is torch.optim.Adam else 20)
    keep, module = Keep(), parameter_of(given)
    optimizer = make([module.scale], lr=RATE, **options)
    watch = [gradwatch.gradients(), gradwatch.optimizer_state()]
    monitor = gradwatch.watch(
        module, optimizer, tmp_path, sinks=[keep], every=1, watch=watch, diagnose=False
    )
    for _ in torch_steps(module, optimizer, given):
        pass
    monitor.close()
    readings = with_state(keep)
    assert len(readings) == len(given)
    for reading, state in zip(readings, expected(given), strict=True):
        assert_state(reading, "scale", state)
        assert Site(Kind.UPDATE, "scale") in reading.sites


def test_a_step_whose_state_is_not_due_does_not_read_it(tmp_path: Any, monkeypatch: Any) -> None:
    reads: list[int] = []
    own = torch_moments.TorchState.moments

    def counted(self: Any, parameters: Any) -> Any:
        reads.append(1)
        return own(self, parameters)

    monkeypatch.setattr(torch_moments.TorchState, "moments", counted)
    given = by_hand.gradients(8)
    keep, module = Keep(), parameter_of(given)
    optimizer = torch.optim.Adam([module.scale])
    watch = [gradwatch.gradients(every=2), gradwatch.optimizer_state(every=4)]
    monitor = gradwatch.watch(
        module, optimizer, tmp_path, sinks=[keep], watch=watch, diagnose=False
    )
    counts = []
    for _ in torch_steps(module, optimizer, given):
        counts.append(len(reads))
    monitor.close()
    at = [step for step, (a, b) in enumerate(zip([0, *counts], counts, strict=False), 1) if b > a]
    assert at == [r.step for r in with_state(keep)]
    assert len(at) == 2


def test_the_constants_of_a_loaded_state_are_those_that_count(tmp_path: Any) -> None:
    given = by_hand.gradients(4)
    keep, module = Keep(), parameter_of(given)
    optimizer = torch.optim.Adam([module.scale], eps=1e-8)
    monitor = gradwatch.watch(
        module,
        optimizer,
        tmp_path,
        sinks=[keep],
        every=1,
        watch=[gradwatch.optimizer_state()],
        diagnose=False,
    )
    for _ in torch_steps(module, optimizer, given[:2]):
        pass
    saved = optimizer.state_dict()
    saved["param_groups"][0]["eps"] = 1e9
    optimizer.load_state_dict(saved)
    for _ in torch_steps(module, optimizer, given[2:]):
        pass
    monitor.close()
    site = Site(Kind("epsilon_ruled"), "scale")
    shares = [float(r.statistic("mean")[r.position[site]]) for r in with_state(keep)]
    assert max(shares[:2]) < 1
    assert shares[2:] == [1.0, 1.0]


@pytest.mark.parametrize("decays", [(0.0, 0.0), (B1, 0.0)])
def test_a_second_moment_that_forgets_everything_is_not_corrected(
    tmp_path: Any, decays: Any
) -> None:
    given = by_hand.gradients(5)[:, :3] + np.float32(1)
    keep, module = Keep(), parameter_of(given)
    optimizer = torch.optim.Adam([module.scale], betas=decays)
    monitor = gradwatch.watch(
        module,
        optimizer,
        tmp_path,
        sinks=[keep],
        every=1,
        watch=[gradwatch.optimizer_state()],
        diagnose=False,
    )
    for _ in torch_steps(module, optimizer, given):
        pass
    monitor.close()
    site = Site(Kind.NORMALIZED_GRADIENT, "scale")
    sizes = [float(r.statistic("rms")[r.position[site]]) for r in with_state(keep)]
    assert sizes == pytest.approx([1.0] * 5, rel=1e-6)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9")
def test_torchs_muon_is_known(tmp_path: Any) -> None:
    given = by_hand.gradients(3).reshape(3, 1, -1)
    keep, module = Keep(), torch.nn.Module()
    module.scale = torch.nn.Parameter(torch.zeros(1, given.shape[2]))
    optimizer = torch.optim.Muon([module.scale], momentum=B1, weight_decay=0.0)
    monitor = gradwatch.watch(
        module,
        optimizer,
        tmp_path,
        sinks=[keep],
        every=1,
        watch=[gradwatch.optimizer_state()],
        diagnose=False,
    )
    for _ in torch_steps(module, optimizer, given):
        pass
    monitor.close()
    readings = with_state(keep)
    assert len(readings) == 3
    held = list(by_hand.average(B1, given))
    for reading, g, m in zip(readings, given, held, strict=True):
        assert_state(reading, "scale", by_hand.State(g.ravel(), m.ravel()))


def test_moments_in_another_form_are_left_out_and_the_rest_is_recorded(tmp_path: Any) -> None:
    class Packed(torch.optim.SGD):
        """Keeps its first moment in a smaller form, and a word for its second."""

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for p in self.param_groups[0]["params"]:
                self.state[p]["exp_avg"] = torch.zeros(2) if p.ndim else p.grad.clone()
                self.state[p]["exp_avg_sq"] = "packed"

    keep, module = Keep(), torch.nn.Module()
    module.scale = torch.nn.Parameter(torch.zeros(7))
    module.single = torch.nn.Parameter(torch.zeros(()))
    optimizer = Packed(module.parameters())
    watch = [gradwatch.optimizer_state(), gradwatch.gradients()]
    with pytest.warns(gradwatch.GradwatchWarning, match="in the parameter's shape"):
        monitor = gradwatch.watch(
            module, optimizer, tmp_path, sinks=[keep], every=1, watch=watch, diagnose=False
        )
    for step in (1.0, 2.0):
        module.scale.grad = torch.ones(7)
        module.single.grad = torch.tensor(step)
        optimizer.step()
    monitor.close()
    last = with_state(keep)[-1]
    assert float(last.summary[last.position[Site(Kind.FIRST_MOMENT, "single")]].sum) == 2.0
    assert float(last.summary[last.position[Site(Kind.MOMENTUM_COSINE, "single")]].sum) == 1.0
    assert Site(Kind.GRADIENT, "scale") in last.position
    assert last.summary[last.position[Site(Kind.FIRST_MOMENT, "scale")]].count == 0


def test_of_an_optimizer_that_is_not_torchs_the_moments_are_recorded(tmp_path: Any) -> None:
    class Own(torch.optim.Adam):
        """What it divides by is its own affair."""

    given = by_hand.gradients(3)
    keep, module = Keep(), parameter_of(given)
    optimizer = Own([module.scale], **ADAM)
    with pytest.warns(gradwatch.GradwatchWarning, match="Of Own, which is not one of torch"):
        monitor = gradwatch.watch(
            module,
            optimizer,
            tmp_path,
            sinks=[keep],
            every=1,
            watch=[gradwatch.optimizer_state()],
            diagnose=False,
        )
    for _ in torch_steps(module, optimizer, given):
        pass
    monitor.close()
    kinds = {site.kind for site in with_state(keep)[-1].sites} & set(by_hand.KINDS)
    assert kinds == {Kind.FIRST_MOMENT, Kind.SECOND_MOMENT, Kind.MOMENTUM_COSINE}


def optax_steps(monitor: Any, transformation: Any, given: Any, wrap: Any, jitted: bool) -> None:
    """Trains {"a": ..., "b": ...} with the same gradients for both."""

    def step(parameters: Any, state: Any, gradients: Any) -> Any:
        updates, state = transformation.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        tensors = {"gradients": gradients, "parameters": parameters}
        readings = (
            monitor.measure(**tensors, optimizer_state=wrap(transformation, state))
            if jitted
            else None
        )
        return parameters, state, readings

    run = jax.jit(step) if jitted else step
    parameters = {"a": jnp.zeros(given.shape[1]), "b": jnp.zeros(given.shape[1])}
    state = transformation.init(parameters)
    for each in given:
        gradients = {"a": jnp.asarray(each), "b": jnp.asarray(each)}
        parameters, state, readings = run(parameters, state, gradients)
        if jitted:
            monitor.record(readings)
        else:
            monitor.record(
                gradients=gradients,
                parameters=parameters,
                optimizer_state=wrap(transformation, state),
            )
    monitor.close()


def pair(transformation: Any, state: Any) -> Any:
    return transformation, state


class TrainState:
    """As Flax has it."""

    def __init__(self, tx: Any, opt_state: Any) -> None:
        self.tx, self.opt_state = tx, opt_state


OPTAX: Any = {"b1": B1, "b2": B2, "eps": EPSILON}
RMS: Any = {"decay": B1, "eps": EPSILON}
TRANSFORMATIONS: dict[str, tuple[Any, Any, Any, Any]] = {
    "adam": (lambda: optax.adam(RATE, **OPTAX), pair, by_hand.adam, by_hand.adam),
    "adam in a chain": (
        lambda: optax.chain(optax.clip(1e9), optax.adamw(RATE, **OPTAX)),
        TrainState,
        by_hand.adam,
        by_hand.adam,
    ),
    "injected": (
        lambda: optax.inject_hyperparams(optax.adam)(RATE, **OPTAX),
        lambda transformation, state: state,
        by_hand.adam,
        by_hand.adam,
    ),
    "masked": (
        lambda: optax.masked(optax.adam(RATE, **OPTAX), {"a": True, "b": False}),
        pair,
        by_hand.adam,
        None,
    ),
    "several": (
        lambda: optax.multi_transform(
            {"x": optax.adam(RATE, **OPTAX), "y": optax.rmsprop(RATE, **RMS)},
            {"a": "x", "b": "y"},
        ),
        pair,
        by_hand.adam,
        partial(by_hand.rmsprop, in_root=True),
    ),
    "every step of MultiSteps": (
        lambda: optax.MultiSteps(optax.adam(RATE, **OPTAX), 1),
        pair,
        by_hand.adam,
        by_hand.adam,
    ),
    "momentum": (
        lambda: optax.sgd(RATE, momentum=B1, nesterov=True),
        pair,
        by_hand.momentum,
        by_hand.momentum,
    ),
    "lion": (lambda: optax.lion(RATE, b2=B2), pair, by_hand.lion, by_hand.lion),
    "adagrad": (
        lambda: optax.adagrad(RATE, initial_accumulator_value=0.25, eps=EPSILON),
        pair,
        partial(by_hand.adagrad, start=0.25, in_root=True),
        partial(by_hand.adagrad, start=0.25, in_root=True),
    ),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_the_state_of_optax_is_that_in_float64(make_monitor: Any, name: str) -> None:
    make, wrap, of_a, of_b = TRANSFORMATIONS[name]
    given = by_hand.gradients(STEPS if name == "adam" else 5)
    watch = [gradwatch.gradients(), gradwatch.optimizer_state()]
    monitor, keep = make_monitor(watch=watch, diagnose=False)
    optax_steps(monitor, make(), given, wrap, jitted=name != "masked")
    readings = with_state(keep)
    assert len(readings) == len(given)
    for path, expected in (("a", of_a), ("b", of_b)):
        if expected is None:
            assert not [s for s in readings[0].sites if s.path == path and s.kind in by_hand.KINDS]
            continue
        for reading, state in zip(readings, expected(given), strict=True):
            assert_state(reading, path, state)


def test_a_state_of_optax_alone_gives_moments_and_says_what_is_missing(make_monitor: Any) -> None:
    monitor, keep = make_monitor(watch=[gradwatch.optimizer_state()], diagnose=False)
    with pytest.warns(gradwatch.GradwatchWarning, match="does not tell its decay and epsilon"):
        optax_steps(
            monitor, optax.adam(RATE), by_hand.gradients(2), lambda tx, state: state, jitted=False
        )
    kinds = {site.kind for site in with_state(keep)[0].sites} & set(by_hand.KINDS)
    assert kinds == {Kind.FIRST_MOMENT, Kind.SECOND_MOMENT, Kind.MOMENTUM_COSINE}


def test_a_state_of_another_form_is_refused_by_name(make_monitor: Any) -> None:
    watch = [gradwatch.optimizer_state(), gradwatch.weights()]
    monitor, keep = make_monitor(watch=watch, diagnose=False)
    with pytest.warns(gradwatch.GradwatchWarning, match="ScaleByAdanState"):
        optax_steps(monitor, optax.adan(RATE), by_hand.gradients(2), pair, jitted=False)
    assert not with_state(keep)
    assert keep.readings


def test_what_is_no_state_is_refused_at_once(make_monitor: Any) -> None:
    monitor, _ = make_monitor(watch=[gradwatch.optimizer_state()], diagnose=False)
    with pytest.raises(TypeError, match=r"optimizer_state= takes an optimizer .*Received: float"):
        monitor.record(gradients=[np.ones(2)], variables=[np.ones(2)], optimizer_state=0.9)


def test_a_loop_that_gives_no_state_is_told_how_to(make_monitor: Any) -> None:
    watch = [gradwatch.gradients(), gradwatch.optimizer_state()]
    monitor, _ = make_monitor(watch=watch, diagnose=False)
    with pytest.warns(gradwatch.GradwatchWarning, match="Give optimizer_state="):
        monitor.record(gradients=[np.ones(2)], variables=[np.ones(2)])


def test_record_takes_an_optimizer_of_torch(make_monitor: Any) -> None:
    monitor, keep = make_monitor(watch=[gradwatch.optimizer_state()], diagnose=False)
    given = by_hand.gradients(5)
    module = parameter_of(given)
    optimizer = torch.optim.Adam([module.scale], lr=RATE, **ADAM)
    for _ in torch_steps(module, optimizer, given):
        monitor.record(variables=module, optimizer_state=optimizer)
    monitor.close()
    for reading, state in zip(with_state(keep), by_hand.adam(given), strict=True):
        assert_state(reading, "scale", state)


def test_record_takes_an_optimizer_of_keras_with_or_without_its_values(make_monitor: Any) -> None:
    import keras

    given = by_hand.gradients(5)
    for with_values in (False, True):
        monitor, keep = make_monitor(watch=[gradwatch.optimizer_state()], diagnose=False)
        variable = keras.Variable(np.zeros(given.shape[1], np.float32), name="scale")
        optimizer = keras.optimizers.Adam(RATE, beta_1=B1, beta_2=B2, epsilon=EPSILON)
        optimizer.build([variable])
        for each in given:
            gradient = keras.ops.convert_to_tensor(each)
            optimizer.apply([gradient], [variable])
            values = [v.value for v in optimizer.variables]
            monitor.record(
                gradients=[gradient],
                variables=[variable],
                optimizer_state=(optimizer, values) if with_values else optimizer,
            )
        monitor.close()
        expected = by_hand.adam(given, is_epsilon_corrected=False)
        readings = with_state(keep)
        assert len(readings) == len(given)
        for reading, state in zip(readings, expected, strict=True):
            assert_state(reading, str(variable.path), state)
