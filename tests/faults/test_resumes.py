"""Training that is resumed at earlier steps, and processes that share a directory."""

from __future__ import annotations

import numpy as np

import gradwatch
from tests.faults import truth


def test_after_twenty_resumes_each_step_has_the_value_of_its_last_attempt(nursery, tmp_path, count):
    rng = np.random.default_rng(2)
    resumes, reached = count(6, 20), 0
    seed_of: dict[int, int] = {}
    written = 0
    for seed in range(resumes + 1):
        first = 1 if seed == 0 else int(rng.integers(1, reached + 1))
        steps = int(rng.integers(5, 40))
        ending = ["close", "exit", "kill"][seed % 3]
        child = nursery.start("programs.train_and_end", tmp_path, seed, first, steps, ending)
        assert nursery.wait(child) == (-9 if ending == "kill" else 0), nursery.output(child)
        written += steps
        # What a later attempt has begun before is no longer shown, also beyond its own end.
        seed_of = {s: k for s, k in seed_of.items() if s < first}
        seed_of |= dict.fromkeys(range(first, first + steps), seed)
        reached = max(reached, first + steps - 1)
    with gradwatch.open(tmp_path) as run:
        assert not run.damage
        for path in truth.PATHS:
            steps, values = run.series("gradient", path, "l1")
            assert steps.tolist() == sorted(seed_of)
            true = [truth.summary(truth.gradients(seed_of[s], s)[path])[6] for s in steps.tolist()]
            np.testing.assert_allclose(values, true, rtol=1e-12)
        (rows,) = run.sql("select count(*) from all_summaries").fetchall()[0]
        assert rows == written * len(truth.PATHS)
    print(f"{resumes} resumes, {written} steps written, {len(seed_of)} shown")


def test_eight_processes_that_start_in_one_directory_lose_nothing(nursery, tmp_path):
    children = [
        nursery.start("programs.train_and_end", tmp_path / "a", seed, 1, 30, "close", 0.01)
        for seed in range(8)
    ]
    for child in children:
        assert nursery.wait(child) == 0, nursery.output(child)
    # Those that met each other went side by side; one that came when another had ended goes
    # on in its run, as another attempt.
    seeds = set()
    for directory in sorted(tmp_path.iterdir()):
        with gradwatch.open(directory) as run:
            assert not run.damage
            rows = run.sql(
                "select writer, path, step, l1 from all_summaries order by writer, step"
            ).fetchall()
        for writer in {row[0] for row in rows}:
            own = {(path, step): l1 for w, path, step, l1 in rows if w == writer}
            assert len(own) == 30 * len(truth.PATHS)
            (seed,) = (s for s in range(8) if _is_of(s, own))
            seeds.add(seed)
    assert seeds == set(range(8))


def test_eight_ranks_in_one_run_are_kept_apart(nursery, tmp_path):
    children = [nursery.start("programs.train_as_rank", tmp_path, rank, 30) for rank in range(8)]
    for child in children:
        assert nursery.wait(child) == 0, nursery.output(child)
    with gradwatch.open(tmp_path) as run:
        assert run.ranks == tuple(range(8))
        for rank in run.ranks:
            steps, values = run.series("gradient", truth.PATHS[0], "l1", rank=rank)
            assert steps.tolist() == list(range(1, 31))
            true = [
                truth.summary(truth.gradients(rank, step)[truth.PATHS[0]])[6]
                for step in range(1, 31)
            ]
            np.testing.assert_allclose(values, true, rtol=1e-12)


def _is_of(seed, rows):
    return all(
        np.isclose(l1, truth.summary(truth.gradients(seed, step)[path])[6], rtol=1e-12)
        for (path, step), l1 in rows.items()
    )
