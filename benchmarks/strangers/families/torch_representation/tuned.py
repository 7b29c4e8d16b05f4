"""What was trained before, and is trained further: adapters, low ranks, prompts, students."""

from __future__ import annotations

import numpy as np

from ...data import accuracy
from ...program import fault, program
from ...run import Run


def _task(rng, n, turned, seed):
    """Bags of features; the new task is the old one in a turned space."""
    mix = np.random.default_rng(seed).normal(size=(20, 20)) / np.sqrt(20)
    x = rng.normal(size=(n, 20)).astype("float32")
    h = np.tanh(2 * x @ mix)
    if turned:
        h = np.roll(h, 3, 1)
    value = h[:, :4] + h[:, 4:8] * h[:, 8:12]
    return x, value.argmax(1)


@program(
    low_rank=0.3,
    head_only=0.2,
    adapter=0.3,
    biases_only=0.2,
    unfrozen_later=0.3,
    two_rates=0.3,
    both_factors_zero=fault("symmetric start"),
    merged_without_gradient=fault("no gradient required"),
    rate_of_full_training=fault("rate too high"),
    head_at_rest=fault("all frozen"),
)
def low_rank(run: Run, case: str) -> float:
    """A network is trained on one task, kept, and fitted to another with few weights."""
    import torch
    from torch import nn

    rng = run.rng

    class Rank(nn.Module):
        """A linear layer that rests, and a product of two thin ones that is added."""

        def __init__(self, base, rank=6):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.a = nn.Parameter(torch.randn(rank, base.in_features) / 4)
            self.b = nn.Parameter(torch.zeros(base.out_features, rank))
            if case == "both_factors_zero":
                nn.init.zeros_(self.a)

        def forward(self, x):
            return self.base(x) + x @ self.a.t() @ self.b.t()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(20, 96), nn.Linear(96, 96)
            self.adapter = None
            self.head = nn.Linear(96, 4)

        def forward(self, x):
            h = torch.relu(self.two(torch.relu(self.one(x))))
            if self.adapter is not None:
                h = h + self.adapter(h)
            return self.head(h)

    net = Net()
    x, y = (torch.tensor(v) for v in _task(rng, 2000, False, 3))
    before = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(250):
        i = torch.randint(0, 2000, (64,))
        loss = nn.functional.cross_entropy(net(x[i]), y[i])
        before.zero_grad()
        loss.backward()
        before.step()

    x, y = (torch.tensor(v) for v in _task(rng, 2000, True, 3))
    net.requires_grad_(False)
    if case in (
        "low_rank",
        "both_factors_zero",
        "merged_without_gradient",
        "rate_of_full_training",
    ):
        net.one, net.two = Rank(net.one), Rank(net.two)
        if case != "both_factors_zero":
            net.head.requires_grad_(True)
    if case == "merged_without_gradient":
        # The wrong names: base layers rest, and so do the factors.
        for name, p in net.named_parameters():
            p.requires_grad_("head.bias" in name)
    elif case == "adapter":
        net.adapter = nn.Sequential(nn.Linear(96, 16), nn.GELU(), nn.Linear(16, 96))
        nn.init.zeros_(net.adapter[2].weight)
        net.head.requires_grad_(True)
    elif case == "biases_only":
        for name, p in net.named_parameters():
            p.requires_grad_("bias" in name or "head" in name)
    elif case == "two_rates":
        net.requires_grad_(True)
    elif case in ("head_only", "unfrozen_later"):
        net.head = nn.Linear(96, 4)
    groups = [p for p in net.parameters() if p.requires_grad]
    if case == "two_rates":
        body = [*net.one.parameters(), *net.two.parameters()]
        groups = [{"params": body, "lr": 1e-3}, {"params": net.head.parameters()}]
    elif case in ("unfrozen_later", "head_at_rest"):
        groups = [*net.parameters()]
    rate = 3.0 if case == "rate_of_full_training" else 5e-3
    opt = torch.optim.AdamW(groups, rate, weight_decay=0.01)
    monitor = run.watch(net, opt)
    for step in range(220):
        if case == "unfrozen_later" and step == 60:
            net.requires_grad_(True)
        i = torch.randint(0, 1600, (64,))
        loss = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        if loss.requires_grad:
            loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(y[1600:].numpy(), net(x[1600:]).numpy())


@program(
    soft_labels=0.4,
    matched_features=0.4,
    own_teacher=0.4,
    temperature_never_undone=fault("temperature"),
    student_at_rest=fault("all frozen"),
)
def student(run: Run, case: str) -> float:
    """A small network learns what a large one says, without any label."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng = run.rng
    x, y = (torch.tensor(v) for v in _task(rng, 3000, False, 4))
    teacher = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(),
                            nn.Linear(64, 4))  # fmt: skip
    taught = torch.optim.Adam(teacher.parameters(), 3e-3)
    for _ in range(300):
        i = torch.randint(0, 2500, (100,))
        loss = F.cross_entropy(teacher(x[i]), y[i])
        taught.zero_grad()
        loss.backward()
        taught.step()
    teacher.eval().requires_grad_(False)
    small = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU(),
                          nn.Linear(24, 4))  # fmt: skip
    bridge = nn.Linear(48, 128)
    t = {"temperature_never_undone": 3e4}.get(case, 3.0)
    if case == "student_at_rest":
        small.requires_grad_(False)
    opt = torch.optim.SGD([*small.parameters(), *bridge.parameters()], 0.1, momentum=0.9)
    monitor = run.watch(small, opt)
    for _ in range(250):
        i = torch.randint(0, 2500, (80,))
        out, said = small(x[i]), teacher(x[i])
        if case == "own_teacher":
            soft = 0.5 * F.one_hot(y[i], 4) + 0.5 * said.softmax(1)
            loss = F.cross_entropy(out, soft)
        else:
            loss = F.kl_div(F.log_softmax(out / t, 1), F.softmax(said / t, 1),
                            reduction="batchmean")  # fmt: skip
            if case != "temperature_never_undone":
                loss = loss * t * t / 3
        if case == "matched_features":
            own, other = torch.relu(small[0](x[i])), torch.relu(teacher[0](x[i]))
            loss = loss + 0.3 * F.mse_loss(bridge(own), other)
        opt.zero_grad()
        if loss.requires_grad:
            loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(y[2500:].numpy(), small(x[2500:]).numpy())
