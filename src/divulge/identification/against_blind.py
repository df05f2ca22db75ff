"""An identification beside a blind score: scores adjusted for it, and what it says of candidates and calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import blind_score, controls
from divulge.decisions import fdr as step_up
from divulge.decisions.blind_score import Adjustment
from divulge.decisions.controls import Control
from divulge.errors import InputError
from divulge.evaluation import against_baseline, auc, paired_difference
from divulge.identification.several import held_out, mean_rank
from divulge.identification.standing import LEVEL
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.evaluation import BaselineComparison
    from divulge.types import Array, Bools, Estimate, Floats

ADJUSTED = (
    "scores are adjusted for the blind score: each document counts by how far it exceeds what is usual at its blind "
    "score; p-values and thresholds are those of adjusted scores"
)
KNOWN = "blind score of known members"


@dataclass(frozen=True, slots=True, eq=False)
class BlindScores:
    """Blind scores, one per record of each kind; None where there are no such records.

    Args:
        candidates: ``[m]``.
        calibration: ``[n]``.
        holdout: ``[h]``.
        members: ``[k]``.
    """

    candidates: Floats
    calibration: Floats
    holdout: Floats | None = None
    members: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BlindComparison:
    """The score beside the blind score.

    Attributes:
        blind: AUC of the blind score, candidates against calibration.
        score: AUC of the score before it was adjusted; of the mean rank of several.
        difference: paired difference, score less blind score.
        known: comparison among candidates of known membership; None where it is not known of both kinds.
    """

    blind: Estimate
    score: Estimate
    difference: Estimate
    known: BaselineComparison | None


@dataclass(frozen=True, slots=True, eq=False)
class AdjustedScores:
    """Scores that are adjusted for a blind score, or as they were where there is none; and what was seen on the way.

    Attributes:
        candidates: ``[m]`` or ``[m, d]``.
        calibration: the same of the calibration.
        members: of known members ``[k]``; None where there are none.
        controls: on the blind score, and on a holdout.
        comparison: with the blind score; None where there is none.
    """

    candidates: Floats
    calibration: Floats
    members: Floats | None
    controls: tuple[Control, ...] = ()
    comparison: BlindComparison | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user must know of the adjustment and of the comparison."""
        if self.comparison is None:
            return ()
        known = self.comparison.known
        silent = known is None or known.answer == "leak found"
        return (ADJUSTED,) if silent else (ADJUSTED, f"among candidates of known membership: {known}")


def gather_blind_scores(given: Mapping[str, tuple[object, Floats | None]]) -> BlindScores | None:
    """Check that blind scores are given of all records or of none.

    Args:
        given: name of the argument → blind scores or None, and scores of the same records; None where there are none.

    Raises:
        divulge.InputError: blind scores of some kinds of records only, lengths that do not fit, NaN or infinity.
    """
    if all(values is None for values, _ in given.values()):
        return None
    found: dict[str, Floats] = {}
    for name, (values, scores) in given.items():
        if (values is None) != (scores is None):
            said = "is needed as well: blind scores of all records, or of none"
            raise InputError(f"{name}: {said if values is None else 'there are no such records'}")
        if scores is not None:
            found[name] = check_vector(values, name, length=len(scores))
    return BlindScores(
        found["baseline"],
        found["calibration_baseline"],
        found.get("holdout_baseline"),
        found.get("members_baseline"),
    )


