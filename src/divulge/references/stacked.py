"""Many networks at once: stacked weights, one batched step for all of them.

Two kinds of stack share one loop: `MlpStack` writes the backward pass of linear models and MLPs out by hand,
`Vmapped` takes any network that `torch.func.vmap` can take.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from divulge import networks, seeds
from divulge.references import network_training
from divulge.targets import device_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from divulge.references.hyperparameters import Hyperparameters
    from divulge.references.jobs import Job


_Result = TypeVar("_Result")

CPU_WIDTH = 8
"""Models a stack on the CPU: enough to spread the cost of each call, few enough for the cache to matter little."""


class Stack(Protocol):
    """Networks that take a step together."""

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """Take one step on batches ``x[M, b, ...]``, ``y[M, b]``; return the logits ``[M, b, K]`` before it."""
        ...

    def finite(self) -> torch.Tensor:
        """Check for each network whether all of its weights are finite: bool ``[M]``, not waited for."""
        ...

    def module(self, index: int) -> nn.Module:
        """Return a copy of one network."""
        ...


def unstackable_reason(config: Hyperparameters, data: network_training.TrainingData) -> str:
    """Return the reason why such networks cannot be stacked; empty if they can."""
    if config.privacy is not None:
        return "DP-SGD trains one network at a time"
    if has_explicit_backward(config):
        return ""
    networks = [network_training.build_network(config.make_model, seed) for seed in (0, 1)]
    rows = torch.arange(min(4, len(data.x)), device=data.x.device).expand(2, -1)
    try:
        _make_stack(config, networks, data.x.device).step(data.x[rows], data.y[rows], 0.0)
    except (RuntimeError, ValueError, TypeError) as error:
        if device_memory.is_out_of_memory(error):
            return ""
        # Whatever vmap cannot do ends here; some of these errors carry no words.
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return ""


def group_jobs(config: Hyperparameters, jobs: Sequence[Job], device: torch.device) -> Iterator[Sequence[Job]]:
    """Group jobs into stacks: equal numbers of records, and on the CPU few enough for the cache."""
    equal: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        equal[len(job.rows)].append(job)
    max_width = stack_width(config, len(jobs), device)
    for equal_jobs in equal.values():
        for start in range(0, len(equal_jobs), max_width):
            yield equal_jobs[start : start + max_width]


def stack_width(config: Hyperparameters, jobs: int, device: torch.device) -> int:
    """Return the largest number of models in a stack."""
    return min(jobs, CPU_WIDTH) if device.type == "cpu" else jobs


def has_explicit_backward(config: Hyperparameters) -> bool:
    """Check whether the backward pass is written out: MLPs in one precision, without DP-SGD."""
    plain = config.precision != "mixed" and config.privacy is None
    return plain and mlp_layers(network_training.build_network(config.make_model, 0)) is not None


def train_stacks(
    config: Hyperparameters,
    data: network_training.TrainingData,
    jobs: Sequence[Job],
    watch: Callable[[Job, float], None],
) -> Iterator[tuple[Job, nn.Module | None]]:
    """Train jobs stack by stack, None for a network that diverged; a stack too large for the memory is halved.

    Raises:
        divulge.InputError: a single network does not fit.
    """
    for group in group_jobs(config, jobs, data.x.device):
        yield from run_stacks(
            config, data, group, lambda part: list(zip(part, train_stack(config, data, part, watch), strict=True))
        )


def run_stacks(
    config: Hyperparameters,
    data: network_training.TrainingData,
    jobs: Sequence[Job],
    work: Callable[[Sequence[Job]], Sequence[_Result]],
) -> Iterator[_Result]:
    """Yield what ``work`` gives for stacks of equal jobs: one stack of all, or smaller ones where memory runs out.

    Raises:
        divulge.InputError: a single network does not fit.
    """
    n_weights = sum(p.numel() for p in network_training.build_network(config.make_model, 0).parameters())
    stacks = device_memory.run_in_slices(
        lambda part: work(jobs[part]),
        len(jobs),
        item_size=1,
        # What a stack takes depends on what is stacked.
        unit=f"network of {n_weights:,} weights, {config.batch_size:,} records a step",
        device=data.x.device,
        remedy="a smaller batch_size needs less",
    )
    for results in stacks:
        yield from results


def train_stack(
    config: Hyperparameters,
    data: network_training.TrainingData,
    jobs: Sequence[Job],
    watch: Callable[[Job, float], None],
    after_epoch: network_training.AfterEpoch | None = None,
) -> Sequence[nn.Module | None]:
    """Train networks with equally many records as one stack; ``after_epoch`` is called with the first of them."""
    device, size = data.x.device, config.batch_size
    stack = _make_stack(config, [network_training.build_network(config.make_model, job.seed) for job in jobs], device)
    augment_rngs = [
        torch.Generator(device=device).manual_seed(seeds.derive_seed(job.seed, "augment"))
        for job in jobs
        if config.augment is not None
    ]
    total = config.epochs * networks.steps_per_epoch(len(jobs[0].rows), size)
    finished: dict[int, nn.Module | None] = {}
    step = 0
    epochs = config.stop_after or config.epochs
    for epoch in range(epochs):
        correct = torch.zeros(len(jobs), device=device)
        orders = [networks.epoch_batches(job.rows, job.seed, epoch, size) for job in jobs]
        for batch in zip(*orders, strict=True):
            batch_rows = networks.move(torch.from_numpy(np.stack(batch)), device)
            # index_select copies whole records; x[at] would look at every number's place.
            x, y = data.x.index_select(0, batch_rows.view(-1)).unflatten(0, batch_rows.shape), data.y[batch_rows]
            if config.augment is not None:
                x = torch.stack([config.augment(part, rng) for part, rng in zip(x, augment_rngs, strict=True)])
            z = stack.step(x, y, config.rate(step / total))
            step += 1
            if config.stop_at_accuracy is not None:
                correct += (z.argmax(2) == y).sum(1)
        shown = () if after_epoch is None or 0 in finished else (after_epoch,)
        _finish_networks(config, stack, jobs, correct, finished)
        for job in jobs:
            watch(job, (epoch + 1) / epochs)
        # A network that has just reached its accuracy is shown once more; one that diverged is not.
        if finished.get(0, stack) is not None and any(show(epoch + 1, stack.module(0)) for show in shown):
            break
        if len(finished) == len(jobs):
            break
    return [finished[index] if index in finished else stack.module(index) for index in range(len(jobs))]


def _finish_networks(
    config: Hyperparameters,
    stack: Stack,
    jobs: Sequence[Job],
    correct: torch.Tensor,
    finished: dict[int, nn.Module | None],
) -> None:
    """Drop networks that diverged in an epoch, and copy those that reached the accuracy to stop at."""
    # One transfer for all networks: each makes this machine wait until the device has done all that it was given.
    finite, n_correct = torch.stack([stack.finite().to(correct.dtype), correct]).tolist()
    for index, job in enumerate(jobs):
        if index in finished:
            continue
        if not finite[index]:
            finished[index] = None
        elif config.stop_at_accuracy is not None and n_correct[index] >= config.stop_at_accuracy * len(job.rows):
            finished[index] = stack.module(index)


def _make_stack(config: Hyperparameters, networks: Sequence[nn.Module], device: torch.device) -> Stack:
    networks = [
        module.to(device=device, dtype=network_training.weights_dtype(config.precision)).train() for module in networks
    ]
    layers = mlp_layers(networks[0])
    if layers is not None and config.precision != "mixed":
        return MlpStack(config, networks, layers)
    return Vmapped(config, networks)


class Vmapped:
    """``M`` networks of one architecture; parameters and buffers gain a first axis of length ``M``.

    Networks whose forward pass draws random numbers (dropout) are refused by `vmap`: their stream would
    differ from the plain loop's.
    """

    def __init__(self, config: Hyperparameters, networks: Sequence[nn.Module]) -> None:
        self._made, self._base = networks, networks[0]
        trained = {name for name, p in self._base.named_parameters() if p.requires_grad}
        self._weights = {name: _stack_state(networks, name).requires_grad_() for name in trained}
        self._fixed = {name: _stack_state(networks, name) for name in self._base.state_dict() if name not in trained}
        self._update = network_training.make_optimizer(config, [self._weights[name] for name in sorted(trained)])
        mixed = config.precision == "mixed"

        def loss(weights: Any, fixed: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Any]:
            with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=mixed):
                z: Any = functional_call(self._base, {**weights, **fixed}, (x,))
                return functional.cross_entropy(z, y), z

        self._slopes: Callable[..., tuple[dict[str, torch.Tensor], torch.Tensor]] = vmap(
            grad(loss, has_aux=True), randomness="error"
        )

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """Take one step on batches ``x[M, b, ...]``, ``y[M, b]``; return the logits ``[M, b, K]`` before it."""
        slopes, z = self._slopes({name: w.detach() for name, w in self._weights.items()}, self._fixed, x, y)
        for name, w in self._weights.items():
            w.grad = slopes[name].contiguous()  # a fused optimiser reads weights and slopes side by side
        network_training.set_learning_rate(self._update, rate)
        self._update.step()
        return z

    def finite(self) -> torch.Tensor:
        """Check for each network whether all of its weights are finite."""
        return networks.rows_finite(list(self._weights.values()))

    def module(self, index: int) -> nn.Module:
        """Return one network with its current weights and buffers."""
        state = {name: value[index].detach() for name, value in {**self._weights, **self._fixed}.items()}
        self._made[index].load_state_dict(state)
        return self._made[index]


def _stack_state(networks: Sequence[nn.Module], name: str) -> torch.Tensor:
    return torch.stack([module.state_dict()[name].detach() for module in networks])


Activation: TypeAlias = Literal["relu", "tanh", "none"]


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer by its place in the network, and what follows it."""

    name: str
    bias: bool
    activation: Activation


