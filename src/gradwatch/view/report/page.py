"""An HTML page that contains its script and its style, and a report's its data."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from gradwatch.util import printable, shortened
from gradwatch.util.json_type import Json

GENERATOR = '<meta name="generator" content="gradwatch'
"""In the head of every page, so that a report is recognised."""

_FRAME = "about:srcdoc"
_REPORT = """\
<div id="app"></div>
<noscript>The script in this file draws the report: allow JavaScript to see it.</noscript>
<script type="application/json" id="snapshot">{snapshot}</script>"""
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
{head}
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script type="module">{script}</script>
</body>
</html>
"""


def page(snapshot: Mapping[str, Any], script: str, style: str) -> str:
    """The complete page: it needs no other file, and its policy allows no requests.

    `snapshot` is that of `types.ts`; `script` is one module without imports.
    """
    return _whole(
        script,
        style,
        title=f"{shortened(printable(snapshot['run']['name']), 120)} · gradwatch",
        head=f'{GENERATOR} {escape(str(snapshot["version"]))}">',
        body=_REPORT.format(snapshot=to_inert_json(snapshot)),
    )


def frame_page(script: str, style: str) -> str:
    """The page for a frame without an address, whose data come from a notebook's kernel."""
    return _whole(
        script,
        style,
        title="gradwatch",
        # Else links would lead to where the notebook is.
        head=f'<base href="{_FRAME}">',
        body='<div id="app" data-source="kernel"></div>',
        base="about:",
    )


def _whole(
    script: str, style: str, *, title: str, head: str, body: str, base: str = "'none'"
) -> str:
    script, style = _without_end_tags(script, "script"), _without_end_tags(style, "style")
    return _PAGE.format(
        policy=policy(script, style, base),
        head=head,
        title=escape(title),
        style=style,
        body=body,
        script=script,
    )


def policy(script: str, style: str, base: str = "'none'") -> str:
    """Allows only this script and this style sheet, and no requests."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"img-src data: blob:; base-uri {base}; form-action 'none'"
    )


def to_inert_json(value: Json) -> str:
    """Strict JSON in ASCII without any HTML markup, whatever names it contains."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        # Only strings contain these: the value stays the same.
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _without_end_tags(text: str, element: str) -> str:
    """The text, escaped so that the element does not end within it.

    In a script, end tags occur only in strings, where a backslash before them changes
    nothing. In a style sheet they do not occur.
    """
    return re.sub(rf"<(/{element}|!--)", r"<\\\1", text, flags=re.IGNORECASE)


def _hash(text: str) -> str:
    # Browsers hash the parsed text, in which every line ends with \n.
    parsed = text.replace("\r\n", "\n").replace("\r", "\n")
    return "sha256-" + base64.b64encode(hashlib.sha256(parsed.encode()).digest()).decode()
