"""The calls of a layer in one step, and the names of what they returned."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gradwatch.capture.taps.passage import Passage
from gradwatch.core import Kind, Site
from gradwatch.util import listed
from gradwatch.watches import ATTENTION_KINDS

# A cell that torch calls once a time step would otherwise be a thousand sites.
MOST_CALLS = 32
# Outputs this close to a bound are called saturated: the slope is then below 0.01
# for a sigmoid and below 0.02 for a tanh, of at most 0.25 and 1.
SATURATION_MARGIN = 0.01


@dataclass
class Call:
    """One call of a layer: an entry for each tensor that it returned."""

    number: int
    """Counted from 1 in the step."""
    passages: list[Passage] = field(default_factory=list)
    refusal: str | None = None


def site_paths(path: str, calls: Sequence[Call]) -> Iterator[tuple[str, Passage]]:
    """The paths of the tensors that a layer returned: `net/a`, `net/a@2`, `net/b:1`."""
    for call in calls:
        called = path if call.number == 1 else f"{path}@{call.number}"
        several = len(call.passages) > 1
        for i, passage in enumerate(call.passages):
            if passage.output is not None:
                yield (f"{called}:{i}" if several else called), passage


class Refusals:
    """Gives notice of outputs that are not recorded: one for all layers with the same reason.

    Each layer and reason is said once.
    """

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._said: set[tuple[str, str]] = set()
        self._new: dict[str, list[str]] = {}

    def add(self, path: str, whys: Iterable[str | None]) -> None:
        for why in dict.fromkeys(whys):
            if why is not None and (path, why) not in self._said:
                self._said.add((path, why))
                self._new.setdefault(why, []).append(path)

    def tell(self) -> None:
        """After the last layer of a step."""
        new, self._new = self._new, {}
        for why, paths in new.items():
            self._notice(f"Outputs of {listed(paths)} are not recorded: they are {why}.")


def gradient_notices(missing: Mapping[str, Passage], often: Sequence[str]) -> Iterator[str]:
    """The notices about outputs, by their paths, that no gradient came back to, or several."""
    inputs = [path for path, passage in missing.items() if passage.is_input]
    if inputs:
        yield (
            f"No gradient with respect to the outputs of {listed(inputs)} is recorded (count 0): "
            "the layer returns its input as it is, which is one tensor with one gradient. Watch "
            "the layer that it comes from."
        )
    others = {path: passage for path, passage in missing.items() if not passage.is_input}
    probabilities = [path for path, passage in others.items() if passage.is_probability]
    if probabilities:
        yield (
            f"No gradient with respect to the outputs of {listed(probabilities)} is recorded "
            "(count 0): Keras computes this loss from the logits behind them, so none passes "
            "through the probabilities. For the gradient of the logits, leave the activation of "
            "the layer out, add it as a layer of its own (keras.layers.Activation), and watch the "
            "layer before it."
        )
    unreached = [path for path in others if path not in probabilities]
    if unreached:
        yield (
            f"The backward pass does not reach the outputs of {listed(unreached)}: the loss does "
            "not depend on them, or nothing before them is trained. No gradient is recorded "
            "(count 0)."
        )
    if often:
        yield (
            f"Gradients with respect to the outputs of {listed(often)} are computed more than "
            "once in a training step; the last one is recorded."
        )


def has_tensor(kind: Kind, passage: Passage) -> bool:
    """Whether a call of a layer has this kind: its attention is with the first of its tensors."""
    is_known = passage.attention is not None or kind in passage.measured
    return kind not in ATTENTION_KINDS or is_known


def attention_path(kind: Kind, path: str) -> str:
    """The path of the record: attention is of the call, and not of one of its tensors."""
    return path.removesuffix(":0") if kind in ATTENTION_KINDS else path


def unseen_attention(
    sites: Sequence[Site], passages: Mapping[str, Sequence[tuple[str, Passage]]]
) -> str | None:
    """The notice about layers that were called and in which no attention was seen, if any."""
    paths = dict.fromkeys(site.path for site in sites if site.kind in ATTENTION_KINDS)
    found = {
        path: [has_tensor(kind, passage) for _, passage in own for kind in ATTENTION_KINDS]
        for path in paths
        if (own := passages[path])
    }
    unseen = [path for path, seen in found.items() if not any(seen)]
    if not unseen:
        return None
    return (
        f"Attention of {listed(unseen)} is not recorded: they compute it in a way that gradwatch "
        "does not see. See docs/attention.md."
    )
