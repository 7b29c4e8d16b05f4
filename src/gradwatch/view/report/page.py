"""A page that carries its script, its style and its data inside itself."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from gradwatch.util import printable, shortened
from gradwatch.view.report.front_end import FrontEnd

GENERATOR = '<meta name="generator" content="gradwatch'
"""What the head of every page has, by which a report is told from other files."""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
{generator} {version}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>The script in this file draws the report: allow JavaScript to see it.</noscript>
<script type="application/json" id="snapshot">{snapshot}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def page(snapshot: Mapping[str, Any], front_end: FrontEnd) -> str:
    """The page, complete: it needs no other file, and its policy lets it ask for none.

    Args:
        snapshot: what it shows: the contract's `Snapshot`, strict JSON.
        front_end: the script and the style.

    Example:

    >>> from gradwatch.view.report.front_end import FrontEnd
    >>> from gradwatch.view.report.page import page
    >>> made = page({"run": {"name": "a<b"}, "version": "1"}, FrontEnd("let a", "p {}"))
    >>> [line for line in made.splitlines() if "a<b" in line]
    []
    >>> "<title>a&lt;b · gradwatch</title>" in made
    True
    """
    script, style = _closed(front_end.script, "script"), _closed(front_end.style, "style")
    return _PAGE.format(
        policy=policy(script, style),
        generator=GENERATOR,
        version=escape(str(snapshot["version"])),
        title=escape(f"{shortened(printable(snapshot['run']['name']), 120)} · gradwatch"),
        style=style,
        snapshot=inert(snapshot),
        script=script,
    )


def policy(script: str, style: str) -> str:
    """Nothing may run but this script, nothing style but this sheet, and nothing be asked for."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def inert(value: Any) -> str:
    """Strict JSON in ASCII that no HTML parser sees markup in, whatever names it contains.

    >>> from gradwatch.view.report.page import inert
    >>> inert({"name": "</script>&\u2028"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u0026\\\\u2028"}'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        # Only texts contain these: the JSON stays the same.
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _closed(text: str, element: str) -> str:
    """The text so that an HTML parser ends the element where it ends, and not within.

    In a script these only ever stand in strings, where a backslash before them
    changes nothing; in a style sheet they do not stand at all.
    """
    return re.sub(rf"<(/{element}|!--)", r"<\\\1", text, flags=re.IGNORECASE)


def _hash(text: str) -> str:
    # Browsers hash what they have parsed, where line ends are all \n.
    parsed = text.replace("\r\n", "\n").replace("\r", "\n")
    return "sha256-" + base64.b64encode(hashlib.sha256(parsed.encode()).digest()).decode()
