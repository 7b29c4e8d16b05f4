"""Which losses jump, in courses with noise of many kinds."""

import numpy as np
import pytest

from gradwatch.core import Jumps

STEPS = np.arange(600)
FALLING = 2.0 * np.exp(-STEPS / 100) + 0.3


def jumps(losses):
    """The places of the losses that jump, with what is told of each."""
    known = Jumps()
    return {i: jump for i, loss in enumerate(losses) if (jump := known.add(float(loss)))}


def noises():
    rng = np.random.default_rng(0)
    n = STEPS.size
    yield "normal", FALLING * (1 + 0.1 * rng.standard_normal(n))
    yield "factors", FALLING * np.exp(rng.standard_normal(n))
    yield "one sample", FALLING * rng.chisquare(1, n)
    yield "eight samples", FALLING * rng.chisquare(8, n) / 8
    yield "learned", np.log1p(np.exp(-(3 * rng.standard_normal(n) + 8 * (STEPS > 200))))
    yield "signed", -FALLING + 0.3 * rng.standard_normal(n)
    yield "adversaries", 1 + 0.6 * np.sin(STEPS / 20) + 0.4 * np.abs(rng.standard_normal(n))
    yield "no noise", FALLING
    yield "constant", np.full(n, 0.25)
    yield "zero", np.zeros(n)


@pytest.mark.parametrize(("name", "losses"), list(noises()))
def test_noise_is_no_jump(name, losses):
    assert jumps(losses) == {}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("place", [60, 200, 599])
def test_a_jump_is_told_with_its_level_and_noise(place, sign):
    losses = sign * FALLING + 0.02 * np.random.default_rng(1).standard_normal(STEPS.size)
    level = sign * FALLING[place]
    losses[place] = level + 3.0
    found = jumps(losses)
    assert list(found) == [place]
    assert found[place].level == pytest.approx(level, abs=0.1)
    assert found[place].noise == pytest.approx(0.02, rel=0.6)


def test_the_second_of_two_like_jumps_is_not_rare():
    losses = FALLING + 0.02 * np.random.default_rng(1).standard_normal(STEPS.size)
    losses[[200, 400]] += 5.0
    first, second = jumps(losses).values()
    assert first.rarity > 20
    assert second.rarity < 2


def test_nothing_jumps_in_the_first_steps_and_no_number_is_too_odd():
    losses = [1.0] * 20 + [1e9, float("nan"), float("inf"), -float("inf")] + [1.0] * 30
    assert jumps(losses) == {}
    assert list(jumps([*losses, 1e300])) == [len(losses)]
