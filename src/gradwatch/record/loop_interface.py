"""The methods of a monitor that hand-written loops call."""

from collections.abc import Mapping
from typing import Any

from gradwatch.capture.loop import (
    LoopSource,
    NoOutputs,
    OutputsContext,
    ReducedGradients,
    StepArguments,
    do_not_convert,
)
from gradwatch.capture.user_taps import TapRows
from gradwatch.core import KerasModel, KerasOptimizer, Tensor, TorchModule, Tree
from gradwatch.util import suggests_arguments

LOOP_SYNONYMS = {
    **dict.fromkeys(("grad", "grads", "gradient", "dx"), "gradients="),
    **dict.fromkeys(("model", "module", "weights", "params", "trainable_variables"), "variables="),
    **dict.fromkeys(("loss_value", "target_loss"), "loss="),
    **dict.fromkeys(("sample_losses", "per_sample_losses", "unreduced"), "losses="),
    **dict.fromkeys(("ids", "sample_ids", "indices"), "samples="),
    **dict.fromkeys(("opt_state", "state", "optimizer_variables"), "optimizer_state="),
    **dict.fromkeys(("before", "old", "previous_variables"), "previous="),
    **dict.fromkeys(("x", "data", "input", "batch_x", "features"), "inputs="),
    **dict.fromkeys(("y", "labels", "target", "batch_y"), "targets="),
    **dict.fromkeys(("iteration", "global_step", "step_number", "batch", "i"), "step="),
    **dict.fromkeys(("activations", "output", "layers"), "outputs="),
    **dict.fromkeys(("logs", "accuracy", "scalars", "metric"), "metrics="),
    **dict.fromkeys(("optimizer", "name", "prefix", "tag"), "group="),
    "histogram": "histograms=",
}
"""What is meant by arguments that the methods for loops do not have."""


