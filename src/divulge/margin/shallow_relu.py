"""The network shape for which membership can be proven: one hidden ReLU layer, no output bias."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
from safetensors import numpy as tensors

from divulge import store
from divulge.errors import InputError
from divulge.validation import check_array, check_matrix, check_nonempty, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.types import Array, Floats

_MAX_INPUT = 1e60  # an input; products of several would overflow
_BLOCK_SIZE = 2**24  # hidden activations held at once when a large network is evaluated


@dataclass(frozen=True, slots=True, eq=False)
class ShallowReLU:
    """Φ(x) = Σ_j v_j·relu(w_j·x + b_j): two-homogeneous in its parameters, Φ(aθ; x) = a²Φ(θ; x).

    The theory of the implicit bias (Lyu & Li 2020) that every attack here rests on needs that homogeneity,
    which is why there is no output bias.

    Args:
        w: hidden weights ``[k, d]``.
        b: hidden biases ``[k]``.
        v: output weights ``[k]``.

    Raises:
        divulge.InputError: NaN or infinity, or shapes that do not fit.

    Examples:
        >>> net = ShallowReLU([[1.0], [-1.0]], [0.0, 0.0], [1.0, 1.0])
        >>> net([[-2.0], [3.0]])
        array([2., 3.])
    """

    w: Floats
    b: Floats
    v: Floats

    def __init__(self, w: object, b: object, v: object) -> None:
        weights = check_matrix(w, "w").astype(np.float64, copy=False)
        object.__setattr__(self, "w", weights)
        object.__setattr__(self, "b", check_vector(b, "b", length=len(weights)))
        object.__setattr__(self, "v", check_vector(v, "v", length=len(weights)))

    @property
    def width(self) -> int:
        """Number k of hidden neurons."""
        return len(self.v)

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        return self.w.shape[1]

    @property
    def augmented(self) -> Floats:
        """[w, b], ``[k, d + 1]``: the weights that act on [x, 1]."""
        return np.column_stack([self.w, self.b])

    @property
    def squared_norm(self) -> float:
        """‖θ‖² over all parameters."""
        return float(np.sum(self.w**2) + np.sum(self.b**2) + np.sum(self.v**2))

    def __call__(self, x: object) -> Floats:
        """Return Φ(x), ``[n]``, for records ``[n, d]`` (further axes are flattened)."""
        data = as_records(x, "x", self.dimension)
        step = max(1, _BLOCK_SIZE // self.width)
        parts = [
            np.maximum(data[start : start + step] @ self.w.T + self.b, 0.0) @ self.v
            for start in range(0, len(data), step)
        ]
        return np.concatenate(parts)

    def __repr__(self) -> str:
        return f"ShallowReLU(width={self.width}, dimension={self.dimension})"

    @classmethod
    def from_torch(cls, module: Any) -> ShallowReLU:
        """Read the network of a torch module made of two linear layers with a ReLU between them.

        The module is only asked for its parameters and, at a few points, for its outputs, which must be those
        of the network read off it: another activation, a residual path or an output transform is detected.

        Args:
            module: anything with ``state_dict()``, such as ``nn.Sequential(Linear(d, k), ReLU(), Linear(k, 1))``.

        Raises:
            divulge.InputError: another architecture, an output bias, outputs that differ.
        """
        if not hasattr(module, "state_dict"):
            raise InputError(f"module: a torch module is needed, got {type(module).__name__}")
        state = module.state_dict()
        net = cls._from_arrays({name: value.detach().cpu().numpy() for name, value in state.items()}, "module")
        if callable(module):
            _check_outputs(net, module, next(iter(state.values())))
        return net

    @classmethod
    def from_safetensors(cls, path: str | Path) -> ShallowReLU:
        """Read the network of a safetensors file of two linear layers (``*.weight``, ``*.bias``) or of ``w, b, v``.

        Raises:
            divulge.InputError: missing or damaged file, another architecture, an output bias.
        """
        try:
            arrays = tensors.load_file(path)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except (safetensors.SafetensorError, OSError) as error:
            raise InputError(f"{path}: not a readable safetensors file ({error})") from None
        try:
            if quantised := [name for name, value in arrays.items() if value.dtype.kind not in "fc"]:
                raise InputError(
                    f"{path}: weights as floats are needed, and {quantised[0]} is stored as "
                    f"{arrays[quantised[0]].dtype}; "
                    "quantised weights mean nothing without their scales; save them dequantised"
                )
            return cls._from_arrays(arrays, str(path))
        except InputError as error:
            message = str(error)
            raise InputError(message if str(path) in message else f"{path}: {message}") from None

    def to_safetensors(self, path: str | Path) -> None:
        """Write the network atomically, under the names of a torch module with layers ``hidden`` and ``output``."""
        arrays = {"hidden.weight": self.w, "hidden.bias": self.b, "output.weight": self.v[None]}
        store.write_bytes(
            Path(path), tensors.save({name: np.ascontiguousarray(value) for name, value in arrays.items()})
        )

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Array], source: str) -> ShallowReLU:
        if set(arrays) == {"w", "b", "v"}:
            return cls(arrays["w"], arrays["b"], np.ravel(arrays["v"]))
        hidden_name, output_name = _layer_names(arrays, source)
        bias = arrays.get(output_name.removesuffix("weight") + "bias")
        if bias is not None and np.any(bias != 0):
            raise InputError(
                f"{source}: the output layer has a bias ({np.ravel(bias)[0]:g}), so the network is not homogeneous "
                "in its parameters and training does not drive it to a KKT point of the margin problem; "
                "every membership claim here rests on that. Train with bias=False in the output layer"
            )
        hidden = arrays.get(hidden_name.removesuffix("weight") + "bias")
        return cls(
            arrays[hidden_name],
            np.zeros(len(arrays[hidden_name])) if hidden is None else hidden,
            np.ravel(arrays[output_name]),
        )


def _layer_names(arrays: Mapping[str, Array], source: str) -> tuple[str, str]:
    """Return the names of the hidden and of the output matrix."""
    weights = [name for name, value in arrays.items() if name.endswith("weight") and value.ndim == 2]
    other_names = set(arrays) - set(weights) - {name.removesuffix("weight") + "bias" for name in weights}
    if len(weights) != 2 or other_names:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in arrays.items())
        raise InputError(
            f"{source}: exactly two linear layers are needed (weight [k, d] and weight [1, k]), found: {shapes}"
        )
    a, b = weights
    # Files list their tensors by name, so the order says nothing: the output layer is the one whose single
    # row is as long as the other layer is wide.
    for hidden_name, output_name in ((a, b), (b, a)):
        if arrays[output_name].shape == (1, len(arrays[hidden_name])):
            return hidden_name, output_name
    raise InputError(
        f"{source}: a scalar output is needed, weight [k, d] then weight [1, k]; "
        f"found {a} {list(arrays[a].shape)} and {b} {list(arrays[b].shape)}"
    )


def _check_outputs(net: ShallowReLU, module: Any, parameter: Any) -> None:
    """Refuse a module whose outputs differ from those of the network read off its parameters."""
    probes = np.random.default_rng(0).normal(size=(8, net.dimension))
    training = getattr(module, "training", False)
    try:
        if training:
            module.eval()  # dropout is no part of what was learnt
        module_outputs = np.ravel(module(parameter.detach().new_tensor(probes)).detach().cpu().numpy()).astype(
            np.float64
        )
    except Exception as error:
        raise InputError(f"module: cannot be applied to records [n, {net.dimension}] ({error})") from None
    finally:
        if training:
            module.train()
    expected = net(probes)
    if module_outputs.shape != expected.shape or np.abs(module_outputs - expected).max() > 1e-3 * (
        1e-6 + np.abs(expected).max()
    ):
        raise InputError(
            "module: its outputs differ from Σ v·relu(w·x + b) with its own weights; "
            "only one hidden ReLU layer without an output transform can be read"
        )


def as_records(x: object, name: str, dimension: int | None = None) -> Floats:
    """Return records as a float64 matrix ``[n, d]``; images are flattened.

    Raises:
        divulge.InputError: NaN, no record, or another dimension than the network's.
    """
    values = check_nonempty(check_array(x, name), name)
    if values.ndim == 1:
        raise InputError(f"{name}: records [n, d] are needed, got shape {values.shape}")
    data = values.reshape(len(values), -1).astype(np.float64)
    if np.abs(data).max(initial=0.0) > _MAX_INPUT:
        raise InputError(f"{name}: values beyond ±{_MAX_INPUT:g} are too large; bring them to a scale of about 1")
    if dimension is not None and data.shape[1] != dimension:
        raise InputError(f"{name}: records have {data.shape[1]} values, the network takes {dimension}")
    return data


def as_signs(y: object, name: str, length: int) -> Floats:
    """Return labels -1 and +1 as float64 ``[length]``.

    Raises:
        divulge.InputError: another value, or a wrong length.
    """
    values = check_vector(y, name, length=length)
    bad = values[np.abs(values) != 1]
    if bad.size:
        raise InputError(f"{name}: labels must be -1 or +1, got {bad[0]:g} (0/1 labels become 2*y - 1)")
    return values


def augment(x: Floats) -> Floats:
    """Append a 1 to every record, for the bias: [x, 1]."""
    return np.column_stack([x, np.ones(len(x))])


def require_both_classes(y: Floats, name: str) -> None:
    """Refuse labels of one class alone: there is no margin between one class and nothing."""
    if len(np.unique(y)) < 2:
        raise InputError(f"{name}: both labels -1 and +1 are needed, all are {y[0]:+g}")
