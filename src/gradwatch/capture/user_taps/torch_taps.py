"""Taps of torch, eager and inside of torch.compile.

In a compiled function a tap is an operation of its own in the graph. The operations are pure
functions: the compiler, checkpointing and torch's control flow may move or repeat them, and keep
them only because their results are used.
"""

from typing import Any
from weakref import finalize, ref

import torch

from gradwatch.capture.user_taps.routing import has_gradient, recorded
from gradwatch.capture.user_taps.tap_collector import Noted, TapCollector, numbers
from gradwatch.capture.user_taps.tap_state import STATE
from gradwatch.core import Tensor
from gradwatch.measure import framework

_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_UNSAFE = getattr(torch.Tag, "cudagraph_unsafe", None)
# Older versions have no such tag, and the oldest no argument for one.
_OPTIONS: dict[str, Any] = {"mutates_args": ()} | ({} if _UNSAFE is None else {"tags": (_UNSAFE,)})
_MEASURING = "measuring what passes a tap"

_TRANSFORMED = (
    "it is inside torch.func.vmap or another function of torch.func, where tensors stand for "
    "others. Put the tap outside of the function that is given to it, on its arguments or results."
)
_NO_GRAD = (
    "it was called under torch.no_grad() only, which is taken for an evaluation. Call the tap "
    "where gradients are computed."
)
_SPREAD = "its tensor is divided over processes, or of another class than torch.Tensor."
_NOT_FLOATS = "taps measure dense tensors of floats."


def through(x: Tensor, name: str, stream: Tensor = None) -> Tensor:
    """The tensor that goes on; called only while taps are measured."""
    if not torch.compiler.is_compiling():
        _note_eager(STATE.current, x, name, stream)
        return x
    why = _refusal(x)
    if why is not None:
        _refuse(name, why)
        return x
    _begin(name)
    number = _next_number()
    beside = x if stream is None else stream
    if x.requires_grad:
        return _CompiledTap.apply(x, beside.detach(), name, number)
    return torch.ops.gradwatch.tap_input(x, beside.detach(), name, number)


def _note_eager(collector: TapCollector, x: Tensor, name: str, stream: Tensor) -> None:
    """Note a tensor that has its values, and have its gradient noted by a hook of its own."""
    try:
        why = _refusal(x)
        if why is not None:
            collector.refuse(name, why)
            return
        backward, last = _backward(), collector.last(name)
        if backward is not None and last is not None and last.backward is None:
            return  # Checkpointing computes it again, for the gradient of the first time.
        noted = Noted(name=name, number=next(numbers), backward=backward, is_packed=True)
        noted.output = _row(recorded(framework("torch"), x, name, stream))
        noted.wants_gradient = x.requires_grad and has_gradient(name)
        collector.add(noted)
        if noted.wants_gradient:
            _listen(x, noted)
    except Exception as error:
        collector.reporter.internal_error(error, _MEASURING, f"the tap {name!r}")


def _listen(x: Tensor, noted: Noted) -> None:
    """Have the gradient noted, as long as what was noted is wanted: a parameter outlives it."""
    known = ref(noted)

    def hook(gradient: Tensor) -> None:
        noted = known()
        if noted is not None:
            _note_gradient(noted, gradient)

    handle = x.register_hook(hook)
    if x.is_leaf:
        finalize(noted, handle.remove)