def mlp_layers(module: nn.Module) -> Sequence[Layer] | None:
    """Return the layers of an `nn.Sequential` of ``Linear``, ``ReLU``, ``Tanh``, ``Identity`` and leading ``Flatten``.

    None for any other network, and for one with frozen or shared weights or hooks.
    """
    if not isinstance(module, nn.Linear | nn.Sequential) or not _is_plain(module):
        return None
    chain: list[Layer] = []
    for name, part in _leaf_modules(module, ""):
        if isinstance(part, nn.Linear):
            chain.append(Layer(name, part.bias is not None, "none"))
        elif isinstance(part, nn.ReLU | nn.Tanh) and chain and chain[-1].activation == "none":
            activation: Activation = "relu" if isinstance(part, nn.ReLU) else "tanh"
            chain[-1] = Layer(chain[-1].name, chain[-1].bias, activation)
        elif isinstance(part, nn.Flatten) and not chain:
            if (part.start_dim, part.end_dim) != (1, -1):
                return None
        elif not isinstance(part, nn.Identity):
            return None
    return chain if chain and chain[-1].activation == "none" else None


def _is_plain(module: nn.Module) -> bool:
    """Check that a network has torch's own parts only, all weights trained and none shared, no hooks."""
    is_torch_only = all(type(part).__module__.startswith("torch.nn.modules.") for part in module.modules())
    has_hooks = any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    parameters = list(module.named_parameters(remove_duplicate=False))
    return (
        is_torch_only
        and not has_hooks
        and all(p.requires_grad for _, p in parameters)
        and len({id(p) for _, p in parameters}) == len(parameters)
    )


