"""The contexts and hooks that a monitor offers to hand-written loops."""

from __future__ import annotations

from typing import Any

from gradwatch.capture.errors import WrongPlaceError
from gradwatch.capture.guard import guarded
from gradwatch.capture.loop.autograph import as_it_is
from gradwatch.capture.loop.layer_watch import layers_of
from gradwatch.capture.loop.recorder import LoopRecorder
from gradwatch.capture.loop.reduced import Reduced
from gradwatch.capture.loop.replica_step import replica_context
from gradwatch.capture.loop.seen import Seen, Unseen
from gradwatch.capture.loop.step_count import group_name, whole_number


class LoopContexts:
    """The part of `Monitor` that goes around what a loop does."""

    def _loop(self) -> LoopRecorder:
        raise NotImplementedError

    def _fault(self, error: Exception) -> None:
        raise NotImplementedError

    @as_it_is
    @guarded(Unseen)
    def outputs_of(self, model: Any, *, group: str | None = None) -> Seen | Unseen:
        """A context that sees what layers return, and the gradients with respect to it.

        Run the forward and the backward pass of a step in it, eager or inside
        `tf.function` or `jax.jit`, and hand what it gives to `record` or `measure` as
        `outputs=`. It sees the layers that the monitor's `outputs` and
        `output_gradients` select; the model is left as it was.

        In JAX it goes around the differentiation: around `jax.value_and_grad(...)(...)`.

        Args:
            model: a Keras model, or a torch module.
            group: as for `record`, and the same.

        Raises:
            TypeError: it is neither.

        Example:

        >>> import gradwatch, tempfile, torch
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), every=1, sinks=[gradwatch.CSV()],
        ...                             watch=[gradwatch.outputs(), gradwatch.output_gradients()])
        >>> module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        >>> with monitor.outputs_of(module) as seen:
        ...     module(torch.ones(2, 3)).sum().backward()
        >>> monitor.record(outputs=seen)
        >>> monitor.close()
        >>> lines = (monitor.directory / "summaries.csv").read_text().splitlines()[1:]
        >>> [line.split(",")[3:5] for line in lines]
        [['output', '0'], ['output_gradient', '0'], ['output', '1'], ['output_gradient', '1']]
        """
        if replica_context() is not None:
            raise WrongPlaceError(
                "monitor.outputs_of() does not see the replicas of tf.distribute. In fit, outputs "
                "of layers are recorded there."
            )
        name = group_name(group)
        layers = layers_of(model, self._fault, self._loop().remark)
        return Seen(layers, self._loop(), name, self._fault)

    @as_it_is
    @guarded(Unseen)
    def reduced_by(self, optimizer: Any) -> Reduced | Unseen:
        """A context that sees the gradients that a Keras optimizer applies on TensorFlow.

        In a step that several replicas of `tf.distribute` run, an optimizer sums the
        gradients over them and then updates the variables. Apply them in this context, and
        hand what it gives to `measure` or `record` as `gradients=`: those are the gradients
        of all replicas together, after any clipping by the optimizer. Nothing is reduced
        a second time. With one replica it works the same.

        Args:
            optimizer: of Keras on TensorFlow; not one that scales the loss.

        Raises:
            TypeError: it is another one.

        Example:

        >>> import os; _ = os.environ.setdefault("KERAS_BACKEND", "jax")
        >>> import gradwatch, tempfile
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp())
        >>> monitor.reduced_by("adam")
        Traceback (most recent call last):
        TypeError: reduced_by() takes an optimizer of Keras on TensorFlow. Received: builtins.str
        """
        return Reduced(optimizer, self._fault)

    @as_it_is
    def tape(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        *,
        step: Any = None,
        epoch: Any = None,
        group: str | None = None,
    ) -> Any:
        """A `tf.GradientTape` whose `gradient()` is recorded by itself.

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

        Example:

        >>> import gradwatch, tempfile
        >>> import tensorflow as tf
        >>> monitor = gradwatch.Monitor(tempfile.mkdtemp(), every=1, sinks=[gradwatch.CSV()])
        >>> w = tf.Variable([1.0, 2.0], name="w")
        >>> with monitor.tape() as tape:
        ...     loss = tf.reduce_sum(w * w)
        >>> gradient = tape.gradient(loss, w)
        >>> monitor.close()
        """
        options = (persistent, watch_accessed_variables)
        tape = self._own_tape(options, step, epoch, group)
        if tape is None:
            # TensorFlow's own, where ours cannot be had.
            import tensorflow as tf

            return tf.GradientTape(*options)
        return tape

    @guarded()
    def _own_tape(self, options: tuple[bool, bool], step: Any, epoch: Any, group: Any) -> Any:
        from gradwatch.capture.loop.tape import make_tape

        where = (whole_number("step", step), whole_number("epoch", epoch), group_name(group))
        return make_tape(self._loop(), self._fault, options, where)

    @guarded()
    def _watch_torch(self, module: Any, optimizer: Any, group: str | None) -> None:
        """See `gradwatch.watch`."""
        from gradwatch.capture.torch.torch_watch import TorchWatch

        TorchWatch(module, optimizer, self._loop(), group_name(group), self._fault)
