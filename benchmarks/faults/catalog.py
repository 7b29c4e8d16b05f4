"""All programs of the benchmark."""

from __future__ import annotations

from . import faulty_design, faulty_numbers, healthy
from .program import Program


def catalog() -> dict[str, Program]:
    """Every program by its name."""
    made = [*healthy.programs(), *faulty_numbers.programs(), *faulty_design.programs()]
    programs = {program.name: program for program in made}
    if len(programs) < len(made):
        names = [program.name for program in made]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"Each program has a name of its own. Twice: {', '.join(twice)}")
    return programs
