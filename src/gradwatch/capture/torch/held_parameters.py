"""Which parameters an optimizer holds; they change where layers thaw or a head is replaced."""

from gradwatch.capture.variable_names import NamedVariable, variables_of
from gradwatch.core import TorchModule, TorchOptimizer


class HeldParameters:
    """Notices that an optimizer holds other parameters than when it was last asked.

    >>> import torch
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    >>> optimizer = torch.optim.SGD(module[1].parameters(), lr=0.1)
    >>> held = HeldParameters(module, optimizer)
    >>> held.changed()
    []
    >>> optimizer.add_param_group({"params": module[0].parameters()})
    >>> [each.path for each in held.changed()]
    ['0/weight', '0/bias', '1/weight', '1/bias']
    """

    def __init__(self, module: TorchModule, optimizer: TorchOptimizer) -> None:
        self._module, self._optimizer = module, optimizer
        self._held = self._now()

    def changed(self) -> list[NamedVariable]:
        """The parameters of the module that it holds now; none if they are the same as before."""
        held = self._now()
        if held == self._held:
            return []
        self._held = held
        return [each for each in variables_of(self._module).named if id(each.value) in held]

    def _now(self) -> set[int]:
        return {id(p) for group in self._optimizer.param_groups for p in group["params"]}
