"""Sites by words that their paths contain, and by the library's selectors."""

import fnmatch
import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from gradwatch.core import SiteInfo, select


def selected(infos: Sequence[SiteInfo], text: str) -> list[SiteInfo]:
    """The sites whose paths contain all words of a text, in any order and in any case.

    A word with `!` excludes paths that contain it. `*` stands for any characters, `?` for one.
    `viewer/src/heatmap/search.ts` does the same.
    """
    words = text.lower().split()
    wanted = [_pattern(word) for word in words if not word.startswith("!")]
    excluded = [_pattern(word[1:]) for word in words if word.startswith("!") and word != "!"]

    def is_found(path: str) -> bool:
        searched = f"/{path.lower()}/"
        return all(each.match(searched) for each in wanted) and not any(
            each.match(searched) for each in excluded
        )

    return [info for info in infos if is_found(info.path)]


def _pattern(word: str) -> re.Pattern[str]:
    # Brackets are those of slices, such as `kernel[forget]`.
    return re.compile(fnmatch.translate(f"*{word.replace('[', '[[]')}*"))


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
