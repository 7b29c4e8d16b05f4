"""Errors caused by the caller: raised, unlike internal ones."""


class MisuseError(Exception):
    """A call that cannot be meant. It is raised, where an internal error only warns."""


class WrongTypeError(MisuseError, TypeError):
    """An argument of a type that is not supported."""


class WrongValueError(MisuseError, ValueError):
    """Arguments that do not fit each other."""


class WrongPlaceError(MisuseError, RuntimeError):
    """A call inside a compiled function that belongs outside of it, or the reverse."""
