"""Classifiers that a class of one's own trains: loaders, checkpoints, scalers, schedulers."""

from __future__ import annotations

from typing import Any

from ...data import accuracy, bundled, standardised
from ...program import fault, program
from ...run import Run


class Trainer:
    """Trains a network for some epochs, and keeps the best of its states."""

    zeroes = True

    def __init__(self, net: Any, optimizer: Any, monitor: Any, scheduler: Any = None) -> None:
        self.net, self.optimizer, self.monitor = net, optimizer, monitor
        self.scheduler = scheduler

    def fit(self, batches: Any, loss_of: Any, epochs: int, accumulate: int = 1) -> None:
        for _ in range(epochs):
            self.net.train()
            for number, (x, y) in enumerate(batches(), 1):
                loss = loss_of(self.net(x), y)
                (loss / accumulate).backward()
                if number % accumulate == 0:
                    self.optimizer.step()
                    if self.zeroes:
                        self.optimizer.zero_grad()
                    self.monitor.record(loss=loss.item())
            if self.scheduler is not None:
                self.scheduler.step()

    def validate(self, x: Any, y: Any) -> float:
        import torch

        self.net.eval()
        with torch.no_grad():
            return float((self.net(x).argmax(-1) == y).float().mean())


@program(
    plain=0.7,
    accumulates_four=0.6,
    best_state_at_the_end=0.7,
    smoothed_labels=0.7,
    warm_restarts=0.7,
    triplets_of_images=0.5,
    best_that_never_gets_better=fault("weights lost", 28),
    loss_made_anew=fault("detached"),
    two_shuffled_loaders=fault("inputs and targets out of order"),
    scheduler_each_batch=fault("rate decays to nothing", 4),
    never_zeroed=fault("gradients accumulate"),
    head_after_the_optimizer=fault("not in the optimizer"),
    pixels_over_255_twice=fault("scaled twice"),
    rate_of_a_paper=fault("rate too high"),
)
def digits(run: Run, case: str) -> float:
    """Digits by convolutions; the loop is in a class, the data in loaders."""
    import copy

    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.data import DataLoader, TensorDataset

    x, y, held, truth = bundled("digits", run.seed)
    scale = 16.0 * 255 * 255 if case == "pixels_over_255_twice" else 16.0
    x = torch.tensor(x / scale).reshape(-1, 1, 8, 8)
    held = torch.tensor(held / scale).reshape(-1, 1, 8, 8)
    y = torch.tensor(y)
    size = 16 if case == "triplets_of_images" else 48
    loader = DataLoader(TensorDataset(x, y), size, shuffle=True, drop_last=True)
    other = DataLoader(TensorDataset(y), size, shuffle=True, drop_last=True)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            )  # fmt: skip
            self.head = nn.Linear(96, 10)

        def forward(self, x):
            return self.head(self.features(x).flatten(1))

    net = Net()
    if case == "rate_of_a_paper":
        optimizer = torch.optim.SGD(net.parameters(), lr=5.0, momentum=0.9)
    elif case == "pixels_over_255_twice":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    elif case == "never_zeroed":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    if case == "head_after_the_optimizer":
        # The features stay as they are; the new head is not known to the optimizer.
        net.head = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 10))
        net.features.requires_grad_(False)
    scheduler = None
    if case == "warm_restarts":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3)
    elif case == "scheduler_each_batch":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.4)
    monitor = run.watch(net, optimizer)
    trainer = Trainer(net, optimizer, monitor, scheduler)

    def loss_of(out, labels):
        smoothing = 0.1 if case == "smoothed_labels" else 0.0
        loss = functional.cross_entropy(out, labels, label_smoothing=smoothing)
        if case == "loss_made_anew":
            loss = torch.tensor(loss.item(), requires_grad=True)
        if case == "scheduler_each_batch":
            scheduler.step()
        return loss

    def batches():
        if case == "two_shuffled_loaders":
            return zip((x for x, _ in loader), (y for (y,) in other), strict=True)
        return iter(loader)

    trainer.zeroes = case != "never_zeroed"
    epochs = {"accumulates_four": 16, "triplets_of_images": 4}.get(case, 9)
    best, state = -1.0, copy.deepcopy(net.state_dict())
    for _ in range(epochs):
        trainer.fit(batches, loss_of, 1, 4 if case == "accumulates_four" else 1)
        right = trainer.validate(held, torch.tensor(truth))
        if case == "best_that_never_gets_better":
            if right > 1.5:
                best, state = right, copy.deepcopy(net.state_dict())
            net.load_state_dict(state)
        elif right > best:
            best, state = right, copy.deepcopy(net.state_dict())
    if case == "best_state_at_the_end":
        net.load_state_dict(state)
    net.eval()
    with torch.no_grad():
        return accuracy(truth, net(held).numpy())


