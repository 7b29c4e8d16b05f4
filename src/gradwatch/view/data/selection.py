"""Sites by the library's selectors."""

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from gradwatch.core import SiteInfo, select
from gradwatch.view.data.plain import Answer
from gradwatch.view.data.run_view import RunView

MOST_WORDS = 16


def selection(view: RunView, kind: str, pattern: str) -> Answer:
    """`Selection` of `types.ts`.

    Several patterns with spaces between them select what any of them does, less what one with a
    `!` names. An empty pattern selects all.
    """
    tree = view.tree(kind)
    infos = [info for info in view.run.infos if info.site in tree.node_of]
    return {
        "revision": tree.revision,
        "nodes": sorted(tree.node_of[info.site] for info in selected(infos, pattern)),
    }


def selected(infos: Sequence[SiteInfo], pattern: str) -> list[SiteInfo]:
    """The sites that a user's pattern selects; ValueError if it is no pattern."""
    text = pattern.strip()
    if not text:
        return list(infos)
    # A name may have spaces in it: first as one pattern, and then as several.
    whole = select.as_selector(text)
    found = [info for info in infos if whole.selects(info)]
    if len(text.split()) > 1 and (not found or text.startswith("!")):
        words = text.split()
        if len(words) > MOST_WORDS:
            raise ValueError(f"At most {MOST_WORDS} patterns go together. Received: {len(words)}")
        several = combined(words)
        found = [info for info in infos if several is None or several.selects(info)]
    return found


def combined(patterns: Sequence[str]) -> select.Selector | None:
    """One selector for sites that any pattern selects and no pattern with a `!` excludes.

    None without a pattern, which stands for all sites; ValueError if one is not a pattern.
    """
    if not patterns:
        return None
    wanted = [select.as_selector(each) for each in patterns if not each.startswith("!")]
    excluded = [select.as_selector(each) for each in patterns if each.startswith("!")]
    chosen = [reduce(or_, wanted)] if wanted else []
    return reduce(and_, [*chosen, *excluded])
