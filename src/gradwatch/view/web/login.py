"""Logins: the token in the link is exchanged for a cookie."""

import hmac
import secrets
import threading
from collections import OrderedDict

_BYTES = 32
_MOST = 64


class Logins:
    """A token, and the cookies that it was exchanged for.

    Both are 256 random bits, compared in constant time. They appear only in the printed
    link and in the cookie.
    """

    def __init__(self, token: str | None = None) -> None:
        self.token = secrets.token_urlsafe(_BYTES) if token is None else token
        self._lock = threading.Lock()
        self._cookies: OrderedDict[str, None] = OrderedDict()

    def exchange(self, token: str) -> str | None:
        """A new cookie for the token; None for any other text."""
        if not _same(token, self.token):
            return None
        cookie = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self._cookies[cookie] = None
            while len(self._cookies) > _MOST:
                self._cookies.popitem(last=False)
        return cookie

    def knows(self, cookie: str | None) -> bool:
        if cookie is None:
            return False
        with self._lock:
            known = list(self._cookies)
        # All are compared, so that the time does not tell which one matched.
        return sum(_same(cookie, each) for each in known) > 0


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("ascii"))
