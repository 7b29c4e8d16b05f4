"""Decoders that tell the next token."""

from __future__ import annotations

import math

import numpy as np

from ...data import accuracy
from ...program import fault, program
from ...run import Run

LENGTH, VOCABULARY = 15, 10


def _rounds(rng, n):
    """Three tokens that are repeated over and over: what comes is what was three places ago."""
    motif = rng.integers(1, VOCABULARY, (n, 3))
    return np.tile(motif, (1, 6))[:, : LENGTH + 1]


@program(
    plain=0.4,
    warmup_cosine=0.4,
    tied=0.4,
    bf16=0.4,
    accumulated=0.4,
    clipped=0.4,
    post_norm=0.4,
    huge_logits=fault("attention saturated"),
    no_residual=fault("no residual"),
    sees_itself_only=fault("information missing"),
    blocks_not_held=fault("not in the optimizer"),
    no_warmup=fault("rate too high", twin="post_norm"),
    eps=fault("Adam's epsilon"),
    decay=fault("weight decay"),
    overflow=fault("overflow", step=40),
    masked_row=fault("NaN forward"),
    forgot_zero_grad=fault("gradients accumulate", twin="accumulated"),
    cosine_ends=fault("rate decays to nothing", twin="warmup_cosine"),
    endless_warmup=fault("warm-up without end", twin="warmup_cosine"),
)
def gpt(run: Run, case: str) -> float:
    """Attention written by hand, as in the lessons."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    width, heads = 48, 4
    depth = 8 if case == "no_residual" else 2

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            mask = torch.ones(LENGTH, LENGTH).tril()
            if case == "sees_itself_only":
                mask = torch.eye(LENGTH)
            elif case == "masked_row":
                mask = mask.tril(-1)
            self.register_buffer("mask", mask == 0)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (
                z.view(b, t, heads, -1).transpose(1, 2) for z in self.qkv(x).split(width, -1)
            )
            scores = q @ k.transpose(-1, -2)
            scores = scores * 3e3 if case == "huge_logits" else scores / math.sqrt(width // heads)
            scores = scores.masked_fill(self.mask[:t, :t], -torch.inf)
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention()
            self.mlp = nn.Sequential(
                nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            )

        def forward(self, x):
            if case == "no_residual":
                return self.mlp(self.attention(x))
            if case in ("post_norm", "no_warmup"):
                x = self.norm_1(x + self.attention(x))
                return self.norm_2(x + self.mlp(x))
            x = x + self.attention(self.norm_1(x))
            return x + self.mlp(self.norm_2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, width)
            self.places = nn.Embedding(LENGTH, width)
            self.blocks = nn.ModuleList(Block() for _ in range(depth))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, VOCABULARY, bias=False)
            if case == "tied":
                nn.init.normal_(self.tokens.weight, std=0.1)
                self.head.weight = self.tokens.weight

        def forward(self, ids):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    steps = 220
    model = GPT()
    rate = {"no_warmup": 0.5, "warmup_cosine": 5e-3}.get(case, 3e-3)
    held = [p for name, p in model.named_parameters() if "blocks" not in name]
    opt = torch.optim.AdamW(
        held if case == "blocks_not_held" else model.parameters(),
        lr=rate,
        eps=1.0 if case == "eps" else 1e-8,
        weight_decay=100.0 if case == "decay" else 0.01,
    )
    if case in ("accumulated", "forgot_zero_grad"):
        opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    factor = {
        "warmup_cosine": lambda s: (
            min(1, (s + 1) / 30) * (0.5 + 0.5 * math.cos(math.pi * s / steps))
        ),
        "cosine_ends": lambda s: 0.5 + 0.5 * math.cos(math.pi * min(1, s / 15)),
        "endless_warmup": lambda s: min(1, (s + 1) / 1e6),
    }.get(case, lambda s: 1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    monitor = run.watch(model, opt)
    for step in range(1, steps + 1):
        if case != "forgot_zero_grad":
            opt.zero_grad()
        parts = 2 if case == "accumulated" else 1
        for _ in range(parts):
            ids = torch.tensor(_rounds(run.rng, 32))
            with torch.autocast("cpu", torch.bfloat16, enabled=case == "bf16"):
                logits = model(ids[:, :-1])
            logits = logits.float()
            if case == "overflow" and step >= 40:
                logits = (logits * 1e5).half().float()
            loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1)) / parts
            loss.backward()
        if case == "clipped":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step()
        monitor.record(loss=loss * parts)
    model.eval()
    test = _rounds(np.random.default_rng(99), 100)
    with torch.no_grad():
        answer = model(torch.tensor(test[:, :-1]))[:, 4:].float()
    return accuracy(test[:, 5:].reshape(-1), answer.reshape(-1, VOCABULARY).numpy())


TEXT = (
    "the quick brown fox jumps over the lazy dog and the lazy dog sleeps on while the fox runs "
    "home over the hill and down the road to the old mill where the miller keeps the bread. "
)


@program(
    plain=0.5,
    rotary=0.5,
    byte_dropout=0.4,
    small_batches=0.3,
    padded=0.4,
    pads_count=fault("pads in the loss", twin="padded"),
    high_rate=fault("rate too high"),
    rate_low=fault("rate too low"),
    labels_random=fault("labels shuffled"),
    no_grad_body=fault("no_grad"),
)
def letters(run: Run, case: str) -> float:
    """Letters of a text, with torch's own attention."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    alphabet = sorted(set(TEXT))
    ids = torch.tensor([alphabet.index(c) + 1 for c in TEXT * 3])
    size, width, length = len(alphabet) + 1, 40, 24

    def turn(z):
        t, d = z.shape[-2:]
        angle = torch.arange(t)[:, None] / 50 ** (torch.arange(d // 2) / (d // 2))
        a, b = z.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
            self.up, self.down = nn.Linear(width, 80), nn.Linear(80, width)
            self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.drop = nn.Dropout(0.1 if case == "byte_dropout" else 0.0)

        def forward(self, x):
            h = self.n1(x)
            q, k, v = (
                p(h).unflatten(-1, (2, -1)).transpose(1, 2) for p in (self.q, self.k, self.v)
            )
            if case == "rotary":
                q, k = turn(q), turn(k)
            h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.drop(h.transpose(1, 2).flatten(2))
            return x + self.drop(self.down(F.silu(self.up(self.n2(x)))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(size, width)
            self.place = nn.Parameter(torch.randn(length, width) * 0.02)
            self.layers = nn.Sequential(Layer(), Layer())
            self.head = nn.Linear(width, size)

        def forward(self, x):
            h = self.embed(x)
            if case != "rotary":
                h = h + self.place[: x.shape[1]]
            if case == "no_grad_body":
                with torch.no_grad():
                    h = self.layers(0.01 * h) * 0.01
            else:
                h = self.layers(h)
            return self.head(h)

    model = Model()
    opt = torch.optim.Adam(model.parameters(), {"high_rate": 1.0, "rate_low": 1e-7}.get(case, 4e-3))
    monitor = run.watch(model, opt)
    pads = case in ("padded", "pads_count")
    for _ in range(60 if pads else 200):
        starts = torch.randint(0, len(TEXT), (4 if case == "small_batches" else 16,))
        window = torch.stack([ids[s : s + length + 1] for s in starts])
        if pads:
            lengths = torch.randint(2, 6, (len(window), 1))
            window = window.masked_fill(torch.arange(length + 1) > lengths, 0)
        x, y = window[:, :-1], window[:, 1:]
        if case == "labels_random":
            y = torch.randint(1, size, y.shape)
        loss = F.cross_entropy(
            model(x).flatten(0, 1), y.flatten(), ignore_index=0 if case == "padded" else -100
        )
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        monitor.record(loss=loss, metrics={"perplexity": loss.detach().exp()})
    model.eval()
    test = torch.stack([ids[s : s + 6] for s in range(0, len(TEXT), 2)])
    with torch.no_grad():
        answer = model(test[:, :-1])[:, 1:]
    return accuracy(test[:, 2:].flatten().numpy(), answer.flatten(0, 1).numpy())
