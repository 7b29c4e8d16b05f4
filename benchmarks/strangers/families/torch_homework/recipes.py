"""How a network is trained: schedules, averages, half precision; and how it is made small."""

from __future__ import annotations

from ...data import accuracy, bundled, standardised
from ...program import fault, program
from ...run import Run


@program(
    one_cycle=0.7,
    cosine_after_warm_up=0.7,
    average_of_the_end=0.7,
    half_precision=0.7,
    mixed_up=0.6,
    four_at_a_time=0.6,
    one_label_in_four_wrong=0.5,
    dropout_of_three_quarters=0.6,
    whole_data_each_step=0.6,
    step_lr_each_batch=fault("rate decays to nothing", 3),
    one_cycle_to_thirty=fault("rate too high"),
    warm_up_of_a_million=fault("warm-up without end"),
    zero_grad_after_backward=fault("zeroed before the step"),
    decay_of_five=fault("weight decay"),
    clipped_by_value=fault("clipped to nothing"),
    softmax_and_cross_entropy_of_logs=fault("NaN forward"),
    mixed_up_labels_only=fault("labels shuffled"),
    first_batch_again=fault("one batch only"),
    column_without_spread=fault("NaN in the data"),
    not_scaled=fault("unscaled inputs"),
    halves_overflow=fault("overflow"),
)
def tumours(run: Run, case: str) -> float:
    """Whether a tumour is malign, by 30 measures; and the recipes of the year."""
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, held, truth = bundled("breast_cancer", run.seed)
    if case == "column_without_spread":
        x[:, 4] = held[:, 4] = 1.0
        x, held = (x - x.mean(0)) / x.std(0), (held - held.mean(0)) / held.std(0)
        x[:, 4] = np.float32(0) / x[:, 4] if np.isfinite(x[:, 4]).all() else x[:, 4]
    elif case == "not_scaled":
        x, held = 100 * x, 100 * held
    else:
        x, held = standardised(x, held)
    if case == "one_label_in_four_wrong":
        wrong = run.rng.random(len(y)) < 0.25
        y = np.where(wrong, 1 - y, y)
    x, y, held = torch.tensor(x), torch.tensor(y), torch.tensor(held)

    def make():
        return nn.Sequential(
            nn.Linear(30, 48), nn.ReLU(),
            nn.Dropout(0.75 if case == "dropout_of_three_quarters" else 0.1),
            nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2),
        )  # fmt: skip

    net, steps = make(), 200
    if case in ("zero_grad_after_backward", "not_scaled", "decay_of_five", "clipped_by_value"):
        decay = 5.0 if case == "decay_of_five" else 0.0
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=decay)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedules = torch.optim.lr_scheduler
    if case in ("one_cycle", "one_cycle_to_thirty"):
        top = 30.0 if case == "one_cycle_to_thirty" else 1e-2
        schedule = schedules.OneCycleLR(optimizer, max_lr=top, total_steps=steps)
    elif case == "cosine_after_warm_up":
        warm = schedules.LinearLR(optimizer, 0.01, total_iters=50)
        cosine = schedules.CosineAnnealingLR(optimizer, steps - 50)
        schedule = schedules.SequentialLR(optimizer, [warm, cosine], [50])
    elif case == "step_lr_each_batch":
        schedule = schedules.StepLR(optimizer, step_size=1, gamma=0.1)
    elif case == "warm_up_of_a_million":
        schedule = schedules.LambdaLR(optimizer, lambda step: (step + 1) / 1e6)
    else:
        schedule = schedules.ConstantLR(optimizer, 1.0)
    average = torch.optim.swa_utils.AveragedModel(net)
    monitor = run.watch(net, optimizer)
    size = {"four_at_a_time": 4, "whole_data_each_step": len(x)}.get(case, 32)
    for step in range(1, steps + 1):
        rows = torch.randperm(len(x))[:size]
        if case == "first_batch_again":
            rows = torch.arange(3)
        inputs, labels = x[rows], y[rows]
        if case == "mixed_up":
            other, share = torch.randperm(size), float(run.rng.beta(0.4, 0.4))
            inputs = share * inputs + (1 - share) * inputs[other]
            out = net(inputs)
            loss = share * functional.cross_entropy(out, labels)
            loss = loss + (1 - share) * functional.cross_entropy(out, labels[other])
        elif case == "mixed_up_labels_only":
            loss = functional.cross_entropy(net(inputs), labels[torch.randperm(size)])
        elif case == "softmax_and_cross_entropy_of_logs":
            # Sure of itself, and then the log of a zero times a zero.
            shares = (60 * net(inputs)).softmax(-1)
            wanted = functional.one_hot(labels, 2).float()
            loss = -(wanted * shares.log()).sum(-1).mean()
        elif case in ("half_precision", "halves_overflow"):
            kind = torch.float16 if case == "halves_overflow" else torch.bfloat16
            with torch.autocast("cpu", kind):
                out = net(inputs * (1e5 if case == "halves_overflow" else 1))
            loss = functional.cross_entropy(out.float(), labels)
        else:
            loss = functional.cross_entropy(net(inputs), labels)
        if case == "zero_grad_after_backward":
            loss.backward()
            optimizer.zero_grad(set_to_none=False)
        else:
            optimizer.zero_grad()
            loss.backward()
        if case == "clipped_by_value":
            nn.utils.clip_grad_value_(net.parameters(), 1e-7)
        optimizer.step()
        schedule.step()
        if case == "average_of_the_end" and step > 120:
            average.update_parameters(net)
        monitor.record(loss=loss.item())
    judged = average if case == "average_of_the_end" else net
    judged.eval()
    with torch.no_grad():
        return accuracy(truth, judged(held).numpy())


