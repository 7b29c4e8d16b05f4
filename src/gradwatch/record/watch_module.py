"""Watching plain torch training in one line."""

from inspect import signature
from pathlib import Path
from typing import Any

from gradwatch.core import TorchModule, TorchOptimizer
from gradwatch.record.monitor import Monitor
from gradwatch.record.monitor_arguments import MONITOR_SYNONYMS
from gradwatch.util import suggests_arguments


@suggests_arguments(
    {**MONITOR_SYNONYMS, "model": "module=", "optim": "optimizer=", "name": "group="},
    more=[name for name in signature(Monitor.__init__).parameters if name != "self"],
)
def watch(
    module: TorchModule,
    optimizer: TorchOptimizer,
    directory: str | Path | Monitor | None = None,
    *,
    group: str | None = None,
    **options: Any,
) -> Monitor:
    """Watch a `torch.nn.Module` while a torch optimizer trains it.

    Each call of `optimizer.step()` is a step. Gradients are accumulated and unscaled (a
    `GradScaler`'s scale is divided out), and read before `torch.nn.utils.clip_grad_norm_` or the
    like clips them; `applied_gradients` when the step begins, weights when it has ended. A
    step that a `GradScaler` skips is not a call, and not counted. With a closure
    (`LBFGS`), the gradient is that of the closure's last evaluation.

    The module itself is not touched, so `torch.compile` is not disturbed; until the run is
    closed, outputs of submodules are seen through torch's hook for all modules, unless they
    are compiled, and `torch.autograd.backward` looks at the loss before it begins, as clipping
    functions do at the gradients. Only where
    `outputs` or `output_gradients` are asked for, the chosen submodules get hooks of their
    own, also inside of a compiled module that was not called yet, and a warning says what cannot be seen. A step that is not finite is recorded with
    the first tensor that was not, due or not. For the loss and the epoch, call
    `monitor.record(loss=loss, epoch=epoch)` after the step. Of a loop that records no losses, those
    that it differentiates are recorded, if each step has one backward pass.

    Args:
        module: the module; also a compiled one, one wrapped in `DistributedDataParallel`, or
            sharded by `fully_shard`: there, call this on every rank. See docs/distributed.md.
        optimizer: the optimizer of its parameters; those it does not hold are not
            recorded.
        directory: where the run is kept, as for `Monitor`; or a `Monitor`, so that
            several optimizers are in one run, each with its `group`.
        group: a name that the paths of all that is recorded here begin with.
        options: those of `Monitor`: `every`, `budget`, `layers`, `watch`, `sinks`, `diagnose`,
            `on_finding`, `stop_on`.

    Returns:
        The monitor. Its `close()` removes the hooks.

    Raises:
        TypeError, ValueError: module and optimizer do not belong together, or a
            selector matches nothing.

    Example:

    >>> import gradwatch, tempfile, torch
    >>> module = torch.nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    >>> monitor = gradwatch.watch(module, optimizer, tempfile.mkdtemp(), every=1,
    ...                           sinks=[gradwatch.CSV()], diagnose=False)
    >>> loss = module(torch.ones(2, 3)).square().mean()
    >>> loss.backward()
    >>> _ = optimizer.step()
    >>> monitor.record(loss=loss)
    >>> monitor.close()
    >>> lines = (monitor.directory / "summaries.csv").read_text().splitlines()[1:]
    >>> [line.split(",")[3:5] for line in lines]
    [['weight', 'weight'], ['gradient', 'weight'], ['weight', 'bias'], ['gradient', 'bias'], ['loss', 'loss']]
    """  # noqa: E501
    if isinstance(directory, Monitor):
        if options:
            raise TypeError(f"The monitor has its options already. Received: {', '.join(options)}")
        monitor = directory
    else:
        monitor = Monitor(directory, **options)
    monitor._loop.watch_torch(module, optimizer, group)
    return monitor
