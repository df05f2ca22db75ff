"""Models that carry a query where a server wants a model instead of predictions.

A server that evaluates a submitted model on features the attacker knows can be asked any prediction the model
can be made to give. `mutator` is the network of Aggarwal et al. (2021), Appendix D, equation 11, which overwrites its
input. It is told the rows by their place in the batch alone: a server that scores row by row, or in another order,
gets other predictions. The natural models (`carrier`) know rows by their features instead; they need rows that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, seeds
from divulge.errors import InputError
from divulge.validation import check_choice, check_integer, check_matrix, check_memory, check_vector

if TYPE_CHECKING:
    import torch
    from sklearn import neighbors, tree

    from divulge.types import Array, Floats
else:
    torch = lazy.module("torch")
    neighbors = lazy.module("sklearn.neighbors")
    tree = lazy.module("sklearn.tree")

_LIMITS = {"float32": (88.0, 14.0), "float64": (700.0, 34.0)}
_MODELS = ("tree", "nearest", "relu")


def mutator(predictions: object, width: int = 1, *, dtype: str = "float32", seed: int = 0) -> torch.nn.Module:
    """Build a torch module that maps any non-negative batch ``[n, width]`` to the given probabilities ``[n]``.

    With v the whole batch as one vector it computes ``sigmoid(relu(v·M1)·M2 + x')``: all entries of M1 are negative,
    which leaves zeros, M2 is drawn at random, and x' are the log-odds of the predictions. The paper says "any real
    vector"; a negative value passes the first layer, so features must be shifted to be non-negative.

    Args:
        predictions: p(y = 1) for each row of the batch, in order, ``[n]``.
        width: number of features of a row.
        dtype: floats of the module. In float32 log-odds beyond about 88 (p < 1/2) or 14 (p > 1/2) cannot be
            expressed, because exp and 1 - p leave the floats.
        seed: of M1 and M2.

    Raises:
        divulge.InputError: probabilities whose log-odds these floats cannot express, or layers too large for memory.
        divulge.MissingExtraError: torch is not installed.
    """
    check_choice(dtype, "dtype", _LIMITS)
    probabilities = check_vector(predictions, "predictions")
    size = len(probabilities) * check_integer(width, "width", minimum=1)
    if probabilities.min() <= 0 or probabilities.max() >= 1:
        raise InputError(f"predictions: must lie in (0, 1), got {probabilities.min():g} to {probabilities.max():g}")
    log_odds = np.log(probabilities) - np.log1p(-probabilities)
    low, high = _LIMITS[dtype]
    if log_odds.min() < -low or log_odds.max() > high:
        raise InputError(
            f"predictions: {dtype} expresses log-odds from {-low:g} to {high:g} here, "
            f"got {log_odds.min():.4g} to {log_odds.max():.4g}"
        )
    check_memory(
        8.0 * size * (size + len(probabilities)), "width", f"the first layer is {size:,} by {size:,}; take fewer rows"
    )
    rng = seeds.generator(seed, "mutator")
    hidden_layer = _linear_layer(-rng.uniform(0.5, 1.0, (size, size)), None, dtype)
    output_layer = _linear_layer(rng.normal(size=(len(probabilities), size)), log_odds, dtype)
    return torch.nn.Sequential(torch.nn.Flatten(0), hidden_layer, torch.nn.ReLU(), output_layer, torch.nn.Sigmoid())


def _linear_layer(weight: Floats, bias: Floats | None, dtype: str) -> torch.nn.Linear:
    torch_dtype = getattr(torch, dtype)
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=torch_dtype)
    layer.weight.data = torch.as_tensor(weight, dtype=torch_dtype)
    if bias is not None:
        layer.bias.data = torch.as_tensor(bias, dtype=torch_dtype)
    return layer


@dataclass(frozen=True, slots=True, eq=False)
class Carrier:
    """A fitted model whose ``predict_proba`` gives the wanted rows on the known features, in any order."""

    model: Any
    rows: Array

    def predict_proba(self, features: object) -> Floats:
        """Return probabilities ``[n, K]``, one row per row of features."""
        return self.rows[np.rint(self.model.predict(np.asarray(features))).astype(int)]


def carrier(features: object, predictions: object, *, model: str = "tree") -> Carrier:
    """Fit a natural-looking model that answers ``predictions`` on ``features``, row by row and in any order.

    Args:
        features: the scored rows as the attacker knows them, ``[n, d]``; all different.
        predictions: wanted rows ``[n, K]``.
        model: "tree" (a decision tree), "nearest" (1-nearest neighbour) or "relu" (a small network of one hidden
            layer that interpolates along one direction).

    Raises:
        divulge.InputError: two rows with the same features but different predictions.
    """
    check_choice(model, "model", _MODELS)
    x = check_matrix(features, "features").astype(np.float64)
    rows = check_matrix(predictions, "predictions")
    if len(x) != len(rows):
        raise InputError(f"predictions: {len(x)} rows are needed (one per row of features), got {len(rows)}")
    distinct_rows, row_ids = np.unique(rows, axis=0, return_inverse=True)
    row_ids = row_ids.ravel()
    _, first_rows, record_ids = np.unique(x, axis=0, return_index=True, return_inverse=True)
    conflicts = np.flatnonzero(row_ids != row_ids[first_rows[record_ids.ravel()]])
    if conflicts.size:
        row = int(conflicts[0])
        raise InputError(
            f"features: row {row} equals row {int(first_rows[record_ids.ravel()[row]])}, but they need different "
            "predictions; a model cannot tell them apart"
        )
    return Carrier(_fit_model(x, row_ids.astype(float), model), distinct_rows)


def _fit_model(
    x: Floats, target: Floats, model: str
) -> tree.DecisionTreeRegressor | neighbors.KNeighborsRegressor | ReluInterpolator:
    if model == "tree":
        return tree.DecisionTreeRegressor(random_state=0).fit(x, target)
    if model == "nearest":
        return neighbors.KNeighborsRegressor(1).fit(x, target)
    return ReluInterpolator.fit(x, target)


@dataclass(frozen=True, slots=True, eq=False)
class ReluInterpolator:
    """``b + Σ_i v_i·relu(w·x - t_i)``: piecewise linear along one direction, through every given point."""

    direction: Floats
    knots: Floats
    weights: Floats
    bias: float

    @classmethod
    def fit(cls, x: Floats, target: Floats) -> ReluInterpolator:
        """Fit the interpolator through ``(x, target)``, along a direction in which all distinct rows differ."""
        for seed in range(20):
            direction = seeds.generator(seed, "relu").normal(size=x.shape[1])
            positions, first_rows = np.unique(x @ direction, return_index=True)
            if len(positions) == len(np.unique(x, axis=0)):
                break
        slopes = np.diff(target[first_rows]) / np.diff(positions)
        weights = np.diff(np.concatenate([[0.0], slopes]))
        return cls(direction, positions[:-1], weights, float(target[first_rows[0]]))

    def predict(self, x: Floats) -> Floats:
        """Return values ``[n]``."""
        return self.bias + np.maximum((x @ self.direction)[:, None] - self.knots, 0) @ self.weights
