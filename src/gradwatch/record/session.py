"""A run while it is recorded: its directory, its sinks, its diagnosis."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gradwatch.core import (
    Grouping,
    Kind,
    ModelFacts,
    Reading,
    ReportedLoss,
    Site,
    SiteFilter,
    SiteInfo,
)
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.diagnosis import Finding, Severity
from gradwatch.diagnosis.settings import Spec as DiagnosisSpec
from gradwatch.parallel import MEANING, SignsOfLife, agreement, ranks
from gradwatch.record.directory import RunDirectory
from gradwatch.record.monitor_arguments import as_announcer, as_place, as_sinks, as_watches
from gradwatch.sinks import Pipeline, RunInfo, Sink
from gradwatch.store.remote import Remote, as_remote
from gradwatch.util import Reporter, environment, say
from gradwatch.watches import Timetable, Watch, diagnosis_watches, number_watches
from gradwatch.watches.budget import Pacer

if TYPE_CHECKING:
    from gradwatch.store.remote import Uploader

BUDGET = 0.01
_BESIDE = frozenset({Kind.LOSS, Kind.SCALAR})
_directories = itertools.count()
"""Of those that nobody has named, so that processes agree on each."""


class Capture(Protocol):
    """What a session asks of what measures a training."""

    @property
    def next_step(self) -> int:
        """The first step that may be recorded."""

    def meaning(self) -> Mapping[Kind, str]:
        """The meaning of the measurements of each kind, in words."""

    def facts(self) -> ModelFacts:
        """The facts known about the model."""


class Source(Protocol):
    """A way to train that is recorded: `fit`, or a loop."""

    @property
    def reopens(self) -> bool:
        """Whether a run that was closed is opened again by the next step."""

    def stop(self) -> None:
        """The run is closed."""

    def infos(self) -> list[SiteInfo]:
        """The facts known about the measured sites."""


class Session:
    """Brings readings to the sinks and to the diagnosis, while it is open.

    It may be opened and closed repeatedly, by each `fit` for example. Its arguments are those of
    `Monitor`.

    Attributes:
        directory: where the run is kept.
        timetable: what is measured, and when.
        pacer: measures the cost, and chooses steps within the budget.
        reporter: tells the user about notices and internal errors.
        announcer: tells the user about findings; None without a diagnosis.
        rank: this process's among those that train together.
        sources: what is recorded; set once, before the first step.
        pipeline: the way to the sinks; None while it is closed.
        uploader: uploads the run; None if it stays on this machine.
    """

    def __init__(
        self,
        directory: str | Path | Remote | None,
        every: schedules.Spec | None,
        budget: float | None,
        layers: Sequence[selectors.Spec] | selectors.Spec | None,
        watch: Sequence[Watch] | Watch | None,
        sinks: Sequence[Sink] | Sink | None,
        diagnose: DiagnosisSpec,
        on_finding: Callable[[Finding], object] | None,
        stop_on: Severity | str | None,
    ) -> None:
        if every is not None and budget is not None:
            raise ValueError(
                "Give either every= or budget=: the steps to measure, or what that may cost. "
                f"Received: every={every!r}, budget={budget!r}"
            )
        watches = as_watches(layers, watch)
        if budget is None and every is None and any(w.every is None for w in watches):
            budget = BUDGET
        self.pacer = Pacer(budget, lambda: self.is_idle)
        schedule = self.pacer.schedule if every is None else schedules.as_schedule(every)
        self._remote = as_remote(directory)
        self.directory = as_place(directory, self._remote)
        self._is_named = directory is not None
        self.reporter = Reporter()
        self._shown = SiteFilter(lambda site: False)
        self.announcer = as_announcer(diagnose, on_finding, stop_on, self.reporter.notice)
        if self.announcer is not None:
            is_all_asked_for = layers is None and watch is None
            beside = frozenset() if is_all_asked_for else _BESIDE - {w.kind for w in watches}
            watches += [*(diagnosis_watches() if is_all_asked_for else []), *number_watches()]
            # Who says what to record gets that and nothing else.
            self._shown = SiteFilter(lambda site: site.kind in beside)
        self.timetable = Timetable(watches, schedule)
        self.rank = ranks.Rank()
        self.sources: Sequence[Source] = ()
        self.pipeline: Pipeline | None = None
        self.uploader: Uploader | None = None
        self._sinks = as_sinks(sinks)
        self._run: RunDirectory | None = None
        self._is_displaced = False
        """Whether another monitor has taken the directory, and will keep it."""
        self._grouping = Grouping({n: g for s in self._sinks for n, g in s.groups.items()})
        self._signs: SignsOfLife | None = None
        self._told_interval: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was measured is written, as far as anybody writes it."""
        if self.pipeline is None:
            return True
        # In this order: what is on its way through the pipeline comes to the diagnosis after it.
        return self.pipeline.is_idle and (self.announcer is None or self.announcer.live.is_idle)

    def open(self, capture: Capture) -> None:
        """Claim the directory and open the sinks, unless they are open.

        Without a directory, only the sinks that need none are opened.
        """
        if self.pipeline is not None:
            return
        self.rank = rank = ranks.current()
        self._claim(rank)
        self._upload()
        meaning = {**self.timetable.probe_meaning, **capture.meaning()}
        if rank.is_one_of_many and rank.measures_alike:
            self._signs = self._signs or SignsOfLife(rank.count)
            known = meaning.get(Kind.SCALAR)
            meaning[Kind.SCALAR] = f"{known}; {MEANING}" if known else MEANING
        run = RunInfo(
            self.directory,
            capture.next_step,
            meaning,
            lambda: self.pacer.cost().words(),
            rank.index,
        )
        sinks = [s for s in self._sinks if self._run is not None or not s.threaded]
        self.pipeline = Pipeline([s for s in sinks if rank.is_first or s.of_each_rank], say)
        self.pipeline.open(run)
        if self.announcer is not None:
            about = capture.facts()
            is_noted = self._run is not None and rank.is_first
            of_rank = None if rank.is_first else rank.index
            self.announcer.begin(about, self.directory if is_noted else None, of_rank)
            if self._run is not None:
                self._run.amend("model", about.to_json())
                self._run.amend("diagnose", self.announcer.settings.facts())
        if self._run is not None:
            with self.reporter.guard():
                self._run.describe(self._facts(run))
            self.tell_sites()

    def submit(
        self,
        make_reading: Callable[[], Reading | None],
        rows: int | None = None,
        unseen: frozenset[Site] = frozenset(),
        shown: Callable[[Reading], Reading] = lambda reading: reading,
    ) -> None:
        """Have a reading made and written.

        Args:
            make_reading: makes it; may wait for the device.
            rows: how many sites it will have, if known.
            unseen: sites that say nothing to a diagnosis.
            shown: leaves out what was measured for the diagnosis only.
        """
        if self.pipeline is None:
            return
        begun = time.perf_counter()
        made: list[Reading] = []
        # Of many processes, the first has what all have in common, and is the one to judge it;
        # others look at what is their own.
        has_own = self.rank.is_first or not self.rank.measures_alike
        live = self.announcer.live if self.announcer is not None and has_own else None

        def complete() -> Reading | None:
            reading = None
            try:
                reading = make_reading()
            finally:
                if live is not None:
                    live.take(
                        SiteFilter(unseen.__contains__)(reading) if reading and unseen else reading
                    )
            if reading is None:
                return None
            made.append(reading)
            is_written = self._signs is None or self.rank.is_first
            return self._grouping.attach(shown(reading)) if is_written else None

        self.announce()
        if live is not None:
            live.expect()
        if not self.pipeline.submit(complete, rows) and live is not None:
            live.take(None)
        if self._signs is not None:
            signs = self._signs
            # After it, on the same thread: so the step has been run, by all processes.
            self.pipeline.submit(lambda: signs.of(made[0], begun) if made else None, 1)
        if self._run is not None and not self._run.has_sites:
            self.tell_sites()

    def submit_fit(
        self, make_reading: Callable[[], Reading], rows: int, unseen: frozenset[Site]
    ) -> None:
        """Have a reading of `fit` made and written, without the sites nobody asked for."""
        self.submit(make_reading, rows, unseen, self._shown)

    def report(self, loss: ReportedLoss) -> None:
        """Tell the diagnosis the loss of a step, measured or not; on any thread."""
        if self.announcer is not None:
            self.announcer.live.report(loss)

    def end_epoch(self, epoch: int, logs: Mapping[str, float], last_step: int) -> None:
        """An epoch has ended, with these numbers, after that step."""
        if self.pipeline is not None:
            self.pipeline.epoch_end(epoch, logs)
            if self.announcer is not None:
                self.announcer.live.epoch_end(epoch, last_step, _numbers(logs))
                self.announce()
        cost = self.pacer.cost()
        if self._run is not None and cost.interval != self._told_interval:
            self._told_interval = cost.interval
            self._run.amend("cost", cost.facts())

    def announce(self) -> None:
        """Say what was found; on the thread that trains."""
        if self.announcer is not None:
            self.announcer.announce()

    def should_stop(self) -> bool:
        """Whether training is to stop; never for one of many processes, which would hang."""
        self.announce()
        if self.announcer is None or not self.announcer.should_stop:
            return False
        if self.rank.is_one_of_many:
            self.reporter.notice(
                "stop_on= is not followed in a training of several processes: the one that stopped "
                "would leave the others waiting. What was found is in monitor.findings of rank 0."
            )
            return False
        return True

    def tell_sites(self) -> None:
        """Enter what is known of the sites into the run's description."""
        with self.reporter.guard():
            if self._run is not None:
                self._run.tell_sites([info for s in self.sources for info in s.infos()])

    def may_measure(self, timetable: Timetable) -> bool:
        """Whether all processes of this training measure the same steps, where that matters."""
        why = agreement.refusal(timetable, self.pacer)
        if why is not None:
            self.reporter.notice(why)
        return why is None

    def forget(self) -> None:
        """Another model is trained from now on."""
        self.pacer.forget()
        if self.announcer is not None:
            self.announcer.live.forget()

    def close(self) -> None:
        """Stop measuring, write out all there is, within 2 seconds, and release the files."""
        for source in self.sources:
            with self.reporter.guard():
                source.stop()
        if self.pipeline is not None:
            with self.reporter.guard():
                try:
                    self.pipeline.close()
                finally:
                    self.pipeline = None
                for name in self._grouping.unmatched():
                    self.reporter.notice(f"The group {name!r} matched nothing that was recorded.")
        if self.announcer is not None:
            with self.reporter.guard():
                self.announcer.live.end()
                self.announce()
        if self._run is not None:
            self.tell_sites()
            with self.reporter.guard():
                self._run.amend("cost", self.pacer.cost().facts())
                self._run.amend("ended", _now())
            run, self._run = self._run, None
            run.release()
        if self.uploader is not None:
            self.uploader.close()
            self.uploader = None

    def _claim(self, rank: ranks.Rank) -> None:
        if not self._is_named:
            self._is_named = True  # Each process may have come by another name.
            key = f"directory/{next(_directories)}"
            self.directory = Path(ranks.agreed(rank, key, str(self.directory)) or self.directory)
        wished = self.directory
        try:
            # Two monitors of one loop must not take the directory from each other by turns.
            beside = wished.with_name(f"{wished.name}-2") if self._is_displaced else wished
            self._run = RunDirectory(beside, self._lose_directory, rank)
            self.directory = self._run.path
            if self.directory != wished:
                who = "monitor" if self._is_displaced else "process"
                say(f"{wished} is being written by another {who}. Writing to {self.directory}.")
            self._is_displaced = False
        except OSError as error:
            say(f"Cannot write to {wished}, so nothing is recorded there. {error}")

    def _lose_directory(self) -> None:
        self._is_displaced = any(source.reopens for source in self.sources)
        self.close()

    def _upload(self) -> None:
        """Have a run at a URL uploaded while it is recorded."""
        if self._remote is None or self._run is None:
            return
        if not self.rank.is_first and not self._run.training:
            self.reporter.notice(
                f"What rank {self.rank.index} records stays in {self.directory}: where the others "
                f"upload to cannot be known here. gradwatch upload {self.directory} uploads it."
            )
            return
        from gradwatch.store.remote import uploader_for

        with self.reporter.guard():
            self.uploader = uploader_for(
                self._remote, self.directory, self._run.training, self.rank.index
            )
            if self.rank.is_first:
                self.reporter.notice(
                    f"The run is kept in {self.directory} and uploaded to {self._remote.shown}."
                )

    def _facts(self, run: RunInfo) -> dict[str, Any]:
        """What `run.json` tells of this fit, or loop."""
        training = None if self.uploader is None else self.uploader.training
        return {
            "started": _now(),
            "first_step": run.first_step,
            **({"ranks": self.rank.count} if self.rank.is_one_of_many else {}),
            **({"training": training} if training else {}),
            "every": str(self.timetable.every),
            "watch": [str(w) for w in self.timetable.watches if not w.optional],
            "meaning": {str(kind): text for kind, text in run.meaning.items()},
            "environment": environment.describe(),
        }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _numbers(logs: Mapping[str, float]) -> dict[str, float]:
    """The numbers among what an epoch ended with."""
    return {name: float(x) for name, x in logs.items() if isinstance(x, int | float)}
