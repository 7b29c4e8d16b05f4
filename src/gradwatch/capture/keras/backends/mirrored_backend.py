"""A Keras training step on several replicas of one process: `tf.distribute.MirroredStrategy`."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import tensorflow as tf

from gradwatch.capture.keras.backends.keras_backend import KerasBackend
from gradwatch.capture.keras.backends.mirrored_observation import MirroredObservation
from gradwatch.capture.keras.backends.tensorflow_backend import TensorFlowBackend
from gradwatch.capture.keras.observation import Observation
from gradwatch.capture.replicas import replica_index
from gradwatch.core import KerasModel


class MirroredBackend(TensorFlowBackend):
    """TensorFlow, with a step that several replicas run, all of them in this process."""

    is_replicated = True

    def __init__(self, model: KerasModel) -> None:
        super().__init__(model)
        self.devices = model.distribute_strategy.extended.worker_devices
        self._index: int | None = None

    def is_watched_replica(self) -> bool:
        return replica_index() == self._index

    def observation(self, make: Callable[[KerasBackend], Observation]) -> MirroredObservation:
        return MirroredObservation([make(self._replica(i)) for i in range(len(self.devices))], self)

    def _replica(self, index: int) -> MirroredBackend:
        """The same backend, for the observation of one replica."""
        replica = copy(self)
        replica._index = index
        return replica

    def histograms_due(self) -> Any:
        return tf.convert_to_tensor(self._histograms_due)

    def wrap(self, train_step: Any, observation: Any) -> Any:
        def measured_train_step(data: Any) -> Any:
            # As in `watched`: nothing of gradwatch is called outside of a `try`, and the model's
            # step is run in any case, and once. All replicas must come to `merge_call`.
            try:
                observation.arrive(replica_index(), data)
            except Exception as error:
                observation.reporter.internal_error(
                    error, "beginning to watch a replica's step", "that step"
                )
            try:
                logs = train_step(data)
                replica = tf.distribute.get_replica_context()
                measured = replica.merge_call(observation.finish)
            except BaseException:
                observation.leave()
                raise
            return {"logs": logs, "measured": measured}

        return measured_train_step
