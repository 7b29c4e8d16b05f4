"""Routers and attention that have collapsed: in made-up courses and in real trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch import Kind
from tests.diagnosis.support import Keep, alarms, course, falling, found, observed
from tests.distributed.patience import until_written

ROUTER, ATTENTION = "router-collapse", "attention-collapse"
FLAT = 2.0
LEARNED = falling(80)


def loads(*counts: int) -> Any:
    """Tokens for each expert, the same at every step."""
    return lambda step: {(Kind.EXPERT_LOAD, "moe/router"): counts}


@pytest.mark.parametrize(
    "counts",
    [
        (64, 0),  # top-1 of 2
        (64, 64, 0, 0),  # top-2 of 4
        (128, 0, 0, 0, 0, 0, 0, 0),
        (100, 6, 5, 5, 4, 3, 3, 2),  # No expert is dead, but one has nearly all.
        (30, 34, 0, 0, 0, 0, 0, 0),
    ],
)
def test_a_router_that_uses_few_experts_for_long_is_found(counts: Any) -> None:
    finding = found(observed(course(40, loads(*counts), LEARNED), rules=[ROUTER]), ROUTER)
    assert (finding.detected, finding.layer) == (30, "moe/router")
    assert finding.evidence["experts"] == len(counts)
    assert finding.evidence["experts without a token"] == counts.count(0)
    assert finding.evidence["tokens of the busiest expert"] == max(counts)


@pytest.mark.parametrize(
    "counts",
    [
        (16, 16, 16, 16),
        (90, 20, 12, 6),  # Uneven.
        (60, 50, 40, 30, 0, 0, 10, 10),  # Few dead.
        (64, 64),  # top-2 of 2
        (6, 0, 0, 0),  # Few tokens.
        (64,),
    ],
)
def test_other_routers_are_left_alone(counts: Any) -> None:
    assert observed(course(60, loads(*counts), FLAT), rules=[ROUTER]).findings == []


def test_a_router_may_begin_with_one_expert() -> None:
    def arrays(step: int) -> Any:
        rest = min(step, 20)
        return loads(128 - 3 * rest, rest, rest, rest)(step)

    assert observed(course(80, arrays, FLAT), rules=[ROUTER]).findings == []


class Mixture(torch.nn.Module):
    """Experts of which each token has one; the router may begin with a preference."""

    def __init__(self, preference: float, experts: int = 6) -> None:
        super().__init__()
        self.route = torch.nn.Linear(8, experts)
        self.experts = torch.nn.ModuleList([torch.nn.Linear(8, 1) for _ in range(experts)])
        with torch.no_grad():
            self.route.bias[0] += preference

    def forward(self, x: Any) -> Any:
        scores = gradwatch.router(self.route(x), "moe/router", top_k=1)
        weights = scores.softmax(-1)
        weight, chosen = weights.max(-1, keepdim=True)
        # The loss that balances the load, of Switch Transformers.
        share = torch.zeros_like(weights).scatter(-1, chosen, 1.0).mean(0)
        self.balance = len(self.experts) * (share * weights.mean(0)).sum()
        of_all = torch.cat([expert(x) for expert in self.experts], -1)
        return weight * of_all.gather(-1, chosen)


@pytest.mark.parametrize(("preference", "balanced"), [(8.0, False), (0.0, True)])
def test_a_training_whose_router_prefers_one_expert_is_found_and_its_twin_is_not(
    tmp_path: Any, preference: float, balanced: bool
) -> None:
    torch.manual_seed(0)
    model = Mixture(preference)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    found_rules: list[str] = []
    monitor = gradwatch.watch(
        model,
        optimizer,
        tmp_path,
        every=1,
        sinks=[Keep()],
        watch=[gradwatch.gradients()],
        diagnose=[ROUTER],
        on_finding=lambda finding: found_rules.append(finding.rule),
    )
    x = torch.randn(256, 8)
    y = x.abs().sum(-1, keepdim=True)
    for step in range(1, 41):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        if balanced:
            loss = loss + 0.1 * model.balance
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
        if step % 16 == 0:  # Of steps as quick as these, some would be dropped.
            until_written(monitor)
    monitor.close()
    assert found_rules == ([] if balanced else [ROUTER])


def attention(entropy: float, logit: float = 30.0, spread: float = 0.0) -> Any:
    """Entropies of queries, and their largest scores."""

    def arrays(step: int) -> Any:
        return {
            (Kind.ATTENTION_ENTROPY, "block/attention"): entropy + spread * np.arange(4),
            (Kind.ATTENTION_LOGIT, "block/attention"): [logit, 0.5 * logit],
        }

    return arrays


def test_attention_to_single_keys_is_found_while_nothing_is_learned() -> None:
    finding = found(observed(course(20, attention(0.01), FLAT), rules=[ATTENTION]), ATTENTION)
    assert (finding.detected, str(finding.severity)) == (15, "warning")
    assert finding.evidence["mean entropy"] == pytest.approx(0.01)
    assert finding.evidence["largest score"] == 30.0
    assert finding.layer == "block/attention"


def test_huge_scores_are_found_and_named_as_what_they_are() -> None:
    finding = found(observed(course(20, attention(1.0, 400.0), FLAT), rules=[ATTENTION]), ATTENTION)
    assert finding.title == "Attention scores of block/attention reach 400."


def test_scores_that_grow_beyond_use_are_an_alarm_although_the_loss_falls() -> None:
    def arrays(step: int) -> Any:
        return attention(1.0, 5.0 * step)(step)

    diagnosis = observed(course(60, arrays, LEARNED), rules=[ATTENTION])
    assert found(diagnosis, ATTENTION).detected == 34  # Above 100 since step 20.
    assert alarms(diagnosis) == [ATTENTION]


@pytest.mark.parametrize(
    "arrays",
    [
        attention(0.5),
        attention(0.0, spread=0.2),  # Only some queries have decided.
        attention(0.0, logit=1.0),  # There is a single key.
        attention(0.5, logit=60.0),
    ],
)
def test_other_attention_is_left_alone(arrays: Any) -> None:
    assert observed(course(40, arrays, FLAT), rules=[ATTENTION]).findings == []


@pytest.mark.parametrize("logit", [30.0, 300.0])
def test_a_network_that_learns_may_look_up_single_keys(logit: float) -> None:
    diagnosis = observed(course(60, attention(0.01, logit), LEARNED), rules=[ATTENTION])
    assert alarms(diagnosis) == []


class Reader(torch.nn.Module):
    """Attention whose scores may be many times too large."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.out = torch.nn.Linear(16, 3)
        with torch.no_grad():
            self.attention.in_proj_weight[:32] *= scale

    def forward(self, x: Any) -> Any:
        return self.out(self.attention(x, x, x, need_weights=False)[0][:, 0])


@pytest.mark.parametrize("scale", [40.0, 1.0])
def test_a_training_with_collapsed_attention_is_found_and_its_twin_is_not(
    tmp_path: Any, scale: float
) -> None:
    torch.manual_seed(0)
    model = Reader(scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    found_rules: list[str] = []
    monitor = gradwatch.watch(
        model,
        optimizer,
        tmp_path,
        every=1,
        sinks=[Keep()],
        watch=[gradwatch.attention()],
        diagnose=[ATTENTION],
        on_finding=lambda finding: found_rules.append(finding.rule),
    )
    x, y = torch.randn(16, 8, 16), torch.randint(3, (16,))
    for step in range(1, 21):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
        if step % 16 == 0:  # Of steps as quick as these, some would be dropped.
            until_written(monitor)
    monitor.close()
    assert found_rules == ([ATTENTION] if scale > 1 else [])
