"""Models that carry a query where a server wants a model instead of predictions.

A server that evaluates a submitted model on features the attacker knows can be asked any prediction the model
can be made to give. The paper (Appendix D) appends a *mutator* network that overwrites predictions; here it is,
with its limits stated, beside models that look natural and have none of them.

Limits of the mutator, all checked: its inputs must be non-negative (its first layer relies on ReLU leaving them
alone); in float32 log-odds beyond about 88 (θ < ½) or 14 (θ > ½) cannot be expressed, because exp and 1 - θ
leave the floats; and it knows rows only by their place in a batch, so a server that scores row by row gets the
same θ for every row. The natural models know rows by their features instead; they need rows that differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, seeds

if TYPE_CHECKING:
    import torch

    from divulge.types import Array, Floats

_LIMITS = {"float32": (88.0, 14.0), "float64": (700.0, 34.0)}
_MODELS = ("tree", "nearest", "relu")


def mutator(predictions: object, *, dtype: str = "float32") -> torch.nn.Module:
    """A torch module that maps any batch of n non-negative rows to the given probabilities ``[n]``.

    A ReLU layer subtracts from the inputs themselves, leaving zero, and a bias per place adds the log-odds; a
    sigmoid follows. Its parameters alone carry the query.

    Args:
        predictions: p(y = 1) for each row of the batch, in order, ``[n]``.
        dtype: floats of the module.

    Raises:
        divulge.InputError: probabilities whose log-odds these floats cannot express.
        divulge.MissingExtraError: torch is not installed.
    """
    checks.choice(dtype, "dtype", _LIMITS)
    wanted = checks.vector(predictions, "predictions")
    if wanted.min() <= 0 or wanted.max() >= 1:
        raise checks.InputError(f"predictions: must lie in (0, 1), got {wanted.min():g} to {wanted.max():g}")
    odds = np.log(wanted) - np.log1p(-wanted)
    low, high = _LIMITS[dtype]
    if odds.min() < -low or odds.max() > high:
        raise checks.InputError(
            f"predictions: {dtype} expresses log-odds from {-low:g} to {high:g} here, "
            f"got {odds.min():.4g} to {odds.max():.4g}"
        )
    try:
        import torch
    except ImportError:
        raise checks.extra("torch", "torch") from None

    class Mutator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.odds = torch.nn.Parameter(torch.as_tensor(odds, dtype=getattr(torch, dtype)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            flat = x.reshape(len(x), -1)
            # relu(x) - x is zero exactly where the inputs are non-negative.
            erased = (torch.relu(flat) - flat).sum(dim=1)
            places = torch.arange(len(x)).clamp(max=len(self.odds) - 1)
            return torch.sigmoid(erased.to(self.odds.dtype) + self.odds[places])

    return Mutator()


@dataclass(frozen=True, slots=True, eq=False)
class Carrier:
    """A fitted model whose ``predict_proba`` gives the wanted rows on the known features, in any order."""

    model: Any
    rows: Array

    def predict_proba(self, features: object) -> Floats:
        """Probabilities ``[n, K]``, one row per row of features."""
        return self.rows[np.rint(self.model.predict(np.asarray(features))).astype(int)]


def carrier(features: object, predictions: object, *, model: str = "tree") -> Carrier:
    """A natural-looking model that answers ``predictions`` on ``features``, row by row and in any order.

    Args:
        features: the scored rows as the attacker knows them, ``[n, d]``; all different.
        predictions: wanted rows ``[n, K]``.
        model: "tree" (a decision tree), "nearest" (1-nearest neighbour) or "relu" (a small network of one hidden
            layer that interpolates along one direction).

    Raises:
        divulge.InputError: two rows with the same features but different predictions.
    """
    checks.choice(model, "model", _MODELS)
    x = checks.matrix(features, "features").astype(np.float64)
    wanted = checks.matrix(predictions, "predictions")
    if len(x) != len(wanted):
        raise checks.InputError(f"predictions: {len(x)} rows are needed (one per row of features), got {len(wanted)}")
    rows, which = np.unique(wanted, axis=0, return_inverse=True)
    which = which.ravel()
    _, first, same = np.unique(x, axis=0, return_index=True, return_inverse=True)
    clash = np.flatnonzero(which != which[first[same.ravel()]])
    if clash.size:
        row = int(clash[0])
        raise checks.InputError(
            f"features: row {row} equals row {int(first[same.ravel()[row]])}, but they need different predictions; "
            "a model cannot tell them apart"
        )
    return Carrier(_fit(x, which.astype(float), model), rows)


def _fit(x: Floats, target: Floats, model: str) -> Any:
    if model == "tree":
        from sklearn.tree import DecisionTreeRegressor

        return DecisionTreeRegressor(random_state=0).fit(x, target)
    if model == "nearest":
        from sklearn.neighbors import KNeighborsRegressor

        return KNeighborsRegressor(1).fit(x, target)
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
        """The interpolator through ``(x, target)``, along a direction in which all distinct rows differ."""
        for seed in range(20):
            direction = seeds.generator(seed, "relu").normal(size=x.shape[1])
            places, first = np.unique(x @ direction, return_index=True)
            if len(places) == len(np.unique(x, axis=0)):
                break
        slopes = np.diff(target[first]) / np.diff(places)
        weights = np.diff(np.concatenate([[0.0], slopes]))
        return cls(direction, places[:-1], weights, float(target[first[0]]))

    def predict(self, x: Floats) -> Floats:
        """Values ``[n]``."""
        return self.bias + np.maximum((x @ self.direction)[:, None] - self.knots, 0) @ self.weights
