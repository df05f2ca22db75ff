"""Networks with an output for each class, whose margins training enlarges without end.

A network that is homogeneous of degree L in its parameters θ, trained on cross-entropy without weight decay until its
loss is small, drifts to a KKT point of: least ‖θ‖ subject to f_y(x_i) - f_j(x_i) ≥ 1 for every training record i and
every class j other than its own (Lyu & Li 2020, the appendix on several classes). At margin m, with multipliers λ_ij,

    θ = Σ_i Σ_{j≠y_i} λ_ij·∇(f_{y_i} - f_j)(x_i),   λ_ij ≥ 0,   λ_ij = 0 unless f_{y_i}(x_i) - f_j(x_i) = m.

Hence a record that shapes the weights has its smallest margin over j at m exactly, Σ λ_ij = ‖θ‖²/(L·m) by Euler, and no
fresh record has a margin beyond `ClassNetwork.fresh_bound`. With two classes this is the problem of `ShallowReLU`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge import lazy
from divulge.errors import InputError
from divulge.margin.shallow_relu import Fit, ShallowReLU, as_records, build_from_file
from divulge.validation import check_matrix, check_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scipy import optimize

    from divulge.margin.shallow_relu import Network
    from divulge.types import Array, Bools, Floats, Ints
else:
    optimize = lazy.module("scipy.optimize")

_MAX_ITERATIONS = 2000  # of the quasi-Newton search: shallow networks need a few hundred, large heads are cut off
_PRECISION = 1e-13  # relative change of the squared residual at which the search stops
_PROBES = 20  # power iterations for the scale of the multipliers


class ClassNetwork(ABC):
    """What the networks of this module share: margins, multipliers, and a bound on margins of fresh records."""

    __slots__ = ()
    degree: ClassVar[int]  # L with f(aθ; x) = a^L·f(θ; x)

    @property
    @abstractmethod
    def classes(self) -> int:
        """Number K of classes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of hidden neurons; 0 without a hidden layer."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number d of inputs."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Floats, ...]:
        """θ, as arrays; biases stand in the last column of the first."""

    @abstractmethod
    def __call__(self, x: object) -> Floats:
        """Return the outputs f ``[n, K]`` of records ``[n, d]`` (further axes are flattened)."""

    @abstractmethod
    def gradient_maps(self, data: Floats) -> tuple[Callable[[Floats], tuple[Floats, ...]], Callable[..., Floats]]:
        """Return two linear maps: of ``pull`` [n, K] to Σ_ic pull_ic·∇f_c(x_i), and its transpose."""

    @abstractmethod
    def with_bias(self, data: Floats) -> Floats:
        """Return records with the 1 that a bias acts on, or as they are where the network has no bias."""

    @property
    def squared_norm(self) -> float:
        """‖θ‖² over all parameters."""
        return float(sum(np.sum(part**2) for part in self.parameters))

    def check_labels(self, y: object, name: str, length: int) -> Ints:
        """Return labels 0 … K - 1 as integers ``[length]``.

        Raises:
            divulge.InputError: another value, or a wrong length.
        """
        values = check_vector(y, name, length=length)
        bad = values[(values < 0) | (values >= self.classes) | (values != np.floor(values))]
        if bad.size:
            raise InputError(f"{name}: the network has classes 0 to {self.classes - 1}, got {bad[0]:g}")
        return values.astype(np.int64)

    def margins(self, x: object, y: object = None) -> Floats:
        """Return f_y - max_{j≠y} f_j of each record, ``[n]``; of the class that the network answers without ``y``."""
        outputs = self(x)
        rows = np.arange(len(outputs))
        labels = outputs.argmax(axis=1) if y is None else self.check_labels(y, "y", len(outputs))
        own = outputs[rows, labels]
        outputs[rows, labels] = -np.inf
        return own - outputs.max(axis=1)

    @abstractmethod
    def fresh_bound(self, margin: float) -> float:
        """Return B with: at a KKT point of ``margin`` no record x has a margin beyond B·max_i |x_i·x|.

        The products are with training records, `with_bias`. A hidden neuron combines training records, so its input
        on x combines these products; by Cauchy-Schwarz |f_c - f_d|(x) ≤ max_i |x_i·x|·D²·Σ λ_ij with D the largest
        ‖v_c - v_d‖ (√2 for a linear head), and Σ λ_ij = ‖θ‖²/(L·m).
        """

    def fit_pool(self, data: Floats, y: object, tolerance: float, largest: float = np.inf) -> Fit:
        """Fit λ_ij ≥ 0 by least squares, 0 where f_y - f_j exceeds ``largest``; records have the sum over j.

        Derivatives at kinks of a ReLU are 0, whatever the ``tolerance``. The problem is convex, with K - 1 unknowns a
        record, and is solved by a quasi-Newton search that never forms its matrix.
        """
        if self.squared_norm == 0:
            raise InputError("net: every weight is zero; such a network carries no information")
        outputs, rows = self(data), np.arange(len(data))
        labels = outputs.argmax(axis=1) if y is None else self.check_labels(y, "y", len(data))
        is_free = outputs[rows, labels][:, None] - outputs <= largest
        is_free[rows, labels] = False
        by_class, residual = _fit_by_class(self, data, labels, is_free)
        return Fit(by_class.sum(axis=1), np.zeros((0, 2), dtype=np.int64), residual)


