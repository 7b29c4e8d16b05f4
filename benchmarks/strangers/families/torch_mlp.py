"""Multilayer perceptrons in plain torch loops."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, bundled, made, score, standardised
from ..program import fault, program
from ..run import Run


@program(
    plain=0.8,
    sgd=0.75,
    dropout=0.7,
    tiny_batches=0.7,
    wide=0.8,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    shuffled=fault("labels shuffled"),
    double_softmax=fault("two softmaxes", twin="sgd"),
    frozen=fault("no gradient required"),
    eps=fault("Adam's epsilon"),
    no_zero_grad=fault("gradients accumulate", twin="sgd"),
)
def digits(run: Run, case: str) -> float:
    import torch
    from torch import nn

    data = made("digits", run.seed, 800)
    x, y = torch.tensor(data.x), torch.tensor(data.y)
    width = 256 if case == "wide" else 48
    model = nn.Sequential(
        nn.Linear(64, width),
        nn.ReLU(),
        nn.Dropout(0.5 if case == "dropout" else 0.0),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 10),
    )
    if case == "double_softmax":
        model.append(nn.Softmax(dim=1))
    if case == "frozen":
        for p in model.parameters():
            p.requires_grad = False
        model[5].bias.requires_grad = True
    if case in ("sgd", "no_zero_grad", "double_softmax"):
        opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    else:
        rate = {"low_rate": 1e-6, "high_rate": 0.5}.get(case, 2e-3)
        opt = torch.optim.Adam(model.parameters(), lr=rate, eps=1.0 if case == "eps" else 1e-8)
    if case == "shuffled":
        y = y[torch.randperm(len(y))]
    criterion = nn.CrossEntropyLoss()
    batch = 4 if case == "tiny_batches" else 32
    monitor = run.watch(model, opt)
    steps = 0
    while steps < 200:
        for idx in torch.randperm(len(x)).split(batch):
            if case != "no_zero_grad":
                opt.zero_grad()
            out = model(x[idx])
            loss = criterion(out, y[idx])
            loss.backward()
            opt.step()
            accuracy = (out.argmax(1) == y[idx]).float().mean()
            monitor.record(loss=loss, metrics={"accuracy": accuracy})
            steps += 1
            if steps == 200:
                break
    model.eval()
    with torch.no_grad():
        return score("classes", data.truth, model(torch.tensor(data.judged_x)).numpy())


@program(
    plain=0.8,
    minibatch=0.8,
    no_activation=fault("no non-linearity"),
    broadcast=fault("broadcasting"),
    wrong_sign=fault("wrong sign"),
    low_rate=fault("rate too low"),
    relu_head=fault("output cannot reach the targets"),
)
def spirals(run: Run, case: str) -> float:
    """Full-batch training on two spirals, as in a notebook."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    rng = run.rng

    def make(n):
        t = np.sqrt(rng.random(n)) * 2.2 * np.pi
        cls = rng.integers(0, 2, n)
        r = t / (2.2 * np.pi) * 2
        pts = np.stack([r * np.cos(t + np.pi * cls), r * np.sin(t + np.pi * cls)], 1)
        pts += 0.03 * rng.normal(size=pts.shape)
        return torch.tensor(pts, dtype=torch.float32), torch.tensor(cls, dtype=torch.float32)

    x, y = make(400)
    xt, yt = make(300)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(2, 64)
            self.fc2 = nn.Linear(64, 64)
            self.fc3 = nn.Linear(64, 64)
            self.out = nn.Linear(64, 1)

        def forward(self, x):
            if case == "no_activation":
                return self.out(self.fc3(self.fc2(self.fc1(x))))
            h = torch.tanh(self.fc1(x))
            h = F.relu(self.fc2(h))
            h = F.relu(self.fc3(h))
            h = self.out(h)
            return F.relu(h) - 6 if case == "relu_head" else h

    net = Net()
    if case == "relu_head":
        nn.init.constant_(net.out.bias, -3.0)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-6 if case == "low_rate" else 5e-3)
    monitor = run.watch(net, opt)
    for _ in range(250):
        idx = torch.randint(0, 400, (64,)) if case == "minibatch" else slice(None)
        logits = net(x[idx])
        if case == "broadcast":
            loss = ((torch.sigmoid(logits) - y[idx]) ** 2).mean()
        else:
            loss = F.binary_cross_entropy_with_logits(logits.squeeze(1), y[idx])
        if case == "wrong_sign":
            loss = -loss
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(yt.numpy(), net(xt).numpy())


