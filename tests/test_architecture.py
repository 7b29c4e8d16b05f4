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
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_no_file_is_longer_than_350_lines():
    assert [f.name for f in FILES if len(f.read_text().splitlines()) > 350] == []
