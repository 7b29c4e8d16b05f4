"""No part of a request becomes a part of a path."""

from itertools import product
from urllib.parse import quote, unquote

from tests.view.web.served import HOST

UPS = [
    "../",
    "..\\",
    "%2e%2e/",
    "..%2f",
    "..%5c",
    "%252e%252e%252f",
    "..%c0%af",
    "....//",
    ".../",
    "..;/",
]
TARGETS = ["secret.txt", "etc/passwd", "a/run.json"]
STARTS = ["", "/", "a/", "static/"]
PAYLOADS = [
    f"{start}{up * n}{target}" for start, up, n, target in product(STARTS, UPS, (1, 6), TARGETS)
]
PAYLOADS += [
    "/etc/passwd", "//etc/passwd", "file:///etc/passwd", "C:\\Windows\\win.ini", "\\\\host\\share",
    "~/secret.txt", "a\0.json", "%00", "a/../../secret.txt", "./secret.txt", "/proc/self/environ",
    "index.html/../../secret.txt", "app.js/..%2f..%2fsecret.txt", "a/segments/", "a/", "deep/b",
    "a/run.json", "deep", ".", "..", "", " ", "\u2025/secret.txt", "\uff0e\uff0e/secret.txt",
]  # fmt: skip


def assert_nothing(answered, *statuses):
    assert answered.status in statuses, answered
    assert set(answered.json) == {"error"}
    assert b"the secret" not in answered.body
    assert b"root:" not in answered.body


def test_at_least_two_hundred_payloads_are_tried():
    assert len(set(PAYLOADS)) >= 200


def test_a_path_that_leads_elsewhere_leads_nowhere(asker):
    cookie = [("cookie", asker.cookie)]
    # As they are, and as a server decodes them: once, and twice.
    paths = {path for each in PAYLOADS for path in (each, unquote(each), unquote(unquote(each)))}
    for path, prefix in product(sorted(paths - {""}), ("/", "/api/", "/static/", "/app.js/")):
        if prefix + path not in ("/", "/."):
            assert_nothing(asker.ask(prefix + path, headers=cookie), 404)


def test_no_run_is_named_by_a_path(asker):
    cookie, known = [("cookie", asker.cookie)], asker.ids[0]
    for given in sorted({given for each in PAYLOADS for given in (each, quote(each))}):
        if "&" in given or "#" in given:
            continue
        assert_nothing(asker.ask("/api/run", f"run={given}", cookie), 404, 400)
        assert_nothing(
            asker.ask("/api/picture", f"run={known}&path={given}&step=1", cookie), 404, 400
        )
        query = f"run={known}&kind=gradient&path={given}&columns=9"
        assert_nothing(asker.ask("/api/series", query, cookie), 404, 400)


def test_only_the_table_of_files_is_served(asker, place):
    for path in ("/", "/index.html", "/app.js", "/app.css"):
        assert asker.ask(path).status == 200
    for path in ("/static/app.js", "/app.map", "/INDEX.HTML", "/index.html/", "/a/run.json"):
        assert_nothing(asker.ask(path), 404)
    assert (place / "a" / "run.json").parent.is_dir()
    assert HOST.startswith("127.")
