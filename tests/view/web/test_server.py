"""A real server at a real port, and the command that starts it."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlencode, urlparse

import numpy as np
import pytest

import gradwatch
from gradwatch.integrations.jupyter_proxy import launcher
from gradwatch.view.web import static
from gradwatch.view.web.launch import open_browser
from gradwatch.view.web.request_guard import HEADERS
from gradwatch.view.web.server import PortTakenError, Server, listening
from tests.variants import rarely
from tests.view.data.made import recorder
from tests.view.serving import PATIENCE
from tests.view.web.served import serving


class Answered(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


def ask(port, path, **headers):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", path, headers=headers)
        answered = connection.getresponse()
        return Answered(answered.status, answered.headers, answered.read())


def cookie(port, token):
    answered = ask(port, f"/?token={token}")
    assert answered.status == 303
    return answered.headers["set-cookie"].partition(";")[0]


@contextmanager
def listening_to(port, mine):
    """The lines of the events."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", "/api/events", headers={"Cookie": mine})
        with closing(connection.getresponse()) as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            assert events.readline() == b": heartbeat\n"
            yield events


def test_a_run_that_grows_is_told_of_and_answered(tmp_path):
    writer = recorder(tmp_path / "runs" / "a")
    writer.write([1, 2])
    with serving(tmp_path / "runs") as server:
        port, mine = server.port, cookie(server.port, server.logins.token)
        [run] = ask(port, "/api/runs", Cookie=mine).json["runs"]
        assert ask(port, f"/api/run?run={run['id']}", Cookie=mine).json["last_step"] == 2
        query = f"run={run['id']}&kind=gradient&path=net&columns=9&since=2&width=1"
        answer = {"first": []}
        with listening_to(port, mine) as events:
            writer.write([3])
            # The first that is told may be the diagnosis of the steps before.
            while answer["first"] != [2, 3]:
                line = events.readline()
                if line.startswith(b"data: ") and run["id"] in json.loads(line[6:])["runs"]:
                    answer = ask(port, f"/api/series?{query}", Cookie=mine).json
        assert not answer["complete"]
        assert ask(port, "/api/runs").status == 401
        assert ask(port, "/api/runs", Cookie=mine, Host="evil.example").status == 403
    writer.close()


def test_long_names_can_be_asked_for(tmp_path):
    name = "\u00e9\u4f60" * 5_000 + "/kernel"
    with gradwatch.Monitor(tmp_path / "runs" / "a", every=1, sinks=[gradwatch.Store()]) as monitor:
        monitor.record(gradients={name: np.array([3.0, 4.0])})
    with serving(tmp_path / "runs") as server:
        [id] = server.library.names
        query = urlencode({"run": id, "kind": "gradient", "path": name, "columns": 9})
        mine = cookie(server.port, server.logins.token)
        assert ask(server.port, f"/api/series?{query}", Cookie=mine).json["path"] == name


def test_raw_requests_that_lead_elsewhere_lead_nowhere(place):
    with serving(place) as server:
        for target in ("/../secret.txt", "/..%2fsecret.txt", "//secret.txt", "http://evil/"):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                host = f"127.0.0.1:{server.port}"
                raw.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                said = raw.recv(65536)
            assert re.match(rb"HTTP/1.1 40[0-4] ", said)
            assert b"the secret" not in said


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 300_000,
    ],
)
def test_requests_that_are_not_http_are_refused_with_the_headers_of_every_response(place, raw):
    with serving(place) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(PATIENCE)
        client.sendall(raw)
        response = http.client.HTTPResponse(client)
        response.begin()
        assert response.status in (400, 413, 431)
        for name, value in HEADERS.items():
            assert response.headers.get_all(name) == [value]


def test_a_port_that_is_taken_is_said_or_the_next_is_used():
    with listening("127.0.0.1", 0, 1) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"Port {port} is taken"):
            listening("127.0.0.1", port, 1)
        with listening("127.0.0.1", port, 64) as second:
            assert second.getsockname()[1] > port


@contextmanager
def command(*arguments, cwd=None, **environment):
    """The command, which ends with the test."""
    code = "from gradwatch.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "view", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


needs_front_end = pytest.mark.skipif(
    not (Path(static.__file__).parents[1] / "static" / "app.js").exists(),
    reason="the front end is not built: make viewer",
)


@needs_front_end
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_link_and_ends_quietly(place, how):
    with command(place, "--port", "0", "--no-browser") as process:
        lines = [process.stdout.readline() for _ in range(3)]
        link = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})\s", "".join(lines))
        mine = cookie(int(link[1]), link[2])
        with listening_to(int(link[1]), mine):
            process.send_signal(how)
            rest, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, "")
    assert link[2] not in rest
    assert mine.partition("=")[2] not in rest


