"""Torch loops with a NaN planted in them, and such as only look like it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

BATCH, FEATURES, STEPS = 16, 12, 200


class Trap(nn.Module):
    """Does something to its input at one of its calls in training."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        super().__init__()
        self.act, self.is_now = act, False

    def forward(self, x: Any) -> Any:
        return self.act(x) if self.is_now and self.training else x


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.is_now = False

    def forward(self, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, -1)
        mask = torch.zeros(x.shape[-2], x.shape[-2])
        mask[1:, 1] = -torch.inf
        if self.is_now:
            mask[2] = -torch.inf  # A row that may look at nothing.
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + mask, -1) @ v


class Masking(nn.Module):
    """Its mask is the output of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.mask, self.attend = Mask(), Attention(8)

    def forward(self, x: Any) -> Any:
        return self.attend(x) + torch.softmax(self.mask(x), -1).mean()


class Mask(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf)


class Unruly(nn.Module):
    """All in one module: parameters and functions, no layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(FEATURES, 8) * 0.3)
        self.b = nn.Parameter(torch.randn(8, 1) * 0.3)
        self.is_now = False

    def forward(self, x: Any) -> Any:
        hidden = torch.tanh(x @ self.a)
        if self.is_now:
            hidden = hidden + torch.log(hidden * 0) * 0
        return hidden @ self.b


class Named(nn.Module):
    """Layers by name, one after the other; a recurrent one returns its sequence."""

    def __init__(self, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Any) -> Any:
        for layer in self.children():
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x


class Tokens(nn.Module):
    def forward(self, x: Any) -> Any:
        return (x.abs() * 3).long().clamp(0, 19)


