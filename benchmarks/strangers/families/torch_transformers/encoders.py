"""Encoders with torch's own layers: a class for a sequence."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, made
from ...program import fault, program
from ...run import Run


@program(
    mean=0.5,
    first_token=0.4,
    pre_norm=0.5,
    layerwise_rates=0.4,
    label_smoothing=0.5,
    mask_inverted=fault("information missing"),
    labels_shuffled=fault("labels shuffled"),
    dropout_95=fault("too much dropout"),
    sgd_low=fault("rate too low"),
    everything_frozen=fault("no gradient required"),
    detached_pool=fault("detached"),
    sgd=0.4,
)
def moods(run: Run, case: str) -> float:
    """Padded sequences of words of three moods."""
    import torch
    from torch import nn

    data = made("tokens", run.seed, 800)
    rng = run.rng

    def padded(x):
        lengths = rng.integers(7, 13, (len(x), 1))
        return torch.tensor(np.where(np.arange(12) < lengths, x + 1, 0))

    x, xt = padded(data.x), padded(data.judged_x)
    y = torch.tensor(data.y)
    if case == "labels_shuffled":
        y = y[torch.randperm(len(y))]

    class Encoder(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.embed = nn.Embedding(61, width, padding_idx=0)
            self.place = nn.Parameter(torch.randn(13, width) * 0.1)
            self.start = nn.Parameter(torch.randn(width) * 0.1)
            layer = nn.TransformerEncoderLayer(
                width, 4, 64, dropout=0.95 if case == "dropout_95" else 0.1, batch_first=True,
                norm_first=case == "pre_norm", activation="gelu",
            )  # fmt: skip
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.drop = nn.Dropout(0.95 if case == "dropout_95" else 0.0)
            self.head = nn.Linear(width, 3)

        def forward(self, ids):
            pad = ids == 0
            h = self.embed(ids) + self.place[:12]
            if case == "mask_inverted":
                h = torch.where(pad[..., None], h, 0.0)
            if case == "first_token":
                h = torch.cat((self.start.expand(len(h), 1, -1), h), 1)
                pad = torch.cat((torch.zeros(len(h), 1, dtype=torch.bool), pad), 1)
            h = self.encoder(h, src_key_padding_mask=pad)
            if case == "first_token":
                return self.head(h[:, 0])
            weights = (~pad).float()[..., None]
            pooled = (h * weights).sum(1) / weights.sum(1)
            if case == "detached_pool":
                pooled = 0.003 * pooled.detach()
            return self.head(self.drop(pooled))

    net = Encoder()
    if case == "everything_frozen":
        for name, p in net.named_parameters():
            p.requires_grad = name == "head.bias"
    if case == "sgd_low":
        opt = torch.optim.SGD(net.parameters(), 1e-5)
    elif case == "sgd":
        opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    elif case == "layerwise_rates":
        parts = ((net.embed, 5e-4), (net.encoder, 1e-3), (net.head, 5e-3))
        opt = torch.optim.AdamW([{"params": p.parameters(), "lr": r} for p, r in parts])
    else:
        opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], 2e-3)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1 if case == "label_smoothing" else 0.0)
    monitor = run.watch(net, opt)
    for _ in range(160):
        i = torch.randint(0, len(x), (32,))
        loss = loss_fn(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, inputs=x[i], targets=y[i])
    net.eval()
    with torch.no_grad():
        return accuracy(data.truth, net(xt).numpy())


@program(
    learned_places=0.4,
    sine_places=0.4,
    no_places=fault("information missing"),
    queries_run_away=fault("one layer runs away"),
    plain_list=fault("modules in a plain list"),
    nan_batch=fault("NaN in the data", step=55),
)
def order(run: Run, case: str) -> float:
    """Does the large bump come before the small one? Only places tell."""
    import torch
    from torch import nn

    rng = np.random.default_rng([run.seed, 4])
    n, length = 1400, 10
    first, second = rng.permuted(np.tile(np.arange(length), (n, 1)), axis=1)[:, :2].T
    x = 0.05 * rng.normal(size=(n, length, 2))
    x[np.arange(n), first, 0] += 1
    x[np.arange(n), second, 1] += 1
    y = (first < second).astype("int64")
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    xt, x, yt, y = x[:300], x[300:], y[:300], y[300:]

    class Layer(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
            self.norm = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, width))

        def forward(self, x):
            x = x + self.attend(x, x, x, need_weights=False)[0]
            return x + self.mlp(self.norm(x))

    class Net(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.into = nn.Linear(2, width)
            self.place = nn.Parameter(torch.randn(length, width) * 0.5)
            angle = torch.arange(length)[:, None] / 3 ** torch.arange(width // 2)
            self.register_buffer("waves", torch.cat((angle.sin(), angle.cos()), 1))
            layers = [Layer(), Layer()]
            self.layers = layers if case == "plain_list" else nn.ModuleList(layers)
            self.out = nn.Linear(width, 2)

        def forward(self, x):
            h = self.into(x)
            if case != "no_places":
                h = h + (self.waves if case == "sine_places" else self.place)
            for layer in self.layers:
                h = layer(h)
            if case == "plain_list":
                h = 0.05 * h
            return self.out(h.mean(1))

    net = Net()
    opt = torch.optim.Adam(net.parameters(), 4e-3)
    if case == "queries_run_away":
        wild = {id(p) for p in net.layers[0].attend.parameters()}
        opt = torch.optim.Adam([
            {"params": [p for p in net.parameters() if id(p) not in wild]},
            {"params": net.layers[0].attend.parameters(), "lr": 20.0},
        ], 4e-3)  # fmt: skip
    monitor = run.watch(net, opt)
    for step in range(1, 251):
        i = torch.randint(0, len(x), (48,))
        batch = x[i].clone()
        if case == "nan_batch" and step == 55:
            batch[3, 2] = torch.nan
        loss = nn.functional.cross_entropy(net(batch), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(yt.numpy(), net(xt).numpy())
