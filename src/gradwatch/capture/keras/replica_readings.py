"""What there is to know of a model that trains on several replicas, whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gradwatch.core import Reading, Site, Summary
from gradwatch.core.schedule import Moment
from gradwatch.watches import Due, Plan

MEASURED = {
    "MirroredStrategy": "MirroredStrategy",
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
}
"""The strategies whose replicas are measured, if all are in this process, by their class."""


def replicas_of(model: Any) -> int:
    """How many replicas of `tf.distribute` train the model; 1 where it is not in use."""
    strategy = getattr(model, "distribute_strategy", None)
    return int(getattr(strategy, "num_replicas_in_sync", 1))


def refusal(model: Any) -> str | None:
    """Why this model's training cannot be watched, in words; None if it can."""
    replicas = replicas_of(model)
    if replicas == 1:
        return None
    strategy = model.distribute_strategy
    name = type(strategy).__name__
    is_here = len(strategy.extended.worker_devices) == replicas
    if name not in MEASURED or not is_here:
        return (
            f"The model trains on {replicas} replicas with tf.distribute.{MEASURED.get(name, name)}"
            f"{'' if is_here else ' in several processes'}, which gradwatch does not measure in "
            "fit, only tf.distribute.MirroredStrategy. Nothing is recorded. In a loop of your own, "
            "see docs/distributed.md."
        )
    if model.jit_compile and not model.run_eagerly:
        return (
            f"The model trains on {replicas} replicas, and its step is compiled by XLA, which "
            "gradwatch does not measure together. Nothing is recorded. Compile the model with "
            "jit_compile=False."
        )
    return None


class ReplicaReadings:
    """Makes the readings of single replicas.

    Args:
        count: how many replicas there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._sites: dict[tuple[Any, ...], tuple[Site, ...]] = {}

    def readings(
        self,
        moment: Moment,
        when: float,
        plan: Plan,
        due: Due,
        wait: Callable[[], Mapping[str, Any]],
    ) -> Iterator[Callable[[], Reading]]:
        """For each replica, what waits for its gradients and makes a reading of them.

        Args:
            moment: the step.
            when: the time at which it was run.
            plan: what was measured.
            due: what of it is due.
            wait: gives, as `replicas`, the summaries by replica and site.
        """
        for replica in range(self._count):
            yield partial(self._reading, replica, moment, when, plan, due, wait)

    def _reading(
        self,
        replica: int,
        moment: Moment,
        when: float,
        plan: Plan,
        due: Due,
        wait: Callable[[], Mapping[str, Any]],
    ) -> Reading:
        group = replica_name(replica)
        chosen = [at for at, i in enumerate(plan.per_replica) if i in due.per_replica]
        paths = tuple(plan.sites[plan.per_replica[at]] for at in chosen)
        # One and the same object for the same sites, by which sinks know them again.
        sites = self._sites.setdefault(
            (replica, paths), tuple(Site(s.kind, f"{group}/{s.path}") for s in paths)
        )
        rows = wait()["replicas"][replica][chosen]
        return Reading(moment.step, moment.epoch, when, sites, Summary.unpack(rows), group=group)


def replica_name(replica: int) -> str:
    """What the paths begin with of what is a single replica's.

    >>> from gradwatch.capture.keras.replica_readings import replica_name
    >>> replica_name(1)
    'replica_1'
    """
    return f"replica_{replica}"
