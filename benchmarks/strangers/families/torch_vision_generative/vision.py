"""A residual network that tells shapes, and a U-Net that finds their pixels."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, shapes
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    pre_activation=0.5,
    group_norm=0.5,
    sgd_steps=0.5,
    zero_gamma=0.5,
    mixup=0.4,
    deep_plain_sigmoid=fault("vanishing"),
    high_rate=fault("rate too high", twin="sgd_steps"),
    dead_stem=fault("dead units", layer="stem"),
    norm_of_one_value=fault("norm of one sample"),
    shuffled=fault("labels shuffled"),
    frozen=fault("not in the optimizer"),
    unnormalised=fault("exploding"),
    nan_backward=fault("NaN backward", step=46),
)
def resnet(run: Run, case: str) -> float:
    import torch
    from torch import nn

    images, kinds = shapes(run.seed, 900)
    x, y = torch.tensor(images)[:, None], torch.tensor(kinds)
    xt, x, yt, y = x[:200], x[200:], y[:200], y[200:]
    if case == "shuffled":
        y = y[torch.randperm(len(y))]
    act = nn.Sigmoid() if case == "deep_plain_sigmoid" else nn.ReLU()

    def norm(width):
        if case in ("unnormalised", "deep_plain_sigmoid"):
            return nn.Identity()
        return nn.GroupNorm(4, width) if case == "group_norm" else nn.BatchNorm2d(width)

    class Block(nn.Module):
        def __init__(self, into, width, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(into, width, 3, stride, 1)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
            self.norm1, self.norm2 = norm(into if case == "pre_activation" else width), norm(width)
            self.skip = nn.Conv2d(into, width, 1, stride) if into != width else nn.Identity()
            if case == "zero_gamma":
                nn.init.zeros_(self.norm2.weight)
            if case == "unnormalised":
                for conv in (self.conv1, self.conv2):
                    nn.init.normal_(conv.weight, std=0.6)

        def forward(self, x):
            if case == "pre_activation":
                return self.skip(x) + self.conv2(act(self.norm2(self.conv1(act(self.norm1(x))))))
            h = self.norm2(self.conv2(act(self.norm1(self.conv1(x)))))
            return act(h) if case == "deep_plain_sigmoid" else act(h + self.skip(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(1, 12, 3, 1, 1)
            more = 5 if case == "deep_plain_sigmoid" else 1
            self.body = nn.Sequential(
                *[Block(12, 12) for _ in range(more)], Block(12, 24, 2), Block(24, 24)
            )
            self.last = nn.GroupNorm(24, 24) if case == "norm_of_one_value" else nn.Identity()
            self.head = nn.Linear(24, 4)
            self.steps = 0
            if case == "dead_stem":
                nn.init.constant_(self.stem.bias, -40.0)
                self.body[0].skip = nn.Conv2d(12, 12, 1)

        def forward(self, x):
            h = act(self.stem(x))
            h = self.body(h)
            self.steps += self.training
            if case == "nan_backward" and self.training and self.steps == 46:
                h.register_hook(lambda gradient: gradient * torch.nan)
            return self.head(self.last(h.mean((2, 3))))

    net = ResNet()
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    if case == "sgd_steps":
        opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True)
    elif case == "high_rate":
        opt = torch.optim.SGD(net.parameters(), 60.0, momentum=0.9)
    elif case == "unnormalised":
        opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    elif case == "frozen":
        opt = torch.optim.Adam(net.stem.parameters(), 1e-3)
    steps = torch.optim.lr_scheduler.MultiStepLR(opt, [70, 105], 0.1)
    monitor = run.watch(net, opt)
    ce = nn.CrossEntropyLoss()
    for _ in range(130):
        i = torch.randint(0, len(x), (32,))
        if case == "mixup":
            j, share = i[torch.randperm(32)], float(np.random.beta(0.3, 0.3))
            out = net(share * x[i] + (1 - share) * x[j])
            loss = share * ce(out, y[i]) + (1 - share) * ce(out, y[j])
        else:
            loss = ce(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if case == "sgd_steps":
            steps.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(yt.numpy(), net(xt).numpy())


@program(
    plain=0.5,
    dice=0.5,
    instance_norm=0.5,
    masks_elsewhere=fault("inputs and targets out of order"),
    tiny_rate=fault("rate too low"),
    relu_logits=fault("output cannot reach the targets"),
    sgd=0.4,
    spike=fault("spike", step=95, twin="sgd"),
)
def unet(run: Run, case: str) -> float:
    """Which pixels are bright, under noise and a shading."""
    import torch
    from torch import nn
    from torch.nn import functional as F  # noqa: N812

    clean = shapes(run.seed, 500)[0]
    mask = (clean > 0.5).astype("float32")
    slope = np.linspace(0, 1, 12)[None, None] * run.rng.normal(size=(500, 1, 1))
    x = torch.tensor((clean + 0.3 * run.rng.normal(size=clean.shape) + slope).astype("float32"))[
        :, None
    ]
    y = torch.tensor(mask)[:, None]
    xt, x, yt, y = x[:100], x[100:], y[:100], y[100:]
    if case == "masks_elsewhere":
        y = y.roll(1, 0)

    def conv(a, b):
        norm = nn.InstanceNorm2d(b, affine=True) if case == "instance_norm" else nn.BatchNorm2d(b)
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), norm, nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2 = conv(1, 8), conv(8, 16)
            self.middle = conv(16, 16)
            self.up2, self.up1 = conv(32, 8), conv(16, 8)
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = F.interpolate(self.middle(F.max_pool2d(b, 2)), scale_factor=2)
            d = F.interpolate(self.up2(torch.cat((b, c), 1)), scale_factor=2)
            out = self.out(self.up1(torch.cat((a, d), 1)))
            if case == "relu_logits":
                return -F.relu(out + 3)
            return out

    net = UNet()
    opt = torch.optim.Adam(net.parameters(), 1e-7 if case == "tiny_rate" else 5e-3)
    if case in ("sgd", "spike"):
        opt = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
    monitor = run.watch(net, opt)
    for step in range(1, 101):
        i = torch.randint(0, len(x), (16,))
        batch, wanted = x[i], y[i]
        if case == "spike" and step == 95:
            wanted = wanted * -3000
        out = net(batch)
        loss = F.binary_cross_entropy_with_logits(out, wanted)
        if case == "dice":
            p = out.sigmoid()
            loss = loss + 1 - 2 * (p * wanted).sum() / (p.sum() + wanted.sum() + 1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        out = net(xt)
    truth, answer = yt.numpy().reshape(-1), out.numpy().reshape(-1)
    if not np.isfinite(answer).all():
        return -1.0
    found = (answer > 0) & (truth > 0)
    return float(found.sum() / max(1, ((answer > 0) | (truth > 0)).sum()))
