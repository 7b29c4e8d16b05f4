"""A run while it is recorded: its directory, its sinks, and what is found in it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gradwatch.core import Grouping, Kind, Less, ModelFacts, Reading, Site, SiteInfo
from gradwatch.diagnosis import Announcer
from gradwatch.parallel import MEANING, SignsOfLife, ranks
from gradwatch.record.directory import RunDirectory
from gradwatch.sinks import Pipeline, RunInfo, Sink
from gradwatch.store.remote import Remote
from gradwatch.util import Reporter, environment, say
from gradwatch.watches import Timetable
from gradwatch.watches.budget import Pacer

if TYPE_CHECKING:
    from gradwatch.store.remote import Uploader

_directories = itertools.count()
"""Of those that nobody has named, so that processes agree on each."""


class Capture(Protocol):
    """What a recording asks of whoever measures."""

    @property
    def next_step(self) -> int:
        """The first step that may be recorded."""

    def meaning(self) -> Mapping[Kind, str]:
        """What the measurements of each kind are, in words."""

    def facts(self) -> ModelFacts:
        """What is known of the model."""


class Recording:
    """Takes readings to the sinks and to the diagnosis, while it is open.

    It may be opened and closed again and again, by each `fit`, say.

    Args:
        directory: the run's; whether somebody has chosen it is told by `is_named`.
        remote: where the run is uploaded to, if it is.
        sinks: where readings go.
        timetable: what is measured, and when: to describe the run.
        pacer: knows what that costs.
        announcer: tells of findings; None without a diagnosis.
        reporter: tells the user something in words.
        unharmed: a context out of which no fault of ours comes.
        infos: what is known of the sites by now.
        on_lost: called when another monitor takes the directory.
        is_named: whether the directory was chosen by the user, and so by all processes alike.

    Attributes:
        directory: where the run is kept.
        rank: this process's among those that train together.
        pipeline: the way to the sinks; None while it is closed.
        uploader: who uploads the run; None if nobody does.
        is_displaced: whether another monitor has taken the directory, and will keep it.
    """

    def __init__(
        self,
        directory: Path,
        remote: Remote | None,
        sinks: Sequence[Sink],
        timetable: Timetable,
        pacer: Pacer,
        announcer: Announcer | None,
        reporter: Reporter,
        *,
        unharmed: Callable[[], AbstractContextManager[None]],
        infos: Callable[[], list[SiteInfo]],
        on_lost: Callable[[], None],
        is_named: bool,
    ) -> None:
        self.directory = directory
        self.rank = ranks.Rank()
        self.pipeline: Pipeline | None = None
        self.uploader: Uploader | None = None
        self.is_displaced = False
        self._remote = remote
        self._sinks = sinks
        self._timetable = timetable
        self._pacer = pacer
        self._announcer = announcer
        self._reporter = reporter
        self._unharmed = unharmed
        self._infos = infos
        self._on_lost = on_lost
        self._is_named = is_named
        self._run: RunDirectory | None = None
        self._grouping = Grouping({n: g for s in sinks for n, g in s.groups.items()})
        self._signs: SignsOfLife | None = None
        self._told_interval: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether readings are taken."""
        return self.pipeline is not None

    @property
    def is_quiet(self) -> bool:
        """Whether all that was measured is written, as far as anybody writes it."""
        if self.pipeline is None:
            return True
        # In this order: what is on its way through the pipeline comes to the diagnosis after it.
        return self.pipeline.is_idle and (self._announcer is None or self._announcer.live.is_idle)

    def open(self, capture: Capture) -> None:
        """Claim the directory and open the sinks; without one, only those that need none."""
        self.rank = rank = ranks.current()
        self._claim(rank)
        self._upload()
        meaning = dict(capture.meaning())
        if rank.is_one_of_many and rank.measures_alike:
            self._signs = self._signs or SignsOfLife(rank.count)
            known = meaning.get(Kind.SCALAR)
            meaning[Kind.SCALAR] = f"{known}; {MEANING}" if known else MEANING
        run = RunInfo(
            self.directory,
            capture.next_step,
            meaning,
            lambda: self._pacer.cost().words(),
            rank.index,
        )
        sinks = [s for s in self._sinks if self._run is not None or not s.threaded]
        self.pipeline = Pipeline([s for s in sinks if rank.is_first or s.of_each_rank], say)
        self.pipeline.open(run)
        if self._announcer is not None:
            about = capture.facts()
            is_noted = self._run is not None and rank.is_first
            of_rank = None if rank.is_first else rank.index
            self._announcer.begin(about, self.directory if is_noted else None, of_rank)
            if self._run is not None:
                self._run.amend("model", about.to_json())
                self._run.amend("diagnose", self._announcer.settings.facts())
        if self._run is not None:
            with self._unharmed():
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
        live = self._announcer.live if self._announcer is not None and has_own else None

        def complete() -> Reading | None:
            reading = None
            try:
                reading = make_reading()
            finally:
                if live is not None:
                    live.take(Less(unseen.__contains__)(reading) if reading and unseen else reading)
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

    def epoch_end(self, epoch: int, logs: Mapping[str, float], last_step: int) -> None:
        """An epoch has ended, with these numbers, after that step."""
        if self.pipeline is not None:
            self.pipeline.epoch_end(epoch, logs)
            if self._announcer is not None:
                self._announcer.live.epoch_end(epoch, last_step, _numbers(logs))
                self.announce()
        cost = self._pacer.cost()
        if self._run is not None and cost.interval != self._told_interval:
            self._told_interval = cost.interval
            self._run.amend("cost", cost.facts())

    def announce(self) -> None:
        """Say what was found; on the thread that trains."""
        if self._announcer is not None:
            self._announcer.announce()

    def must_stop(self) -> bool:
        """Whether training is to stop; never for one of many processes, which would hang."""
        if self._announcer is None or not self._announcer.should_stop:
            return False
        if self.rank.is_one_of_many:
            self._reporter.notice(
                "stop_on= is not followed in a training of several processes: the one that stopped "
                "would leave the others waiting. What was found is in monitor.findings of rank 0."
            )
            return False
        return True

    def tell_sites(self) -> None:
        """Enter what is known of the sites into the run's description."""
        with self._unharmed():
            if self._run is not None:
                self._run.tell_sites(self._infos())

    def close(self) -> None:
        """Write out all there is, within 2 seconds, and let go of the files."""
        if self.pipeline is not None:
            with self._unharmed():
                try:
                    self.pipeline.close()
                finally:
                    self.pipeline = None
                for name in self._grouping.unmatched():
                    self._reporter.notice(f"The group {name!r} matched nothing that was recorded.")
        if self._announcer is not None:
            with self._unharmed():
                self._announcer.live.end()
                self.announce()
        if self._run is not None:
            self.tell_sites()
            with self._unharmed():
                self._run.amend("cost", self._pacer.cost().facts())
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
            beside = wished.with_name(f"{wished.name}-2") if self.is_displaced else wished
            self._run = RunDirectory(beside, self._on_lost, rank)
            self.directory = self._run.path
            if self.directory != wished:
                who = "monitor" if self.is_displaced else "process"
                say(f"{wished} is being written by another {who}. Writing to {self.directory}.")
            self.is_displaced = False
        except OSError as error:
            say(f"Cannot write to {wished}, so nothing is recorded there. {error}")

    def _upload(self) -> None:
        """Have a run at a URL uploaded while it is recorded."""
        if self._remote is None or self._run is None:
            return
        if not self.rank.is_first and not self._run.training:
            self._reporter.notice(
                f"What rank {self.rank.index} records stays in {self.directory}: where the others "
                f"upload to cannot be known here. gradwatch upload {self.directory} uploads it."
            )
            return
        from gradwatch.store.remote import uploader_for

        with self._unharmed():
            self.uploader = uploader_for(
                self._remote, self.directory, self._run.training, self.rank.index
            )
            if self.rank.is_first:
                self._reporter.notice(
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
            "every": str(self._timetable.every),
            "watch": [str(w) for w in self._timetable.watches if not w.optional],
            "meaning": {str(kind): text for kind, text in run.meaning.items()},
            "environment": environment.describe(),
        }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _numbers(logs: Mapping[str, float]) -> dict[str, float]:
    """The numbers among what an epoch ended with."""
    return {name: float(x) for name, x in logs.items() if isinstance(x, int | float)}
