"""What people fine-tune in torch: adapters, experts, half precision, accumulation."""

from __future__ import annotations

from ..data import accuracy, made
from ..program import fault, program
from ..run import Run


@program(
    lora=0.5,
    whole_optimizer=0.5,
    bottleneck=0.5,
    bias_only=0.1,
    lora_both_zero=fault("symmetric start"),
    lora_not_required=fault("no gradient required"),
    lora_not_held=fault("not in the optimizer"),
    lora_scale=fault("exploding"),
    tiny_rate=fault("rate too low"),
)
def adapters(run: Run, case: str) -> float:
    """A pre-trained network is moved to rotated digits by small additions."""
    import torch
    from torch import nn

    data = made("digits", run.seed, 800)
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    base = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    first = torch.optim.Adam(base.parameters(), 3e-3)
    for _ in range(120):
        i = torch.randint(0, len(x), (50,))
        loss = nn.functional.cross_entropy(base(x[i]), y[i])
        first.zero_grad()
        loss.backward()
        first.step()

    def turned(x):
        return torch.rot90(x.view(-1, 8, 8), 1, (1, 2)).reshape(-1, 64)

    class Lora(nn.Module):
        def __init__(self, linear, rank=6):
            super().__init__()
            self.linear = linear
            self.a = nn.Parameter(torch.randn(linear.in_features, rank) * 0.1)
            self.b = nn.Parameter(torch.zeros(rank, linear.out_features))
            if case == "lora_both_zero":
                nn.init.zeros_(self.a)
            self.scale = 1e4 if case == "lora_scale" else 2.0

        def forward(self, x):
            return self.linear(x) + self.scale * (x @ self.a @ self.b)

    class Bottleneck(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear
            self.down, self.up = (
                nn.Linear(linear.out_features, 8),
                nn.Linear(8, linear.out_features),
            )
            nn.init.zeros_(self.up.weight)

        def forward(self, x):
            h = self.linear(x)
            return h + self.up(torch.relu(self.down(h)))

    for p in base.parameters():
        p.requires_grad = False
    if case == "bias_only":
        for i in (0, 2, 4):
            base[i].bias.requires_grad = True
    else:
        kind = Bottleneck if case == "bottleneck" else Lora
        for i in (0, 2, 4):
            base[i] = kind(base[i])
    if case == "lora_not_required":
        for i in (0, 2, 4):
            base[i].a.requires_grad = base[i].b.requires_grad = False
        base[4].linear.bias.requires_grad = True
    trainable = [p for p in base.parameters() if p.requires_grad]
    if case == "lora_not_held":
        trainable = [base[4].a]
        base[4].linear.bias.requires_grad = True
        trainable = [base[4].linear.bias]
    held = base.parameters() if case == "whole_optimizer" else trainable
    opt = torch.optim.AdamW(held, lr=1e-7 if case == "tiny_rate" else 5e-3)
    monitor = run.watch(base, opt)
    for _ in range(160):
        i = torch.randint(0, len(x), (32,))
        loss = nn.functional.cross_entropy(base(turned(x[i])), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(data.truth, base(turned(torch.tensor(data.judged_x))).numpy())


@program(
    balanced=0.6,
    top_two=0.6,
    noisy_gate=0.5,
    one_expert=fault("dead experts"),
    gate_explodes=fault("rate too high"),
)
def experts(run: Run, case: str) -> float:
    """A mixture of experts; each of four regions has its own rule."""
    import torch
    from torch import nn

    rng = run.rng
    x = rng.normal(size=(1200, 4)).astype("float32")
    region = (x[:, 0] > 0).astype(int) * 2 + (x[:, 1] > 0)
    rule = rng.normal(size=(4, 2))
    y = ((x[:, 2:] * rule[region]).sum(1) > 0).astype("int64")
    x, y = torch.tensor(x), torch.tensor(y)
    xt, yt, x, y = x[:300], y[:300], x[300:], y[300:]

    class Mixture(nn.Module):
        def __init__(self, n=4):
            super().__init__()
            self.gate = nn.Linear(4, n)
            hidden = 2 if case == "one_expert" else 16
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))
                for _ in range(n)
            )
            if case == "one_expert":
                nn.init.constant_(self.gate.bias, -300.0)
                nn.init.constant_(self.gate.bias[:1], 300.0)

        def forward(self, x):
            scores = self.gate(x)
            if case == "noisy_gate" and self.training:
                scores = scores + 0.3 * torch.randn_like(scores)
            share = scores.softmax(-1)
            if case in ("top_two", "one_expert"):
                best = share.topk(2 if case == "top_two" else 1, -1).indices
                share = share * torch.zeros_like(share).scatter(-1, best, 1.0)
            outs = torch.stack([expert(x) for expert in self.experts], 1)
            return (share[..., None] * outs).sum(1), share

    model = Mixture()
    groups = [
        {"params": model.experts.parameters()},
        {"params": model.gate.parameters(), "lr": 80.0 if case == "gate_explodes" else 1e-2},
    ]
    opt = torch.optim.Adam(groups, lr=5.0 if case == "gate_explodes" else 1e-2)
    monitor = run.watch(model, opt)
    for _ in range(250):
        i = torch.randint(0, len(x), (48,))
        out, share = model(x[i])
        loss = nn.functional.cross_entropy(out, y[i])
        if case == "balanced":
            loss = loss + 0.01 * 4 * share.mean(0).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"largest share": share.mean(0).max()})
    model.eval()
    with torch.no_grad():
        return accuracy(yt.numpy(), model(xt)[0].numpy())


