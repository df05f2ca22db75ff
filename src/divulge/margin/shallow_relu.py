"""The network shape for which membership can be proven: one hidden ReLU layer, no output bias."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import safetensors
from safetensors import numpy as tensors

from divulge import lazy, store
from divulge.errors import InputError
from divulge.validation import (
    check_array,
    check_bool,
    check_instance,
    check_matrix,
    check_nonempty,
    check_number,
    check_vector,
    format_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scipy import optimize

    from divulge.types import Array, Bools, Floats, Ints
else:
    optimize = lazy.module("scipy.optimize")


_Network = TypeVar("_Network")
_MAX_INPUT = 1e60  # an input; products of several would overflow
_BLOCK_SIZE = 2**24  # hidden activations held at once when a large network is evaluated


@runtime_checkable
class Network(Protocol):
    """A homogeneous network: `ShallowReLU`, or one with an output for each class (`divulge.margin.ClassNetwork`)."""

    @property
    def width(self) -> int:
        """Number of hidden neurons; 0 without a hidden layer."""
        ...

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        ...

    @property
    def squared_norm(self) -> float:
        """‖θ‖² over all parameters."""
        ...

    def __call__(self, x: object) -> Floats:
        """Return the outputs of records ``[n, d]``."""
        ...

    def check_labels(self, y: object, name: str, length: int) -> Array:
        """Return the labels ``[length]`` as the network takes them."""
        ...

    def margins(self, x: object, y: object = None) -> Floats:
        """Return the margin of each record, ``[n]``; that of the network's own answer without labels."""
        ...

    def fit_pool(self, data: Floats, y: object, tolerance: float, largest: float = np.inf) -> Fit:
        """Return the multipliers with which records rebuild the weights."""
        ...


def check_network(net: object) -> Network:
    """Return ``net`` if it is a network of this package.

    Raises:
        divulge.InputError: it is not.
    """
    return check_instance(net, "net", Network, "a margin.ShallowReLU, ShallowClassifier or LinearHead")


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

    def check_labels(self, y: object, name: str, length: int) -> Floats:
        """Return labels -1 and +1 as float64 ``[length]``."""
        return as_signs(y, name, length)

    def margins(self, x: object, y: object = None) -> Floats:
        """Return y·Φ(x) for each record ``[n]``, or |Φ(x)| without labels."""
        outputs = self(x)
        return np.abs(outputs) if y is None else self.check_labels(y, "y", len(outputs)) * outputs

    def fit_pool(self, data: Floats, y: object, tolerance: float, largest: float = np.inf) -> Fit:
        """Return the multipliers with which records rebuild the weights, whatever ``largest``."""
        sign = np.where(self(data) < 0, -1.0, 1.0) if y is None else as_signs(y, "y", len(data))
        return fit_multipliers(self, data, sign, tolerance)

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
        net = cls.from_arrays({name: value.detach().cpu().numpy() for name, value in state.items()}, "module")
        if callable(module):
            # A module whose outputs differ from those of the network read off its parameters does more than that.
            probes, parameter = np.random.default_rng(0).normal(size=(8, net.dimension)), next(iter(state.values()))
            training = getattr(module, "training", False)
            try:
                if training:
                    module.eval()  # dropout is no part of what was learnt
                answer = module(parameter.detach().new_tensor(probes)).detach().cpu().numpy()
            except Exception as error:
                raise InputError(f"module: cannot be applied to records [n, {net.dimension}] ({error})") from None
            finally:
                if training:
                    module.train()
            module_outputs, expected = np.ravel(answer).astype(np.float64), net(probes)
            if module_outputs.shape != expected.shape or np.abs(module_outputs - expected).max() > 1e-3 * (
                1e-6 + np.abs(expected).max()
            ):
                raise InputError(
                    "module: its outputs differ from Σ v·relu(w·x + b) with its own weights; "
                    "only one hidden ReLU layer without an output transform can be read"
                )
        return net

    @classmethod
    def from_safetensors(cls, path: str | Path) -> ShallowReLU:
        """Read the network of a safetensors file of two linear layers (``*.weight``, ``*.bias``) or of ``w, b, v``.

        Raises:
            divulge.InputError: missing or damaged file, another architecture, an output bias.
        """
        return build_from_file(path, cls.from_arrays)

    def to_safetensors(self, path: str | Path, margin: float | None = None) -> None:
        """Write the network atomically, under the names of a torch module with layers ``hidden`` and ``output``.

        Args:
            path: the file.
            margin: of the training set, which `read_margin` reads back.
        """
        arrays = {"hidden.weight": self.w, "hidden.bias": self.b, "output.weight": self.v[None]}
        values = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        store.write_bytes(Path(path), tensors.save(values, None if margin is None else {"margin": repr(float(margin))}))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], source: str) -> ShallowReLU:
        """Read the network off arrays by name: ``w, b, v``, or two linear layers (``*.weight``, ``*.bias``).

        Raises:
            divulge.InputError: another architecture, an output bias; it names ``source``.
        """
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