def _leaf_modules(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    if not isinstance(module, nn.Sequential):
        return [(name, module)]
    prefix = f"{name}." if name else ""
    return [leaf for child, part in module.named_children() for leaf in _leaf_modules(part, f"{prefix}{child}")]


# Autograd spends about half of a small network's step on bookkeeping. `MlpStack` writes the backward pass of linear
# models and MLPs out: a step is batched matrix products and little else, and under SGD the product that makes a
# weight's gradient adds straight into the momentum buffer.
class MlpStack:
    """``M`` networks of one shape: weights ``[M, in, out]``, as the products read them fastest, biases ``[M, out]``."""

    def __init__(self, config: Hyperparameters, networks: Sequence[nn.Module], shape: Sequence[Layer]) -> None:
        self._made, self._layers = networks, shape
        self._weights = [_stack_parameters(networks, layer.name, "weight", transposed=True) for layer in shape]
        self._biases = [_stack_parameters(networks, layer.name, "bias") if layer.bias else None for layer in shape]
        self._all = [p for p in (*self._weights, *self._biases) if p is not None]
        for p in self._all:
            p.grad = torch.zeros_like(p)
        sgd = config.optimizer == "sgd"
        self._keep = config.momentum if sgd else 0.0  # what remains of the last gradient: SGD's momentum buffer
        self._decay = config.weight_decay if sgd else 0.0
        self._update = None if sgd else network_training.make_optimizer(config, self._all)

    @torch.no_grad()
    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        """Take one step on batches ``x[M, b, ...]``, ``y[M, b]``; return the logits ``[M, b, K]`` before it."""
        a, z = mlp_forward(self._layers, self._weights, self._biases, x.flatten(2))
        slopes = mlp_backward(self._layers, self._weights, a, z, y, 1.0 / y.shape[1])
        for w, b, inputs, slope in zip(self._weights, self._biases, a, slopes, strict=True):
            assert w.grad is not None
            w.grad.baddbmm_(inputs.mT, slope, beta=self._keep)
            if self._decay:
                w.grad.add_(w, alpha=self._decay)
            if b is not None:
                assert b.grad is not None
                b.grad.mul_(self._keep).add_(slope.sum(1)).add_(b, alpha=self._decay)
        if self._update is not None:
            network_training.set_learning_rate(self._update, rate)
            self._update.step()
            return z
        for p in self._all:
            assert p.grad is not None
            p.add_(p.grad, alpha=-rate)
        return z

    def finite(self) -> torch.Tensor:
        """Check for each network whether all of its weights are finite."""
        return networks.rows_finite(self._all)

    @torch.no_grad()
    def module(self, index: int) -> nn.Module:
        """Return one network with its current weights."""
        module = self._made[index]
        for layer, w, b in zip(self._layers, self._weights, self._biases, strict=True):
            linear = module.get_submodule(layer.name)
            linear.get_parameter("weight").copy_(w[index].T)
            if b is not None:
                linear.get_parameter("bias").copy_(b[index])
        return module


def mlp_forward(
    shape: Sequence[Layer], weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None], a: torch.Tensor
) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
    """Return the input of every layer and the logits, for ``a[..., b, in]`` and weights ``[..., in, out]``."""
    inputs = []
    for layer, w, b in zip(shape, weights, biases, strict=True):
        inputs.append(a)
        if b is None:
            a = a @ w
        elif a.ndim == 3:
            a = torch.baddbmm(b.unsqueeze(1), a, w)
        else:
            a = torch.addmm(b, a, w)
        if layer.activation == "relu":
            a.relu_()
        elif layer.activation == "tanh":
            a.tanh_()
    return inputs, a


