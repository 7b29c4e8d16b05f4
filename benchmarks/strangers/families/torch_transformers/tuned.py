"""A trained encoder, and what is added to it for another task."""

from __future__ import annotations

from ...data import accuracy, made
from ...program import fault, program
from ...run import Run


@program(
    lora=0.4,
    linear_probe=0.2,
    whole=0.4,
    prefix=0.15,
    lora_rate=fault("rate too high"),
    lora_tiny=fault("rate too low"),
    lora_both_zero=fault("symmetric start"),
    lora_frozen=fault("no gradient required"),
)
def adapted(run: Run, case: str) -> float:
    """Words of other moods than the encoder was trained on."""
    import torch
    from torch import nn

    data = made("tokens", run.seed, 800)
    x, y, xt = torch.tensor(data.x), torch.tensor(data.y), torch.tensor(data.judged_x)
    width = 32

    class Lora(nn.Module):
        def __init__(self, base, rank=4):
            super().__init__()
            self.base = base
            self.down = nn.Linear(base.in_features, rank, bias=False)
            self.up = nn.Linear(rank, base.out_features, bias=False)
            nn.init.zeros_(self.up.weight)
            if case == "lora_both_zero":
                nn.init.zeros_(self.down.weight)

        def forward(self, x):
            return self.base(x) + 4 * self.up(self.down(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60, width)
            self.prefix = nn.Parameter(torch.zeros(2, width))
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
            self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            h = torch.cat((self.prefix.expand(len(x), -1, -1), self.embed(x)), 1)
            h = h + nn.functional.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h))
            return self.head(self.norm(h + self.mlp(h)).mean(1))

    net = Net()
    first = torch.optim.Adam(net.parameters(), 4e-3)

    def loss_of(some, shift):
        i = torch.randint(0, len(x), (32,))
        return nn.functional.cross_entropy(some((x[i] * (1 + 6 * shift)) % 60), y[i])

    for _ in range(150):
        first.zero_grad()
        loss_of(net, 0).backward()
        first.step()
    if case not in ("whole",):
        for p in net.parameters():
            p.requires_grad = False
        net.head = nn.Linear(width, 3)
    if case.startswith("lora"):
        net.head.requires_grad_(False)
        net.head.bias.requires_grad = True
        net.q, net.v = Lora(net.q), Lora(net.v)
        net.mlp[0], net.mlp[2], net.head = Lora(net.mlp[0]), Lora(net.mlp[2]), Lora(net.head)
        if case == "lora_frozen":
            for name, p in net.named_parameters():
                p.requires_grad = name == "head.base.bias"
    if case == "prefix":
        net.prefix.requires_grad = True
    rates = {"lora_rate": 3.0, "lora_tiny": 1e-7, "whole": 2e-3}
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], rates.get(case, 8e-3))
    monitor = run.watch(net, opt)
    for _ in range(150):
        loss = loss_of(net, 1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(data.truth, net((xt * 7) % 60).numpy())
