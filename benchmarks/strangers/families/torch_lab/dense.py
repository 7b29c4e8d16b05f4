"""An answer for each pixel, and several answers for each picture."""

from __future__ import annotations

import numpy as np

from ...program import fault, program
from ...run import Run


def _cells(rng: np.random.Generator, n: int, side: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Pictures with one to three round cells, and which pixels are of them."""
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    images, masks = rng.normal(size=(n, side, side)) * 0.3, np.zeros((n, side, side))
    for mask in masks:
        for _ in range(rng.integers(1, 4)):
            centre, radius = rng.uniform(2, side - 2, 2), rng.uniform(1.5, 3)
            mask[((grid - centre[:, None, None]) ** 2).sum(0) < radius**2] = 1
    images += masks * rng.uniform(0.6, 1.2, (n, 1, 1))
    return images.astype("float32")[:, None], masks.astype("float32")[:, None]


@program(
    crossed=0.4,
    dice=0.4,
    dice_and_crossed=0.4,
    weighted=0.3,
    dice_of_a_threshold=fault("detached"),
    softmax_over_the_one_channel=fault("softmax over one unit"),
    masks_up_to_255=fault("targets out of range"),
    picture_is_turned_alone=fault("augmentation breaks labels"),
    background_weighs_all=fault("class weights wrong"),
    biases_of_minus_fifty=fault("dead units"),
)
def cells(run: Run, case: str) -> float:
    """Which pixels are of cells, by a small U; the score is the overlap."""
    import torch
    from torch import nn
    from torch.nn import functional

    images, masks = (torch.tensor(each) for each in _cells(run.rng, 500))
    if case == "masks_up_to_255":
        masks = 255 * masks

    def block(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(),
        )  # fmt: skip

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.low, self.last = block(1, 8), block(8, 16), block(24, 8)
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x):
            high = self.first(x)
            low = self.low(functional.max_pool2d(high, 2))
            low = functional.interpolate(low, scale_factor=2)
            return self.out(self.last(torch.cat([high, low], 1)))

    net = Small()
    if case == "biases_of_minus_fifty":
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d) and layer is not net.out:
                nn.init.constant_(layer.bias, -50.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    monitor = run.watch(net, optimizer)

    def overlap(shares, truth):
        both = (shares * truth).sum((1, 2, 3))
        return 1 - ((2 * both + 1) / (shares.sum((1, 2, 3)) + truth.sum((1, 2, 3)) + 1)).mean()

    for _ in range(180):
        rows = torch.randint(0, 400, (24,))
        x, truth = images[rows], masks[rows]
        if case == "picture_is_turned_alone":
            x = x.flip(3).transpose(2, 3)
        out = net(x)
        if case == "dice_of_a_threshold":
            loss = overlap((out.sigmoid() > 0.5).float().requires_grad_(), truth)
        elif case == "softmax_over_the_one_channel":
            loss = functional.binary_cross_entropy(out.softmax(1), truth)
        elif case == "dice":
            loss = overlap(out.sigmoid(), truth)
        else:
            heavy = {"weighted": 4.0, "background_weighs_all": 1e-4}.get(case)
            heavy = None if heavy is None else torch.tensor(heavy)
            loss = functional.binary_cross_entropy_with_logits(out, truth, pos_weight=heavy)
            if case == "dice_and_crossed":
                loss = loss + overlap(out.sigmoid(), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        said, truth = net(images[400:]) > 0, masks[400:] > 0
    if case == "softmax_over_the_one_channel":
        said = torch.ones_like(said)
    both, either = (said & truth).sum(), (said | truth).sum()
    guess = truth.float().mean()
    return float((both / either - guess) / (1 - guess))


@program(
    summed=0.4,
    uncertainty_weighs=0.4,
    one_after_the_other=0.4,
    gradients_scaled=0.4,
    size_in_microns=fault("one loss drowns the other"),
    second_loss_overwrites=fault("detached"),
    tilts_of_other_pictures=fault("inputs and targets out of order"),
    weight_below_zero=fault("loss without a floor"),
)
def counts(run: Run, case: str) -> float:
    """How many cells, and how bright the picture is; the score is of the worse answer."""
    import torch
    from torch import nn
    from torch.nn import functional

    rng = run.rng
    images, masks = _cells(rng, 800)
    area = masks.mean((1, 2, 3))
    size = (area - area.mean()) / area.std()
    tilt = rng.integers(0, 3, len(images))
    flat, ramp = np.zeros((16, 16)), np.linspace(-1, 1, 16)
    ramps = np.stack([flat, flat + ramp[:, None], flat + ramp])
    images = images + 0.6 * ramps[tilt][:, None].astype("float32")
    if case == "size_in_microns":
        size = 1e4 * size
    images, tilt = torch.tensor(images).float(), torch.tensor(tilt)
    size = torch.tensor(size).float()
    net = nn.ModuleDict({
        "trunk": nn.Sequential(nn.Flatten(), nn.Linear(256, 64), nn.ReLU()),
        "size": nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)),
        "tilt": nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3)),
        "logs": nn.ParameterList([torch.zeros(()), torch.zeros(())]),
    })  # fmt: skip
    if case != "uncertainty_weighs":
        del net["logs"]
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    monitor = run.watch(net, optimizer)
    for step in range(300):
        rows = torch.randint(0, 600, (48,))
        h = net["trunk"](images[rows])
        first = functional.mse_loss(net["size"](h).squeeze(1), size[rows])
        labels = tilt[rows.flip(0)] if case == "tilts_of_other_pictures" else tilt[rows]
        second = functional.cross_entropy(net["tilt"](h), labels)
        if case == "uncertainty_weighs":
            a, b = net["logs"]
            loss = first * (-a).exp() + a + second * (-b).exp() + b
        elif case == "one_after_the_other":
            loss = first if step % 2 else second
        elif case == "second_loss_overwrites":
            loss = second
        elif case == "gradients_scaled":
            loss = 0.01 * (first + second)
        elif case == "weight_below_zero":
            loss = second - 0.5 * first
        else:
            loss = first + second
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        h = net["trunk"](images[600:])
        said = net["size"](h).squeeze(1)
        error = float(((said - size[600:]) ** 2).mean() / size[600:].var())
        right = float((net["tilt"](h).argmax(1) == tilt[600:]).float().mean())
    return min(1 - error, (right - 1 / 3) * 1.5)
