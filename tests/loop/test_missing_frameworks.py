"""Frameworks that are not installed: none but the one in use is needed, and that one is named."""

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


ALONE = """
import importlib.abc, sys, warnings
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras", "jax"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
import gradwatch, torch
module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(module.parameters(), 0.1)
sys.meta_path.insert(0, Missing())
warnings.simplefilter("error")
monitor = gradwatch.watch(module, optimizer, sys.argv[1], every=1, watch=[
    gradwatch.gradients(), gradwatch.outputs(), gradwatch.output_gradients()])
for _ in range(2):
    optimizer.zero_grad()
    loss = module(torch.ones(2, 3)).square().mean()
    loss.backward()
    optimizer.step()
    monitor.record(loss=loss)
monitor.close()
print(*sorted({str(site.kind) for site in gradwatch.open(sys.argv[1]).sites()}))
"""


def test_a_torch_loop_needs_torch_alone(run_script, tmp_path):
    done = run_script(ALONE, tmp_path)
    assert {"gradient", "output", "output_gradient", "loss"} <= set(done.stdout.split())
