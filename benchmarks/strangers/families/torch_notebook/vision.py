"""Pictures: a small residual network, a base that is tuned, a student of a teacher."""

from __future__ import annotations

import numpy as np

from ...data import accuracy, bundled, shapes
from ...program import fault, program
from ...run import Run


@program(
    plain=0.5,
    cosine=0.5,
    noisy_labels=0.4,
    hundred_pictures=0.3,
    autocast=0.5,
    smoothed_and_clipped=0.5,
    warm_restarts=0.5,
    large_batch=0.3,
    heavy_dropout=0.4,
    dark_pictures=fault("unscaled inputs"),
    softmax_of_the_batch=fault("softmax over the wrong axis"),
    labels_of_the_file_order=fault("inputs and targets out of order"),
    clipped_to_1e_5=fault("clipped to nothing"),
    decay_of_three=fault("weight decay"),
    only_biases=fault("not in the optimizer"),
    rate_of_a_billionth=fault("rate too low"),
    adam_rate_of_one=fault("rate too high"),
    sorted_by_class=fault("unshuffled"),
    cosine_over_ten_steps=fault("rate decays to nothing"),
    overflowing_exposure=fault("NaN forward", 81),
    weights_loaded_again=fault("weights lost", 101),
    huge_start=fault("bad start"),
    minus_before_the_loss=fault("wrong sign"),
)
def digits(run: Run, case: str) -> float:
    """A small residual network on scans of digits."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt = (torch.tensor(v.reshape(-1, 1, 8, 8) / 16) for v in (x, xt))
    y = torch.tensor(y)
    if case == "hundred_pictures":
        x, y = x[:100], y[:100]
    elif case == "noisy_labels":
        wrong = torch.rand(len(y)) < 0.3
        y = torch.where(wrong, torch.randint(0, 10, y.shape), y)
    elif case == "labels_of_the_file_order":
        x = x[torch.randperm(len(x))]
    elif case == "dark_pictures":
        x, xt = x / 1e5, xt / 1e5
    elif case == "sorted_by_class":
        order = y.argsort(stable=True)
        x, y = x[order], y[order]

    class Block(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.conv1 = nn.Conv2d(size, size, 3, padding=1)
            self.conv2 = nn.Conv2d(size, size, 3, padding=1)

        def forward(self, h):
            return functional.relu(h + self.conv2(functional.relu(self.conv1(h))))

    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), Block(16), nn.MaxPool2d(2), Block(16),
        nn.Flatten(), nn.Dropout(0.7 if case == "heavy_dropout" else 0.1), nn.Linear(256, 10),
    )  # fmt: skip
    if case == "huge_start":
        for each in net.modules():
            if isinstance(each, (nn.Linear, nn.Conv2d)):
                nn.init.normal_(each.weight, std=3.0)
    start = {k: v.clone() for k, v in net.state_dict().items()}
    rate = {"rate_of_a_billionth": 1e-9, "adam_rate_of_one": 1.0}.get(case, 2e-3)
    if case == "only_biases":
        named = [p for n, p in net.named_parameters() if n.endswith("6.bias")]
        optimizer = torch.optim.Adam(named, lr=rate)
    elif case == "decay_of_three":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=3.0)
    elif case in ("clipped_to_1e_5", "dark_pictures", "huge_start"):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    size = 256 if case == "large_batch" else 32
    total = 60 if case == "large_batch" else 150
    schedule = None
    if case in ("cosine", "cosine_over_ten_steps"):
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda s: 0.5 + 0.5 * np.cos(np.pi * min(1, s / (10 if "ten" in case else total))),
        )
    elif case == "warm_restarts":
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 40)
    monitor = run.watch(net, optimizer)
    step = 0
    while step < total:
        order = torch.randperm(len(x)) if case != "sorted_by_class" else torch.arange(len(x))
        for rows in order.split(size):
            step += 1
            if step > total:
                break
            inputs = x[rows]
            if case == "overflowing_exposure" and step > 80:
                inputs = torch.log(inputs - 0.5)
            if case == "weights_loaded_again" and step == 101:
                net.load_state_dict({k: torch.randn_like(v) for k, v in start.items()})
            with torch.autocast("cpu", torch.bfloat16, enabled=case == "autocast"):
                out = net(inputs)
                smoothing = 0.1 if case == "smoothed_and_clipped" else 0.0
                if case == "softmax_of_the_batch":
                    loss = functional.nll_loss(functional.log_softmax(out, 0), y[rows])
                else:
                    loss = functional.cross_entropy(out, y[rows], label_smoothing=smoothing)
            if case == "minus_before_the_loss":
                loss = -loss
            optimizer.zero_grad()
            loss.backward()
            if case in ("smoothed_and_clipped", "clipped_to_1e_5"):
                limit = 1.0 if case == "smoothed_and_clipped" else 1e-5
                nn.utils.clip_grad_norm_(net.parameters(), limit)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            monitor.record(loss=float(loss.detach()))
    net.eval()
    with torch.no_grad():
        return accuracy(yt, net(xt).numpy())


@program(
    head_only=0.4,
    unfrozen_at_60=0.5,
    two_rates=0.5,
    base_in_eval=0.4,
    forgets_to_unfreeze_anything=fault("all frozen"),
    new_head_after_the_optimizer=fault("not in the optimizer"),
    features_under_no_grad_and_relu_head=fault("dead units", layer=("head/0", "head/1")),
    unfrozen_at_a_thousandfold_rate=fault("rate jump", 61, twin="unfrozen_at_60"),
    head_of_one_class=fault("labels shuffled"),
)
def tuned(run: Run, case: str) -> float:
    """Features from shapes of one kind serve to tell others: base and head."""
    import torch
    from torch import nn
    from torch.nn import functional

    images, kinds = shapes(run.seed, 900)
    x, y = torch.tensor(images)[:, None], torch.tensor(kinds)
    base = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
    )  # fmt: skip
    # A base that somebody has trained: a few steps on the other half.
    first = nn.Sequential(base, nn.Linear(216, 2))
    teach = torch.optim.Adam(first.parameters(), lr=3e-3)
    for _ in range(40):
        rows = torch.randint(0, 400, (64,))
        functional.cross_entropy(first(x[rows]), (y[rows] > 1).long()).backward()
        teach.step()
        teach.zero_grad()
    x, y = x[300:], y[300:]
    cut = 450
    head = nn.Sequential(nn.Linear(216, 32), nn.ReLU(), nn.Linear(32, 4))
    if case == "features_under_no_grad_and_relu_head":
        nn.init.constant_(head[0].bias, -40.0)
    net = nn.ModuleDict({"base": base, "head": head})
    base.requires_grad_(case == "two_rates")
    if case == "forgets_to_unfreeze_anything":
        net.requires_grad_(False)
        head[2].bias.requires_grad_(True)
    if case == "two_rates":
        optimizer = torch.optim.Adam(
            [{"params": base.parameters(), "lr": 2e-4}, {"params": head.parameters(), "lr": 3e-3}]
        )
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    if case == "new_head_after_the_optimizer":
        net["head"] = head = nn.Sequential(nn.Linear(216, 32), nn.ReLU(), nn.Linear(32, 4))
    truth = torch.randint(0, 4, y.shape) if case == "head_of_one_class" else y

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.base, self.head = net["base"], net["head"]

        def forward(self, images):
            return self.head(self.base(images))

    whole = Whole()
    monitor = run.watch(whole, optimizer)
    for step in range(1, 141):
        if step == 61 and case.startswith("unfrozen"):
            base.requires_grad_(True)
            if case == "unfrozen_at_a_thousandfold_rate":
                optimizer.param_groups[0]["lr"] = 3.0
        whole.train()
        if case == "base_in_eval":
            whole.base.eval()
        rows = torch.randint(0, cut, (32,))
        loss = functional.cross_entropy(whole(x[rows]), truth[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    whole.eval()
    with torch.no_grad():
        return accuracy(y[cut:].numpy(), whole(x[cut:]).numpy())


@program(
    from_teacher=0.4,
    hot=0.4,
    teacher_of_noise=fault("labels shuffled"),
    student_detached=fault("detached"),
    probabilities_for_logs=fault("logits or not"),
)
def student(run: Run, case: str) -> float:
    """A small network learns what a large one says."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, xt, yt = bundled("digits", run.seed)
    x, xt, y = torch.tensor(x / 16), torch.tensor(xt / 16), torch.tensor(y)
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    teach = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(150):
        rows = torch.randint(0, len(x), (64,))
        functional.cross_entropy(teacher(x[rows]), y[rows]).backward()
        teach.step()
        teach.zero_grad()
    teacher.eval().requires_grad_(False)
    net = nn.Sequential(nn.Linear(64, 24), nn.GELU(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    heat = 4.0 if case == "hot" else 2.0
    monitor = run.watch(net, optimizer)
    for _ in range(160):
        rows = torch.randint(0, len(x), (64,))
        said = teacher(x[rows])
        if case == "teacher_of_noise":
            said = said[torch.randperm(len(said))]
        out = net(x[rows])
        if case == "student_detached":
            out = net[2](net[1](net[0](x[rows])).detach())
        logs = functional.log_softmax(out / heat, 1)
        if case == "probabilities_for_logs":
            logs = functional.softmax(out / heat, 1)
        loss = heat**2 * functional.kl_div(
            logs, functional.softmax(said / heat, 1), reduction="batchmean"
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return accuracy(yt, net(xt).numpy())
