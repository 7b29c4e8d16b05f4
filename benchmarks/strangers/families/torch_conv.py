"""Convolutional networks in torch: plain ones and residual ones."""

from __future__ import annotations

import numpy as np

from ..data import accuracy, made, shapes
from ..program import fault, program
from ..run import Run


@program(
    plain=0.6,
    one_cycle=0.6,
    restarts=0.6,
    big_kernel=0.6,
    low_rate=fault("rate too low"),
    high_rate=fault("rate too high"),
    eval_mode=fault("norm in inference mode"),
    unscaled=fault("unscaled inputs"),
    shuffled=fault("labels shuffled"),
    softmax_axis=fault("softmax over the wrong axis"),
    frozen_by_hand=fault("no gradient required"),
)
def shape_net(run: Run, case: str) -> float:
    """A small ConvNet with batch normalization on drawn shapes."""
    import torch
    from torch import nn

    x, y = shapes(run.seed, 640)
    if case in ("unscaled", "eval_mode"):
        x = x * 255 + 3000
    x, y = torch.tensor(x)[:, None], torch.tensor(y)
    xt, yt, x, y = x[:200], y[:200], x[200:], y[200:]
    k = 5 if case == "big_kernel" else 3
    norm = (lambda c: nn.Identity()) if case == "unscaled" else nn.BatchNorm2d
    model = nn.Sequential(
        nn.Conv2d(1, 8, k, padding=k // 2), norm(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, k, padding=k // 2), norm(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 4),
    )  # fmt: skip
    if case == "softmax_axis":
        model.append(nn.Softmax(dim=0))
    if case == "frozen_by_hand":
        for p in [*model[0].parameters(), *model[4].parameters(), *model[9].parameters()]:
            p.requires_grad_(False)
    rate = {"low_rate": 1e-6, "high_rate": 3.0, "unscaled": 1e-2}.get(case, 5e-3)
    opt = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-2)
    plan = None
    if case == "one_cycle":
        plan = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=140)
    elif case == "restarts":
        plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 35)
    monitor = run.watch(model, opt)
    if case == "shuffled":
        y = y[torch.randperm(len(y))]
    model.train(case != "eval_mode")
    for _ in range(140):
        i = torch.randint(0, len(x), (32,))
        out = model(x[i])
        if case == "softmax_axis":
            loss = nn.functional.nll_loss(torch.log(out + 1e-9), y[i])
        else:
            loss = nn.functional.cross_entropy(out, y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if plan is not None:
            plan.step()
        monitor.record(loss=loss)
    model.eval()
    with torch.no_grad():
        # One image at a time, as the model is used later.
        out = torch.cat([model(each[None]) for each in xt])
    return accuracy(yt.numpy(), out.numpy())


@program(
    plain=0.7,
    group_norm=0.7,
    zero_init_residual=0.7,
    mixup=0.6,
    sgd_decay=0.7,
    no_skip_deep=fault("vanishing"),
    one_sample_norm=fault("norm of one sample"),
    decay=fault("weight decay"),
    no_zero_grad=fault("gradients accumulate", twin="sgd_decay"),
    explode=fault("exploding", twin="sgd_decay"),
)
def resnet(run: Run, case: str) -> float:
    """A tiny ResNet on digits."""
    import torch
    from torch import nn

    data = made("digits", run.seed, 700, image=True)
    x = torch.tensor(data.x).permute(0, 3, 1, 2)
    y = torch.tensor(data.y)
    xt = torch.tensor(data.judged_x).permute(0, 3, 1, 2)

    def norm(c):
        if case in ("explode", "no_skip_deep"):
            return nn.Identity()
        return nn.GroupNorm(4, c) if case == "group_norm" else nn.BatchNorm2d(c)

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(c, c, 3, padding=1), norm(c)
            self.conv2, self.bn2 = nn.Conv2d(c, c, 3, padding=1), norm(c)
            if case == "zero_init_residual":
                nn.init.zeros_(self.bn2.weight)
            for conv in (self.conv1, self.conv2):
                if case == "no_skip_deep":
                    nn.init.normal_(conv.weight, std=0.02)
                elif case == "explode":
                    nn.init.normal_(conv.weight, std=0.6)

        def forward(self, x):
            h = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(h if case == "no_skip_deep" else h + x)

    class ResNet(nn.Module):
        def __init__(self, c=12, blocks=2):
            super().__init__()
            self.stem = nn.Conv2d(1, c, 3, stride=2, padding=1)
            self.blocks = nn.Sequential(*(Block(c) for _ in range(blocks)))
            self.fc = nn.Linear(c, 10)

        def forward(self, x):
            h = self.blocks(torch.relu(self.stem(x)))
            if case == "one_sample_norm":
                h = nn.functional.instance_norm(h.mean((2, 3))[:, :, None, None].expand_as(h))
            return self.fc(h.amax((2, 3)))

    net = ResNet(blocks=5 if case == "no_skip_deep" else 2)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    if case in ("sgd_decay", "no_zero_grad", "explode"):
        opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    elif case == "decay":
        opt = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=1.0)
    monitor = run.watch(net, opt)
    for epoch in range(1, 7):
        for i in torch.randperm(len(x)).split(35):
            a, b = x[i], y[i]
            if case == "mixup":
                mix, other = float(np.random.beta(0.3, 0.3)), torch.randperm(len(i))
                out = net(mix * a + (1 - mix) * a[other])
                ce = nn.functional.cross_entropy
                loss = mix * ce(out, b) + (1 - mix) * ce(out, b[other])
            else:
                loss = nn.functional.cross_entropy(net(a), b)
            if case != "no_zero_grad":
                opt.zero_grad()
            loss.backward()
            opt.step()
            monitor.record(loss=loss, epoch=epoch)
    net.eval()
    with torch.no_grad():
        return accuracy(data.truth, net(xt).numpy())


