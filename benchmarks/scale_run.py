"""A made-up run of very many processes and tensors, written by the writers that training uses.

A mixture-of-experts network: 10 tensors of attention and three for each expert in a layer. Rank 0
records gradients and weights of all of them; every rank what is its own: its loss, the time of a
step, outputs of some layers and, at a few steps, some weights, by which copies are compared.
Rank 7 is slow, rank 13 has a weight that differs, and every tenth rank is killed: its journal is
not sealed. All numbers follow from a rank and a step, so that any of them can be told again.
"""

import multiprocessing
import time

import numpy as np

from gradwatch.core import FIELDS, Kind, Reading, Site, Summary
from gradwatch.store import sealing
from gradwatch.store.description import Description
from gradwatch.store.writer import StoreWriter

EVERY = 100
"""Steps from one measured step of rank 0 to the next."""
OFTEN = 5
"""How much more often the ranks record what is their own."""
SLOW, DIFFERENT, KILLED = 7, 13, 10
ATTENTION = [f"attention/{m}/{p}" for m in ("query", "key", "value", "out") for p in "wb"]
OTHERS = [path.replace("/w", "/kernel").replace("/b", "/bias") for path in ATTENTION]
OTHERS += ["norm_1/scale", "norm_2/scale"]
A_LAYER = 1000
EXPERTS = (A_LAYER - len(OTHERS)) // 3
COMPARED = 64
OUTPUTS = 20


def variables(count):
    """The paths of that many tensors, a thousand in a layer."""
    parts = ("in", "gate", "out")
    layer = OTHERS + [f"experts/expert_{e}/{p}/kernel" for e in range(EXPERTS) for p in parts]
    return [f"model/layer_{i // A_LAYER}/{layer[i % A_LAYER]}" for i in range(count)]


def network(count):
    """The sites that rank 0 has: gradients and weights."""
    return [Site(kind, path) for kind in (Kind.GRADIENT, Kind.WEIGHT) for path in variables(count)]


