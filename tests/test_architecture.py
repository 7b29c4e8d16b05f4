"""Who may import whom, and what importing gradwatch brings in."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gradwatch"

# For each part, what of ours and of the frameworks it may import: the table in
# docs/architecture.md. A part may always import within itself.
ALLOWED = {
    "sites": set(),
    "schedule": set(),
    "summary": {"measure.numpy"},
    "histogram": {"summary", "measure.numpy"},
    "warning": set(),
    "environment": set(),
    "rundir": set(),
    "select": {"sites"},
    "probes": set(),
    "watches": {"probes", "schedule", "select", "sites"},
    "measure.layout": {"histogram"},
    "measure.numpy": {"histogram"},
    "measure.tensorflow": {"histogram", "measure.layout", "summary", "tensorflow"},
    "measure.jax": {"histogram", "measure.layout", "summary", "jax"},
    "measure.torch": {"histogram", "measure.layout", "summary", "torch"},
    "reading": {"histogram", "sites", "summary"},
    "sinks": {"histogram", "probes", "reading", "sites", "summary"},
    "inventory": {"sites", "capture"},
    "grouping": {"reading", "select", "sites"},
    "capture.plan": {"probes", "schedule", "select", "sites", "watches"},
    "capture.gates": {"sites"},
    "capture.values": {"capture.plan", "reading", "sites", "summary"},
    "capture.readings": {
        "capture.plan", "capture.values", "reading", "schedule", "sites", "summary",
    },
    "capture.frameworks": {"histogram", "measure", "summary", "tensorflow", "jax", "torch"},
    "capture.loop": {
        "capture.frameworks", "capture.gates", "capture.keras.layers",
        "capture.keras.output_watch", "capture.keras.taps", "capture.keras.variables",
        "capture.plan", "capture.readings", "capture.values", "reading", "schedule", "select",
        "sites", "summary", "tensorflow", "torch",
    },
    "capture.keras": {
        "capture.frameworks", "capture.gates", "capture.plan", "capture.readings",
        "capture.values", "keras", "measure", "reading", "schedule", "select", "sites", "summary",
        "tensorflow", "jax", "torch",
    },
    "inspection": {"capture", "select", "sinks.table", "sites", "summary"},
    "monitor": {
        "capture", "environment", "grouping", "reading", "rundir", "schedule", "select", "sinks",
        "warning", "watches",
    },
    "watching": {"monitor"},
}  # fmt: skip
FRAMEWORKS = {"keras", "tensorflow", "jax", "torch", "tensorboard", "rich"}
LATE = {"rich"}  # May be imported inside functions.


def modules():
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if parts:
            yield ".".join(parts), file


def part_of(module):
    """The longest entry of the table that the module belongs to."""
    fitting = [p for p in ALLOWED if module == p or module.startswith(p + ".")]
    return max(fitting, key=len, default=None)


def imports(file):
    """(module, whether at the top level) for all that matters in a file."""
    tree = ast.parse(file.read_text())
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.module == "gradwatch":
                names = [f"gradwatch.{alias.name}" for alias in node.names]
            else:
                names = [node.module]
        else:
            continue
        for name in names:
            yield name, id(node) in top


@pytest.mark.parametrize(("module", "file"), list(modules()))
def test_a_module_imports_only_what_its_part_may(module, file):
    part = part_of(module)
    if part is None:
        # Packages that only say what is in them.
        assert module in {"measure", "capture"}, f"{module} belongs to no part"
        assert list(imports(file)) == []
        return
    for name, at_top in imports(file):
        ours = name.startswith("gradwatch.")
        name = name.removeprefix("gradwatch.") if ours else name.partition(".")[0]
        if ours:
            within = name == part or name.startswith(part + ".")
            allowed = any(name == p or name.startswith(p + ".") for p in ALLOWED[part])
            assert within or allowed, f"{module} imports gradwatch.{name}"
        elif name in FRAMEWORKS:
            late = name in LATE and not at_top
            assert name in ALLOWED[part] or late, f"{module} imports {name}"


def test_importing_gradwatch_imports_no_framework_and_nothing_slow():
    code = "import gradwatch, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not (FRAMEWORKS | {"pandas", "importlib.metadata"}) & set(loaded)


def test_all_that_is_exported_is_documented():
    import gradwatch

    for name in gradwatch.__all__:
        assert getattr(gradwatch, name).__doc__, name
