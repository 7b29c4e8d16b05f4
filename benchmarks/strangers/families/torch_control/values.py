"""Values of actions, learned from transitions that were stored."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


@program(
    target_network=0.5,
    double=0.5,
    soft_target=0.5,
    duelling=0.5,
    sparse_reward=0.4,
    log_without_states=fault("information missing"),
    discount_of_2=fault("exploding"),
    rewards_in_cents=fault("unscaled targets"),
    dead_start=fault("dead units", layer=("body/0", "body/1", "online/body/0", "online/body/1")),
)
def grid(run: Run, case: str) -> float:
    """A room of 6 by 6 with a wall; the share of starts from which the goal is reached."""
    import copy

    import torch
    from torch import nn

    rng = run.rng
    wall = {(2, 1), (2, 2), (2, 3), (2, 4)}
    moves = ((0, 1), (1, 0), (0, -1), (-1, 0))
    goal = (5, 2)

    def step(s, a):
        new = s[0] + moves[a][0], s[1] + moves[a][1]
        blocked = new in wall or not (0 <= new[0] < 6 and 0 <= new[1] < 6)
        return s if blocked else new

    free = [(i, j) for i in range(6) for j in range(6) if (i, j) not in wall and (i, j) != goal]

    def seen(states):
        one_hot = np.zeros((len(states), 12), "float32")
        for k, (i, j) in enumerate(states):
            one_hot[k, i] = one_hot[k, 6 + j] = 1
        return torch.tensor(one_hot)

    states = [free[k] for k in rng.integers(0, len(free), 3000)]
    actions = rng.integers(0, 4, 3000)
    after = [step(s, a) for s, a in zip(states, actions, strict=True)]
    ends = torch.tensor([float(s == goal) for s in after])
    rewards = ends if case == "sparse_reward" else ends - 0.02
    if case == "rewards_in_cents":
        rewards = rewards * 10000
    s, t, a = seen(states), seen(after), torch.tensor(actions)
    if case == "log_without_states":
        t, ends = torch.ones_like(s), torch.zeros_like(ends)
        rewards = torch.zeros_like(rewards) + 0.1

    class Q(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
            self.advantage = nn.Linear(64, 4)
            self.value = nn.Linear(64, 1) if case == "duelling" else None

        def forward(self, s):
            h = self.body(s)
            a = self.advantage(h)
            return a if self.value is None else a - a.mean(1, keepdim=True) + self.value(h)

    online = Q()
    if case == "dead_start":
        nn.init.constant_(online.body[0].bias, -9.0)
    target = copy.deepcopy(online)
    opt = torch.optim.Adam(online.parameters(), 5e-3)
    if case == "rewards_in_cents":
        opt = torch.optim.SGD(online.parameters(), 1e-2)
    monitor = run.watch(online, opt)
    discount = 2.0 if case == "discount_of_2" else 0.9
    for k in range(400):
        i = torch.randint(0, 3000, (64,))
        with torch.no_grad():
            ahead = target(t[i])
            if case == "double":
                ahead = ahead.gather(1, online(t[i]).argmax(1, keepdim=True))[:, 0]
            else:
                ahead = ahead.max(1).values
            wanted = rewards[i] + discount * (1 - ends[i]) * ahead
        loss = nn.functional.mse_loss(online(s[i]).gather(1, a[i, None])[:, 0], wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
        with torch.no_grad():
            if case == "soft_target":
                for old, new in zip(target.parameters(), online.parameters(), strict=True):
                    old.lerp_(new, 0.1)
            elif k % 10 == 0:
                target.load_state_dict(online.state_dict())
    with torch.no_grad():
        table = dict(zip(free, online(seen(free)), strict=True))
    if not all(bool(q.isfinite().all()) for q in table.values()):
        return -1.0
    reached = 0
    for at in free:
        for _ in range(16):
            at = step(at, int(table[at].argmax())) if at != goal else at
        reached += at == goal
    return reached / len(free)
