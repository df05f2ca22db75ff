"""Several signals of each document: one score made of them, and what a holdout says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge.decisions import adadetect, controls, low_end
from divulge.decisions import fdr as step_up
from divulge.identification.standing import LEVEL

if TYPE_CHECKING:
    from divulge.decisions.controls import Control
    from divulge.types import Floats


def learned(judged: Floats, known: Floats, level: float, seed: int) -> tuple[Floats, Floats]:
    """One score per candidate, and calibration that is exchangeable with it."""
    if judged.ndim == 1:
        return judged, known
    step_up.refuse_small(len(known), len(judged), level)  # before half of it goes to learning
    scores, kept = adadetect.scores(judged, known, seed=seed)
    return scores, kept


def mean_rank(*tables: Floats) -> tuple[Floats, ...]:
    """One score from several without learning: the mean of the ranks in the pool of all tables ``[rows, d]``."""
    pooled = stats.rankdata(np.concatenate(tables), axis=0).mean(axis=1)
    return tuple(np.split(pooled, np.cumsum([len(table) for table in tables])[:-1]))


def held_out(holdout: Floats, known: Floats, judged: Floats | None, seed: int) -> list[Control]:
    """Controls that compare a holdout with the calibration, on the scores that a decision rests on.

    One score is compared whole, and its low end by itself, on which "adaptive" leans. Several signals are compared
    one by one, by their mean rank, and by the score learned from them; the
    most striking counts, with its p-value times three. For the comparison the holdout is learned from as
    the candidates are, since what has been learned from is not exchangeable with what has not.

    Args:
        holdout: ``[h]`` or ``[h, d]``.
        known: calibration, ``[n]`` or ``[n, d]``.
        judged: candidates ``[m, d]``; None where there is one score.
        seed: of random splits.
    """
    whole = controls.exchangeability(known, holdout, level=LEVEL, seed=seed)
    if judged is None:
        return [whole, low_end.control(known.ravel(), holdout.ravel(), level=LEVEL)]
    _, kept, learned = adadetect.scores(judged, known, holdout, seed=seed)
    _, ranked, rank = mean_rank(judged, known, holdout)
    combined = (
        replace(table, says=f"{table.says}, on {what}")
        for what, table in (
            ("the score learned from all signals", controls.exchangeability(kept, learned, level=LEVEL, seed=seed)),
            ("the mean rank of all signals", controls.exchangeability(ranked, rank, level=LEVEL, seed=seed)),
        )
    )
    return [controls.strongest([whole, *combined])]
