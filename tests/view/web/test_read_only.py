"""Looking changes nothing."""

import hashlib

from gradwatch.view.web.change_poller import ChangePoller
from tests.view.web.served import asking, wait_for
from tests.view.web.test_answers import requests


def state(place):
    """Every file's name, bytes and times, and every folder's."""
    return {
        str(path.relative_to(place)): (
            path.stat().st_mtime_ns,
            path.stat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
        )
        for path in [place, *place.rglob("*")]
    }


def test_whatever_is_asked_the_runs_stay_as_they_were(place):
    before = state(place)
    with asking(place) as asker:
        poller = ChangePoller(asker.server.library, asker.server.hub)
        poller.start()
        poller.wake()
        for run in asker.ids:
            revision = asker.get("tree", run=run, kind="gradient")["revision"]
            for name, given in requests(run, revision).items():
                asker.get(name, **given)
            wait_for(lambda run=run: asker.get("run", run=run)["findings_complete"])
        wait_for(lambda: all(run["status"] for run in asker.get("runs")["runs"]))
        poller.close()
    assert state(place) == before