def build_from_file(path: str | Path, build: Callable[[Mapping[str, Array], str], _Network]) -> _Network:
    """Build a network from the arrays of a safetensors file of weights as floats; errors name the file.

    Raises:
        divulge.InputError: missing or damaged file, quantised weights, or whatever ``build`` raises.
    """
    try:
        arrays = tensors.load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from None
    if quantised := [name for name, value in arrays.items() if value.dtype.kind not in "fc"]:
        raise InputError(
            f"{path}: weights as floats are needed, and {quantised[0]} is stored as {arrays[quantised[0]].dtype}; "
            "quantised weights mean nothing without their scales; save them dequantised"
        )
    try:
        return build(arrays, str(path))
    except InputError as error:
        message = str(error)
        raise InputError(message if str(path) in message else f"{path}: {message}") from None


def read_margin(path: str | Path) -> float | None:
    """Return the margin of the training set that a safetensors file records as ``margin``; None without one.

    Raises:
        divulge.InputError: missing or damaged file, or a margin that is no number above 0.
    """
    try:
        with safetensors.safe_open(path, "numpy") as file:
            text = (file.metadata() or {}).get("margin")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from None
    if text is None:
        return None
    try:
        return check_number(float(text), f"{path}: margin", above=0.0, below=np.inf)
    except ValueError:
        raise InputError(f"{path}: margin: a number is needed, got {format_value(text)}") from None


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


def require_both_classes(y: Array, name: str) -> None:
    """Refuse labels of one class alone: there is no margin between one class and nothing."""
    if len(np.unique(y)) < 2:
        both = "both labels -1 and +1" if y.dtype.kind == "f" else "two classes or more"
        raise InputError(f"{name}: {both} are needed, all are {y[0]:+g}")


@dataclass(frozen=True, slots=True, eq=False)
class Stationarity:
    """KKT residual and multipliers of a network for a training set.

    Args:
        residual: ‖θ - Σ λ_i·y_i·∇Φ(x_i)‖/‖θ‖ at the best λ ≥ 0 and the best Clarke subgradients.
        multipliers: that λ, ``[n]``; zero off the margin (complementary slackness).
        margin: min_i y_i·Φ(x_i).
        on_margin: bool ``[n]``, records with y_i·Φ(x_i) ≤ (1 + band)·margin.
        outputs: Φ(x_i), ``[n]``.
        slackness: Σ λ_i·(y_i·Φ(x_i)/margin - 1)/Σ λ_i, zero when the records that carry weight share one margin.
        kinks: number of (neuron, record) pairs where the derivative of the ReLU was free.
    """

    residual: float
    multipliers: Floats
    margin: float
    on_margin: Bools
    outputs: Floats
    slackness: float
    kinks: int


