"""A run while it is recorded: its directory, its sinks, its diagnosis."""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwatch.capture import Capture, Source
from gradwatch.core import Grouping, Kind, ModelFacts, Reading
from gradwatch.core import schedule as schedules
from gradwatch.core import select as selectors
from gradwatch.diagnosis import DiagnosisSpec, Finding, Severity
from gradwatch.parallel import MEANING, Heartbeat, agreement, ranks
from gradwatch.record.announcements import Announcements
from gradwatch.record.continuation import Beginning
from gradwatch.record.directory import RunDirectory, claim_directory
from gradwatch.record.monitor_arguments import as_alerts, as_place, as_sinks, as_watches
from gradwatch.record.open_run import OpenRun, close_abandoned, now
from gradwatch.record.pipeline_state import epochs_within_budget, make_pacer
from gradwatch.record.run_description import as_description
from gradwatch.record.sink_view import SinkView
from gradwatch.sinks import CLOSING_TIME, Pipeline, RunInfo, Sink, Store
from gradwatch.store.remote import Remote, as_remote
from gradwatch.util import Reporter, environment, exits
from gradwatch.watches import Timetable, Watch, diagnosis_watches, number_watches

if TYPE_CHECKING:
    from gradwatch.store.remote import Uploader

BUDGET = 0.01
_directories = itertools.count()
"""Numbers the directories without a name of the user's, so that processes agree on each."""


