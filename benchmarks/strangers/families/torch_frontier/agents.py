"""Preferences of raters, and a corridor learned from a log."""

from __future__ import annotations

import copy

import numpy as np

from ...program import fault, program
from ...run import Run
from .loop import mlp, train


@program(
    direct=0.3,
    squared_margin=0.3,
    group_relative=0.3,
    reference_is_the_policy=fault("loss cancels"),
    rewards_of_thousands=fault("unscaled rewards", twin="group_relative"),
    advantages_of_the_batch_axis=fault("inputs and targets out of order", twin="group_relative"),
)
def preferences(run: Run, case: str) -> float:
    """Answers of four tokens; 0 is as good as the reference, 1 as good as can be."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    taste = np.random.default_rng([run.seed, 4])
    one, two = taste.normal(size=(6, 24)) / 2, taste.normal(size=(24, 20)) / 3

    def utility(x):
        return torch.tensor(np.tanh(x.numpy() @ one) @ two).float().view(-1, 4, 5)

    policy = mlp(6, 64, 64, 20)
    reference = copy.deepcopy(policy).requires_grad_(False)
    grouped = case in ("group_relative", "rewards_of_thousands", "advantages_of_the_batch_axis")
    opt = torch.optim.AdamW(policy.parameters(), 3e-3)

    def log_p(net, x, said):
        each = net(x).view(-1, 4, 5).log_softmax(2)
        return each.gather(2, said[..., None])[..., 0].sum(1)

    def drawn(x):
        with torch.no_grad():
            return torch.distributions.Categorical(logits=policy(x).view(-1, 4, 5)).sample()

    def loss_of(_):
        x = torch.randn(64, 6)
        if grouped:
            x = x[:32].repeat(8, 1)
            said = drawn(x)
            reward = utility(x).gather(2, said[..., None]).sum((1, 2)).view(8, 32)
            if case == "rewards_of_thousands":
                advantage = 1000 * reward + 50_000
            else:
                # Against the other answers to the same question.
                advantage = (reward - reward.mean(0)) / (reward.std(0) + 1e-4)
            if case == "advantages_of_the_batch_axis":
                advantage = advantage.t()
            return -(advantage.reshape(-1) * log_p(policy, x, said)).mean()
        said = torch.randint(0, 5, (2, 64, 4))
        value = [utility(x).gather(2, a[..., None]).sum((1, 2)) for a in said]
        first = value[0] > value[1]
        won = torch.where(first[:, None], said[0], said[1])
        lost = torch.where(first[:, None], said[1], said[0])
        other = policy if case == "reference_is_the_policy" else reference
        margin = (log_p(policy, x, won) - log_p(other, x, won)) - (
            log_p(policy, x, lost) - log_p(other, x, lost)
        )
        if case == "squared_margin":
            return ((margin - 1) ** 2).mean()
        return -F.logsigmoid(0.5 * margin).mean()

    train(run, policy, opt, 300, loss_of)
    x = torch.randn(800, 6)
    with torch.no_grad():
        worth = utility(x)
        chosen = policy(x).view(-1, 4, 5)
        got = worth.gather(2, chosen.argmax(2, keepdim=True))[..., 0].sum(1).mean()
    if not bool(chosen.isfinite().all()):
        return -1.0
    plain, best = worth.mean(2).sum(1).mean(), worth.amax(2).sum(1).mean()
    return max(-1.0, float((got - plain) / (best - plain)))


@program(
    three_steps_ahead=0.5,
    conservative=0.3,
    quantiles=0.5,
    target_never_updated=fault("target never updated"),
    end_and_going_on_swapped=fault("mask inverted"),
)
def corridor(run: Run, case: str) -> float:
    """31 rooms with a prize in the middle, where the buttons of some rooms are swapped."""
    import torch
    from torch.nn import functional as F  # noqa: N812

    rng, rooms, prize, atoms = run.rng, 31, 15, 11 if case == "quantiles" else 1
    swapped = rng.random(rooms) < 0.5
    codes = torch.tensor(rng.normal(size=(rooms, 24)).astype("float32"))
    ahead = 3 if case == "three_steps_ahead" else 1

    def move(s, a):
        return np.clip(s + np.where(swapped[s], 1 - 2 * a, 2 * a - 1), 0, rooms - 1)

    n, discount = 4000, 0.95
    start = at = rng.integers(0, rooms, n)
    first = rng.integers(0, 2, n)
    gain, over = np.zeros(n), at == prize
    for k in range(ahead):
        # On from the second step, as an able player moves in most cases.
        right = np.where(swapped[at], at > prize, at < prize).astype(int)
        a = first if k == 0 else np.where(rng.random(n) < 0.9, right, 1 - right)
        at = np.where(over, at, move(at, a))
        gain += discount**k * ((at == prize) & ~over)
        over |= at == prize
    log = [torch.tensor(v) for v in (start, first, gain.astype("float32"), at, over)]
    net = mlp(24, 64, 64, 2 * atoms)
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    middles = (torch.arange(atoms) + 0.5) / atoms

    def loss_of(step):
        if step % 8 == 0 and case != "target_never_updated":
            target.load_state_dict(net.state_dict())
        i = torch.randint(0, n, (128,))
        s, a, r, t, done = (v[i] for v in log)
        goes_on = done if case == "end_and_going_on_swapped" else ~done
        later = target(codes[t]).view(-1, 2, atoms)
        later = later[torch.arange(128), later.mean(2).argmax(1)]
        wanted = r[:, None] + discount**ahead * goes_on[:, None] * later
        q = net(codes[s]).view(-1, 2, atoms)
        chosen = q[torch.arange(128), a]
        if case == "quantiles":
            off = wanted[:, None] - chosen[..., None]
            weight = (middles[:, None] - (off < 0).float()).abs()
            return (weight * F.huber_loss(off, torch.zeros_like(off), reduction="none")).mean()
        loss = F.smooth_l1_loss(chosen, wanted)
        if case == "conservative":
            loss = loss + 0.005 * (q.logsumexp(1) - chosen).mean()
        return loss

    train(run, net, opt, 400, loss_of)
    with torch.no_grad():
        play = net(codes).view(-1, 2, atoms).mean(2).argmax(1).numpy()
    at = np.delete(np.arange(rooms), prize)
    for _ in range(rooms):
        at = np.where(at == prize, at, move(at, play[at]))
    return float(np.mean(at == prize))