@needs_front_end
@pytest.mark.parametrize(
    ("arguments", "made"),
    [([], "runs/a"), *rarely((["runs"], "runs/a"), (["."], "b/c"), (["."], "."))],
)
def test_the_command_waits_for_the_first_run(tmp_path, arguments, made):
    with command(*arguments, "--port", "0", "--no-browser", cwd=tmp_path) as process:
        lines = [process.stdout.readline() for _ in range(5)]
        assert lines[-1].startswith("There is no run in it yet.")
        link = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{43})\s", "".join(lines))
        port, mine = int(link[1]), cookie(int(link[1]), link[2])
        assert ask(port, "/api/runs", Cookie=mine).json["runs"] == []
        writer = recorder(tmp_path / made)
        writer.write([1, 2])
        with listening_to(port, mine) as events:
            while not (listed := ask(port, "/api/runs", Cookie=mine).json["runs"]):
                events.readline()
        run = ask(port, f"/api/run?run={listed[0]['id']}", Cookie=mine).json
        assert run["last_step"] == 2
        assert run["name"] not in ("", ".")
        writer.close()
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE)[1] == ""


@needs_front_end
def test_over_ssh_the_command_says_how_to_reach_it(place):
    over_ssh = {"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22", "DISPLAY": "", "USER": "me"}
    # It opens no browser: one of the terminal would be in the way.
    with command(place, "--port", "0", WAYLAND_DISPLAY="", BROWSER="false", **over_ssh) as process:
        lines = "".join(iter(process.stdout.readline, "Press Ctrl-C to end.\n"))
        port = re.search(r"http://127\.0\.0\.1:(\d+)/", lines)[1]
        assert f": ssh -N -L {port}:localhost:{port} " in lines
        assert lines.count("ssh ") == 1
        assert lines.rstrip().endswith(f"@{socket.gethostname()}")


@needs_front_end
def test_the_launcher_of_jupyter_starts_it_behind_the_proxy(tmp_path):
    """As jupyter-server-proxy does: it fills in the command, and passes requests on."""
    with closing(recorder(tmp_path / "runs" / "a")) as writer:
        writer.write([1, 2])
    entry = launcher()
    with listening("127.0.0.1", 0, 1) as free:
        port = free.getsockname()[1]
    filled = [text.format(port=port, base_url="/user/me/") for text in entry["command"]]
    host = entry["request_headers_override"]["Host"].format(port=port)
    with subprocess.Popen(
        filled, cwd=tmp_path, env={**os.environ, **entry["environment"]}, stdout=subprocess.PIPE
    ) as process:
        try:
            while b"Press Ctrl-C" not in process.stdout.readline():
                assert process.poll() is None
            path, _, token = entry["launcher_entry"]["path_info"].partition("?token=")
            assert path == "gradwatch/"
            answered = ask(port, f"/?token={token}", Host=host)
            mine, _, attributes = answered.headers["set-cookie"].partition("; ")
            assert "Path=/user/me/gradwatch/" in attributes
            listed = ask(port, "/api/runs", Cookie=mine, Host=host).json["runs"]
            assert [run["name"] for run in listed] == ["a"]
            assert ask(port, "/api/runs", Cookie=mine, Host="evil.example").status == 403
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{runs}", "--url-prefix", "user"], "begins with a slash"),
        (["{runs}", "--url-prefix", "/a;Domain=evil"], "begins with a slash"),
        (["nothing"], "There is no directory 'nothing'"),
        (["{runs}", "--host", "0.0.0.0"], "--allow-remote"),
        (["{runs}", "--port", "70000"], "70000"),
        (["{runs}", "--port", "{taken}"], "is taken. Choose another"),
        (["{runs}", "--host", "192.0.2.1", "--allow-remote"], "assign requested address"),
    ],
)
def test_mistakes_are_said_in_a_line(place, tmp_path, arguments, words):
    with listening("127.0.0.1", 0, 1) as taken:
        filled = [text.format(runs=place, taken=taken.getsockname()[1]) for text in arguments]
        with command(*filled, "--no-browser", cwd=tmp_path) as process:
            _, said = process.communicate(timeout=PATIENCE)
    assert words in said or "front end is not built" in said
    assert said.count("\n") == 1


def test_what_is_not_installed_is_named(place, tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ModuleNotFoundError(name='uvicorn')")
    with command(place, "--no-browser", PYTHONPATH=str(tmp_path)) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "needs uvicorn: pip install 'gradwatch[view]'" in said


def test_a_front_end_that_is_not_built_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(static, "files", lambda package: tmp_path)
    with pytest.raises(static.NotBuiltError, match="npm --prefix viewer"):
        static.load()


def test_the_browser_is_opened_by_a_file_that_only_its_owner_reads(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    link = "http://127.0.0.1:6007/?token=abc"
    with open_browser(link):
        [url] = opened
        assert "abc" not in url
        page = Path(unquote(urlparse(url).path))
        assert link in page.read_text()
        assert page.stat().st_mode & 0o077 == 0
    assert not page.exists()


def test_a_server_has_another_token_each_time(place):
    found = gradwatch.open(place)
    one, other = (Server(found, "runs", port=6007) for _ in range(2))
    assert one.logins.token != other.logins.token
    assert one.link == f"http://127.0.0.1:6007/?token={one.logins.token}"
    assert one.address == "http://127.0.0.1:6007/"
