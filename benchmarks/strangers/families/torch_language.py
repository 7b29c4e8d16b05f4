"""Small transformers in torch that predict the next token."""

from __future__ import annotations

import math

import numpy as np

from ..data import accuracy
from ..program import fault, program
from ..run import Run


def _sentences(rng, n, length=17, words=20):
    """A fixed grammar: each word has one successor, except that one in eight is drawn freely."""
    follows = np.random.default_rng(3).permutation(words)
    text = np.empty((n, length), "int64")
    text[:, 0] = rng.integers(0, words, n)
    for i in range(1, length):
        free = rng.random(n) < 0.12
        text[:, i] = np.where(free, rng.integers(0, words, n), follows[text[:, i - 1]])
    return text


@program(
    plain=0.6,
    pre_norm=0.6,
    tied=0.5,
    accumulate=0.6,
    small_batch=0.5,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    warmup=fault("warm-up without end"),
    shuffled=fault("labels shuffled"),
    saturated_attention=fault("attention saturated", twin="attention_only"),
    attention_only=0.25,
    no_zero_grad=fault("gradients accumulate", twin="sgd"),
    sgd=0.3,
    clip=fault("clipped to nothing", twin="sgd"),
    eps=fault("Adam's epsilon"),
    only_head=fault("not in the optimizer"),
    log_of_zero=fault("NaN forward", step=51),
)
def next_word(run: Run, case: str) -> float:
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    text = torch.tensor(_sentences(run.rng, 500))
    if case in ("attention_only", "saturated_attention"):
        # The word is the one of four places before.
        free = torch.tensor(run.rng.integers(0, 20, (500, 17)))
        text = free.clone()
        for i in range(2, 17):
            copied = torch.tensor(run.rng.random(500) < 0.9)
            text[:, i] = torch.where(copied, text[:, i - 2], free[:, i])
    held, text = text[:100], text[100:]

    class Block(nn.Module):
        def __init__(self, d=24, heads=2):
            super().__init__()
            self.heads = heads
            self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

        def attend(self, x):
            b, t, d = x.shape
            q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2)
                       for each in self.qkv(x).chunk(3, -1))  # fmt: skip
            scale = 1 / math.sqrt(d // self.heads)
            if case == "saturated_attention":
                scale = 300.0
            weights = q @ k.transpose(-2, -1) * scale
            weights = weights.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf).softmax(-1)
            return self.proj((weights @ v).transpose(1, 2).reshape(b, t, d))

        def forward(self, x):
            if case == "pre_norm":
                x = x + self.attend(self.ln1(x))
                return x + self.mlp(self.ln2(x))
            x = self.ln1(x + self.attend(x))
            return self.ln2(x + self.mlp(x))

    class Model(nn.Module):
        def __init__(self, d=24):
            super().__init__()
            self.tok, self.pos = nn.Embedding(20, d), nn.Embedding(16, d)
            self.blocks = nn.ModuleList([Block(d), Block(d)])
            self.head = nn.Linear(d, 20, bias=False)
            if case == "tied":
                self.head.weight = self.tok.weight
                nn.init.normal_(self.tok.weight, std=0.2)

        def forward(self, ids):
            h = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
            for block in self.blocks:
                h = block(h)
            return self.head(h)

    model = Model()
    if case in ("sgd", "no_zero_grad", "clip"):
        opt = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    else:
        rate = {"low_rate": 1e-6, "high_rate": 1.0}.get(case, 5e-3)
        held_by = model.head if case == "only_head" else model
        opt = torch.optim.AdamW(held_by.parameters(), lr=rate, eps=1.0 if case == "eps" else 1e-8)
    if case == "only_head":
        with torch.no_grad():
            for block in model.blocks:
                block.ln2.weight.mul_(0.02)
    warm = 10**6 if case == "warmup" else 20
    plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / warm))
    monitor = run.watch(model, opt)
    micro = 4 if case == "accumulate" else 1
    batch = 2 if case == "small_batch" else 24
    for step in range(1, 161):
        if case != "no_zero_grad":
            opt.zero_grad()
        for _ in range(micro):
            ids = text[torch.randint(0, len(text), (batch // micro,))]
            logits, target = model(ids[:, :-1]), ids[:, 1:].reshape(-1)
            if case == "shuffled":
                target = target[torch.randperm(len(target))]
            loss = F.cross_entropy(logits.reshape(-1, 20), target) / micro
            if case == "log_of_zero" and step == 51:
                p = F.softmax(logits * 1e4, -1)
                loss = loss - 0.01 * (p * torch.log(p)).sum(-1).mean()
            loss.backward()
        if case == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        opt.step()
        plan.step()
        monitor.record(loss=loss * micro)
    with torch.no_grad():
        out = model(held[:, :-1])
    return accuracy(held[:, 1:].reshape(-1).numpy(), out.reshape(-1, 20).numpy())


@program(
    plain=0.6,
    padded=0.6,
    deep=0.5,
    shuffled=fault("labels shuffled"),
    broken_norm=fault("vanishing"),
    double_softmax=fault("two softmaxes"),
    frozen_encoder=fault("no gradient required"),
    no_grad=fault("no_grad", layer=("emb", "encoder")),
)
def sentence_classes(run: Run, case: str) -> float:
    """`nn.TransformerEncoder` tells which of three marker words a sentence has more often."""
    import torch
    from torch import nn

    rng = run.rng
    ids = rng.integers(3, 30, (700, 12))
    label = rng.integers(0, 3, 700)
    for row, k in zip(ids, label, strict=True):
        row[rng.choice(12, 3, replace=False)] = k
    if case == "padded":
        ids[:, 10:] = 30
    ids, label = torch.tensor(ids), torch.tensor(label)
    xt, yt, x, y = ids[:200], label[:200], ids[200:], label[200:]
    if case == "shuffled":
        y = y[torch.randperm(len(y))]
    d = 24
    layer = nn.TransformerEncoderLayer(d, 2, 48, dropout=0.1, batch_first=True)
    depth = {"deep": 3, "broken_norm": 6}.get(case, 1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(31, d)
            self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(d, 3)

        def forward(self, ids):
            h = self.emb(ids)
            if case == "no_grad":
                with torch.no_grad():
                    h = self.encoder(h).mean(1) * 0.02
            else:
                mask = ids == 30 if case == "padded" else None
                h = self.encoder(h, src_key_padding_mask=mask).mean(1)
            if case == "broken_norm":
                h = torch.sigmoid(h * 0.01)
            out = self.head(h)
            return out.softmax(-1) if case == "double_softmax" else out

    net = Net()
    if case == "broken_norm":
        for block in net.encoder.layers:
            nn.init.constant_(block.norm1.weight, 0.05)
            nn.init.constant_(block.norm2.weight, 0.05)
    if case == "frozen_encoder":
        for p in (*net.emb.parameters(), *net.encoder.parameters(), net.head.weight):
            p.requires_grad = False
    rate = 2e-4 if case == "double_softmax" else 4e-3
    opt = torch.optim.AdamW(net.parameters(), rate)
    monitor = run.watch(net, opt)
    for _ in range(150):
        i = torch.randint(0, len(x), (32,))
        loss = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(yt.numpy(), net(xt).numpy())