def mlp_backward(
    shape: Sequence[Layer],
    weights: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    z: torch.Tensor,
    y: torch.Tensor,
    scale: float,
) -> Sequence[torch.Tensor]:
    """Return the gradient of ``scale`` times the summed cross-entropy at each layer's output, ``[..., b, out]``."""
    slope = z.softmax(-1)
    slope.scatter_add_(-1, y.unsqueeze(-1), slope.new_full((), -1.0).expand(*y.shape, 1))
    slope *= scale
    slopes = [slope]
    for index in range(len(shape) - 1, 0, -1):
        slope = _activation_backward(shape[index - 1].activation, slope @ weights[index].mT, inputs[index])
        slopes.append(slope)
    return slopes[::-1]


def _activation_backward(activation: Activation, slope: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Return the gradient before an activation, from the gradient after it and its output."""
    if activation == "relu":
        return torch.ops.aten.threshold_backward(slope, output, 0.0)
    if activation == "tanh":
        return slope.mul_(1.0 - output.square())
    return slope


def _stack_parameters(
    networks: Sequence[nn.Module], name: str, parameter: str, transposed: bool = False
) -> torch.Tensor:
    stacked = torch.stack([module.get_submodule(name).get_parameter(parameter).detach() for module in networks])
    return (stacked.mT.contiguous() if transposed else stacked).requires_grad_()
