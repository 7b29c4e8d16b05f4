"""Who may write to a run's directory, and how a run is described."""

import fcntl
import multiprocessing
import os
import signal
import threading

import pytest

from gradwatch.core import Kind, Site, SiteInfo
from gradwatch.parallel.ranks import Rank
from gradwatch.record import directory as rundir
from gradwatch.record import directory_lock
from gradwatch.record.directory import RunDirectory
from gradwatch.store import description

PATIENCE = 300.0


def never():
    raise AssertionError("should not have been taken over")


def claim_in_another_process(path, answer, done):
    run = RunDirectory(path, on_lost=never)
    answer.put(run.path.name)
    done.wait(PATIENCE)


def test_it_makes_the_directory_it_was_asked_for(tmp_path):
    run = RunDirectory(tmp_path / "runs" / "a", on_lost=never)
    assert run.path == tmp_path / "runs" / "a"
    assert run.path.is_dir()
    run.release()


def test_another_process_gets_a_directory_beside_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    answer, done = context.Queue(), context.Event()
    run = RunDirectory(tmp_path / "a", on_lost=never)
    other = context.Process(target=claim_in_another_process, args=(tmp_path / "a", answer, done))
    other.start()
    try:
        assert answer.get(timeout=PATIENCE) == "a-2"
    finally:
        done.set()
        other.join()
        run.release()


def test_another_thread_gets_a_directory_beside_it(tmp_path):
    run = RunDirectory(tmp_path / "a", on_lost=never)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(RunDirectory(tmp_path / "a", on_lost=never))
    )
    thread.start()
    thread.join()
    assert [other.path.name for other in found] == ["a-2"]
    found[0].release()
    run.release()


def claim_as_one_of_a_training(path, name, index, answer, done):
    rundir.training = lambda rank: name
    rundir.PATIENCE = directory_lock.AT_LAST = PATIENCE
    run = RunDirectory(path, on_lost=never, rank=Rank(index, 3))
    run.describe({"first_step": index})
    answer.put((name, index, run.path.name))
    done.wait(PATIENCE)
    run.release()


def test_processes_that_train_together_share_one_and_others_go_beside_it(tmp_path):
    context = multiprocessing.get_context("spawn")
    answer, done = context.Queue(), context.Event()
    everybody = [(name, index) for name in ("ours", "theirs") for index in range(3)]
    processes = [
        context.Process(
            target=claim_as_one_of_a_training, args=(tmp_path / "a", *each, answer, done)
        )
        for each in everybody
    ]
    for process in processes:
        process.start()
    try:
        found = [answer.get(timeout=PATIENCE) for _ in everybody]
        alone = RunDirectory(tmp_path / "a", on_lost=never)
        assert alone.path.name == "a-3"
        alone.release()
    finally:
        done.set()
        for process in processes:
            process.join()
    places = {name: {place for n, _, place in found if n == name} for name in ("ours", "theirs")}
    assert sorted(map(len, places.values())) == [1, 1]
    assert places["ours"] | places["theirs"] == {"a", "a-2"}
    for place in ("a", "a-2"):
        # The first of them has said what the run is, and nobody else.
        fits = description.read(tmp_path / place / "run.json")["fits"]
        assert fits == [{"first_step": 0}]


def claim_late(path, name, began, answer):
    rundir.training = lambda rank: name
    directory_lock.AT_LAST = PATIENCE
    began.set()
    run = RunDirectory(path, on_lost=never, rank=Rank(1, 2))
    answer.put(run.path.name)
    run.release()