def adjust(
    judged: Floats,
    known: Floats,
    blind: BlindScores,
    *,
    holdout: Floats | None = None,
    members: Floats | None = None,
    truth: Array | None = None,
    seed: int = 0,
) -> AdjustedScores:
    """Adjust scores for the blind score, and run the controls that it allows.

    A holdout is compared by the score, by the blind score and by the adjusted score; for the comparison it takes part
    in the adjustment as the candidates do.

    Args:
        judged: scores of the candidates ``[m]`` or ``[m, d]``.
        known: of the calibration.
        blind: the blind scores of all of them.
        holdout: scores of other known non-members.
        members: scores of documents known to have been used ``[k]``.
        truth: membership of the candidates, True, False or None, where it is known.
        seed: of random divisions.

    Raises:
        divulge.InputError: constant scores; scores that are too large to be adjusted.
    """
    if judged.ndim == 1:
        step_up.refuse_constant(judged, np.sort(known))
    (judged_adjusted, known_adjusted), fitted = _adjusted((judged, blind.candidates), (known, blind.calibration))
    evidence = [blind_score.control(blind.calibration, blind.candidates, level=LEVEL, seed=seed)]
    single, beside = (judged, known) if judged.ndim == 1 else mean_rank(judged, known)
    blind_auc, score_auc, difference = _compare((single, beside), (blind.candidates, blind.calibration))
    no_better = "" if evidence[0].passed or difference.low > 0 else ", which is not surely better"
    says = f"{evidence[0].says}, the score with AUC {score_auc}{no_better} (difference {difference})"
    evidence[0] = replace(evidence[0], says=says)
    if holdout is not None and blind.holdout is not None:
        evidence += _held_out(judged, known, (holdout, blind.holdout), blind, seed)
    comparison = _known(single, blind.candidates, truth, seed)
    if comparison is not None:
        p = 1.0 if comparison.answer == "leak found" else comparison.blind_p_value
        evidence.append(Control(KNOWN, p, LEVEL, f"members and non-members among the candidates: {comparison}"))
    taught = None if members is None or blind.members is None else fitted[0].apply(members, blind.members)
    compared = BlindComparison(blind_auc, score_auc, difference, comparison)
    return AdjustedScores(judged_adjusted, known_adjusted, taught, tuple(evidence), compared)


def _adjusted(*tables: tuple[Floats, Floats]) -> tuple[list[Floats], list[Adjustment]]:
    """Adjust each signal of tables of scores, ``[n]`` or ``[n, d]``, with their blind scores, in the pool of all."""
    blind = np.concatenate([one for _, one in tables])
    columns = np.concatenate([scores.reshape(len(scores), -1) for scores, _ in tables]).T
    fitted = [Adjustment.fit(column, blind) for column in columns]
    made = []
    for scores, own in tables:
        parts = [one.apply(column, own) for one, column in zip(fitted, scores.reshape(len(scores), -1).T, strict=True)]
        made.append(parts[0] if scores.ndim == 1 else np.column_stack(parts))
    return made, fitted


def _held_out(
    judged: Floats, known: Floats, holdout: tuple[Floats, Floats], blind: BlindScores, seed: int
) -> list[Control]:
    """Controls that compare a holdout with the calibration: by score, by blind score and by adjusted score."""
    tables = ((judged, blind.candidates), (known, blind.calibration), holdout)
    (candidates, calibration, apart), _ = _adjusted(*tables)
    first, *rest = held_out(apart, calibration, candidates if judged.ndim == 2 else None, seed)
    plain = controls.exchangeability(known, holdout[0], level=LEVEL, seed=seed)
    own = controls.exchangeability(blind.calibration, holdout[1], level=LEVEL, seed=seed)
    named = (
        replace(first, says=f"{first.says}, on the adjusted score"),
        replace(plain, says=f"{plain.says}, on the score"),
        replace(own, says=f"{own.says}, on the blind score"),
    )
    return [controls.strongest(named), *rest]


def _compare(scores: Sequence[Floats], blind: Sequence[Floats]) -> tuple[Estimate, Estimate, Estimate]:
    """AUC of the blind score and of the score, candidates against calibration, and their paired difference."""
    both, other = np.concatenate(scores), np.concatenate(blind)
    candidate: Bools = np.arange(len(both)) < len(scores[0])
    if auc(other, candidate).high < 0.5:  # turned round: it tells them apart all the same
        other = -other
    return auc(other, candidate), auc(both, candidate), paired_difference(both, other, candidate)


def _known(scores: Floats, blind: Floats, truth: Array | None, seed: int) -> BaselineComparison | None:
    """The score against the blind score where membership is known; None unless it is of both kinds."""
    if truth is None:
        return None
    rows = np.array([value is not None for value in truth.tolist()], bool)
    member = truth[rows].astype(bool)
    if not member.any() or member.all():
        return None
    return against_baseline(scores[rows], blind[rows], member, seed=seed)
