"""Digits and shapes; at some step something changes."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, shapes
from ...program import fault, program
from ...run import Run


@program(
    plain=0.6,
    sgd=0.6,
    milestones=0.6,
    warm_restarts=0.6,
    unfreezing=0.5,
    new_head=0.5,
    other_data=0.5,
    noise_grows=0.5,
    larger_batches=0.6,
    rate_jump=fault("rate jump", step=71, twin="sgd"),
    nan_batch=fault("NaN in the data", step=88),
    labels_shuffled=fault("labels go wrong", step=51),
    zeroed=fault("layer zeroed", step=96, layer=("2", "3")),
    frozen=fault("frozen in mid-training", step=7),
    units_die=fault("units die", step=81, layer=("2", "3")),
    clipped_away=fault("clipped to nothing", step=9, twin="sgd"),
    dropout_of_all=fault("dropout of everything", step=9),
    spike=fault("spike", step=141, twin="sgd"),
    decay=fault("decay sets in", step=61),
    loss_sign=fault("wrong sign", step=91),
    inputs_rescaled=fault("data goes wrong", step=101, twin="sgd"),
)
def digits(run: Run, case: str) -> float:
    import torch
    from torch import nn

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, y = torch.tensor(x / 16), torch.tensor(xt / 16), torch.tensor(y)
    begins = {
        "rate_jump": 71, "nan_batch": 88, "labels_shuffled": 51, "zeroed": 96, "frozen": 7,
        "units_die": 81, "clipped_away": 9, "dropout_of_all": 9, "spike": 141, "decay": 61,
        "loss_sign": 91, "inputs_rescaled": 101, "unfreezing": 61, "new_head": 81,
        "other_data": 81, "noise_grows": 71, "larger_batches": 51,
    }.get(case, 0)  # fmt: skip
    net = nn.Sequential(
        nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(48, 5 if case == "new_head" else 10),
    )  # fmt: skip
    if case == "unfreezing":
        net[0].requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), 3e-3, weight_decay=0.01)
    if case in ("sgd", "rate_jump", "clipped_away", "spike", "milestones", "inputs_rescaled"):
        opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    schedule = None
    if case == "milestones":
        schedule = torch.optim.lr_scheduler.MultiStepLR(opt, [60, 110], 0.1)
    elif case == "warm_restarts":
        opt.param_groups[0]["lr"] = 0.01
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 40)
    monitor = run.watch(net, opt)
    size = 32
    for step in range(1, 151):
        if step == begins:
            if case == "rate_jump":
                opt.param_groups[0]["lr"] = 200.0
            elif case == "frozen":
                for p in net.parameters():
                    p.requires_grad = False
            elif case == "unfreezing":
                net[0].requires_grad_(True)
            elif case == "units_die":
                nn.init.constant_(net[2].bias, -100.0)
            elif case == "dropout_of_all":
                net[4].p = 1.0
            elif case == "decay":
                opt.param_groups[0]["weight_decay"] = 100.0
            elif case == "new_head":
                net[5] = nn.Linear(48, 10)
                opt.add_param_group({"params": net[5].parameters()})
            elif case == "larger_batches":
                size = 128
        after = begins and step >= begins
        if case == "zeroed" and after:
            with torch.no_grad():
                net[2].weight.zero_(), net[2].bias.zero_()
        i = torch.randint(0, len(x), (size,))
        batch, target = x[i], y[i]
        if case == "new_head" and not after:
            target = target % 5
        elif case == "other_data" and after:
            batch = batch.flip(1)
        elif case == "noise_grows" and after:
            batch = batch + 0.3 * torch.randn_like(batch)
        elif case == "nan_batch" and step == begins:
            batch[4, 9] = torch.nan
        elif case == "labels_shuffled" and after:
            target = target[torch.randperm(size)]
        elif case == "spike" and step == begins:
            batch, target = batch * 3e3, (target + 1) % 10
        elif case == "inputs_rescaled" and after:
            batch = batch * 255
        loss = nn.functional.cross_entropy(net(batch), target)
        if case == "loss_sign" and after:
            loss = -loss
        opt.zero_grad()
        if loss.requires_grad:
            loss.backward()
        if case == "clipped_away" and after:
            nn.utils.clip_grad_norm_(net.parameters(), 1e-9)
        opt.step()
        if schedule:
            schedule.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(yt, net(xt.flip(1) if case == "other_data" else xt).numpy())


@program(
    plain=0.5,
    checkpoint=0.5,
    grows=0.4,
    fast=0.4,
    swapped_classes=0.4,
    norms_in_eval=fault("norm in inference mode", step=4, twin="fast"),
    blank=fault("inputs lost", step=66),
    first_layer_lost=fault("weights lost", step=112, layer="stem"),
    exploding_layer=fault("weights lost", step=76, layer="deep"),
    overflow=fault("overflow", step=71),
)
def pictures(run: Run, case: str) -> float:
    """Shapes for a convolutional network with batch normalisation."""
    import torch
    from torch import nn

    images, kinds = shapes(run.seed, 800)
    x, y = torch.tensor(images)[:, None], torch.tensor(kinds)
    xt, x, yt, y = x[:200], x[200:], y[:200], y[200:]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.deep = nn.Conv2d(1, 12, 3), nn.Conv2d(12, 16, 3, 2)
            self.norm, self.norm_2 = nn.BatchNorm2d(12), nn.BatchNorm2d(16)
            self.head = nn.Linear(16 * 16, 4)

        def forward(self, x):
            h = torch.relu(self.norm(self.stem(x)))
            h = torch.relu(self.norm_2(self.deep(h)))
            return self.head(h.flatten(1))

    net = Net()
    rate = 0.3 if case in ("fast", "norms_in_eval") else 0.05
    opt = torch.optim.SGD(net.parameters(), rate, momentum=0.9)
    monitor = run.watch(net, opt)
    for step in range(1, 121):
        i = torch.randint(0, len(x), (32,))
        batch, target = x[i], y[i]
        scale = 1.0
        if case == "checkpoint" and step == 60:
            # As after a restart: momentum is lost.
            opt.state.clear()
        elif case == "grows" and step <= 50:
            batch = torch.nn.functional.avg_pool2d(batch, 3, 1, 1)
        elif case == "swapped_classes" and step <= 60:
            target = 3 - target
        elif case == "norms_in_eval" and step == 4:
            net.eval()
        elif case == "blank" and step >= 66:
            batch = 40 + 0 * batch
        elif case == "first_layer_lost" and step >= 112:
            with torch.no_grad():
                net.stem.weight.normal_(0, 1)
        elif case == "exploding_layer" and step >= 76:
            with torch.no_grad():
                net.deep.weight.mul_(1).add_(50 * torch.randn_like(net.deep.weight))
        elif case == "overflow" and step >= 71:
            scale = 1e30**2
        loss = nn.functional.cross_entropy(net(batch) * np.float32(scale), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    with torch.no_grad():
        return accuracy(yt.numpy(), net(xt).numpy())
