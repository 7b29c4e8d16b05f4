"""`torchrun -m gradwatch run` on a script of a trainer that nobody has edited."""

import gradwatch
from gradwatch import Kind
from tests.distributed.launching import Processes, environment
from tests.integrations.test_run_script import ENDING, SCRIPTS

LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def test_a_script_of_a_trainer_is_recorded_in_two_processes(tmp_path):
    script, run = tmp_path / "train.py", tmp_path / "run"
    gloo = SCRIPTS["transformers"].replace("use_cpu=True", "use_cpu=True, ddp_backend='gloo'")
    script.write_text(f"FOLDER = {str(tmp_path / 'out')!r}\n{gloo}{ENDING}")
    hashes = []
    for how in ([], ["-m", "gradwatch", "run", "--every", "1", "--directory", run]):
        folder = tmp_path / f"said-{len(hashes)}"
        folder.mkdir()
        with Processes(folder, [[*LAUNCH, *how, script]], [environment()]) as processes:
            assert processes.wait_for_all() == [0], processes.heard()
            said = processes.said(0)
        hashes.append(sorted(line for line in said.splitlines() if line.startswith("HASH")))
    assert len(hashes[0]) == 2
    assert hashes[0] == hashes[1]
    assert said.count("train.py: ") == 1
    opened = gradwatch.open(run)
    assert opened.ranks == (0, 1)
    assert "averaged over all ranks" in opened.facts["fits"][-1]["meaning"][str(Kind.GRADIENT)]
    ranks = opened.sql("select distinct rank from summaries where kind = 'gradient'").fetchall()
    assert ranks == [(0,)]
