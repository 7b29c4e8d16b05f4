"""Pictures of digits in torch loops, with what people add to them, and what goes wrong then."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    bf16=0.5,
    accumulated=0.5,
    averaged=0.5,
    mixed_up=0.5,
    random_stem=0.5,
    one_cycle=0.5,
    resumed=0.5,
    sharpness_aware=0.5,
    tiny_loss=0.5,
    softmax_in_forward=fault("two softmaxes", twin="gentle"),
    gentle=0.4,
    logits_in_percent=fault("temperature", twin="gentle"),
    flipped_without_labels=fault("inputs and targets out of order"),
    first_batch_again=fault("one batch only"),
    statistics_at_rest=fault("norm statistics lag"),
    dropout_of_995=fault("too much dropout"),
    head_replaced_later=fault("not in the optimizer"),
    decays_each_batch=fault("rate decays to nothing"),
    clipped_to_a_millionth=fault("clipped to nothing"),
    decay_for_rate=fault("weight decay"),
    rate_of_ten=fault("rate jump", 91),
    black_picture=fault("NaN in the data", 70),
    pruned_to_nothing=fault("layer zeroed", 81, layer=("features.3", "features/3")),
    loss_as_a_number=fault("detached"),
)
def digits(run: Run, case: str) -> float:
    """Which digit a picture shows."""
    import torch
    from torch import nn

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = (torch.tensor(v.reshape(-1, 1, 8, 8) / 16) for v in (x, xt))
    y = torch.tensor(y)
    features = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip
    if case == "statistics_at_rest":
        features[1].momentum = features[4].momentum = 1e-6
    drop = nn.Dropout(0.995 if case == "dropout_of_995" else 0.2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features, self.drop = features, drop
            self.head = nn.Linear(512, 10)

        def forward(self, inputs):
            out = self.head(self.drop(self.features(inputs)))
            if case == "softmax_in_forward":
                out = out.softmax(1)
            elif case == "logits_in_percent":
                out = out / 1000
            return out

    net = Net()
    if case == "random_stem":
        net.features.requires_grad_(False)
    elif case == "head_replaced_later":
        # Pretrained features, of which nothing shall change.
        net.features.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    if case in ("softmax_in_forward", "logits_in_percent", "gentle"):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    elif case == "clipped_to_a_millionth":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    elif case == "decay_for_rate":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1.0)
    if case == "head_replaced_later":
        net.head = nn.Linear(512, 10)
    scheduler = None
    if case == "one_cycle":
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=176)
    elif case == "decays_each_batch":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.3)
    average = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.97), use_buffers=True
    )
    monitor = run.watch(net, optimizer)
    step, generator = 0, torch.Generator().manual_seed(run.seed)
    for epoch in range(1, 9):
        for rows in torch.randperm(len(x), generator=generator).split(62):
            step += 1
            if case == "first_batch_again":
                rows = torch.arange(20)
            inputs, truth = x[rows], y[rows]
            if case == "flipped_without_labels":
                inputs = inputs[torch.randperm(len(inputs))]
            elif case == "black_picture":
                # Each picture has mean 0 and deviation 1, but one is black.
                inputs = inputs.clone()
                if step == 70:
                    inputs[5] = 0
                middle, spread = inputs.mean((1, 2, 3)), inputs.std((1, 2, 3))
                inputs = (inputs - middle[:, None, None, None]) / spread[:, None, None, None]
            elif case == "rate_of_ten" and step == 91:
                optimizer.param_groups[0]["lr"] = 10.0
            elif case == "pruned_to_nothing" and step > 80:
                # The mask was made with > for <.
                nn.init.zeros_(net.features[3].weight)
            elif case == "resumed" and step == 81:
                # From a checkpoint that has the weights only.
                optimizer.state.clear()
            if case == "mixed_up":
                share, other = np.random.beta(0.4, 0.4), torch.randperm(len(rows))
                inputs = share * inputs + (1 - share) * inputs[other]
            with torch.autocast("cpu", torch.bfloat16, enabled=case == "bf16"):
                out = net(inputs)
            out = out.float()
            loss = nn.functional.cross_entropy(out, truth)
            if case == "mixed_up":
                loss = share * loss + (1 - share) * nn.functional.cross_entropy(out, truth[other])
            if case == "accumulated":
                (loss / 4).backward()
                if step % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    monitor.record(loss=loss, epoch=epoch)
                continue
            optimizer.zero_grad()
            if case == "loss_as_a_number":
                torch.tensor([loss.item()], requires_grad=True).sum().backward()
            else:
                (loss * 1e-5 if case == "tiny_loss" else loss).backward()
            if case == "clipped_to_a_millionth":
                nn.utils.clip_grad_norm_(net.parameters(), 1e-6)
            elif case == "sharpness_aware":
                _climb(net)
                nn.functional.cross_entropy(net(inputs), truth).backward()
                _come_back(net)
            optimizer.step()
            average.update_parameters(net)
            if scheduler is not None and (step <= 176):
                scheduler.step()
            hits = (out.argmax(1) == truth).float().mean()
            scale = 1e-5 if case == "tiny_loss" else 1
            monitor.record(loss=scale * loss.item(), metrics={"accuracy": hits.item()})
    asked = average if case == "averaged" else net
    asked.eval()
    with torch.no_grad():
        return accuracy(yt, asked(xt).numpy())


def _climb(net):
    """To where the loss is worst, nearby."""
    import torch

    size = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
    for p in net.parameters():
        p.away = 0.05 * p.grad / (size + 1e-12)
        p.data.add_(p.away)
        p.grad = None


def _come_back(net):
    for p in net.parameters():
        p.data.sub_(p.away)
