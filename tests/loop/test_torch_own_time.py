"""How long a rank is by itself, by a clock that goes as it is told."""

import copy
import pickle

import pytest
import torch

from gradwatch.capture.torch import torch_own_time
from gradwatch.capture.torch.torch_own_time import OwnTime


class Clock:
    now = 0.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(torch_own_time, "clock", clock)
    return clock


class Wrapper(torch.nn.Module):
    """As far as it matters, a DistributedDataParallel."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.require_backward_grad_sync = True

    def forward(self, seconds):
        self.clock.passes(seconds)
        return seconds


def hooked(clock, meets_in_forward=False):
    own, module = OwnTime(meets_in_forward), Wrapper(clock)
    module.register_forward_pre_hook(own.forward_begins)
    module.register_forward_hook(own.forward_ended)
    return own, module


def step(own, clock):
    own.step_begins()
    clock.passes(100.0)
    own.step_ended()


@pytest.mark.parametrize(("meets_in_forward", "expected"), [(False, 5.0), (True, 3.0)])
def test_it_ends_where_others_may_be_waited_for(clock, meets_in_forward, expected):
    own, module = hooked(clock, meets_in_forward)
    own.step_ended()
    clock.passes(3.0)
    module(2.0)
    clock.passes(50.0)
    step(own, clock)
    assert own.take() == expected
    assert own.take() is None


def test_it_is_the_mean_of_the_steps_since_it_was_asked(clock):
    own, module = hooked(clock)
    own.step_ended()
    for seconds in (1.0, 2.0, 6.0):
        module(seconds)
        clock.passes(10.0)
        step(own, clock)
    assert own.take() == 3.0


def test_passes_under_no_sync_are_its_own_up_to_the_last(clock):
    own, module = hooked(clock)
    own.step_ended()
    for is_synced in (False, False, True):
        module.require_backward_grad_sync = is_synced
        module(2.0)
        clock.passes(1.0)  # The backward pass.
    module(70.0)  # Of something else, after the ranks have met.
    step(own, clock)
    assert own.take() == 8.0


def test_a_pass_without_gradients_is_no_training(clock):
    own, module = hooked(clock)
    own.step_ended()
    with torch.no_grad():
        module(4.0)
    module(2.0)
    step(own, clock)
    assert own.take() == 6.0


def test_a_step_whose_module_was_not_called_is_left_out(clock):
    own, module = hooked(clock)
    own.step_ended()
    step(own, clock)
    assert own.take() is None
    module(2.0)
    step(own, clock)
    assert own.take() == 2.0


def test_a_module_with_its_hooks_can_be_copied_and_pickled(clock):
    own, module = OwnTime(False), torch.nn.Linear(2, 1)
    module.register_forward_pre_hook(own.forward_begins)
    module.register_forward_hook(own.forward_ended)
    x = torch.ones(1, 2)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), module(x))


def test_a_compiled_function_has_nothing_of_it(clock):
    own, module = OwnTime(False), torch.nn.Linear(2, 1)
    module.register_forward_pre_hook(own.forward_begins)
    module.register_forward_hook(own.forward_ended)
    own.step_ended()
    x = torch.ones(1, 2)
    whole = torch.compile(lambda x: module(x) * 2, backend="eager", fullgraph=True)
    assert torch.equal(whole(x), module(x) * 2)
