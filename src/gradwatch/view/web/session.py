"""Who may ask: a token in the link, exchanged for a cookie."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import OrderedDict

_BYTES = 32
_MOST = 64


class Sessions:
    """A token, and the sessions that it was exchanged for.

    Both are 256 random bits. They are compared in constant time, and are said by
    nothing but the link that is printed and the cookie.

    Example:

    >>> from gradwatch.view.web.session import Sessions
    >>> sessions = Sessions()
    >>> sessions.exchange("guessed") is None
    True
    >>> sessions.knows(sessions.exchange(sessions.token))
    True
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(_BYTES)
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, None] = OrderedDict()

    def exchange(self, token: str) -> str | None:
        """A new session for the token; None for any other."""
        if not _same(token, self.token):
            return None
        session = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > _MOST:
                self._sessions.popitem(last=False)
        return session

    def knows(self, session: str | None) -> bool:
        """Whether it is one of the sessions."""
        if session is None:
            return False
        with self._lock:
            known = list(self._sessions)
        # All are looked at, so that the time tells nothing of which one it is.
        return sum(_same(session, each) for each in known) > 0


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("ascii"))
