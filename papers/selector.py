"""Which attack to use on a class nobody holds records of: every seen class plays the unseen one.

Choosing hyper-parameters on the unseen class itself would need the very records that are missing, and choosing
them by the target's membership would need the truth that is asked for. Reference models offer both: their members
are known, and each of their classes can be held back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import evaluation
from divulge.errors import InputError
from divulge.types import Estimate, Evidence
from divulge.validation import check_labels, check_mask, check_matrix, check_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from divulge.attacks import Scores
    from divulge.types import Array, Bools, Floats, Ints

# A class of which a model has fewer members or non-members than this says nothing.
_MIN_PER_SIDE = 10


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The choice, and the result of each option.

    Args:
        name: the option with the largest mean.
        means: option → its mean AUC over reference models and held-out classes.
        gains: option → mean AUC of the chosen one less this one's; pairs of the same model and class.
        cells: option → AUC of each (model, class), in one order for all.
    """

    name: str
    means: Mapping[str, Estimate]
    gains: Mapping[str, Estimate]
    cells: Mapping[str, Floats]

    def __repr__(self) -> str:
        listed = ", ".join(f"{name} {mean.value:.3f}" for name, mean in self.means.items())
        return f"Chosen({self.name!r}; {listed})"


def leave_one_class_out(
    options: Mapping[str, tuple[Scores, object]],
    trained_on: object,
    features: object,
    labels: object,
    *,
    classes: Iterable[int] | None = None,
) -> Chosen:
    """Try attacks on every seen class as if it were unseen, with every reference model as the target.

    For model i and class c the candidates are the records of class c, some of which model i was trained on; the
    population is what model i was not trained on, without class c.

    Args:
        options: name → an attack that needs no reference models, and the signal it takes: ``[m, z]`` under
            each of ``m`` reference models on the auditor's ``z`` records.
        trained_on: bool ``[m, z]``, True where model i was trained on record j.
        features: what the attacks may condition on, ``[z, d]``.
        labels: class of each record, ``[z]``.
        classes: those that take a turn; all when None.

    Raises:
        divulge.InputError: no option, shapes that do not fit, or no class with at least 10 members and 10
            non-members under any model.

    Examples:
        >>> from divulge.attacks import Threshold
        >>> rng = np.random.default_rng(0)
        >>> inside, noise = rng.random((3, 200)) < 0.5, rng.normal(size=(3, 200))
        >>> found = leave_one_class_out(
        ...     {"sharp": (Threshold(), inside + 0.3 * noise), "blunt": (Threshold(), inside + 3 * noise)},
        ...     inside, rng.normal(size=(200, 2)), np.arange(200) % 2)
        >>> found.name, found.gains["blunt"].low > 0
        ('sharp', True)
    """
    if not options:
        raise InputError("options: at least 1 attack is needed, got none")
    y = check_labels(labels, "labels")
    inside = check_mask(trained_on, "trained_on", (None, len(y)))
    feature_table = check_records(features, "features")
    signals = {name: check_matrix(signal, f"options[{name!r}]: signal") for name, (_, signal) in options.items()}
    for name, signal in signals.items():
        if signal.shape != inside.shape:
            raise InputError(f"options[{name!r}]: a signal of shape {inside.shape} is needed, got {signal.shape}")
    turns = list(_turns(inside, y, np.unique(y).tolist() if classes is None else list(classes)))
    if not turns:
        raise InputError(
            f"labels: no class has {_MIN_PER_SIDE} members and {_MIN_PER_SIDE} non-members under any reference model"
        )
    cells = {
        name: np.array(
            [
                _auc(attack, signals[name][model], inside[model], feature_table, y, held_out_class)
                for model, held_out_class in turns
            ]
        )
        for name, (attack, _) in options.items()
    }
    best = max(cells, key=lambda name: float(cells[name].mean()))
    return Chosen(
        best,
        {name: mean(areas) for name, areas in cells.items()},
        {name: mean(cells[best] - areas) for name, areas in cells.items()},
        cells,
    )


def mean(values: Floats, confidence: float = 0.95) -> Estimate:
    """The mean of independent values, with Student's interval.

    Examples:
        >>> print(mean(np.array([1.0, 2.0, 3.0])))
        2.0000 [-0.4841, 4.4841]
    """
    middle = float(np.mean(values))
    if len(values) < 2:
        return Estimate(middle, -np.inf, np.inf, confidence, "one value only")
    reach = float(
        special.stdtrit(len(values) - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / np.sqrt(len(values))
    )
    return Estimate(middle, middle - reach, middle + reach, confidence, "student over cells")


def _turns(inside: Bools, labels: Ints, classes: Iterable[int]) -> Iterator[tuple[int, int]]:
    for model in range(len(inside)):
        for label in classes:
            n_members = int(inside[model, labels == label].sum())
            n_nonmembers = int((~inside[model] & (labels == label)).sum())
            if min(n_members, n_nonmembers) >= _MIN_PER_SIDE and (~inside[model] & (labels != label)).any():
                yield model, label


def _auc(attack: Scores, signal: Floats, inside: Bools, features: Array, labels: Ints, held_out_class: int) -> float:
    candidates = np.flatnonzero(labels == held_out_class)
    population = np.flatnonzero((labels != held_out_class) & ~inside)
    evidence = Evidence(
        signal[candidates],
        population=signal[population],
        features=features[candidates],
        population_features=features[population],
        labels=labels[candidates],
        population_labels=labels[population],
    )
    return evaluation.auc(attack.score(evidence), inside[candidates]).value
