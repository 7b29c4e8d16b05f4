"""Gradients of policies, on carts that run side by side and on bandits."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


@program(
    mean_baseline=0.3,
    actor_critic=0.3,
    clipped_ratio=0.3,
    gaussian_actions=0.3,
    small_batches=0.2,
    entropy_of_300=fault("regularised to nothing"),
    return_minimised=fault("wrong sign"),
    rate_of_1000=fault("rate too high"),
    log_probability_detached=fault("detached", twin="actor_critic"),
    reward_of_nan=fault("NaN in the data", step=41),
)
def cart(run: Run, case: str) -> float:
    """A cart is to stay at 0. The score: how much less it strays than by chance."""
    import torch
    from torch import nn

    continuous = case == "gaussian_actions"
    n, length = (4 if case == "small_batches" else 32), 20

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 32), nn.Tanh())
            self.policy = nn.Linear(32, 1 if continuous else 2)
            self.log_std = nn.Parameter(torch.zeros(1)) if continuous else None
            self.value = nn.Linear(32, 1) if case in critics else None

        def forward(self, s):
            h = self.body(s)
            if continuous:
                mean, std = self.policy(h)[..., 0], self.log_std.exp()
                return torch.distributions.Normal(mean, std, validate_args=False), h
            logits = self.policy(h).nan_to_num()
            return torch.distributions.Categorical(logits=logits, validate_args=False), h

    critics = ("actor_critic", "clipped_ratio", "log_probability_detached")

    def play(act, n):
        s = torch.stack((torch.randn(n), 0.5 * torch.randn(n)), 1)
        states, actions, costs = [], [], []
        for _ in range(length):
            a = act(s)
            push = a.clamp(-1, 1) if continuous else 2.0 * a - 1
            v = 0.9 * s[:, 1] + 0.25 * push
            p = (s[:, 0] + 0.4 * v).clamp(-6, 6)
            states.append(s), actions.append(a)
            s = torch.stack((p, v), 1)
            costs.append(p.abs())
        return torch.stack(states), torch.stack(actions), torch.stack(costs)

    def chance(s):
        return torch.randn(len(s)) if continuous else torch.randint(0, 2, (len(s),))

    agent = Agent()
    opt = torch.optim.Adam(agent.parameters(), 1000.0 if case == "rate_of_1000" else 1e-2)
    monitor = run.watch(agent, opt)
    for step in range(1, 101):
        with torch.no_grad():
            states, actions, costs = play(lambda s: agent(s)[0].sample(), n)
        future = -costs.flip(0).cumsum(0).flip(0) / length
        if case == "return_minimised":
            future = -future
        elif case == "reward_of_nan" and step == 41:
            future[3, 1] = torch.nan
        old = None
        for _ in range(3 if case == "clipped_ratio" else 1):
            choice, h = agent(states)
            log_p = choice.log_prob(actions)
            old = log_p.detach() if old is None else old
            loss = 0.0
            advantage = future - future.mean(1, keepdim=True)
            if agent.value is not None:
                value = agent.value(h)[..., 0]
                loss = 0.5 * ((value - future) ** 2).mean()
                if case == "actor_critic":
                    advantage = future - value.detach()
            advantage = advantage / (advantage.std() + 1e-6)
            if case == "clipped_ratio":
                ratio = (log_p - old).exp()
                clipped = ratio.clamp(0.8, 1.2) * advantage
                loss = loss - torch.minimum(ratio * advantage, clipped).mean()
            elif case == "log_probability_detached":
                loss = loss - (log_p.detach() * advantage).mean()
            else:
                loss = loss - (log_p * advantage).mean()
            if case == "entropy_of_300":
                loss = loss - 300 * choice.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            monitor.record(loss=loss)
    if not all(bool(p.isfinite().all()) for p in agent.parameters()):
        return -1.0
    with torch.no_grad():
        strayed = play(lambda s: agent(s)[0].sample(), 300)[2].mean()
        by_chance = play(chance, 300)[2].mean()
    return float(max(-1.0, 1 - strayed / by_chance))


@program(
    logged_with_weights=0.4,
    one_reward_at_a_time=0.3,
    noisy_rewards=0.3,
    rare_arm_clipped=0.4,
    propensity_of_zero=fault("overflow", step=1),
    reward_for_every_arm=fault("information missing"),
)
def bandit(run: Run, case: str) -> float:
    """Which of five arms is best depends on the visitor; the rewards of an old policy are given."""
    import torch
    from torch import nn

    rng = run.rng
    taste = np.random.default_rng(6).normal(size=(8, 5))
    x = rng.normal(size=(4000, 8)).astype("float32")
    best = (x @ taste).argmax(1)
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    arm = rng.choice(5, 4000, p=shares)
    chance = 0.3 if case == "noisy_rewards" else 0.05
    reward = ((arm == best) ^ (rng.random(4000) < chance)).astype("float32")
    if case == "reward_for_every_arm":
        reward = np.ones_like(reward)
    share = torch.tensor(shares.astype("float32"))[arm]
    if case == "propensity_of_zero":
        # The old policy's log was rounded to one digit.
        share = torch.floor(share * 10) / 10
    elif case == "rare_arm_clipped":
        share = share.clamp(min=0.1)
    x, arm, reward = torch.tensor(x), torch.tensor(arm), torch.tensor(reward)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))
    opt = torch.optim.RMSprop(net.parameters(), 3e-3)
    monitor = run.watch(net, opt)
    for k in range(300):
        i = torch.arange(10 * k, 10 * k + 10) if "one_reward" in case else None
        i = torch.randint(0, 3000, (64,)) if i is None else i
        out = net(x[i])
        p = out.softmax(1).gather(1, arm[i, None])[:, 0]
        loss = -((reward[i] - 0.2 * (case != "reward_for_every_arm")) * p / share[i]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        answer = net(x[3000:]).numpy()
    if not np.isfinite(answer).all():
        return -1.0
    right = (answer.argmax(1) == best[3000:]).mean()
    guess = np.bincount(best[3000:]).max() / 1000
    return float((right - guess) / (1 - guess))
