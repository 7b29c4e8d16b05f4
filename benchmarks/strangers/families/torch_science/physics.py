"""Differential equations: networks that solve them, learn them, or step a field forward."""

from __future__ import annotations

import numpy as np

from ...data import score
from ...program import fault, program
from ...run import Run


@program(
    adam=0.6,
    hard_start=0.6,
    sines=0.6,
    lbfgs=0.5,
    with_measurements=0.6,
    relu=fault("second derivative is zero", twin="hard_start"),
    no_start=fault("trivial solution"),
    tiny_rate=fault("rate too low"),
    time_in_milliseconds=fault("unscaled inputs"),
)
def pinn(run: Run, case: str) -> float:
    """A damped oscillation, u'' + 0.8 u' + 9 u = 0 with u(0) = 1 and u'(0) = 0."""
    import torch
    from torch import nn

    damping, stiffness = 0.4, 9.0
    omega = np.sqrt(stiffness - damping**2)
    unit = 1000.0 if case == "time_in_milliseconds" else 1.0

    def exact(t):
        t = t / unit
        return np.exp(-damping * t) * (np.cos(omega * t) + damping / omega * np.sin(omega * t))

    class Sine(nn.Module):
        def forward(self, x):
            return torch.sin(x)

    act = {"sines": Sine, "relu": nn.ReLU}.get(case, nn.Tanh)
    net = nn.Sequential(nn.Linear(1, 32), act(), nn.Linear(32, 32), act(), nn.Linear(32, 1))

    def u(t):
        if case in ("hard_start", "relu"):
            return 1 + (t / unit) ** 2 * net(t)
        return net(t)

    def residual(t):
        t = t.requires_grad_(True)
        value = u(t)
        (speed,) = torch.autograd.grad(value.sum(), t, create_graph=True)
        (acceleration,) = torch.autograd.grad(speed.sum(), t, create_graph=True)
        wanted = acceleration * unit**2 + 2 * damping * unit * speed + stiffness * value
        return (wanted**2).mean()

    def total(t):
        loss = 0.1 * residual(t)
        if case in ("hard_start", "relu", "no_start"):
            return loss
        zero = torch.zeros(1, 1, requires_grad=True)
        first = u(zero)
        (slope,) = torch.autograd.grad(first.sum(), zero, create_graph=True)
        loss = loss + 10 * ((first - 1) ** 2).mean() + (slope**2).mean()
        if case == "with_measurements":
            known = torch.linspace(0, 2, 9)[:, None]
            truth = torch.tensor(exact(known.numpy()), dtype=torch.float32)
            loss = loss + 5 * ((u(known) - truth) ** 2).mean()
        return loss

    rate = {"tiny_rate": 1e-7}.get(case, 1e-2)
    opt = torch.optim.Adam(net.parameters(), rate)
    if case == "lbfgs":
        opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, history_size=20)
    monitor = run.watch(net, opt)
    grid = torch.linspace(0, 2 * unit, 64)[:, None]
    for _ in range(80 if case == "lbfgs" else 350):
        if case == "lbfgs":

            def closure():
                opt.zero_grad()
                loss = total(grid.clone())
                loss.backward()
                return loss

            loss = opt.step(closure)
        else:
            loss = total(torch.rand(48, 1) * 2 * unit)
            opt.zero_grad()
            loss.backward()
            opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        return score("values", exact(grid.numpy()), u(grid).numpy())


