"""The replicas of `tf.distribute` that run a step."""

import sys
from typing import Any


def replica_context() -> Any:
    """The replica context of TensorFlow, if one of several replicas runs this; else None."""
    tf = sys.modules.get("tensorflow")
    if tf is None or not hasattr(tf, "distribute"):
        return None
    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None


def replica_index() -> int | None:
    """The number of the replica that runs this; None between replicas, 0 without any."""
    context = sys.modules["tensorflow"].distribute.get_replica_context()
    # Not the public property, which adds a constant to the graph.
    return None if context is None else int(context._replica_id_in_sync_group)


def replica_name(replica: int) -> str:
    """The first part of the paths of a single replica's sites."""
    return f"replica_{replica}"
