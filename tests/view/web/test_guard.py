"""Whom the server answers: the person who started it, by the page that it serves."""

import pytest

from gradwatch.view.web.hosts import Hosts
from gradwatch.view.web.login import Logins
from gradwatch.view.web.request_guard import POLICY
from tests.view.web.served import FILES, HOST

EVIL = "http://evil.example"
OWN = f"http://{HOST}"

# Each has the true session: what is wrong is only what is named.
FORGED = {
    "no host": ({}, None),
    "a name that another can have": ({}, "evil.example:6007"),
    "a name that ends in ours": ({}, "evil-localhost:6007"),
    "a name that begins with ours": ({}, "localhost.evil.example:6007"),
    "a name for loopback that is not ours": ({}, "127.0.0.1.nip.io:6007"),
    "a name that another can have, at another port": ({}, "evil.example:8080"),
    "a name that ends in ours, at another port": ({}, "evil-localhost:8080"),
    "a port that is none": ({}, "localhost:port"),
    "a port that is too long": ({}, "localhost:123456"),
    "an address of the network": ({}, "192.168.1.5:6007"),
    "everywhere": ({}, "0.0.0.0:6007"),
    "a number for loopback": ({}, "2130706433:6007"),
    "another of loopback's addresses": ({}, "127.0.0.2:6007"),
    "a host with a user": ({}, "localhost@evil.example:6007"),
    "a host with a path": ({}, "localhost:6007/evil"),
    "a host with a dot": ({}, "localhost.:6007"),
    "two hosts": ({"host": "evil.example:6007"}, HOST),
    "an empty host": ({}, ""),
    "another origin": ({"origin": EVIL}, HOST),
    "no origin that it says": ({"origin": "null"}, HOST),
    "an origin of another port": ({"origin": "http://127.0.0.1:6008"}, HOST),
    "an origin of another scheme": ({"origin": f"https://{HOST}"}, HOST),
    "an origin of another of our names": ({"origin": "http://localhost:6007"}, HOST),
    "an origin that begins with ours": ({"origin": f"{OWN}.evil.example"}, HOST),
    "a file's origin": ({"origin": "file://"}, HOST),
    "an extension's origin": ({"origin": "chrome-extension://abc"}, HOST),
    "an empty origin": ({"origin": ""}, HOST),
    "a page of another site": ({"sec-fetch-site": "cross-site"}, HOST),
    "a page of another port": ({"sec-fetch-site": "same-site"}, HOST),
    "a frame of another site": (
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        HOST,
    ),
    "a link of another site to data": (
        {
            "sec-fetch-site": "cross-site",
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document",
        },
        HOST,
    ),
    "a site that it does not say": ({"sec-fetch-site": ""}, HOST),
}
# Without the true session.
UNKNOWN = {
    "no cookie": [],
    "an empty cookie": [("cookie", "gradwatch-6007=")],
    "a guessed cookie": [("cookie", "gradwatch-6007=" + "A" * 43)],
    "the token as the cookie": [("cookie", "gradwatch-6007={token}")],
    "the session under another name": [("cookie", "gradwatch-6008={session}")],
    "a part of the session": [("cookie", "gradwatch-6007={part}")],
    "the session with more": [("cookie", "gradwatch-6007={session}A")],
    "no cookie at all": [("cookie", "\x00\xff;;;=")],
    "the session as a password": [("authorization", "Bearer {session}")],
    "a cookie that is not ASCII": [("cookie", "gradwatch-6007=\u00e9")],
}
TOKENS = [
    "token=",
    "token=guessed",
    "token={session}",
    "token={token}A",
    "token={part}",
    "token={token}&token={token}",
    "token=guessed&token={token}",
    "token=%FF%00",
    "token={token}%20",
]


def fill(text, asker):
    session = asker.cookie.partition("=")[2]
    token = asker.server.logins.token
    for name, value in {"session": session, "token": token, "part": token[:-1]}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def assert_refused(answered, *statuses):
    assert answered.status in statuses
    assert set(answered.json) == {"error"}
    assert "set-cookie" not in answered.headers
    assert answered.headers["content-security-policy"] == POLICY


