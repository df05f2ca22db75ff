"""Identification on arrays of scores: the selection, and the negative controls on which its guarantee rests.

Where the calibration differs from the candidates in a known way, the decision is made within strata.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import controls
from divulge.decisions import fdr as step_up
from divulge.decisions.counts import Counts, has_unmatched_repeats
from divulge.decisions.fdr import ScoreCounts
from divulge.decisions.methods import BH, Auto, resolve_method
from divulge.decisions.rounding import AlignedCalibration, align_calibration, round_alike
from divulge.decisions.strata import Strata, select_within_strata
from divulge.errors import InputError
from divulge.identification import decision
from divulge.identification.decision import (
    CANDIDATE_COPIES,
    LEVEL,
    METHODS,
    Policy,
    choose,
    decide,
    members_note,
    orientation_warning,
    share_level,
)
from divulge.identification.score_adjustment import (
    ScoreSets,
    collect_blind_scores,
    compare_holdout,
    learn_score,
    mean_rank,
)
from divulge.identification.score_tables import equal_scores_message, normalise_text, surely_same_scores
from divulge.report.formatting import format_count
from divulge.settings import DecisionSettings
from divulge.validation import (
    check_array,
    check_instance,
    check_mask,
    check_nonempty,
    check_strings,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.methods import Method
    from divulge.types import Array, Floats, Ints, Selection

_DEFAULTS = DecisionSettings()


def identify(
    candidates: object,
    calibration: object,
    *,
    fdr: float = _DEFAULTS.fdr,
    method: Method | str = _DEFAULTS.method,
    eta: float = _DEFAULTS.eta,
    lam: float = _DEFAULTS.lam,
    holdout: object = None,
    candidate_texts: Sequence[str] | None = None,
    calibration_texts: Sequence[str] | None = None,
    members: object = None,
    truth: object = None,
    adjust: Strata | None = None,
    baseline: object = None,
    calibration_baseline: object = None,
    holdout_baseline: object = None,
    members_baseline: object = None,
    seed: int = _DEFAULTS.seed,
) -> Selection:
    """Select candidates that were used for training, with the false discovery rate bounded by ``fdr``.

    Negative controls examine the scores always, and ``holdout`` scores and texts where given. The holdout control
    compares known non-members with known non-members; it fails in at most 5 % of sound runs, whatever the members are,
    and then the guarantee is void; without it, or where it is too small to tell, whatever is selected is in doubt.
    Texts and low scores compare *all* candidates with the calibration; as members may differ in other ways, these
    controls only put the guarantee in doubt. The first warning says which control did not pass, and "auto" then falls
    back to "bh", which a shift of the scores hurts least.

    Args:
        candidates: scores ``[m]``, larger = more member-like; or several signals ``[m, d]``.
        calibration: scores ``[n]`` (or ``[n, d]``) of documents known not to have been used.
        fdr: bound on the expected share of non-members among the selected.
        method: of `divulge.decisions.methods`, or the name of one: "bh"; "ptdi"; "storey"; "adaptive"; "adadetect"
            (learns one score from several with half the calibration, then "bh"); "auto": when the controls
            pass "storey", or "adaptive" where a holdout was compared, or "adadetect" for several signals; "bh" when
            one does not (on the mean rank of several signals).
        eta: share of calibration beyond the threshold of "ptdi", where the method is named.
        lam: grid point of "storey", where the method is named.
        holdout: scores ``[h]`` (or ``[h, d]``) of other known non-members, for the exchangeability control.
        candidate_texts: the candidates' texts ``[m]``, for the blind text control. Equal texts of one side are one
            document, with the middle one of their scores: all of them are selected, or none.
        calibration_texts: the calibration's texts ``[n]``.
        members: scores ``[k]`` of documents known to have been used (planted documents, or scores under a twin model):
            ``usage`` is then estimated with them, see `divulge.decisions.usage.mixture`.
        truth: bool ``[m]``, where membership is known: warns when the scores are the wrong way round.
        adjust: `divulge.decisions.strata.Strata`, where the calibration differs from the candidates in something known
            of both; "bh" then decides within strata.
        baseline: blind scores ``[m]`` of the candidates, from a classifier that never saw the model. Scores are
            adjusted for them before the decision; where they tell candidates from calibration by themselves, the
            guarantee is in doubt. See `divulge.decisions.pooled_scores`.
        calibration_baseline: the same of the calibration ``[n]``.
        holdout_baseline: of the holdout ``[h]``, where there is one; a difference from the calibration voids.
        members_baseline: of the known members ``[k]``, where there are some.
        seed: of random splits.

    Raises:
        divulge.InputError: NaN or infinity (the rows are named), empty or constant scores, calibration too
            small for the level, a text among both candidates and calibration, texts of one side alone,
            lengths or numbers of signals that differ; two sets with the same scores in the same order; strata
            that cannot carry the level.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(3, 1, 100), rng.normal(size=100))
        >>> selection = identify(scores, rng.normal(size=500), fdr=0.1, method="ptdi")
        >>> selection.count, round(selection.threshold, 2), print(selection.usage)
        0.4801 [0.3465, 0.7444]
        (104, 1.39, None)
    """
    DecisionSettings.check(fdr=fdr, eta=eta, lam=lam, seed=seed)
    requested = resolve_method(method, METHODS, eta=eta, lam=lam)
    candidate_scores = _check_signals(candidates, "candidates")
    calibration_scores = _check_signals(calibration, "calibration", template=candidate_scores)
    holdout_scores = None if holdout is None else _check_signals(holdout, "holdout", template=candidate_scores)
    member_scores = None if members is None else check_vector(members, "members")
    _check_sets_differ(
        {"candidates": candidate_scores, "calibration": calibration_scores, "holdout": holdout_scores,
         "members": member_scores}
    )  # fmt: skip
    if candidate_texts is not None:
        candidate_texts = check_strings(candidate_texts, "candidate_texts")
    if calibration_texts is not None:
        calibration_texts = check_strings(calibration_texts, "calibration_texts")
    copies = _find_copies(candidate_texts, calibration_texts, len(candidate_scores), len(calibration_scores))
    if copies is not None:  # equal texts are one document, and below there are only documents
        candidate_scores = copies.candidates.middle_values(candidate_scores, "candidates")
        calibration_scores = copies.calibration.middle_values(calibration_scores, "calibration")
        candidate_texts, calibration_texts = copies.candidates.texts, copies.calibration.texts
        truth = None if truth is None else copies.candidates.middle_values(truth, "truth")
        baseline = None if baseline is None else copies.candidates.middle_values(baseline, "baseline")
        if calibration_baseline is not None:
            calibration_baseline = copies.calibration.middle_values(calibration_baseline, "calibration_baseline")
    if adjust is not None:
        refused = {
            "candidate_texts": candidate_texts, "calibration_texts": calibration_texts, "members": members,
            "baseline": baseline, "calibration_baseline": calibration_baseline, "holdout_baseline": holdout_baseline,
        }  # fmt: skip
        if given := [name for name, value in refused.items() if value is not None]:
            raise InputError(f"{given[0]}: cannot be combined with adjust")
        selection = _select_within_strata(
            candidate_scores, calibration_scores, holdout_scores, adjust, requested, fdr, truth, seed
        )
    else:
        _check_method_inputs(requested.name, candidate_scores.ndim, members)
        blind = collect_blind_scores(
            {
                "baseline": (baseline, candidate_scores),
                "calibration_baseline": (calibration_baseline, calibration_scores),
                "holdout_baseline": (holdout_baseline, holdout_scores),
                "members_baseline": (members_baseline, member_scores),
            }
        )
        sets = ScoreSets(candidate_scores, calibration_scores, holdout_scores, member_scores, blind)
        selection = select(sets, requested, fdr, truth, (candidate_texts, calibration_texts), seed)
    return selection if copies is None else copies.spread(selection)


def select(
    sets: ScoreSets,
    requested: Method,
    fdr: float,
    truth: object = None,
    texts: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    seed: int = 0,
    further_controls: Sequence[Control] = (),
    *,
    scored_together: bool = False,
) -> Selection:
    """Select from all candidates together.

    Args:
        sets: scores of candidates, calibration, holdout and known members.
        requested: the method.
        fdr: bound on the expected share of non-members among the selected.
        truth: bool ``[m]``, where membership is known.
        texts: those of candidates and calibration, or None.
        seed: of random splits.
        further_controls: controls that were run on something other than scores and texts.
        scored_together: whether candidates and calibration were scored in one call.
    """
    sets, precision = sets.round_alike()
    if sets.candidates.ndim == 1 and not scored_together:
        precision += sets.doubt_round_scores()
    blind = sets.blind
    labels = None if truth is None or blind is None else check_mask(truth, "truth", (len(sets.candidates),))
    scores = sets.adjust(labels, seed)
    several = scores.candidates.ndim == 2
    control_results = _compare_texts(*texts, len(scores.candidates), len(scores.calibration), seed)
    learned, known = learn_score(scores.candidates, scores.calibration, fdr, seed)
    aligned = AlignedCalibration(known, known) if several or blind is not None else align_calibration(learned, known)
    candidate_counts = ScoreCounts.from_scores(learned, aligned.raised, scores.members)
    control_results += [*scores.controls, *precision, *further_controls]
    if sets.holdout is not None and sets.blind is None:
        control_results += compare_holdout(
            sets.holdout, scores.calibration, scores.candidates if several else None, seed
        )
    control_results.append(controls.low_scores(aligned.lowered, learned, level=LEVEL))
    control_results = share_level(control_results)
    policy = Policy(fdr, requested)
    choice = choose(policy, control_results, several=several)
    if several and isinstance(choice.method, BH):
        candidate_counts = ScoreCounts.from_scores(*mean_rank(scores.candidates, scores.calibration), scores.members)
    orientation = orientation_warning(candidate_counts.scores, truth)
    candidates_repeat = has_unmatched_repeats(
        Counts.empty(candidate_counts.scores).add(candidate_counts.counts.calibration)
    )
    result = decide(
        candidate_counts.counts,
        control_results,
        policy,
        choice=choice,
        orientation=orientation,
        notes=(*scores.notes, aligned.note, members_note(scores.members, scores.calibration)),
        doubts=(CANDIDATE_COPIES,) if candidates_repeat else (),
        scored_together=scored_together,
        seed=seed,
    )
    selection = candidate_counts.make_selection(
        candidate_counts.scores > result.rule.threshold, fdr=fdr, warnings=result.warnings
    )
    return replace(selection, guarantee=result.guarantee)


def _check_signals(value: object, name: str, template: Floats | None = None) -> Floats:
    """Return finite scores ``[n]`` or signals ``[n, d]``, with as many columns as ``template`` where that is given."""
    signals = check_nonempty(check_array(value, name, finite=False), name)
    if signals.ndim not in (1, 2) or not signals.size:
        raise InputError(f"{name}: one or two dimensions are needed, got shape {signals.shape}")
    signals = signals.astype(np.float64, copy=False)
    finite = np.isfinite(signals) if signals.ndim == 1 else np.isfinite(signals).all(axis=1)
    if not finite.all():
        numbers = format_rows(np.flatnonzero(~finite))
        raise InputError(f"{name}: NaN or infinite scores in {numbers}; leave these out")
    if signals.ndim == 2 and signals.shape[1] == 1:
        signals = signals[:, 0]
    if template is not None and signals.shape[1:] != template.shape[1:]:
        raise InputError(
            f"{name}: the same signals as in candidates are needed, got shapes {signals.shape} and {template.shape}"
        )
    return signals


def _check_sets_differ(sets: Mapping[str, Floats | None]) -> None:
    """Raise where two sets hold the same scores, which different documents do not have by chance."""
    for (name, scores), (other, others) in itertools.combinations(sets.items(), 2):
        if scores is None or others is None or not np.array_equal(scores, others):
            continue
        if surely_same_scores(scores):
            raise InputError(equal_scores_message(other, name))


def format_rows(index: Sequence[int] | np.ndarray) -> str:
    """Return row numbers of an array as text, the first ten of them.

    Examples:
        >>> format_rows([4, 7])
        '2 rows (4, 7; counted from 0)'
    """
    numbers = ", ".join(str(int(i)) for i in index[:10])
    return f"{format_count(len(index), 'row')} ({numbers}{', …' if len(index) > 10 else ''}; counted from 0)"


def _check_method_inputs(method: str, n_dimensions: int, members: object) -> None:
    """Raise where a method does not apply to that many dimensions of scores."""
    if members is not None and n_dimensions == 2:
        raise InputError("members: the share is estimated from one score column, got several")
    if method == "adadetect" and n_dimensions == 1:
        raise InputError("candidates: 'adadetect' learns from at least two signals, an array [m, d] is needed")
    if method not in ("auto", "adadetect") and n_dimensions == 2:
        raise InputError(f"candidates: {method!r} uses one score, got several; use 'adadetect' or one column")


@dataclass(frozen=True, slots=True, eq=False)
class _DistinctTexts:
    """The distinct texts of one side, and the number of the text that each row has."""

    texts: list[str]
    numbers: Ints

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> _DistinctTexts:
        """Number the texts by first appearance; rows without a text are documents of their own."""
        numbers: dict[object, int] = {}
        keys = [normalise_text(text) or (row,) for row, text in enumerate(texts)]
        index = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        return cls([texts[row] for row in np.unique(index, return_index=True)[1]], index)

    @property
    def n_copies(self) -> int:
        """Number of rows beyond the first of their text."""
        return len(self.numbers) - len(self.texts)

    def middle_values(self, values: object, name: str) -> Array:
        """Return the middle one of each text's values ``[rows]`` or ``[rows, d]``, the lower one of two."""
        array = np.asarray(values)
        if array.ndim not in (1, 2) or len(array) != len(self.numbers):
            raise InputError(f"{name}: {len(self.numbers)} rows are needed, got shape {array.shape}")
        if array.ndim == 2:
            return np.column_stack([self.middle_values(column, name) for column in array.T])
        order = np.lexsort((array, self.numbers))
        starts = np.flatnonzero(np.diff(self.numbers[order], prepend=-1))
        sizes = np.diff(starts, append=len(order))
        return array[order][starts + (sizes - 1) // 2]


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """Distinct texts of the candidates and of the calibration."""

    candidates: _DistinctTexts
    calibration: _DistinctTexts

    def spread(self, selection: Selection) -> Selection:
        """Return a selection of distinct texts as one of all candidates."""
        listed = " and ".join(
            f"{side.n_copies} {name}"
            for name, side in (("candidates", self.candidates), ("calibration scores", self.calibration))
            if side.n_copies
        )
        note = f"{listed} are of texts that others are of as well; each text counts once"
        rows = self.candidates.numbers
        return replace(
            selection,
            selected=selection.selected[rows],
            p_values=selection.p_values[rows],
            warnings=(*selection.warnings, note),
        )


def _find_copies(candidates: Sequence[str] | None, calibration: Sequence[str] | None, m: int, n: int) -> _Copies | None:
    """Return the distinct texts of both sides; None where all are distinct, or texts are missing or do not fit."""
    if candidates is None or calibration is None or (len(candidates), len(calibration)) != (m, n):
        return None
    copies = _Copies(_DistinctTexts.from_texts(candidates), _DistinctTexts.from_texts(calibration))
    return copies if copies.candidates.n_copies or copies.calibration.n_copies else None


def _compare_texts(
    candidates: Sequence[str] | None, calibration: Sequence[str] | None, m: int, n: int, seed: int
) -> list[Control]:
    """Run the blind text control; no control where there are no texts."""
    if candidates is None and calibration is None:
        return []
    if candidates is None or calibration is None:
        missing = "candidate_texts" if candidates is None else "calibration_texts"
        raise InputError(f"{missing}: the texts of both sides are needed to compare them, got those of one")
    for name, texts, length in (("candidate_texts", candidates, m), ("calibration_texts", calibration, n)):
        if len(texts) != length:
            raise InputError(f"{name}: {length} texts are needed (one per score), got {len(texts)}")
    calibration_texts = set(map(normalise_text, calibration)) - {""}
    overlap = [i for i, text in enumerate(candidates) if normalise_text(text) in calibration_texts]
    if overlap:
        raise InputError(
            f"candidate_texts: {format_rows(overlap)} are also among the calibration texts; a document cannot be both "
            "a candidate and known to be unseen"
        )
    return [controls.blind_text(calibration, candidates, level=LEVEL, seed=seed)]


def _select_within_strata(
    candidates: Floats,
    calibration: Floats,
    holdout: Floats | None,
    adjust: Strata,
    requested: Method,
    level: float,
    truth: object,
    seed: int,
) -> Selection:
    """Select within strata; controls run in each stratum, and the most significant one counts."""
    check_instance(adjust, "adjust", Strata, "a decisions.strata.Strata")
    if not isinstance(requested, BH | Auto):
        raise InputError("method: an adjusted decision is made by 'bh'; 'auto' takes it as well")
    if candidates.ndim != 1:
        raise InputError("adjust: one score is needed, got several signals")
    if (holdout is None) != (adjust.holdout is None):
        raise InputError("holdout: its scores and its strata are needed, both or neither")
    orientation = orientation_warning(candidates, truth)
    step_up.require_distinct_scores(candidates, np.sort(calibration))
    aligned = align_calibration(candidates, calibration)
    selection = select_within_strata(candidates, aligned.raised, adjust, fdr=level)
    low_scores = [
        controls.low_scores(aligned.lowered[known_rows], candidates[rows], level=LEVEL)
        for rows, known_rows in adjust.iterate_rows()
    ]
    control_results = [controls.strongest(low_scores)]
    uncompared = ""
    if holdout is not None and adjust.holdout is not None:
        check_vector(holdout, "holdout", length=len(adjust.holdout))
        (holdout, calibration), _ = round_alike(holdout, calibration)
        if not np.isin(adjust.holdout, adjust.calibration).any():
            raise InputError("holdout: none of its strata has calibration records to be compared with")
        comparisons = [
            controls.exchangeability(calibration[known_rows], holdout[rows], level=LEVEL, seed=seed)
            for rows, known_rows in Strata(adjust.holdout, adjust.calibration).iterate_rows()
        ]
        control_results.append(controls.strongest(comparisons))
        is_uncompared = np.isin(adjust.candidates, adjust.calibration) & ~np.isin(adjust.candidates, adjust.holdout)
        if is_uncompared.any():
            uncompared = (
                f"{is_uncompared.sum()} of {len(is_uncompared)} candidates are of strata without a holdout: "
                "that these are alike is your assumption"
            )
    control_results = share_level(control_results)
    return replace(
        selection,
        guarantee=selection.guarantee.capped_at(decision.combined_standing(control_results)),
        warnings=decision.warnings(control_results, [orientation, aligned.note, *selection.warnings, uncompared]),
    )
