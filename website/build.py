"""Build the documentation into build/site: `make docs`.

    python -m website.build [--draft]

Markdown of docs/, and what it links to elsewhere in the repository, is copied to build/docs; pages
are added that follow from the code; Zensical makes the site of it. The build fails at any warning,
dead link or request to another host. --draft leaves the checks out.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from gradwatch.diagnosis import all_rules
from website.check import problems
from website.navigation import contents
from website.pages import api_pages, commands_page, rule_page

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
STAGE = BUILD / "docs"
SITE = BUILD / "site"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def staged_path(source):
    """Where a file of the repository is in the site."""
    below = source.relative_to(ROOT)
    if below == Path("README.md"):
        raise SystemExit("docs/ has its own index.md: link to that, not to README.md.")
    if below.parts[0] == "docs":
        below = below.relative_to("docs")
    elif below.parts[0] == "src":
        below = Path("reference", below.parent.name + ".md")
    if below.name == "README.md":
        return below.with_name("index.md")
    return below


class Stage:
    """Copies pages, and every page that they link to."""

    def __init__(self):
        self.pages = {}
        self._waiting = sorted((ROOT / "docs").rglob("*.md"))

    def add(self, source):
        self._waiting.append(source.resolve())

    def run(self):
        while self._waiting:
            source = self._waiting.pop()
            if staged_path(source) not in self.pages:
                self.pages[staged_path(source)] = self._linked(source)

    def _linked(self, source):
        """The text of a page, with links as the site has them; without those to programs."""

        def replaced(match):
            mark, label, target = match.groups()
            place, _, anchor = target.partition("#")
            if not place or re.match(r"[a-z]+:", target):
                return match[0]
            file = (source.parent / place).resolve()
            if file.is_dir() and (file / "README.md").exists():
                file /= "README.md"
            if not file.exists():
                raise SystemExit(f"{source.relative_to(ROOT)}: there is no {target}.")
            if file.suffix == ".md":
                self.add(file)
            elif not mark:
                return label
            here = staged_path(source).parent
            link = os.path.relpath(staged_path(file), here)
            return f"{mark}[{label}]({link}{'#' if anchor else ''}{anchor})"

        text, parts, at = source.read_text(), [], 0
        for fence in FENCE.finditer(text):
            parts += [LINK.sub(replaced, text[at : fence.start()]), fence[0]]
            at = fence.end()
        linked = "".join([*parts, LINK.sub(replaced, text[at:])])
        return linked if linked.startswith(("# ", "---")) else f"# {source.stem}\n\n{linked}"


def stage():
    """Write build/docs; returns the pages by path, and the navigation."""
    shutil.rmtree(STAGE, ignore_errors=True)
    rules = all_rules()
    results = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    navigation = _resolved(
        contents(list(rules), [f"../{file.relative_to(ROOT)}" for file in results])
    )
    staging = Stage()
    for file in [*results, *map(Path, re.findall(r"\.\./[^\"]*\.md", _raw_navigation(rules)))]:
        staging.add(ROOT / "docs" / file)
    staging.run()
    pages = staging.pages
    for name, rule in rules.items():
        path = Path("rules", f"{name}.md")
        pages[path] = rule_page(rule, pages[path])
    pages |= {Path(path): text for path, text in api_pages().items()}
    pages[Path("reference/commands.md")] = commands_page()
    for path, text in pages.items():
        (STAGE / path).parent.mkdir(parents=True, exist_ok=True)
        (STAGE / path).write_text(text)
    for file in (ROOT / "docs").rglob("*"):
        if file.suffix in (".png", ".svg"):
            (STAGE / staged_path(file)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, STAGE / staged_path(file))
    shutil.copy(ROOT / "website" / "extra.css", STAGE / "extra.css")
    return pages, navigation


def _raw_navigation(rules):
    return json.dumps(contents(list(rules), []))


def _resolved(node):
    """The navigation, with the paths of the site."""
    if isinstance(node, str):
        return str(staged_path((ROOT / "docs" / node).resolve()))
    if isinstance(node, list):
        return [_resolved(each) for each in node]
    return {title: _resolved(below) for title, below in node.items()}


def toml(node):
    """A value of the navigation in TOML."""
    if isinstance(node, list):
        return f"[{', '.join(map(toml, node))}]"
    if isinstance(node, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml(x)}' for key, x in node.items())}}}"
    return json.dumps(node)


def llms(pages, navigation):
    """The contents for language models: https://llmstxt.org. Pages are there as Markdown, too."""
    lines = ["# gradwatch", "", "> " + _first_paragraph(pages[Path("index.md")])]

    def walk(node):
        if isinstance(node, str):
            text = pages[Path(node)]
            title = re.search(r"^# (.*)$", text, re.MULTILINE)[1]
            lines.append(f"- [{title}]({node}): {_first_paragraph(text)}")
        elif isinstance(node, list):
            for each in node:
                walk(each)
        else:
            walk(list(node.values()))

    for section in navigation:
        ((title, below),) = section.items()
        lines += ["", f"## {title}", ""]
        walk(below)
    return "\n".join(lines) + "\n"


def _first_paragraph(text):
    """The first sentence below the title."""
    plain = LINK.sub(r"\2", FENCE.sub("", text).partition("\n# ")[0])
    for paragraph in re.split(r"\n\s*\n", plain):
        if paragraph.strip() and not re.match(r"\s*(#|\||>|:::|- |\*\*How|```)", paragraph):
            return re.split(r"(?<=[.?])\s", " ".join(paragraph.split()).replace("**", ""))[0]
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", action="store_true")
    draft = parser.parse_args().draft
    pages, navigation = stage()
    settings = (ROOT / "website" / "zensical.toml").read_text()
    settings = settings.replace("nav = []", f"nav = {toml(navigation)}", 1)
    (BUILD / "zensical.toml").write_text(settings)
    shutil.rmtree(SITE, ignore_errors=True)
    command = [Path(sys.executable).with_name("zensical"), "build", "--clean"]
    built = subprocess.run(
        [*command, *([] if draft else ["--strict"])],
        cwd=BUILD,
        env=os.environ | {"PYTHONPATH": str(ROOT)},  # for website.docstrings
        stderr=subprocess.PIPE,
        text=True,
    )
    said, _, traceback = built.stderr.partition("Traceback")
    print(said, "" if "--strict" in traceback else traceback, end="", file=sys.stderr)
    # Of docstrings griffe warns, which Zensical does not count.
    if built.returncode or (not draft and "griffe:" in said):
        raise SystemExit("The site has warnings, see above.")
    for path, text in pages.items():
        (SITE / path).parent.mkdir(parents=True, exist_ok=True)
        (SITE / path).write_text(text)
    (SITE / "llms.txt").write_text(llms(pages, navigation))
    found = [] if draft else problems(SITE)
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        raise SystemExit(f"The site has {len(found)} dead links or requests to other hosts.")
    print(f"{len(pages)} pages are in {SITE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
