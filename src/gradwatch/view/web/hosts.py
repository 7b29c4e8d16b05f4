"""The host names by which the server may be requested."""

import ipaddress
import re
import socket

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?", re.ASCII)


class Hosts:
    """The names of the server that is bound to that host and port.

    A browser can be tricked into resolving any name to this machine (DNS rebinding), but then
    `Host` has that name. So only names are allowed that nobody else can own: loopback names
    and, if the server is reachable from other machines, numeric addresses and this machine's
    own name. A loopback name may come with any port: a tunnel such as `ssh -L 8080:localhost:6007`,
    or a container, has one of its own at the other end.
    """

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        self.is_local = is_loopback(host)
        self._names = {url_host(host).lower()}
        if not self.is_local:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def allow(self, host: str) -> bool:
        """Whether a request may name this host; with its port, unless that is 80."""
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found["name"]
        if name in LOOPBACK:
            return True
        if port_of(host) != self.port:
            return False
        return name in self._names or (not self.is_local and _is_address(name))

    def allow_origin(self, origin: str, host: str) -> bool:
        """Whether a request to this host may come from a page of that origin: only from its own."""
        return self.allow(host) and origin.lower() == f"http://{host.lower()}"


def port_of(host: str) -> int:
    """The port of a `Host` that is allowed."""
    found = _HOST.fullmatch(host.lower())
    return int(found["port"] or 80) if found else 0


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_host(host: str) -> str:
    """A host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