@program(
    plain=0.5,
    bce_pixels=0.5,
    sparse=0.4,
    dead=fault("dead units", layer=("0/2", "0/3")),
    tanh_huge=fault("saturated", layer=("0/0", "0/1")),
    wrong_target=fault("inputs and targets out of order"),
    low_rate=fault("rate too low"),
)
def denoiser(run: Run, case: str) -> float:
    """A convolutional autoencoder that removes noise from digits."""
    import torch
    from torch import nn

    data = made("digit_pixels", run.seed, 600, noise=0.25)
    image = (-1, 1, 8, 8)
    x, y = torch.tensor(data.x).view(image), torch.tensor(data.y).view(image)
    if case == "wrong_target":
        y = y[torch.randperm(len(y))]
    act = nn.Tanh if case == "tanh_huge" else nn.ReLU
    encoder = nn.Sequential(nn.Conv2d(1, 12, 3, 2, 1), act(), nn.Conv2d(12, 24, 3, 2, 1), act())
    decoder = nn.Sequential(
        nn.ConvTranspose2d(24, 12, 2, 2), act(), nn.ConvTranspose2d(12, 1, 2, 2)
    )
    model = nn.Sequential(encoder, decoder)
    if case == "dead":
        nn.init.constant_(encoder[2].bias, -15.0)
    if case == "tanh_huge":
        nn.init.normal_(encoder[0].weight, std=80.0)
        nn.init.normal_(encoder[2].weight, std=80.0)
        nn.init.normal_(decoder[0].weight, std=80.0)
    opt = torch.optim.Adam(model.parameters(), lr=1e-6 if case == "low_rate" else 4e-3)
    monitor = run.watch(model, opt)
    for step in range(1, 181):
        i = torch.randint(0, len(x), (40,))
        code = encoder(x[i])
        out = decoder(code)
        if case == "bce_pixels":
            loss = nn.functional.binary_cross_entropy_with_logits(out, y[i])
        else:
            loss = (out - y[i]).pow(2).mean()
        if case == "sparse":
            loss = loss + 3e-3 * code.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss, step=step)
    with torch.no_grad():
        out = model(torch.tensor(data.judged_x).view(image))
    out = torch.sigmoid(out) if case == "bce_pixels" else out
    spread = ((data.truth - data.truth.mean(0)) ** 2).mean()
    return float(1 - ((out.view(-1, 64).numpy() - data.truth) ** 2).mean() / spread)
