"""The documentation has a page for everything public, and no dead link; `make docs` builds it."""

import re
import sys
from pathlib import Path

import pytest

import gradwatch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from website import build, check, docstrings_text  # noqa: E402
from website.navigation import API  # noqa: E402


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "STAGE", tmp_path_factory.mktemp("docs"))
        # Fails if a link leads nowhere.
        return build.stage()


def pages_in(node):
    if isinstance(node, str):
        return [node]
    below = node if isinstance(node, list) else list(node.values())
    return [page for each in below for page in pages_in(each)]


def test_every_public_name_is_in_the_reference():
    documented = [name for _, _, names in API for name in names]
    assert len(documented) == len(set(documented))
    assert {name for name in documented if "." not in name} == set(gradwatch.__all__)


def test_every_page_is_in_the_navigation_once(staged):
    pages, navigation = staged
    listed = pages_in(navigation)
    assert sorted(listed) == sorted(map(str, pages))


def test_every_rule_has_a_page_with_its_numbers_and_how_to_silence_it(staged):
    pages, _ = staged
    for name, rule in build.all_rules().items():
        page = pages[Path("rules", f"{name}.md")]
        assert page.startswith(f"# {name}\n")
        assert rule.about in page
        assert rule.remedy in page
        assert f'silence("{name}"' in page
        for threshold in rule.thresholds.values():
            assert threshold.reason in page


def test_the_list_of_rules_says_what_the_rules_say():
    listed = dict(
        re.findall(r"^\| \[`([a-z-]+)`\]\(rules/\1\.md\) \| ([A-Z].*\.) \|$",
                   (ROOT / "docs" / "diagnosis.md").read_text(), re.MULTILINE)
    )  # fmt: skip
    assert listed == {name: rule.about for name, rule in build.all_rules().items()}


def test_every_command_is_in_the_reference(staged):
    from gradwatch.cli.main import main

    page = staged[0][Path("reference/commands.md")]
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == list(main.commands)
    assert "`--strict`" in page


def test_the_contents_for_language_models_list_every_page(staged):
    pages, navigation = staged
    text = build.llms(pages, navigation)
    assert len(re.findall(r"^- \[", text, re.MULTILINE)) == len(pages)


def test_the_check_of_a_built_site_finds_dead_links_and_other_hosts(tmp_path):
    page = """<a href="b.html#here">b</a> <a href="b.html#nowhere">b</a> <a href="c.html">c</a>
        <a href="https://example.org/">fine</a> <img src="https://example.org/a.png">"""
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.css").write_text('@import "https://example.org/a.css";')
    assert check.problems(tmp_path) == [
        "a.html: b.html#nowhere has no such place",
        "a.html: c.html is not there",
        "a.html: requests https://example.org/a.png",
        "a.css: requests another host",
    ]


def test_docstrings_become_markdown():
    text = (
        "Do it.\n\nArgs:\n    x, y: as for `fit`;\n        see docs/files.md.\n\nExample:\n\n"
        ">>> [1]\n[1]"
    )
    assert docstrings_text.readable(text) == (
        "Do it.\n\nArgs:\n    x: as for `fit`;\n        see [files](../files.md).\n"
        "    y: as for `fit`;\n        see [files](../files.md).\n\n**Example**\n\n"
        "```pycon\n>>> [1]\n[1]\n```"
    )
