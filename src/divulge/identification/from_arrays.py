"""From arrays of scores to a selection, with the negative controls that its guarantee rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.decisions import controls, knockoff
from divulge.decisions.fdr import Judged
from divulge.decisions.methods import BH, Knockoff, named
from divulge.decisions.strata import Strata
from divulge.decisions.weighted import Weights
from divulge.errors import InputError
from divulge.identification import adjusted, against_blind, standing
from divulge.identification.against_blind import AdjustedScores
from divulge.identification.decide import METHODS, Policy, choose, decide
from divulge.identification.several import held_out, learned, mean_rank
from divulge.identification.standing import LEVEL, together
from divulge.identification.truth import orientation
from divulge.types import Guarantee
from divulge.validation import (
    check_array,
    check_instance,
    check_integer,
    check_mask,
    check_nonempty,
    check_number,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.methods import Method
    from divulge.identification.against_blind import BlindScores
    from divulge.types import Floats, Selection

SYMMETRIC = "a non-member scores above and below its own paraphrase equally often"


def identify(
    candidates: object,
    calibration: object,
    *,
    fdr: float = 0.05,
    method: Method | str = "auto",
    eta: float = 0.05,
    lam: float = 0.5,
    holdout: object = None,
    candidate_texts: Sequence[str] | None = None,
    calibration_texts: Sequence[str] | None = None,
    knockoffs: object = None,
    calibration_knockoffs: object = None,
    members: object = None,
    truth: object = None,
    adjust: Strata | Weights | None = None,
    baseline: object = None,
    calibration_baseline: object = None,
    holdout_baseline: object = None,
    members_baseline: object = None,
    seed: int = 0,
) -> Selection:
    """Which candidates were used for training, with the false discovery rate bounded by ``fdr``.

    Negative controls run on whatever is handed in: low scores always, ``holdout`` scores and the texts
    where given. A holdout, known non-members compared with known non-members, fails in at most 5 % of sound
    runs, whatever the members are: then the guarantee is void. Texts and low scores compare *all* candidates
    with the calibration, and members may well be about something else: they can only put the guarantee in
    doubt. The first warning says which, and "auto" then falls back to "bh", which a shift of the scores
    hurts least.

    Args:
        candidates: scores ``[m]``, larger = more member-like; or several signals ``[m, d]``.
        calibration: scores ``[n]`` (or ``[n, d]``) of documents known not to have been used.
        fdr: bound on the expected share of non-members among the selected.
        method: of `divulge.decisions.methods`, or the name of one: "bh"; "ptdi"; "storey"; "adaptive"; "adadetect"
            (learns one score from several with half the calibration, then "bh"); "knockoff" (a baseline
            known to fail, needs ``knockoffs``); "auto": when the controls pass "storey", or "adaptive" where
            a holdout was compared, or "adadetect" for several signals; "bh" when one does not (on the
            mean rank of several signals).
        eta: share of calibration beyond the threshold of "ptdi", where the method is named.
        lam: grid point of "storey", where the method is named.
        holdout: scores ``[h]`` (or ``[h, d]``) of other known non-members, for the exchangeability control.
        candidate_texts: the candidates' texts ``[m]``, for the blind text control.
        calibration_texts: the calibration's texts ``[n]``.
        knockoffs: scores ``[m]`` of paraphrases of the candidates.
        calibration_knockoffs: scores ``[n]`` of paraphrases of the calibration, for the symmetry test.
        members: scores ``[k]`` of documents known to have been used (planted ones, or a twin model's):
            ``usage`` is then estimated with them, see `divulge.decisions.usage.mixture`.
        truth: bool ``[m]``, where membership is known: warns when the scores are the wrong way round.
        adjust: `divulge.decisions.strata.Strata` or `divulge.decisions.weighted.Weights`, where the calibration
            differs from the candidates in something known of both; "bh" then decides within strata, or by weights.
        baseline: scores ``[m]`` that a classifier which never saw the model gives the candidates. What is usual at each
            such blind score is taken out of the scores before anything is decided; and where it tells candidates
            from calibration by itself, the guarantee is in doubt. See `divulge.decisions.blind_score`.
        calibration_baseline: the same of the calibration ``[n]``.
        holdout_baseline: of the holdout ``[h]``, where there is one; a difference from the calibration voids.
        members_baseline: of the known members ``[k]``, where there are some.
        seed: of random splits.

    Raises:
        divulge.InputError: NaN or infinity (the rows are named), empty or constant scores, calibration too
            small for the level, a text among both candidates and calibration, texts of one side alone,
            lengths or numbers of signals that differ; strata or weights that cannot carry the level.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(3, 1, 100), rng.normal(size=100))
        >>> found = identify(scores, rng.normal(size=500), fdr=0.1, method="ptdi")
        >>> found.count, round(found.threshold, 2), print(found.usage)
        0.4801 [0.3465, 0.7444]
        (104, 1.39, None)
    """
    asked = named(method, (*METHODS, Knockoff), eta=eta, lam=lam)
    check_number(fdr, "fdr", above=0, below=1)
    check_integer(seed, "seed", least=0)
    judged, known = _signals(candidates, "candidates"), _signals(calibration, "calibration")
    _same_width(judged, known, "calibration")
    apart = None if holdout is None else _signals(holdout, "holdout")
    if apart is not None:
        _same_width(judged, apart, "holdout")
    if adjust is not None:
        if not isinstance(adjust, Weights):
            check_instance(adjust, "adjust", Strata, "a decisions.strata.Strata or weighted.Weights")
        adjusted.refuse(
            asked,
            judged.ndim,
            candidate_texts=candidate_texts,
            calibration_texts=calibration_texts,
            knockoffs=knockoffs,
            calibration_knockoffs=calibration_knockoffs,
            members=members,
            baseline=baseline,
            calibration_baseline=calibration_baseline,
            holdout_baseline=holdout_baseline,
        )
        told = orientation(judged, truth)
        return adjusted.select(judged, known, apart, adjust, fdr=fdr, orientation=told, seed=seed)
    if knockoffs is not None:
        knockoffs = check_vector(knockoffs, "knockoffs", length=len(judged))
    if calibration_knockoffs is not None:
        calibration_knockoffs = check_vector(calibration_knockoffs, "calibration_knockoffs", length=len(known))
    _needs(asked, judged.ndim, knockoffs, members, baseline)
    taught = None if members is None else check_vector(members, "members")
    blind = against_blind.gather_blind_scores(
        {
            "baseline": (baseline, judged),
            "calibration_baseline": (calibration_baseline, known),
            "holdout_baseline": (holdout_baseline, apart),
            "members_baseline": (members_baseline, taught),
        }
    )
    equal = _adjusted_scores((judged, known, apart, taught), blind, truth, seed)
    judged, known, taught = equal.candidates, equal.calibration, equal.members
    evidence = _texts_control(candidate_texts, calibration_texts, len(judged), len(known), seed)
    one = Judged.of(*learned(judged, known, fdr, seed), taught)
    evidence += equal.controls
    if apart is not None and blind is None:
        evidence += held_out(apart, known, judged if judged.ndim == 2 else None, seed)
    evidence.append(controls.low_scores_of(one.counts, level=LEVEL))
    evidence = together(evidence)
    if isinstance(asked, Knockoff):
        return _knockoff(one, (known, knockoffs, calibration_knockoffs), fdr, evidence, orientation(one.scores, truth))
    policy = Policy(fdr, asked)
    used = choose(policy, evidence, several=judged.ndim == 2)
    if judged.ndim == 2 and isinstance(used.method, BH):
        one = Judged.of(*mean_rank(judged, known), taught)
    made = decide(
        one.counts,
        evidence,
        policy,
        used=used,
        orientation=orientation(one.scores, truth),
        notes=equal.notes,
    )
    selection = one.chosen(one.scores > made.rule.cut, fdr=fdr, warnings=made.warnings)
    return replace(selection, guarantee=made.guarantee)


def _signals(value: object, name: str) -> Floats:
    signals = check_nonempty(check_array(value, name, finite=False), name)
    if signals.ndim not in (1, 2) or not signals.size:
        raise InputError(f"{name}: one or two dimensions are needed, got shape {signals.shape}")
    signals = signals.astype(np.float64, copy=False)
    finite = np.isfinite(signals) if signals.ndim == 1 else np.isfinite(signals).all(axis=1)
    if not finite.all():
        raise InputError(f"{name}: NaN or infinite scores in {rows(np.flatnonzero(~finite))}; leave these out")
    return signals[:, 0] if signals.ndim == 2 and signals.shape[1] == 1 else signals


def rows(index: Sequence[int] | np.ndarray) -> str:
    """Row numbers in words, the first ten of them.

    Examples:
        >>> rows([4, 7])
        '2 rows (4, 7)'
    """
    shown = ", ".join(str(int(i)) for i in index[:10])
    return f"{len(index)} rows ({shown}{', …' if len(index) > 10 else ''})"


def _same_width(judged: Floats, other: Floats, name: str) -> None:
    if judged.shape[1:] != other.shape[1:]:
        raise InputError(
            f"{name}: the same signals as in candidates are needed, got shapes {other.shape} and {judged.shape}"
        )


def _needs(asked: Method, dimensions: int, knockoffs: object, members: object, baseline: object) -> None:
    method = asked.name
    if method == "knockoff" and baseline is not None:
        raise InputError("baseline: 'knockoff' compares paraphrases and has no place for it")
    if members is not None and dimensions == 2:
        raise InputError("members: the share is estimated from one score column, got several")
    if method == "adadetect" and dimensions == 1:
        raise InputError("candidates: 'adadetect' learns from at least two signals, an array [m, d] is needed")
    if method not in ("auto", "adadetect") and dimensions == 2:
        raise InputError(f"candidates: {method!r} uses one score, got several; use 'adadetect' or one column")
    if method == "knockoff" and knockoffs is None:
        raise InputError("knockoffs: 'knockoff' needs the scores of paraphrases of the candidates")


def _adjusted_scores(
    scores: tuple[Floats, Floats, Floats | None, Floats | None], blind: BlindScores | None, truth: object, seed: int
) -> AdjustedScores:
    """Scores of candidates, calibration, holdout and members, adjusted where there are blind scores."""
    judged, known, apart, taught = scores
    if blind is None:
        return AdjustedScores(judged, known, taught)
    membership = None if truth is None else check_mask(truth, "truth", (len(judged),))
    return against_blind.adjust(judged, known, blind, holdout=apart, members=taught, truth=membership, seed=seed)


def _texts_control(
    judged: Sequence[str] | None, known: Sequence[str] | None, m: int, n: int, seed: int
) -> list[Control]:
    if judged is None and known is None:
        return []
    if judged is None or known is None:
        missing = "candidate_texts" if judged is None else "calibration_texts"
        raise InputError(f"{missing}: the texts of both sides are needed to compare them, got those of one")
    for name, texts, length in (("candidate_texts", judged, m), ("calibration_texts", known, n)):
        if len(texts) != length:
            raise InputError(f"{name}: {length} texts are needed (one per score), got {len(texts)}")
    refuse_overlap(judged, known)
    return [controls.blind_text(known, judged, level=LEVEL, seed=seed)]


def refuse_overlap(judged: Sequence[str], known: Sequence[str]) -> None:
    """Raise when a candidate's text is also declared unseen.

    Raises:
        divulge.InputError: in that case; the rows are named.
    """
    unseen = set(known)
    both = [i for i, text in enumerate(judged) if text in unseen]
    if both:
        raise InputError(
            f"candidate_texts: {rows(both)} are also among the calibration texts; a document cannot be both "
            "a candidate and known to be unseen"
        )


def _knockoff(
    one: Judged, paraphrased: tuple[Floats, object, object], level: float, evidence: list[Control], orientation: str
) -> Selection:
    """The baseline: its assumption is another one, and fails unless paraphrases of ``known`` show that it holds."""
    known, knockoffs, known_knockoffs = paraphrased
    selected, _ = knockoff.select(one.scores, knockoffs, fdr=level)
    said = ""
    if known_knockoffs is None:
        said = "symmetry was not tested (calibration_knockoffs is missing); with paraphrases it usually fails"
    else:
        evidence = together([*evidence, knockoff.symmetry(known, known_knockoffs, level=LEVEL)])
    claim = Guarantee("FDR", level, (SYMMETRIC,), "void" if said else "holds").at_most(standing.standing(evidence))
    warnings = standing.warnings(evidence, [orientation, said])
    return replace(one.chosen(selected, fdr=level, warnings=warnings), guarantee=claim)
