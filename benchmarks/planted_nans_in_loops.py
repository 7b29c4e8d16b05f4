"""Plants NaN in torch loops, and asks the default monitor where it began.

Each loop runs bare and under `watch(model, optimizer, directory)`. The finding must name the step
and the tensor that the NaN was planted in, and all parameters and buffers must be equal, bit by
bit, afterwards. Loops that only look like it, as one whose loss scaler skips a step, must have no
alarm.

    python benchmarks/planted_nans_in_loops.py [--only NAME] [--steps 1,23,137,200]
"""

import argparse
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gradwatch
from gradwatch.diagnosis import diagnose
from gradwatch.sinks import pipeline

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

NOT_AT_ONCE = ("moments of adam", "adam without epsilon", "after masks that are usual")


def train(loop: Loop, at: int, directory: Path | None) -> tuple[list[Any], Any]:
    """Returns the parameters and buffers, and the monitor."""
    torch.manual_seed(1)
    how = loop.how
    model = loop.model()
    optimizer = loop.optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=how.get("scale", 2.0**10), growth_interval=50)
    always = torch.randn(BATCH, FEATURES)
    monitor = None
    if directory is not None:
        monitor = gradwatch.watch(model, optimizer, directory, sinks=[gradwatch.Store()])
    for step in range(1, STEPS + 1):
        now = step == at
        x = always if how.get("closure") else torch.randn(BATCH, FEATURES)
        batch = {"x": x, "y": x[:, :1] * 2 + x[:, 1:2]}
        model.train()
        if "eval" in how:
            getattr(model, how["eval"]).eval()
        optimizer.zero_grad()
        if now and how.get("parts", 1) == 1 and "bad evaluation" not in how:
            loop.before(model, optimizer, batch)

        def compute(x: Any, y: Any, now: bool = now) -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=how.get("autocast", False)):
                if how.get("checkpoint"):
                    out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
                else:
                    out = model(x)
            return loop.loss(out, y, now)

        total = 0.0
        if how.get("closure"):

            def closure(batch: Any = batch) -> Any:
                optimizer.zero_grad()
                loss = compute(**batch)
                loss.backward()
                return loss

            total = optimizer.step(closure).detach()
        else:
            parts = how.get("parts", 1)
            for part in range(parts):
                if now and part == 1:
                    loop.before(model, optimizer, batch)
                loss = compute(**batch) / parts
                total = total + loss.detach()
                if how.get("break") == "early" and not torch.isfinite(loss):
                    break
                (scaler.scale(loss) if how.get("scaler") else loss).backward()
            if how.get("break") == "early" and not math.isfinite(total):
                if monitor is not None:
                    monitor.record(loss=total)
                break
            if now and "zero" in how:
                model.get_parameter(how["zero"]).grad.zero_()
                optimizer.state[model.get_parameter(how["zero"])]["exp_avg"].zero_()
            if how.get("record") == "before" and monitor is not None:
                monitor.record(loss=total)
            if how.get("scaler"):
                if how.get("clip"):
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
            else:
                if how.get("clip"):
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                if not how.get("skip") or math.isfinite(total):
                    optimizer.step()
        if now:
            loop.after(model, optimizer, batch)
        if monitor is not None and "record" not in how:
            metrics = {"f1": how["metric"]} if now and "metric" in how else {}
            monitor.record(loss=total, metrics=metrics)
        if how.get("break") and not math.isfinite(total):
            break
        if how.get("evaluate") or "bad evaluation" in how:
            if now:
                spring(model, optimizer, batch)
            model.eval()
            with torch.no_grad():
                out = model(x * (math.nan if now and "bad evaluation" in how else 1))
            if monitor is not None and "bad evaluation" in how:
                monitor.record(metrics={"val_loss": out.mean().item()})
            close(model, optimizer, batch)
    if monitor is not None:
        monitor.close()
    return [x.clone() for x in model.state_dict().values()], monitor


def first_finding(findings: Any) -> tuple[str, str]:
    found = [f for f in findings if f.rule == "non-finite" and f.is_alarm]
    return (found[0].title, str(found[0].sites[0])) if found else ("nothing", "")


def is_equal(a: Any, b: Any) -> bool:
    """Bit by bit, but any NaN is as good as another."""
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    same = a.view(torch.int32) == b.view(torch.int32)
    return bool((same | (a.isnan() & b.isnan())).all())


def check(loop: Loop, at: int) -> tuple[bool, bool, str]:
    """Whether the first tensor was named, whether training was the same, and the words."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        bare, _ = train(loop, at, None)
        watched, monitor = train(loop, at, Path(folder))
        title, site = first_finding(monitor.findings)
        again, _ = first_finding(diagnose(gradwatch.open(folder)).findings)
    if loop.kinds:
        kind, _, path = site.partition(" ")
        named = kind in loop.kinds and loop.path in path
        is_right = named and f"in step {at}, first in" in title
    else:
        is_right = not site
    is_same = all(map(is_equal, bare, watched))
    title += "" if title == again else f" BUT AFTERWARDS {again}"
    return is_right and title == again, is_same, title


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", default="1,23,137,200")
    options = parser.parse_args()
    # On a busy machine, what is not written yet would count as missed.
    pipeline.CLOSING_TIME = 60.0
    right = same = count = 0
    steps = [int(step) for step in options.steps.split(",")]
    for number, loop in enumerate(LOOPS):
        if options.only not in loop.name:
            continue
        for at in [steps[number % len(steps)], steps[(number + 2) % len(steps)]]:
            if at == 1 and loop.name in NOT_AT_ONCE:
                at = 2
            is_right, is_same, words = check(loop, at)
            right, same, count = right + is_right, same + is_same, count + 1
            marks = f"{'right' if is_right else 'WRONG'} {'same' if is_same else 'CHANGED'}"
            print(f"{marks} | {loop.name} at {at} | {words}", flush=True)
    print(f"torch loops: {right} of {count} right, {same} bit-identical")
    sys.exit(right < count or same < count)


if __name__ == "__main__":
    main()
