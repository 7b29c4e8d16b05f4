"""What the user is told while `fit` is followed."""

from typing import Protocol

RANDOM_STATE = (
    "Nothing is measured: the training step draws random numbers by operations of tf.random, which "
    "keep their state inside the compiled step, so that a measured step would draw others. Measure "
    "from the first step on (every=1), draw them with keras.random and a SeedGenerator, or compile "
    "the model with run_eagerly=True."
)

NO_REPLICAS = (
    "gradients(per_replica=True): this training has no replicas whose gradients could "
    "be told apart, so only the gradients themselves are recorded."
)

STILL_COMPILING = (
    "fit ended before the measured step was compiled; another fit of this model with this monitor "
    "uses it, and every=1 waits for it"
)


class Announce(Protocol):
    """Prints a line, on any thread."""

    def __call__(self, words: str, *, is_below_bar: bool = False) -> None: ...
