"""Random loops in plain torch, for `gradwatch.watch`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.keras.twins.loops import Loop

_TORCH = """
import torch, numpy as np
from torch import nn
class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.same = nn.Identity()
    def forward(self, x):
        return x + self.inner(x) + self.same(x)
class Recurrent(nn.Module):
    def __init__(self, width, units):
        super().__init__()
        self.lstm = nn.LSTM(width, units, batch_first=True)
    def forward(self, x):
        return self.lstm(x.unsqueeze(1))[1][0][-1]
class Bias(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(units))
    def forward(self):
        return self.bias
class Shifted(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.of = Bias(units)
    def forward(self, x):
        return x + self.of() + self.of()
def train(make, sees=False, change=lambda array: array):
    torch.manual_seed(4)
    net = nn.Sequential({layers})
    optimizer = torch.optim.{optimizer}
    x, y = torch.randn(8, 5) * {scale}, {target}
    loss_fn = {loss}
    monitor = make and make(net, optimizer)
    losses = []
    {loop}
    if monitor is not None: monitor.close()
    arrays = {{k: v.detach().numpy().copy() for k, v in net.state_dict().items()}}
    for i, state in enumerate(optimizer.state.values()):
        tensors = {{k: v for k, v in state.items() if torch.is_tensor(v)}}
        arrays |= {{f'{{i}} {{k}}': v.detach().numpy().copy() for k, v in tensors.items()}}
    return losses, arrays | {{'random': torch.rand(3).numpy()}}
"""
_TORCH_LOOPS = {
    "plain": """
    for n in range(4):
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        {clip}
        optimizer.step()
        if monitor is not None: monitor.record(loss=loss)
        losses.append(float(loss))
""",
    "accumulated": """
    for n in range(3):
        optimizer.zero_grad()
        for half in (slice(0, 4), slice(4, 8)):
            with torch.autocast('cpu', torch.bfloat16, enabled={autocast}):
                loss = loss_fn(net(x[half]).float(), y[half]) / 2
            loss.backward()
        {clip}
        optimizer.step()
        losses.append(float(loss))
""",
    "closure": """
    def closure():
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        return loss
    for n in range(3):
        losses.append(float(optimizer.step(closure)))
""",
    "scaled": """
    scaler = torch.amp.GradScaler('cpu', init_scale=1024.0, growth_interval=2)
    for n in range(3):
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss))
""",
}


_OPTIMIZERS = (
    "SGD({}, lr=0.1)", "SGD({}, lr=0.1, momentum=0.9, nesterov=True)",
    "Adam({}, lr=0.01, foreach=False)", "Adam({}, lr=0.01, foreach=True)",
    "AdamW({}, lr=0.01, fused=True)", "RMSprop({})", "Adagrad({})", "NAdam({})", "RAdam({})",
    "Adamax({})", "ASGD({})", "Adafactor({})", "Rprop({})", "Adadelta({})",
)  # fmt: skip


@st.composite
def torch_loops(draw: Any) -> Loop:
    width, layers = 5, []
    for _ in range(draw(st.integers(0, 4))):
        units, same = draw(st.integers(1, 6)), f"nn.Linear({width}, {width})"
        layer, width = draw(
            st.sampled_from(
                [
                    (f"nn.Linear({width}, {units})", units),
                    (f"nn.Sequential(nn.Linear({width}, {units}), nn.ReLU(inplace=True))", units),
                    (
                        f"nn.Sequential(nn.Linear({width}, {units}), nn.Tanh(), nn.Identity())",
                        units,
                    ),
                    ("nn.ReLU()", width),
                    ("nn.Dropout(0.4)", width),
                    ("nn.Identity()", width),
                    (f"nn.LayerNorm({width})", width),
                    (f"nn.BatchNorm1d({width})", width),
                    (f"Residual({same})", width),
                    (f"Residual(nn.Sequential({same}, nn.GELU(), nn.Dropout(0.2)))", width),
                    (f"Recurrent({width}, {units})", units),
                    (f"Shifted({width})", width),
                    (f"nn.utils.parametrizations.weight_norm(nn.Linear({width}, {units}))", units),
                ]
            )
        )
        layers.append(layer)
    classes = draw(st.integers(2, 3))
    layers.append(f"nn.Linear({width}, {classes})")
    loss, target = draw(
        st.sampled_from(
            [
                ("nn.MSELoss()", f"torch.randn(8, {classes})"),
                ("nn.CrossEntropyLoss()", f"torch.randint(0, {classes}, (8,))"),
                ("nn.BCEWithLogitsLoss()", f"torch.randint(0, 2, (8, {classes})).float()"),
                ("nn.SmoothL1Loss()", f"torch.randn(8, {classes})"),
            ]
        )
    )
    way = draw(st.sampled_from(list(_TORCH_LOOPS)))
    optimizers = list(_OPTIMIZERS)
    if way == "closure":
        optimizers = ["LBFGS({}, lr=0.5, max_iter=3)", *optimizers[:3]]
    clips = [
        "pass",
        "nn.utils.clip_grad_norm_(net.parameters(), 0.1)",
        "nn.utils.clip_grad_value_(net.parameters(), 0.01)",
    ]
    body = _TORCH.format(
        layers=", ".join(layers),
        optimizer=draw(st.sampled_from(optimizers)).format("net.parameters()"),
        scale=draw(st.sampled_from(["1.0", "1e-12", "1e4", "float('nan')"])),
        loss=loss,
        target=target,
        loop=_TORCH_LOOPS[way]
        .format(clip=draw(st.sampled_from(clips)), autocast=draw(st.booleans()))
        .strip(),
    )
    return Loop(body, is_exact=True)
