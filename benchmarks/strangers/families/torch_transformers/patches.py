"""Images as sequences of patches."""

from __future__ import annotations

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    class_token=0.4,
    layer_scale=0.4,
    stochastic_depth=0.4,
    cosine=0.5,
    bf16=0.5,
    blank_patches=fault("constant inputs"),
    sgd=0.4,
    unscaled=fault("unscaled inputs", twin="sgd"),
    high_rate=fault("rate too high"),
    decay=fault("weight decay"),
    head_only=fault("not in the optimizer"),
    sharp=fault("attention saturated"),
    loss_scale=fault("loss scale", twin="sgd"),
    clip=fault("clipped to nothing", twin="sgd"),
)
def vit(run: Run, case: str) -> float:
    """Digits in sixteen patches of 2 by 2."""
    import torch
    from torch import nn

    x, y, xt, yt = bundled("digits", run.seed)
    unit = 0.002 if case == "unscaled" else 16

    def patches(x):
        z = torch.tensor(x).view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4) / unit
        return torch.zeros_like(z) + 0.5 if case == "blank_patches" else z

    x, xt, y = patches(x), patches(xt), torch.tensor(y)
    width = 32

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            if case == "unscaled":
                self.norm_1 = self.norm_2 = nn.Identity()
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            self.gamma = nn.Parameter(torch.full((2,), 0.1 if case == "layer_scale" else 1.0))
            if case == "sharp":
                with torch.no_grad():
                    self.attention.in_proj_weight[: 2 * width] *= 60

        def forward(self, x):
            if case == "stochastic_depth" and self.training and torch.rand(()) < 0.15:
                return x
            h = self.norm_1(x)
            x = x + self.gamma[0] * self.attention(h, h, h, need_weights=False)[0]
            return x + self.gamma[1] * self.mlp(self.norm_2(x))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(4, width)
            self.place = nn.Parameter(torch.randn(1, 16, width) * 0.1)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            h = self.project(x) + self.place
            if case == "class_token":
                return self.head(
                    self.blocks(torch.cat((self.token.expand(len(h), 1, -1), h), 1))[:, 0]
                )
            h = self.blocks(h).mean(1)
            return self.head(0.02 * h if case == "head_only" else h)

    model = ViT()
    rate = {"high_rate": 0.7, "cosine": 6e-3}.get(case, 3e-3)
    held = model.head.parameters() if case == "head_only" else model.parameters()
    opt = torch.optim.AdamW(held, rate, weight_decay=120.0 if case == "decay" else 0.05)
    if case in ("sgd", "loss_scale", "clip", "unscaled"):
        opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    steps = 200
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    monitor = run.watch(model, opt)
    for _ in range(steps):
        i = torch.randint(0, len(x), (48,))
        with torch.autocast("cpu", torch.bfloat16, enabled=case == "bf16"):
            out = model(x[i])
        loss = nn.functional.cross_entropy(out.float(), y[i])
        opt.zero_grad()
        (loss * 2.0**-24 if case == "loss_scale" else loss).backward()
        if case == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-5)
        opt.step()
        if case == "cosine":
            schedule.step()
        monitor.record(loss=loss)
    model.eval()
    with torch.no_grad():
        return accuracy(yt, model(xt).float().numpy())
