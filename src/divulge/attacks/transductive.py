"""What a candidate's signal has beyond what its features explain among the candidates themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks, seeds
from divulge.attacks import needs

if TYPE_CHECKING:
    from divulge.types import Array, Evidence, Floats

_PENALTIES = tuple(float(penalty) for penalty in np.logspace(0, 5, 11))
_LEAST = 20


@dataclass(frozen=True, slots=True)
class Transductive:
    """Signal less its out-of-fold ridge regression on features and class, fitted on the candidates.

    For a class that the auditor has no records of, quantile regression must guess from other classes how hard a
    record is. The candidates themselves are records of that class, and how hard a record is can be learnt from
    them without knowing which are members: with a share π of members whose signal is larger by δ, the mean
    signal given the features is the non-members' plus πδ, and the residual ranks records by whether they are
    members and not by how easy they are. Features must be the records', not the target's own outputs or
    embeddings: those depend on membership, and regressing on them takes away what is looked for.

    Nothing is learnt from the population and no reference model is needed. Calibration records that are scored
    together with the candidates are treated exactly like them, in random folds, so their scores stay exchangeable
    with those of non-members of their kind. It takes a batch: at least 20 candidates, better some hundred a class.

    Args:
        folds: each record is predicted by a regression on the other folds.
        seed: of the folds.

    >>> from divulge import Evidence
    >>> rng = np.random.default_rng(0)
    >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
    >>> evidence = Evidence(target=5 * x[:, 0] + member, features=x)
    >>> scores = Transductive().score(evidence)
    >>> bool(scores[member].min() > scores[~member].max())
    True
    """

    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        checks.integer(self.folds, "Transductive.folds", least=2)
        checks.integer(self.seed, "Transductive.seed", least=0)

    def score(self, evidence: Evidence) -> Floats:
        """Residuals ``[n]``, in the unit of the signal.

        Raises:
            divulge.InputError: no features, fewer than 20 candidates, or features that are texts.
        """
        from sklearn.linear_model import RidgeCV

        features = needs.part(evidence.features, "Transductive", "features", "what the records look like")
        n = len(evidence)
        if n < _LEAST:
            raise checks.InputError(f"Transductive: at least {_LEAST} candidates are needed to learn from, got {n}")
        table = _table(features, evidence.labels)
        fold = seeds.generator(self.seed, "transductive", "folds").permutation(n) % self.folds
        scores = np.empty(n)
        for k in range(self.folds):
            held = fold == k
            fitted = RidgeCV(_PENALTIES).fit(table[~held], evidence.target[~held])
            scores[held] = evidence.target[held] - fitted.predict(table[held])
        return scores


def _table(features: Array, labels: Array | None) -> Floats:
    """Standardised features, and a column a class that the penalty hardly reaches."""
    if features.dtype == object:
        raise checks.InputError("Transductive: evidence.features must be numbers, got texts")
    flat = features.reshape(len(features), -1).astype(np.float64)
    spread = flat.std(axis=0)
    table = (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if labels is None:
        return table
    return np.hstack([table, 3.0 * (labels[:, None] == np.unique(labels))])
