from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest

from gradwatch.util.files.append_file import AppendFile


def test_records_are_on_disk_when_append_returns(tmp_path):
    path = tmp_path / "a"
    file = AppendFile(path)
    file.append(b"one")
    assert path.read_bytes() == b"one"
    file.append(b"two")
    assert path.read_bytes() == b"onetwo"
    file.close()


def test_the_header_begins_a_new_file_and_is_not_repeated_in_an_old_one(tmp_path):
    path = tmp_path / "deep" / "er" / "a"
    for record in (b"1", b"2"):
        file = AppendFile(path, header=b"H")
        file.append(record)
        file.close()
    assert path.read_bytes() == b"H12"


def test_an_exclusive_file_refuses_one_that_is_there(tmp_path):
    AppendFile(tmp_path / "a", exclusive=True).close()
    with pytest.raises(FileExistsError):
        AppendFile(tmp_path / "a", exclusive=True)


def test_append_after_close_says_so(tmp_path):
    file = AppendFile(tmp_path / "a")
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        file.append(b"x")


def test_on_a_full_disk_a_record_is_written_wholly_or_not_at_all(small_disk):
    path = small_disk / "a"
    file = AppendFile(path)
    record = bytes(range(250)) * 80  # 20 kB, not a multiple of a page
    written = 0
    for _ in range(5):
        try:
            file.append(record)
            written += 1
        except OSError as fault:
            assert fault.errno == errno.ENOSPC  # noqa: PT017
        assert path.read_bytes() == record * written
    assert written == 3
    assert os.statvfs(small_disk).f_bavail == 1  # the disk was indeed filled to the last page
    file.close()


def test_writing_goes_on_when_space_returns(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 60_000)
    file = AppendFile(small_disk / "a", header=b"HEAD")
    record = b"r" * 30_000
    with pytest.raises(OSError, match="No space"):
        file.append(record)
    assert (small_disk / "a").read_bytes() == b""
    ballast.unlink()
    file.append(record)
    assert (small_disk / "a").read_bytes() == b"HEAD" + record
    file.close()


def test_a_short_write_is_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    file = AppendFile(tmp_path / "a", header=b"HEAD")
    file.append(b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"HEAD0123456789"


def test_what_a_failed_write_left_is_cut_off_even_if_only_later(tmp_path, monkeypatch):
    file = AppendFile(tmp_path / "a")
    file.append(b"whole")
    real_write, real_truncate = os.write, os.ftruncate

    def failing_write(fd, data):
        if len(data) < 10:
            raise OSError(errno.EIO, "the disk is ill")
        return real_write(fd, data[:4])

    def failing_truncate(fd, size):
        raise OSError(errno.EIO, "very ill")

    monkeypatch.setattr(os, "write", failing_write)
    monkeypatch.setattr(os, "ftruncate", failing_truncate)
    with pytest.raises(OSError, match="the disk is ill"):
        file.append(b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"whole0123"
    monkeypatch.setattr(os, "write", real_write)
    with pytest.raises(OSError, match="very ill"):  # never a record after half a one
        file.append(b"next")
    monkeypatch.setattr(os, "ftruncate", real_truncate)
    file.append(b"next")
    assert (tmp_path / "a").read_bytes() == b"wholenext"


def test_what_another_writer_added_after_a_failed_write_is_not_cut(tmp_path, monkeypatch):
    path = tmp_path / "a"
    file, other = AppendFile(path), AppendFile(path)
    file.append(b"mine,")
    real = os.write

    def failing(fd, data):
        if len(data) < 6:
            monkeypatch.undo()
            other.append(b",theirs")
            raise OSError(errno.EIO, "the disk is ill")
        return real(fd, data[:1])

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(OSError, match="the disk is ill"):
        file.append(b"second")
    file.append(b",third")
    assert path.read_bytes() == b"mine,s,theirs,third"


@pytest.mark.parametrize("deleted", ["file", "directory"])
def test_a_deleted_file_is_made_anew_with_its_header(tmp_path, deleted):
    path = tmp_path / "run" / "a"
    file = AppendFile(path, header=b"H")
    file.append(b"1")
    assert not file.lost
    if deleted == "file":
        path.unlink()
    else:
        shutil.rmtree(path.parent)
    assert file.lost
    file.append(b"2")
    assert path.read_bytes() == b"H2"
    assert file.recreated == 1
    assert not file.lost
    file.append(b"3")
    assert path.read_bytes() == b"H23"
    assert file.recreated == 1


def test_a_file_that_cannot_be_made_anew_is_tried_again(tmp_path):
    directory = tmp_path / "run"
    file = AppendFile(directory / "a")
    shutil.rmtree(directory)
    directory.write_text("in the way")
    with pytest.raises(OSError, match="run"):
        file.append(b"1")
    directory.unlink()
    file.append(b"2")
    assert (directory / "a").read_bytes() == b"2"


def test_a_kill_loses_nothing_that_was_appended(tmp_path):
    code = """
import sys
from gradwatch.util.files.append_file import AppendFile
file = AppendFile(sys.argv[1])
number = 0
while True:
    file.append(b"%08d\\n" % number)
    number += 1
    print(number, flush=True)
"""
    from gradwatch import sinks

    source = str(next(iter(sinks.__path__))).removesuffix("/gradwatch/sinks")
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "a"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert process.stdout is not None
    for _ in range(200):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    said = process.stdout.read().splitlines()
    process.wait(timeout=300)
    process.stdout.close()
    appended = int(said[-1]) if said and len(said[-1]) == len(said[0]) else 200
    lines = (tmp_path / "a").read_bytes().splitlines()
    assert len(lines) >= appended
    assert lines == [b"%08d" % i for i in range(len(lines))]


def test_a_file_that_is_not_to_be_remade_says_that_it_was_deleted(tmp_path):
    file = AppendFile(tmp_path / "a", remake=False)
    file.append(b"one")
    (tmp_path / "a").unlink()
    with pytest.raises(FileNotFoundError, match="deleted meanwhile"):
        file.append(b"two")
    assert list(tmp_path.iterdir()) == []
    file.close()


def test_sync_reaches_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    file = AppendFile(tmp_path / "a")
    file.append(b"one")
    file.sync()
    assert len(synced) == 1
    file.close()
    file.sync()
    assert len(synced) == 1
