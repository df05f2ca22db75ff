"""A decision for a calibration that differs from the candidates in something known: within strata, or weighted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from divulge import checks
from divulge.decisions import controls, strata, weighted_fdr
from divulge.decisions.methods import BH, Auto
from divulge.decisions.strata import Strata
from divulge.decisions.weighted import Weights
from divulge.identification import standing
from divulge.identification.standing import LEVEL, together

if TYPE_CHECKING:
    from divulge.decisions.controls import Control
    from divulge.types import Floats, Selection

UNCHECKED = "the guarantee is in doubt: nothing here checks that the weights are right, and the bound holds if they are"


def select(
    judged: Floats, known: Floats, holdout: Floats | None, adjust: Strata | Weights, *, fdr: float, seed: int
) -> Selection:
    """The selection, and how its guarantee stands.

    Strata are examined as a calibration is, each by itself; weights cannot be.

    Raises:
        divulge.InputError: what does not fit, and what cannot carry the level.
    """
    if isinstance(adjust, Weights):
        if holdout is not None:
            raise checks.InputError(
                "holdout: no control compares it by weights; hand its features to weighted.density_ratio as like"
            )
        made = weighted_fdr.select(judged, known, adjust, fdr=fdr, seed=seed)
        guarantee = made.guarantee.at_most("doubtful")
        return replace(made, guarantee=guarantee, warnings=(UNCHECKED, *made.warnings))
    if (holdout is None) != (adjust.holdout is None):
        raise checks.InputError("holdout: its scores and its strata are needed, both or neither")
    made = strata.select(judged, known, adjust, fdr=fdr)
    evidence = together(_within(judged, known, holdout, adjust, seed))
    guarantee = made.guarantee.at_most(standing.standing(evidence))
    return replace(made, guarantee=guarantee, warnings=standing.warnings(evidence, made.warnings))


def refuse(asked: object, dimensions: int, **others: object) -> None:
    """Raise when something was asked for that an adjusted decision has no place for.

    Raises:
        divulge.InputError: in that case, with its name.
    """
    if not isinstance(asked, BH | Auto):
        raise checks.InputError("method: an adjusted decision is made by 'bh'; 'auto' takes it as well")
    if dimensions != 1:
        raise checks.InputError("adjust: one score is needed, got several signals")
    for name, value in others.items():
        if value is not None:
            raise checks.InputError(f"{name}: has no place beside adjust")


def _within(judged: Floats, known: Floats, holdout: Floats | None, adjust: Strata, seed: int) -> list[Control]:
    """The controls of a calibration, of every stratum; the most striking one counts."""
    found = [controls.low_scores(known[beside], judged[mine], level=LEVEL) for mine, beside in adjust.each()]
    evidence = [controls.strongest(found)]
    if holdout is not None:
        checks.vector(holdout, "holdout", length=len(adjust.holdout))
        apart = Strata(adjust.holdout, adjust.calibration)
        compared = [
            controls.exchangeability(known[beside], holdout[mine], level=LEVEL, seed=seed)
            for mine, beside in apart.each()
        ]
        evidence.append(controls.strongest(compared))
    return evidence
