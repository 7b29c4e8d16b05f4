"""torch: gradients before, and applied gradients after torch's functions have clipped them."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import gradwatch
from gradwatch import Kind
from tests.loop.support import Keep, assert_measured

BOTH = (gradwatch.gradients(histogram=True), gradwatch.applied_gradients(histogram=True))


def make_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batches(count):
    rng = np.random.default_rng(0)
    return [
        (torch.from_numpy(rng.normal(size=(5, 3)).astype("f4")) * 3, torch.full((5, 2), 9.0))
        for _ in range(count)
    ]


def loss_of(net, x, y):
    return (net(x) - y).square().mean()


def truth(net, *parts):
    """The gradients of the mean over the parts, by autograd in float64."""
    wide = copy.deepcopy(net).double()
    wide.zero_grad()
    for x, y in parts:
        (loss_of(wide, x.double(), y.double()) / len(parts)).backward()
    return {n.replace(".", "/"): p.grad.numpy().copy() for n, p in wide.named_parameters()}


def clipped_by_norm(gradients, most=0.5):
    total = np.sqrt(sum(np.square(g).sum() for g in gradients.values()))
    return {n: g * min(1.0, most / (total + 1e-6)) for n, g in gradients.items()}


def clipped_by_value(gradients, most=0.5):
    return {n: np.clip(g, -most, most) for n, g in gradients.items()}


def by_total_norm(parameters, most):
    parameters = list(parameters)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    torch.nn.utils.clip_grads_with_norm_(parameters, most, norm)


WAYS = {
    "norm": (clip_grad_norm_, clipped_by_norm),
    "norm, one by one": (lambda p, m: clip_grad_norm_(p, m, foreach=False), clipped_by_norm),
    "norm, by its module": (lambda p, m: torch.nn.utils.clip_grad_norm_(p, m), clipped_by_norm),
    "value": (clip_grad_value_, clipped_by_value),
    "value, one by one": (lambda p, m: clip_grad_value_(p, m, foreach=False), clipped_by_value),
}
if hasattr(torch.nn.utils, "clip_grads_with_norm_"):  # since torch 2.6
    WAYS["total norm"] = (by_total_norm, clipped_by_norm)


@pytest.fixture
def watch(tmp_path):
    def make(net, optimizer, **options):
        keep = Keep()
        options = {"every": 1, "watch": BOTH} | options
        return gradwatch.watch(net, optimizer, tmp_path, sinks=[keep], **options), keep

    return make


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_before_and_applied_gradients_after_clipping(watch, way):
    clip, clipped = WAYS[way]
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    expected = []
    for batch in batches(3):
        expected.append(truth(net, batch))
        optimizer.zero_grad()
        loss_of(net, *batch).backward()
        clip(net.parameters(), 0.5)
        optimizer.step()
    monitor.close()
    assert keep.steps == [1, 2, 3]
    for reading, slopes in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.APPLIED_GRADIENT, clipped(slopes))
        both = [(i, s) for i, s in enumerate(reading.sites) if s.path in slopes]
        assert len(both) == 2 * len(slopes)
        for i, site in both:
            assert reading.histogram(i).cells.sum() == slopes[site.path].size
    assert "before torch.nn.utils.clip_grad_norm_" in keep.runs[0].meaning[Kind.GRADIENT]
    assert "after any clipping" in keep.runs[0].meaning[Kind.APPLIED_GRADIENT]


def test_without_clipping_both_are_the_same(watch):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    (batch,) = batches(1)
    slopes = truth(net, batch)
    loss_of(net, *batch).backward()
    if hasattr(torch.nn.utils, "get_total_norm"):
        torch.nn.utils.get_total_norm([p.grad for p in net.parameters()])
    optimizer.step()
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, slopes)


@pytest.mark.parametrize("each", [False, True])
def test_accumulated_gradients_are_those_before_the_last_clipping(watch, each):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    parts = batches(4)
    slopes = truth(net, *parts)
    if each:
        # Each part is added to what the ones before were clipped to.
        slopes = dict.fromkeys(slopes, 0.0)
        for part in parts:
            before = {n: slopes[n] + g / 4 for n, g in truth(net, part).items()}
            slopes = clipped_by_norm(before)
        slopes = before
    for i, part in enumerate(parts):
        (loss_of(net, *part) / 4).backward()
        if each or i == 3:
            clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, clipped_by_norm(slopes))


def test_clipping_part_by_part_leaves_the_gradients_before_all_of_it(watch):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    (batch,) = batches(1)
    slopes = truth(net, batch)
    loss_of(net, *batch).backward()
    for p in net.parameters():
        clip_grad_norm_(p, 0.1)
    optimizer.step()
    monitor.close()
    each = {n: clipped_by_norm({n: g}, 0.1)[n] for n, g in slopes.items()}
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, each)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("unscale", [False, True])
def test_gradients_before_clipping_are_unscaled(watch, fused, unscale):
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    monitor, keep = watch(net, optimizer)
    (batch,) = batches(1)
    slopes = truth(net, batch)
    scaler.scale(loss_of(net, *batch)).backward()
    if unscale:
        scaler.unscale_(optimizer)
    clip_grad_norm_(net.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    monitor.close()
    # Clipped while still scaled, they come out smaller by the scale.
    applied = clipped_by_norm(slopes, 0.5 if unscale else 0.5 / 2**10)
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, applied)


def test_another_optimizers_scaler_does_not_divide_anything(watch):
    scaled, plain = make_net(), make_net()
    first = torch.optim.SGD(scaled.parameters(), lr=0.1)
    second = torch.optim.SGD(plain.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    monitor, keep = watch(plain, second)
    (batch,) = batches(1)
    slopes = truth(plain, batch)
    scaler.scale(loss_of(scaled, *batch)).backward()
    loss_of(plain, *batch).backward()
    scaler.step(first)
    clip_grad_norm_(scaled.parameters(), 0.1)
    clip_grad_norm_(plain.parameters(), 0.5)
    second.step()
    monitor.close()
    assert_measured(keep.readings[0], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[0], Kind.APPLIED_GRADIENT, clipped_by_norm(slopes))


def test_clipping_inside_a_closure_is_seen(watch):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer)
    expected = []
    for batch in batches(3):
        expected.append(truth(net, batch))

        def closure(batch=batch):
            optimizer.zero_grad()
            loss = loss_of(net, *batch)
            loss.backward()
            clip_grad_norm_(net.parameters(), 0.5)
            return loss

        optimizer.step(closure)
    monitor.close()
    for reading, slopes in zip(keep.readings, expected, strict=True):
        assert_measured(reading, Kind.GRADIENT, slopes)
        assert_measured(reading, Kind.APPLIED_GRADIENT, clipped_by_norm(slopes))


def test_by_default_applied_gradients_are_recorded_once_there_is_clipping(watch):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer, watch=None, diagnose=False)
    for i, batch in enumerate(batches(3)):
        optimizer.zero_grad()
        slopes = truth(net, batch)
        loss_of(net, *batch).backward()
        if i:
            clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    monitor.close()
    kinds = [{site.kind for site in reading.sites} for reading in keep.readings]
    assert [Kind.APPLIED_GRADIENT in each for each in kinds] == [False, True, True]
    assert_measured(keep.readings[-1], Kind.GRADIENT, slopes)
    assert_measured(keep.readings[-1], Kind.APPLIED_GRADIENT, clipped_by_norm(slopes))


def test_a_gradient_that_is_not_finite_is_recorded_as_it_was_before_clipping_spread_it(watch):
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor, keep = watch(net, optimizer, every=100, watch=[gradwatch.gradients()])
    for i, batch in enumerate(batches(3)):
        optimizer.zero_grad()
        loss_of(net, *batch).backward()
        if i == 1:
            net[2].bias.grad[0] = float("nan")
        clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    monitor.close()
    second = next(r for r in keep.readings if r.step == 2)
    bad = {
        site.path: second.summary.nan[i]
        for i, site in enumerate(second.sites)
        if site.kind is Kind.GRADIENT
    }
    assert bad == {"0/weight": 0, "0/bias": 0, "2/weight": 0, "2/bias": 1}


def test_training_is_bit_identical_and_torch_is_left_as_it_was(watch):
    helper = torch.nn.utils.clip_grad._group_tensors_by_device_and_dtype
    scale = torch.amp.GradScaler.scale

    def train(watched):
        net = make_net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu")
        monitor = watch(net, optimizer, every=2)[0] if watched else None
        norms = []
        for batch in batches(50):
            optimizer.zero_grad()
            scaler.scale(loss_of(net, *batch)).backward()
            scaler.unscale_(optimizer)
            norms.append(clip_grad_norm_(net.parameters(), 0.5))
            scaler.step(optimizer)
            scaler.update()
        if monitor is not None:
            monitor.close()
        return [*norms, *net.parameters()]

    for bare, watched in zip(train(False), train(True), strict=True):
        assert torch.equal(bare, watched)
    assert torch.nn.utils.clip_grad._group_tensors_by_device_and_dtype is helper
    assert torch.amp.GradScaler.scale is scale