def _fit_by_class(net: ClassNetwork, data: Floats, labels: Ints, is_free: Bools) -> tuple[Floats, float]:
    """Return the multipliers λ_ij ``[n, K]`` and the share of θ that they leave unexplained."""
    combine, project = net.gradient_maps(data)
    rows, theta, total = np.arange(len(data)), net.parameters, net.squared_norm
    by_class = np.zeros(is_free.shape)

    def spread(values: Floats) -> Floats:
        """Return Σ λ_ij·(e_y - e_j) of the free multipliers."""
        by_class[is_free] = values
        pull = -by_class
        pull[rows, labels] = by_class.sum(axis=1)
        return pull

    def gather(slopes: Floats) -> Floats:
        return (slopes[rows, labels][:, None] - slopes)[is_free]

    # In units of the multipliers' own size, from the largest singular value, the search needs no further scale.
    count = int(is_free.sum())
    direction = np.ones(count)
    largest = 0.0
    for _ in range(_PROBES if count else 0):
        image = gather(project(*combine(spread(direction))))
        largest = float(np.linalg.norm(image)) / float(np.linalg.norm(direction))
        direction = image / max(float(np.linalg.norm(image)), 1e-300)
    if not largest:
        return np.zeros(is_free.shape), 1.0
    scale = float(np.sqrt(total / largest))

    def objective(values: Floats) -> tuple[float, Floats]:
        left = [part - rebuilt for part, rebuilt in zip(theta, combine(spread(values * scale)), strict=True)]
        return sum(float(np.sum(part**2)) for part in left) / total, gather(project(*left)) * (-2.0 * scale / total)

    options = {
        "maxiter": _MAX_ITERATIONS,
        "maxfun": 2 * _MAX_ITERATIONS,
        "ftol": _PRECISION,
        "gtol": 1e-10,
        "maxcor": 30,
    }
    found = optimize.minimize(
        objective, np.zeros(count), jac=True, method="L-BFGS-B", bounds=optimize.Bounds(0.0, np.inf), options=options
    )
    spread(found.x * scale)
    return by_class, float(np.sqrt(max(found.fun, 0.0)))


def _append_bias(weights: Floats, bias: Floats | None) -> Floats:
    return weights if bias is None else np.column_stack([weights, bias])


def _check_layer(weights: object, bias: object, names: str) -> tuple[Floats, Floats | None]:
    matrix = check_matrix(weights, names[0]).astype(np.float64, copy=False)
    return matrix, None if bias is None else check_vector(bias, names[1], length=len(matrix))


