"""The plain training loop, in torch's own words: what every faster engine is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from divulge import errors, networks, seeds
from divulge.references import models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from divulge.references.hyperparameters import Hyperparameters
    from divulge.types import Ints


class DivergedError(ArithmeticError):
    """The loss became NaN or infinite, and the weights with it."""


def train(
    config: Hyperparameters, data: models.Data, rows: Ints, seed: int, tick: Callable[[float], None] | None = None
) -> nn.Module:
    """Train one network on ``data[rows]``.

    Args:
        config: the hyperparameters.
        data: all records on the device.
        rows: positions of this model's records.
        seed: the model's own seed: weights, batch order, dropout and augmentation follow from it.
        tick: called with the share of epochs done after each.

    Raises:
        DivergedError: NaN or infinity in the weights.
    """
    where, dtype = data.x.device, models.precision(config.precision)
    module = models.build(config.make_model, seed).to(device=where, dtype=dtype)
    form = models.best_layout(module, data.x)
    models.lay_out(module, form)
    update = optimizer(config, module.parameters())
    total = config.epochs * networks.steps_per_epoch(len(rows), config.batch_size)
    step = 0
    with networks.torch_seed(seeds.derive_seed(seed, "noise"), where):
        vary = torch.Generator(device=where).manual_seed(seeds.derive_seed(seed, "augment"))
        for epoch in range(config.epochs):
            module.train()
            correct = torch.zeros((), device=where)
            for batch in networks.epoch_batches(rows, seed, epoch, config.batch_size):
                at = torch.from_numpy(batch).to(where)
                x, y = data.x.index_select(0, at), data.y[at]
                if config.augment is not None:
                    with errors.user_code_errors("augment"):
                        x = config.augment(x, vary)
                set_rate(update, config.rate(step / total))
                with torch.autocast(where.type, dtype=torch.bfloat16, enabled=config.precision == "mixed"):
                    z = module(x.contiguous(memory_format=form))
                    loss = functional.cross_entropy(z, y)
                update.zero_grad(set_to_none=True)
                loss.backward()
                update.step()
                step += 1
                if config.stop_at_accuracy is not None:
                    correct += (z.detach().argmax(1) == y).sum()
            if not networks.all_finite(module.parameters()):
                raise DivergedError
            if tick is not None:
                tick((epoch + 1) / config.epochs)
            if config.stop_at_accuracy is not None and float(correct) >= config.stop_at_accuracy * len(rows):
                break
    return models.lay_out(module, models.PLAIN)


def optimizer(config: Hyperparameters, parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """Torch's optimiser for a configuration; all of them work element by element, so stacked weights do too.

    Fused where torch can: a stack's weights do not fit the cache, and one pass over them takes a sixth of Adam's time.
    """
    kept = [p for p in parameters if p.requires_grad]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in kept)
    shared: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay, "fused": fused}
    if config.optimizer == "sgd":
        return torch.optim.SGD(kept, momentum=config.momentum, **shared)
    return (torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam)(kept, **shared)


def set_rate(update: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in update.param_groups:
        group["lr"] = rate