def kkt(
    net: Network, x: object, y: object, *, clarke: bool = True, tolerance: float = 1e-6, band: float = 0.1
) -> Stationarity:
    """Compute the KKT residual of ``net`` for the training set ``(x, y)``.

    At a KKT point kinks sit *on* records, so the derivative of the ReLU there is any number in [0, 1] (Clarke).
    Fixing it at 0 or 1 reports residuals of 0.1 to 1 for exact KKT points. Networks trained by gradient descent
    keep 0.1 and more at margin 100: a small residual proves stationarity, a larger one refutes nothing.

    Args:
        net: the network.
        x: the training records ``[n, d]``.
        y: their labels -1 and +1.
        clarke: False fixes the derivative at 1 where w·x + b > 0 and at 0 elsewhere, for comparison.
        tolerance: |w_j·x + b_j| below this share of ‖[w_j, b_j]‖·‖[x, 1]‖ counts as a kink.
        band: how far above the margin still counts as on it; λ is zero beyond.

    Raises:
        divulge.InputError: another dimension, labels that are not ±1, one class alone, a record that the network
            misclassifies (no margin then exists), a network that is zero everywhere.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> bool(kkt(net, [[-1.0], [1.0]], [-1, 1]).residual < 1e-9)
        True
    """
    check_network(net)
    check_bool(clarke, "clarke")
    data = as_records(x, "x", net.dimension)
    labels = net.check_labels(y, "y", len(data))
    require_both_classes(labels, "y")
    check_number(tolerance, "tolerance", above=0.0, below=1.0)
    check_number(band, "band", above=0.0)
    margins = net.margins(data, labels)
    wrong = np.flatnonzero(margins <= 0)
    if wrong.size:
        raise InputError(
            f"x: {wrong.size} records are misclassified (first: record {wrong[0]}, y·Φ = {margins[wrong[0]]:.3g}), "
            "so they have no margin and cannot be the whole training set of a network at a KKT point"
        )
    smallest_margin = float(margins.min())
    on_margin = margins <= (1.0 + band) * smallest_margin
    largest = (1.0 + band) * smallest_margin
    best = net.fit_pool(data[on_margin], labels[on_margin], tolerance if clarke else 0.0, largest)
    multipliers = np.zeros(len(labels))
    multipliers[on_margin] = best.multipliers
    total = float(np.sum(multipliers))
    return Stationarity(
        residual=best.residual,
        multipliers=multipliers,
        margin=smallest_margin,
        on_margin=on_margin,
        outputs=net(data),
        slackness=float(multipliers @ (margins / smallest_margin - 1.0)) / total if total else 0.0,
        kinks=len(best.kinks),
    )


