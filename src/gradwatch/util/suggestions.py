"""Names that are nearly right: errors that say which one was probably meant."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

NONE: Mapping[str, str] = {}


def did_you_mean(name: object, known: Iterable[str], synonyms: Mapping[str, str] = NONE) -> str:
    """A question that names what was probably meant, and a space; empty if nothing is near.

    Example:

    >>> from gradwatch.util.suggestions import did_you_mean
    >>> did_you_mean("Gradiants", ["gradient", "weight"])
    "Did you mean 'gradient'? "
    >>> did_you_mean("norm", ["l1", "l2"], {"norm": "l2"})
    "Did you mean 'l2'? "
    """
    meant = _meant(str(name), list(known), synonyms)
    return "" if meant is None else f"Did you mean {str(meant)!r}? "


def suggests_arguments(
    synonyms: Mapping[str, str] = NONE, more: Iterable[str] = ()
) -> Callable[[F], F]:
    """Decorator: an unknown keyword argument raises a TypeError that says what was meant.

    Args:
        synonyms: by the wrong name, what to write instead: `{"logdir": "directory="}`.
        more: names of arguments that the function takes by `**`.
    """

    def decorate(function: F) -> F:
        by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        parameters = signature(function).parameters.values()
        own = [p.name for p in parameters if p.kind in by_name and p.name != "self"]
        known = list(dict.fromkeys([*own, *more]))
        allowed = frozenset(known)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not allowed.issuperset(kwargs):
                unknown = next(name for name in kwargs if name not in allowed)
                raise TypeError(_no_argument(function.__qualname__, unknown, known, synonyms))
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def _no_argument(function: str, name: str, known: list[str], synonyms: Mapping[str, str]) -> str:
    written = {each: f"{each}=" for each in known}
    # Functions share synonyms, and not all of them have all arguments.
    possible = {
        wrong: right
        for wrong, right in synonyms.items()
        if not right.removesuffix("=").isidentifier() or right in written.values()
    }
    meant = _meant(name, known, written | possible)
    hint = "" if meant is None else f" Did you mean {written.get(meant, meant)}?"
    title = function.removesuffix(".__init__").rpartition(".")[2]
    takes = f"by name: {', '.join(known)}" if known else "none by name"
    return f"{title}() has no argument {name!r}.{hint} It takes {takes}."


def _meant(name: str, known: list[str], synonyms: Mapping[str, str]) -> str | None:
    wish = _form(name)
    for each in (wish, wish.removesuffix("s"), f"{wish}s"):
        if each in synonyms:
            return synonyms[each]
    by_form = {_form(each): each for each in known}
    near = get_close_matches(wish, by_form, n=1)
    return by_form[near[0]] if near else None


def _form(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")
