"""Which trainings on several replicas of `tf.distribute` can be measured in `fit`."""

from gradwatch.capture.keras.model_parts import fact
from gradwatch.core import KerasModel

MEASURED = {
    "MirroredStrategy": "MirroredStrategy",
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
}
"""The strategies whose replicas are measured, if all are in this process, by their class."""


def replicas_of(model: KerasModel) -> int:
    """How many replicas of `tf.distribute` train the model; 1 where it is not in use."""
    strategy = fact(model, "distribute_strategy")
    return int(getattr(strategy, "num_replicas_in_sync", 1))


def refusal(model: KerasModel) -> str | None:
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
