"""One of two processes is killed in the midst of training."""

import gradwatch
from tests.cli.support import invoke


def test_the_run_says_which_rank_stopped_when(trained):
    path = trained("killed", ends_well=False) / "killed"
    run = gradwatch.open(path)
    assert str(run.status) == "crashed"
    first, second = run.rank_statuses
    assert (str(first.status), str(second.status)) == ("finished", "crashed")
    assert first.last_step == second.last_step == 7
    for rank, each in enumerate((first, second)):
        assert each.last_time == max(reading.time for reading in run.at(7, rank=rank))
    assert run.steps("gradient", 0).tolist() == list(range(1, 8))
    text = invoke("show", str(path)).stdout
    assert "rank 1 crashed, last at step 7" in text
    assert "1 of 2 finished" in text
