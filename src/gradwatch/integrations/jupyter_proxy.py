"""The viewer in Jupyter's launcher, by jupyter-server-proxy."""

import secrets
import sys
from typing import Any


def launcher() -> dict[str, Any]:
    """How jupyter-server-proxy starts the viewer of the directory `runs`, and passes requests on.

    jupyter-server-proxy calls it, by the entry point `jupyter_serverproxy_servers`. Only users who
    are logged in to Jupyter reach the viewer, and its token is in the launcher's link.

    >>> server = launcher()
    >>> server["command"][-4:]
    ['--port', '{port}', '--url-prefix', '{base_url}gradwatch']
    """
    token = secrets.token_urlsafe(32)
    command = [sys.executable, "-m", "gradwatch", "view", "--no-browser", "--port", "{port}"]
    return {
        "command": [*command, "--url-prefix", "{base_url}gradwatch"],
        "environment": {"GRADWATCH_TOKEN": token},
        "timeout": 60,
        # The viewer answers to names of this machine only, see `view/web/hosts.py`.
        "request_headers_override": {"Host": "localhost:{port}"},
        "launcher_entry": {"title": "gradwatch", "path_info": f"gradwatch/?token={token}"},
    }
