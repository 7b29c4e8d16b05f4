"""Steps of a torch optimizer for which there are no gradients."""

import torch

import gradwatch
from gradwatch import Kind


class Kept(gradwatch.Sink):
    def __init__(self):
        self.readings = []

    def write(self, reading):
        self.readings.append(reading)


def recorded(directory, has_loss, steps=12, every=2):
    """The measured steps, those with a loss, and the findings."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        x = torch.randn(8, 3)
    optimizer, kept, found = torch.optim.SGD(module.parameters(), lr=0.1), Kept(), []
    options = {"every": every, "sinks": [kept], "on_finding": found.append}
    with gradwatch.watch(module, optimizer, directory, **options):
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            if has_loss(step):
                module(x).square().mean().backward()
            optimizer.step()
    # The first step is always measured.
    kept.readings = [reading for reading in kept.readings if reading.step > 1]
    measured = [r.step for r in kept.readings if any(s.kind is Kind.WEIGHT for s in r.sites)]
    losses = [r.step for r in kept.readings if any(s.kind is Kind.LOSS for s in r.sites)]
    return measured, losses, {finding.rule for finding in found}


def test_steps_that_a_trainer_skips_are_not_recorded(tmp_path):
    # As Lightning does, where training_step returns None: just where steps are due.
    measured, losses, rules = recorded(tmp_path, lambda step: step % 2 == 1)
    assert measured == []
    assert losses == [3, 5, 7, 9, 11]
    assert "stalled-weights" not in rules


def test_a_training_that_stops_to_learn_is_seen(tmp_path):
    measured, _, _ = recorded(tmp_path, lambda step: step <= 4)
    # The first of those without a loss may be one that was skipped.
    assert measured == [2, 4, 8, 10, 12]


def test_a_loop_without_any_backward_pass_is_recorded(tmp_path):
    measured, _, _ = recorded(tmp_path, lambda step: False)
    assert measured == [2, 4, 6, 8, 10, 12]
