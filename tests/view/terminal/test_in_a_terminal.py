"""`gradwatch top` in a real pseudo-terminal: what is seen, and what is left behind."""

import math
import os
import re
import shutil
import signal
import sys
import time

import numpy as np
import pytest

from gradwatch import Kind, Reading, Summary
from gradwatch.util.words import compact
from tests.cli.support import arrays, make_run, write
from tests.cli.test_names_and_widths import HOSTILE
from tests.store.recorded import settle
from tests.variants import rarely
from tests.view.terminal.conftest import MANY
from tests.view.terminal.emulator import ENTER, LEAVE, top

# JAX, if other tests have loaded it here, complains of the fork before an exec.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

LAYERS = re.compile(r"^(layer\d+)", re.MULTILINE)


def rows(seen):
    """The layers in sight, from top to bottom."""
    return LAYERS.findall(seen)


def gradient_norms(truth, step):
    """By layer, the L2 norm of its gradients, by NumPy."""
    layers = {}
    for site, series in truth.items():
        if site.kind is Kind.GRADIENT:
            layers.setdefault(site.path.rpartition("/")[0], []).append(series[step])
    return {name: np.linalg.norm(np.concatenate(own)) for name, own in layers.items()}


def test_it_shows_the_true_numbers_and_those_that_are_written_meanwhile(emulate, tmp_path):
    truth = arrays()
    writer = write(tmp_path / "a", truth, last=20)
    terminal = emulate(top(tmp_path / "a", "--every", "0.1"))
    for last in (20, 40):
        for step in range(21, last + 1):
            sites = list(truth)
            packed = np.stack([Summary.of(truth[site][step]).pack() for site in sites])
            writer.write(Reading(step, 3, 1e9 + step, sites, Summary.unpack(packed)))
        expected = [f"step {last} ", "live", "1.00 steps/s"]
        expected += [rf"^loss +{re.escape(compact(1 / last))} "]
        for layer, norm in gradient_norms(truth, last).items():
            expected += [rf"^{layer.removeprefix('net/')} .* {re.escape(compact(norm))} "]
        terminal.until(
            lambda seen, expected=expected: all(re.search(e, seen, re.MULTILINE) for e in expected)
        )
    writer.close()
    terminal.until(lambda seen: "finished" in seen)
    terminal.type("q")
    assert terminal.ended() == 0
    assert terminal.is_as_before()


def test_nothing_is_written_while_nothing_changes_and_little_when_little_does(emulate, many):
    terminal = emulate(top(many, "--every", "0.1"))
    terminal.until(lambda seen: "layer0 " in seen and "health" in seen and "looking" not in seen)
    terminal.until_silent(1.0)
    known = len(terminal.sent)
    terminal.read(1.5)
    assert len(terminal.sent) == known
    terminal.type("r")
    terminal.until(lambda seen: rows(seen)[:1] == [f"layer{MANY - 1}"])
    # The lines above the table have not changed, and were not written again.
    assert "steps/s" not in terminal.sent[known:]
    assert terminal.sent.count("\x1b[2J") <= 2


def test_keys_order_scroll_and_filter(emulate, many):
    truth = arrays(paths=tuple(f"net/layer{i}/kernel" for i in range(MANY)))
    norms = gradient_norms(truth, 40)
    terminal = emulate(top(many))
    seen = terminal.until(lambda seen: f"of {MANY} layers" in seen and "looking" not in seen)
    page = len(rows(seen))
    assert rows(seen) == [f"layer{i}" for i in range(page)]
    assert 15 < page < 28
    largest = [name.removeprefix("net/") for name in sorted(norms, key=norms.get, reverse=True)]
    terminal.type("g")
    terminal.until(lambda seen: "grad L2 ▼" in seen and rows(seen) == largest[:page])
    terminal.type("r")
    terminal.until(lambda seen: "grad L2 ▲" in seen and rows(seen)[:3] == largest[::-1][:3])
    terminal.type("rn")
    terminal.until(lambda seen: rows(seen)[:1] == ["layer0"])
    for keys, first in (
        ("\x1b[B\x1b[B", 2),
        ("\x1b[A", 1),
        ("\x1b[6~", 1 + page),
        ("\x1b[5~", 1),
        ("\x1b[F", MANY - page),
        ("\x1b[B", MANY - page),
        ("\x1bOH", 0),
    ):
        terminal.type(keys)
        terminal.until(lambda seen, first=first: rows(seen)[:1] == [f"layer{first}"])
    terminal.type("/layer1? !layer15\r")
    chosen = [f"layer{i}" for i in range(10, 20) if i != 15]
    terminal.until(lambda seen: "of 9 layers" in seen and rows(seen) == chosen)
    terminal.type("/nothing\r")
    terminal.until(lambda seen: f"nothing selects none of {MANY} layers." in seen)
    terminal.type("/a//b\r")
    terminal.until(lambda seen: "A path pattern has no empty component" in seen)
    terminal.type("\x1b")
    terminal.until(lambda seen: f"of {MANY} layers" in seen)


