from __future__ import annotations

import math
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from gradwatch.sinks import event_file
from gradwatch.sinks.event_file import EventFile, histogram, scalar, start_event, summary_event


def one_event_each(values):
    return [summary_event(i, 1000.0 + i, [value]) for i, value in enumerate(values)]


def read_values(tensorboard, directory):
    return [e for e in tensorboard(directory)["events"] if e["what"] == "summary"]


def test_the_first_record_is_the_file_version(tmp_path, tensorboard):
    before = time.time()
    events = EventFile(tmp_path)
    events.append([summary_event(1, 0.0, [scalar("a", 1.0)])])
    events.close()
    first, second = tensorboard(tmp_path)["events"]
    assert (first["what"], first["version"]) == ("file_version", "brain.Event:2")
    assert before <= first["time"] <= time.time()
    assert second["what"] == "summary"


def test_tensorboard_reads_back_every_scalar(tmp_path, tensorboard):
    numbers = [0.0, -0.0, 1.5, -1e-30, 3.4e38, 1e-45, math.inf, -math.inf]
    events = EventFile(tmp_path)
    events.append(one_event_each(scalar("x/y", number) for number in numbers))
    events.close()
    read = read_values(tensorboard, tmp_path)
    assert [e["values"]["x/y"][0] for e in read] == [float(np.float32(n)) for n in numbers]
    assert [(e["step"], e["time"]) for e in read] == [(i, 1000.0 + i) for i in range(len(numbers))]
    points = tensorboard(tmp_path)["series"]["x/y"][2]
    assert [float(value) for _, value in points] == [float(np.float32(n)) for n in numbers]


def test_a_scalar_beyond_float32_is_infinite_and_nan_is_nan(tmp_path, tensorboard):
    events = EventFile(tmp_path)
    events.append(one_event_each(scalar("x", number) for number in (1e300, -1e300, math.nan)))
    events.close()
    read = [e["values"]["x"][0] for e in read_values(tensorboard, tmp_path)]
    assert read[:2] == [math.inf, -math.inf]
    assert math.isnan(read[2])


def test_tensorboard_reads_back_a_histogram_exactly(tmp_path, tensorboard):
    limits, counts = np.array([-0.1, 1e-300, 7.0, 1e300]), np.array([1.0, 0.0, 2.0**53, 3.0])
    value = histogram(
        "h", limits, counts, bounds=(-2.5, 1e300), moments=(0.1, 1e308), description="what it is"
    )
    events = EventFile(tmp_path)
    events.append([summary_event(12, 34.5, [value])])
    events.close()
    (event,) = [e for e in tensorboard(tmp_path)["events"] if e["what"] == "summary"]
    read, description = event["values"]["h"]
    assert read["limits"] == limits.tolist()
    assert read["counts"] == counts.tolist()
    assert (read["min"], read["max"]) == (-2.5, 1e300)
    assert (read["sum"], read["sum_squares"]) == (0.1, 1e308)
    assert read["num"] == counts.sum()
    assert description == "what it is"


@pytest.mark.parametrize(
    "tag",
    ["", "a/b", "näme/日本/🙂", "with\0nul", "line\nbreak\r\x1b[31m", "x" * 4096, "=1+1", "\u202e"],
)
def test_any_tag_is_read_back(tmp_path, tensorboard, tag):
    events = EventFile(tmp_path)
    events.append([summary_event(1, 0.0, [scalar(tag, 2.0, "words " + tag)])])
    events.close()
    (event,) = read_values(tensorboard, tmp_path)
    assert event["values"] == {tag: (2.0, "words " + tag)}
    assert list(tensorboard(tmp_path)["series"]) == [tag]


def test_a_lone_surrogate_in_a_tag_is_read_back_escaped(tmp_path, tensorboard):
    events = EventFile(tmp_path)
    events.append([summary_event(1, 0.0, [scalar("a\ud800b", 2.0, "c\udfffd")])])
    events.close()
    (event,) = read_values(tensorboard, tmp_path)
    assert event["values"] == {"a\\ud800b": (2.0, "c\\udfffd")}


@pytest.mark.parametrize("step", [0, 1, 127, 128, 300, 2**31, 2**62, -1])
def test_any_step_is_read_back(tmp_path, tensorboard, step):
    events = EventFile(tmp_path)
    events.append([summary_event(step, 0.0, []), start_event(step, 1.25)])
    events.close()
    _, summary, start = tensorboard(tmp_path)["events"]
    assert summary["step"] == start["step"] == step
    assert (start["what"], start["status"], start["time"]) == ("session_log", 1, 1.25)


def test_our_messages_are_what_the_protocol_buffers_library_writes():
    event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
    summary_pb2 = pytest.importorskip("tensorboard.compat.proto.summary_pb2")
    theirs = event_pb2.Event(wall_time=1.5, step=300)
    value = theirs.summary.value.add(tag="é" * 100, simple_value=2.5)
    value.metadata.summary_description = "words"
    histo = summary_pb2.HistogramProto(
        min=-1, max=2, num=3, sum=4, sum_squares=5, bucket_limit=[0, 2], bucket=[1, 2]
    )
    theirs.summary.value.add(tag="h", histo=histo)
    ours = summary_event(
        300,
        1.5,
        [
            scalar("é" * 100, 2.5, "words"),
            histogram(
                "h", np.array([0.0, 2.0]), np.array([1.0, 2.0]), bounds=(-1, 2), moments=(4, 5)
            ),
        ],
    )
    assert event_pb2.Event.FromString(ours) == theirs


def test_the_name_is_one_that_tensorboard_looks_for(tmp_path):
    events = EventFile(tmp_path)
    assert re.fullmatch(
        r"events\.out\.tfevents\.\d{10}\.[\w.-]+\.\d+\.\d+\.gradwatch", events.path.name
    )


def test_files_are_read_in_the_order_in_which_they_were_made(tmp_path, monkeypatch):
    # Neither the counter (10 sorts before 9) nor the clock is enough for that.
    monkeypatch.setattr(event_file, "_counter", iter(range(5, 30)))
    made = [EventFile(tmp_path).path.name for _ in range(12)]
    monkeypatch.setattr(event_file.time, "time", lambda: 1_000_000_000.0)  # the clock set back
    made.append(EventFile(tmp_path).path.name)
    assert sorted(made) == made
    assert len(set(made)) == 13


def test_two_files_never_share_a_name_even_if_the_clock_stands_still(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "_stamp", lambda directory: "1700000000")
    monkeypatch.setattr(event_file, "_counter", iter([0, 0, 0, 1]))
    assert EventFile(tmp_path).path != EventFile(tmp_path).path


def test_two_processes_in_one_directory_write_two_whole_files(tmp_path, tensorboard):
    code = """
import sys
from gradwatch.sinks.event_file import EventFile, scalar, summary_event
sys.stdin.readline()
events = EventFile(sys.argv[1])
for step in range(200):
    events.append([summary_event(step, 0.0, [scalar("tag/" + sys.argv[2], step)])])
"""
    from gradwatch import sinks

    source = str(next(iter(sinks.__path__))).removesuffix("/gradwatch/sinks")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path, name],
            stdin=subprocess.PIPE,
            env={"PYTHONPATH": source},
        )
        for name in "ab"
    ]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert len(list(tmp_path.iterdir())) == 2
    series = tensorboard(tmp_path)["series_of_many_files"]
    for tag in ("tag/a", "tag/b"):
        assert [(step, float(value)) for step, value in series[tag][2]] == [
            (step, float(step)) for step in range(200)
        ]
