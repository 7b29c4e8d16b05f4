"""How long a very large run takes to read; `scale.py` runs it in a process of its own.

What is read is compared with the numbers that the run was made of.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import common
import numpy as np
import scale_run

import gradwatch
from gradwatch.core import l2

BIN = Path(sys.executable).parent
LIMIT = 1200


def peak_mb():
    """The most memory that this process has taken so far."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


class Watch:
    """Takes the times of calls, in seconds by the clock and of work, and the memory."""

    def __init__(self):
        self.times = {}

    def __call__(self, name, call):
        begun, worked = time.perf_counter(), time.process_time()
        result = call()
        self.times[name] = {
            "s": time.perf_counter() - begun,
            "cpu s": time.process_time() - worked,
            "peak MB": peak_mb(),
        }
        print(name, self.times[name], file=sys.stderr)
        return result


def read(directory, ranks, tensors, measured):
    """The questions that people ask, each asked once."""
    watch = Watch()
    path = scale_run.variables(tensors)[min(2 * scale_run.A_LAYER, tensors - 1)]
    layer = "/".join(path.split("/")[:2])
    run = watch("open", lambda: gradwatch.open(directory))
    assert len(run.ranks) == ranks
    watch("list 100,000 gradients", lambda: run.sites("gradient"))
    watch("choose by a pattern", lambda: run.sites("gradient", "*/query/kernel"))
    steps, values = watch("a tensor over time", lambda: run.series("gradient", path, "l2"))
    sites = scale_run.network(tensors)
    place = [site.path for site in sites].index(path)
    truth = [l2(scale_run.of_network(sites, int(s)).summary)[place] for s in steps[:2]]
    assert steps.size == measured
    assert values[:2].tolist() == truth, "what was read is not what was written"
    watch("a layer of 1,000 tensors over time", lambda: run.series("gradient", layer, "l2"))
    watch("a rank's loss", lambda: run.series("loss", "loss", "value", rank=ranks // 2))
    states = watch("how each rank stands", lambda: run.rank_statuses)
    assert sum(str(each.status) == "crashed" for each in states) == (ranks - 1) // scale_run.KILLED
    table = watch(
        "the step times of all ranks",
        lambda: run.across_ranks("scalar", "step_seconds", "value"),
    )
    slowest = table.ranks[int(np.nanargmax(np.nanmean(table.values, axis=1)))]
    assert slowest == scale_run.SLOW, slowest
    compared = scale_run.own(tensors)[1][3].path
    weights = watch("a weight on all ranks", lambda: run.across_ranks("weight", compared, "l2"))
    last = [i for i in range(weights.steps.size) if np.isfinite(weights.values[1:, i]).sum() > 1]
    column = weights.values[1:, last[-1]]
    odd = np.abs(column - np.nanmedian(column)) > 1e-6
    assert [weights.ranks[1:][i] for i in np.flatnonzero(odd)] == [scale_run.DIFFERENT]
    watch(
        "a heatmap of all gradients",
        lambda: run.heatmap("gradient", "l2", max_cells=20 * tensors),
    )
    watch("the same again", lambda: run.heatmap("gradient", "l2", max_cells=20 * tensors))
    watch("all of a step", lambda: run.at(scale_run.EVERY))
    watch(
        "SQL: the largest of each layer",
        lambda: run.sql(
            "select path, max(l2) from summaries where kind = 'gradient' group by path"
        ).fetchall(),
    )
    watch("look for news", run.refresh)
    rows = run.rows
    run.close()
    return {"rows": rows, "times": watch.times}


def command(directory, *words):
    """A command of the command line: seconds, of work too, and memory."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(BIN / "gradwatch"), *words, str(directory)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "s": time.perf_counter() - begun,
        "cpu s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "rc": done.returncode,
        "lines": done.stdout.count("\n"),
    }
    print(words, result, done.stderr[-500:], file=sys.stderr)
    return result


def main():
    directory, ranks, tensors, measured = sys.argv[1], *map(int, sys.argv[2:5])
    answer = read(directory, ranks, tensors, measured)
    answer["commands"] = {
        " ".join(words): command(directory, *words)
        for words in (["show"], ["ls"], ["verify"], ["diagnose"])
    }
    answer["load average"] = os.getloadavg()[0]
    common.answer(answer)


if __name__ == "__main__":
    main()
