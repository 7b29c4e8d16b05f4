"""URLs: which they are, where their runs are kept, and that no password is ever shown."""

import sys
from pathlib import Path

import pytest

import gradwatch
from gradwatch.store.remote.address import as_remote, is_url
from gradwatch.store.remote.folder import Folder, RemoteError


@pytest.mark.parametrize("url", ["s3://b/a", "gs://b/a", "memory://a", "simplecache::s3://b/a"])
def test_urls_are_told_from_paths(url):
    assert is_url(url)
    assert as_remote(url).url == url


@pytest.mark.parametrize("path", ["runs/a", "/runs/a", "C:/runs/a", "C:\\runs", "a:b", "", None])
def test_paths_are_no_urls(path):
    assert not is_url(path)
    assert as_remote(path) is None


def test_credentials_in_a_url_or_options_are_never_shown():
    remote = gradwatch.store.Remote(
        "ftp://me:hunter2@host/runs/a?token=t0k", options={"secret": "s3cr3t", "endpoint_url": "u"}
    )
    assert remote.shown == "ftp://***@host/runs/a"
    message = "cannot log in as me:hunter2 with s3cr3t to ftp://me:hunter2@host; u"
    for text in (repr(remote), str(remote), f"{remote!r}", remote.redacted(message)):
        assert "hunter2" not in text
        assert "s3cr3t" not in text
        assert "t0k" not in text
    for place in (remote.staging_directory, remote.cache_directory):
        assert "hunter2" not in str(place)
        assert "t0k" not in str(place)


def test_credentials_do_not_reach_faults(monkeypatch, memory):
    remote = gradwatch.store.Remote(f"{memory}/a")
    folder = Folder(remote)
    folder.remote = gradwatch.store.Remote(
        "ftp://me:hunter2@host/runs/a", options={"secret": "s3cr3t"}
    )

    def fail(*_, **__):
        raise PermissionError("530 hunter2 s3cr3t refused")

    monkeypatch.setattr(folder._files, "pipe_file", fail, raising=False)
    with pytest.raises(RemoteError, match=r"530 \*\*\* \*\*\* refused") as fault:
        folder.write("x", b"")
    assert fault.value.__cause__ is None


def test_a_url_has_its_own_staging_directory_always_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWATCH_STAGING", str(tmp_path / "there"))
    a, b = gradwatch.store.Remote("s3://b/x/a"), gradwatch.store.Remote("s3://b/y/a")
    assert a.staging_directory == gradwatch.store.Remote("s3://b/x/a/").staging_directory
    assert a.staging_directory != b.staging_directory
    assert a.staging_directory.parent == tmp_path / "there"
    chosen = gradwatch.store.Remote("s3://b/x/a", staging=tmp_path / "here")
    assert chosen.staging_directory.parent == tmp_path / "here"
    assert gradwatch.Monitor(
        gradwatch.store.Remote("memory://x", staging=tmp_path / "here")
    ).directory.is_relative_to(tmp_path / "here")


def test_the_cache_keeps_to_its_own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWATCH_CACHE", str(tmp_path))
    place = gradwatch.store.Remote("s3://bucket/a:b/%2e%2e/c").cache_directory
    assert place.is_relative_to(tmp_path)
    assert ".." not in place.parts
    with pytest.raises(ValueError, match="must name a run's folder"):
        gradwatch.store.Remote("s3://bucket/../../etc")


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("runs/a", {}, "takes a URL"),
        ("s3://b/a", {"every": 0}, "every must be > 0"),
        ("s3://b/a", {"wait": -1}, "wait"),
    ],
)
def test_mistakes_are_said_when_they_are_made(url, more, words):
    with pytest.raises(ValueError, match=words):
        gradwatch.store.Remote(url, **more)


def test_a_protocol_that_nobody_knows_is_said_before_training():
    with pytest.raises(ValueError, match="nosuch"):
        gradwatch.Monitor("nosuch://bucket/a")


def test_without_fsspec_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for do in (gradwatch.Monitor, gradwatch.open):
        with pytest.raises(ImportError, match=r"pip install 'gradwatch\[remote\]'"):
            do("s3://bucket/runs/a")


def test_a_path_works_as_before(tmp_path):
    assert gradwatch.Monitor(tmp_path / "a").directory == Path(tmp_path / "a")