@dataclass(frozen=True, slots=True, eq=False)
class ShallowClassifier(ClassNetwork):
    """f_c(x) = Σ_k v_ck·relu(w_k·x + b_k): one hidden ReLU layer, an output for each class, no output bias.

    Args:
        w: hidden weights ``[k, d]``.
        b: hidden biases ``[k]``; None where the layer has none.
        v: output weights ``[K, k]``, at least two classes.

    Raises:
        divulge.InputError: NaN or infinity, or shapes that do not fit.

    Examples:
        >>> net = ShallowClassifier([[1.0], [-1.0]], [0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
        >>> net.margins([[-2.0], [3.0]], [1, 1])
        array([ 2., -3.])
    """

    w: Floats
    b: Floats | None
    v: Floats
    degree: ClassVar[int] = 2

    def __init__(self, w: object, b: object, v: object) -> None:
        weights, bias = _check_layer(w, b, "wb")
        object.__setattr__(self, "w", weights)
        object.__setattr__(self, "b", bias)
        object.__setattr__(self, "v", check_matrix(v, "v").astype(np.float64, copy=False))
        if self.v.shape[1] != len(weights) or len(self.v) < 2:
            raise InputError(
                f"v: output weights [K, {len(weights)}] of at least 2 classes are needed, got shape {self.v.shape}"
            )

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.v)

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        return self.w.shape[1]

    @property
    def width(self) -> int:
        """Number k of hidden neurons."""
        return len(self.w)

    @property
    def parameters(self) -> tuple[Floats, ...]:
        """[w, b] and v."""
        return _append_bias(self.w, self.b), self.v

    def with_bias(self, data: Floats) -> Floats:
        """Return records with the 1 that a bias acts on, or as they are where the network has no bias."""
        return _append_bias(data, None if self.b is None else np.ones(len(data)))

    def __call__(self, x: object) -> Floats:
        """Return the outputs f ``[n, K]`` of records ``[n, d]`` (further axes are flattened)."""
        before = as_records(x, "x", self.dimension) @ self.w.T + (0.0 if self.b is None else self.b)
        return np.maximum(before, 0.0) @ self.v.T

    def gradient_maps(self, data: Floats) -> tuple[Callable[[Floats], tuple[Floats, ...]], Callable[..., Floats]]:
        """Return two linear maps: of ``pull`` [n, K] to Σ_ic pull_ic·∇f_c(x_i), and its transpose."""
        points = self.with_bias(data)
        before = points @ self.parameters[0].T
        hidden, slope = np.maximum(before, 0.0), before > 0

        def combine(pull: Floats) -> tuple[Floats, ...]:
            return ((pull @ self.v) * slope).T @ points, pull.T @ hidden

        def project(first: Floats, second: Floats) -> Floats:
            return (slope * (points @ first.T)) @ self.v.T + hidden @ second.T

        return combine, project

    def fresh_bound(self, margin: float) -> float:
        """Return B with: at a KKT point of ``margin`` no record x has a margin beyond B·max_i |x_i·x|."""
        apart = np.sum((self.v[:, None] - self.v[None]) ** 2, axis=2).max()
        return float(apart) * self.squared_norm / (2.0 * margin)


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead(ClassNetwork):
    """f(x) = w·x + b: the head of a frozen body, on the features that the body hands it.

    Linear in its parameters, its bias included, so that training of the head alone has one KKT point, the classifier of
    largest margin on these features; a body that was trained with it is no constant, and nothing follows.

    Args:
        w: weights ``[K, d]``, at least two classes.
        b: biases ``[K]``; None where the layer has none.

    Raises:
        divulge.InputError: NaN or infinity, or shapes that do not fit.

    Examples:
        >>> LinearHead([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], None).margins([[3.0, 1.0]])
        array([2.])
    """

    w: Floats
    b: Floats | None
    degree: ClassVar[int] = 1

    def __init__(self, w: object, b: object = None) -> None:
        weights, bias = _check_layer(w, b, "wb")
        object.__setattr__(self, "w", weights)
        object.__setattr__(self, "b", bias)
        if len(weights) < 2:
            raise InputError(f"w: weights [K, d] of at least 2 classes are needed, got shape {weights.shape}")

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.w)

    @property
    def dimension(self) -> int:
        """Number d of inputs."""
        return self.w.shape[1]

    @property
    def width(self) -> int:
        """Number of hidden neurons: none."""
        return 0

    @property
    def parameters(self) -> tuple[Floats, ...]:
        """[w, b]."""
        return (_append_bias(self.w, self.b),)

    def with_bias(self, data: Floats) -> Floats:
        """Return records with the 1 that a bias acts on, or as they are where the network has no bias."""
        return _append_bias(data, None if self.b is None else np.ones(len(data)))

    def __call__(self, x: object) -> Floats:
        """Return the outputs f ``[n, K]`` of records ``[n, d]`` (further axes are flattened)."""
        return as_records(x, "x", self.dimension) @ self.w.T + (0.0 if self.b is None else self.b)

    def gradient_maps(self, data: Floats) -> tuple[Callable[[Floats], tuple[Floats, ...]], Callable[..., Floats]]:
        """Return two linear maps: of ``pull`` [n, K] to Σ_ic pull_ic·∇f_c(x_i), and its transpose."""
        points = self.with_bias(data)
        return (lambda pull: (pull.T @ points,)), (lambda first: points @ first.T)

    def fresh_bound(self, margin: float) -> float:
        """Return B with: at a KKT point of ``margin`` no record x has a margin beyond B·max_i |x_i·x|."""
        return 2.0 * self.squared_norm / margin


