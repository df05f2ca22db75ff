"""Signals of a homogeneous network's weights: how close to the margin, how much weight a record carries.

The plain functions take a network, records and labels and give one number per record; the frozen objects are the
same as signals of a recipe, for a target that is a `divulge.margin.ShallowReLU` or hands out its weights.

What is proven for one hidden ReLU layer is not proven for deeper networks. Gradient descent drifts to KKT points of
their margin problem too (Lyu & Li 2020), and Haim et al. 2022 and Golbari et al. 2025 find members by it, but there is
no bound on fresh outputs and no exact oracle, and kinks within the network are taken as torch takes them. Use
`DeepMultipliers` with a decision that is calibrated on known non-members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy
from divulge.errors import InputError
from divulge.margin import ShallowReLU, multipliers
from divulge.margin.shallow_relu import solve_multipliers
from divulge.types import Guarantee
from divulge.validation import check_array, check_instance, check_integer, check_nonempty, check_number, check_vector

if TYPE_CHECKING:
    import torch

    from divulge.types import Array, Floats, Records
else:
    torch = lazy.module("torch")


def margin_abs(net: ShallowReLU, x: object, y: object = None) -> Floats:
    """|Φ(x)|: records that were not learnt stay below the margin where records are nearly orthogonal.

    With labels it is y·Φ(x), so that a record the network gets wrong counts as far from any margin.

    Examples:
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, -1.0])
        >>> margin_abs(net, [[-2.0], [1.0]]), margin_abs(net, [[-2.0], [1.0]], [1, 1])
        (array([2., 1.]), array([-2., 1.]))
    """
    check_instance(net, "net", ShallowReLU, "a margin.ShallowReLU")
    outputs = net(x)
    return np.abs(outputs) if y is None else labels_to_signs(y, len(outputs)) * outputs


def margin_band(net: ShallowReLU, x: object, y: object = None, *, margin: float) -> Floats:
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


def kkt_nnls(net: ShallowReLU, x: object, y: object = None) -> Floats:
    """The KKT multiplier of each record in the best explanation of the weights by all records of ``x`` together.

    A multiplier depends on the whole pool. Known non-members that are to calibrate a decision must therefore
    stand in one pool with the candidates; scored apart, the two are not exchangeable.

    Examples:
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> kkt_nnls(net, [[-1.0], [0.2], [1.0]], [0, 1, 1]).round(3) + 0.0
        array([0.707, 0.   , 0.707])
    """
    data = check_nonempty(check_array(x, "x"), "x")
    return multipliers(net, data, None if y is None else labels_to_signs(y, len(data)))


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
        return margin_abs(shallow_network(target), _flatten(records), records.y)


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
        net, x = shallow_network(target), _flatten(records)
        margin = densest_value(margin_abs(net, x)) if self.margin is None else self.margin
        return margin_band(net, x, records.y, margin=margin)


@dataclass(frozen=True, slots=True)
class KKTMultipliers:
    """The signal `kkt_nnls`, over all records it is given at once."""

    name: str = field(default="kkt-nnls", init=False)
    reads: str = field(default="the target's weights", init=False)

    def measure(self, target: Any, records: Records) -> Floats:
        """Return one number per record ``[n]``, larger = more like a member."""
        return kkt_nnls(shallow_network(target), _flatten(records), records.y)


def shallow_network(target: Any) -> ShallowReLU:
    """Return the shallow network behind a target: itself, a torch module, or what an adapter holds.

    Raises:
        divulge.InputError: a target without readable weights, or another architecture.
    """
    if isinstance(target, ShallowReLU):
        return target
    function = getattr(target, "function", None)
    if isinstance(function, ShallowReLU):
        return function
    module = target if hasattr(target, "state_dict") else getattr(target, "module", None)
    if module is None:
        raise InputError(
            f"target: its weights are needed (a ShallowReLU or a torch module), got {type(target).__name__}"
        )
    return ShallowReLU.from_torch(module)


def _flatten(records: Records) -> Array:
    return records.x.reshape(len(records), -1)


NO_GUARANTEE = Guarantee(
    "probability of calling a fresh record a member",
    1.0,
    ("nothing is proven about networks with more than one hidden layer; calibrate the score on known non-members",),
)


def deep_multipliers(module: Any, x: object, y: object = None) -> Floats:
    """Return the λ ≥ 0 with which the gradients of a pool best rebuild the weights of a torch network, ``[n]``.

    Args:
        module: a torch network with one output, homogeneous in its parameters (no bias but in the first layer).
        x: the pool, ``[n, ...]``, candidates and known non-members together.
        y: labels 0/1 or -1/+1; what the network itself answers when None.

    Raises:
        divulge.InputError: a network that is not homogeneous, more than one output, labels of more classes.
        divulge.MissingExtraError: torch is not installed.
    """
    batch = _as_batch(module, x)
    signs = None if y is None else labels_to_signs(y, len(batch))
    order = homogeneity_degree(module, batch[:8].cpu().numpy())
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InputError("module: no parameter requires a gradient, so there are none to rebuild its weights from")
    training = module.training
    module.eval()
    rows, outputs = [], []
    with errors.user_code_errors("module"):
        for record in batch:
            output = _scalar_outputs(module(record[None]))
            gradients = torch.autograd.grad(output.sum(), parameters)
            rows.append(torch.cat([g.reshape(-1) for g in gradients]).double().cpu().numpy())
            outputs.append(float(output.detach()))
    module.train(training)
    output_values = np.array(outputs)
    sign = np.where(output_values < 0, -1.0, 1.0) if signs is None else signs
    table = np.array(rows) * sign[:, None]
    # Euler: θ·∇Φ = L·Φ for a network that is homogeneous of degree L.
    return solve_multipliers(table @ table.T, order * sign * output_values)


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
        before = _scalar_outputs(module(batch)).double().cpu().numpy()
        after = _scalar_outputs(torch.func.functional_call(module, scaled, (batch,))).double().cpu().numpy()
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


def _scalar_outputs(output: torch.Tensor) -> torch.Tensor:
    if output.ndim > 2 or (output.ndim == 2 and output.shape[1] != 1):
        raise InputError(f"module: one output per record is needed, got shape {tuple(output.shape)}")
    return output.reshape(-1)
