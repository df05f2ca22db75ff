"""scikit-learn classifiers as targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, errors
from divulge.targets import declared_outputs as out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.types import Floats, Ints, Records


@dataclass(frozen=True, slots=True)
class SklearnTarget:
    """A fitted classifier with ``predict_proba`` or ``decision_function``.

    Decision values are used as logits where their softmax is the estimator's own probability (logistic
    regression): they do not saturate. Otherwise log-probabilities, floored at ``floor``.

    Where a probability is a count, it says 1 or 0 often, and the logarithm of the floor would stand far from
    everything else: half a vote is added to each class (Jeffreys' prior) before the logarithm is taken. That goes for
    a forest or bag of ``T`` trees drawn from bootstraps, of which some never saw a given member, and for ``T``
    nearest neighbours that count alike. Without bootstraps each tree saw every member, and a probability of 1 is no
    accident of counting.

    Args:
        estimator: fitted, with ``classes_`` that are whole numbers, or names.
        classes: size of the full label set; the estimator's largest class + 1 when None. A class the
            estimator never saw gets the floor.
        floor: smallest probability told apart from zero.
        names: where ``classes_`` are names: all classes, in the order in which the records' labels number them.

    Raises:
        divulge.InputError: not fitted, no usable output, classes that are no whole numbers ≥ 0 and not in ``names``.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from divulge import Records
        >>> model = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
        >>> SklearnTarget(model).logits(Records([[0.5]])).round(3)
        array([[0., 0.]])
    """

    estimator: Any
    classes: int | None = None
    floor: float = out.FLOOR
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        columns = self._columns()
        width = int(columns.max()) + 1 if self.names is None else len(self.names)
        if self.classes is not None:
            width = checks.integer(self.classes, "classes", least=2, most=2**40)
        checks.labels(columns, "target.classes_", classes=width)
        checks.number(self.floor, "floor", above=0, below=1)
        object.__setattr__(self, "classes", width)

    def logits(self, records: Records) -> Floats:
        """Logits of each record over the full label set, float64 ``[n, K]``."""
        x = records.x.copy()  # an estimator of the user's own may write into it
        with errors.theirs(f"target: {type(self.estimator).__name__}"):
            return self._own_logits(x if x.dtype == object else x.reshape(len(x), -1))

    def _full(self, logits: Floats) -> Floats:
        """Logits over the full label set; a class the estimator never saw gets the floor."""
        columns = self._columns()
        if np.array_equal(columns, np.arange(int(self.classes or 0))):
            return logits
        checks.memory(8.0 * len(logits) * int(self.classes or 0), "target.classes_", "number the classes from 0")
        lowest = np.log(self.floor) + logits.max(axis=1, keepdims=True)
        full = np.tile(lowest, (1, int(self.classes or 0)))
        full[:, columns] = logits
        return full

    def _wide(self, probabilities: Floats) -> Floats:
        """Probabilities over the full label set."""
        checks.memory(8.0 * len(probabilities) * int(self.classes or 0), "target.classes_", "number the classes from 0")
        full = np.zeros((len(probabilities), int(self.classes or 0)))
        full[:, self._columns()] = probabilities
        return full

    def _columns(self) -> Ints:
        """Which class each of the estimator's outputs is of."""
        known = getattr(self.estimator, "classes_", None)
        if known is None:
            raise checks.InputError(f"target: {type(self.estimator).__name__} is not a fitted classifier (no classes_)")
        if np.asarray(known).dtype.kind not in "UO":
            return checks.labels(known, "target.classes_")
        said = [str(name) for name in known]
        if self.names is None:
            raise checks.InputError(
                f"target.classes_: the classes have names, {checks.shown(said)}; say how the labels number them: "
                "data.classes in a plan, names= of divulge.targets.SklearnTarget"
            )
        order = {str(name): number for number, name in enumerate(self.names)}
        if strange := [name for name in said if name not in order]:
            raise checks.InputError(
                f"classes: {checks.shown(list(order))} lacks {checks.shown(strange[0])}, which the target knows"
            )
        return np.array([order[name] for name in said])

    def labels(self, records: Records) -> Ints:
        """Predicted class of each record."""
        return self.logits(records).argmax(axis=1)

    def _own_logits(self, x: Any) -> Floats:
        n = len(x)
        decision = self.estimator.decision_function(x) if hasattr(self.estimator, "decision_function") else None
        logits = None if decision is None else out.as_logits(decision, "logits", n)
        if not hasattr(self.estimator, "predict_proba"):
            if logits is None:
                raise checks.InputError(
                    f"target: {type(self.estimator).__name__} has neither predict_proba nor decision_function"
                )
            return self._full(logits)
        probabilities = np.asarray(self.estimator.predict_proba(x), dtype=np.float64)
        if logits is not None and logits.shape == probabilities.shape:
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            if np.allclose(shifted / shifted.sum(axis=1, keepdims=True), probabilities, atol=1e-6):
                return self._full(logits)
        return self._log(x, probabilities)

    def _log(self, x: Any, probabilities: Floats) -> Floats:
        """The estimator's own log-probabilities where they are finite, else the floor."""
        if (votes := _votes(self.estimator)) is not None:
            return _smoothed(self._wide(probabilities), votes)
        with np.errstate(divide="ignore"):
            own = self.estimator.predict_log_proba(x) if hasattr(self.estimator, "predict_log_proba") else None
            logarithms = np.log(probabilities) if own is None else np.asarray(own, dtype=np.float64)
        return self._full(np.where(np.isfinite(logarithms), logarithms, np.log(self.floor)))


def _votes(estimator: Any) -> int | None:
    """How many votes a probability is the share of; None where it is no count."""
    estimator = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if getattr(estimator, "bootstrap", False) is True and hasattr(estimator, "estimators_"):
        return len(estimator.estimators_)
    if hasattr(estimator, "n_neighbors") and getattr(estimator, "weights", None) == "uniform":
        return int(estimator.n_neighbors)
    return None


def _smoothed(probabilities: Floats, votes: int) -> Floats:
    """Log-probabilities with half a vote more for each class."""
    return np.log((probabilities * votes + 0.5) / (votes + 0.5 * probabilities.shape[1]))
