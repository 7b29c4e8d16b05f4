"""Tensors that wait to be measured on the host are counted, and measured once."""

import threading

import pytest

from gradwatch.measure import HostWork, host_work


@pytest.fixture
def little_room(monkeypatch):
    monkeypatch.setattr(host_work, "MOST_WAITING", 50)


def test_it_measures_once_whoever_calls_first():
    waited = []
    work = HostWork(1, lambda: waited.append(threading.get_ident()) or 7, lambda x: {"rows": x})
    threads = [threading.Thread(target=work) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert work() == {"rows": 7}
    assert len(waited) == 1


def test_what_waits_takes_room_until_it_is_measured_or_dropped(little_room):
    first, second = (HostWork(40, lambda: 1, lambda x: {}) for _ in range(2))
    assert not HostWork.has_room()
    first()
    assert HostWork.has_room()
    third = HostWork(40, lambda: 1, lambda x: {})
    assert not HostWork.has_room()
    del second
    assert HostWork.has_room()
    third()
    third()
    assert HostWork.has_room()


def test_what_fails_takes_no_room(little_room):
    work = HostWork(60, lambda: 1 // 0, lambda x: {})
    with pytest.raises(ZeroDivisionError):
        work()
    assert HostWork.has_room()


def test_only_measuring_is_counted_as_time():
    spent = []
    work = HostWork(1, threading.Event().is_set, lambda x: {"x": sum(range(100_000))})
    work.spent = spent.append
    work()
    work()
    assert len(spent) == 1
    assert spent[0] > 0
