"""A decision for a calibration that differs from the candidates in something known: within strata, or weighted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import controls, strata, weighted_fdr
from divulge.decisions import fdr as step_up
from divulge.decisions.methods import BH, Auto
from divulge.decisions.strata import Strata
from divulge.decisions.weighted import Weights
from divulge.errors import InputError
from divulge.identification import standing
from divulge.identification.standing import LEVEL, together
from divulge.validation import check_vector

if TYPE_CHECKING:
    from divulge.decisions.controls import Control
    from divulge.types import Floats, Selection

UNCHECKED = "the guarantee is in doubt: nothing here checks that the weights are right, and the bound holds if they are"


def select(
    judged: Floats,
    known: Floats,
    holdout: Floats | None,
    adjust: Strata | Weights,
    *,
    fdr: float,
    orientation: str,
    seed: int,
) -> Selection:
    """The selection, and how its guarantee stands.

    Strata are examined as a calibration is, each by itself; weights cannot be.

    Args:
        judged: scores of the candidates ``[m]``.
        known: of the calibration ``[n]``.
        holdout: of other known non-members ``[h]``, to be compared within strata.
        adjust: strata or weights.
        fdr: bound on the expected share of non-members among the selected.
        orientation: a warning that the scores seem to be the wrong way round.
        seed: of random draws.

    Raises:
        divulge.InputError: what does not fit, and what cannot carry the level.
    """
    step_up.refuse_constant(judged, np.sort(known))
    if isinstance(adjust, Weights):
        if holdout is not None:
            raise InputError(
                "holdout: no control compares it by weights; hand its features to weighted.density_ratio as like"
            )
        made = weighted_fdr.select(judged, known, adjust, fdr=fdr, seed=seed)
        guarantee = made.guarantee.at_most("doubtful")
        said = (UNCHECKED, orientation, *made.warnings)
        return replace(made, guarantee=guarantee, warnings=tuple(text for text in said if text))
    if (holdout is None) != (adjust.holdout is None):
        raise InputError("holdout: its scores and its strata are needed, both or neither")
    made = strata.select(judged, known, adjust, fdr=fdr)
    evidence = together(_within(judged, known, holdout, adjust, seed))
    guarantee = made.guarantee.at_most(standing.standing(evidence))
    said = standing.warnings(evidence, [orientation, *made.warnings, _left_out(adjust)])
    return replace(made, guarantee=guarantee, warnings=said)


def refuse(asked: object, dimensions: int, **others: object) -> None:
    """Raise when something was asked for that an adjusted decision has no place for.

    Raises:
        divulge.InputError: in that case, with its name.
    """
    if not isinstance(asked, BH | Auto):
        raise InputError("method: an adjusted decision is made by 'bh'; 'auto' takes it as well")
    if dimensions != 1:
        raise InputError("adjust: one score is needed, got several signals")
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name}: has no place beside adjust")


def _left_out(adjust: Strata) -> str:
    """A warning where a holdout is of some strata only; empty where it is of all, or there is none."""
    if adjust.holdout is None:
        return ""
    left = np.isin(adjust.candidates, adjust.calibration) & ~np.isin(adjust.candidates, adjust.holdout)
    many = f"{left.sum()} of {len(left)} candidates"
    return f"{many} are of strata without a holdout: that these are alike rests on your word" if left.any() else ""


def _within(judged: Floats, known: Floats, holdout: Floats | None, adjust: Strata, seed: int) -> list[Control]:
    """The controls of a calibration, of every stratum; the most striking one counts."""
    found = [controls.low_scores(known[beside], judged[mine], level=LEVEL) for mine, beside in adjust.each()]
    evidence = [controls.strongest(found)]
    if holdout is not None:
        check_vector(holdout, "holdout", length=len(adjust.holdout))
        if not np.isin(adjust.holdout, adjust.calibration).any():
            raise InputError("holdout: none of its strata has calibration records to be compared with")
        apart = Strata(adjust.holdout, adjust.calibration)
        compared = [
            controls.exchangeability(known[beside], holdout[mine], level=LEVEL, seed=seed)
            for mine, beside in apart.each()
        ]
        evidence.append(controls.strongest(compared))
    return evidence
