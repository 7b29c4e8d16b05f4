"""The identity that measures what passes it."""

from gradwatch.capture.autograph import do_not_convert
from gradwatch.capture.errors import WrongTypeError, WrongValueError
from gradwatch.capture.user_taps.routing import branching, routed, shown
from gradwatch.capture.user_taps.tap_state import STATE
from gradwatch.core import Tensor
from gradwatch.util import say


def _is_used() -> None:
    STATE.is_used = True


# torch.compile runs it while it compiles, and leaves it out of the graph.
vars(_is_used)["_dynamo_marked_constant"] = True


def _symbolic(x: Tensor, name: str) -> Tensor:
    say(
        f"The tap {shown(name)!r} is not recorded: it is called on a {type(x).__name__}. Call "
        "taps in the code of a layer, in its call()."
    )
    return x


@do_not_convert
def tap(x: Tensor, name: str) -> Tensor:
    """Return a tensor as it is; in watched steps, measure it and its gradient.

    Put it into the code of a model, also into what is compiled: `torch.compile(fullgraph=True)`,
    `jax.jit`, `jax.lax.scan`, `jax.checkpoint`, `tf.function`, layers of Keras. The tensor is
    recorded as an output with the tap's name as its path, and the gradient with respect to it as
    an output gradient. In a scan, each iteration is a site of its own: `h/0`, `h/1`, ...

    Steps of `gradwatch.watch` and of Keras `fit` are watched when they are due. In other loops, put
    `gradwatch.with_taps` around the step. Elsewhere, nothing is measured.

    Args:
        x: a tensor of floats.
        name: the path it is recorded under, such as `"encoder/attention"`; a constant.

    Example:

    >>> import gradwatch, jax, jax.numpy as jnp
    >>> def loss(w):
    ...     return gradwatch.tap(w * 2.0, "doubled").sum()
    >>> gradient, taps = gradwatch.with_taps(jax.grad(loss))(jnp.ones(3))
    >>> [str(site) for sites in taps.sites for site in sites]
    ['output doubled', 'output_gradient doubled']
    """
    return _passed(x, name)


def _passed(x: Tensor, name: str, stream: Tensor = None) -> Tensor:
    """The tensor behind a tap; a residual branch comes with the stream that it is added to."""
    if not isinstance(name, str) or not name.strip("/"):
        raise WrongTypeError(f"The name of a tap is a string that is not empty. Received: {name!r}")
    # torch.compile reads this function: nothing here but what it can take for constant.
    module = type(x).__module__
    if module.startswith("keras"):
        return _symbolic(x, name)
    if module.startswith("jax"):
        from gradwatch.capture.user_taps.tap_primitive import tap_array

        return tap_array(x, name, stream)
    if not STATE.is_on:
        _is_used()
        return x
    if module.startswith("torch") or hasattr(x, "__torch_function__"):
        from gradwatch.capture.user_taps.torch_taps import through

        return through(x, name, stream)
    return STATE.current.note(x, name, stream)


@do_not_convert
def router(scores: Tensor, name: str, top_k: int = 1) -> Tensor:
    """Return the scores of a router as they are; in watched steps, count the tokens of experts.

    Put it where a mixture of experts chooses, like `gradwatch.tap`, and use what it returns. How
    many tokens have each expert among their `top_k` highest scores is recorded as kind
    `expert_load`: its `zeros` are the experts that no token has chosen, its `max` is the load of
    the busiest one, its `sum` the number of choices.

    Args:
        scores: a tensor of floats, logits or probabilities, whose last axis is that of the experts.
        name: the path it is recorded under, such as `"blocks/3/router"`; a constant.
        top_k: how many experts a token chooses.

    Example:

    >>> import gradwatch, numpy as np
    >>> def forward(scores):
    ...     return gradwatch.router(scores, "router", top_k=1)
    >>> _, taps = gradwatch.with_taps(forward)(np.array([[0.1, 0.9, 0.0], [0.2, 0.5, 0.3]]))
    >>> [str(site) for sites in taps.sites for site in sites]
    ['expert_load router']
    """
    if not isinstance(top_k, int) or top_k < 1:
        raise WrongValueError(f"top_k is a number of experts, at least 1. Received: {top_k!r}")
    return tap(scores, routed(name, top_k) if name else name)


@do_not_convert
def residual(stream: Tensor, branch: Tensor, name: str) -> Tensor:
    """Return `stream + branch`; in watched steps, measure how large the branch is against it.

    Put it where a residual branch is added, like `gradwatch.tap`, and use what it returns. The norm
    of the branch divided by that of the stream, for each vector along the last axis, and for each
    sample of tensors with four axes or more, is recorded as kind `residual_ratio`. Where the branch
    is 0, so is the ratio.

    Args:
        stream: a tensor of floats.
        branch: what is added to it.
        name: the path it is recorded under, such as `"blocks/3/mlp"`; a constant.

    Example:

    >>> import gradwatch, numpy as np
    >>> def forward(x):
    ...     return gradwatch.residual(x, x * 0.5, "block")
    >>> y, taps = gradwatch.with_taps(forward)(np.ones((2, 4)))
    >>> [str(site) for sites in taps.sites for site in sites]
    ['residual_ratio block']
    """
    return stream + _passed(branch, branching(name) if name else name, stream)
