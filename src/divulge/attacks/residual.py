"""Residuals of a regression on the candidates' own features: of a signal (`Transductive`), of a score (`Residual`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt
from divulge.duplicates import keep_together
from divulge.errors import InputError
from divulge.validation import check_integer, require_callable

if TYPE_CHECKING:
    from scipy import stats

    from divulge.types import Array, Bools, Evidence, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

_PENALTIES = np.logspace(0, 5, 11)
MIN_RECORDS = 20
"""Fewest records to learn from."""
# A class has slopes of its own from this many records per feature on; fewer only add noise (Location-30).
_RECORDS_PER_SLOPE = 4


@dataclass(frozen=True, slots=True)
class Transductive(Attack):
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
        >>> import numpy as np
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
        >>> evidence = Evidence(target=5 * x[:, 0] + member, features=x)
        >>> scores = Transductive().score(evidence)
        >>> bool(scores[member].min() > scores[~member].max())
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.FEATURES, Need.LABELS})
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_integer(self.folds, "Transductive.folds", minimum=2)
        check_integer(self.seed, "Transductive.seed", minimum=0)

    def score(self, evidence: Evidence) -> Floats:
        """Residuals ``[n]``, in the unit of the signal.

        Raises:
            divulge.InputError: no features, fewer than 20 candidates or than folds, or features that are texts.
        """
        features = protocol.part(evidence.features, "Transductive", "features", "what the records look like")
        return unexplained(evidence.target, features, evidence.labels, self.folds, self.seed)


@dataclass(frozen=True, slots=True)
class Residual(Attack):
    """Another attack's score minus its out-of-fold ridge regression on features and class.

    `Transductive` for any attack: reference models never know quite how hard a record is for the target, and what
    they miss is partly a function of what the record looks like. The candidates' own scores show that part, whoever is
    a member. Members' larger scores raise a prediction for all records of their kind alike, so the residual ranks
    records by what sets them apart from others that look like them.

    Scores are ranked first and the ranks turned into normal deviates. LiRA's tails and RMIA's saturation would
    otherwise rule the regression; a score of equal ranks throughout leaves a residual of zero.

    It is no blind attack: what features alone tell of membership is subtracted and not added. Where the inner score
    says nothing, neither does the residual. Candidates and calibration records are scored in one call and alike, so
    their scores stay exchangeable wherever the inner attack's are. It takes a batch, of at least 20 records and better
    some hundred per class.

    Args:
        inner: the attack.
        components: principal components of the features that are kept where there are more columns.
        folds: each record is predicted by a regression on the other folds.
        seed: of the folds.

    Raises:
        divulge.InputError: an inner attack without ``score``, a setting out of its range.

    Examples:
        >>> import numpy as np
        >>> from divulge import Evidence
        >>> from divulge.attacks import Calibrated
        >>> rng = np.random.default_rng(0)
        >>> x, member = rng.normal(size=(400, 1)), np.arange(400) < 200
        >>> evidence = Evidence(5 * x[:, 0] + member, references=np.zeros((2, 400)), features=x)
        >>> scores = Residual(Calibrated()).score(evidence)
        >>> bool(scores[member].mean() > scores[~member].mean() + 0.1)
        True
    """

    inner: Scores
    components: int = 50
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        require_callable(self.inner, "Residual.inner", "score")
        check_integer(self.components, "Residual.components", minimum=1)
        check_integer(self.folds, "Residual.folds", minimum=2)
        check_integer(self.seed, "Residual.seed", minimum=0)

    @property
    def needs(self) -> frozenset[Need]:
        """Needs of the inner attack, features and labels."""
        return adapt(self.inner).needs | {Need.FEATURES, Need.LABELS}

    @property
    def least_references(self) -> int:
        """Reference models that the inner attack needs at least."""
        return adapt(self.inner).least_references

    def run(self, evidence: Evidence) -> Scored:
        """Return the residuals, in standard deviations of the inner attack's ranked scores, with its notes.

        Raises:
            divulge.InputError: no features, fewer than 20 candidates or than folds, features that are texts; and what
                the inner attack raises.
        """
        protocol.part(evidence.features, "Residual", "features", "what the records look like")
        scored = adapt(self.inner).run(evidence)
        return Scored(self.residuals(scored.scores, evidence), scored.notes)

    def residuals(self, scores: Floats, evidence: Evidence) -> Floats:
        """Return the residual of the inner attack's ``scores``, ``[n]``, if these are known already.

        Raises:
            divulge.InputError: as `run`.
        """
        features = protocol.part(evidence.features, "Residual", "features", "what the records look like")
        deviates = special.ndtri((stats.rankdata(scores) - 0.5) / len(evidence))
        return unexplained(deviates, leading(features, self.components), evidence.labels, self.folds, self.seed)


def unexplained(values: Floats, features: Array, labels: Ints | None, folds: int, seed: int) -> Floats:
    """Subtract from ``values`` what a regression on the other folds' records predicts of them, ``[n]``.

    One regression serves all classes; a class with four records per feature or more then has a second one, of what
    is left, to itself. Rows are treated alike, whoever they belong to.

    Args:
        values: what is to be explained, ``[n]``.
        features: ``[n, ...]``.
        labels: classes ``[n]``, or None.
        folds: number of folds.
        seed: of the folds.

    Raises:
        divulge.InputError: fewer than 20 records or than folds, or features that are texts.
    """
    n = len(values)
    if n < MIN_RECORDS:
        raise InputError(f"at least {MIN_RECORDS} candidates are needed to learn from, got {n}")
    check_integer(folds, "folds", minimum=2, maximum=n)
    flat = _numbers(features)
    spread = flat.std(axis=0)
    table = (flat - flat.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    class_indicators = np.ones((n, 1)) if labels is None else (labels[:, None] == np.unique(labels)).astype(np.float64)
    pooled = np.hstack([table, 3.0 * class_indicators])
    fold = keep_together(seeds.generator(seed, "transductive", "folds").permutation(n) % folds, pooled)
    scores = np.empty(n)
    for k in range(folds):
        is_test = fold == k
        residuals = values - _ridge_predictions(pooled, values, ~is_test)
        for is_class in class_indicators.T > 0:
            if class_indicators.shape[1] > 1 and (is_class & ~is_test).sum() >= max(
                MIN_RECORDS, _RECORDS_PER_SLOPE * table.shape[1]
            ):
                residuals[is_class] -= _ridge_predictions(table[is_class], residuals[is_class], ~is_test[is_class])
        scores[is_test] = residuals[is_test]
    return scores


def leading(features: Array, components: int) -> Floats:
    """Return the ``components`` leading principal components ``[n, components]`` of features that have more columns.

    Raises:
        divulge.InputError: features that are texts.
    """
    flat = _numbers(features)
    if flat.shape[1] <= components:
        return flat
    centred = flat - flat.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return centred @ axes[:, -components:]


def _ridge_predictions(table: Floats, signal: Floats, learn: Bools) -> Floats:
    """Ridge predictions for every row, learnt from the rows ``learn``, with the penalty of least leave-one-out error.

    One singular value decomposition serves every penalty, and leaving a record out is a division by one less
    its leverage (Allen 1974).
    """
    centre, level = table[learn].mean(axis=0), signal[learn].mean()
    u, size, vt = np.linalg.svd(table[learn] - centre, full_matrices=False)
    is_used = size > 1e-9 * size.max(initial=0.0)
    u, size, vt = u[:, is_used], size[is_used], vt[is_used]
    target = signal[learn] - level
    shrunk = size**2 / (size**2 + _PENALTIES[:, None])
    along = u.T @ target
    leverage = np.minimum(1 / len(target) + shrunk @ (u**2).T, 1 - 1e-9)
    errors = (((target - (shrunk * along) @ u.T) / (1 - leverage)) ** 2).mean(axis=1)
    best = int(errors.argmin())
    return level + (table - centre) @ (vt.T @ (shrunk[best] / size * along))


def _numbers(features: Array) -> Floats:
    if features.dtype == object:
        raise InputError("evidence.features must be numbers, got texts")
    return features.reshape(len(features), -1).astype(np.float64)
