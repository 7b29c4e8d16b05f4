"""Errors caused by the caller: raised, unlike internal ones."""

from gradwatch import compat


class MisuseError(Exception):
    """A call that cannot be meant. It is raised, where an internal error only warns."""


class WrongTypeError(MisuseError, TypeError):
    """An argument of a type that is not supported."""


class WrongValueError(MisuseError, ValueError):
    """Arguments that do not fit each other."""


class MissingFrameworkError(MisuseError, ImportError):
    """A call that needs a framework which cannot be imported."""


class WrongPlaceError(MisuseError, RuntimeError):
    """A call inside a compiled function that belongs outside of it, or the reverse."""


def require_framework(module: str, name: str, call: str, instead: str) -> None:
    """Raise MissingFrameworkError, with the way to install it, if a module cannot be imported."""
    try:
        compat.require_supported(module)
    except compat.UnsupportedVersionError:
        raise
    except ImportError as error:
        raise MissingFrameworkError(
            f"{call} needs {name}, which cannot be imported: {error}. Install it: "
            f"pip install {module}. {instead}"
        ) from None