@program(
    plain=0.5,
    huber=0.5,
    one_sample=0.35,
    broadcast=fault("broadcasting"),
    unscaled=fault("unscaled inputs"),
    low_rate=fault("rate too low"),
    decay=fault("weight decay"),
    sum_loss=fault("summed loss"),
)
def diabetes(run: Run, case: str) -> float:
    """Regression on a small table; targets standardised."""
    import torch
    import torch.nn as nn

    x, y, xt, yt = bundled("diabetes", run.seed)
    x, xt = standardised(x, xt)
    y, yt = standardised(y, yt)
    if case == "unscaled":
        shift = np.linspace(10, 3e4, x.shape[1], dtype="float32")
        x, xt = x * shift, xt * shift
    # The relation is faint, so a clearer one is laid over it.
    x, xt, y, yt = map(torch.tensor, (x, xt, y, yt))
    scale = 1.0 if case != "unscaled" else 1 / torch.linspace(10, 3e4, x.shape[1])
    y = y + 2 * torch.tanh((x * scale)[:, 2] + (x * scale)[:, 8])
    yt = yt + 2 * torch.tanh((xt * scale)[:, 2] + (xt * scale)[:, 8])
    model = nn.Sequential(
        nn.Linear(10, 32), nn.ELU(), nn.Linear(32, 16), nn.ELU(), nn.Linear(16, 1)
    )
    if case == "decay":
        opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=80.0)
    elif case == "sum_loss":
        opt = torch.optim.SGD(model.parameters(), lr=0.05)
    else:
        opt = torch.optim.Adam(model.parameters(), lr=1e-6 if case == "low_rate" else 5e-3)
    crit = {"huber": nn.HuberLoss(), "sum_loss": nn.MSELoss(reduction="sum")}.get(
        case, nn.MSELoss()
    )
    size = 1 if case == "one_sample" else 32
    monitor = run.watch(model, opt)
    for epoch in range(1 if case == "one_sample" else 15):
        order = torch.randperm(len(x))
        for i in range(0, len(x), size):
            j = order[i : i + size]
            pred = model(x[j])
            if case != "broadcast":
                pred = pred.squeeze(-1)
            loss = crit(pred, y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            monitor.record(loss=loss.item(), epoch=epoch + 1)
    with torch.no_grad():
        return score("values", yt.numpy(), model(xt).numpy())


@program(
    plain=0.75,
    norm=0.75,
    sigmoid_deep=fault("vanishing"),
    big_init=fault("saturated", layer="layers/0"),
    dead=fault("dead units", layer="layers/0"),
    zero_init=fault("symmetric start"),
    list_of_layers=fault("modules in a plain list"),
    only_head=fault("not in the optimizer", layer="layers/0"),
    detach=fault("detached", layer=("layers/0", "layers/6")),
)
def deep_cancer(run: Run, case: str) -> float:
    """Eight hidden layers on breast-cancer data."""
    import torch
    from torch import nn

    x, y, xt, yt = bundled("breast_cancer", run.seed)
    x, xt = standardised(x, xt)
    x, xt = torch.from_numpy(x), torch.from_numpy(xt)
    y = torch.from_numpy(y).float()

    class Deep(nn.Module):
        def __init__(self, width=24, depth=8):
            super().__init__()
            layers = [nn.Linear(30 if i == 0 else width, width) for i in range(depth)]
            self.layers = layers if case == "list_of_layers" else nn.ModuleList(layers)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in layers)
            self.head = nn.Linear(width, 1)

        def forward(self, h):
            for i, layer in enumerate(self.layers):
                h = layer(h)
                if case == "norm":
                    h = self.norms[i](h)
                if case == "sigmoid_deep":
                    h = torch.sigmoid(h)
                elif case == "big_init":
                    h = torch.tanh(h)
                else:
                    h = torch.relu(h)
                if case == "detach" and i == 6:
                    h = h.detach()
            return self.head(h).squeeze(1)

    model = Deep()
    for layer in model.layers:
        if case == "big_init":
            nn.init.normal_(layer.weight, std=6.0)
        elif case == "zero_init":
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif case != "sigmoid_deep":
            nn.init.kaiming_normal_(layer.weight)
        if case == "dead":
            nn.init.constant_(layer.bias, -8.0)
    if case == "detach":
        nn.init.normal_(model.layers[3].weight, std=1e-3)
    held = model.head if case == "only_head" else model
    if case == "only_head":
        nn.init.normal_(model.layers[3].weight, std=1e-3)
    optimizer = torch.optim.RMSprop(held.parameters(), lr=1e-3)
    bce = nn.BCEWithLogitsLoss()
    monitor = run.watch(model, optimizer)
    for step in range(220):
        pick = torch.randint(0, len(x), (48,))
        optimizer.zero_grad()
        loss = bce(model(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.detach(), step=step + 1)
    with torch.no_grad():
        logits = model(xt).numpy()
    return accuracy(yt, logits)


@program(
    plain=0.6,
    unbalanced=0.6,
    sorted_learned=0.6,
    noisy_labels=0.45,
    temperature=fault("temperature"),
    label_offset=fault("labels shuffled"),
    warmup=fault("warm-up without end"),
    clip=fault("clipped to nothing", twin="sgd"),
    sgd=0.6,
)
def wine_and_blobs(run: Run, case: str) -> float:
    """A class with a `fit` method of its own, and a schedule per step."""
    import torch
    from torch import nn

    share = [0.85, 0.08, 0.04, 0.03] if case == "unbalanced" else [0.25] * 4
    rng = run.rng
    centres = rng.normal(size=(4, 12)) * 1.1
    y = rng.choice(4, 900, p=share)
    x = (centres[y] + 0.8 * rng.normal(size=(900, 12))).astype("float32")
    xt, yt, x, y = x[:300], y[:300], x[300:], y[300:]
    if case == "noisy_labels":
        y = np.where(rng.random(len(y)) < 0.3, rng.integers(0, 4, len(y)), y)
    if case == "sorted_learned":
        order = np.argsort(y + rng.uniform(-1.2, 1.2, len(y)))
        x, y = x[order], y[order]
    if case == "label_offset":
        y = np.roll(y, 1)

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 40), nn.GELU())
            self.head = nn.Linear(40, 4)

        def forward(self, x):
            return self.head(self.body(x))

        def fit(self, x, y, steps=240, batch=24):
            x, y = torch.tensor(x), torch.tensor(y)
            if case in ("sgd", "clip"):
                opt = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
            else:
                opt = torch.optim.Adam(self.parameters(), lr=3e-3)
            warm = {"warmup": 1_000_000}.get(case, 30)
            plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / warm))
            monitor = run.watch(self, opt)
            for s in range(steps):
                at = (s * batch) % (len(x) - batch)
                i = torch.arange(at, at + batch) if case == "sorted_learned" else torch.randint(
                    0, len(x), (batch,))  # fmt: skip
                out = self(x[i])
                if case == "temperature":
                    out = out * 3e-4
                loss = nn.functional.cross_entropy(out, y[i])
                opt.zero_grad()
                loss.backward()
                if case == "clip":
                    nn.utils.clip_grad_norm_(self.parameters(), 1e-6)
                opt.step()
                plan.step()
                monitor.record(loss=loss)
            monitor.close()

    net = Classifier()
    net.fit(x, y)
    with torch.no_grad():
        logits = net(torch.tensor(xt)).numpy()
    hit = logits.argmax(1) == yt
    balanced = np.mean([hit[yt == k].mean() for k in range(4)])
    return float((balanced - 0.25) / 0.75)
