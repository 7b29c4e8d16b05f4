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
    "budget": {"schedule"},
    "summary": {"measure.numpy"},
    "histogram": {"summary", "measure.numpy"},
    "warning": set(),
    "environment": set(),
    "ranks": set(),
    "agreement": {"budget", "ranks"},
    "background": {"warning"},
    "exits": set(),
    "files": set(),
    "description": {"files"},
    "rundir": {"background", "description", "exits", "ranks", "sites"},
    "select": {"sites"},
    "probes": set(),
    "watches": {"probes", "schedule", "select", "sites"},
    "measure.layout": {"histogram"},
    "measure.numpy": {"histogram"},
    "measure.rows": set(),
    "measure.tensorflow": {
        "histogram", "measure.layout", "measure.tensorflow_cells", "measure.tensorflow_rows",
        "summary", "tensorflow",
    },
    "measure.tensorflow_cells": {"histogram", "measure.layout", "tensorflow"},
    "measure.tensorflow_eager": {"measure.tensorflow", "tensorflow"},
    "measure.tensorflow_fused": {"tensorflow"},
    "measure.tensorflow_rows": {
        "measure.layout", "measure.rows", "measure.tensorflow_fused", "tensorflow",
    },
    "measure.jax": {"measure.jax_local", "measure.jax_sharded", "jax"},
    "measure.jax_local": {"histogram", "measure.jax_rows", "measure.layout", "summary", "jax"},
    "measure.jax_sharded": {"histogram", "measure.jax_local", "summary", "jax"},
    "measure.jax_rows": {
        "measure.jax_layout", "measure.jax_pallas", "measure.layout", "measure.rows", "summary",
        "jax",
    },
    "measure.jax_layout": {"measure.rows", "jax"},
    "measure.jax_pallas": {"measure.layout", "jax"},
    "measure.torch": {
        "histogram", "measure.torch_cpu", "measure.torch_cuda", "measure.torch_plain", "summary",
        "torch",
    },
    "measure.torch_plain": {"histogram", "measure.layout", "summary", "torch"},
    "measure.torch_flat": {"histogram", "measure.layout", "measure.torch_plain", "torch"},
    "measure.torch_cpu": {
        "histogram", "measure.layout", "measure.rows", "measure.torch_flat", "summary", "torch",
    },
    "measure.torch_cuda": {
        "histogram", "measure.cuda_kernel", "measure.layout", "measure.torch_flat",
        "measure.torch_plain", "measure.triton_kernel", "summary", "torch",
    },
    "measure.triton_kernel": set(),
    "measure.cuda_kernel": {"torch"},
    "reading": {"histogram", "sites", "summary"},
    "store": {
        "background", "exits", "files", "histogram", "probes", "reading", "sites", "summary",
    },
    "store.remote": {
        "background", "description", "exits", "files", "store", "warning",
    },
    "store.reader": {
        "files", "histogram", "reading", "select", "sites", "store", "summary",
        "view.notebook",  # How a run displays itself; imported only when it does.
    },
    "sinks": {
        "exits", "files", "histogram", "probes", "reading", "sites", "store", "summary",
    },
    "inventory": {"sites", "capture"},
    "grouping": {"reading", "select", "sites"},
    "diagnose": {"histogram", "reading", "select", "sites", "summary"},
    "diagnose.findings_file": {"diagnose", "files"},
    "diagnose.flight": {"files", "reading", "summary"},
    "diagnose.live": {"diagnose", "reading", "sinks.worker", "sites"},
    "capture.plan": {"probes", "schedule", "select", "sites", "watches"},
    "capture.gates": {"sites"},
    "capture.harmless": {"select"},
    "capture.values": {"capture.plan", "reading", "sites", "summary"},
    "capture.readings": {
        "capture.plan", "capture.values", "reading", "schedule", "sites", "summary",
    },
    "capture.frameworks": {
        "histogram", "measure", "summary", "warning", "tensorflow", "jax", "torch",
    },
    "capture.loop": {
        "budget", "capture.frameworks", "capture.gates", "capture.harmless",
        "capture.keras.layers",
        "capture.keras.output_watch", "capture.keras.taps", "capture.keras.variables",
        "capture.plan", "capture.readings", "capture.values", "diagnose.facts", "histogram",
        "ranks", "reading", "schedule", "select", "sites", "summary", "tensorflow", "torch",
    },
    "capture.keras": {
        "budget", "capture.frameworks", "capture.gates", "capture.harmless", "capture.plan",
        "capture.readings", "capture.values", "diagnose.facts", "diagnose.means", "histogram",
        "keras", "measure", "reading",
        "schedule", "select", "sites", "summary", "tensorflow", "jax", "torch",
    },
    "inspection": {"capture", "select", "sinks.table", "sites", "summary", "view.notebook"},
    "monitor_arguments": {"diagnose", "select", "sinks", "store.remote", "watches"},
    "signs_of_life": {"reading", "sites", "summary"},
    "recording": {
        "budget", "capture.plan", "diagnose", "environment", "grouping", "ranks", "reading",
        "rundir", "signs_of_life", "sinks", "sites", "store.remote", "warning",
    },
    "monitor_fit": {
        "budget", "capture.keras", "capture.plan", "diagnose", "ranks", "reading", "recording",
        "sites", "warning",
    },
    "monitor": {
        "agreement", "monitor_arguments", "monitor_fit",
        "budget", "capture", "diagnose", "reading", "recording",
        "schedule", "select", "sinks", "sites", "store.remote", "warning", "watches",
    },
    "watching": {"monitor"},
    "testing": {"diagnose", "monitor", "keras"},
    "checking": {"diagnose", "monitor", "sinks", "watches", "watching"},
    "imports": {
        "environment", "reading", "rundir", "sites", "store", "summary",
    },
    "cli": {
        "budget", "checking", "diagnose", "files", "histogram", "imports", "reading", "select",
        "sinks.csv", "sinks.table", "sites",
        "store.reader", "store.names", "store.remote", "summary", "view",
    },
    "view.glance": {
        "budget", "select", "sinks.table", "sites", "store.reader", "summary",
    },
    "view.terminal": {
        "diagnose", "reading", "select", "sinks.table", "sites", "store.reader", "view.glance",
    },
    "view.notebook": {
        "budget", "diagnose", "inspection", "select", "sinks.table", "sites", "store.reader",
        "summary", "view.data.labels", "view.glance",
    },
    "view.data": {
        "budget", "diagnose", "histogram", "select", "sites", "store.reader", "summary",
        "view.glance",
    },
    "view.web": {
        "diagnose", "store.names", "store.reader", "view.data", "view.glance",
    },
    "view.report": {
        "diagnose", "files", "sinks.table", "sites", "store.reader", "view.data", "view.glance",
        "view.web.static",
    },
    "__main__": {"cli"},
}  # fmt: skip
# May be imported inside functions.
LATE = {"rich", "duckdb", "starlette", "uvicorn", "matplotlib", "IPython"}
FRAMEWORKS = {"keras", "tensorflow", "jax", "torch", "tensorboard"} | LATE


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
        assert module in {"measure", "capture", "view"}, f"{module} belongs to no part"
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