@pytest.mark.parametrize(("signed", "place"), [(b"", "a"), (b"theirs", "a-2")])
def test_a_lock_that_does_not_say_whose_it_is_yet_is_waited_for(tmp_path, signed, place):
    context = multiprocessing.get_context("spawn")
    answer, began = context.Queue(), context.Event()
    (tmp_path / "a").mkdir()
    lock = os.open(tmp_path / "a" / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.pwrite(lock, signed, 0)
    other = context.Process(target=claim_late, args=(tmp_path / "a", "ours", began, answer))
    other.start()
    try:
        assert began.wait(PATIENCE)
        if not signed:
            # Between taking the lock and signing it, the first may be held up for a moment.
            assert answer.empty()
            os.pwrite(lock, b"ours", 0)
            fcntl.flock(lock, fcntl.LOCK_SH)
        assert answer.get(timeout=PATIENCE) == place
    finally:
        other.join()
        os.close(lock)


def live_on(began, done):
    began.set()
    done.wait(PATIENCE)


def claim_and_be_killed(path, answer):
    run = RunDirectory(path, on_lost=never)
    answer.put(run.path.name)
    worker_began = multiprocessing.get_context("fork").Event()
    pid = os.fork()
    if pid == 0:
        worker_began.set()
        signal.pause()
    worker_began.wait(PATIENCE)
    answer.put(pid)
    answer.close()
    answer.join_thread()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_a_forked_child_that_lives_on_does_not_keep_the_lock(tmp_path):
    context = multiprocessing.get_context("fork")
    began, done = context.Event(), context.Event()
    run = RunDirectory(tmp_path / "a", on_lost=never)
    worker = context.Process(target=live_on, args=(began, done))
    worker.start()
    try:
        assert began.wait(PATIENCE)
        run.release()
        spawn = multiprocessing.get_context("spawn")
        answer, ended = spawn.Queue(), spawn.Event()
        ended.set()
        other = spawn.Process(target=claim_in_another_process, args=(run.path, answer, ended))
        other.start()
        assert answer.get(timeout=PATIENCE) == "a"
        other.join()
    finally:
        done.set()
        worker.join()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_the_lock_of_a_killed_process_is_free_although_its_child_lives_on(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.Queue()
    killed = spawn.Process(target=claim_and_be_killed, args=(tmp_path / "a", answer))
    killed.start()
    assert answer.get(timeout=PATIENCE) == "a"
    orphan = answer.get(timeout=PATIENCE)
    try:
        killed.join()
        run = RunDirectory(tmp_path / "a", on_lost=never)
        assert run.path.name == "a"
        run.release()
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_a_forked_child_neither_releases_the_lock_nor_writes_for_its_parent(tmp_path):
    run = RunDirectory(tmp_path / "a", on_lost=never)
    run.describe({"first_step": 1})
    pid = os.fork()
    if pid == 0:
        run.amend("ended", "by the child")
        run.release()
        own = RunDirectory(tmp_path / "a", on_lost=never)
        os._exit(0 if own.path.name == "a-2" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    run.release()
    assert description.read(run.path / "run.json")["ended"] is None


def test_a_thread_that_has_ended_holds_nothing(tmp_path):
    lost = []
    thread = threading.Thread(
        target=lambda: RunDirectory(tmp_path / "a", on_lost=lambda: lost.append(True))
    )
    thread.start()
    thread.join()
    again = RunDirectory(tmp_path / "a", on_lost=never)
    assert again.path.name == "a"
    assert lost == [True]
    again.release()


def test_once_released_it_is_free_again(tmp_path):
    RunDirectory(tmp_path / "a", on_lost=never).release()
    again = RunDirectory(tmp_path / "a", on_lost=never)
    assert again.path.name == "a"
    again.release()


def test_the_same_thread_takes_over_from_a_run_that_was_not_ended(tmp_path):
    lost = []
    RunDirectory(tmp_path / "a", on_lost=lambda: lost.append(True))
    again = RunDirectory(tmp_path / "a", on_lost=never)
    assert again.path.name == "a"
    assert lost == [True]
    again.release()


def test_each_fit_adds_an_entry_to_the_description(tmp_path):
    run = RunDirectory(tmp_path / "a", on_lost=never)
    run.describe({"first_step": 1})
    run.amend("ended", "then")
    run.describe({"first_step": 11})
    run.release()
    described = description.read(run.path / "run.json")
    assert [fit["first_step"] for fit in described["fits"]] == [1, 11]
    assert described["ended"] is None


def test_the_sites_are_described_once(tmp_path):
    run = RunDirectory(tmp_path / "a", on_lost=never)
    assert not run.has_sites
    info = SiteInfo(Site(Kind.WEIGHT, "net/a/kernel"), (3, 4), "float32", "kernel")
    for _ in range(2):
        run.tell_sites([info])
    assert run.has_sites
    run.release()
    assert description.read(run.path / "run.json")["sites"] == [
        {"kind": "weight", "path": "net/a/kernel", "shape": [3, 4], "dtype": "float32",
         "part": "kernel", "trainable": True}
    ]  # fmt: skip


def test_a_description_that_cannot_be_read_is_begun_anew(tmp_path):
    run = RunDirectory(tmp_path / "a", on_lost=never)
    (run.path / "run.json").write_text("{ torn")
    run.describe({"first_step": 5})
    run.release()
    assert description.read(run.path / "run.json")["fits"] == [{"first_step": 5}]


def test_a_file_in_the_way_is_an_os_error(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(OSError, match="a"):
        RunDirectory(tmp_path / "a", on_lost=never)
