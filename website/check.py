"""What is wrong with a built site: dead links, and requests to other hosts."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

# What a browser requests by itself, beside what the reader may click.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
NOT_LOADED = {"canonical", "prev", "next", "edit", "alternate"}
OTHER_HOST = re.compile(r"""(?:url\(|@import\s+)["']?(?:https?:)?//""")


class Page(HTMLParser):
    """The links, loads and anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        for name in ("href", "src"):
            value = found.get(name)
            if value and (tag, name) in LOADED and found.get("rel") not in NOT_LOADED:
                self.loads.append(value)
            elif value and tag == "a":
                self.links.append(value)


def problems(site):
    """Dead links, and requests to other hosts, one a line."""
    files = {file: Page(file.read_text()) for file in site.rglob("*.html")}
    found = []
    for file, page in files.items():
        shown = file.relative_to(site)
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{shown}: requests {link}")
                continue
            # Zensical writes the links of its page for what is not found from the root.
            base = site if parts.path.startswith("/") else file.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{shown}: {link} is not there")
            elif target in files and unquote(parts.fragment) not in files[target].anchors:
                found.append(f"{shown}: {link} has no such place")
    for file in site.rglob("*.css"):
        if OTHER_HOST.search(file.read_text()):
            found.append(f"{file.relative_to(site)}: requests another host")
    return found
