"""Ranks: the place of this process among those that train together."""

import json
import os
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """The place of a process among those that train together."""

    index: int = 0
    count: int = 1
    engine: str = ""
    """What connects the processes: `"jax"`, `"torch"` or `"tensorflow"`; empty for one alone."""

    @property
    def is_one_of_many(self) -> bool:
        return self.count > 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes what all have in common."""
        return self.index == 0

    @property
    def measures_alike(self) -> bool:
        """Whether all measure the same, so that the first can write it for all.

        JAX's do: they run one program together, and measure whole arrays.
        """
        return self.engine == "jax"


def current() -> Rank:
    """The rank of this process; `Rank()` if it trains alone.

    Only frameworks that are imported already are asked, and nothing is started by asking.
    """
    for ask in (_jax, _torch, _tensorflow):
        rank = ask()
        if rank is not None and rank.is_one_of_many:
            return rank
    return Rank()


def training(rank: Rank) -> str:
    """A name that the processes of one training share, and no other training that runs now.

    It lets them write into one directory, see `RunDirectory`. It does not wait for others. It is
    empty for a process alone, or if it cannot be known.
    """
    if not rank.is_one_of_many:
        return ""
    if rank.engine in ("torch", "jax"):
        name = agreed(rank, "training", secrets.token_hex(8))
        return "" if name is None else f"{rank.engine} {name}"
    if rank.engine == "tensorflow":
        cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
        return f"tensorflow {json.dumps(cluster, sort_keys=True)}"
    return ""


def agreed(rank: Rank, key: str, wish: str) -> str | None:
    """The value that the processes of a training agree on: that of the first to ask.

    It does not wait for others. None where there is no way to agree: torch and JAX have one.
    """
    if not rank.is_one_of_many:
        return wish
    if rank.engine == "torch":
        with suppress(Exception):
            store = sys.modules["torch.distributed.distributed_c10d"]._get_default_store()
            chosen: bytes = store.compare_set(f"gradwatch/{key}", "", wish)
            return chosen.decode()
    if rank.engine == "jax":
        with suppress(Exception):
            client = sys.modules["jax._src.distributed"].global_state.client
            with suppress(Exception):  # If another process was faster.
                client.key_value_set(f"gradwatch/agreed/{key}", wish, allow_overwrite=False)
            return str(client.key_value_try_get(f"gradwatch/agreed/{key}"))
    return None


def _jax() -> Rank | None:
    # Not jax.process_index(), which would start JAX's devices.
    distributed = sys.modules.get("jax._src.distributed")
    state = getattr(distributed, "global_state", None)
    if getattr(state, "client", None) is None:
        return None
    return Rank(int(state.process_id), int(state.num_processes), "jax")  # type: ignore[union-attr]


def _torch() -> Rank | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Rank(distributed.get_rank(), distributed.get_world_size(), "torch")


def _tensorflow() -> Rank | None:
    if "tensorflow" not in sys.modules or not os.environ.get("TF_CONFIG"):
        return None
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, task = config["cluster"], config["task"]
        # A chief, if there is one, comes before the workers.
        order = [
            (kind, i) for kind in ("chief", "worker") for i in range(len(cluster.get(kind, ())))
        ]
        return Rank(order.index((task["type"], int(task["index"]))), len(order), "tensorflow")
    except (KeyError, TypeError, ValueError):
        return None  # Another form, or a task that does not train, such as an evaluator.