class Mean(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean(1)


class Steps(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.reshape(len(x), 4, 3)


def plain(**extra: nn.Module) -> nn.Module:
    return Named(
        first=nn.Linear(FEATURES, 16),
        tanh=nn.Tanh(),
        **extra,
        second=nn.Linear(16, 8),
        relu=nn.ReLU(),
        third=nn.Linear(8, 1),
    )


@dataclass(frozen=True)
class Loop:
    """A training with a plant: what it is, and what is bad first."""

    name: str
    kinds: tuple[str, ...]
    """The kinds that the first bad tensor may have; none if there must be no alarm."""
    path: str = ""
    """Contained in its path."""
    model: Callable[[], nn.Module] = plain
    optimizer: Callable[[Any], Any] = lambda p: torch.optim.Adam(p, 0.01)
    before: Callable[[Any, Any, Any], None] = lambda model, optimizer, batch: None
    """Plants: called at the step, before the forward pass, with x and y in a dict."""
    after: Callable[[Any, Any, Any], None] = lambda model, optimizer, batch: None
    """Undoes that, after the step."""
    loss: Callable[[Any, Any, bool], Any] = lambda out, y, now: ((out - y) ** 2).mean()
    how: Mapping[str, Any] = field(default_factory=dict)
    later: int = 0
    """Steps after that of the plant in which its first bad tensor is."""


def spring(model: Any, optimizer: Any, batch: Any) -> None:
    for module in model.modules():
        if hasattr(module, "is_now"):
            module.is_now = True


def close(model: Any, optimizer: Any, batch: Any) -> None:
    for module in model.modules():
        if hasattr(module, "is_now"):
            module.is_now = False


def trap(act: Callable[[Any], Any]) -> Callable[[], nn.Module]:
    return lambda: plain(trap=Trap(act))


def spoil(part: str, value: float = math.nan) -> Callable[[Any, Any, Any], None]:
    def act(model: Any, optimizer: Any, batch: Any) -> None:
        batch[part][3] = value

    return act


def set_rate(value: float) -> Callable[[Any, Any, Any], None]:
    def act(model: Any, optimizer: Any, batch: Any) -> None:
        optimizer.param_groups[0]["lr"] = value

    return act


def overwrite(path: str, value: float) -> Callable[[Any, Any, Any], None]:
    def act(model: Any, optimizer: Any, batch: Any) -> None:
        with torch.no_grad():
            model.state_dict()[path].view(-1)[1] = value

    return act


def spoil_moments(model: Any, optimizer: Any, batch: Any) -> None:
    optimizer.state[model.second.weight]["exp_avg"][0, 0] = math.nan


class Skips(torch.autograd.Function):
    """The identity; backwards an overflow, if it is told to."""

    @staticmethod
    def forward(ctx: Any, x: Any, now: bool) -> Any:
        ctx.now = now
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * (torch.inf if ctx.now else 1.0), None


log_of_zero = trap(lambda x: x + 0 * torch.log(x * 0))
FORWARD, BACKWARD = ("output",), ("output_gradient", "gradient")
SPRUNG: dict[str, Any] = {"before": spring, "after": close}
LOOPS = [
    Loop("nan in the input", ("input",), before=spoil("x")),
    Loop("inf in the input", ("input",), before=spoil("x", math.inf)),
    Loop("nan in the targets", ("target", "loss"), before=spoil("y")),
    Loop("log of 0 in a module", FORWARD, "trap", log_of_zero, **SPRUNG),
    Loop("inf before nan", FORWARD, "trap", trap(lambda x: torch.exp(x * 0 + 200)), **SPRUNG),
    Loop(
        "root of 0 backwards",
        BACKWARD,
        "tanh",
        trap(lambda x: x + torch.sqrt((x * 0).square()) * 0.01),
        **SPRUNG,
    ),
    Loop(
        "norm of 0 backwards",
        BACKWARD,
        "tanh",
        trap(lambda x: x + (x * 0).square().sum(-1, keepdim=True).sqrt()),
        **SPRUNG,
    ),
    Loop(
        "a where backwards",
        BACKWARD,
        "tanh",
        trap(lambda x: torch.where(x > -9, x, torch.log(x * 0))),
        **SPRUNG,
    ),
    Loop("a loss of its own", ("loss",), loss=lambda out, y, now: (
        ((out - y) ** 2).mean() + (torch.log(0 * out.mean().abs()) * 0 if now else 0)
    )),
    Loop("a loss that is nan backwards only", BACKWARD, "third", loss=lambda out, y, now: (
        ((out - y) ** 2).mean() + (torch.sqrt(((out * 0) ** 2).sum()) if now else 0)
    )),
    Loop("an infinite learning rate", ("weight", "update"), "first", before=set_rate(math.inf),
         after=set_rate(0.01), optimizer=lambda p: torch.optim.SGD(p, 0.01)),
    Loop(
        "adam without epsilon",
        ("weight", "update"),
        "second/weight",
        optimizer=lambda p: torch.optim.Adam(p, 0.01, eps=0.0),
        model=lambda: plain(),
        before=lambda model, optimizer, batch: optimizer.state[model.second.weight][
            "exp_avg_sq"
        ].zero_() if model.second.weight in optimizer.state else None,
        how={"zero": "second.weight"},
    ),
    Loop("moments of adam", ("weight", "update"), "second/weight", before=spoil_moments),
    Loop("weights overwritten", FORWARD, "second", before=overwrite("second.weight", math.nan)),
    Loop(
        "an embedding",
        FORWARD,
        "embed",
        lambda: Named(tokens=Tokens(), embed=nn.Embedding(20, 8), mean=Mean(), out=nn.Linear(8, 1)),
        before=lambda model, optimizer, batch: model.embed.weight.data.fill_(math.nan),
    ),
    Loop(
        "an lstm",
        FORWARD,
        "lstm",
        lambda: Named(steps=Steps(), lstm=nn.LSTM(3, 8, batch_first=True), mean=Mean(),
                      out=nn.Linear(8, 1)),
        before=overwrite("lstm.weight_hh_l0", math.nan),
    ),
    Loop(
        "a gru",
        FORWARD,
        "gru",
        lambda: Named(steps=Steps(), gru=nn.GRU(3, 8, batch_first=True), mean=Mean(),
                      out=nn.Linear(8, 1)),
        before=overwrite("gru.bias_hh_l0", math.nan),
    ),
    Loop(
        "a mask of minus infinity",
        FORWARD,
        "attend",
        lambda: Named(steps=Steps(), up=nn.Linear(3, 8), attend=Attention(8), mean=Mean(),
                      out=nn.Linear(8, 1)),
        **SPRUNG,
    ),
    Loop(
        "after masks that are usual",
        FORWARD,
        "attend",
        lambda: Named(steps=Steps(), up=nn.Linear(3, 8), masked=Masking(), mean=Mean(),
                      out=nn.Linear(8, 1)),
        **SPRUNG,
    ),
    Loop("a module without layers", FORWARD, "unruly", Unruly, **SPRUNG),
    Loop(
        "a batch normalization in evaluation mode",
        FORWARD,
        "norm",
        lambda: plain(norm=nn.BatchNorm1d(16)),
        before=overwrite("norm.running_var", math.nan),
        how={"eval": "norm"},
    ),
    Loop("accumulated, in the second part", FORWARD, "trap", log_of_zero, **SPRUNG,
         how={"parts": 4}),
    Loop("clipped", FORWARD, "trap", log_of_zero, **SPRUNG, how={"clip": True}),
    Loop("clipped, bad backwards", BACKWARD, "tanh",
         trap(lambda x: x + torch.sqrt((x * 0).square()) * 0.01), **SPRUNG, how={"clip": True}),
    Loop("autocast to bfloat16", FORWARD, "trap", log_of_zero, **SPRUNG, how={"autocast": True}),
    Loop("recorded before the step", FORWARD, "trap", log_of_zero, **SPRUNG,
         how={"record": "before"}),
    Loop("never recorded", FORWARD, "trap", log_of_zero, **SPRUNG, how={"record": "never"}),
    Loop("ends at the nan", FORWARD, "trap", log_of_zero, **SPRUNG, how={"break": True}),
    Loop("ends at the nan of a loss", ("loss",), how={"break": True}, loss=lambda out, y, now: (
        ((out - y) ** 2).mean() + (torch.log(0 * out.mean().abs()) * 0 if now else 0)
    )),
    Loop("ends before the step, at the nan of a loss", ("loss",), how={"break": "early"},
         loss=lambda out, y, now: (
        ((out - y) ** 2).mean() + (torch.log(0 * out.mean().abs()) * 0 if now else 0)
    )),
    Loop("ends before the step", FORWARD, "trap", log_of_zero, **SPRUNG, how={"break": "early"}),
    Loop("evaluates each step", FORWARD, "trap", log_of_zero, **SPRUNG, how={"evaluate": True}),
    Loop("steps are skipped by the loop", FORWARD, "trap", log_of_zero, **SPRUNG,
         how={"skip": True}),
    Loop("scaled, a true nan", FORWARD, "trap", log_of_zero, **SPRUNG, how={"scaler": True}),
    Loop("checkpointed", FORWARD, "trap", log_of_zero, **SPRUNG, how={"checkpoint": True}),
    Loop("lbfgs", FORWARD, "trap", log_of_zero, optimizer=lambda p: torch.optim.LBFGS(p, 0.01, 2),
         **SPRUNG, how={"closure": True}),
    # Healthy.
    Loop("healthy: a metric only", (), how={"metric": math.nan}),
    Loop("healthy: a scaler skips", (), model=trap(lambda x: Skips.apply(x, True)), **SPRUNG,
         how={"scaler": True}),
    Loop("healthy: a scaler begins too high", (), how={"scaler": True, "scale": 2.0**120}),
    Loop("healthy: masks", (), model=lambda: Named(
        steps=Steps(), up=nn.Linear(3, 8), attend=Attention(8), mean=Mean(), out=nn.Linear(8, 1))),
    Loop("healthy: nan in evaluation", (), **SPRUNG, how={"bad evaluation": True}),
]  # fmt: skip