@program(
    eight_bits=0.6,
    four_bits=0.6,
    signs=0.4,
    pruned_by_half=0.6,
    pruned_step_by_step=0.6,
    round_as_it_is=fault("detached"),
    step_of_the_wrong_side=fault("bad start"),
    pruned_to_nothing=fault("layer zeroed", 101),
    scale_of_zero=fault("NaN forward", 101),
    mask_of_gradients=fault("clipped to nothing"),
)
def small(run: Run, case: str) -> float:
    """Digits by weights of few bits, and by few weights."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, y, held, truth = bundled("digits", run.seed)
    x, y, held = torch.tensor(x[:900] / 16), torch.tensor(y[:900]), torch.tensor(held / 16)
    bits = {"four_bits": 4, "round_as_it_is": 4, "step_of_the_wrong_side": 4}.get(case, 8)

    class Small(nn.Linear):
        mask, scale = 1.0, None

        def forward(self, x):
            weight = self.weight
            if case in ("pruned_by_half", "pruned_step_by_step", "pruned_to_nothing"):
                return functional.linear(x, weight * self.mask, self.bias)
            largest = weight.detach().abs().max()
            if self.scale is not None:
                largest = self.scale
            if case == "signs":
                few = weight.sign() * weight.detach().abs().mean()
            else:
                size = largest / (2 ** (bits - 1) - 1)
                if case == "step_of_the_wrong_side":
                    size = largest * 2 ** (bits - 1)
                few = (weight / size).round() * size
            if case == "step_of_the_wrong_side":
                few = few + 0.0 * weight
            elif case != "round_as_it_is":
                few = weight + (few - weight).detach()
            return functional.linear(x, few, self.bias)

    net = nn.Sequential(Small(64, 48), nn.ReLU(), Small(48, 48), nn.ReLU(), Small(48, 10))
    layers = [each for each in net if isinstance(each, Small)]
    if case == "mask_of_gradients":
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    monitor = run.watch(net, optimizer)
    for step in range(1, 221):
        share = {"pruned_by_half": 0.5 * (step > 100), "pruned_to_nothing": float(step > 100),
                 "pruned_step_by_step": min(0.8, step / 200)}.get(case, 0.0)  # fmt: skip
        if share and step % 10 == 1:
            for layer in layers:
                sizes = layer.weight.detach().abs()
                layer.mask = (sizes > sizes.flatten().quantile(share)).float()
        if case == "scale_of_zero" and step == 101:
            layers[1].scale = torch.zeros(())
        rows = torch.randint(0, len(x), (48,))
        loss = functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        if case == "mask_of_gradients":
            # The smallest ones are to be left out; all but the smallest are.
            for each in net.parameters():
                each.grad[each.grad.abs() > 1e-6] = 0
        optimizer.step()
        monitor.record(loss=loss.item())
    with torch.no_grad():
        return accuracy(truth, net(held).numpy())
