"""How a torch module is distributed over processes, and which shards this rank counts."""

import gc
import sys
from collections.abc import Sequence
from enum import Enum

import torch
from torch import distributed as dist

from gradwatch.capture.variable_names import NamedVariable
from gradwatch.core import Tensor, TorchModule, TorchOptimizer
from gradwatch.util import Reporter

SECOND_SHARDED = (
    "A second sharded module in one monitor is not recorded. Give it a monitor of its own, with a "
    "directory of its own."
)


DEEPSPEED = (
    "DeepSpeed keeps gradients in buffers of its own, which gradwatch does not read. Nothing is "
    "recorded; training goes on."
)


class Spread(Enum):
    """How parameters are distributed over the processes that train together."""

    OWN = "own"
    """Each process has parameters of its own; also a single process."""
    REPLICATED = "replicated"
    """All have the same parameters and gradients: DistributedDataParallel."""
    SHARDED = "sharded"
    """Each has a part: DTensors, as made by `fully_shard` (FSDP2)."""


def spread_of(module: TorchModule, named: Sequence[NamedVariable]) -> Spread:
    if not is_one_of_many():
        return Spread.OWN
    if any(is_dtensor(n.value) for n in named):
        return Spread.SHARDED
    return Spread.OWN if replicated_by(module) is None else Spread.REPLICATED


def is_dtensor(tensor: Tensor) -> bool:
    # If there is one, its module is imported.
    tensors = sys.modules.get("torch.distributed.tensor")
    return tensors is not None and isinstance(tensor, tensors.DTensor)


def is_one_of_many() -> bool:
    """Whether other processes train with this one."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def is_first_of(parallel: TorchModule | None) -> bool:
    """Whether this process is the first of a DistributedDataParallel."""
    return parallel is None or dist.get_rank(parallel.process_group) == 0


def replicated_by(module: TorchModule) -> TorchModule | None:
    """The DistributedDataParallel around the whole module; None if there is none."""
    while not isinstance(module, torch.nn.parallel.DistributedDataParallel):
        if not hasattr(module, "_orig_mod"):  # under torch.compile
            return None
        module = module._orig_mod
    return module


def outermost(module: TorchModule) -> TorchModule:
    """What wraps a module, for data parallelism or compiled; the module itself if nothing does.

    Trainers tell their callbacks the module that they were given, and train what wraps it.
    """
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    wrappers = {"module": torch.nn.parallel.DistributedDataParallel, "_orig_mod": compiled}
    known = tuple(each for each in wrappers.values() if each is not None)
    found = [x for x in gc.get_objects() if issubclass(type(x), known)]
    for _ in found:
        for x in found:
            if any(vars(x)["_modules"].get(name) is module for name in wrappers):
                module = x
    return module


def refusal(module: TorchModule, optimizer: TorchOptimizer) -> str | None:
    """Why a module and its optimizer cannot be watched; None if they can."""
    if _is_of_deepspeed(module, optimizer):
        return DEEPSPEED
    fsdp = sys.modules.get("torch.distributed.fsdp")
    modules = module.modules() if isinstance(module, torch.nn.Module) else ()
    if fsdp is None or not any(isinstance(x, fsdp.FullyShardedDataParallel) for x in modules):
        return None
    return (
        "A module in FullyShardedDataParallel (FSDP1) is not recorded: its parameters are parts of "
        "flat buffers, and those here would be taken for the whole. Use FSDP2, "
        "torch.distributed.fsdp.fully_shard, which is recorded."
    )


def _is_of_deepspeed(module: TorchModule, optimizer: TorchOptimizer) -> bool:
    """Whether DeepSpeed holds the gradients: it has engines, optimizers and marks of its own."""
    is_own = type(optimizer).__module__.partition(".")[0] == "deepspeed"
    if is_own and not isinstance(optimizer, torch.optim.Optimizer):
        return True
    deepspeed = sys.modules.get("deepspeed")
    if deepspeed is None or not isinstance(module, torch.nn.Module):
        return False
    engine = getattr(deepspeed, "DeepSpeedEngine", ())
    is_engine = any(isinstance(each, engine) for each in module.modules())
    marks = ("_hp_mapping", "ds_id")
    return is_engine or any(hasattr(p, mark) for p in module.parameters() for mark in marks)


class Refusal:
    """Gives notice where a module and its optimizer cannot be watched.

    It is asked in the first step again: DeepSpeed may take the parameters after `watch`.
    """

    def __init__(self, module: TorchModule, optimizer: TorchOptimizer, reporter: Reporter) -> None:
        self._given, self._reporter = (module, optimizer), reporter
        self._is_needed: bool | None = None

    def is_needed(self) -> bool:
        why = refusal(*self._given)
        if why is not None:
            self._reporter.notice(why)
        return why is not None

    def is_needed_now(self) -> bool:
        if self._is_needed is None:
            self._is_needed = self.is_needed()
        return self._is_needed


class Shards:
    """Which part of each tensor this rank counts, so that all ranks count each element once."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._is_first: bool = dist.get_rank() == 0

    def local(self, tensor: Tensor) -> Tensor:
        """The part of a tensor that this process has: all of it, or a shard."""
        if not is_dtensor(tensor):
            return tensor
        with torch.no_grad():
            return tensor.to_local()

    def is_counted(self, tensor: Tensor) -> bool:
        """Whether this rank counts its part of a tensor; one rank counts each copy."""
        if not is_dtensor(tensor):
            return self._is_first
        if any(placement.is_partial() for placement in tensor.placements):
            self._reporter.notice(
                "A gradient that is still a sum over ranks (a DTensor with a Partial placement) "
                "cannot be recorded without a collective, and is recorded with count 0."
            )
            return False
        here = tensor.device_mesh.get_coordinate()
        if here is None:
            return False
        places = zip(here, tensor.placements, strict=True)
        is_copy = any(at > 0 and placement.is_replicate() for at, placement in places)
        return not is_copy
