"""From a target, signals and reference models to the arrays an attack may look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, seeds
from divulge.signals import classification
from divulge.types import Evidence, Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Array, Bools, Floats, Ints

# More columns than this are reduced to their principal components before a regressor sees them.
COMPONENTS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Signals of a target, and of reference models where there are any, on candidates and population.

    Args:
        target: signal name → ``[n + z]``, candidates first; or ``[n]``, where the population was not asked about.
        references: signal name → ``[m, n + z]``.
        trained_on: bool ``[m, n + z]``.
        labels: ``[n + z]``, or None.
        features: ``[n + z, d]``, what a quantile regressor may condition on.
        candidates: n.
    """

    target: Mapping[str, Floats]
    candidates: int
    labels: Ints | None = None
    features: Array | None = None
    references: Mapping[str, Floats] | None = None
    trained_on: Bools | None = None

    def evidence(self, signal: str) -> Evidence:
        """What an attack on ``signal`` may look at."""
        n = self.candidates
        references = None if self.references is None else self.references.get(signal)
        return Evidence(
            target=self.target[signal][:n],
            population=self.target[signal][n:] if len(self.target[signal]) > n else None,
            references=_part(references, slice(None, n)),
            population_references=_rest(references, n),
            trained_on=_part(self.trained_on, slice(None, n)),
            population_trained_on=_rest(self.trained_on, n),
            features=None if self.features is None else self.features[:n],
            population_features=None if self.features is None or len(self.features) == n else self.features[n:],
            labels=None if self.labels is None else self.labels[:n],
            population_labels=None if self.labels is None or len(self.labels) == n else self.labels[n:],
        )


def averaged(views: Sequence[Measurements], signal: str, *, likelihood: bool) -> Measurements:
    """One signal averaged over several views of the same records (completions of their unknown values).

    Args:
        views: the measurements of each view.
        signal: which signal.
        likelihood: the logarithm of the mean of the exponentials, rather than the mean.

    Examples:
        >>> two = [Measurements({"s": np.array([value])}, candidates=1) for value in (0.0, 2.0)]
        >>> averaged(two, "s", likelihood=False).target["s"]
        array([1.])
    """

    def mean(parts: Sequence[Floats]) -> Floats:
        stacked = np.stack(parts).astype(np.float64)
        if not likelihood:
            return stacked.mean(axis=0)
        return np.logaddexp.reduce(stacked, axis=0) - np.log(len(stacked))

    kept = [view.references[signal] for view in views if view.references is not None]
    target = {signal: mean([view.target[signal] for view in views])}
    return replace(views[0], target=target, references={signal: mean(kept)} if kept else None)


def _part(matrix: Array | None, columns: slice) -> Array | None:
    return None if matrix is None else matrix[:, columns]


def _rest(matrix: Array | None, first: int) -> Array | None:
    return None if matrix is None or matrix.shape[1] == first else matrix[:, first:]


def of_logits(logits: Floats, labels: Ints | None, signals: Sequence[str]) -> Floats:
    """Several classification signals at once, ``[n, len(signals)]``.

    Raises:
        divulge.InputError: a signal that needs labels where there are none.

    Examples:
        >>> of_logits(np.array([[3.0, 1.0]]), np.array([0]), ("hinge", "top-two-gap"))
        array([[2., 2.]])
    """
    columns = []
    for name in signals:
        checks.choice(name, "signal", classification.SIGNALS)
        if name in classification.LABEL_AGNOSTIC:
            columns.append(classification.top_two_gap(logits))
        elif labels is None:
            raise checks.InputError(f"signal: {name!r} needs the records' labels; without them use 'top-two-gap'")
        else:
            columns.append(classification.SIGNALS[name](logits, labels))
    return np.stack(columns, axis=1)


def features(records: Records, fit_on: Bools, seed: int) -> Floats:
    """What a quantile regressor may condition on: the records themselves, reduced where they are wide.

    Args:
        records: rows, images or documents, ``n`` of them.
        fit_on: bool ``[n]``, the records the reduction may learn from (the auditor's own).
        seed: of the reduction.

    Returns:
        float64 ``[n, d]`` with ``d`` at most `COMPONENTS`.
    """
    from sklearn.decomposition import PCA, TruncatedSVD

    state = seeds.integer(seed, "features")
    if records.x.dtype == object:
        from sklearn.feature_extraction.text import TfidfVectorizer

        # One-letter words count: a text of digits must have some word.
        words = TfidfVectorizer(max_features=20_000, sublinear_tf=True, token_pattern=r"\S+").fit(records.x[fit_on])  # noqa: S106 - no password
        sparse = words.transform(records.x)
        width = min(COMPONENTS, sparse.shape[1] - 1)
        if width < 1:
            return sparse.toarray()
        return TruncatedSVD(width, random_state=state).fit(sparse[fit_on]).transform(sparse)
    flat = records.x.reshape(len(records), -1).astype(np.float64)
    if flat.shape[1] <= COMPONENTS:
        return flat
    width = min(COMPONENTS, int(fit_on.sum()))
    return PCA(width, svd_solver="randomized", random_state=state).fit(flat[fit_on]).transform(flat)


def concatenate(parts: Sequence[Records]) -> Records:
    """All records in one, in order; labels and ids are kept where every part has them."""
    y: Any = None if any(part.y is None for part in parts) else np.concatenate([part.y for part in parts])
    ids: Any = None if any(part.ids is None for part in parts) else np.concatenate([part.ids for part in parts])
    shapes = {part.x.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise checks.InputError(f"records: all must have one shape, got {', '.join(map(str, sorted(shapes)))}")
    return Records(np.concatenate([part.x for part in parts]), y, ids)
