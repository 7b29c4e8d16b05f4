"""What is sent, in which order, and what a reader finds when it stops in between."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import gradwatch
from gradwatch.store.remote import merge_files
from gradwatch.store.remote import uploader as module
from gradwatch.store.remote.address import Remote
from gradwatch.store.remote.folder import Folder, RemoteError
from gradwatch.store.remote.transfer import Transfer
from gradwatch.util.files import checked_json
from tests.statistics_truth import TRUTH
from tests.store.recorded import SITES, Recorder, array
from tests.store.remote.conftest import remote_files, until

SITE = SITES[1]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    place = tmp_path_factory.mktemp("local") / "a"
    Recorder(place, rows_a_journal=100).write(range(1, 16), histograms=True).close()
    checked_json.write(place / "run.json", {"format": 2, "fits": []})
    return place


class Breaking(Folder):
    """A folder to which only so many files can be written."""

    def __init__(self, remote, most):
        super().__init__(remote)
        self.left = most
        self.written = []

    def write(self, name, data):
        if not self.left:
            raise RemoteError("the line is down")
        self.left -= 1
        self.written.append(name)
        super().write(name, data)


def test_wherever_an_upload_stops_a_reader_finds_no_damage_and_no_wrong_number(local, memory):
    total = len(list((local / "segments").iterdir())) + 2
    for most in range(total + 1):
        url = f"{memory}/stop{most}"
        folder = Breaking(Remote(url), most)
        transfer = Transfer(local, folder)
        if most < total:
            with pytest.raises(RemoteError):
                transfer.advance()
            assert transfer.missing() == total - most
        if any(path.startswith("manifest-") for path in remote_files(url)):
            check(gradwatch.open(url))
        folder.left = total
        transfer.advance()
        assert transfer.missing() == 0
        assert len(folder.written) == len(set(folder.written)) == total  # nothing twice
        check(gradwatch.open(url))


def check(run):
    assert not run.damage
    steps, values = run.series(SITE.kind, SITE.path, "l2")
    assert steps.tolist() == list(range(1, 16))
    np.testing.assert_allclose(values, [TRUTH["l2"](array(SITE, s)) for s in steps], rtol=1e-6)


def test_half_a_file_is_sent_again(local, memory):
    url = f"{memory}/a"
    folder = Folder(Remote(url))
    segment = next((local / "segments").glob("*.summaries.*"))
    folder.write(f"segments/{segment.name}", segment.read_bytes()[:100])
    Transfer(local, folder).advance()
    check(gradwatch.open(url))


def test_descriptions_of_two_machines_are_joined_and_one_that_goes_on_is_not_doubled():
    def made(*steps, **more):
        fits = [{"first_step": step} for step in steps]
        return checked_json.dumps({"fits": fits, "fit_count": len(fits), **more})

    site = {"kind": "weight", "path": "a"}
    joined = json.loads(merge_files.descriptions(made(1, 5, sites=[site]), made(9)))
    assert [fit["first_step"] for fit in joined["fits"]] == [1, 5, 9]
    assert joined["fit_count"] == 3
    assert joined["sites"] == [site]
    same = json.loads(merge_files.descriptions(made(1, 5), made(1, 5, 9, sites=[site])))
    assert [fit["first_step"] for fit in same["fits"]] == [1, 5, 9]
    assert same["fit_count"] == 3
    many = json.loads(merge_files.descriptions(made(*range(30)), made(99)))
    assert [many["fits"][0], many["fits"][-1]] == [{"first_step": 0}, {"first_step": 99}]
    assert (len(many["fits"]), many["fit_count"]) == (21, 31)
    assert merge_files.descriptions(b"damaged", made(1)) == made(1)


class _Denying(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # with "100 Continue", which S3 clients wait for

    def _deny(self):
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _deny  # noqa: N815

    def log_message(self, *_):
        pass


def test_a_server_that_denies_everything_is_said_once_without_the_key(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RETRY", 0.01)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Denying)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "endpoint_url": f"http://localhost:{server.server_port}",
        "key": "somebody-else",
        "secret": "very-secret",
    }
    said = []
    uploader = module.Uploader(Remote("s3://bucket/a", options=options), tmp_path, said.append)
    try:
        uploader.open()
        until(lambda: uploader.failures >= 3)
    finally:
        uploader._background.stop()
        server.shutdown()
        server.server_close()
    assert len(said) == 1
    assert "Denied" in said[0]
    for secret in ("very-secret", "somebody-else"):
        assert secret not in said[0] + uploader.leftover()
