"""The address of a remote run, and its local directories."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

STAGING, CACHE = "GRADWATCH_STAGING", "GRADWATCH_CACHE"
"""The environment variables that say where runs are kept until they are uploaded, and what
was downloaded."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)")
_PATH = re.compile(r"^([a-z][a-z0-9+.-]+):/(?=[^/])")
_USER = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY = re.compile(r"(?<=[^\s?])\?[^\s]*")
_HIDDEN = "***"


@dataclass(frozen=True, repr=False)
class Remote:
    """A run at a URL, for `Monitor` to write to and `gradwatch.open` to read.

    The run is written to a local directory, its staging directory, and its sealed files are
    uploaded in the background. Nothing of this can disturb training.

    Args:
        url: any that fsspec knows: `"s3://bucket/runs/a"`, `"gs://..."`, `"memory://..."`.
        staging: in which directory to keep runs until they are uploaded; if not given,
            what the environment variable `GRADWATCH_STAGING` says, else
            `~/.cache/gradwatch/staging`.
        every: how many seconds the remote run may be behind, uploading aside.
        wait: how many seconds longer than the usual two the end of the process
            may take to upload the rest.
        options: for fsspec: credentials, an `endpoint_url`, ... They are never written
            anywhere.

    Raises:
        ValueError: it is no URL, or a number is out of range.

    Example:

    >>> import gradwatch
    >>> gradwatch.store.Remote("s3://me:secret@bucket/runs/a", every=30)
    Remote('s3://***@bucket/runs/a', every=30)
    """

    url: str
    staging: str | Path | None = None
    every: float = 60.0
    wait: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_url(self.url):
            raise ValueError(
                f"Remote takes a URL such as 's3://bucket/runs/a'. Received: {self.url!r}"
            )
        if ".." in self.parts or not self.parts:
            raise ValueError(f"The URL must name a run's folder. Received: {self.shown!r}")
        if not self.every > 0 or not self.wait >= 0:
            raise ValueError(
                f"every must be > 0 and wait >= 0. Received: every={self.every!r}, "
                f"wait={self.wait!r}"
            )

    @property
    def shown(self) -> str:
        """The URL as it may be shown: without user, password and query."""
        return _QUERY.sub("", _USER.sub(f"{_HIDDEN}@", self.url)).rstrip("/")

    @property
    def has_secrets(self) -> bool:
        """Whether there is more to the URL than is shown."""
        return self.shown != self.url.rstrip("/")

    @property
    def parts(self) -> list[str]:
        """The protocol, host and folders of the URL."""
        shown = self.shown.replace(f"{_HIDDEN}@", "").replace("::", "/")
        return [part for part in shown.replace("://", "/").split("/") if part not in ("", ".")]

    @property
    def staging_directory(self) -> Path:
        """Where this run is kept; the same one for the same URL."""
        root = Path(self.staging or os.environ.get(STAGING) or _home("staging"))
        digest = hashlib.sha256(self.shown.encode()).hexdigest()[:10]
        return root.expanduser().absolute() / f"{quote(self.parts[-1], safe='')}-{digest}"

    def next_to(self, suffix: str) -> Remote:
        """The run whose name has a suffix: `s3://bucket/runs/a-2`."""
        path, mark, query = self.url.partition("?")
        return replace(self, url=f"{path.rstrip('/')}{suffix}{mark}{query}")

    @property
    def cache_directory(self) -> Path:
        """Where its downloaded files are kept."""
        root = Path(os.environ.get(CACHE) or _home("remote")).expanduser().absolute()
        return root.joinpath(*(quote(part, safe=" ") for part in self.parts))

    def redacted(self, words: str) -> str:
        """A message of the file system, without secrets."""
        secrets = [str(v) for k, v in self.options.items() if isinstance(v, str) and "url" not in k]
        found = _USER.search(self.url)
        if found is not None:
            user = found[0].rstrip("@")
            secrets += [user, *(part for part in user.split(":")[1:] if part)]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            words = words.replace(secret, _HIDDEN)
        return _USER.sub(f"{_HIDDEN}@", words)

    def __repr__(self) -> str:
        more = "".join(
            f", {name}={value!r}"
            for name, value, usual in (
                ("staging", self.staging, None),
                ("every", self.every, 60.0),
                ("wait", self.wait, 0.0),
            )
            if value != usual
        )
        return f"Remote({self.shown!r}{more})"


def is_url(place: object) -> bool:
    return isinstance(place, str) and _URL.match(place) is not None


def as_remote(place: object) -> Remote | None:
    """What was given as a run's place, if it is a remote one."""
    if isinstance(place, Remote):
        return place
    if isinstance(place, Path) and not place.exists():
        # A URL that was made a path has lost all but one of its slashes.
        text = place.as_posix()
        place = _PATH.sub(r"\1:///" if text.startswith("file:") else r"\1://", text)
    return Remote(place) if isinstance(place, str) and is_url(place) else None


def _home(name: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(cache) if cache else Path.home() / ".cache"
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home / "gradwatch" / name
    except (OSError, RuntimeError):
        pass  # No home: jobs on clusters have sometimes none that can be written to.
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"gradwatch-{user}" / name
