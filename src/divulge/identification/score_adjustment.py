"""Reduce several signals to one score, adjust scores for a blind score, and run the controls that go with both."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy
from divulge.decisions import controls, pooled_scores, rounding
from divulge.decisions import fdr as step_up
from divulge.decisions.controls import Control
from divulge.decisions.pooled_scores import BlindAdjustment
from divulge.errors import InputError
from divulge.evaluation import against_baseline, auc, paired_difference
from divulge.identification.decision import LEVEL
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scipy import stats

    from divulge.evaluation import BaselineComparison
    from divulge.types import Array, Bools, Estimate, Floats
else:
    stats = lazy.module("scipy.stats")

ADJUSTED = (
    "scores are adjusted for the blind score: each document counts by how far it exceeds what is usual at its blind "
    "score; p-values and thresholds are those of adjusted scores"
)
KNOWN_MEMBERS = "blind score of known members"


def learn_score(candidates: Floats, calibration: Floats, level: float, seed: int) -> tuple[Floats, Floats]:
    """Return one score per candidate, and the calibration scores that are exchangeable with them.

    Args:
        candidates: scores ``[m]``, which are returned as they are, or several signals ``[m, d]``.
        calibration: the same, ``[n]`` or ``[n, d]``.
        level: bound on the false discovery rate.
        seed: of random splits.
    """
    if candidates.ndim == 1:
        return candidates, calibration
    step_up.require_enough_calibration(len(calibration), len(candidates), level)  # before half of it goes to learning
    scores, remaining = pooled_scores.adadetect_scores(candidates, calibration, seed=seed)
    return scores, remaining


def mean_rank(*tables: Floats) -> tuple[Floats, ...]:
    """Return one score from several without learning: the mean of the ranks in the pool of all tables ``[rows, d]``."""
    pooled = stats.rankdata(np.concatenate(tables), axis=0).mean(axis=1)
    return tuple(np.split(pooled, np.cumsum([len(table) for table in tables])[:-1]))


def compare_holdout(holdout: Floats, calibration: Floats, candidates: Floats | None, seed: int) -> list[Control]:
    """Compare a holdout with the calibration, on the scores that the decision uses.

    One score is compared as a whole, and its low end, which "adaptive" relies on, by itself. Several signals are
    compared one by one, by their mean rank, and by the score learned from them; the smallest p-value counts, times
    three. For that comparison the score is learned from the holdout as from the candidates, as records that a score
    was learned from are not exchangeable with others.

    Args:
        holdout: ``[h]`` or ``[h, d]``.
        calibration: ``[n]`` or ``[n, d]``.
        candidates: ``[m, d]``; None where there is one score.
        seed: of random splits.
    """
    if candidates is None:
        (holdout, calibration), _ = rounding.round_alike(holdout, calibration)
    direct = controls.exchangeability(calibration, holdout, level=LEVEL, seed=seed)
    if candidates is None:
        return [direct, controls.low_end(calibration.ravel(), holdout.ravel(), level=LEVEL)]
    _, *learned = pooled_scores.adadetect_scores(candidates, calibration, holdout, seed=seed)
    _, *ranked = mean_rank(candidates, calibration, holdout)
    learned_control = controls.exchangeability(*learned, level=LEVEL, seed=seed)
    rank_control = controls.exchangeability(*ranked, level=LEVEL, seed=seed)
    combined = [
        replace(learned_control, says=f"{learned_control.says}, on the score learned from all signals"),
        replace(rank_control, says=f"{rank_control.says}, on the mean rank of all signals"),
    ]
    return [controls.strongest([direct, *combined])]


@dataclass(frozen=True, slots=True, eq=False)
class BlindScores:
    """Blind scores, one per record of each set; None where there are no such records.

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
class ScoreSets:
    """Scores of each set, ``[rows]`` or ``[rows, d]``, and blind scores; None where there are none."""

    candidates: Floats
    calibration: Floats
    holdout: Floats | None = None
    members: Floats | None = None
    blind: BlindScores | None = None

    def doubt_round_scores(self) -> list[Control]:
        """Raise doubt where one set has nothing but 0, ½, 1 and the like, and the other has not.

        Where these were rounded, scores rose above others that they do not exceed.
        """
        chance = rounding.chance_of_round_scores(self.candidates, self.calibration)
        says = (
            "all scores of one set are 0, ½, 1 or the like, and many of the other set are not: were they rounded? Then "
            "hand in all decimals"
        )
        return [Control("precision", chance, LEVEL, says)] if chance <= LEVEL else []

    def round_alike(self) -> tuple[ScoreSets, list[Control]]:
        """Round all sets to the coarsest precision of any, and raise doubt if that changed something.

        One score is left to `divulge.decisions.rounding.align_calibration`. A score that is learned from several, or
        adjusted, has no direction in which rounding is safe: the bound holds if the coarser ones were rounded to the
        nearest number.
        """
        if self.candidates.ndim == 1 and self.blind is None:
            return self, []
        scores, found = rounding.round_alike(self.candidates, self.calibration, self.holdout, self.members)
        blind, found_blind = None, ""
        if self.blind is not None:
            of_blind = (self.blind.candidates, self.blind.calibration, self.blind.holdout, self.blind.members)
            blind_scores, found_blind = rounding.round_alike(*of_blind)
            blind = BlindScores(*blind_scores)
            found_blind = found_blind and f"blind scores: {found_blind}"
        doubts = [Control("precision", 0.0, LEVEL, text) for text in (found, found_blind) if text]
        return ScoreSets(*scores, blind), doubts

    def adjust(self, truth: Array | None, seed: int) -> AdjustedScores:
        """Adjust the scores for the blind scores, if there are any, see `adjust_scores`."""
        if self.blind is None:
            return AdjustedScores(self.candidates, self.calibration, self.members)
        return adjust_scores(
            self.candidates,
            self.calibration,
            self.blind,
            holdout=self.holdout,
            members=self.members,
            truth=truth,
            seed=seed,
        )


