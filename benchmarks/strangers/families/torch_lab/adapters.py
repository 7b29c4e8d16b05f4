"""Adapters of a network that knows a related task; a teacher that is an average of its pupil."""

from __future__ import annotations

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    rank_four=0.5,
    bottleneck=0.5,
    merged_scale=0.5,
    both_factors_zero=fault("symmetric start"),
    alpha_of_ten_thousand=fault("bad start"),
    alpha_of_a_billionth=fault("rate too low"),
    frozen_after_injection=fault("all frozen"),
    mean_of_another_corpus=fault("unscaled inputs"),
)
def adapted(run: Run, case: str) -> float:
    """A network that knows the digits 0 to 4 learns the others, in mirror writing."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, held, truth = bundled("digits", run.seed)
    x, held = torch.tensor(x / 16 - 0.3), torch.tensor(held / 16 - 0.3)
    y, truth = torch.tensor(y), torch.tensor(truth)
    body = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)
    )
    before = torch.optim.Adam(body.parameters(), lr=3e-3)
    low = y < 5
    for _ in range(200):
        rows = torch.randint(0, int(low.sum()), (64,))
        loss = functional.cross_entropy(body(x[low][rows]), y[low][rows])
        before.zero_grad()
        loss.backward()
        before.step()
    body.requires_grad_(False)
    alpha = {"alpha_of_ten_thousand": 1e4, "alpha_of_a_billionth": 1e-9, "merged_scale": 4.0}.get(
        case, 2.0
    )

    class Adapter(nn.Module):
        def __init__(self, base, rank=8):
            super().__init__()
            self.base = base
            zero = case == "both_factors_zero"
            self.down = nn.Parameter(torch.randn(base.in_features, rank) * (0.0 if zero else 0.1))
            self.up = nn.Parameter(torch.zeros(rank, base.out_features))
            if case == "alpha_of_ten_thousand":
                nn.init.normal_(self.up, std=0.1)

        def forward(self, x):
            low = x @ self.down
            if case == "bottleneck":
                low = low.relu()
            return self.base(x) + alpha * low @ self.up

    net = nn.Sequential(*body)
    for at in (0, 2, 4):
        net[at] = Adapter(net[at])
    if case == "frozen_after_injection":
        net.requires_grad_(False)
        net[4].base.bias.requires_grad_(True)
    trained = [each for each in net.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=4e-3, weight_decay=0.0)
    if case in ("mean_of_another_corpus", "alpha_of_a_billionth", "alpha_of_ten_thousand"):
        optimizer = torch.optim.SGD(trained, lr=0.02)
    monitor = run.watch(net, optimizer)
    mirrored, labels = x[~low].reshape(-1, 8, 8).flip(2).flatten(1), y[~low] - 5
    if case == "mean_of_another_corpus":
        mirrored = 400 * mirrored + 5000
    for _ in range(250):
        rows = torch.randint(0, len(labels), (64,))
        loss = functional.cross_entropy(net(mirrored[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    asked = held[truth >= 5].reshape(-1, 8, 8).flip(2).flatten(1)
    if case == "mean_of_another_corpus":
        asked = 400 * asked + 5000
    with torch.no_grad():
        return accuracy((truth[truth >= 5] - 5).numpy(), net(asked).numpy())


@program(
    few_labels=0.5,
    ramped=0.5,
    pseudo_labels=0.5,
    labels_only=0.4,
    teacher_is_zero=fault("teacher knows nothing"),
    agreement_above_all=fault("one loss drowns the other"),
    labels_of_the_wrong_rows=fault("inputs and targets out of order"),
    pupil_detached=fault("detached"),
)
def taught(run: Run, case: str) -> float:
    """Digits with 120 labels; for the others, the pupil is to agree with its own average."""
    import copy

    import torch
    from torch import nn
    from torch.nn import functional

    x, y, held, truth = bundled("digits", run.seed)
    x, held, y = torch.tensor(x / 16), torch.tensor(held / 16), torch.tensor(y)
    known = torch.arange(120)
    pupil = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 10))
    teacher = copy.deepcopy(pupil).requires_grad_(False)
    if case == "teacher_is_zero":
        for each in teacher.parameters():
            nn.init.zeros_(each)
    optimizer = torch.optim.SGD(pupil.parameters(), lr=0.05, momentum=0.9)
    monitor = run.watch(pupil, optimizer)
    for step in range(250):
        rows, others = known[torch.randint(0, 120, (32,))], torch.randint(0, len(x), (64,))
        noisy = x[others] + 0.1 * torch.randn(64, 64)
        labels = y[rows + 500] if case == "labels_of_the_wrong_rows" else y[rows]
        out = pupil(x[rows] + 0.05 * torch.randn(32, 64))
        if case == "pupil_detached":
            out = out.detach()
        loss = functional.cross_entropy(out, labels)
        if case != "labels_only":
            with torch.no_grad():
                wanted = teacher(x[others] + 0.1 * torch.randn(64, 64)).softmax(-1)
            said = pupil(noisy)
            if case == "pupil_detached":
                wanted, said = pupil(noisy).softmax(-1).detach(), teacher(noisy) + 0 * said
            if case == "pseudo_labels":
                sure, which = wanted.max(-1)
                apart = functional.cross_entropy(said, which, reduction="none")
                apart = (apart * (sure > 0.8)).mean()
            else:
                apart = ((said.softmax(-1) - wanted) ** 2).sum(-1).mean()
            weight = {"ramped": min(1.0, step / 100), "agreement_above_all": 1e4,
                      "teacher_is_zero": 100.0}.get(case, 1.0)  # fmt: skip
            loss = loss + weight * apart
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if case != "teacher_is_zero":
            for old, new in zip(teacher.parameters(), pupil.parameters(), strict=True):
                old.data.lerp_(new.data, 0.05)
        monitor.record(loss=loss.item())
    pupil.eval()
    with torch.no_grad():
        return accuracy(truth, pupil(held).numpy())
