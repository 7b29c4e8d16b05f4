"""A callback for the `Trainer` of Hugging Face transformers."""

from typing import Any

from transformers import TrainerCallback
from transformers.utils import logging

from gradwatch.integrations.trainer_run import TrainerRun

logger = logging.get_logger("transformers.gradwatch")

_OWN = ("loss", "learning_rate", "epoch")
"""What is recorded of each step anyway, and without the trainer's filter of NaN."""


class GradwatchCallback(TrainerCallback):  # type: ignore[misc]
    """Records the trainings of a `Trainer`, also of TRL.

    Gradients are recorded before and after the trainer clips them, accumulated and unscaled; the
    loss at every step as it was differentiated, so that `logging_nan_inf_filter` hides no NaN; the
    numbers of evaluations as metrics. Findings are logged as warnings of transformers. With
    `stop_on`, the trainer stops after the step of the finding. Steps are those of the trainer, also
    when it resumes from a checkpoint; give the same directory to continue the run.

    Args:
        arguments: those of `gradwatch.Monitor`: the directory, and `every`, `watch`, `stop_on`, ...
            Without `sinks`, the run is stored and written for TensorBoard, and no table is printed.

    Attributes:
        monitor: the `gradwatch.Monitor`.

    Example:

    ```python
    from gradwatch.integrations.transformers import GradwatchCallback

    trainer = Trainer(model, args, train_dataset=data, callbacks=[GradwatchCallback("runs/bert")])
    ```
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._run = TrainerRun(logger.warning, *arguments, **options)
        self.monitor = self._run.monitor

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, optimizer = kwargs.get("model"), kwargs.get("optimizer")
        if getattr(args, "deepspeed", None):
            self._run.notice(
                "DeepSpeed keeps gradients in buffers of its own, which gradwatch does not read. "
                "Nothing is recorded; training goes on."
            )
        elif model is None or optimizer is None:
            self._run.notice(
                "This version of transformers does not tell callbacks the model and the optimizer. "
                "Nothing is recorded; training goes on. Install a newer one."
            )
        else:
            self._run.begin(model, [optimizer], [state.global_step])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.begin_epoch(int(state.epoch or 0) + 1)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.continue_at(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if self._run.end_step():
            logger.warning("gradwatch · stop_on: the training ends after this step")
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        names = [n for n in logs or {} if n not in _OWN and not n.startswith(("eval_", "train_"))]
        self._run.log({name: logs[name] for name in names})

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        self._run.log({n: x for n, x in (metrics or {}).items() if n != "epoch"})

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._run.end()
