"""Agents: clipped policy gradients in a room, values of a small game."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


@program(
    clipped_ratio=0.4,
    advantages_normalised=0.4,
    entropy_bonus=0.4,
    critic_shares_the_trunk=0.3,
    actions_shuffled=fault("inputs and targets out of order"),
    minus_forgotten=fault("wrong sign"),
    ratio_of_the_same=fault("detached"),
    entropy_of_a_hundred=fault("one loss drowns the other"),
    reward_never_comes=fault("no sample counts"),
    rate_of_three=fault("rate too high"),
)
def room(run: Run, case: str) -> float:
    """Go to a lamp on a plane: four moves, the reward is how much nearer it is then."""
    import torch
    from torch import nn
    from torch.distributions import Categorical

    moves = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(4, 48), nn.Tanh())
            self.policy, self.value = nn.Linear(48, 4), nn.Linear(48, 1)
            self.critic = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))

        def forward(self, state):
            h = self.trunk(state)
            shares = case == "critic_shares_the_trunk"
            value = self.value(h) if shares else self.critic(state)
            return Categorical(logits=self.policy(h)), value.squeeze(-1)

    agent = Agent()
    if case == "critic_shares_the_trunk":
        del agent.critic
    else:
        del agent.value
    rate = 3.0 if case == "rate_of_three" else 4e-3
    optimizer = torch.optim.Adam(agent.parameters(), lr=rate)
    monitor = run.watch(agent, optimizer)

    def episode(n, greedy=False):
        place, lamp = 4 * torch.rand(n, 2) - 2, 4 * torch.rand(n, 2) - 2
        kept, total = [], 0.0
        for _ in range(8):
            state = torch.cat([place, lamp], 1)
            with torch.no_grad():
                says, value = agent(state)
            action = says.probs.argmax(-1) if greedy else says.sample()
            before = (place - lamp).norm(dim=1)
            place = place + 0.4 * moves[action]
            reward = before - (place - lamp).norm(dim=1)
            total += float(reward.mean())
            if case == "reward_never_comes":
                reward = torch.zeros(n)
            kept.append((state, action, says.log_prob(action), reward, value))
        return kept, total

    for _ in range(45):
        kept, _ = episode(48)
        following, advantages = torch.zeros(48), []
        for _, _, _, reward, value in reversed(kept):
            following = reward + 0.6 * following
            advantages.append(following - (0.0 if case == "reward_never_comes" else value))
        advantage = torch.cat(advantages[::-1])
        state, action, old, _, value = (torch.cat(each) for each in zip(*kept, strict=True))
        wanted = advantage + value
        if case == "advantages_normalised":
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        elif case == "actions_shuffled":
            action = action[torch.randperm(len(action))]
        for _ in range(5):
            says, value = agent(state)
            logs = says.log_prob(action)
            if case == "ratio_of_the_same":
                logs = logs.detach()
            ratio = (logs - old).exp()
            if case == "actions_shuffled":
                ratio = (logs - logs.detach()).exp()
            clipped = ratio.clamp(0.8, 1.2)
            gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
            if case == "minus_forgotten":
                gain = -gain
            critic = ((value - wanted) ** 2).mean()
            if case == "reward_never_comes":
                critic = 0.0 * critic
            bonus = {"entropy_bonus": 0.01, "entropy_of_a_hundred": 100.0}.get(case, 0.0)
            loss = -gain + 0.5 * critic - bonus * says.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            monitor.record(loss=loss.item())
    with torch.no_grad():
        gained = float(np.mean([episode(200, greedy=True)[1] for _ in range(3)]))
    # From anywhere to the lamp are about two metres.
    return gained / 2.0


@program(
    double=0.5,
    soft_target=0.5,
    huber=0.5,
    dueling=0.5,
    action_not_gathered=fault("broadcasting"),
    follows_the_first_copy=fault("target never updated"),
    reward_in_thousands=fault("unscaled rewards"),
    next_value_without_data=fault("inputs and targets out of order"),
)
def lights(run: Run, case: str) -> float:
    """Turn off the lights of a row by pressing switches; values of what is pressed."""
    import copy

    import torch
    from torch import nn

    lamps = 6
    wires = torch.tensor(run.rng.random((lamps, lamps)) < 0.25) | torch.eye(lamps, dtype=bool)

    class Values(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(
                nn.Linear(lamps, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
            )
            self.gain, self.base = nn.Linear(64, lamps), nn.Linear(64, 1)

        def forward(self, state):
            h = self.inner(state)
            gain = self.gain(h)
            if case == "dueling":
                gain = gain - gain.mean(-1, keepdim=True)
            return gain + self.base(h)

    net = Values()
    target = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    if case == "reward_in_thousands":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    monitor = run.watch(net, optimizer)
    scale = 1000.0 if case == "reward_in_thousands" else 1.0

    def press(state, action):
        after = state ^ wires[action]
        return after, state.float().sum(1) - after.float().sum(1)

    for step in range(1, 401):
        state = torch.rand(96, lamps) < 0.5
        action = torch.randint(0, lamps, (96,))
        after, reward = press(state, action)
        with torch.no_grad():
            later = target(after.float())
            if case == "double":
                best = later.gather(1, net(after.float()).argmax(1, keepdim=True)).squeeze(1)
            else:
                best = later.max(1).values
            wanted = scale * reward + 0.5 * best
        if case == "next_value_without_data":
            wanted = wanted[torch.randperm(96)]
        values = net(state.float())
        if case == "follows_the_first_copy":
            # Only what the first, untrained copy says is followed.
            wanted = 0.5 * best
        if case == "action_not_gathered":
            error = values - wanted[:, None]
        else:
            error = values.gather(1, action[:, None]).squeeze(1) - wanted
        loss = nn.functional.huber_loss(error, torch.zeros_like(error)) if case == "huber" else (
            error**2).mean()  # fmt: skip
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if case == "soft_target":
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow.data.lerp_(fast.data, 0.05)
        elif step % 50 == 0 and case != "follows_the_first_copy":
            target.load_state_dict(net.state_dict())
        monitor.record(loss=loss.item())
    state = torch.rand(600, lamps) < 0.5
    with torch.no_grad():
        action = net(state.float()).argmax(1)
    all_of = torch.stack([press(state, torch.full((600,), a))[1] for a in range(lamps)], 1)
    gained = press(state, action)[1].mean()
    best, mean = all_of.max(1).values.mean(), all_of.mean()
    return float((gained - mean) / (best - mean))
