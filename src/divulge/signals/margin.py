"""Signals of a homogeneous network's weights: how close to the margin, how much weight a record carries.

The plain functions take a network, records and labels and give one number per record; the frozen objects are the
same as signals of a recipe, for a target that is a network of `divulge.margin` or hands out its weights.

What is proven for one hidden ReLU layer is not proven for deeper networks. Gradient descent drifts to KKT points of
their margin problem too (Lyu & Li 2020), and Haim et al. 2022 and Golbari et al. 2025 find members by it, but there is
no bound on fresh outputs and no exact oracle, and kinks within the network are taken as torch takes them. Use
`DeepMultipliers` with a decision that is calibrated on known non-members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy
from divulge.errors import InputError
from divulge.margin import ShallowReLU, multipliers
from divulge.margin.multi_class import network_from_arrays
from divulge.margin.shallow_relu import Network, check_network, solve_multipliers
from divulge.types import Guarantee
from divulge.validation import check_array, check_instance, check_integer, check_nonempty, check_number, check_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from divulge.types import Array, Floats, Records
else:
    torch = lazy.module("torch")

_BATCH = 512  # records that pass through a frozen body at a time


def margin_abs(net: Network, x: object, y: object = None) -> Floats:
    """|Φ(x)|: records that were not learnt stay below the margin where records are nearly orthogonal.

    With labels it is y·Φ(x), so that a record the network gets wrong counts as far from any margin. With several
    classes it is the smallest f_y - f_j over the other classes j; y is the network's own answer where none is given.

    Examples:
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> margin_abs(net, [[-2.0], [1.0]]), margin_abs(net, [[-2.0], [1.0]], [1, 1])
        (array([2., 1.]), array([-2., 1.]))
    """
    data = check_nonempty(check_array(x, "x"), "x")
    return check_network(net).margins(data, None if y is None else as_network_labels(net, y, len(data)))


def as_network_labels(net: Network, y: object, length: int) -> Array:
    """Return labels as a network takes them: -1 and +1 of one with a single output, for which 0 and 1 may stand.

    Raises:
        divulge.InputError: other labels than the network's classes.
    """
    if isinstance(net, ShallowReLU):
        return labels_to_signs(y, length)
    return check_network(net).check_labels(y, "y", check_integer(length, "length", minimum=1))


def margin_band(net: Network, x: object, y: object = None, *, margin: float) -> Floats:
    """-| |Φ(x)| - m |/m: how close to the margin, from both sides; 0 is on it.

    Args:
        net: the network.
        x: records ``[n, d]``.
        y: labels, or None; with labels y·Φ(x) takes the place of |Φ(x)|.
        margin: the margin m, from a leaked record, the training loss, or published.

    Raises:
        divulge.InputError: a margin ≤ 0.

    Examples:
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> margin_band(net, [[-2.0], [1.0], [4.0]], margin=2.0) + 0.0
        array([ 0. , -0.5, -1. ])
    """
    check_number(margin, "margin", above=0.0, below=np.inf)
    return -np.abs(margin_abs(net, x, y) - margin) / margin


def kkt_nnls(net: Network, x: object, y: object = None) -> Floats:
    """The KKT multiplier of each record in the best explanation of the weights by all records of ``x`` together.

    A multiplier depends on the whole pool. Known non-members that are to calibrate a decision must therefore
    stand in one pool with the candidates; scored apart, the two are not exchangeable.

    Examples:
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> kkt_nnls(net, [[-1.0], [0.2], [1.0]], [0, 1, 1]).round(3) + 0.0
        array([0.707, 0.   , 0.707])
    """
    data = check_nonempty(check_array(x, "x"), "x")
    return multipliers(check_network(net), data, None if y is None else as_network_labels(net, y, len(data)))


def labels_to_signs(y: object, length: int) -> Floats:
    """Labels 0/1 or -1/+1 as -1.0/+1.0, ``[n]``.

    Raises:
        divulge.InputError: other labels, a wrong length.

    Examples:
        >>> labels_to_signs([0, 1, 1], 3)
        array([-1., 1., 1.])
    """
    checked = check_vector(y, "y", length=check_integer(length, "length", minimum=1))
    values = set(np.unique(checked).tolist())
    if values <= {0.0, 1.0}:
        return 2.0 * checked - 1.0
    if values <= {-1.0, 1.0}:
        return checked
    raise InputError(f"y: two classes are needed, 0 and 1 or -1 and +1, got {sorted(values)[:4]}")


@dataclass(frozen=True, slots=True)
class MarginAbs:
    """The signal `margin_abs`."""

    name: str = field(default="margin-abs", init=False)
    reads: str = field(default="the target's weights", init=False)

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        net, inputs = trained_network(target)
        return margin_abs(net, inputs(records.x), records.y)


def densest_value(values: Floats) -> float:
    """Find where values crowd most closely, in relative terms: training points share one margin, fresh points do not.

    The middle of the relatively narrowest window that holds a fiftieth of the values (at least 5).

    Raises:
        divulge.InputError: fewer than 6 values.

    Examples:
        >>> densest_value(np.r_[np.linspace(0.1, 9.0, 50), np.full(8, 4.0)])
        4.0
    """
    ordered = np.sort(check_vector(values, "values"))
    k = max(5, len(ordered) // 50)
    if len(ordered) <= k:
        raise InputError(f"values: at least {k + 1} are needed to find a margin, got {len(ordered)}")
    low, high = ordered[:-k], ordered[k:]
    narrowest = int(np.argmin((high - low) / np.maximum(high, 1e-300)))
    return float(np.median(ordered[narrowest : narrowest + k + 1]))


@dataclass(frozen=True, slots=True)
class MarginBand:
    """The signal `margin_band`, at a given margin or, without one, at the `densest` |Φ| of all records it is given.

    Examples:
        >>> MarginBand(margin=2.0).name
        'margin-band'
    """

    margin: float | None = None
    name: str = field(default="margin-band", init=False)
    reads: str = field(default="the target's weights", init=False)

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        net, inputs = trained_network(target)
        x = inputs(records.x)
        margin = densest_value(margin_abs(net, x)) if self.margin is None else self.margin
        return margin_band(net, x, records.y, margin=margin)


@dataclass(frozen=True, slots=True)
class KKTMultipliers:
    """The signal `kkt_nnls`, over all records it is given at once."""

    name: str = field(default="kkt-nnls", init=False)
    reads: str = field(default="the target's weights", init=False)

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        net, inputs = trained_network(target)
        return kkt_nnls(net, inputs(records.x), records.y)


def trained_network(target: Any) -> tuple[Network, Callable[[Array], Array]]:
    """Return what was trained of a target as a network, and the function from records to the network's inputs.

    The target is a network of `divulge.margin`, or a torch module (or an adapter of one) whose trained part is a linear
    layer, or two with a ReLU between: all of it, or the head of a body whose parameters are frozen (``requires_grad``
    is False). Features of the body are then the inputs; the head sees nothing else, so it counts as a shallow network.

    Raises:
        divulge.InputError: a target without readable weights, or another architecture.
    """
    for candidate in (target, getattr(target, "function", None)):
        if isinstance(candidate, Network):
            return candidate, lambda x: x.reshape(len(x), -1)
    module = target if hasattr(target, "state_dict") else getattr(target, "module", None)
    if module is None:
        raise InputError(
            "target: its weights are needed (a network of divulge.margin or a torch module), "
            f"got {type(target).__name__}"
        )
    own = [[*layer.parameters(recurse=False)] for layer in module.modules()]
    is_frozen = not all(p.requires_grad for parameters in own for p in parameters)
    layers = [
        layer for layer, parameters in zip(module.modules(), own, strict=True)
        if any(p.requires_grad for p in parameters)
    ]  # fmt: skip
    if not is_frozen and len(layers) == 2 and getattr(layers[1], "out_features", 1) == 1:
        return ShallowReLU.from_torch(module), lambda x: x.reshape(len(x), -1)
    if len(layers) not in (1, 2) or not all(isinstance(layer, torch.nn.Linear) for layer in layers):
        names = ", ".join(type(layer).__name__ for layer in layers[:4]) or "none"
        raise InputError(
            "module: a network of two linear layers is needed, or a body with frozen parameters (requires_grad is "
            f"False) and a head of one or two linear layers; {len(layers)} layers of it are trained: {names}"
        )
    arrays = {
        f"{at}.{name}": value.detach().cpu().double().numpy()
        for at, layer in enumerate(layers)
        for name, value in layer.named_parameters(recurse=False)
    }
    net = network_from_arrays(arrays, "module")
    return net, partial(_head_inputs, net, module, layers[0])


def _head_inputs(net: Network, module: Any, head: Any, x: Array) -> Array:
    """Return what the body of a module hands its head, checking that the module answers as the head alone does."""
    inputs: list[Any] = []
    batch, was_training = _as_batch(module, x), module.training
    hook = head.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0].detach()))
    module.eval()
    try:
        with torch.no_grad(), errors.user_code_errors("module"):
            answers = [module(part).cpu().double().numpy() for part in batch.split(_BATCH)]
    finally:
        hook.remove()
        module.train(was_training)
    features = torch.cat(inputs).cpu().double().numpy() if inputs else np.empty((0, 0))
    expected, outputs = net(features) if len(features) == len(x) else np.empty(0), np.concatenate(answers)
    if outputs.shape[1:] == (1,) and expected.ndim == 2:
        expected = expected[:, 1:] - expected[:, :1]
    outputs = outputs.reshape(expected.shape) if outputs.size == expected.size else outputs
    if outputs.shape != expected.shape or np.abs(outputs - expected).max() > 1e-3 * (1e-6 + np.abs(expected).max()):
        raise InputError(
            "module: its outputs differ from those of its trained layers on what the rest hands them; only a ReLU may "
            "stand between them, and nothing behind"
        )
    return features


NO_GUARANTEE = Guarantee(
    "probability of calling a fresh record a member",
    1.0,
    ("nothing is proven about networks with more than one hidden layer; calibrate the score on known non-members",),
)


def deep_multipliers(module: Any, x: object, y: object = None) -> Floats:
    """Return the λ ≥ 0 with which the gradients of a pool best rebuild the weights of a torch network, ``[n]``.

    Args:
        module: a torch network, homogeneous in its parameters (no bias but in the first layer), with one output or one
            for each class; of several the margin over the second best class counts.
        x: the pool, ``[n, ...]``, candidates and known non-members together.
        y: labels 0/1 or -1/+1, or the class of each record; what the network itself answers when None.

    Raises:
        divulge.InputError: a network that is not homogeneous, labels of other classes.
        divulge.MissingExtraError: torch is not installed.
    """
    batch = _as_batch(module, x)
    labels = None if y is None else check_vector(y, "y", length=len(batch))
    order = homogeneity_degree(module, batch[:8].cpu().numpy())
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("module: no parameter requires a gradient, so there are none to rebuild its weights from")
    training = module.training
    module.eval()
    rows, margins = [], []
    with errors.user_code_errors("module"):
        for i, record in enumerate(batch):
            margin = _margin(module(record[None]), labels, i)
            gradients = torch.autograd.grad(margin, parameters)
            rows.append(torch.cat([g.reshape(-1) for g in gradients]).cpu().double().numpy())
            margins.append(float(margin.detach()))
    module.train(training)
    table = np.array(rows)
    # Euler: θ·∇Φ = L·Φ for a network that is homogeneous of degree L.
    return solve_multipliers(table @ table.T, order * np.array(margins))


def homogeneity_degree(module: Any, x: object, tolerance: float = 0.01) -> float:
    """Return the L with Φ(aθ; x) = a^L·Φ(θ; x), found by scaling the parameters by 2.

    Raises:
        divulge.InputError: the ratio differs between records: the network is not homogeneous; or no torch module, no
            array of its inputs, a ``tolerance`` of 0 or less.
    """
    batch = _as_batch(module, x)
    check_number(tolerance, "tolerance", above=0)
    training = module.training
    module.eval()
    scaled = {name: 2.0 * value.detach() for name, value in module.named_parameters()}
    with torch.no_grad(), errors.user_code_errors("module"):
        before = module(batch).cpu().double().numpy()
        after = torch.func.functional_call(module, scaled, (batch,)).cpu().double().numpy()
    module.train(training)
    has_output = before != 0
    if not has_output.any():
        raise InputError("module: it answers 0 on every record; such a network carries no information")
    with np.errstate(invalid="ignore"):
        powers = np.log2(after[has_output] / before[has_output])
    if not np.isfinite(powers).all() or np.ptp(powers) > tolerance or powers.mean() < 1 - tolerance:
        raise InputError(
            f"module: scaling its parameters scales its outputs unevenly (degrees {np.min(powers):.3g} to "
            f"{np.max(powers):.3g}), so it is not homogeneous; a bias beyond the first layer is the usual cause"
        )
    return float(np.mean(powers))


@dataclass(frozen=True, slots=True)
class DeepMultipliers:
    """The signal `deep_multipliers`, for a target that holds a torch ``module`` or is one.

    Examples:
        >>> DeepMultipliers().name, DeepMultipliers().guarantee.level
        ('kkt-nnls-deep', 1.0)
    """

    name: str = field(default="kkt-nnls-deep", init=False)
    reads: str = field(default="the target's weights", init=False)
    guarantee: Guarantee = field(default=NO_GUARANTEE, init=False, repr=False)

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member; all records form one pool."""
        module = target if hasattr(target, "state_dict") else getattr(target, "module", None)
        if module is None:
            raise InputError(f"target: a torch module is needed, got {type(target).__name__}")
        return deep_multipliers(module, records.x, records.y)


def _as_batch(module: Any, x: object) -> torch.Tensor:
    """Return the records as a tensor of the type and on the device of the module's parameters."""
    check_instance(module, "module", torch.nn.Module, "a torch.nn.Module")
    data = check_nonempty(check_array(x, "x"), "x")
    parameter = next(module.parameters(), None)
    if parameter is None:
        raise InputError("module: it has no parameters, so that there is nothing to explain")
    return torch.as_tensor(data, dtype=parameter.dtype, device=parameter.device)


def _margin(output: torch.Tensor, labels: Floats | None, index: int) -> torch.Tensor:
    """Return y·Φ of one record, or f_y - max f_j of several outputs, with y the network's own answer without labels."""
    values = output.reshape(-1)
    if len(values) == 1:
        sign = -1.0 if (values[0] < 0 if labels is None else labels_to_signs(labels, len(labels))[index] < 0) else 1.0
        return sign * values[0]
    own = int(values.argmax()) if labels is None else int(labels[index])
    if labels is not None and not (own == labels[index] and 0 <= own < len(values)):
        raise InputError(f"y: the network has classes 0 to {len(values) - 1}, got {labels[index]:g}")
    others = torch.arange(len(values), device=values.device) != own
    return values[own] - values[others].max()
