"""KKT multipliers of deep homogeneous networks: an empirical score, with no proof behind it.

Gradient descent on a deep homogeneous network also drifts towards KKT points of its margin problem (Lyu & Li 2020),
and Haim et al. 2022 and Golbari et al. 2025 find members by it. What is proven for one hidden layer is not
proven here: no bound on fresh outputs, no exact oracle, and kinks within the network are taken as torch takes them.
Use the score with a decision that is calibrated on known non-members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.margin.shallow_relu import solve_multipliers
from divulge.types import Guarantee
from divulge.validation import check_array, check_nonempty

if TYPE_CHECKING:
    import torch

    from divulge.types import Floats, Records
else:
    torch = lazy.module("torch")
from divulge.signals.margin import labels_to_signs

NO_GUARANTEE = Guarantee(
    "probability of calling a fresh record a member",
    1.0,
    ("nothing is proven about networks with more than one hidden layer; calibrate the score on known non-members",),
)


def deep_multipliers(module: Any, x: object, y: object = None) -> Floats:
    """The λ ≥ 0 with which the gradients of a pool best rebuild the weights of a torch network, ``[n]``.

    Args:
        module: a torch network with one output, homogeneous in its parameters (no bias but in the first layer).
        x: the pool, ``[n, ...]``, candidates and known non-members together.
        y: labels 0/1 or -1/+1; what the network itself answers when None.

    Raises:
        divulge.InputError: a network that is not homogeneous, more than one output, labels of more classes.
        divulge.MissingExtraError: torch is not installed.
    """
    data = check_nonempty(check_array(x, "x"), "x")
    parameters = [p for p in module.parameters() if p.requires_grad]
    batch = torch.as_tensor(data, dtype=parameters[0].dtype, device=parameters[0].device)
    order = homogeneity_degree(module, data[: min(len(data), 8)])
    training = module.training
    module.eval()
    rows, outputs = [], []
    for record in batch:
        output = _scalar_outputs(module(record[None]))
        gradients = torch.autograd.grad(output.sum(), parameters)
        rows.append(torch.cat([g.reshape(-1) for g in gradients]).double().cpu().numpy())
        outputs.append(float(output.detach()))
    module.train(training)
    output_values = np.array(outputs)
    sign = np.where(output_values < 0, -1.0, 1.0) if y is None else labels_to_signs(y, len(output_values))
    table = np.array(rows) * sign[:, None]
    # Euler: θ·∇Φ = L·Φ for a network that is homogeneous of degree L.
    return solve_multipliers(table @ table.T, order * sign * output_values)


def homogeneity_degree(module: Any, x: object, tolerance: float = 0.01) -> float:
    """The L with Φ(aθ; x) = a^L·Φ(θ; x), found by scaling the parameters by 2.

    Raises:
        divulge.InputError: the ratio differs between records: the network is not homogeneous.
    """
    parameters = list(module.parameters())
    batch = torch.as_tensor(check_array(x, "x"), dtype=parameters[0].dtype, device=parameters[0].device)
    training = module.training
    module.eval()
    scaled = {name: 2.0 * value.detach() for name, value in module.named_parameters()}
    with torch.no_grad():
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
        """One number per record ``[n]``, larger = more like a member; all records form one pool."""
        module = target if hasattr(target, "state_dict") else getattr(target, "module", None)
        if module is None:
            raise InputError(f"target: a torch module is needed, got {type(target).__name__}")
        return deep_multipliers(module, records.x, records.y)


def _scalar_outputs(output: torch.Tensor) -> torch.Tensor:
    if output.ndim > 2 or (output.ndim == 2 and output.shape[1] != 1):
        raise InputError(f"module: one output per record is needed, got shape {tuple(output.shape)}")
    return output.reshape(-1)
