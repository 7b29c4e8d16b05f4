"""Two towers and two domains."""

from __future__ import annotations

import numpy as np

from ...data import bundled
from ...program import fault, program
from ...run import Run
from .loop import mlp, moons, train


@program(
    learned_scale=0.5,
    a_sigmoid_per_pair=0.5,
    locked_images=0.4,
    queue_of_captions=0.4,
    captions_of_other_images=fault("inputs and targets out of order"),
    scale_of_nearly_zero=fault("temperature", twin="a_sigmoid_per_pair"),
)
def towers(run: Run, case: str) -> float:
    """Digits and their captions; judged by the caption that is nearest to a held-out digit."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, rng = torch.tensor(x / 8 - 1), torch.tensor(xt / 8 - 1), run.rng
    # Two words for each digit, and words that say nothing.
    said = np.stack([2 * y + rng.integers(0, 2, len(y)), *rng.integers(20, 40, (2, len(y)))], 1)
    said = torch.tensor(rng.permuted(said, axis=1))

    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.words = mlp(64, 96, 32, act=nn.GELU), nn.EmbeddingBag(40, 32)
            self.caption = mlp(32, 64, 32, act=nn.GELU)
            start = np.log(10) if case != "scale_of_nearly_zero" else -8.0
            self.scale = nn.Parameter(torch.tensor(float(start)))
            self.bias = nn.Parameter(torch.tensor(-10.0))

        def forward(self, x, words):
            a, b = self.image(x), self.caption(self.words(words))
            return F.normalize(a, dim=1), F.normalize(b, dim=1)

    net = Towers()
    if case == "locked_images":
        # Trained before with labels, and at rest from then on.
        head = nn.Linear(32, 10)
        first = torch.optim.Adam([*net.image.parameters(), *head.parameters()], 3e-3)
        for _ in range(100):
            i = torch.randint(0, len(x), (64,))
            loss = F.cross_entropy(head(net.image(x[i])), torch.tensor(y)[i])
            first.zero_grad()
            loss.backward()
            first.step()
        net.image.requires_grad_(False)
    if case not in ("a_sigmoid_per_pair", "scale_of_nearly_zero"):
        net.bias.requires_grad_(False)
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], 3e-3)
    queue = torch.zeros(0, 32)

    def loss_of(_):
        nonlocal queue
        i = torch.randint(0, len(x), (64,))
        j = torch.randint(0, len(x), (64,)) if case == "captions_of_other_images" else i
        a, b = net(x[i], said[j])
        logits = net.scale.exp() * a @ b.t()
        if case in ("a_sigmoid_per_pair", "scale_of_nearly_zero"):
            sign = 2 * torch.eye(64) - 1
            return -F.logsigmoid(sign * (logits + net.bias)).sum() / 64
        label = torch.arange(64)
        if case == "queue_of_captions":
            logits = torch.cat((logits, net.scale.exp() * a @ queue.t()), 1)
            queue = torch.cat((b.detach(), queue))[:128]
            return F.cross_entropy(logits, label)
        return (F.cross_entropy(logits, label) + F.cross_entropy(logits.t(), label)) / 2

    train(run, net, opt, 250, loss_of)
    with torch.no_grad():
        names = torch.stack([torch.tensor([2 * k, 2 * k + 1]) for k in range(10)])
        a, b = net(xt, names)
        right = float((a @ b.t()).argmax(1).eq(torch.tensor(yt)).float().mean())
    return (right - 0.1) / 0.9 if bool(a.isfinite().all()) else -1.0


@program(
    reversal_ramped=0.4,
    two_optimizers=0.4,
    reversal_of_a_thousand=fault("one loss drowns the other"),
)
def domains(run: Run, case: str) -> float:
    """Two moons with labels, and turned ones without; the features are to hide which is which."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    (x, y), (t, yt) = moons(run.rng, 1500), moons(run.rng, 1500)
    turn = np.deg2rad(25)
    t = (t @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])).astype("f4")
    x, y, t, yt = (torch.tensor(v) for v in (x, y, t, yt))

    class Reversed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h, weight):
            ctx.weight = weight
            return h.view_as(h)

        @staticmethod
        def backward(ctx, g):
            return -ctx.weight * g, None

    net = nn.ModuleDict(
        {"features": mlp(2, 48, 32, out=nn.ReLU()), "label": mlp(32, 2), "domain": mlp(32, 24, 1)}
    )
    own = [*net["features"].parameters(), *net["label"].parameters()]
    both = case == "two_optimizers"
    opt = torch.optim.Adam(own if both else net.parameters(), 3e-3)
    if case == "reversal_of_a_thousand":
        opt = torch.optim.SGD(net.parameters(), 3e-2)
    judge = torch.optim.Adam(net["domain"].parameters(), 3e-3)
    monitor = run.watch(net, opt)
    for step in range(350):
        a, b = x[(i := torch.randint(0, 1000, (64,)))], t[torch.randint(0, 1000, (64,))]
        h = net["features"](torch.cat((a, b)))
        side = torch.cat((torch.zeros(64, 1), torch.ones(64, 1)))
        if both:
            found = F.binary_cross_entropy_with_logits(net["domain"](h.detach()), side)
            judge.zero_grad()
            found.backward()
            judge.step()
        weight = 1000.0 if case == "reversal_of_a_thousand" else 0.2 * min(1, step / 200)
        fooled = F.binary_cross_entropy_with_logits(net["domain"](Reversed.apply(h, weight)), side)
        loss = F.cross_entropy(net["label"](h[:64]), y[i]) + fooled
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        held = torch.cat((x[1000:], t[1000:]))
        out = net["label"](net["features"](held))
    if not bool(out.isfinite().all()):
        return -1.0
    return 2 * float(out.argmax(1).eq(torch.cat((y[1000:], yt[1000:]))).float().mean()) - 1
