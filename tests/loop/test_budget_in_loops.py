"""The default schedule in hand-written loops, in a clock's time."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import gradwatch
from gradwatch.record import session as session_module
from gradwatch.watches.budget import Pacer, floor, is_in_floor


class World:
    """A monitor, and a clock that only the loop moves."""

    def __init__(self, monkeypatch, directory, **options):
        self.now = 0.0
        monkeypatch.setattr(
            session_module,
            "make_pacer",
            # These loops take no time at all, so that no sink could ever keep up.
            lambda budget, *_: Pacer(budget, clock=lambda: self.now),
        )
        # Nor do steps of a second end the floor.
        monkeypatch.setattr(floor, "SECONDS", np.inf)
        monkeypatch.setattr(floor, "BLIND_SECONDS", np.inf)
        self.due = set()
        self.monitor = gradwatch.Monitor(directory, sinks=[], **options)

    def is_due(self, step, **where):
        is_due = self.monitor.due(step, **where)
        self.due |= {step} if is_due else set()
        return is_due

    def assert_settled(self, interval, added, until):
        cost = self.monitor.cost
        self.monitor.close()
        assert cost.interval == interval
        assert cost.added_seconds == pytest.approx(added)
        steps = range(cost.since_step, until + 1)
        expected = {s for s in steps if s % interval == 0 or is_in_floor(s)}
        later = {s for s in self.due if s in steps}
        assert later <= expected
        # After the first twenty, some are left out to compare with.
        assert all(20 < s < 50 for s in expected - later)


WEIGHTS = {"layer": {"kernel": np.ones((2, 2))}}


def test_record_finds_the_densest_interval_within_the_budget(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    for step in range(1, 601):
        is_due = world.is_due(step)
        world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS)
        world.now += 1.0 + (0.03 if is_due else 0.0)
    world.assert_settled(5, 0.03, 600)


def test_a_step_that_is_measured_before_it_is_recorded_counts_as_measured(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    kernel = {"kernel": jnp.ones(3)}
    for step in range(1, 401):
        # Two compiled steps, of which `due` chooses.
        is_due = world.is_due(step)
        world.now += 1.0 + (0.15 if is_due else 0.0)
        if is_due:
            world.monitor.record(
                world.monitor.measure(gradients=kernel, parameters=kernel), step=step
            )
        else:
            world.monitor.record(loss=0.5, step=step)
    world.assert_settled(20, 0.15, 400)


def test_watched_torch_training_finds_its_interval(monkeypatch, tmp_path):
    # A finding would have it look closer, and this loss falls for ever.
    world = World(monkeypatch, tmp_path, diagnose=False)
    module = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    gradwatch.watch(module, optimizer, world.monitor)
    for step in range(1, 601):
        is_due = world.is_due(step)
        optimizer.zero_grad()
        module(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        world.now += 1.0 + (0.03 if is_due else 0.0)
    world.assert_settled(5, 0.03, 600)


def test_of_two_groups_in_turn_the_time_of_both_is_a_step(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    for step in range(1, 401):
        for group in ("generator", "discriminator"):
            is_due = world.is_due(step, group=group)
            world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS, group=group)
            world.now += 0.5 + (0.03 if is_due else 0.0)
    assert world.monitor.cost.step_seconds == pytest.approx(1.0)
    world.assert_settled(10, 0.06, 400)


def test_what_happens_between_epochs_is_not_taken_for_a_step(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    for step in range(1, 601):
        epoch = (step - 1) // 20
        is_due = world.is_due(step, epoch=epoch)
        world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS, epoch=epoch)
        world.now += 1.0 + (0.03 if is_due else 0.0)
        if step % 20 == 0:
            world.now += 100.0  # validation
    assert world.monitor.cost.interval == 5
    assert world.monitor.cost.step_seconds == pytest.approx(1.0)
    world.monitor.close()
    # The first of each epoch in any case.
    assert set(range(1, 601, 20)) <= world.due


def test_a_micro_batch_is_no_step(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    for step in range(1, 401):
        is_due = world.is_due(step)
        for part in range(2):
            world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS, step=step, micro_batch=part)
        world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS, step=step)
        world.now += 1.0 + (0.03 if is_due else 0.0)
    assert world.monitor.cost.step_seconds == pytest.approx(1.0)
    world.assert_settled(5, 0.03, 400)


def test_after_a_loss_that_jumps_the_next_steps_are_due(monkeypatch, tmp_path):
    world = World(monkeypatch, tmp_path)
    for step in range(1, 201):
        is_due = world.is_due(step)
        # Not one that is measured anyway: the training thread does not wait for that loss.
        loss = 50.0 if step == 151 else 1.0 + 0.1 * (step % 3)
        world.monitor.record(gradients=WEIGHTS, variables=WEIGHTS, loss=loss)
        world.now += 1.0 + (0.2 if is_due else 0.0)
    world.monitor.close()
    assert 151 not in world.due
    assert set(range(152, 172)) <= world.due
    assert not set(range(173, 175)) & world.due
