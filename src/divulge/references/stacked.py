"""Many networks at once: stacked weights, one batched step for all of them.

Two kinds of stack share one loop: `mlp.MlpStack` writes the backward pass of linear models and MLPs out by hand,
`Vmapped` takes any network that `torch.func.vmap` can take.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from divulge import networks, seeds
from divulge.references import loop, mlp, models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from divulge.references.hyperparameters import Hyperparameters
    from divulge.references.jobs import Job

CPU_WIDTH = 8
"""Models a stack on the CPU: enough to spread the cost of each call, few enough for the cache to matter little."""


class Stack(Protocol):
    """Networks that take a step together."""

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """One step on batches ``x[M, b, ...]``, ``y[M, b]``; returns the logits ``[M, b, K]`` before it."""
        ...

    def finite(self) -> Sequence[bool]:
        """For each network, whether all of its weights are finite."""
        ...

    def module(self, index: int) -> nn.Module:
        """A copy of one network as it stands."""
        ...


def refusal(config: Hyperparameters, data: models.Data) -> str:
    """Why networks of this kind cannot be stacked; empty when they can."""
    if config.privacy is not None:
        return "DP-SGD trains one network at a time"
    if by_hand(config):
        return ""
    made = [models.build(config.make_model, seed) for seed in (0, 1)]
    rows = torch.arange(min(4, len(data.x)), device=data.x.device).expand(2, -1)
    try:
        _stack(config, made, data.x.device).step(data.x[rows], data.y[rows], 0.0)
    except torch.OutOfMemoryError:
        return ""
    except (RuntimeError, ValueError, TypeError) as error:
        # Whatever vmap cannot do ends here; some of these errors carry no words.
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return ""


def groups(config: Hyperparameters, jobs: Sequence[Job], where: torch.device) -> Iterator[Sequence[Job]]:
    """Jobs that fit one stack: equal numbers of records, and on the CPU few enough for the cache."""
    equal: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        equal[len(job.rows)].append(job)
    most = width(config, len(jobs), where)
    for same in equal.values():
        for at in range(0, len(same), most):
            yield same[at : at + most]


def width(config: Hyperparameters, jobs: int, where: torch.device) -> int:
    """The most models a stack."""
    return min(jobs, CPU_WIDTH) if where.type == "cpu" else jobs


def by_hand(config: Hyperparameters) -> bool:
    """True where the backward pass is written out: MLPs in one precision, without DP-SGD."""
    plain = config.precision != "mixed" and config.privacy is None
    return plain and mlp.layers(models.build(config.make_model, 0)) is not None


def train(
    config: Hyperparameters, data: models.Data, jobs: Sequence[Job], watch: Callable[[Job, float], None]
) -> Iterator[tuple[Job, nn.Module | None]]:
    """Train jobs stack by stack, None for a network that diverged; a stack too large for the memory is halved.

    Raises:
        torch.OutOfMemoryError: a single network does not fit.
    """
    waiting = list(groups(config, jobs, data.x.device))
    while waiting:
        group = waiting.pop(0)
        try:
            trained = together(config, data, group, watch)
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise
            torch.cuda.empty_cache()
            half = len(group) // 2
            waiting = [*_halves([group, *waiting], half)]
            continue
        yield from zip(group, trained, strict=True)


def _halves(waiting: Sequence[Sequence[Job]], width: int) -> Iterator[Sequence[Job]]:
    for group in waiting:
        for at in range(0, len(group), width):
            yield group[at : at + width]


def together(
    config: Hyperparameters, data: models.Data, jobs: Sequence[Job], watch: Callable[[Job, float], None]
) -> Sequence[nn.Module | None]:
    """Train networks with equally many records as one stack."""
    where, size = data.x.device, config.batch_size
    stack = _stack(config, [models.build(config.make_model, job.seed) for job in jobs], where)
    vary = [torch.Generator(device=where).manual_seed(seeds.derive_seed(job.seed, "augment")) for job in jobs]
    total = config.epochs * networks.steps_per_epoch(len(jobs[0].rows), size)
    settled: dict[int, nn.Module | None] = {}
    step = 0
    for epoch in range(config.epochs):
        correct = torch.zeros(len(jobs), device=where)
        orders = [networks.epoch_batches(job.rows, job.seed, epoch, size) for job in jobs]
        for batch in zip(*orders, strict=True):
            at = torch.from_numpy(np.stack(batch)).to(where)
            # index_select copies whole records; x[at] would look at every number's place.
            x, y = data.x.index_select(0, at.view(-1)).unflatten(0, at.shape), data.y[at]
            if config.augment is not None:
                x = torch.stack([config.augment(part, rng) for part, rng in zip(x, vary, strict=True)])
            z = stack.step(x, y, config.rate(step / total))
            step += 1
            if config.stop_at_accuracy is not None:
                correct += (z.argmax(2) == y).sum(1)
        _settle(config, stack, jobs, correct, settled)
        for job in jobs:
            watch(job, (epoch + 1) / config.epochs)
        if len(settled) == len(jobs):
            break
    return [settled[index] if index in settled else stack.module(index) for index in range(len(jobs))]


def _settle(
    config: Hyperparameters,
    stack: Stack,
    jobs: Sequence[Job],
    correct: torch.Tensor,
    settled: dict[int, nn.Module | None],
) -> None:
    """After an epoch: give up networks that diverged, keep a copy of those that reached the accuracy to stop at."""
    for index, finite in enumerate(stack.finite()):
        if index in settled:
            continue
        enough = 1.0 if config.stop_at_accuracy is None else config.stop_at_accuracy
        if not finite:
            settled[index] = None
        elif config.stop_at_accuracy is not None and float(correct[index]) >= enough * len(jobs[index].rows):
            settled[index] = stack.module(index)


def _stack(config: Hyperparameters, made: Sequence[nn.Module], where: torch.device) -> Stack:
    made = [module.to(device=where, dtype=models.precision(config.precision)).train() for module in made]
    layers = mlp.layers(made[0])
    if layers is not None and config.precision != "mixed":
        return mlp.MlpStack(config, made, layers)
    return Vmapped(config, made)


class Vmapped:
    """``M`` networks of one architecture; parameters and buffers gain a first axis of length ``M``.

    Networks whose forward pass draws random numbers (dropout) are refused by `vmap`: their stream would
    differ from the plain loop's.
    """

    def __init__(self, config: Hyperparameters, made: Sequence[nn.Module]) -> None:
        self._made, self._base = made, made[0]
        trained = {name for name, p in self._base.named_parameters() if p.requires_grad}
        self._weights = {name: _gather(made, name).requires_grad_() for name in trained}
        self._fixed = {name: _gather(made, name) for name in self._base.state_dict() if name not in trained}
        self._update = loop.optimizer(config, [self._weights[name] for name in sorted(trained)])
        mixed = config.precision == "mixed"

        def loss(weights: Any, fixed: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Any]:
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=mixed):
                z: Any = functional_call(self._base, {**weights, **fixed}, (x,))
                return functional.cross_entropy(z, y), z

        self._slopes: Callable[..., tuple[dict[str, torch.Tensor], torch.Tensor]] = vmap(
            grad(loss, has_aux=True), randomness="error"
        )

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """One step on batches ``x[M, b, ...]``, ``y[M, b]``; returns the logits ``[M, b, K]`` before it."""
        slopes, z = self._slopes({name: w.detach() for name, w in self._weights.items()}, self._fixed, x, y)
        for name, w in self._weights.items():
            w.grad = slopes[name].contiguous()  # a fused optimiser reads weights and slopes side by side
        loop.set_rate(self._update, rate)
        self._update.step()
        return z

    def finite(self) -> Sequence[bool]:
        """For each network, whether all of its weights are finite."""
        return [networks.all_finite(w[index] for w in self._weights.values()) for index in range(len(self._made))]

    def module(self, index: int) -> nn.Module:
        """One network with weights and buffers as they stand."""
        state = {name: value[index].detach() for name, value in {**self._weights, **self._fixed}.items()}
        self._made[index].load_state_dict(state)
        return self._made[index]


def _gather(made: Sequence[nn.Module], name: str) -> torch.Tensor:
    return torch.stack([module.state_dict()[name].detach() for module in made])
