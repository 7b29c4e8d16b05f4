"""One writer and four readers at once: no error, no number wrong, counts never fall."""

from __future__ import annotations

import json
import os
import signal
import time

import gradwatch
from tests.faults import truth


def test_four_readers_of_a_run_that_is_being_written(nursery, tmp_path, count):
    seconds = count(5, 180)
    box = tmp_path / "box"
    writer = nursery.start("programs.train_until_killed", tmp_path / "run", 8, str(box))
    while not (box.exists() and any((tmp_path / "run").glob("journal-*"))):
        time.sleep(0.02)
    readers = [
        nursery.start("programs.read_for", tmp_path / "run", 8, seconds, way)
        for way in ("refresh", "refresh", "open", "refresh")
    ]
    told = []
    for reader in readers:
        status = nursery.wait(reader)
        assert status == 0, nursery.output(reader)
        told.append(json.loads(nursery.output(reader).splitlines()[-1]))
    os.kill(writer, signal.SIGTERM)
    assert nursery.wait(writer) == -signal.SIGTERM, nursery.output(writer)
    steps = truth.steps_shown(tmp_path / "run", 8)
    assert steps == list(range(1, len(steps) + 1))
    assert all(each["looks"] >= 3 and each["last"] > each["first"] for each in told), told
    assert len(steps) >= max(each["last"] for each in told)
    assert gradwatch.open(tmp_path / "run").status == "finished"
    print(f"{seconds} s, {len(steps)} steps: {told}")