class _CompiledTap(torch.autograd.Function):  # type: ignore[misc]
    """The identity; both passes measure what goes through.

    A copy goes on: nobody may change a view that such a function returns in place.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, beside: Tensor, name: str, number: int) -> Tensor:
        ctx.save_for_backward(torch.ops.gradwatch.tap(x.detach(), beside, name, number))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (ticket,) = ctx.saved_tensors
        return torch.ops.gradwatch.tap_gradient(gradient, ticket), None, None, None


@torch.library.custom_op("gradwatch::tap", **_OPTIONS)  # type: ignore[untyped-decorator]
def _tap(x: torch.Tensor, beside: torch.Tensor, name: str, number: int) -> torch.Tensor:
    return torch.tensor(_note_output(x, beside, name, number, wants_gradient=True))


@_tap.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, beside: torch.Tensor, name: str, number: int) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


@torch.library.custom_op("gradwatch::tap_gradient", **_OPTIONS)  # type: ignore[untyped-decorator]
def _tap_gradient(gradient: torch.Tensor, ticket: torch.Tensor) -> torch.Tensor:
    noted = STATE.noted(int(ticket))
    if noted is not None:
        _note_gradient(noted, gradient)
    return gradient.clone()


@_tap_gradient.register_fake  # type: ignore[untyped-decorator]
def _(gradient: torch.Tensor, ticket: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


@torch.library.custom_op("gradwatch::tap_input", **_OPTIONS)  # type: ignore[untyped-decorator]
def _tap_input(x: torch.Tensor, beside: torch.Tensor, name: str, number: int) -> torch.Tensor:
    """A copy of a tensor that needs no gradient: nothing else would keep the operation."""
    _note_output(x, beside, name, number, wants_gradient=False)
    return x.clone()


@_tap_input.register_fake  # type: ignore[untyped-decorator]
def _(x: torch.Tensor, beside: torch.Tensor, name: str, number: int) -> torch.Tensor:
    return torch.empty_like(x)


def _note_output(x: Tensor, beside: Tensor, name: str, number: int, wants_gradient: bool) -> int:
    collector = STATE.collector_of(name)
    if collector is None:
        return 0
    try:
        is_packed = not collector.keeps_tensors
        noted = Noted(name=name, number=number, backward=_backward(), is_packed=is_packed)
        noted.output = _kept(noted, recorded(framework("torch"), x, name, beside))
        noted.wants_gradient = wants_gradient and has_gradient(name)
        return collector.add(noted)
    except Exception as error:
        collector.reporter.internal_error(error, _MEASURING, f"the tap {name!r}")
        return 0


def _note_gradient(noted: Noted, gradient: Tensor) -> None:
    # Called in the midst of the user's backward pass: nothing may be raised.
    if not noted.wants_gradient:
        return
    try:
        noted.gradient, noted.arrived_in = _kept(noted, gradient), _backward()
        noted.arrivals += 1
    except Exception as error:
        STATE.current.reporter.internal_error(error, _MEASURING, f"the gradient of {noted.name!r}")


def _kept(noted: Noted, x: Tensor) -> Tensor:
    return _row(x) if noted.is_packed else x.detach().clone()


def _row(x: Tensor) -> Tensor:
    return framework("torch").measure_one(x.detach())


def _backward() -> int | None:
    """The number of the backward pass that is under way."""
    task: int = torch._C._current_graph_task_id()
    return None if task == -1 else task


def _refusal(x: Tensor) -> str | None:
    """Why a tensor is not measured; None if it is."""
    if _is_transformed():
        return _TRANSFORMED
    if type(x) not in _ORDINARY:
        return _SPREAD
    if not x.is_floating_point() or x.layout is not torch.strided:
        return _NOT_FLOATS
    return None if torch.is_grad_enabled() else _NO_GRAD


def _is_transformed() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


def _next_number() -> int:
    return next(numbers)


def _refuse(name: str, why: str) -> None:
    collector = STATE.collector_of(name)
    if collector is not None:
        collector.refuse(name, why)


def _begin(name: str) -> None:
    STATE.is_used = True
    collector = STATE.collector_of(name)
    if collector is not None:
        collector.compiled.add(name)


# Run when a function is compiled, not when it is called: the mark of
# torch.compiler.assume_constant_result, without importing the compiler.
for _function in (_is_transformed, _next_number, _refuse, _begin):
    vars(_function)["_dynamo_marked_constant"] = True
