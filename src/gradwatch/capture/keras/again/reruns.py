"""Decides when kept steps are run again, and what is sent of them."""

from collections import deque
from collections.abc import Callable

from gradwatch.capture.keras.again.kept_steps import MOST_STEPS
from gradwatch.capture.keras.again.loss_breaks import LossBreaks
from gradwatch.capture.keras.again.step_keeper import StepKeeper
from gradwatch.capture.keras.again.step_search import Rerun, StepSearch
from gradwatch.util import Reporter


class Reruns:
    """Has steps measured that were not due: the first that is not finite, and rare jumps.

    `search` makes what runs steps again, None if that cannot be; it is told whether to wait if that
    is being compiled. `send` sends what came of it, and `say` prints a line.
    """

    def __init__(
        self,
        keeper: StepKeeper,
        search: Callable[[bool], StepSearch | None],
        send: Callable[[Rerun], object],
        say: Callable[[str], object],
        reporter: Reporter,
    ) -> None:
        self.keeper = keeper
        self._search = search
        self._send = send
        self._say = say
        self._reporter = reporter
        self._breaks = LossBreaks()
        self._measured: deque[int] = deque(maxlen=MOST_STEPS)

    def add_measured(
        self, step: int, is_harmed: Callable[[], bool], *, is_whole: bool = True
    ) -> None:
        """A step was measured, and is sent; the function waits and says if it did harm.

        One that is not whole may be run again for the rest of it.
        """
        if is_whole:
            self._measured.append(step)
        if self.keeper.kept.states:
            self._breaks.add_measured(step, is_harmed)

    def add_loss(self, step: int, loss: float | None, *, jumps: bool) -> None:
        """The loss of a step is known; on the thread that trains, between steps."""
        with self._reporter.guard("looking at a loss", "what may not have been finite"):
            if self._breaks.begins(step, loss):
                self._find_first_bad(step)
            elif jumps and step not in self._measured:
                self._run(lambda search: self._single(search, step), waits=False)
            self.keeper.kept.finite_until = self._breaks.finite_until

    def look_at_copies(self) -> None:
        """Find out where variables stopped being finite, if copies of the state show that."""
        step, self.keeper.harmed = self.keeper.harmed, None
        if step is not None:
            if self._breaks.harm():
                self._find_first_bad(step)
            self.keeper.kept.forget()

    def _single(self, search: StepSearch, step: int) -> Rerun | None:
        """The step of a loss that jumps; or where it began, if a layer turns NaN into 0."""
        rerun = search.single(step)
        is_bad = rerun is not None and rerun.moment is not None and search.is_bad(rerun.measured)
        return search.first_bad(step) if is_bad and self._breaks.harm() else rerun

    def _find_first_bad(self, step: int) -> None:
        """Send the first step up to this one, of those that are kept, that is not finite."""
        rerun = self._run(lambda search: search.first_bad(step))
        if rerun is not None:
            self._say(rerun.words(step))

    def _run(
        self, run: Callable[[StepSearch], Rerun | None], *, waits: bool = True
    ) -> Rerun | None:
        rerun = None
        with self._reporter.guard("running steps again", "the tensors of a step"):
            search = self._search(waits)
            rerun = None if search is None else run(search)
            # One that was measured is known already.
            if rerun is not None and rerun.moment and rerun.moment.step not in self._measured:
                self._send(rerun)
        return rerun
