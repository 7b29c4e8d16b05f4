"""Plants NaN in torch loops, and asks the default monitor where it began.

Each loop runs bare and under `watch(model, optimizer, directory)`. The finding must name the step
and the tensor that the NaN was planted in, and all parameters and buffers must be equal, bit by
bit, afterwards. Loops that only look like it, as one whose loss scaler skips a step, must have no
alarm. `planted_loops.py` has the loops.

    python benchmarks/planted_nans_in_loops.py [--only NAME] [--steps 1,23,137,200]
"""

import argparse
import math
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from planted_loops import BATCH, FEATURES, LOOPS, STEPS, Loop, close, spring

import gradwatch
from gradwatch.diagnosis import diagnose
from gradwatch.sinks import pipeline

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
