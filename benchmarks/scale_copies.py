"""Every tensor on every rank, at one step, as copies of weights are; `scale.py` runs it."""

import shutil
import sys
import time
from pathlib import Path

import common
import numpy as np
import scale_run
from scale_reading import Watch

import gradwatch
from gradwatch.core import l2


def main():
    directory, ranks, tensors = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    shutil.rmtree(directory, ignore_errors=True)
    begun = time.perf_counter()
    rows = scale_run.make_all(directory, ranks, tensors)
    made = time.perf_counter() - begun
    sizes = {
        "rows": sum(f.stat().st_size for f in directory.glob("segments/*")),
        "names": sum(f.stat().st_size for f in directory.glob("manifest-*.json")),
    }
    watch = Watch()
    run = watch("open", lambda: gradwatch.open(directory))
    assert run.rows == rows == ranks * tensors
    path, last = scale_run.variables(tensors)[tensors // 3], ranks - 1
    found = watch("one tensor on all ranks", lambda: run.across_ranks("gradient", path, "l2"))
    truth = l2(scale_run.of_all(tensors, last).summary)[tensors // 3]
    assert found.ranks == tuple(range(ranks))
    assert found.values[last, 0] == truth, "what was read is not what was written"
    heat = watch("all tensors of one rank", lambda: run.heatmap("gradient", "l2", rank=last))
    assert np.isfinite(heat.values).all()
    watch(
        "SQL: how far ranks are apart, of each tensor",
        lambda: run.sql(
            "select path, min(l2), max(l2) from summaries where kind = 'gradient' group by path"
        ).fetchall(),
    )
    watch("look for news", run.refresh)
    run.close()
    shutil.rmtree(directory)
    common.answer(
        {
            "ranks": ranks,
            "tensors": tensors,
            "rows": rows,
            "s": made,
            "bytes": sizes,
            "times": watch.times,
        }
    )


if __name__ == "__main__":
    main()
