"""A callback for the `Trainer` of Lightning."""

import sys
from typing import Any

from gradwatch.integrations.trainer_run import TrainerRun

# The two packages have classes of their own.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
    from pytorch_lightning.utilities import rank_zero_warn
else:
    from lightning.pytorch import Callback
    from lightning.pytorch.utilities import rank_zero_warn

_STEPS = "gradwatch_steps"
"""In a checkpoint: the last step of each optimizer."""


class GradwatchCallback(Callback):  # type: ignore[misc]
    """Records the trainings of a Lightning `Trainer`.

    Gradients are recorded before and after the trainer clips them, accumulated and unscaled; the
    loss at every step as it was differentiated; what the module logs when an epoch or a validation
    ends, as metrics. Findings are given as warnings of Lightning. With `stop_on`,
    `trainer.should_stop` is set. Steps go on where a checkpoint was saved; give the same directory
    to continue the run. Several optimizers have the groups `optimizer_0`, `optimizer_1`, ...

    Args:
        arguments: those of `gradwatch.Monitor`: the directory, and `every`, `watch`, `stop_on`, ...
            Without `sinks`, the run is stored and written for TensorBoard, and no table is printed.

    Attributes:
        monitor: the `gradwatch.Monitor`.

    Example:

    ```python
    from gradwatch.integrations.lightning import GradwatchCallback

    trainer = L.Trainer(callbacks=[GradwatchCallback("runs/lit")])
    ```
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._run = TrainerRun(rank_zero_warn, *arguments, **options)
        self.monitor = self._run.monitor
        self._steps: list[int] = []
        self._global_step = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        strategy = trainer.strategy
        if "deepspeed" in type(strategy).__name__.lower():
            self._run.notice(
                "DeepSpeed keeps gradients in buffers of its own, which gradwatch does not read. "
                "Nothing is recorded; training goes on."
            )
            return
        optimizers = list(trainer.optimizers)
        steps = self._steps if len(self._steps) == len(optimizers) else [0] * len(optimizers)
        if len(optimizers) == 1:
            steps = [trainer.global_step]
        module = getattr(strategy, "model", None) or pl_module
        self._global_step = trainer.global_step
        self._run.begin(module, optimizers, steps)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._run.begin_epoch(trainer.current_epoch + 1)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        self._run.continue_at(trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        if trainer.global_step != self._global_step:
            self._global_step = trainer.global_step
            if self._run.end_step():
                rank_zero_warn("gradwatch · stop_on: the training ends after this step")
                trainer.should_stop = True

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._run.log(trainer.callback_metrics)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._run.log(trainer.callback_metrics)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._run.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._run.end()

    # Not by `state_dict`: a trainer takes only one callback of a class that has it.

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint[_STEPS] = self._run.steps

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._steps = list(checkpoint.get(_STEPS, []))