def read_network(path: str | Path) -> Network:
    """Read the network of a safetensors file: one hidden ReLU layer with one output or more, or a linear head.

    Raises:
        divulge.InputError: missing or damaged file, another architecture, an output bias behind a hidden layer.
    """
    return build_from_file(path, network_from_arrays)


def network_from_arrays(arrays: Mapping[str, Array], source: str) -> Network:
    """Return the network of one or two linear layers, named as torch names them, with a ReLU between two.

    Args:
        arrays: ``*.weight`` and ``*.bias``, or ``w``, ``b`` and ``v``.
        source: what errors call it.

    Raises:
        divulge.InputError: another architecture, an output bias behind a hidden layer.

    Examples:
        >>> network_from_arrays({"weight": np.eye(3), "bias": np.zeros(3)}, "head").classes
        3
    """
    if set(arrays) == {"w", "b", "v"}:
        several = arrays["v"].ndim == 2 and len(arrays["v"]) > 1
        return ShallowClassifier(**arrays) if several else ShallowReLU.from_arrays(arrays, source)
    weights = [name for name, value in arrays.items() if name.endswith("weight") and value.ndim == 2]
    biases = [name.removesuffix("weight") + "bias" for name in weights]
    if set(arrays) - {*weights, *biases} or len(weights) not in (1, 2):
        return ShallowReLU.from_arrays(arrays, source)  # which says what is needed
    if len(weights) == 1:
        w, b = arrays[weights[0]], arrays.get(biases[0])
        # One output decides between two classes by its sign: half of it for the one, half against the other.
        return LinearHead(w, b) if len(w) > 1 else LinearHead(np.vstack([-w, w]) / 2, _halves(b))
    pairs = [(a, b) for a, b in ((0, 1), (1, 0)) if arrays[weights[b]].shape[1] == len(arrays[weights[a]])]
    if len(pairs) == 2 and len(arrays[weights[1]]) > 1:
        raise InputError(f"{source}: {weights[0]} and {weights[1]} fit behind one another either way; pass the module")
    if len(pairs) != 1 or len(arrays[weights[pairs[0][1]]]) == 1:
        return ShallowReLU.from_arrays(arrays, source)
    hidden, output = pairs[0]
    if np.any(arrays.get(biases[output], 0.0)):
        raise InputError(
            f"{source}: the output layer has a bias behind a hidden layer, so the network is not homogeneous in its "
            "parameters and training does not drive it to a KKT point of the margin problem; every membership claim "
            "here rests on that. Train with bias=False in the output layer"
        )
    return ShallowClassifier(arrays[weights[hidden]], arrays.get(biases[hidden]), arrays[weights[output]])


def _halves(bias: Array | None) -> Floats | None:
    return None if bias is None else np.concatenate([-np.ravel(bias), np.ravel(bias)]) / 2