class Session:
    """Brings readings to the sinks and to the diagnosis, while it is open.

    It may be opened and closed repeatedly, by each `fit` for example. Its arguments are those of
    `Monitor`.

    `sources`, what is recorded, is set once, before the first step. `pipeline` is None while the
    session is closed, `alerts` without a diagnosis, `uploader` if the run stays on this machine.

    What a session has open is closed when nobody holds it any more, see `OpenRun`.
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
        config: object,
        tags: Sequence[str] | str,
        note: str,
    ) -> None:
        if every is not None and budget is not None:
            raise ValueError(
                "Give either every= or budget=: the steps to measure, or what that may cost. "
                f"Received: every={every!r}, budget={budget!r}"
            )
        watches = as_watches(layers, watch)
        if budget is None and every is None and any(w.every is None for w in watches):
            budget = BUDGET
        # Weak references: threads hold the pacer and the directory, and must not hold the session.
        weak = weakref.ref(self)
        given = None if every is None else schedules.as_schedule(every)
        self.pacer = make_pacer(budget, given, BUDGET, weak)
        watches = watches if watch or given else epochs_within_budget(watches, self.pacer)
        self._description = as_description(config, tags, note)
        self._remote = as_remote(directory)
        self.directory = as_place(directory, self._remote)
        self._wished = self.directory
        self.recorded_in: Path | None = None
        self._is_named = directory is not None
        self.reporter = Reporter()
        self.alerts = as_alerts(diagnose, on_finding, stop_on, self.reporter, self.pacer.suspect)
        self.is_diagnosed = self.alerts is not None
        self.watches_by_default = layers is None and watch is None
        if self.is_diagnosed and self.watches_by_default:
            watches += diagnosis_watches()
        watches += number_watches()
        self.timetable = Timetable(watches, given or self.pacer.schedule, self.pacer.thinned)
        self.rank = ranks.Rank()
        self.sources: Sequence[Source] = ()
        self.pipeline: Pipeline | None = None
        self.uploader: Uploader | None = None
        self.is_quiet = False
        """Whether nothing is to be printed: `fit(verbose=0)`."""
        self._sinks = as_sinks(sinks)
        self.announcements = Announcements(self.pacer, self.alerts)
        self._run: RunDirectory | None = None
        self._opened: OpenRun | None = None
        self._is_displaced = False
        """Whether another monitor has taken the directory, and will keep it."""
        self._grouping = Grouping({n: g for s in self._sinks for n, g in s.groups.items()})
        self._heartbeat: Heartbeat | None = None
        self._told_interval: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was measured is written and diagnosed."""
        return self.pipeline is None or self.pipeline.is_idle

    def open(self, capture: Capture) -> None:
        """Claim the directory and open the sinks, unless they are open.

        Without a directory, only the sinks that need none are opened.
        """
        if self.pipeline is not None:
            return
        self.rank = rank = ranks.current()
        self.pacer.agree(rank.is_one_of_many)
        facts, beginning = ModelFacts(), Beginning(capture.next_step)
        with self.reporter.guard("reading the model", "the facts about the model"):
            facts = capture.facts()
            beginning = Beginning.of(capture.next_step, facts, capture.infos())
        self._claim(replace(beginning, rank=self._stored_rank))
        self._upload()
        meaning = {**self.timetable.probe_meaning, **capture.meaning()}
        if rank.is_one_of_many and rank.measures_alike:
            self._heartbeat = self._heartbeat or Heartbeat(rank.count)
            known = meaning.get(Kind.SCALAR)
            meaning[Kind.SCALAR] = f"{known}; {MEANING}" if known else MEANING
        pacer = self.pacer
        run = RunInfo(
            self.directory,
            capture.next_step,
            meaning,
            lambda: pacer.cost().words(),
            rank.index,
            self.is_quiet,
        )
        sinks = [s for s in self._sinks if self._run is not None or not s.threaded]
        sinks = [s for s in sinks if rank.is_first or s.of_each_rank]
        view = SinkView(self._grouping, self._heartbeat, rank.is_first, self._run)
        self.pipeline = Pipeline(sinks, self.reporter, view)
        self._opened = OpenRun(self, self.pipeline, self._run, self.uploader, pacer, self.reporter)
        with self.reporter.guard("beginning the diagnosis", "findings"):
            self._begin_diagnosis(capture, facts)
        self.pipeline.open(run)
        with self.reporter.guard("saying where the run is", "nothing"):
            self.announcements.begin(sinks, None if self._run is None else self.directory)
        if self._run is not None:
            with self.reporter.guard("describing the run", "the run's entry in run.json"):
                self._run.describe(self._facts(run))
                for name, value in self._description.items():
                    self._run.amend(name, value)
            self.tell_sites()

    def _begin_diagnosis(self, capture: Capture, facts: ModelFacts) -> None:
        if self.alerts is None or self.pipeline is None:
            return
        rank, diagnosis = self.rank, self.alerts.diagnosis
        self.alerts.is_quiet = self.is_quiet
        is_kept = self._run is not None and rank.is_first
        self.alerts.begin(
            facts,
            self.directory if is_kept else None,
            rank.index,
            capture.next_step,
            awaits_reports=capture.reports_each_step,
        )
        if rank.is_first or not rank.measures_alike:
            self.pipeline.add(diagnosis)
        if self._run is not None:
            self._run.amend("model", facts.to_json())
            self._run.amend("diagnose", diagnosis.settings.facts())

    def tell_facts(self, facts: ModelFacts) -> None:
        """More is known about the model than when the run was opened."""
        if self.pipeline is not None and self.alerts is not None:
            self.alerts.diagnosis.learn(facts)
            if self._run is not None:
                self._run.amend("model", facts.to_json())

    def submit(
        self,
        make_reading: Callable[[], Reading | Sequence[Reading] | None],
        rows: int | None = None,
    ) -> bool:
        """Have a reading, or several, made on another thread that may wait, and written.

        False if that is not done: there is no run, or too many are waiting.
        """
        if self.pipeline is None:
            return False
        self.alert()
        is_taken = self.pipeline.submit(make_reading, rows)
        if self._run is not None and not self._run.has_sites:
            self.tell_sites()
        return is_taken

    def end_epoch(self, epoch: int, logs: Mapping[str, float]) -> None:
        """An epoch has ended, with these numbers."""
        if self.pipeline is not None:
            self.pipeline.epoch_end(epoch, logs)
            self.alert()
        cost = self.pacer.cost()
        if self._run is not None and cost.interval != self._told_interval:
            self._told_interval = cost.interval
            self._run.amend("cost", cost.facts())

    def alert(self) -> None:
        """Tell the user and the sinks about new findings; on the thread that trains."""
        if self.alerts is not None:
            self.alerts.deliver(self.pipeline)

    def should_stop(self) -> bool:
        """Whether training is to stop; never for one of many processes, which would hang."""
        self.alert()
        if self.alerts is None or not self.alerts.should_stop:
            return False
        if self.rank.is_one_of_many:
            self.reporter.notice(
                "stop_on= is not followed in a training of several processes: the one that stopped "
                "would leave the others waiting. What was found is in monitor.findings of rank 0."
            )
            return False
        return True

    def tell_sites(self) -> None:
        with self.reporter.guard("describing the sites", "shapes and dtypes in run.json"):
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
        if self.alerts is not None:
            self.alerts.diagnosis.forget()

    def close(self) -> None:
        """Stop measuring, write out all there is, within 2 seconds, and release the files."""
        for source in self.sources:
            with self.reporter.guard("closing the run", "perhaps the last steps"):
                source.stop()
        if self._opened is None:
            return
        self._opened.finish()
        for name in self._grouping.unmatched():
            self.reporter.notice(f"The group {name!r} matched nothing that was recorded.")
        with self.reporter.guard("reporting findings", "nothing; they are in monitor.findings"):
            self.alert()
        with self.reporter.guard("saying how it went", "nothing"):
            self.announcements.end()
        self.tell_sites()
        opened, self._opened = self._opened, None
        self._run = self.uploader = self.pipeline = None
        opened.release()
        opened.tell_sinks()

    @property
    def _stored_rank(self) -> int | None:
        """The rank that the user gave to the store."""
        return next((s.rank for s in self._sinks if isinstance(s, Store)), None)

    def _claim(self, beginning: Beginning) -> None:
        if not self._is_named:
            self._is_named = True  # Each process may have chosen another name.
            key = f"directory/{next(_directories)}"
            agreed = ranks.agreed(self.rank, key, str(self.directory))
            self.directory = self._wished = Path(agreed or self.directory)
        weak = weakref.ref(self)
        self._run = claim_directory(
            self._wished,
            self._is_displaced,
            lambda: _lose_directory(weak),
            self.rank,
            self.reporter,
            beginning,
            self.recorded_in,
        )
        if self._run is not None:
            self.directory = self.recorded_in = self._run.path
            self._is_displaced = False

    def lose_directory(self) -> None:
        """Another monitor continues the run."""
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
        from gradwatch.store.remote import upload_leftover, uploader_for

        with (
            self.reporter.guard(
                "beginning the upload", "the run at its URL; it is on this machine"
            ),
            exits.critical,
        ):
            # Where the run is in another directory than was asked for, it is at another URL.
            remote = self._remote.next_to(self.directory.name.removeprefix(self._wished.name))
            self.uploader = uploader_for(
                remote, self.directory, self._run.training, self.rank.index
            )
            if self._run.left is not None and not self._run.training:
                upload_leftover(self._remote, self._run.left)
            if self.rank.is_first:
                self.reporter.notice(
                    f"The run is kept in {self.directory} and uploaded to {remote.shown}."
                )

    def _facts(self, run: RunInfo) -> dict[str, Any]:
        """What `run.json` tells of this fit, or loop."""
        training = None if self.uploader is None else self.uploader.training
        return {
            "started": now(),
            "first_step": run.first_step,
            **({"ranks": self.rank.count} if self.rank.is_one_of_many else {}),
            **({"training": training} if training else {}),
            "every": str(self.timetable.every),
            "watch": [str(w) for w in self.timetable.watches if not w.optional],
            "meaning": {str(kind): text for kind, text in run.meaning.items()},
            "environment": environment.describe(),
        }


def _lose_directory(weak: weakref.ref[Session]) -> None:
    session = weak()
    if session is not None:
        session.lose_directory()
    else:
        close_abandoned(time.monotonic() + CLOSING_TIME)
