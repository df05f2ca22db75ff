"""Check whether the labels of the audit are those of the training: a model answers its own records no worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import signal, stats

from divulge import evaluation
from divulge.duplicates import first_of_each_group, number_groups
from divulge.results import CheckFinding
from divulge.signals.regression import NEGATIVE_SQUARED_LOSS

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.types import Bools, Ints

FALSE_ALARM = 1e-3
"""Greatest probability that members of a random split are said to be answered worse."""


class LabelsOfTraining:
    """Members answered worse than non-members: the labels given are probably not those of the training.

    A model is right more often on what it was trained on, or as often. Where it is surely right less often, it learned
    other labels (randomised response, a later annotation, noise on real values), and attacks that read the given ones
    look for the leak in the wrong place. Compared are members and non-members of one class, exactly; of real values,
    how many are predicted with at most the median error.
    """

    name = "labels of the training"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Compare the target's answers; None where none were recorded or members are not surely worse."""
        prepared, log = audit.prepared, audit.log
        records, is_member = prepared.inputs.candidates, prepared.inputs.truth
        fit = audit.views[0].target.get(NEGATIVE_SQUARED_LOSS.name)
        if records.labels is not None and log.predicted_labels is not None:
            strata = records.labels
            is_right = log.predicted_labels[prepared.layout.candidate_rows] == strata
            described, shares = "gives the class of", "right"
        elif fit is not None:
            fit = fit[prepared.layout.candidate_rows]
            strata, is_right = np.zeros(len(fit), dtype=np.int64), fit >= np.median(fit)
            described, shares = "predicts with at most the median error", "within the median error"
        else:
            return None
        # Copies are answered alike, whatever their labels; each group counts once, in favour of the labels.
        groups = number_groups(records.x)
        n_right, n_copies = (np.bincount(2 * groups + is_member, weights) for weights in (is_right, None))
        counted = first_of_each_group(groups, is_member)
        unit = (2 * groups + is_member)[counted]
        strata, is_member = strata[counted], is_member[counted]
        is_right = np.where(is_member, n_right[unit] > 0, n_right[unit] == n_copies[unit])
        p_value = members_worse_p_value(is_right, is_member, strata)
        if p_value > FALSE_ALARM:
            return None
        figures = {
            f"{shares}, {side}": evaluation.proportion(int(is_right[rows].sum()), int(rows.sum()))
            for side, rows in (("members", is_member), ("non-members", ~is_member))
        }
        members, nonmembers = (f"{100 * share.value:.1f} %" for share in figures.values())
        return CheckFinding(
            self.name,
            "not cleared",
            f"The model answers its own training records worse than others: it {described} {members} of the members "
            f"and {nonmembers} of the non-members (p = {p_value:.1g}), so the labels given are probably not those of "
            "the training.",
            (
                "Labels that were changed before the training for privacy, annotated again later or taken from another "
                "column do that; so does a split whose members are harder. Attacks that read labels then miss what "
                "leaks: audit with the labels of the training, or with recipes that read none, such as "
                "max-probability.",
            ),
            figures,
        )


def members_worse_p_value(is_right: Bools, is_member: Bools, strata: Ints) -> float:
    """Return the chance that a random split within each stratum gives so few members right, exactly.

    The number of members that are right is hypergeometric in each stratum, and independent among them.

    Args:
        is_right: which records are answered right, bool ``[n]``.
        is_member: bool, ``[n]``.
        strata: what members and non-members must have in common to be compared, such as the class, int ``[n]``.

    Examples:
        >>> is_member = np.arange(8) < 4
        >>> round(members_worse_p_value(~is_member, is_member, np.zeros(8, int)), 4)  # one of 70 divisions
        0.0143
    """
    excess, chances = 0, np.ones(1)
    for stratum in np.unique(strata):
        right, member = is_right[strata == stratum], is_member[strata == stratum]
        n, n_right, n_members = len(right), int(right.sum()), int(member.sum())
        least, most = max(0, n_right + n_members - n), min(n_right, n_members)
        chances = signal.convolve(chances, stats.hypergeom.pmf(np.arange(least, most + 1), n, n_right, n_members))
        excess += int((right & member).sum()) - least
    return float(min(1.0, chances[: excess + 1].sum()))