@program(
    autocast=0.6,
    accumulate=0.6,
    ema=0.6,
    grad_scaler_off=0.6,
    bf16_weights=fault("rounded away"),
    unscaled_twice=fault("loss scale"),
    forgot_zero=fault("gradients accumulate", twin="accumulate"),
    inf_mask=fault("NaN forward", step=61),
    eps=fault("Adam's epsilon", twin="autocast"),
)
def half_precision(run: Run, case: str) -> float:
    """bfloat16 on the CPU, with and without autocast."""
    import copy

    import torch
    from torch import nn

    data = made("digits", run.seed, 800)
    kind = torch.bfloat16 if case == "bf16_weights" else torch.float32
    x, y = torch.tensor(data.x, dtype=kind), torch.tensor(data.y)
    net = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 10)).to(kind)
    average = copy.deepcopy(net)
    if case == "bf16_weights":
        opt = torch.optim.SGD(net.parameters(), lr=1.5e-4)
    elif case in ("accumulate", "forgot_zero", "unscaled_twice"):
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    else:
        opt = torch.optim.Adam(net.parameters(), 3e-3, eps=3.0 if case == "eps" else 1e-8)
    monitor = run.watch(net, opt)
    ce = nn.functional.cross_entropy
    for step in range(1, 181):
        if case != "forgot_zero":
            opt.zero_grad()
        for _ in range(2 if case in ("accumulate", "forgot_zero") else 1):
            i = torch.randint(0, len(x), (24,))
            with torch.autocast("cpu", torch.bfloat16, enabled=case in ("autocast", "inf_mask")):
                logits = net(x[i])
                if case == "inf_mask" and step == 61:
                    logits = logits.masked_fill(torch.ones_like(logits).bool(), -torch.inf)
                    logits = logits.softmax(-1) + net(x[i])
                loss = ce(logits.float(), y[i])
            if case == "unscaled_twice":
                (loss / 65536 / 65536).backward()
            else:
                loss.backward()
        opt.step()
        monitor.record(loss=loss)
        if case == "ema":
            with torch.no_grad():
                for a, b in zip(average.parameters(), net.parameters(), strict=True):
                    a.lerp_(b, 0.1)
    chosen = average if case == "ema" else net
    with torch.no_grad():
        out = chosen(torch.tensor(data.judged_x, dtype=kind)).float().numpy()
    return accuracy(data.truth, out)


@program(
    plain=0.5,
    student=0.5,
    weight_standardised=0.5,
    teacher_off=fault("temperature", twin="student"),
    label_noise_all=fault("labels shuffled"),
)
def distillation(run: Run, case: str) -> float:
    """A small network learns from a larger one's probabilities."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    data = made("blobs", run.seed, 700, classes=6, features=10, spread=0.7)
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    if case == "label_noise_all":
        y = torch.randint(0, 6, y.shape)

    def mlp(width):
        return nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 6))

    def train(net, steps, loss_of, monitor=None, rate=8e-3):
        opt = torch.optim.Adam(net.parameters(), rate)
        monitor = run.watch(net, opt) if monitor else None
        for _ in range(steps):
            i = torch.randint(0, len(x), (32,))
            loss = loss_of(net(x[i]), i)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if monitor:
                monitor.record(loss=loss)

    teacher, student = mlp(64), mlp(12)
    distils = case in ("student", "teacher_off")
    if distils:
        train(teacher, 150, lambda out, i: F.cross_entropy(out, y[i]))

    def loss_of(out, i):
        if not distils:
            return F.cross_entropy(out, y[i])
        t = 5e4 if case == "teacher_off" else 2.0
        with torch.no_grad():
            wanted = F.softmax(teacher(x[i]) / t, -1)
        return F.kl_div(F.log_softmax(out / t, -1), wanted, reduction="batchmean")

    train(student, 180, loss_of, monitor=True)
    with torch.no_grad():
        out = student(torch.tensor(data.judged_x))
    return accuracy(data.truth, out.numpy())