@program(
    rk4=0.5,
    euler=0.5,
    cubes_as_features=0.5,
    short_pieces=0.4,
    rounded_for_export=fault("rounded away"),
    step_too_long=fault("solver step too long"),
    no_grad_solver=fault("no_grad"),
)
def neural_ode(run: Run, case: str) -> float:
    """A spiral y' = A y^3, its field learned through a solver that is written out."""
    import torch
    from torch import nn

    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])

    def solve(field, y, n, dt, euler=False):
        path = [y]
        for _ in range(n):
            a = field(y)
            if euler:
                y = y + dt * a
            else:
                b = field(y + dt / 2 * a)
                c = field(y + dt / 2 * b)
                y = y + dt / 6 * (a + 2 * b + 2 * c + field(y + dt * c))
            path.append(y)
        return torch.stack(path)

    with torch.no_grad():
        truth = solve(lambda y: y**3 @ matrix, torch.tensor([[2.0, 0.0]]), 400, 0.025)[:, 0]
    net = nn.Sequential(nn.Linear(2, 40), nn.Tanh(), nn.Linear(40, 2))
    if case == "rounded_for_export":
        net = net.bfloat16()

    def field(y):
        h = y**3 if case in ("cubes_as_features", "step_too_long") else y
        if case == "rounded_for_export":
            return net(h.bfloat16()).float()
        return net(h)

    opt = torch.optim.RMSprop(net.parameters(), 3e-6 if case == "rounded_for_export" else 3e-3)
    monitor = run.watch(net, opt)
    length = 4 if case == "short_pieces" else 10
    dt = 25.0 if case == "step_too_long" else 0.025
    for _ in range(220):
        start = torch.randint(0, 400 - length, (24,))
        wanted = torch.stack([truth[start + k] for k in range(length + 1)])
        with torch.set_grad_enabled(case != "no_grad_solver"):
            path = solve(field, truth[start], length, dt, case == "euler")
        if case == "no_grad_solver":
            path = path + 0 * sum(p.sum() for p in net.parameters())
        loss = (path - wanted).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    with torch.no_grad():
        wanted = truth[20:] - truth[:-20]
        moved = solve(field, truth[:-20], 20, 0.025)[-1] - truth[:-20]
    return score("values", wanted.numpy(), moved.numpy())


@program(
    periodic=0.6,
    kelvin_with_norm=0.5,
    unrolled=0.5,
    tiny_batches=0.5,
    root_of_negative=fault("NaN forward", step=88, twin="tiny_batches"),
    kelvin=fault("unscaled inputs"),
    zero_kernel=fault("symmetric start"),
)
def heat(run: Run, case: str) -> float:
    """A convolution predicts how a temperature field changes in a long step."""
    import torch
    from torch import nn

    rng = run.rng

    def fields(n):
        x = np.arange(32) * 2 * np.pi / 32
        k = rng.integers(1, 5, (n, 3, 1))
        waves = np.sin(k * x + rng.uniform(0, 6, (n, 3, 1)))
        return (rng.normal(size=(n, 3, 1)) * waves).sum(1)

    def step(u, n=12):
        for _ in range(n):
            u = u + 0.3 * (np.roll(u, 1, -1) + np.roll(u, -1, -1) - 2 * u) + 0.02 * np.tanh(3 * u)
        return u

    def tensor(u):
        return torch.tensor(u[:, None].astype("float32"))

    warm = 290.0 if case in ("kelvin", "kelvin_with_norm") else 0.0
    layers = [nn.Conv1d(1, 16, 5, padding=2, padding_mode="circular"), nn.ReLU(),
              nn.Conv1d(16, 16, 5, padding=2, padding_mode="circular"), nn.ReLU(),
              nn.Conv1d(16, 1, 5, padding=2, padding_mode="circular")]  # fmt: skip
    if case == "kelvin_with_norm":
        layers = [nn.BatchNorm1d(1), *layers]
    net = nn.Sequential(*layers)
    if case == "zero_kernel":
        for p in net.parameters():
            nn.init.zeros_(p)
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    if case in ("kelvin", "zero_kernel"):
        opt = torch.optim.SGD(net.parameters(), 0.05)
    monitor = run.watch(net, opt)
    for k in range(1, 151):
        now = fields(4 if case in ("tiny_batches", "root_of_negative") else 24)
        later = step(now)
        x = tensor(now + warm)
        if case == "root_of_negative" and k == 88:
            x = torch.sqrt(x)
        guess = net(x)
        loss = nn.functional.mse_loss(guess, tensor(later - now))
        if case == "unrolled":
            again = net(tensor(now) + guess)
            loss = loss + nn.functional.mse_loss(again, tensor(step(later) - later))
        opt.zero_grad()
        loss.backward()
        opt.step()
        monitor.record(loss=loss)
    net.eval()
    now = fields(100)
    with torch.no_grad():
        guess = net(tensor(now + warm))[:, 0].numpy()
    return score("values", step(now) - now, guess)
