"""What a number recorded in a loop means, in words."""

from __future__ import annotations

from collections.abc import Mapping

from gradwatch.core import Kind

RECORDED: Mapping[Kind, str] = {
    Kind.GRADIENT: "gradient that the loop gave to record() or measure(), as it was then",
    Kind.APPLIED_GRADIENT: "gradient that the loop says its update rule used",
    Kind.WEIGHT: "value of the variable when the loop gave it to record() or measure()",
    Kind.UPDATE: "change of the variable in the step: its value after minus before",
    Kind.LOSS: "loss of the step, as the loop gave it",
    Kind.OUTPUT: "what the layer returned in the step, or what the loop gave as its output",
    Kind.OUTPUT_GRADIENT: "gradient of what the loop differentiated with respect to the layer's "
    "output, with a loss scale still in it if the loss was scaled",
    Kind.DEAD_UNIT: "for each unit 1 if all its outputs in the batch were 0, else 0",
    Kind.SATURATED: "for each output of a sigmoid or tanh 1 if within 0.01 of a bound, else 0",
}

TAPED: Mapping[Kind, str] = {
    Kind.GRADIENT: "gradient that tape.gradient() returned: of its target, before any clipping, "
    "with a loss scale still in it if the target was scaled",
    Kind.WEIGHT: "value of the variable when tape.gradient() was called, before the step's update",
    Kind.LOSS: "target of tape.gradient(), summed over its elements",
}

WATCHED: Mapping[Kind, str] = {
    Kind.GRADIENT: "parameter's .grad when optimizer.step() was called: accumulated over "
    "backward() calls, with the loss scale of a GradScaler divided out, after any clipping "
    "that was done before",
    Kind.WEIGHT: "value of the parameter after optimizer.step()",
    Kind.UPDATE: "change of the parameter in optimizer.step(): its value after minus before",
}

RANKED: Mapping[Kind, str] = {
    Kind.SCALAR: "of this rank: step_seconds, the time of a step; own_seconds, what of it the rank "
    "was by itself before it waited for others, both on average since the last measured one; "
    "replica_of, the first rank that has a copy of the same weights; replica_hardware, which "
    "stands for what the rank computes on",
    Kind.LOSS: "loss of the step, as the loop of this rank gave it: of the rank's own part of the "
    "batch, unless the loop has averaged it",
}

REPLICATED: Mapping[Kind, str] = {
    **WATCHED,
    **RANKED,
    Kind.GRADIENT: "parameter's .grad when optimizer.step() was called: averaged over all ranks by "
    "DistributedDataParallel, accumulated over backward() calls, with the loss scale of a "
    "GradScaler divided out, after any clipping that was done before",
}

SHARDED: Mapping[Kind, str] = {
    **WATCHED,
    **RANKED,
    Kind.GRADIENT: "parameter's .grad when optimizer.step() was called, of the whole parameter: "
    "the shards of all ranks, reduced over the ranks, accumulated over backward() calls, with the "
    "loss scale of a GradScaler divided out, after any clipping that was done before",
}
