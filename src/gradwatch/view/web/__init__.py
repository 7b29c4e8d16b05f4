"""The web viewer's server, for the person who started it only."""

from gradwatch.view.web.hosts import is_loopback
from gradwatch.view.web.launch import open_browser
from gradwatch.view.web.reached_by_ssh import is_reached_by_ssh, tunnel
from gradwatch.view.web.request_guard import HEADERS
from gradwatch.view.web.server import Server
from gradwatch.view.web.static import NotBuiltError, load, load_module

__all__ = [
    "HEADERS",
    "NotBuiltError",
    "Server",
    "is_loopback",
    "is_reached_by_ssh",
    "load",
    "load_module",
    "open_browser",
    "tunnel",
]