@dataclass(frozen=True, slots=True, eq=False)
class BlindScoreComparison:
    """Comparison of the score with the blind score.

    Attributes:
        blind: AUC of the blind score, candidates against calibration.
        score: AUC of the score before adjustment; of several scores, of their mean rank.
        difference: paired difference of the AUCs, score minus blind score.
        labelled: comparison among candidates of known membership; None where it is not known of both kinds.
    """

    blind: Estimate
    score: Estimate
    difference: Estimate
    labelled: BaselineComparison | None


@dataclass(frozen=True, slots=True, eq=False)
class AdjustedScores:
    """Scores adjusted for a blind score (unchanged where there is none), and their controls.

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
    comparison: BlindScoreComparison | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the adjustment and on the comparison."""
        if self.comparison is None:
            return ()
        labelled = self.comparison.labelled
        if labelled is None or labelled.answer == "leak found":
            return (ADJUSTED,)
        return (ADJUSTED, f"among candidates of known membership: {labelled}")


def collect_blind_scores(inputs: Mapping[str, tuple[object, Floats | None]]) -> BlindScores | None:
    """Return the blind scores; None where there are none.

    Args:
        inputs: for each argument name, blind scores and scores of the same records; None where there are none.

    Raises:
        divulge.InputError: blind scores of some sets of records only, lengths that do not fit, NaN or infinity.
    """
    if all(values is None for values, _ in inputs.values()):
        return None
    checked: dict[str, Floats] = {}
    for name, (values, scores) in inputs.items():
        if values is None and scores is not None:
            raise InputError(f"{name}: missing; blind scores are needed for all records or for none")
        if values is not None and scores is None:
            raise InputError(f"{name}: given, but there are no scores of these records")
        if scores is not None:
            checked[name] = check_vector(values, name, length=len(scores))
    return BlindScores(
        checked["baseline"],
        checked["calibration_baseline"],
        checked.get("holdout_baseline"),
        checked.get("members_baseline"),
    )


