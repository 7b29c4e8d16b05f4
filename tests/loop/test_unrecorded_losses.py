"""The losses of a torch loop that records none are those that it differentiates."""

import numpy as np
import pytest

import gradwatch

torch = pytest.importorskip("torch")


def train(
    directory, record, steps=12, before_backward=lambda module: None, parts=1, hook=None, **options
):
    """The losses of the steps, the module, and the run of a loop that is watched."""
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    options = {"every": 5, "sinks": [gradwatch.Store()]} | options
    monitor = None
    if directory is not None:
        monitor = gradwatch.watch(module, optimizer, directory, **options)
    if hook is not None:
        optimizer.register_step_post_hook(hook)
    losses = []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        before_backward(module)
        for _ in range(parts):
            x = torch.randn(16, 4)
            loss = (module(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            record(monitor, step, loss)
    if monitor is not None:
        monitor.close()
    return losses, module, monitor


def recorded(directory):
    steps, values = gradwatch.open(directory).series("loss", "loss", "value")
    return steps.tolist(), values.tolist()


def nothing(monitor, step, loss):
    pass


def test_each_loss_is_recorded_once_and_is_the_one_that_was_differentiated(tmp_path):
    losses, _, monitor = train(tmp_path, nothing, steps=40)
    assert recorded(tmp_path) == (list(range(1, 41)), losses)
    assert monitor.verdict.is_known


def test_the_steps_before_losses_are_recorded_stay_in_the_run(tmp_path):
    module = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    monitor = gradwatch.watch(module, optimizer, tmp_path, every=1, sinks=[gradwatch.Store()])
    for _ in range(6):
        optimizer.zero_grad()
        module(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    monitor.close()
    run = gradwatch.open(tmp_path)
    for kind in ("loss", "gradient"):
        rows = run.sql(f"select distinct step from summaries where kind = '{kind}' order by step")
        assert [step for (step,) in rows.fetchall()] == [1, 2, 3, 4, 5, 6]


def test_training_is_the_same_to_the_bit(tmp_path):
    losses, module, _ = train(tmp_path, nothing)
    bare, other, _ = train(None, nothing)
    assert losses == bare
    for own, same in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(own, same)


def test_losses_that_the_loop_records_are_the_only_ones(tmp_path):
    train(tmp_path, lambda monitor, step, loss: monitor.record(loss=2.0 * loss.item()))
    steps, values = recorded(tmp_path)
    assert steps == list(range(1, 13))
    losses = train(None, nothing)[0]
    np.testing.assert_allclose(values, 2.0 * np.array(losses), rtol=1e-6)


def test_other_hooks_of_the_optimizer_go_on_when_no_more_losses_are_wanted(tmp_path):
    called = []
    train(
        tmp_path,
        lambda monitor, step, loss: monitor.record(loss=loss),
        hook=lambda *_: called.append(True),
    )
    assert len(called) == 12


def test_a_loss_that_is_recorded_now_and_then_takes_the_place_of_the_other(tmp_path):
    def record(monitor, step, loss):
        if step % 6 == 0:
            monitor.record(loss=100.0)

    losses, _, _ = train(tmp_path, record)
    wanted = [100.0 if step % 6 == 0 else losses[step - 1] for step in range(1, 13)]
    assert recorded(tmp_path) == (list(range(1, 13)), wanted)


@pytest.mark.parametrize("case", ["parts", "foreign", "undiagnosed"])
def test_what_may_not_be_the_loss_of_a_step_is_left_out(tmp_path, case):
    other = torch.nn.Linear(4, 1)

    def differentiate_another(module):
        other(torch.randn(16, 4)).square().mean().backward()

    options = {
        "parts": {"parts": 2},
        "foreign": {"before_backward": differentiate_another},
        "undiagnosed": {"diagnose": False},
    }[case]
    train(tmp_path, nothing, **options)
    assert not any(site.kind is gradwatch.Kind.LOSS for site in gradwatch.open(tmp_path).sites())


def test_nothing_listens_after_the_run(tmp_path):
    before = torch.autograd.backward
    train(tmp_path, nothing)
    assert torch.autograd.backward is before
