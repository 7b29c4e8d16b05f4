"""What one process finds out of the same global batches, by torch itself and NumPy."""

from __future__ import annotations

from torch.func import functional_call

from tests.distributed.torch import models


def history(how, name, ranks=2):
    """For each step the tensors by kind and path, and the losses of the ranks."""
    model = models.make(name)
    optimizer = models.optimizer_of(model)
    steps = []
    for step in range(1, models.STEPS + 1):
        losses, gradients = [], {}
        for rank in range(ranks):
            model.zero_grad()
            x, y = models.part(models.batch(name, step), rank, ranks)
            loss = _loss(how, name, model, x, y)
            loss.backward()
            losses.append(float(loss.detach()))
            for path, p in model.named_parameters():
                gradients[path] = gradients.get(path, 0) + p.grad.double() / ranks
        before = {path: p.detach().clone() for path, p in model.named_parameters()}
        for path, p in model.named_parameters():
            p.grad = gradients[path].float()
        optimizer.step()
        after = {path: p.detach().clone() for path, p in model.named_parameters()}
        updates = {path: after[path] - before[path] for path in after}
        tensors = {"gradient": gradients, "weight": after, "update": updates}
        steps.append((tensors, losses))
    return steps


def _loss(how, name, model, x, y):
    if how == "fsdp" and name == "mixed":
        # As its policy says: computed from parameters in bfloat16.
        narrow = {path: p.bfloat16() for path, p in model.named_parameters()}
        return models.loss_of(lambda x: functional_call(model, narrow, (x.bfloat16(),)), x, y)
    return models.loss_of(model, x, y, autocast=name == "mixed")
