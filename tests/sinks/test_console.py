from __future__ import annotations

import errno
import io
import os
import pty
import re
import termios
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwatch.core import Kind, Site
from gradwatch.sinks import Console, RunInfo
from gradwatch.sinks.layer_lines import thousands

RUN = RunInfo(Path())


@pytest.fixture(autouse=True)
def no_columns(monkeypatch):
    """The tests' own terminal has no say."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def printed(*readings, epoch=1, file=None, **options):
    file = io.StringIO() if file is None else file
    sink = Console(file=file, **options)
    sink.open(RUN)
    for reading in readings:
        sink.write(reading)
    sink.epoch_end(epoch, {})
    return file.getvalue() if isinstance(file, io.StringIO) else None


ARRAYS = {
    Site(Kind.WEIGHT, "net/dense/kernel"): [3.0, 4.0],
    Site(Kind.WEIGHT, "net/dense/bias"): [0.0],
    Site(Kind.WEIGHT, "net/head/kernel"): [12.0],
    Site(Kind.GRADIENT, "net/dense/kernel"): [0.3, 0.0],
    Site(Kind.GRADIENT, "net/dense/bias"): [-0.4],
    Site(Kind.GRADIENT, "net/head/kernel"): [0.0],
    Site(Kind.UPDATE, "net/dense/kernel"): [0.003, 0.004],
    Site(Kind.UPDATE, "net/dense/bias"): [0.0],
    Site(Kind.UPDATE, "net/head/kernel"): [-0.012],
}


def test_the_table_has_one_row_a_layer_and_one_for_the_model(make_reading):
    assert printed(make_reading(1200, ARRAYS), epoch=3) == (
        "\n"
        "gradwatch · epoch 3 · step 1200\n"
        "layer  params  weight L2  grad L2  grad RMS  grad max  update/w   zeros\n"
        "dense       3       5.00    0.500     0.289     0.400   0.00100   33.3%\n"
        "head        1       12.0        0         0         0   0.00100  100.0%\n"
        "model       4       13.0    0.500     0.250     0.400   0.00100   50.0%\n"
    )


def test_columns_of_kinds_that_are_not_watched_are_left_out(make_reading):
    only = {site: x for site, x in ARRAYS.items() if site.kind is Kind.WEIGHT}
    header = printed(make_reading(1, only)).splitlines()[2]
    assert header == "layer  params  weight L2"


def test_the_applied_gradient_is_shown_under_its_own_name_if_it_is_the_only_one(make_reading):
    text = printed(make_reading(1, {Site(Kind.APPLIED_GRADIENT, "a/k"): [2.0]}))
    assert "applied L2  applied RMS  applied max" in text
    both = {Site(Kind.APPLIED_GRADIENT, "a/k"): [2.0], Site(Kind.GRADIENT, "a/k"): [7.0]}
    text = printed(make_reading(1, both))
    assert "applied" not in text
    assert "7.00" in text


def test_elements_that_are_not_finite_get_a_column_only_when_there_are_any(make_reading):
    assert "NaN/Inf" not in printed(make_reading(1, ARRAYS))
    site = Site(Kind.GRADIENT, "net/head/kernel")
    lines = printed(make_reading(1, {**ARRAYS, site: [np.nan, np.inf, 1.0]})).splitlines()
    assert lines[2].endswith("NaN/Inf")
    assert [line.split()[-1] for line in lines[3:]] == ["0", "2", "2"]


def test_the_newest_values_of_each_kind_are_shown(make_reading):
    weights = {Site(Kind.WEIGHT, "a/k"): [5.0]}
    text = printed(
        make_reading(10, weights),
        make_reading(20, {Site(Kind.GRADIENT, "a/k"): [1.0]}),
        make_reading(30, {Site(Kind.GRADIENT, "a/k"): [2.0]}),
    )
    assert "step 30" in text
    assert text.splitlines()[3].split() == [
        "a", "1", "5.00", "2.00", "2.00", "2.00", "0.0%",
    ]  # fmt: skip


def test_parts_that_are_measured_by_turns_are_shown_with_the_newest_of_each(make_reading):
    parts = [{Site(Kind.GRADIENT, f"{name}/kernel"): [1.0]} for name in ("maker", "critic")]
    sites = [tuple(part) for part in parts]
    turns = []
    for step in range(1, 6):
        turn = step % 2 == 0
        reading = make_reading(step, {site: [float(step)] for site in parts[turn]})
        turns.append(replace(reading, sites=sites[turn]))
    rows = [line.split() for line in printed(*turns).splitlines()]
    shown = {row[0]: row[2] for row in rows if row and row[0] in ("maker", "critic")}
    assert shown == {"maker": "5.00", "critic": "4.00"}


def test_layers_are_in_network_order_even_if_they_are_first_seen_in_another(make_reading):
    text = printed(
        make_reading(1, {Site(Kind.GRADIENT, f"{name}/k"): [1.0] for name in "ce"}),
        make_reading(2, {Site(Kind.WEIGHT, f"{name}/k"): [1.0] for name in "abcdef"}),
    )
    assert [line.split()[0] for line in text.splitlines()[3:]] == [*"abcdef", "model"]


def test_the_update_ratio_is_over_variables_of_which_both_are_watched(make_reading):
    arrays = {
        Site(Kind.WEIGHT, "a/k"): [2.0],
        Site(Kind.WEIGHT, "a/b"): [1e6],
        Site(Kind.UPDATE, "a/k"): [1.0],
        Site(Kind.UPDATE, "b/k"): [1.0],
    }
    lines = printed(make_reading(1, arrays)).splitlines()
    assert [line.split()[-1] for line in lines[3:]] == ["0.500", "1", "0.500"]


def test_many_layers_are_ranges_between_the_first_and_the_last(make_reading):
    sizes = np.linspace(1.0, 2.0, 50)
    sizes[[17, 31]] = 100.0, 0.01
    arrays = {Site(Kind.GRADIENT, f"l{i:02}/k"): [size] for i, size in enumerate(sizes)}
    lines = printed(make_reading(1, arrays), max_rows=4).splitlines()
    assert [re.split("  +", line)[0] for line in lines[3:]] == [
        "l00", "l01 … l24", "l25 … l48", "l49", "model",
    ]  # fmt: skip
    assert re.split("  +", lines[4])[1:4] == ["24", "1.0…1.0e+02", "l17"]
    assert re.split("  +", lines[5])[1:4] == ["24", "0.010…2.0", "l31"]
    assert len(printed(make_reading(1, arrays), max_rows=20).splitlines()) <= 3 + 20 + 1
    assert len(printed(make_reading(1, arrays), max_rows=50).splitlines()) == 3 + 50 + 1


def transformer(blocks):
    """Sites as `fit` has them: variables first, then the outputs, with layers of no variables."""
    parts = ("norm", "mix/query", "mix/key", "mix", "add")
    layers = ["embed", *(f"block_{i}_{part}" for i in range(blocks) for part in parts)]
    layers += ["pool", "logits", "softmax"]
    variables = [
        layer for layer in layers if layer.endswith(("embed", "norm", "query", "key", "logits"))
    ]
    return {
        **{Site(Kind.WEIGHT, f"net/{layer}/kernel"): [1.0, 2.0] for layer in variables},
        **{Site(Kind.GRADIENT, f"net/{layer}/kernel"): [0.1, 0.2] for layer in variables},
        **{Site(Kind.OUTPUT, f"net/{layer}"): [0.0, 3.0] for layer in layers},
    }


@pytest.mark.parametrize("columns", [60, 80, 100, 160])
@pytest.mark.parametrize("blocks", [1, 2, 3, 12, 100])
def test_a_deep_network_is_shown_in_order_each_layer_once_without_dashes(
    make_reading, monkeypatch, blocks, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed(make_reading(1, transformer(blocks))).splitlines()
    assert max(map(len, lines)) <= columns
    names = [re.split("  +", line)[0] for line in lines[3:]]
    assert len(names) == len(set(names)) <= 21
    assert names[0] == "embed"
    assert names[-4:] == ["pool", "logits", "softmax", "model"]
    assert not any(re.search(r" -( |$)", line) for line in lines)
    if blocks == 1:
        inner = ["norm", "mix/query", "mix/key", "mix", "add"]
        assert names[1:6] == [f"block_0_{part}" for part in inner]
    if blocks == 12:
        assert names[1:-4] == [f"block_{i}" for i in range(12)]
    if blocks == 100:
        assert names[1].startswith("block_0 … block_")
        assert names[-5].endswith("block_99")


def test_the_layer_that_is_not_finite_is_named_in_its_block(make_reading):
    arrays = {**transformer(12), Site(Kind.GRADIENT, "net/block_7_mix/key/kernel"): [np.nan, 1.0]}
    lines = printed(make_reading(1, arrays)).splitlines()
    row = next(line for line in lines if line.startswith("block_7 "))
    assert "0.22…nan" in row
    assert " mix/key " in row
    assert row.split()[-1] == "1"
    assert "nan" in lines[-1]  # the model


def test_names_are_shortened_so_that_they_differ(make_reading, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = [f"a_rather_long_name_of_layer_{i}_of_the_{part}" for i in range(3) for part in "ab"]
    arrays = {Site(Kind.GRADIENT, f"net/{name}/kernel"): [1.0] for name in names}
    shown = [line.split()[0] for line in printed(make_reading(1, arrays)).splitlines()[3:-1]]
    assert len(set(shown)) == len(names)


def test_the_cell_of_an_lstm_is_in_the_row_of_the_lstm(make_reading):
    arrays = {
        Site(Kind.GRADIENT, "net/lstm/lstm_cell/kernel"): [3.0],
        Site(Kind.GRADIENT, "net/head/kernel"): [1.0],
        Site(Kind.OUTPUT, "net/lstm"): [0.0],
        Site(Kind.OUTPUT, "net/head"): [1.0],
    }
    lines = printed(make_reading(1, arrays)).splitlines()
    assert [line.split()[0] for line in lines[3:]] == ["lstm", "head", "model"]
    assert lines[3].split()[1:3] == ["1", "3.00"]
    assert lines[3].split()[-1] == "100.0%"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("share", ["one", "all"])
def test_a_number_of_a_tensor_that_is_not_finite_is_shown_so(make_reading, bad, share):
    values = np.full(4, bad) if share == "all" else np.array([bad, 0.0, 1.0, 2.0])
    arrays = {**ARRAYS, **{Site(k.kind, "net/head/kernel"): values for k in ARRAYS}}
    rows = [line.split() for line in printed(make_reading(1, arrays)).splitlines()[2:]]
    word = "nan" if np.isnan(bad) else "inf"
    for row in rows[2:]:  # the layer, and the model with it
        cells = dict(zip(re.split("  +", "weight  grad  RMS  max"), row[2:6], strict=True))
        assert cells == dict.fromkeys(cells, word)
    assert rows[2][7] == ("nan" if share == "all" else "25.0%")


def test_nothing_is_printed_when_there_is_nothing_to_show(make_reading):
    assert printed() == ""
    file = io.StringIO()
    sink = Console(file=file)
    sink.open(RUN)
    sink.write(make_reading(1, ARRAYS))
    sink.open(RUN)  # a new run knows nothing of the old one
    sink.epoch_end(1, {})
    assert file.getvalue() == ""


def test_hostile_names_are_shown_and_not_obeyed(make_reading):
    names = ["[red]x[/red]", "\x1b[2J", "a\nb", "\u202egnp", "\ud800", "nul\0", ":smile:"]
    arrays = {Site(Kind.GRADIENT, f"{name}/k"): [1.0] for name in names}
    lines = printed(make_reading(1, arrays)).splitlines()
    assert [line.split()[0] for line in lines[3:]] == [
        "[red]x[/red]",
        "\\x1b[2J",
        "a\\nb",
        "\\u202egnp",
        "\\ud800",
        "nul\\x00",
        ":smile:",
        "model",
    ]


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 40, 20, 8, 1])
@pytest.mark.parametrize("name", ["net/dense", "x" * 4096, "日本語" * 40])
def test_the_text_is_never_wider_than_asked(make_reading, monkeypatch, columns, name):
    from rich.cells import cell_len

    monkeypatch.setenv("COLUMNS", str(columns))
    arrays = {
        Site(site.kind, site.path.replace("net/dense", name)): x for site, x in ARRAYS.items()
    }
    lines = printed(make_reading(1, arrays)).splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert len(lines) == 6


def test_a_long_name_is_shortened_in_the_middle_and_all_columns_kept(make_reading, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    arrays = {Site(k.kind, f"functional/long_block_name/{k.path}"): x for k, x in ARRAYS.items()}
    lines = printed(make_reading(1, arrays)).splitlines()

    header = re.sub(" +", " ", lines[2])
    assert header == "layer params weight L2 grad L2 grad RMS grad max update/w zeros"
    assert re.match(r"^long\w*…\S*dense ", lines[3])


def test_in_a_narrow_place_the_gradient_and_what_is_wrong_with_it_are_kept(
    make_reading, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "31")
    site = Site(Kind.GRADIENT, "net/head/kernel")
    lines = printed(make_reading(1, {**ARRAYS, site: [np.nan]})).splitlines()
    assert lines[2].split() == ["layer", "grad", "L2", "NaN/Inf"]


class Broken(io.StringIO):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def write(self, text):
        raise self.fault


@pytest.mark.parametrize(
    "fault", [BrokenPipeError(errno.EPIPE, "gone"), ValueError("closed"), OSError]
)
def test_a_broken_output_is_no_reason_to_fail(make_reading, fault):
    printed(make_reading(1, ARRAYS), file=Broken(fault))


def test_a_closed_output_is_no_reason_to_fail(make_reading):
    file = io.StringIO()
    file.close()
    sink = Console(file=file)
    sink.write(make_reading(1, ARRAYS))
    sink.epoch_end(1, {})


@pytest.mark.parametrize("stdout", [None, "closed"])
def test_a_program_without_stdout_is_no_reason_to_fail(make_reading, monkeypatch, stdout):
    monkeypatch.setattr("sys.stdout", stdout)
    sink = Console()
    sink.write(make_reading(1, ARRAYS))
    sink.epoch_end(1, {})


def test_an_ascii_output_gets_replacements_of_the_same_width(make_reading):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    arrays = {**ARRAYS, Site(Kind.GRADIENT, "é" * 80 + "/k"): [1.0]}
    printed(make_reading(1200, arrays), file=file)
    lines = raw.getvalue().decode("ascii").splitlines()
    assert lines[1] == "gradwatch - epoch 1 - step 1200"
    assert re.match(r"^\?+~\?+ ", lines[-2])
    assert len(lines[-1]) == len(lines[-2]) == len(lines[2])


def test_by_default_it_prints_to_what_stdout_is_at_the_time(make_reading, capsys):
    sink = Console()
    sink.write(make_reading(1, ARRAYS))
    sink.epoch_end(1, {})
    assert "gradwatch · epoch 1 · step 1\n" in capsys.readouterr().out


def on_a_terminal(columns, work):
    """What a program shows on a real (pseudo) terminal of that width."""
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (24, columns))
    parts = []

    def read():
        try:
            while data := os.read(main, 65536):
                parts.append(data)
        except OSError:  # the other side was closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    with open(side, "w", encoding="utf-8") as file:  # noqa: PTH123
        work(file)
    reader.join(10.0)
    os.close(main)
    return b"".join(parts).decode()


@pytest.mark.parametrize("columns", [120, 80, 50, 24])
def test_on_a_terminal_the_table_fits_and_hostile_names_stay_harmless(make_reading, columns):
    from rich.cells import cell_len

    arrays = {
        **ARRAYS,
        Site(Kind.GRADIENT, "[red]\x1b[2J/k"): [np.nan],
        Site(Kind.GRADIENT, "x" * 500 + "/k"): [1.0],
    }
    shown = on_a_terminal(columns, lambda f: printed(make_reading(1200, arrays), file=f))
    assert "\x1b[2J" not in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "\x1b" not in plain
    lines = plain.replace("\r\n", "\n").splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert len(lines) == 1 + 1 + 1 + 4 + 1  # blank, title, header, layers, model
    assert "grad L2" in lines[2] or columns == 24
    if columns == 120:
        assert "[red]\\x1b[2J" in plain
        assert lines[1] == "gradwatch · epoch 1 · step 1200"
        assert "zeros" in lines[2]
        bad = next(line for line in shown.splitlines() if "[red]" in line)
        assert re.search(r"\x1b\[1;31m\s*1\b", bad)  # in red
        good = next(line for line in shown.splitlines() if "dense" in line)
        assert "31m" not in good


def test_on_a_terminal_without_colour_there_are_no_escapes(make_reading, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    shown = on_a_terminal(100, lambda f: printed(make_reading(1200, ARRAYS), file=f))
    assert "\x1b" not in shown
    assert "dense" in shown


def test_rich_is_not_imported_before_something_is_printed(run_script):
    done = run_script(
        """
        import sys
        from gradwatch.sinks import base, console, csv, tensorboard
        heavy = {"rich", "tensorboard", "tensorflow", "duckdb"} & set(sys.modules)
        assert not heavy, heavy
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_writing_and_printing_at_the_same_time_is_safe(make_reading):
    file, stop = io.StringIO(), threading.Event()
    sink = Console(file=file)
    readings = [
        make_reading(i, {Site(Kind.GRADIENT, f"l{j}/k"): [1.0] for j in range(i)})
        for i in range(1, 40)
    ]

    def write():
        while not stop.is_set():
            sink.open(RUN)
            for reading in readings:
                sink.write(reading)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for epoch in range(20):
            sink.epoch_end(epoch, {})
    finally:
        stop.set()
        thread.join()
    for table in filter(None, file.getvalue().split("\n\n")):
        assert table.splitlines()[-1].startswith("model")


def test_counts_are_compact():
    numbers = (0, 999, 1000, 25_088, 99_949, 99_950, 123_456, 999_499, 999_500, 7_479_281)
    assert [thousands(n) for n in numbers] == [
        "0", "999", "1.00k", "25.1k", "99.9k", "100k", "123k", "999k", "1.00M", "7.48M",
    ]  # fmt: skip
    assert thousands(175 * 10**9) == "175B"
    assert thousands(3 * 10**15) == "3000T"


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match="max_rows=0"):
        Console(max_rows=0)
