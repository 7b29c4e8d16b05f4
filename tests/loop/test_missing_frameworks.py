"""A framework that is not installed is named, with the way to install it."""

import pytest

SCRIPT = """
import importlib.abc, sys, warnings
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "torch", "keras", "jax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
warnings.simplefilter("error")
import gradwatch
monitor = gradwatch.Monitor(sys.argv[1], sinks=[])
try:
    CALL
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("call", "command"),
    [
        ("monitor.tape()", "pip install tensorflow"),
        ("gradwatch.watch(object(), object(), monitor)", "pip install torch"),
    ],
)
def test_a_missing_framework_is_said_in_a_sentence(run_script, tmp_path, call, command):
    done = run_script(SCRIPT.replace("CALL", call), tmp_path)
    assert command in done.stdout
    assert "monitor.record(" in done.stdout
