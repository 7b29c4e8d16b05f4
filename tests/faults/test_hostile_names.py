"""Five hundred hostile layer names: all come back, nothing is written elsewhere or acted upon."""

from __future__ import annotations

import itertools
import re
import time
import unicodedata
import warnings

import numpy as np
import pytest

import gradwatch
from gradwatch.sinks import RunInfo
from gradwatch.sinks.pipeline import Pipeline
from gradwatch.store import sealing
from gradwatch.util import Reporter
from tests.cli.support import invoke, strict
from tests.cli.test_names_and_widths import on_terminal
from tests.faults import programs, truth

COUNT = 500
PIECES = [
    "..", ".", "../../../tmp/escaped", "/etc/passwd", "~", "C:\\x", "a\\..\\b", "CON", "nul.txt",
    "'", '"', "`", "'; drop table summaries; --", '" or 1=1 --', "%s%n%x", "{0}", "${HOME}",
    "\x00", "a\x00b", "\x1b[31m", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x07", "\x08", "\r",
    "\n", "a\r\nb", "\t", "\x7f", "\u202e", "\u2066", "\u200b", "\ufeff", "\u0000", "\u2028",
    "é", "e\u0301", "Å", "A\u030a", "ﬁ", "fi", "K", "\u212a", "ß", "SS", "I", "\u0131", "kernel",
    "KERNEL", "Kernel", "<script>alert(1)</script>", "<img src=x onerror=y>", "&amp;", "[red]",
    "[/red]", "[link=file:///]", "=cmd()", "=1+1", "+1", "-1", "@sum", "|calc", ",", ";", "*", "?",
    "[a-z]", "a|b", "(", ")", "^$", "日本語", "😀", "👩‍👩‍👧", "\U0010ffff", "x" * 4096, "é" * 2048,
    " ", "  a  ", "", "null", "NaN", "true", "0", "model", "micro_batch_0", "call_2", "gradient",
]  # fmt: skip
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def hostile_names():
    """Each piece alone and in the midst of a path, then pairs of them; no two alike."""
    alone = [piece for piece in PIECES if piece]
    amid = [f"net/{piece}/kernel" for piece in PIECES]
    pairs = (f"{a}/{b}" for a, b in itertools.product(PIECES, reversed(PIECES)))
    return list(dict.fromkeys([*alone, *amid, *pairs]))[:COUNT]


NAMES = hostile_names()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two steps with all of them, by all sinks; and what lies beside it."""
    folder = tmp_path_factory.mktemp("hostile")
    before = set(folder.parent.iterdir())
    said: list[str] = []
    pipeline = Pipeline(
        [gradwatch.Store(), gradwatch.TensorBoard(), gradwatch.CSV()], Reporter(said.append)
    )
    pipeline.open(RunInfo(folder / "run"))
    for step in (1, 2):
        pipeline.submit(lambda step=step: programs.reading(1, step, NAMES))
    pipeline.close(timeout=60)
    assert sealing.sealer.finish(time.monotonic() + 60)
    assert said == []
    assert [path.name for path in folder.iterdir()] == ["run"]
    assert set(folder.parent.iterdir()) == before
    return folder / "run"


def test_there_are_as_many_as_promised_with_collisions_of_case_and_normal_form():
    assert len(set(NAMES)) == COUNT
    assert len({unicodedata.normalize("NFC", name) for name in NAMES}) < COUNT
    assert len({name.casefold() for name in NAMES}) < COUNT


def test_every_name_comes_back_with_its_own_numbers(run):
    with gradwatch.open(run) as opened:
        assert [site.path for site in opened.sites("gradient")] == NAMES
        assert truth.steps_in(opened, 1, NAMES) == [1, 2]
        heatmap = opened.heatmap("gradient", "l1")
        true = [
            [truth.summary(truth.gradients(1, step, NAMES)[name])[6] for step in (1, 2)]
            for name in NAMES
        ]
        np.testing.assert_allclose(heatmap.values, true, rtol=1e-12)
        for name in NAMES[::25]:
            np.testing.assert_allclose(
                opened.series("gradient", name, "l1")[1], true[NAMES.index(name)], rtol=1e-12
            )
        assert not opened.damage


def test_nothing_but_the_files_of_a_run_is_written(run):
    patterns = (
        r"run\.json", r"\.lock", r"journal-[\w-]+\.gwj", r"segments", r"manifest-[\w-]+\.json",
        r"[\w.-]+\.parquet", r"events\.out\.tfevents\.[\w.-]+", r"summaries\.csv",
    )  # fmt: skip
    for path in run.rglob("*"):
        assert any(re.fullmatch(pattern, path.name) for pattern in patterns), path


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("tail", "-n", "99"),
        ("sql", "select distinct path from summaries"),
        ("export", "--format", "csv"),
        ("export", "--format", "jsonl"),
        ("verify",),
        ("ls",),
    ],
)
def test_no_raw_escape_reaches_the_output(run, arguments):
    name, *rest = arguments
    result = invoke(name, run, *rest)
    assert not RAW.search(result.stdout + result.stderr)


def test_no_raw_escape_reaches_a_terminal(run):
    text, code = on_terminal(80, "show", run, TERM="xterm")
    assert code == 0
    ours = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text)
    assert not RAW.search(ours.replace("\r", ""))
    # Of what is coloured, nothing is by a name's wish.
    assert "\x1b[31m" not in text.replace("\x1b[1m", "")
    assert "\x1b[2J" not in text
    assert "\x1b]" not in text


def test_names_survive_json(run):
    lines = invoke("export", run, "--format", "jsonl", "--steps", "1").stdout.splitlines()
    assert {strict(line)["path"] for line in lines} == set(NAMES)
    assert len(lines) == COUNT


def test_a_loop_gives_each_name_its_own_site(tmp_path):
    """It spells some of them otherwise, since slashes and brackets mean something in paths."""
    sinks = [gradwatch.Store(), gradwatch.CSV()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gradwatch.Monitor(tmp_path / "run", every=1, sinks=sinks, diagnose=False) as monitor:
            monitor.record(gradients=truth.gradients(1, 1, NAMES))
    with gradwatch.open(tmp_path / "run") as opened:
        paths = [site.path for site in opened.sites("gradient")]
        assert len(set(paths)) == COUNT
        assert sum(path != name for path, name in zip(paths, NAMES, strict=True)) < COUNT // 4
        heatmap = opened.heatmap("gradient", "l1")
        true = [truth.summary(x)[6] for x in truth.gradients(1, 1, NAMES).values()]
        np.testing.assert_allclose(heatmap.values[:, 0], true, rtol=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