def test_the_page_itself_is_answered(asker):
    for headers in (
        [],
        [("origin", OWN)],
        [("sec-fetch-site", "same-origin")],
        [("sec-fetch-site", "none")],
    ):
        answered = asker.ask("/api/runs", headers=[("cookie", asker.cookie), *headers])
        assert answered.status == 200
        assert [run["name"] for run in answered.json["runs"]] == ["a", "deep/b"]


def test_at_least_thirty_forgeries_are_tried():
    assert len(FORGED) + len(UNKNOWN) + len(TOKENS) >= 50


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("path", ["/api/runs", "/api/events", "/app.js"])
def test_a_forged_request_is_refused(asker, name, path):
    headers, host = FORGED[name]
    given = [("cookie", asker.cookie), *headers.items()]
    assert_refused(asker.ask(path, headers=given, host=host), 403)


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("path", ["/api/runs", "/api/run", "/api/picture", "/api/events", "/api/"])
def test_data_needs_the_session(asker, name, path):
    headers = [(key, fill(value, asker)) for key, value in UNKNOWN[name]]
    assert_refused(asker.ask(path, headers=headers), 401)


FOREIGN = [
    'layout={"sidebar": true, "width": [1, 2]}',
    "grafana=a b, c",
    "naïve=\u00e9",
    "(@:[]=?",
    'a="open quote',
    "=no name",
    "flag",
    "gradwatch-6007=of an earlier server",
    "",
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_cookies_of_other_servers_on_this_host_do_not_matter(asker, foreign):
    for line in (f"{foreign}; {asker.cookie}", f"{asker.cookie}; {foreign}"):
        assert asker.ask("/api/runs", headers=[("cookie", line)]).status == 200
    split = [("cookie", foreign), ("cookie", asker.cookie)]
    assert asker.ask("/api/runs", headers=split).status == 200
    assert_refused(asker.ask("/api/runs", headers=[("cookie", foreign)]), 401)


@pytest.mark.parametrize("query", TOKENS)
def test_a_wrong_token_is_exchanged_for_nothing(asker, query):
    assert_refused(asker.ask("/", fill(query, asker)), 401)
    assert_refused(asker.ask("/api/runs", fill(query, asker)), 401)


def test_the_token_is_taken_at_the_page_alone_and_not_for_data(asker):
    token = f"token={asker.server.logins.token}"
    for path in ("/api/runs", "/app.js", "//", "/index.html", "/nothing"):
        assert_refused(asker.ask(path, token), 401)
        with_session = asker.ask(path, token, [("cookie", asker.cookie)])
        assert_refused(with_session, 401)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_nothing_but_reading_is_answered(asker, method):
    answered = asker.ask("/api/runs", headers=[("cookie", asker.cookie)], method=method)
    assert_refused(answered, 405)


def test_asking_for_headers_alone_is_reading_too(asker):
    answered = asker.ask("/api/runs", headers=[("cookie", asker.cookie)], method="HEAD")
    assert answered.status == 200


def test_a_websocket_is_closed(asker):
    sent = asker.ask("/api/events", headers=[("cookie", asker.cookie)], kind="websocket")
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_link_elsewhere_leads_to_the_page_which_says_nothing_of_any_run(asker):
    link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ]
    answered = asker.ask("/", headers=link)
    assert (answered.status, answered.body) == (200, b"<!doctype html>the page")


def test_the_token_is_exchanged_for_a_strict_cookie_of_another_value(asker):
    token = asker.server.logins.token
    answered = asker.ask("/", f"token={token}")
    assert answered.status == 303
    assert answered.headers["location"] == "./"
    value, *attributes = answered.headers["set-cookie"].split("; ")
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    name, _, session = value.partition("=")
    assert name == "gradwatch-6007"
    assert session != token
    assert len(session) == len(token) == 43  # 256 bits in base64
    assert value != asker.cookie
    assert asker.ask("/api/runs", headers=[("cookie", value)]).status == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/runs", "/nothing", "/api/run"])
