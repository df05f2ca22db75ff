"""Users, books or sites instead of documents: which had documents in training, with a bound on false discoveries.

The documents of one group depend on each other, so a bound over documents says nothing about groups. Two ways lead to
one. Where the calibration comes in groups as well, each group becomes one score, the mean of its documents': groups of
non-members are then exchangeable with those of the calibration, and every method applies, in finite samples and
whatever goes on inside a group. Where it does not, the p-values of a group's documents are combined by a rule that
holds for any dependence, ``e`` times their geometric mean, and so are the groups, which share one calibration set:
Benjamini and Yekutieli's step-up. That is valid and costs most of the power; the first way is the one to plan for.

Sources: Vovk & Wang, "Combining p-values via averaging", Biometrika 2020, proposition 4; Benjamini & Yekutieli, "The
control of the false discovery rate in multiple testing under dependency", Annals of Statistics 2001, theorem 1.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import conformal
from divulge.decisions import fdr as step_up
from divulge.errors import InputError
from divulge.types import Guarantee, Selection
from divulge.validation import check_names, check_number, check_vector

if TYPE_CHECKING:
    from divulge.decisions.methods import StepUp
    from divulge.types import Array, Floats, Ints

ASSUMES_EXCHANGEABLE_GROUPS = (
    "groups of non-members, their sizes included, are exchangeable with the groups of the calibration"
)
ASSUMES_EXCHANGEABLE_DOCUMENTS = (
    "each non-member document of a candidate group is exchangeable with the calibration records"
)


@dataclass(frozen=True, slots=True, eq=False)
class GroupSelection:
    """A yes or no for each group.

    Args:
        names: of the groups, sorted, ``[g]``.
        sizes: documents in each, ``[g]``.
        selection: of the groups, in this order.
    """

    names: Array
    sizes: Ints
    selection: Selection

    @property
    def selected(self) -> Array:
        """Names of the groups selected."""
        return self.names[self.selection.selected]

    def __repr__(self) -> str:
        return f"GroupSelection({len(self.selected)} of {len(self.names)} groups; {self.selection.guarantee})"


def select(
    candidates: object,
    groups: object,
    calibration: object,
    calibration_groups: object = None,
    *,
    fdr: float = 0.05,
    method: StepUp | str = "storey",
) -> GroupSelection:
    """Return the groups that had documents in training; on average at most ``fdr`` of them are groups of non-members.

    A false discovery is a group none of whose documents was used.

    Args:
        candidates: scores of documents ``[m]``, larger = more member-like.
        groups: of which group each is, ``[m]``, text or whole numbers.
        calibration: scores of known non-members ``[n]``.
        calibration_groups: of which group each is, ``[n]``; None where they come in none.
        fdr: bound on the expected share of groups of non-members among the selected.
        method: where the calibration comes in groups, see `divulge.decisions.fdr.decide`.

    Raises:
        divulge.InputError: NaN or infinity, lengths that do not fit, too few calibration groups for the level.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> groups, known = np.repeat(np.arange(60), 10), np.repeat(np.arange(300), 10)
        >>> scores = rng.normal(size=600) + 2 * (groups < 20)
        >>> users = select(scores, groups, rng.normal(size=3000), known, fdr=0.1)
        >>> set(range(20)) <= set(users.selected.tolist())
        True
    """
    level = check_number(fdr, "fdr", above=0, below=1)
    scores, calibration_scores = check_vector(candidates, "candidates"), check_vector(calibration, "calibration")
    names, sizes, means = _group_means(scores, groups, "groups")
    if calibration_groups is not None:
        _, _, calibration_means = _group_means(calibration_scores, calibration_groups, "calibration_groups")
        selection = step_up.select(means, calibration_means, fdr=level, method=method)
        guarantee = Guarantee(
            "FDR over groups",
            selection.guarantee.level,
            (ASSUMES_EXCHANGEABLE_GROUPS,) if selection.guarantee.says else (),
        )
        return GroupSelection(names, sizes, _with_guarantee(selection, guarantee, tuple(selection.warnings)))
    p = combined(conformal.p_values(calibration_scores, scores), groups)
    harmonic = float((1 / np.arange(1, len(p) + 1)).sum())
    warning = "the calibration comes in no groups: p-values are combined for the worst dependence, at a cost in power"
    selection = Selection(
        conformal.step_up(p, level / harmonic),
        p,
        math.inf,
        None,
        Guarantee("FDR over groups", level, (ASSUMES_EXCHANGEABLE_DOCUMENTS,)),
        (warning,),
    )
    threshold = float(means[selection.selected].min()) if selection.count else math.inf
    return GroupSelection(names, sizes, _with_guarantee(selection, selection.guarantee, (warning,), threshold))


def combined(p_values: object, groups: object) -> Floats:
    """One p-value per group, in sorted order of their names, whatever the dependence: ``e`` times the geometric mean.

    Args:
        p_values: of documents ``[m]``, in (0, 1].
        groups: of which group each is, ``[m]``.

    Raises:
        divulge.InputError: a p-value outside (0, 1], lengths that do not fit.

    Examples:
        >>> combined([0.01, 0.04, 0.5], ["a", "a", "b"]).round(4)
        array([0.0544, 0.5   ])
    """
    p = check_vector(p_values, "p_values")
    if p.min() <= 0 or p.max() > 1:
        raise InputError(f"p_values: must lie in (0, 1], got {p.min():g} to {p.max():g}")
    _, sizes, means = _group_means(np.log(p), groups, "groups")
    # A single p-value is one already.
    return np.minimum(np.exp(means + (sizes > 1)), 1.0)


def _group_means(values: Floats, groups: object, name: str) -> tuple[Array, Ints, Floats]:
    """Names of the groups, their sizes and their mean values, which no order of the rows changes."""
    names, group_index = np.unique(check_names(groups, name, length=len(values)), return_inverse=True)
    order = np.lexsort((values, group_index))
    starts = np.searchsorted(group_index[order], np.arange(len(names)))
    sizes = np.diff([*starts, len(values)])
    with np.errstate(over="ignore"):
        means = np.add.reduceat(values[order], starts) / sizes
    if not np.isfinite(means).all():
        raise InputError(f"{name}: the scores of {names[~np.isfinite(means)][0]!s} are too large to be averaged")
    return names, sizes, means


def _with_guarantee(
    selection: Selection, guarantee: Guarantee, warnings: tuple[str, ...], lowest: float | None = None
) -> Selection:
    threshold = selection.threshold if lowest is None else lowest
    return Selection(selection.selected, selection.p_values, threshold, selection.usage, guarantee, warnings)