class LoopInterface:
    """Records hand-written loops; see `Monitor`.

    Args:
        loop: captures their steps.
    """

    def __init__(self, loop: LoopSource) -> None:
        self._loop = loop

    @do_not_convert
    @suggests_arguments(LOOP_SYNONYMS)
    def record(
        self,
        readings: Tree | None = None,
        *,
        gradients: Tree | None = None,
        variables: Tree | None = None,
        parameters: Tree | None = None,
        loss: Tensor | None = None,
        losses: Tensor | None = None,
        samples: Tensor | None = None,
        metrics: Mapping[str, Tensor] | None = None,
        previous: Tree | None = None,
        applied_gradients: Tree | None = None,
        optimizer_state: Any = None,
        names: Tree | None = None,
        outputs: Tree | None = None,
        output_gradients: Tree | None = None,
        taps: TapRows | None = None,
        inputs: Tree | None = None,
        targets: Tree | None = None,
        step: int | Tensor | None = None,
        epoch: int | Tensor | None = None,
        group: str | None = None,
        micro_batch: int | None = None,
        reduced: bool = False,
    ) -> None:
        """Record a step of a hand-written loop, if it is due; never waits for the device.

        Give it the result of `measure`, or the tensors themselves. It keeps what the
        schedules ask for; where nothing is due, it does next to nothing.

        Args:
            readings: the result of `measure`, from inside a compiled step; or the state of an
                optimizer with a link of `optax` in it.
            gradients: of the loss with respect to the variables, as a list in their
                order or as the same tree. A None in it is recorded with count 0.
                For torch parameters they are their `.grad` if not given.
            variables: a list, dict or tree of variables, or the model or module
                that holds them; names come from them. Their present values are
                recorded: call this after the update for those after the step.
            parameters: another name for `variables`.
            loss: a scalar; recorded at every step, also where nothing else is due.
            losses: the loss of each sample of the batch, before it is reduced: with
                `reduction="none"`, for example. At every step the worst are recorded, so that a
                loss that jumps has a culprit.
            samples: whole numbers that name the samples of `losses`, such as their indices in
                the data; without it, their places in the batch are told.
            metrics: further numbers by name, such as `{"accuracy": 0.9}`, recorded at every
                step like the loss. A call with nothing else, after a validation for example, adds
                them to the last step.
            previous: the values of the variables before the step, from which
                `updates` are computed.
            applied_gradients: the gradients that the update rule used, after your
                own clipping, say.
            optimizer_state: what the optimizer holds after the update: an optimizer of Keras or
                torch; (optax's transformation, its state), the state alone, or an object with `tx`
                and `opt_state`; in JAX with Keras, (optimizer, the values of its variables). It is
                compared with the applied gradients, if given, else with the gradients.
            names: names for variables that have none: strings, or named variables.
            outputs: the outputs of layers: tensors by name, or the result of
                `outputs_of`, which holds the gradients with respect to them too.
            output_gradients: the gradients with respect to outputs, by name.
            taps: what has passed `gradwatch.tap`, from `gradwatch.with_taps`; recorded whatever
                the watches are.
            inputs: the inputs of the step, and `targets` its targets: tensors,
                or dicts or lists of them. The diagnosis uses them.
            targets: see `inputs`.
            step: its number; by default steps are counted from 1, for each group.
            epoch: its number; `"epoch"` schedules are due at the first record of
                each, and the console prints its table when it changes.
            group: in loops with several optimizers, which one: a name with which all
                paths of this record begin.
            micro_batch: the index of a part of the step's batch, if the gradients are
                those of the part: recorded under `micro_batch_0/...`. Record the step
                itself last, without it.
            reduced: inside of replicas of `tf.distribute`: whether the gradients are
                those of all replicas together, rather than the replica's own.

        Raises:
            TypeError, ValueError: the arguments do not fit together.
            RuntimeError: called inside a compiled function; see `measure`.
        """
        self._loop.record(
            StepArguments(
                readings=readings,
                gradients=gradients,
                variables=variables,
                parameters=parameters,
                loss=loss,
                losses=losses,
                samples=samples,
                metrics=metrics,
                previous=previous,
                applied_gradients=applied_gradients,
                optimizer_state=optimizer_state,
                names=names,
                outputs=outputs,
                output_gradients=output_gradients,
                taps=taps,
                inputs=inputs,
                targets=targets,
                step=step,
                epoch=epoch,
                group=group,
                micro_batch=micro_batch,
                reduced=reduced,
            )
        )

    @do_not_convert
    @suggests_arguments(LOOP_SYNONYMS)
    def measure(
        self,
        *,
        gradients: Tree | None = None,
        parameters: Tree | None = None,
        variables: Tree | None = None,
        loss: Tensor | None = None,
        previous: Tree | None = None,
        applied_gradients: Tree | None = None,
        optimizer_state: Any = None,
        names: Tree | None = None,
        outputs: Tree | None = None,
        output_gradients: Tree | None = None,
        taps: TapRows | None = None,
        group: str | None = None,
        micro_batch: int | None = None,
        histograms: bool | Tensor = True,
        reduced: bool = False,
    ) -> dict[str, Tensor]:
        """Measure tensors, also inside `tf.function` and `jax.jit`; give the result to `record`.

        It is a pure function of the tensors, without a callback to the host: return
        its result from the compiled step, and call `record` with that outside.

        Args:
            gradients: as for `record`, like all arguments that are not listed here.
            parameters: the variables, or the arrays of a pytree; their values at this
                point of the step are measured.
            variables: another name for `parameters`.
            histograms: whether to count histograms, which cost more than summaries:
                a Python bool, or one that is computed in the step. `record` keeps
                them only where they are due.
            reduced: as for `record`.

        Returns:
            A dict of arrays; empty after an internal error.

        Raises:
            TypeError, ValueError: the arguments do not fit together.
        """
        return self._loop.measure(
            StepArguments(
                gradients=gradients,
                parameters=parameters,
                variables=variables,
                loss=loss,
                previous=previous,
                applied_gradients=applied_gradients,
                optimizer_state=optimizer_state,
                names=names,
                outputs=outputs,
                output_gradients=output_gradients,
                taps=taps,
                group=group,
                micro_batch=micro_batch,
                histograms=histograms,
                reduced=reduced,
            )
        )

    @suggests_arguments(LOOP_SYNONYMS)
    def due(
        self,
        step: int | Tensor | None = None,
        *,
        epoch: int | Tensor | None = None,
        group: str | None = None,
        histograms: bool = False,
    ) -> bool:
        """Whether a step will be recorded: to choose between two compiled steps.

        Args:
            step: its number; the next one if not given.
            epoch: its epoch, if the loop has any.
            group: the group, if the loop has any.
            histograms: ask for histograms only.
        """
        return self._loop.due(step, epoch=epoch, group=group, histograms=histograms)

    @do_not_convert
    @suggests_arguments(LOOP_SYNONYMS)
    def outputs_of(
        self, model: KerasModel | TorchModule, *, group: str | None = None
    ) -> OutputsContext | NoOutputs:
        """A context that captures outputs of layers, and the gradients with respect to them.

        Run the forward and the backward pass of a step in it, eager or inside
        `tf.function` or `jax.jit`, and give its result to `record` or `measure` as
        `outputs=`. It captures the layers that the monitor's `outputs` and
        `output_gradients` select; the model is left as it was.

        In JAX it goes around the differentiation: around `jax.value_and_grad(...)(...)`.

        Args:
            model: a Keras model, or a torch module.
            group: as for `record`, and the same.

        Raises:
            TypeError: it is neither.
        """
        return self._loop.outputs_of(model, group)

    def optax(self, *transformations: Any, clipping: Any = None, group: str | None = None) -> Any:
        """A link of an `optax.chain` that measures what passes through it, also under `jax.jit`.

        Give the optimizer's state to `record` after each step. It has the summaries of the last
        measured step; steps that are not due compute none, but are compiled otherwise, see the
        limits in docs/jax.md. Recorded are the gradients that come to the link, the weights before
        the update, and the updates that `transformations` make of them. The learning rate is
        recorded too if `optax.inject_hyperparams` is around the optimizer.

        Args:
            transformations: those that come after, for their updates: the optimizer. Without any,
                gradients pass on as they are.
            clipping: clips gradients before `transformations`; what it returns is recorded as
                `applied_gradients`.
            group: as for `record`, for several links: in `optax.partition`, for example.

        Returns:
            An `optax.GradientTransformationExtraArgs`.

        Example:

        >>> import gradwatch, jax, jax.numpy as jnp, optax, tempfile
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), every=1, sinks=[gradwatch.CSV()],
        ...                             diagnose=False)
        >>> optimizer = monitor.optax(optax.adam(0.1), clipping=optax.clip_by_global_norm(1.0))
        >>> params = {"w": jnp.ones(3)}
        >>> state = optimizer.init(params)
        >>> loss, grads = jax.value_and_grad(lambda p: (p["w"] ** 2).sum())(params)
        >>> updates, state = optimizer.update(grads, state, params)
        >>> monitor.record(state, loss=loss)
        >>> monitor.close()
        >>> lines = (monitor.directory / "summaries.csv").read_text().splitlines()[1:]
        >>> [line.split(",")[3] for line in lines]
        ['weight', 'gradient', 'applied_gradient', 'loss']
        """
        return self._loop.optax(transformations, clipping, group)

    @do_not_convert
    @suggests_arguments(LOOP_SYNONYMS)
    def reduced_by(self, optimizer: KerasOptimizer) -> ReducedGradients | NoOutputs:
        """A context that captures the gradients that a Keras optimizer applies on TensorFlow.

        In a step that several replicas of `tf.distribute` run, an optimizer sums the
        gradients over them and then updates the variables. Apply them in this context, and
        give its result to `measure` or `record` as `gradients=`: those are the gradients
        of all replicas together, after any clipping by the optimizer. Nothing is reduced
        a second time. With one replica it works the same.

        Args:
            optimizer: of Keras on TensorFlow; not one that scales the loss.

        Raises:
            TypeError: it is another one.
        """
        return self._loop.reduced_by(optimizer)

    @do_not_convert
    @suggests_arguments(LOOP_SYNONYMS)
    def tape(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        *,
        step: int | Tensor | None = None,
        epoch: int | Tensor | None = None,
        group: str | None = None,
    ) -> Any:
        """A `tf.GradientTape` that records what its `gradient()` returns.

        Recorded are the gradients with respect to variables, the variables' values
        (before the update, which is still to come) and the target as the loss. One
        tape is one step; with a persistent tape, the second call of `gradient()` is
        recorded under `call_2/...`, unless it is given a `group=`.

        For eager loops: inside `tf.function`, use `tf.GradientTape` and `measure`.

        Args:
            persistent: as for `tf.GradientTape`.
            watch_accessed_variables: as for `tf.GradientTape`.
            step: as for `record`.
            epoch: as for `record`.
            group: as for `record`.

        Raises:
            RuntimeError: called inside `tf.function`.
        """
        options = (persistent, watch_accessed_variables)
        return self._loop.tape(options, step, epoch, group)