def multipliers(net: Network, pool: object, y: object = None, *, tolerance: float = 1e-6) -> Floats:
    """Return the white-box membership score: the λ ≥ 0 with which the pool's gradients best rebuild the weights.

    Minimises ‖θ - Σ λ_i·y_i·∇Φ(x_i)‖ over λ ≥ 0 on the whole pool (the idea of Haim et al. 2022 and
    Golbari et al. 2025, solved exactly as one non-negative least-squares problem, with Clarke subgradients at
    kinks). Members carry weight, fresh records almost none: where outputs no longer separate the two (low
    dimension, real images) the multipliers still do.

    Args:
        net: the network.
        pool: candidates ``[n, d]``; it should contain the training set, other records may stand between.
        y: labels -1 and +1, ``[n]``; what the network itself answers when None.
        tolerance: what counts as a kink, as in ``kkt``.

    Returns:
        ``[n]``, larger = more member-like.

    Raises:
        divulge.InputError: another dimension, labels that are not ±1, a network that is zero everywhere.

    Examples:
        >>> from divulge.margin.shallow_relu import ShallowReLU
        >>> net = ShallowReLU([[0.5], [-0.5]], [0.5, 0.5], [2**-0.5, -(2**-0.5)])
        >>> multipliers(net, [[-1.0], [0.2], [1.0]], [-1, 1, 1]).round(3) + 0.0
        array([0.707, 0.   , 0.707])
    """
    return explain(net, pool, y, tolerance=tolerance).multipliers


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Multipliers ``[n]``, the (record, neuron) pairs at kinks, and the relative residual they leave."""

    multipliers: Floats
    kinks: Ints
    residual: float


def explain(net: Network, pool: object, y: object = None, *, tolerance: float = 1e-6) -> Fit:
    """Return the `multipliers` with which the records of ``pool`` rebuild the weights, and the residual they leave.

    A residual of 0 says that the pool holds a training set for which the network is at a KKT point.

    Args:
        net: the network.
        pool: records ``[n, d]``.
        y: labels -1 and +1, ``[n]``; what the network itself answers when None.
        tolerance: what counts as a kink, as in `kkt`.

    Raises:
        divulge.InputError: as `multipliers`.
    """
    check_network(net)
    data = as_records(pool, "pool", net.dimension)
    check_number(tolerance, "tolerance", above=0.0, below=1.0)
    return net.fit_pool(data, y, tolerance)


def fit_multipliers(net: ShallowReLU, data: Floats, sign: Floats, tolerance: float) -> Fit:
    """Fit λ ≥ 0 and the free derivatives σ'_ij ∈ [0, 1] at kinks by least squares.

    With κ_ij = λ_i·σ'_ij the problem is linear in (λ, κ) under 0 ≤ κ_ij ≤ λ_i.
    """
    if net.squared_norm == 0:
        raise InputError("net: every weight is zero; such a network carries no information")
    points, weights = augment(data), net.augmented
    before = points @ weights.T
    size = np.linalg.norm(points, axis=1)[:, None] * np.linalg.norm(weights, axis=1)
    # A neuron of output weight 0 adds nothing to any gradient, one of zero input weights cannot leave zero.
    alive = (net.v != 0) & (np.linalg.norm(weights, axis=1) > 0)
    kinks = np.argwhere((np.abs(before) <= tolerance * size) & alive) if tolerance > 0 else np.zeros((0, 2), int)
    hidden = np.maximum(before, 0.0)
    slope = (before > 0).astype(np.float64)
    slope[kinks[:, 0], kinks[:, 1]] = 0.0

    gram = _gram_matrix(net, points, sign, hidden, slope, kinks)
    records = sign * ((slope * before + hidden) @ net.v)
    row, neuron = kinks.T
    moment = np.concatenate([records, sign[row] * net.v[neuron] * before[row, neuron]])
    solution = solve_multipliers(gram, moment, kinks[:, 0])
    multipliers = solution[: len(sign)]
    pull = multipliers * sign
    spread = slope * pull[:, None]
    free = np.minimum(solution[len(sign) :], multipliers[kinks[:, 0]])
    spread[kinks[:, 0], kinks[:, 1]] = free * sign[kinks[:, 0]]
    left_w = weights - (spread.T @ points) * net.v[:, None]
    left_v = net.v - pull @ hidden
    residual = np.sqrt((np.sum(left_w**2) + np.sum(left_v**2)) / net.squared_norm)
    return Fit(multipliers, kinks, float(residual))


def _gram_matrix(net: ShallowReLU, points: Floats, sign: Floats, hidden: Floats, slope: Floats, kinks: Ints) -> Floats:
    """Return the inner products of all columns: one per record (λ), then one per kink (κ)."""
    inner = points @ points.T
    weighted = slope * net.v**2
    records = (weighted @ slope.T * inner + hidden @ hidden.T) * np.outer(sign, sign)
    if not len(kinks):
        return records
    row, neuron = kinks.T
    cross = weighted[:, neuron] * inner[:, row] * np.outer(sign, sign[row])
    kink_products = (
        (neuron[:, None] == neuron) * net.v[neuron] ** 2 * inner[np.ix_(row, row)] * np.outer(sign[row], sign[row])
    )
    return np.block([[records, cross], [cross.T, kink_products]])


def solve_multipliers(gram: Floats, moment: Floats, owner: Ints | None = None) -> Floats:
    """Minimise zᵀGz - 2cᵀz over z = (λ, κ) ≥ 0 with κ_j ≤ λ_owner(j).

    The upper bounds become equalities with slacks, λ - κ - s = 0, held by a penalty: exact where a solution of
    zero residual exists, and elsewhere tight to the square root of its weight.

    Args:
        gram: G, positive semi-definite, ``[n + p, n + p]``.
        moment: c, ``[n + p]``.
        owner: for each κ the index of its λ, ``[p]``; every z is a λ when None.

    Examples:
        >>> solve_multipliers(np.eye(2), np.array([3.0, -1.0]))
        array([3., 0.])
    """
    owner = np.zeros(0, dtype=np.int64) if owner is None else owner
    n = len(moment) - len(owner)
    extra = len(owner)
    size = n + extra
    ties = np.zeros((extra, size + extra))
    rows = np.arange(extra)
    ties[rows, owner], ties[rows, n + rows], ties[rows, size + rows] = 1.0, -1.0, -1.0
    scale = np.sqrt(np.maximum(np.diag(gram), np.max(np.diag(gram)) * 1e-12))
    values, vectors = np.linalg.eigh(gram / np.outer(scale, scale))
    keep = values > values[-1] * 1e-14
    root = np.sqrt(values[keep])
    factor = np.zeros((int(keep.sum()), size + extra))
    factor[:, :size] = root[:, None] * vectors[:, keep].T * scale
    target = (vectors[:, keep].T @ (moment / scale)) / root
    penalty = 1e3 * float(np.median(scale))
    weights, _ = optimize.nnls(
        np.vstack([factor, penalty * ties]),
        np.concatenate([target, np.zeros(extra)]),
        maxiter=30 * (size + extra),
    )
    return weights[:size]
