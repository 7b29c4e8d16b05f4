"""`tail`: follows what is written, by another process, until that ends."""

import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gradwatch import Kind, Reading, Site, Summary
from gradwatch.store.writer import StoreWriter
from tests.cli.support import ROOT, arrays, invoke, make_run, spawn, strict, write


def test_tail_of_a_finished_run_shows_its_last_steps_and_ends(run, truth):
    lines = invoke("tail", run, "-n", 3, "--json").stdout.splitlines()
    facts = [strict(line) for line in lines]
    assert [each["step"] for each in facts] == [38, 39, 40]
    for each in facts:
        step = each["step"]
        gradients = [v[step] for site, v in truth.items() if site.kind is Kind.GRADIENT]
        expected = np.linalg.norm(np.concatenate(gradients))
        assert each["gradient_l2"] == pytest.approx(expected, rel=1e-12)
        ratios = {
            site.path: np.linalg.norm(v[step])
            / np.linalg.norm(truth[Site("weight", site.path)][step])
            for site, v in truth.items()
            if site.kind is Kind.UPDATE
        }
        assert each["largest_update_ratio"] == pytest.approx(max(ratios.values()), rel=1e-12)
        assert each["largest_update_path"] == max(ratios, key=ratios.get)
        assert each["losses"] == {"loss": 1 / step}
        assert each["epoch"] == 4
        assert each["nonfinite"] == 0


def test_tail_counts_elements_that_are_not_finite(run):
    facts = [strict(line) for line in invoke("tail", run, "-n", 99, "--json").stdout.splitlines()]
    assert {each["step"]: each["nonfinite"] for each in facts if each["nonfinite"]} == {7: 1, 9: 1}
    assert len(facts) == 40


def test_tail_follows_a_live_run_to_its_end(tmp_path):
    truth = arrays()
    writer = write(tmp_path / "a", truth, last=2)
    tail = spawn("tail", tmp_path / "a", "--json", "--interval", "0.05", stdout=subprocess.PIPE)
    seen = [strict(tail.stdout.readline())["step"] for _ in range(2)]
    for step in range(3, 6):
        sites = list(truth)
        rows = np.stack([Summary.of(truth[site][step]).pack() for site in sites])
        writer.write(Reading(step, 1, 1e9 + step, sites, Summary.unpack(rows)))
    seen += [strict(tail.stdout.readline())["step"] for _ in range(3)]
    assert tail.poll() is None  # still following
    writer.close()
    rest, _ = tail.communicate(timeout=300)
    assert (seen, rest, tail.returncode) == ([1, 2, 3, 4, 5], "", 0)


def test_the_loss_of_a_step_that_comes_a_moment_later_is_on_its_line(tmp_path, monkeypatch):
    def reading(step, site, value):
        row = Summary.of(np.array([value])).pack()[None]
        return Reading(step, 1, 1e9 + step, [site], Summary.unpack(row))

    loss, gradient = Site(Kind.LOSS, "loss"), Site(Kind.GRADIENT, "a")
    writer = StoreWriter(tmp_path / "a")
    writer.write(reading(1, gradient, 3.0))

    def between_two_looks(seconds):
        writer.write(reading(1, loss, 0.5))
        writer.write(reading(2, gradient, 4.0))
        writer.close()

    monkeypatch.setattr("gradwatch.cli.tail.time", SimpleNamespace(sleep=between_two_looks))
    facts = [strict(line) for line in invoke("tail", tmp_path / "a", "--json").stdout.splitlines()]
    assert [(f["step"], f["losses"], f["gradient_l2"]) for f in facts] == [
        (1, {"loss": 0.5}, 3.0),
        (2, {}, 4.0),
    ]


def test_steps_that_come_again_after_a_resume_are_shown_again(tmp_path):
    truth = arrays()
    writer = write(tmp_path / "a", truth, last=5)
    tail = spawn("tail", tmp_path / "a", "--json", "--interval", "0.05", stdout=subprocess.PIPE)
    seen = [strict(tail.stdout.readline())["step"] for _ in range(5)]
    for step in (3, 4):
        sites = list(truth)
        rows = np.stack([Summary.of(truth[site][step]).pack() for site in sites])
        writer.write(Reading(step, 1, 1e9 + step, sites, Summary.unpack(rows)))
    writer.close()
    rest, _ = tail.communicate(timeout=300)
    seen += [strict(line)["step"] for line in rest.splitlines()]
    assert seen == [1, 2, 3, 4, 5, 3, 4]


def test_tail_waits_for_a_run_only_when_told_to(tmp_path):
    message = invoke("tail", tmp_path / "a", code=2).stderr
    assert "--wait" in message
    arguments = ("tail", tmp_path / "a", "--wait", "--json", "--interval", "0.05")
    tail = spawn(*arguments, stdout=subprocess.PIPE)
    make_run(tmp_path / "a")
    output, _ = tail.communicate(timeout=300)
    assert strict(output.splitlines()[-1])["step"] == 40
    assert tail.returncode == 0


def test_ctrl_c_ends_tail_silently_with_130(tmp_path):
    writer = write(tmp_path / "a", arrays())
    tail = spawn("tail", tmp_path / "a", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "step" in tail.stdout.readline()
    assert tail.stdout.readline()
    time.sleep(0.2)
    tail.send_signal(signal.SIGINT)
    _, errors = tail.communicate(timeout=300)
    assert (tail.returncode, errors.strip()) == (130, "")
    writer.close()


def test_a_training_that_was_killed_ends_tail_with_1(tmp_path):
    code = (
        "import sys, os; from pathlib import Path; from tests.cli.support import arrays, write; "
        "write(Path(sys.argv[1]), arrays()); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "a"], cwd=ROOT)
    result = invoke("tail", tmp_path / "a", "-n", 1, code=1)
    assert "The run is crashed." in result.stderr
