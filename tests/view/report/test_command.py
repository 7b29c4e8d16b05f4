"""`gradwatch report`: which file, which form, and nothing of anyone else's replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradwatch
from gradwatch.view.web import static
from tests.cli.support import command, invoke, strict


def test_the_suffix_tells_the_format_and_a_report_is_replaced(golden_run, tmp_path):
    for name, begins in (("a.html", "<!doctype html>"), ("a.md", "<!-- gr"), ("a.json", "{\n")):
        for _ in range(2):
            result = invoke("report", golden_run, "-o", tmp_path / name)
            assert result.stdout == ""
            assert name in result.stderr
        assert (tmp_path / name).read_text().startswith(begins)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "a.json", "a.md"]


@pytest.mark.parametrize("name", ["thesis.html", "README.md", "settings.json"])
def test_a_file_that_is_no_report_is_kept_unless_forced(golden_run, tmp_path, name):
    file = tmp_path / name
    file.write_text("years of work")
    result = invoke("report", golden_run, "-o", file, code=2)
    assert "--force" in result.stderr
    assert file.read_text() == "years of work"
    invoke("report", golden_run, "-o", file, "--force")
    assert "golden" in file.read_text()


def test_without_a_name_the_page_is_report_html_and_the_others_go_to_stdout(golden_run, tmp_path):
    done = subprocess.run(
        command("report", golden_run), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert strict(invoke("report", golden_run, "--format", "json").stdout)["run"] == "golden"
    assert invoke("report", golden_run, "-o", "-").stdout.startswith("<!doctype html>")
    assert invoke("report", golden_run, "-o", "-", "--format", "md").stdout.startswith("<!-- ")


def test_mistakes_are_said_in_one_line(golden_run, tmp_path):
    for arguments, words in {
        ("report", tmp_path / "none"): "none",
        ("report", golden_run, "-o", tmp_path / "a.pdf"): ".html, .htm, .md",
        ("report", golden_run, "--rank", 7): "There is no rank 7",
        ("report", golden_run, "-o", tmp_path / "no" / "a.html"): "No such file",
        ("report", golden_run, "-o", "-", "--open"): "-o",
    }.items():
        error = invoke(*arguments, code=2).stderr
        assert words in error
        assert error.count("\n") == 1


def test_a_front_end_that_is_not_built_is_said(golden_run, tmp_path, monkeypatch):
    monkeypatch.setattr(static, "files", lambda package: tmp_path / "nowhere")
    error = invoke("report", golden_run, "-o", tmp_path / "a.html", code=2).stderr
    assert "not built" in error
    assert not (tmp_path / "a.html").exists()
    invoke("report", golden_run, "-o", tmp_path / "a.md")


def test_a_report_can_be_made_from_python_of_an_open_run(golden_run, tmp_path):
    with gradwatch.open(golden_run) as run:
        assert gradwatch.report(run, tmp_path / "a.txt", format="md") == tmp_path / "a.txt"
    with pytest.raises(ValueError, match="no format 'pdf'"):
        gradwatch.report(golden_run, tmp_path / "b", format="pdf")
    with pytest.raises(ValueError, match=r"none of \.html"):
        gradwatch.report(golden_run, tmp_path / "b")


def test_making_a_report_writes_nothing_into_the_run(golden_run, tmp_path):
    def state():
        files = [p for p in Path(golden_run).rglob("*") if p.is_file()]
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = state()
    invoke("report", golden_run, "-o", tmp_path / "a.html")
    assert state() == before


def test_an_interrupted_report_leaves_no_file(golden_run, tmp_path):
    code = """
import sys
import gradwatch.util.files.atomic as atomic
def stop(*_): raise KeyboardInterrupt
atomic.publish = stop
from gradwatch.cli.main import main
main(["report", sys.argv[1], "-o", sys.argv[2]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(golden_run), str(tmp_path / "a.html")],
        capture_output=True,
        env=dict(os.environ),
    )
    assert done.returncode == 130
    assert list(tmp_path.iterdir()) == []