def test_every_answer_has_the_headers(asker, path):
    headers = asker.ask(path, headers=[("cookie", asker.cookie)]).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)


def test_a_server_for_others_takes_addresses_and_no_strange_names():
    hosts = Hosts("0.0.0.0", 6007)
    assert hosts.allow("192.168.1.5:6007")
    assert hosts.allow("[fe80::1]:6007")
    assert not hosts.allow("evil.example:6007")
    assert not Hosts("127.0.0.1", 6007).allow("192.168.1.5:6007")
    assert Hosts("127.0.0.1", 80).allow("localhost")


def test_old_logins_are_forgotten_when_there_are_many():
    logins = Logins()
    known = [logins.exchange(logins.token) for _ in range(65)]
    assert not logins.knows(known[0])
    assert all(logins.knows(each) for each in known[1:])
    assert len(set(known)) == 65
    assert not logins.knows(None)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:49152", "[::1]:8080", "localhost"])
def test_a_tunnel_may_have_any_port_at_the_other_end(asker, host):
    """As `ssh -L 8080:localhost:6007`, or a container whose port is published as another."""
    assert_refused(asker.ask("/api/runs", host=host), 401)
    assert_refused(asker.ask("/", "token=guessed", host=host), 401)
    answered = asker.ask("/", f"token={asker.server.logins.token}", host=host)
    assert answered.status == 303
    name, _, value = answered.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == f"gradwatch-{host.rpartition(':')[2] if host[-1].isdigit() else 80}"
    own = [("cookie", f"{name}={value}"), ("origin", f"http://{host}")]
    assert asker.ask("/api/runs", headers=own, host=host).status == 200
    assert_refused(asker.ask("/api/runs", headers=own, host="evil.example:8080"), 403)
    other = [("cookie", f"{name}={value}"), ("origin", "http://localhost:1")]
    assert_refused(asker.ask("/api/runs", headers=other, host=host), 403)


def test_two_tunnels_have_cookies_of_their_own(asker):
    token = f"token={asker.server.logins.token}"
    first, second = (asker.ask("/", token, host=f"localhost:{p}") for p in (8080, 8081))
    names = {each.headers["set-cookie"].partition("=")[0] for each in (first, second)}
    assert names == {"gradwatch-8080", "gradwatch-8081"}


def test_names_of_a_server_that_others_reach_have_its_port():
    hosts = Hosts("0.0.0.0", 6007)
    assert hosts.allow("localhost:8080")
    assert not hosts.allow("192.168.1.5:8080")


@pytest.fixture
def proxied(asker):
    """The same server, as one behind a proxy."""
    asker.server.prefix = "/user/me/gradwatch"
    asker.app = asker.server.app(FILES)
    return asker


def test_behind_a_proxy_it_answers_with_and_without_the_prefix(proxied):
    token = proxied.server.logins.token
    assert proxied.server.link == f"http://127.0.0.1:6007/user/me/gradwatch/?token={token}"
    for path in ("/", "/user/me/gradwatch/"):
        answered = proxied.ask(path, f"token={token}")
        assert (answered.status, answered.headers["location"]) == (303, "./")
        cookie, _, attributes = answered.headers["set-cookie"].partition("; ")
        # Not for the servers of other users of that host.
        assert "Path=/user/me/gradwatch/" in attributes.split("; ")
        for place in ("/api/runs", "/user/me/gradwatch/api/runs"):
            assert proxied.ask(place, headers=[("cookie", cookie)]).status == 200
            assert_refused(proxied.ask(place), 401)
            assert_refused(
                proxied.ask(place, headers=[("cookie", cookie)], host="evil.example"), 403
            )
    for path in ("/user/me/api/runs", "/user/me/gradwatchapi/runs", "/user/you/gradwatch/"):
        assert proxied.ask(path, headers=[("cookie", proxied.cookie)]).status in (401, 404)
