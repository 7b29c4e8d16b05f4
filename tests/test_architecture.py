"""What importing gradwatch brings in, and that a name stands for one thing."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gradwatch"
SLOW = {
    "keras", "tensorflow", "jax", "torch", "tensorboard", "rich", "duckdb", "starlette", "uvicorn",
    "matplotlib", "IPython", "pandas", "importlib.metadata",
}  # fmt: skip
FILES = [file for file in sorted(SOURCE.rglob("*.py")) if not file.name.startswith("__")]


def test_importing_gradwatch_imports_no_framework_and_nothing_slow():
    code = "import gradwatch, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not SLOW & set(loaded)


def test_all_that_is_exported_is_documented():
    import gradwatch

    for name in gradwatch.__all__:
        assert getattr(gradwatch, name).__doc__, name


def test_no_two_modules_have_one_name():
    places = defaultdict(list)
    for file in FILES:
        places[file.stem].append(str(file.relative_to(SOURCE)))
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(SOURCE)))
    # One for each trainer, in the words of all of them.
    del places["GradwatchCallback"]
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_no_file_is_longer_than_350_lines():
    assert [f.name for f in FILES if len(f.read_text().splitlines()) > 350] == []


def module_of(file):
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in SOURCE.rglob("*.py")}


def imports(file):
    """(what is imported, what it is imported from), those inside functions included."""
    tree = ast.parse(file.read_text())
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
    for_types = {id(each) for node in typing for each in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in for_types:
            continue
        if (node.module or "").startswith("gradwatch"):
            source = node.module.removeprefix("gradwatch").removeprefix(".")
            for alias in node.names:
                name = f"{source}.{alias.name}".strip(".")
                yield name if name in MODULES else source, source


def test_rooms_are_entered_through_their_doors():
    """A name comes from a package's `__init__`, a module as a whole from its package.

    `util` is a toolbox of modules; the modules of `measure` for torch need torch, and those of
    `compat` the framework that they are about.
    """
    inner = {
        f"{module} imports from {source}"
        for module, file in MODULES.items()
        for _, source in imports(file)
        if source
        and source.partition(".")[0] not in (module.partition(".")[0], "util")
        and not source.startswith(("measure.torch", "compat."))
        and MODULES[source].name != "__init__.py"
    }
    assert inner - {"__main__ imports from cli.main"} == set()


def test_there_is_no_import_cycle():
    left = {
        module: {name for name, _ in imports(file) if name in MODULES and name != module}
        for module, file in MODULES.items()
    }
    while free := {module for module, needs in left.items() if not needs & set(left)}:
        left = {module: needs for module, needs in left.items() if module not in free}
    assert left == {}
