"""Pictures: where a thing is, and what was there before it was made smaller."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run


def _scenes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    """Noisy pictures with one rectangle, filled or hollow; its middle and size in [0, 1]."""
    images = 0.2 * rng.normal(size=(n, 1, 16, 16)).astype("float32")
    boxes, kinds = np.zeros((n, 4), "float32"), rng.integers(0, 2, n)
    for image, box, kind in zip(images[:, 0], boxes, kinds, strict=True):
        high, wide = rng.integers(4, 9, 2)
        top, left = rng.integers(0, 16 - high), rng.integers(0, 16 - wide)
        image[top : top + high, left : left + wide] += 1
        if kind:
            image[top + 1 : top + high - 1, left + 1 : left + wide - 1] -= 1
        box[:] = (left + wide / 2, top + high / 2, wide, high)
    return images, boxes / 16, kinds


@program(
    smooth=0.5,
    overlap=0.4,
    with_the_kind=0.5,
    normalised=0.5,
    flipped_with_their_boxes=0.4,
    pixels_by_a_sigmoid=fault("output cannot reach the targets"),
    pixels_by_sgd=fault("unscaled targets"),
    mean_over_the_picture=fault("information missing"),
    flipped_without_their_boxes=fault("augmentation breaks labels"),
    kind_a_million_times=fault("one loss drowns the other", twin="with_the_kind"),
    log_of_the_width=fault("NaN forward"),
    relu_after_all=fault("dead units"),
    only_the_head_held=fault("not in the optimizer"),
)
def boxes(run: Run, case: str) -> float:
    """Where the rectangle is, and how large."""
    import torch
    from torch import nn
    from torch.nn import functional

    images, corners, kinds = map(torch.tensor, _scenes(run.rng, 1300))
    if case in ("pixels_by_a_sigmoid", "pixels_by_sgd"):
        corners = corners * (16 if case == "pixels_by_a_sigmoid" else 16000)
    cut = 1100

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            norm = nn.BatchNorm2d if case == "normalised" else nn.Identity
            self.body = nn.Sequential(
                nn.Conv2d(1, 12, 3, 2, 1), norm(12), nn.ReLU(),
                nn.Conv2d(12, 24, 3, 2, 1), norm(24), nn.ReLU(),
            )  # fmt: skip
            size = 24 if case == "mean_over_the_picture" else 24 * 16
            self.middle = nn.Linear(size, 48)
            self.box, self.kind = nn.Linear(48, 4), nn.Linear(48, 2)
            if case == "relu_after_all":
                nn.init.constant_(self.box.bias, -2.0)

        def forward(self, images):
            h = self.body(images)
            h = h.mean((2, 3)) if case == "mean_over_the_picture" else h.flatten(1)
            h = self.middle(h).relu()
            box = self.box(h)
            if case == "relu_after_all":
                box = box.relu()
            elif case in ("pixels_by_a_sigmoid", "overlap"):
                box = box.sigmoid()
            return box, self.kind(h)

    net = Detector()
    if case == "pixels_by_sgd":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    elif case == "only_the_head_held":
        # The last layer starts anew in each lesson, and the list of the others was lost.
        nn.init.zeros_(net.middle.weight)
        optimizer = torch.optim.Adam(net.box.parameters(), lr=3e-3)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    for _ in range(220):
        rows = torch.randint(0, cut, (48,))
        seen, wanted = images[rows], corners[rows].clone()
        if case.startswith("flipped"):
            turn = torch.rand(48) < 0.5
            seen = torch.where(turn[:, None, None, None], seen.flip(3), seen)
            down = torch.rand(48) < 0.5
            seen = torch.where(down[:, None, None, None], seen.flip(2), seen)
            if case == "flipped_with_their_boxes":
                wanted[:, 0] = torch.where(turn, 1 - wanted[:, 0], wanted[:, 0])
                wanted[:, 1] = torch.where(down, 1 - wanted[:, 1], wanted[:, 1])
        box, kind = net(seen)
        if case == "overlap":
            low = torch.maximum(box[:, :2] - box[:, 2:] / 2, wanted[:, :2] - wanted[:, 2:] / 2)
            high = torch.minimum(box[:, :2] + box[:, 2:] / 2, wanted[:, :2] + wanted[:, 2:] / 2)
            both = (high - low).clamp(min=0).prod(1)
            either = box[:, 2:].prod(1) + wanted[:, 2:].prod(1) - both
            loss = (1 - both / either).mean() + 5 * functional.l1_loss(box, wanted)
        elif case == "log_of_the_width":
            loss = functional.mse_loss(box[:, :2], wanted[:, :2])
            loss = loss + functional.mse_loss(box[:, 2:].log(), wanted[:, 2:].log())
        elif case == "smooth":
            loss = functional.smooth_l1_loss(box, wanted, beta=0.1)
        else:
            loss = functional.mse_loss(box, wanted)
        if case in ("with_the_kind", "kind_a_million_times"):
            weight = 1e6 if case == "kind_a_million_times" else 0.05
            loss = loss + weight * functional.cross_entropy(kind, kinds[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    net.eval()
    with torch.no_grad():
        said = net(images[cut:])[0]
    return score("values", corners[cut:].numpy(), said.numpy())


@program(
    residual=0.2,
    from_nothing=0.2,
    absolute=0.2,
    transposed=0.2,
    edges_too=0.2,
    pixels_of_255=fault("unscaled targets", twin="from_nothing"),
    clamped=fault("output cannot reach the targets", twin="from_nothing"),
    data_attribute=fault("detached"),
    picture_of_another=fault("inputs and targets out of order"),
    sgd_rate_of_fifty=fault("rate too high"),
    all_ones=fault("symmetric start", twin="from_nothing"),
    noise_that_grows=fault("data goes wrong", 91),
)
def sharpen(run: Run, case: str) -> float:
    """Digits of 8 by 8 pixels from 4 by 4; 0 is as good as pixels drawn twice as large."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, _, held, _ = bundled("digits", run.seed)
    x, held = (torch.tensor(each.reshape(-1, 1, 8, 8) / 16) for each in (x, held))
    scale = 255.0 if case == "pixels_of_255" else 1.0

    class Larger(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 24, 3, 1, 1)
            if case == "transposed":
                self.last = nn.ConvTranspose2d(24, 1, 4, 2, 1)
            else:
                self.last = nn.Sequential(nn.Conv2d(24, 4, 3, 1, 1), nn.PixelShuffle(2))
            if case == "all_ones":
                for each in self.parameters():
                    nn.init.constant_(each, 0.02)
            if case == "clamped":
                nn.init.constant_(self.last[0].bias, -4.0)

        def forward(self, small):
            out = self.last(self.second(self.first(small).relu()).relu())
            if case == "clamped":
                out = out.clamp(0, 1)
            if case in ("from_nothing", "pixels_of_255", "clamped", "all_ones"):
                return out
            return out + functional.interpolate(small, scale_factor=2)

    net = Larger()
    if case == "sgd_rate_of_fifty":
        optimizer = torch.optim.SGD(net.parameters(), lr=50.0)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    monitor = run.watch(net, optimizer)
    for step in range(1, 221):
        rows = torch.randint(0, len(x), (32,))
        large = x[rows]
        small = functional.avg_pool2d(large, 2)
        if case == "picture_of_another":
            large = x[torch.randint(0, len(x), (32,))]
        elif case == "noise_that_grows" and step > 90:
            small = small * 40
        out = net(small)
        if case == "data_attribute":
            out = out.data.requires_grad_()
        difference = out - scale * large
        loss = difference.abs().mean() if case == "absolute" else difference.pow(2).mean()
        if case == "edges_too":
            loss = loss + 0.3 * difference.diff(dim=3).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        small = functional.avg_pool2d(held, 2)
        said = net(small) / scale
        rest = (said - held).pow(2).mean()
        plain = (functional.interpolate(small, scale_factor=2) - held).pow(2).mean()
    return max(-1.0, float(1 - rest / plain)) if rest.isfinite() else -1.0
