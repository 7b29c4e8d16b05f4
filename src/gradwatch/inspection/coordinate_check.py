"""`gradwatch.coordinate_check`: do outputs keep their size while a model gets wider?"""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwatch.core import Kind, Reading, finite
from gradwatch.core import select as selectors
from gradwatch.inspection.coordinates import CoordinateCheck, LayerScaling
from gradwatch.record import Monitor, watch
from gradwatch.sinks import Sink
from gradwatch.util import suggests_arguments
from gradwatch.util.text_table import table_text
from gradwatch.watches import outputs

LossFunction = Callable[[Any, Any], Any]
FEWEST_WIDTHS = 3
"""Of two, nobody knows how certain a slope is."""


@suggests_arguments({"model": "make_model=", "data": "batch=", "seeds": "repeats=", "lr": ""})
def coordinate_check(
    make_model: Callable[[int], Any],
    widths: Sequence[int],
    batch: Sequence[Any],
    *,
    loss: LossFunction | None = None,
    layers: Sequence[selectors.Spec] | selectors.Spec = (),
    steps: int = 4,
    repeats: int = 3,
    tolerance: float = 0.15,
    show: bool = True,
) -> CoordinateCheck:
    """Train models of several widths for a few steps, and compare the sizes of their outputs.

    This is the coordinate check of muP (arXiv 2203.03466): if initialisation and learning rates
    are scaled rightly with the width, the mean absolute output of each layer depends on the
    width neither at the start nor after some steps, and a learning rate that is found on a
    narrow model holds for a wide one. In the standard parametrisation some grow.

    Args:
        make_model: a function of the width. It returns a compiled Keras model, or a pair of
            a `torch.nn.Module` and its optimizer. It is called once for each model; seed it to
            get the same numbers again.
        widths: at least three, such as `[64, 128, 256, 512]`.
        batch: a pair of inputs and targets, as `train_on_batch` or `loss` take them. Every step
            uses this batch. For torch, inputs in a tuple, list or dict are the arguments.
        loss: for torch, a function of the module's output and the targets.
        layers: which layers, see `gradwatch.select`; all by default.
        steps: how many steps to train. The outputs of the first are those at initialisation.
        repeats: how many models of each width, to know how certain a slope is.
        tolerance: how far from 0 a slope may be, beyond two standard errors.
        show: whether to print the result.

    Returns:
        The sizes and slopes; `.ok` is False if a layer grows, `.plot()` draws them.

    Raises:
        TypeError: what `make_model` returns is neither.
        ValueError: an argument is out of range, or the models differ in more than their width.

    Example:

    >>> import torch, gradwatch
    >>> _ = torch.manual_seed(0)
    >>> def make_model(width):
    ...     module = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Linear(width, 1))
    ...     return module, torch.optim.Adam(module.parameters(), lr=0.1)
    >>> batch = torch.randn(16, 8), torch.randn(16, 1)
    >>> mse = torch.nn.functional.mse_loss
    >>> found = gradwatch.coordinate_check(make_model, [32, 64, 128], batch, loss=mse, show=False)
    >>> found.ok, [layer.path for layer in found.of("grows")]
    (False, ['1'])
    """
    widths = _checked(widths, batch, steps, repeats)
    chosen = (layers,) if isinstance(layers, str) or not isinstance(layers, Sequence) else layers
    paths: list[str] = []
    sizes: list[NDArray[np.float64]] = []
    for width in widths:
        for _ in range(repeats):
            own = _train(make_model(width), batch, loss, tuple(chosen), steps)
            paths = paths or list(own)
            if len(own) != len(paths):
                raise ValueError(
                    f"The models must differ in their width only. The first has {len(paths)} "
                    f"outputs of layers, one of width {width} has {len(own)}."
                )
            # By their order, since Keras numbers the names of later models on.
            sizes.append(np.array(list(own.values())))
    by_layer = np.stack(sizes, axis=-1).reshape(len(paths), steps, len(widths), repeats)
    found = CoordinateCheck(
        widths,
        steps,
        repeats,
        [
            LayerScaling.of(path, widths, own, tolerance)
            for path, own in zip(paths, by_layer, strict=True)
        ],
    )
    if show:
        sys.stdout.write(table_text(found.columns(), sys.stdout, title=found.title()))
    return found