@program(
    scaler=0.7,
    bfloat16_everywhere=0.6,
    groups_of_rates=0.6,
    lion_by_hand=0.6,
    clipped_to_one=0.7,
    nesterov_and_warm_up=0.7,
    clipped_before_unscaled=fault("clipped to nothing"),
    halves_without_scaler=fault("rounded away"),
    bfloat16_and_tiny_rate=fault("rounded away"),
    group_with_rate_of_zero=fault("rate too low"),
    predictions_by_argmax=fault("detached"),
    labels_as_floats_of_one_column=fault("broadcasting"),
    norm_of_features_by_rows_std=fault("NaN in the data"),
    deep_sigmoids=fault("vanishing"),
)
def wines(run: Run, case: str) -> float:
    """Which grower a wine is from; scalers, halves and groups of parameters."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, held, truth = bundled("wine", run.seed)
    x, held = standardised(x, held)
    if case == "norm_of_features_by_rows_std":
        x[:, 3] = (x[:, 3] > 0) / (x[:, 3] > 9)
    x, y, held = torch.tensor(x), torch.tensor(y), torch.tensor(held)
    if case == "deep_sigmoids":
        layers = [nn.Linear(13, 24), nn.Sigmoid()]
        for _ in range(9):
            layers += [nn.Linear(24, 24), nn.Sigmoid()]
        net = nn.Sequential(*layers, nn.Linear(24, 3))
    else:
        net = nn.Sequential(
            nn.Linear(13, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 3),
        )  # fmt: skip
    if case in ("bfloat16_everywhere", "bfloat16_and_tiny_rate"):
        net, x, held = net.bfloat16(), x.bfloat16(), held.bfloat16()
    parameters, momenta = list(net.parameters()), {}
    if case == "bfloat16_and_tiny_rate":
        optimizer = torch.optim.AdamW(parameters, lr=1e-5, weight_decay=0.0)
    elif case in ("clipped_before_unscaled", "halves_without_scaler"):
        optimizer = torch.optim.SGD(parameters, lr=0.05)
    elif case in ("groups_of_rates", "group_with_rate_of_zero"):
        zero = case == "group_with_rate_of_zero"
        body = [p for layer in net[:-1] for p in layer.parameters()]
        groups = [
            {"params": body, "lr": 0.0 if zero else 1e-3},
            {"params": list(net[-1].parameters()), "lr": 1e-9 if zero else 1e-2},
        ]
        optimizer = torch.optim.Adam(groups)
    elif case == "nesterov_and_warm_up":
        optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
    elif case == "lion_by_hand":
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    if case == "nesterov_and_warm_up":
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=40)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=case in (
        "scaler", "clipped_before_unscaled"))  # fmt: skip
    monitor = run.watch(net, optimizer)
    for _ in range(240):
        rows = torch.randint(0, len(x), (24,))
        with torch.autocast("cpu", torch.float16, enabled=case == "scaler"):
            out = net(x[rows])
        labels = y[rows]
        if case == "predictions_by_argmax":
            guess = out.argmax(-1).float().requires_grad_()
            loss = functional.mse_loss(guess, labels.float())
        elif case == "labels_as_floats_of_one_column":
            # Answers of (24, 1) beside truths of (24,).
            loss = ((out[:, :1] - labels.float()) ** 2).mean()
        else:
            loss = functional.cross_entropy(out.float(), labels)
        if case == "halves_without_scaler":
            # What was to be scaled up is scaled down.
            scaler_of_mine = 2.0**-16
            loss = loss * scaler_of_mine
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if case in ("clipped_to_one", "clipped_before_unscaled"):
            nn.utils.clip_grad_norm_(parameters, 1.0)
        if case == "lion_by_hand":
            for each in parameters:
                kept = momenta.setdefault(each, torch.zeros_like(each))
                sign = (0.9 * kept + 0.1 * each.grad).sign()
                kept.mul_(0.99).add_(each.grad, alpha=0.01)
                each.grad.copy_(sign)
        scaler.step(optimizer)
        scaler.update()
        if case == "nesterov_and_warm_up":
            warm.step()
        monitor.record(loss=loss.item())
    net.eval()
    with torch.no_grad():
        out = net(held).float()
    if case == "labels_as_floats_of_one_column":
        out = -(out[:, :1] - torch.arange(3.0)).abs()
    return accuracy(truth, out.numpy())
