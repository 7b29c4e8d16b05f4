"""How to reach the viewer from the machine in front of the user."""

import getpass
import os
import socket
import sys


def is_reached_by_ssh() -> bool:
    """Whether the user is on another machine, which has the screen."""
    displays = ("DISPLAY", "WAYLAND_DISPLAY")
    has_screen = sys.platform in ("darwin", "win32") or any(map(os.environ.get, displays))
    return not has_screen and bool(os.environ.get("SSH_CONNECTION"))


def tunnel(port: int) -> str:
    """The command that makes the viewer's link work on the user's own machine."""
    try:
        user = f"{getpass.getuser()}@"
    except (OSError, KeyError):
        user = ""
    return f"ssh -N -L {port}:localhost:{port} {user}{socket.gethostname()}"