@pytest.mark.parametrize(("columns", "lines"), [(60, 12), (1, 1), *rarely((200, 50), (20, 5))])
def test_after_a_resize_all_fits_the_new_size(emulate, many, columns, lines):
    terminal = emulate(top(many))
    terminal.until(lambda seen: "layer0 " in seen and "looking" not in seen)
    known = len(terminal.sent)
    terminal.resize(columns, lines)

    def positions():
        """Of the lines that were written since the screen was cleared for the new size."""
        _, cleared, fresh = terminal.sent[known:].rpartition("\x1b[2J")
        return [int(line) for line in re.findall(r"\x1b\[(\d+);1H", cleared and fresh)]

    terminal.until(lambda seen: lines in positions())
    terminal.until_silent(0.5)
    assert max(positions()) == lines
    if lines > 10:
        assert "layer0" in terminal.seen
        assert "many" in terminal.seen.splitlines()[0]
        assert f"of {MANY} layers" in terminal.seen.splitlines()[-1]
    terminal.type("\x03")
    assert terminal.ended() == 130
    assert terminal.is_as_before()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda terminal: terminal.type("\x03"), 130),
        (lambda terminal: terminal.type("q"), 0),
        (lambda terminal: terminal.process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM),
        (lambda terminal: terminal.process.send_signal(signal.SIGHUP), 128 + signal.SIGHUP),
    ],
    ids=["ctrl-c", "q", "sigterm", "sighup"],
)
@pytest.mark.parametrize("when", ["at once", *rarely("later")])
def test_the_terminal_is_left_as_it_was(emulate, many, end, code, when):
    terminal = emulate(top(many))
    terminal.until(lambda seen: ENTER in terminal.sent)
    if when == "later":
        terminal.until(lambda seen: "layer0 " in seen)
    end(terminal)
    assert terminal.ended() == code
    assert terminal.is_as_before()
    assert "Traceback" not in terminal.sent


def test_a_fault_of_ours_is_said_on_the_screen_that_was_there_before(emulate, many):
    program = (
        "import gradwatch.view.terminal.top_loop as loop\n"
        "def screen(*_): raise RuntimeError('a fault')\n"
        "loop.screen = screen\n"
        "from gradwatch.cli.main import main\n"
        "main()"
    )
    terminal = emulate([sys.executable, "-c", program, "top", str(many)])
    assert terminal.ended() == 70
    assert terminal.is_as_before()
    assert terminal.sent.index(LEAVE) < terminal.sent.index("RuntimeError: a fault")


def test_a_stop_gives_the_terminal_back_and_takes_it_again(emulate, many):
    terminal = emulate(top(many))
    terminal.until(lambda seen: "layer0 " in seen)
    known = len(terminal.sent)
    # Its parent is in another session, so the kernel lets it go on at once.
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.until(lambda seen: ENTER in terminal.sent[known:] and "layer0 " in seen)
    fresh = terminal.sent[known:]
    assert fresh.index(LEAVE) < fresh.index(ENTER)
    terminal.type("q")
    assert terminal.ended() == 0
    assert terminal.is_as_before()


def test_a_run_that_vanishes_is_said_to_and_what_was_known_stays(emulate, tmp_path):
    make_run(tmp_path / "a")
    terminal = emulate(top(tmp_path / "a", "--every", "0.1"))
    terminal.until(lambda seen: "conv " in seen and "looking" not in seen)
    settle()  # Else it may come back, sealed.
    shutil.rmtree(tmp_path / "a")
    terminal.read(1.0)
    assert terminal.process.poll() is None
    assert "Traceback" not in terminal.sent
    terminal.type("q")
    assert terminal.ended() == 0


def test_hostile_names_send_nothing_to_the_terminal(emulate, tmp_path):
    make_run(tmp_path / "a\x1b[31mb", arrays(paths=HOSTILE))
    terminal = emulate(top(tmp_path / "a\x1b[31mb"), columns=300, lines=40)
    names = (r"\x1b[31mred\x1b[0m", "[red]markup[/red]", r"a\x1b[31mb")
    terminal.until(lambda seen: all(name in seen for name in names))
    # What is left without our own sequences has no control character but line ends.
    left = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", terminal.sent)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", left)
    assert "\x1b[31mred" not in terminal.sent


def test_colours_are_there_unless_they_are_not_wanted(emulate, many):
    colour = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])(?:;\d+)*m")
    for environment, has_colour in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = emulate(top(many), **environment)
        terminal.until(lambda seen: f"of {MANY} layers" in seen and "looking" not in seen)
        assert bool(colour.search(terminal.sent)) == has_colour


def test_an_encoding_without_small_bars_gets_others(emulate, many):
    terminal = emulate(top(many), PYTHONIOENCODING="ascii")
    seen = terminal.until(lambda seen: "layer0 " in seen and "looking" not in seen)
    assert seen.isascii()
    assert "\\u" not in terminal.sent
    assert "\\x" not in terminal.sent


def test_it_waits_for_a_run_that_has_not_begun_if_told_to(emulate, tmp_path):
    place = tmp_path / "late"
    terminal = emulate(top(place))
    assert terminal.ended() == 2
    assert "To wait for it: --wait." in " ".join(terminal.seen.split())
    terminal = emulate(top(place, "--wait", "--every", "0.1"), columns=200)
    terminal.until(lambda seen: "Waiting for" in seen)
    make_run(place)
    terminal.until(lambda seen: "conv " in seen)


def test_without_a_keyboard_it_goes_on_showing(many, tmp_path, emulate):
    line = f"exec {' '.join(top(many))} < /dev/null"
    terminal = emulate(["/bin/sh", "-c", line])
    terminal.until(lambda seen: "layer0 " in seen)
    time.sleep(0.3)
    assert terminal.process.poll() is None
    terminal.type("\x03")
    assert terminal.ended() == 130
    assert terminal.is_as_before()


def test_a_loss_that_is_not_finite_is_seen(emulate, tmp_path):
    truth = arrays()
    loss = next(site for site in truth if site.kind is Kind.LOSS)
    truth[loss][40] = np.array([math.nan])
    make_run(tmp_path / "a", truth)
    terminal = emulate(top(tmp_path / "a"))
    terminal.until(lambda seen: re.search(r"^loss +nan ", seen, re.MULTILINE))
    assert os.environ.get("NO_COLOR") is not None or "\x1b[1;31mnan" in terminal.sent
