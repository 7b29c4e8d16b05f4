"""Notes what passes the taps of a step, where values can be kept until its end."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from gradwatch.capture.taps.calls import gradient_notices
from gradwatch.capture.taps.passage import Passage
from gradwatch.capture.user_taps.routing import has_gradient, kind_of, recorded
from gradwatch.capture.user_taps.tap_rows import TapMark, TapRows, not_recorded, twice_used
from gradwatch.core import Kind, Tensor
from gradwatch.measure import family, framework
from gradwatch.util import Reporter

MOST_NOTED = 4096
"""Tensors of one step, at most: an evaluation may run with gradients enabled."""

numbers = itertools.count(1)
"""Of all calls of taps, or of the places in a compiled function where taps are called."""


@dataclass(eq=False)
class Noted(Passage):
    """A tensor that has passed a tap, and its gradient: tensors, or packed summaries of them.

    `number` grows in the order of the forward pass. `backward` is the backward pass in which it was
    noted, if it was: compiled functions measure late, and the last call first.
    """

    name: str = ""
    number: int = 0
    backward: int | None = None
    arrived_in: int | None = None
    """The backward pass in which its gradient was noted."""
    stream: Any = None
    """Of a residual branch: what it is added to."""
    is_packed: bool = False
    call: int = 1


class TapCollector:
    """Collects what passes taps; see `TapState`.

    `why_none` is the reason if nothing can be recorded. If `keeps_tensors`, copies are kept, and
    not measured as they pass.
    """

    def __init__(self, why_none: str | None = None, keeps_tensors: bool = False) -> None:
        self.keeps_tensors = keeps_tensors
        self._why_none = why_none
        self._noted: list[Noted] = []
        self._tickets: WeakValueDictionary[int, Noted] = WeakValueDictionary()
        self._last: dict[str, Noted] = {}
        self._notices: list[str] = []
        self._whys: dict[tuple[str, str], None] = {}
        self._tap: Any = None
        self.bound: set[str] = set()
        """Names that arrays of JAX have passed."""
        self.compiled: set[str] = set()
        """Names in functions that were compiled since the last step."""
        self.reporter = Reporter(self._notices.append)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Goes around a step; TensorFlow is asked for gradients only while it lasts."""
        around: Any = nullcontext()
        if "tensorflow" in sys.modules:
            from gradwatch.capture.taps.tensorflow_tap import TensorFlowTap

            self._tap = TensorFlowTap(self.reporter)
            around = self._tap.watching()
        with around:
            yield

    def refuse(self, name: str, why: str) -> None:
        """Tell at the end of the step why a tap is not recorded, unless it was noted elsewhere."""
        self._whys[name, why] = None

    def whys(self) -> list[tuple[str, str]]:
        """Names of taps, and why they are not recorded."""
        return list(self._whys)

    def is_refused(self, name: str) -> bool:
        return any(name == each for each, _ in self._whys)

    def add(self, noted: Noted) -> int:
        """Keep it; returns a number by which `noted` finds it."""
        why = self._why_none
        if len(self._noted) >= MOST_NOTED:
            why = f"more than {MOST_NOTED} tensors passed taps in one step."
        if why is not None:
            self.refuse(noted.name, why)
            return 0
        self._last[noted.name] = noted
        self._noted.append(noted)
        ticket = next(numbers)
        self._tickets[ticket] = noted
        return ticket

    @property
    def is_empty(self) -> bool:
        return not self._noted

    def noted(self, ticket: int) -> Noted | None:
        return self._tickets.get(ticket)

    def last(self, name: str) -> Noted | None:
        """What was noted last under a name."""
        return self._last.get(name)

    def note(self, x: Tensor, name: str, stream: Tensor = None) -> Tensor:
        """Note a tensor of TensorFlow or NumPy."""
        try:
            own = family(x)
            if _is_for_shapes():
                return x
            if own is None or "float" not in str(getattr(x, "dtype", "")):
                what = f"dtype={x.dtype}" if hasattr(x, "dtype") else type(x).__name__
                self.refuse(name, f"taps measure tensors of floats. Received: {what}")
            else:
                self._note(own, x, name, stream)
        except Exception as error:
            self.reporter.internal_error(error, "noting what passes a tap", f"the tap {name!r}")
        return x

    def _note(self, own: str, x: Tensor, name: str, stream: Tensor) -> None:
        wants_gradient = own == "tensorflow" and has_gradient(name)
        noted = Noted(name=name, number=next(numbers), wants_gradient=wants_gradient)
        noted.stream = stream
        noted.output = x
        if own == "tensorflow" and self._tap is not None:
            try:
                self._tap.through(x, noted)
            except TypeError as error:
                self.refuse(name, f"taps measure dense tensors. Received: {error}")
                return
        self.add(noted)

    def take(self) -> TapRows:
        """The summaries of all that was noted; on TensorFlow, inside of the step."""
        # Keras calls a recurrent cell once outside of its loop, too, for its shapes.
        lost = {noted.name for noted in self._noted if not self._can_leave(noted)}
        self._noted = [noted for noted in self._noted if noted.name not in lost]
        kept = self.in_order()
        wanted = {n.name: n for n in kept if n.wants_gradient}
        missing: dict[str, Passage] = {n: x for n, x in wanted.items() if not x.arrivals}
        often = [name for name, noted in wanted.items() if noted.arrivals > 1]
        for notice in gradient_notices(missing, often):
            self.reporter.notice(notice)
        names = {noted.name for noted in kept}
        self._check_compiled(names)
        refused = [not_recorded(name, why) for name, why in self._whys if name not in names]
        return TapRows(self._parts(kept), [*refused, *self._notices])

    def only_notices(self) -> TapRows:
        return TapRows(notices=self._notices)

    def in_order(self) -> list[Noted]:
        """In the order of the forward pass, with the calls of each name counted."""
        late: dict[int, list[Noted]] = {}
        for noted in self._noted:
            if noted.backward is not None:
                late.setdefault(noted.backward, []).append(noted)
        ordered = [noted for noted in self._noted if noted.backward is None]
        ordered += [noted for several in late.values() for noted in reversed(several)]
        # The first call of each place in a compiled function comes before all second calls.
        times: Counter[int] = Counter()
        keyed = []
        for noted in ordered:
            times[noted.number] += 1
            keyed.append(((times[noted.number], noted.number), noted))
        keyed.sort(key=lambda pair: pair[0])
        calls: Counter[str] = Counter()
        numbers_of: dict[tuple[str, int | None], int] = {}
        for _, noted in keyed:
            calls[noted.name] += 1
            noted.call = calls[noted.name]
            # Micro-batches have backward passes of their own; calls of one compiled function are
            # meant.
            if not self.keeps_tensors and (noted.arrivals or not noted.is_packed):
                known = numbers_of.setdefault((noted.name, noted.arrived_in), noted.number)
                if known != noted.number:
                    self.reporter.notice(twice_used(noted.name))
        return [noted for _, noted in keyed]

    def _check_compiled(self, names: set[str]) -> None:
        """Tell of taps that are in a compiled function, but did not run with it."""
        for name in sorted(self.compiled - names):
            if self.is_refused(name):
                continue
            self.refuse(
                name,
                "it is in a compiled function, but was not reached: the loss does not depend on "
                "its tensor, or it is in a branch that was not taken.",
            )
        self.compiled.clear()

    def _can_leave(self, noted: Noted) -> bool:
        tensors = [x for x in (noted.output, noted.gradient, noted.stream) if x is not None]
        if self._tap is None or noted.is_packed or all(map(self._tap.can_leave, tensors)):
            return True
        self.refuse(
            noted.name,
            "it is inside a loop, a branch or a function compiled on its own, which TensorFlow "
            "lets no tensor out of. Put the tap behind it.",
        )
        return False

    def _parts(self, kept: list[Noted]) -> list[tuple[list[TapMark], Any]]:
        """The rows of the noted tensors: outputs, each followed by its gradient."""
        packed: dict[Any, list[tuple[TapMark, Any]]] = {}
        others: list[tuple[TapMark, Any]] = []
        for noted in kept:
            kinds = [(kind_of(noted.name), _recorded(noted))]
            if noted.wants_gradient:
                kinds.append((Kind.OUTPUT_GRADIENT, noted.gradient))
            for kind, x in kinds:
                mark = TapMark(kind, noted.name, noted.call)
                if noted.is_packed and x is not None:
                    packed.setdefault(x.device, []).append((mark, x))
                else:
                    others.append((mark, x))
        parts = []
        for rows in packed.values():
            marks = [mark for mark, _ in rows]
            parts.append((marks, sys.modules["torch"].stack([row for _, row in rows])))
        if others:
            known = next((x for _, x in others if x is not None), None)
            own = framework((None if known is None else family(known)) or "torch")
            rows = own.measure([x for _, x in others])[0]
            parts.append(([mark for mark, _ in others], rows))
        return parts


def _is_for_shapes() -> bool:
    """Whether Keras builds a model, and works out nothing but shapes."""
    keras: Any = sys.modules.get("keras.src.backend.common.symbolic_scope")
    return keras is not None and bool(keras.in_symbolic_scope())


def _recorded(noted: Noted) -> Any:
    """What is measured of a tensor; of torch, it has been already."""
    own = None if noted.is_packed else family(noted.output)
    if own is None:
        return noted.output
    return recorded(framework(own), noted.output, noted.name, noted.stream)
