"""What a candidate's signal has beyond what its features explain among the candidates themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from divulge import checks, seeds
from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Evidence, Floats, Ints

_PENALTIES = np.logspace(0, 5, 11)
_LEAST = 20
# A class has slopes of its own from this many records per feature on; fewer only add noise (Location-30).
_A_SLOPE = 4


@dataclass(frozen=True, slots=True)
class Transductive:
    """Signal minus its out-of-fold ridge regression on features and class, fitted on the candidates.

    For a class that the auditor has no records of, quantile regression must guess from other classes how hard a
    record is. The candidates themselves are records of that class, and how hard a record is can be learnt from
    them without knowing which are members: with a share π of members whose signal is larger by δ, the mean
    signal given the features is the non-members' plus πδ, and the residual ranks records by whether they are
    members and not by how easy they are. Features must be the records', not the target's own outputs or
    embeddings: those depend on membership, and regressing on them takes away what is looked for.

    One regression serves all classes; a class with four records per feature or more then has a second one, of what
    is left, to itself.

    Nothing is learnt from the population and no reference model is needed. Calibration records that are scored
    together with the candidates are treated exactly like them, in random folds, so their scores stay exchangeable
    with those of non-members of their kind. It takes a batch: at least 20 candidates, better some hundred per class.

    Args:
        folds: each record is predicted by a regression on the other folds.
        seed: of the folds.

    Examples:
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
        >>> evidence = Evidence(target=5 * x[:, 0] + member, features=x)
        >>> scores = Transductive().score(evidence)
        >>> bool(scores[member].min() > scores[~member].max())
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FEATURES, Need.LABELS})
    least_references: ClassVar[int] = 0

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
        features = needs.part(evidence.features, "Transductive", "features", "what the records look like")
        n = len(evidence)
        if n < _LEAST:
            raise checks.InputError(f"Transductive: at least {_LEAST} candidates are needed to learn from, got {n}")
        table, kinds = _table(features), _kinds(evidence.labels, n)
        pooled = np.hstack([table, 3.0 * kinds])
        checks.integer(self.folds, "Transductive.folds", least=2, most=n)
        fold = seeds.generator(self.seed, "transductive", "folds").permutation(n) % self.folds
        scores = np.empty(n)
        for k in range(self.folds):
            held = fold == k
            rest = evidence.target - _fitted(pooled, evidence.target, ~held)
            for kind in kinds.T > 0:
                if kinds.shape[1] > 1 and (kind & ~held).sum() >= max(_LEAST, _A_SLOPE * table.shape[1]):
                    rest[kind] -= _fitted(table[kind], rest[kind], ~held[kind])
            scores[held] = rest[held]
        return scores

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Transductive:
        """The same with another seed."""
        return replace(self, seed=seed)


def _fitted(table: Floats, signal: Floats, learn: Bools) -> Floats:
    """Ridge predictions for every row, learnt from the rows ``learn``, with the penalty of least leave-one-out error.

    One singular value decomposition serves every penalty, and leaving a record out is a division by one less
    its leverage (Allen 1974).
    """
    centre, level = table[learn].mean(axis=0), signal[learn].mean()
    u, size, vt = np.linalg.svd(table[learn] - centre, full_matrices=False)
    kept = size > 1e-9 * size.max(initial=0.0)
    u, size, vt = u[:, kept], size[kept], vt[kept]
    target = signal[learn] - level
    shrunk = size**2 / (size**2 + _PENALTIES[:, None])
    along = u.T @ target
    leverage = np.minimum(1 / len(target) + shrunk @ (u**2).T, 1 - 1e-9)
    errors = (((target - (shrunk * along) @ u.T) / (1 - leverage)) ** 2).mean(axis=1)
    best = int(errors.argmin())
    return level + (table - centre) @ (vt.T @ (shrunk[best] / size * along))


def _table(features: Array) -> Floats:
    """Standardised features ``[n, d]``."""
    if features.dtype == object:
        raise checks.InputError("Transductive: evidence.features must be numbers, got texts")
    flat = features.reshape(len(features), -1).astype(np.float64)
    spread = flat.std(axis=0)
    return (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _kinds(labels: Ints | None, n: int) -> Floats:
    """A column per class, ``[n, classes]``; a single one without labels."""
    return np.ones((n, 1)) if labels is None else (labels[:, None] == np.unique(labels)).astype(np.float64)