def own(count):
    """The sites that each rank has at each of its steps, and those of weights to compare."""
    layers = max(1, count // A_LAYER)
    shown = sorted({i * layers // OUTPUTS for i in range(OUTPUTS)})
    sites = [Site(Kind.LOSS, "loss"), Site(Kind.SCALAR, "step_seconds")]
    sites += [Site(Kind.OUTPUT, f"model/layer_{layer}") for layer in shown]
    paths = variables(count)
    step = max(1, count // COMPARED)
    return sites, [Site(Kind.WEIGHT, path) for path in paths[::step][:COMPARED]]


def rows(rng, size, scale):
    """Summaries of float32 tensors: the last bits are noise, as in training."""
    size_of = np.random.default_rng(size).choice([64, 4096, 65536], size).astype(float)
    mean = rng.normal(0, 0.1, size) * scale
    fields = {
        "count": size_of,
        **dict.fromkeys(("nan", "posinf", "neginf"), np.zeros(size)),
        "zeros": rng.binomial(64, 0.01, size).astype(float),
        "sum": mean * size_of,
        "sum_abs": 0.8 * scale * size_of,
        "sum_squares": (scale**2 + mean**2) * size_of,
        "min": mean - 4 * scale,
        "max": mean + 4 * scale,
    }
    return Summary(*(fields[name].astype("float32").astype(float) for name in FIELDS))


def scales(rng, size):
    """How large tensors are: alike in a layer, and of their own in the last digits."""
    layer = np.exp(np.sin(np.arange(size) // A_LAYER / 7.0) - 4)
    return layer * np.exp(rng.normal(0, 0.3, size))


def numbers(values):
    """Summaries of single numbers, none of them 0."""
    one, none = np.ones_like(values), np.zeros_like(values)
    columns = (one, none, none, none, none, values, np.abs(values), values**2, values, values)
    return np.stack(columns, axis=-1)


def of_network(sites, step):
    """What rank 0 has measured of the network at a step."""
    rng = np.random.default_rng([0, step])
    table = rows(rng, len(sites), scales(rng, len(sites))).pack()
    count = len(sites) // 2
    copies = count + np.arange(count)[:: max(1, count // COMPARED)][:COMPARED]
    table[copies] = of_copies([sites[i] for i in copies], 0, step).summary.pack()
    return _reading(step, sites, Summary.unpack(table))


def of_rank(sites, rank, steps):
    """What is a rank's own, step by step."""
    rng = np.random.default_rng([1, rank])
    count, few = len(steps), len(sites) - 2
    took = 0.2 * (1.6 if rank == SLOW else 1.0) * np.exp(rng.normal(0, 0.02, count))
    loss = 8.0 / (1 + 0.01 * np.array(steps)) ** 0.3 + rng.normal(0, 0.02, count)
    outputs = rows(rng, count * few, np.exp(rng.normal(0, 0.1, count * few)))
    tables = np.concatenate(
        [numbers(np.stack([loss, took], axis=1)), outputs.pack().reshape(count, few, -1)], axis=1
    )
    for step, table in zip(steps, tables, strict=True):
        yield _reading(step, sites, Summary.unpack(table))


def of_copies(sites, rank, step):
    """Weights that are the same on all ranks, except for one on one of them."""
    rng = np.random.default_rng([2, step])
    table = rows(rng, len(sites), scales(rng, len(sites))).pack()
    if rank == DIFFERENT and len(sites) > 3:
        table[3, FIELDS.index("sum_squares")] *= 1.25
    return _reading(step, sites, Summary.unpack(table))


def _reading(step, sites, summary):
    return Reading(step, 1 + step // 1000, 1.7e9 + 0.2 * step, sites, summary)


def write_rank(directory, rank, tensors, measured, **limits):
    """All that a rank records; returns how many rows that was."""
    writer = StoreWriter(directory, rank=rank, **limits)
    everything = network(tensors) if rank == 0 else []
    mine, compared = own(tensors)
    written = 0
    until = measured // 2 if rank and rank % KILLED == 0 else measured
    steps = range(EVERY // OFTEN, until * EVERY + 1, EVERY // OFTEN)
    for reading in of_rank(mine, rank, steps):
        writer.write(reading)
        written += len(mine)
        step = reading.step
        if everything and step % EVERY == 0:
            writer.write(of_network(everything, step))
            written += len(everything)
        elif rank and step % (measured * EVERY // 4) == 0:
            writer.write(of_copies(compared, rank, step))
            written += len(compared)
    if rank == 0 or rank % KILLED:
        writer.close()
    return written


def write_ranks(directory, ranks, tensors, measured):
    """Several ranks one after another, in one process, and sealing."""
    written = sum(write_rank(directory, rank, tensors, measured) for rank in ranks)
    settle(directory)
    return written


def settle(directory):
    """Wait until this process has sealed what it has ended."""
    if not sealing.sealer.finish(time.monotonic() + 600):
        raise RuntimeError(f"sealing in {directory} has taken more than ten minutes")


def of_all(tensors, rank, sites=None):
    """The gradients of all tensors on a rank at one step."""
    rng = np.random.default_rng([3, rank])
    sites = sites or network(tensors)[:tensors]
    return _reading(EVERY, sites, rows(rng, tensors, scales(rng, tensors)))


def write_step_of(directory, ranks, tensors):
    """Of several ranks the gradients of all tensors at one step: none is like another's."""
    sites = network(tensors)[:tensors]
    for rank in ranks:
        writer = StoreWriter(directory, rank=rank)
        writer.write(of_all(tensors, rank, sites))
        writer.close()
    settle(directory)
    return tensors * len(ranks)


def describe(directory, ranks, tensors):
    """`run.json`, as rank 0 writes it."""
    about = Description(directory)
    about.begin({"started": "2026-11-15T12:00:00", "first_step": 1, "ranks": ranks})
    shapes = ([64], [64, 64], [256, 256])
    about.amend(
        "sites",
        [
            {
                "kind": str(site.kind),
                "path": site.path,
                "shape": shapes[i % 3],
                "dtype": "float32",
                "part": site.path.rpartition("/")[2],
                "trainable": True,
            }
            for i, site in enumerate(network(tensors))
        ],
    )
    about.amend("ended", None)
    about.write()


def make(directory, ranks, tensors, measured, processes=2):
    """The whole run; returns how many rows it has."""
    directory.mkdir(parents=True)
    describe(directory, ranks, tensors)
    return spread(write_ranks, directory, range(ranks), tensors, measured, processes=processes)


def make_all(directory, ranks, tensors, processes=2):
    """Every tensor on every rank, at one step; returns how many rows that are."""
    directory.mkdir(parents=True)
    describe(directory, ranks, tensors)
    return spread(write_step_of, directory, range(ranks), tensors, processes=processes)


def spread(work, directory, ranks, *arguments, processes):
    """Let processes share the ranks, a batch at a time."""
    size = 25
    batches = [ranks[at : at + size] for at in range(0, len(ranks), size)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.starmap(work, [(directory, b, *arguments) for b in batches], chunksize=1))
