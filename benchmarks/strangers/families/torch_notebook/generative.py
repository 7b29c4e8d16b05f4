"""What makes pictures and points: autoencoders, an adversary, denoising."""

from __future__ import annotations

import numpy as np

from ...data import bundled, score
from ...program import fault, program
from ...run import Run


@program(
    variational=0.25,
    warmed_up=0.25,
    plain=0.4,
    denoising=0.4,
    sparse=0.3,
    masked=0.4,
    pull_summed=fault("posterior collapse"),
    pictures_of_others=fault("inputs and targets out of order", twin="plain"),
    clipped_below=fault("output cannot reach the targets", twin="plain"),
    sigmoid_for_sixteen=fault("output cannot reach the targets", twin="plain"),
    code_of_one_sign=fault("dead units", twin="plain", layer=("encoder/2", "encoder/3")),
    only_the_decoder=fault("not in the optimizer", twin="variational"),
    decay_from_step_90=fault("decay sets in", 91, twin="plain"),
    penalty_of_thousand=fault("regularised to nothing", twin="sparse"),
    noise_instead_of_code=fault("information missing", twin="plain"),
)
def autoencoder(run: Run, case: str) -> float:
    """Digits through twelve numbers and back."""
    import torch
    from torch import nn
    from torch.nn import functional

    x, _, xt, _ = bundled("digits", run.seed)
    scale = 1.0 if case == "sigmoid_for_sixteen" else 16.0
    x, xt = torch.tensor(x / scale), torch.tensor(xt / scale)
    if case == "clipped_below":
        x, xt = (x - 0.9), (xt - 0.9)
    is_variational = case in ("variational", "warmed_up", "pull_summed", "only_the_decoder")
    twice = 2 if is_variational else 1

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12 * twice))
            if case in ("sparse", "penalty_of_thousand", "code_of_one_sign"):
                self.encoder.append(nn.ReLU())
            if case == "code_of_one_sign":
                nn.init.constant_(self.encoder[2].bias, -20.0)
            self.decoder = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64))
            if case == "clipped_below":
                self.decoder.append(nn.ReLU())
            elif case == "sigmoid_for_sixteen":
                self.decoder.append(nn.Sigmoid())

        def forward(self, v):
            code = self.encoder(v)
            pull = code.new_zeros(())
            if is_variational:
                mean, spread = code.chunk(2, 1)
                code = mean + torch.randn_like(mean) * (0.5 * spread).exp()
                pull = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(1).mean()
            if case == "noise_instead_of_code":
                code = torch.randn_like(code)
            return self.decoder(code), code, pull

    net = Net()
    held = net.decoder.parameters() if case == "only_the_decoder" else net.parameters()
    optimizer = torch.optim.AdamW(held, lr=3e-3, weight_decay=0.0)
    monitor = run.watch(net, optimizer)
    total = 200
    for step in range(1, total + 1):
        if case == "decay_from_step_90" and step > 90:
            optimizer.param_groups[0]["weight_decay"] = 100.0
        rows = torch.randint(0, len(x), (64,))
        clean = inputs = x[rows]
        if case == "denoising":
            inputs = clean + 0.2 * torch.randn_like(clean)
        elif case == "masked":
            inputs = clean * (torch.rand_like(clean) > 0.25)
        elif case == "pictures_of_others":
            clean = clean[torch.randperm(64)]
        out, code, pull = net(inputs)
        weight = {"warmed_up": 2e-3 * step / total, "pull_summed": 300.0}.get(case, 1e-3)
        loss = functional.mse_loss(out, clean) + weight * pull
        if case in ("sparse", "penalty_of_thousand"):
            loss = loss + (1e-4 if case == "sparse" else 1000.0) * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return score("values", xt.numpy(), net(xt)[0].numpy())


def covered(points) -> float:
    """How many of three places on a circle get points: 1 is all, 0 is one of them."""
    points = np.asarray(points, "float64")
    if not np.isfinite(points).all():
        return -1.0
    turn = np.arange(3) * 2 * np.pi / 3
    places = 2 * np.stack([np.cos(turn), np.sin(turn)], 1)
    distance = np.linalg.norm(points[:, None] - places, axis=2)
    near, which = distance.min(1) < 0.6, distance.argmin(1)
    share = np.bincount(which[near], minlength=3) / len(points)
    return float((np.sum(share > 0.05) - 1) / 2 * np.mean(near))