def _checked(widths: Sequence[int], batch: Sequence[Any], steps: int, repeats: int) -> list[int]:
    found = sorted(set(map(int, widths)))
    if len(found) < FEWEST_WIDTHS or found[0] < 1:
        raise ValueError(f"widths must be at least three different ones. Received: {widths}")
    if steps < 2 or repeats < 1:
        raise ValueError(
            f"steps must be >= 2, and repeats >= 1. Received: steps={steps}, repeats={repeats}"
        )
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ValueError(
            f"batch must be a pair of inputs and targets. Received: {type(batch).__name__}"
        )
    return found


def _train(
    model: Any, batch: Sequence[Any], loss: LossFunction | None, layers: Any, steps: int
) -> dict[str, list[float]]:
    """The mean absolute output of each layer at each step."""
    kept = _OutputSizes()
    keras = sys.modules.get("keras")
    with tempfile.TemporaryDirectory(prefix="gradwatch-widths-") as directory:
        monitor = Monitor(directory, watch=outputs(*layers, every=1), sinks=[kept], diagnose=False)
        if keras is not None and isinstance(model, keras.Model):
            _fit(keras, model, batch, steps, monitor)
        else:
            module, optimizer = _pair(model)
            if loss is None:
                raise ValueError("A torch module needs a loss: loss=torch.nn.functional.mse_loss")
            watch(module, optimizer, monitor)
            _loop(module, optimizer, batch, loss, steps, monitor)
    sizes = kept.sizes
    if not sizes or any(len(own) != steps for own in sizes.values()):
        raise ValueError(
            "There is no layer whose outputs were measured at every step: see the warnings, and "
            "docs/outputs.md."
        )
    return sizes


def _fit(keras: Any, model: Any, batch: Sequence[Any], steps: int, monitor: Monitor) -> None:
    x, y = batch
    size = len(keras.tree.flatten(x)[0])
    with monitor:
        model.fit(
            x, y, batch_size=size, epochs=steps, shuffle=False, verbose=0, callbacks=[monitor]
        )


def _pair(made: Any) -> tuple[Any, Any]:
    torch = sys.modules.get("torch")
    if isinstance(made, tuple) and len(made) == 2 and torch is not None:
        module, optimizer = made
        if isinstance(module, torch.nn.Module) and isinstance(optimizer, torch.optim.Optimizer):
            return module, optimizer
    raise TypeError(
        "make_model(width) must return a compiled Keras model, or a pair of a torch.nn.Module "
        f"and a torch.optim.Optimizer. Received: {made!r:.200}"
    )


def _loop(
    module: Any,
    optimizer: Any,
    batch: Sequence[Any],
    loss: LossFunction,
    steps: int,
    monitor: Monitor,
) -> None:
    inputs, targets = batch
    with monitor:
        for _ in range(steps):
            optimizer.zero_grad()
            if isinstance(inputs, Mapping):
                output = module(**inputs)
            else:
                output = module(*inputs) if isinstance(inputs, tuple | list) else module(inputs)
            loss(output, targets).backward()
            optimizer.step()


class _OutputSizes(Sink):
    """Keeps the mean absolute output of each layer, infinite where an element is not finite."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[float]] = {}

    def write(self, reading: Reading) -> None:
        summary = reading.summary
        many = finite(summary)
        for i, site in enumerate(reading.sites):
            if site.kind is Kind.OUTPUT and summary.count[i]:
                is_finite = many[i] == summary.count[i]
                size = float(summary.sum_abs[i] / many[i]) if is_finite else float("inf")
                self.sizes.setdefault(site.path, []).append(size)