def adjust_scores(
    candidates: Floats,
    calibration: Floats,
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
        candidates: their scores ``[m]`` or ``[m, d]``.
        calibration: the same of the calibration.
        blind: the blind scores of all of them.
        holdout: scores of other known non-members.
        members: scores of documents known to have been used ``[k]``.
        truth: membership of the candidates, True, False or None, where it is known.
        seed: of random divisions.

    Raises:
        divulge.InputError: constant scores; scores that are too large to be adjusted.
    """
    if candidates.ndim == 1:
        step_up.require_distinct_scores(candidates, np.sort(calibration))
    pairs = ((candidates, blind.candidates), (calibration, blind.calibration))
    (adjusted_candidates, adjusted_calibration), adjustments = _adjust_signals(*pairs)
    single = (candidates, calibration) if candidates.ndim == 1 else mean_rank(candidates, calibration)
    pooled_scores, pooled_blind = np.concatenate(single), np.concatenate((blind.candidates, blind.calibration))
    is_candidate: Bools = np.arange(len(pooled_scores)) < len(single[0])
    if auc(pooled_blind, is_candidate).high < 0.5:  # A reversed blind score separates the sides as well.
        pooled_blind = -pooled_blind
    difference = paired_difference(pooled_scores, pooled_blind, is_candidate)
    blind_auc, score_auc = auc(pooled_blind, is_candidate), auc(pooled_scores, is_candidate)
    blind_control = controls.blind_score(blind.calibration, blind.candidates, level=LEVEL, seed=seed)
    no_better = "" if blind_control.passed or difference.low > 0 else ", which is not surely better"
    says = f"{blind_control.says}, the score with AUC {score_auc}{no_better} (difference {difference})"
    control_results = [replace(blind_control, says=says)]
    if holdout is not None and blind.holdout is not None:
        control_results += _compare_adjusted_holdout(*pairs, (holdout, blind.holdout), seed)
    labelled = _compare_labelled(single[0], blind.candidates, truth, seed)
    if labelled is not None:
        p = 1.0 if labelled.answer == "leak found" else labelled.blind_p_value
        control_results.append(
            Control(KNOWN_MEMBERS, p, LEVEL, f"members and non-members among the candidates: {labelled}")
        )
    adjusted_members = None
    if members is not None and blind.members is not None:
        adjusted_members = adjustments[0].apply(members, blind.members)
    comparison = BlindScoreComparison(blind_auc, score_auc, difference, labelled)
    return AdjustedScores(
        adjusted_candidates, adjusted_calibration, adjusted_members, tuple(control_results), comparison
    )


def _adjust_signals(*pairs: tuple[Floats, Floats]) -> tuple[list[Floats], list[BlindAdjustment]]:
    """Adjust each signal of ``(scores, blind scores)``, ``[n]`` or ``[n, d]``, in the pool of all pairs."""
    pooled_blind = np.concatenate([blind for _, blind in pairs])
    pooled_signals = np.concatenate([scores.reshape(len(scores), -1) for scores, _ in pairs]).T
    adjustments = [BlindAdjustment.fit(signal, pooled_blind) for signal in pooled_signals]
    adjusted = []
    for scores, blind in pairs:
        signals = scores.reshape(len(scores), -1).T
        columns = [fit.apply(signal, blind) for fit, signal in zip(adjustments, signals, strict=True)]
        adjusted.append(columns[0] if scores.ndim == 1 else np.column_stack(columns))
    return adjusted, adjustments


def _compare_adjusted_holdout(
    candidates: tuple[Floats, Floats], calibration: tuple[Floats, Floats], holdout: tuple[Floats, Floats], seed: int
) -> list[Control]:
    """Compare a holdout with the calibration by score, by blind score and by adjusted score."""
    adjusted, _ = _adjust_signals(candidates, calibration, holdout)
    several = candidates[0].ndim == 2
    adjusted_control, *other_controls = compare_holdout(
        adjusted[2], adjusted[1], adjusted[0] if several else None, seed
    )
    score_control = controls.exchangeability(calibration[0], holdout[0], level=LEVEL, seed=seed)
    blind_control = controls.exchangeability(calibration[1], holdout[1], level=LEVEL, seed=seed)
    described = (
        replace(adjusted_control, says=f"{adjusted_control.says}, on the adjusted score"),
        replace(score_control, says=f"{score_control.says}, on the score"),
        replace(blind_control, says=f"{blind_control.says}, on the blind score"),
    )
    return [controls.strongest(described), *other_controls]


def _compare_labelled(scores: Floats, blind: Floats, truth: Array | None, seed: int) -> BaselineComparison | None:
    """Compare score and blind score on labelled candidates; None unless both members and non-members are labelled."""
    if truth is None:
        return None
    is_labelled = np.array([value is not None for value in truth.tolist()], bool)
    member = truth[is_labelled].astype(bool)
    if not member.any() or member.all():
        return None
    return against_baseline(scores[is_labelled], blind[is_labelled], member, seed=seed)