@program(
    usual=0.3,
    hinge=0.3,
    fakes_detached_for_both=fault("detached"),
    judge_of_great_rate=fault("discriminator wins"),
    maker_of_great_rate=fault("generator collapses"),
    code_of_zeros=fault("generator collapses"),
)
def adversary(run: Run, case: str) -> float:
    """Points on a circle, by a maker and a judge."""
    import torch
    from torch import nn
    from torch.nn import functional

    maker = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    judge = nn.Sequential(
        nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
    )
    rates = {"judge_of_great_rate": (1e-6, 0.03), "maker_of_great_rate": (0.5, 2e-3)}
    slow, fast = rates.get(case, (2e-3, 2e-3))
    betas = (0.5, 0.9)
    makes = torch.optim.Adam(maker.parameters(), lr=slow, betas=betas)
    judges = torch.optim.Adam(judge.parameters(), lr=fast, betas=betas)
    monitor = run.watch(maker, makes, group="maker")
    run.watch(judge, judges, group="judge")

    def real(n):
        turn = torch.randint(0, 3, (n,)) * 2 * np.pi / 3
        return 2 * torch.stack([turn.cos(), turn.sin()], 1) + 0.1 * torch.randn(n, 2)

    def code(n):
        return torch.zeros(n, 8) if case == "code_of_zeros" else torch.randn(n, 8)

    for _ in range(600):
        points, fakes = real(64), maker(code(64))
        yes, no = judge(points), judge(fakes.detach())
        if case == "hinge":
            loss_of_judge = functional.relu(1 - yes).mean() + functional.relu(1 + no).mean()
        else:
            loss_of_judge = (functional.softplus(-yes) + functional.softplus(no)).mean()
        judges.zero_grad()
        loss_of_judge.backward()
        judges.step()
        if case == "fakes_detached_for_both":
            fakes = fakes.detach()
        said = judge(fakes)
        loss_of_maker = -said.mean() if case == "hinge" else functional.softplus(-said).mean()
        makes.zero_grad()
        loss_of_maker.backward()
        makes.step()
        monitor.record(
            metrics={"judge_loss": loss_of_judge.item(), "maker_loss": loss_of_maker.item()}
        )
    with torch.no_grad():
        return covered(maker(code(600)).numpy())


@program(
    predicts_noise=0.25,
    predicts_clean=0.25,
    averaged=0.25,
    time_left_out=fault("information missing"),
    another_noise=fault("inputs and targets out of order"),
    noise_of_thousand=fault("unscaled inputs"),
    clamped_output=fault("output cannot reach the targets"),
)
def denoiser(run: Run, case: str) -> float:
    """Noise is taken off points on two arcs; what a constant cannot is the score."""
    import torch
    from torch import nn
    from torch.nn import functional

    turn = run.rng.uniform(0, np.pi, 2000)
    arc = run.rng.integers(0, 2, 2000)
    clean = np.stack([np.cos(turn) * (1 - 2 * arc) + arc, np.sin(turn) * (1 - 2 * arc)], 1)
    clean = torch.tensor(1.5 * (clean - clean.mean(0)), dtype=torch.float32)
    net = nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
    if case == "clamped_output":
        net.append(nn.ReLU())
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    slow = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98)
    )
    monitor = run.watch(net, optimizer)

    def corrupt(points):
        time, noise = torch.rand(len(points), 1), torch.randn_like(points)
        keep = torch.cos(time * np.pi / 2)
        strong = 1000.0 if case == "noise_of_thousand" else 1.0
        seen = keep * points + (1 - keep**2).sqrt() * noise * strong
        told = torch.zeros_like(time) if case == "time_left_out" else time
        return torch.cat([seen, torch.sin(3 * told), torch.cos(3 * told)], 1), noise

    for _ in range(300):
        points = clean[torch.randint(0, 1500, (96,))]
        inputs, noise = corrupt(points)
        if case == "another_noise":
            noise = torch.randn_like(noise)
        out = net(inputs)
        loss = functional.mse_loss(out, points if case == "predicts_clean" else noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        slow.update_parameters(net)
        monitor.record(loss=loss)
    answers = slow if case == "averaged" else net
    with torch.no_grad():
        points = clean[1500:]
        inputs, noise = corrupt(points)
        truth = points if case == "predicts_clean" else noise
        return score("values", truth.numpy(), answers(inputs).numpy())
