"""From scores to a selection, with the negative controls that its guarantee rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import checks
from divulge.decisions import adadetect, controls, knockoff
from divulge.decisions import fdr as step_up
from divulge.decisions.controls import Control
from divulge.decisions.fdr import Judged
from divulge.identification.standing import LEVEL, annotate, together
from divulge.types import Estimate, Guarantee, Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.counts import Counts
    from divulge.types import Bools, Floats

METHODS = ("auto", "bh", "ptdi", "storey", "adadetect", "knockoff")
_MANY, _BEYOND = 500, 25  # candidates, and calibration scores beyond its threshold, for "auto" to take "ptdi"
SYMMETRIC = "a non-member scores above and below its own paraphrase equally often"


def identify(
    candidates: object,
    calibration: object,
    *,
    fdr: float = 0.05,
    method: str = "auto",
    eta: float = 0.05,
    lam: float = 0.5,
    holdout: object = None,
    candidate_texts: Sequence[str] | None = None,
    calibration_texts: Sequence[str] | None = None,
    knockoffs: object = None,
    calibration_knockoffs: object = None,
    members: object = None,
    truth: object = None,
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
        method: "bh"; "ptdi" (uses ``eta``); "storey" (uses ``lam``); "adadetect"
            (learns one score from several with half the calibration, then "bh"); "knockoff" (a baseline
            known to fail, needs ``knockoffs``); "auto": when the controls pass "storey", or "ptdi" where a
            holdout was compared and scores are many, or "adadetect" for several signals; "bh" when one does
            not (on the mean rank of several signals).
        eta: share of calibration beyond the threshold of "ptdi".
        lam: grid point of "storey".
        holdout: scores ``[h]`` (or ``[h, d]``) of other known non-members, for the exchangeability control.
        candidate_texts: the candidates' texts ``[m]``, for the blind text control.
        calibration_texts: the calibration's texts ``[n]``.
        knockoffs: scores ``[m]`` of paraphrases of the candidates.
        calibration_knockoffs: scores ``[n]`` of paraphrases of the calibration, for the symmetry test.
        members: scores ``[k]`` of documents known to have been used (planted ones, or a twin model's):
            ``usage`` is then estimated with them, see `divulge.decisions.usage.mixture`.
        truth: bool ``[m]``, where membership is known: warns when the scores are the wrong way round.
        seed: of random splits.

    Raises:
        divulge.InputError: NaN or infinity (the rows are named), empty or constant scores, calibration too
            small for the level, a text among both candidates and calibration, texts of one side alone,
            lengths or numbers of signals that differ.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> scores = np.append(rng.normal(3, 1, 100), rng.normal(size=100))
        >>> found = identify(scores, rng.normal(size=500), fdr=0.1, method="ptdi")
        >>> found.count, round(found.threshold, 2), print(found.usage)
        0.4801 [0.3465, 0.7444]
        (104, 1.39, None)
    """
    checks.choice(method, "method", METHODS)
    checks.number(fdr, "fdr", above=0, below=1)
    checks.integer(seed, "seed", least=0)
    judged, known = _signals(candidates, "candidates"), _signals(calibration, "calibration")
    _same_width(judged, known, "calibration")
    apart = None if holdout is None else _signals(holdout, "holdout")
    if apart is not None:
        _same_width(judged, apart, "holdout")
    _needs(method, judged.ndim, knockoffs, members)
    evidence = _texts_control(candidate_texts, calibration_texts, len(judged), len(known), seed)
    one = Judged.of(*_reduce(judged, known, fdr, seed), members)
    if apart is not None:
        evidence.append(held_out(apart, known, judged if judged.ndim == 2 else None, seed))
    evidence.append(controls.low_scores_of(one.counts, level=LEVEL))
    evidence = together(evidence)
    used, why = choose(method, evidence, one.counts, several=judged.ndim == 2, eta=eta)
    if method == "auto" and judged.ndim == 2 and used == "bh":
        one = Judged.of(*mean_rank(judged, known), members)
    if used == "knockoff":
        found, evidence = _knockoff(one, known, knockoffs, calibration_knockoffs, fdr, evidence)
    else:
        found = _select(one, fdr, used, eta, lam)
    return annotate(found, evidence, why, orientation(one.scores, truth))


def _reduce(judged: Floats, known: Floats, level: float, seed: int) -> tuple[Floats, Floats]:
    """One score a candidate, and calibration that is exchangeable with it."""
    if judged.ndim == 1:
        return judged, known
    if level * (len(known) + 1) < 1 - 1e-9:  # say so before half of it goes to learning
        step_up.refuse_small(len(known), len(judged), level)
    learned, kept = adadetect.scores(judged, known, seed=seed)
    return learned, kept


def held_out(holdout: Floats, known: Floats, judged: Floats | None, seed: int) -> Control:
    """The exchangeability control: a holdout against the calibration, on the scores that a decision rests on.

    Several signals are compared one by one, by their mean rank, and by the score learned from them; the
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
        return whole
    _, kept, learned = adadetect.scores(judged, known, holdout, seed=seed)
    _, ranked, rank = mean_rank(judged, known, holdout)
    combined = (
        replace(found, says=f"{found.says}, on {what}")
        for what, found in (
            ("the score learned from all signals", controls.exchangeability(kept, learned, level=LEVEL, seed=seed)),
            ("the mean rank of all signals", controls.exchangeability(ranked, rank, level=LEVEL, seed=seed)),
        )
    )
    return controls.strongest([whole, *combined])


def _select(one: Judged, level: float, method: str, eta: float, lam: float) -> Selection:
    m, n = one.counts.total, len(one.counts.calibration)
    if method != "adadetect":
        return one.select(fdr=level, method=method, eta=eta, lam=lam)
    if level * (n + 1) >= 1 - 1e-9:
        return one.select(fdr=level, method="bh")
    # Enough calibration for the level, but not in the half that learning leaves.
    least = 2 * step_up.required_calibration(m, level, m)
    warning = f"nothing was selected: {n} calibration rows remain after learning; at least {least} rows are needed"
    return one.chosen(np.zeros(m, bool), fdr=level, warnings=(warning,))


def _signals(value: object, name: str) -> Floats:
    found = checks.nonempty(checks.array(value, name, finite=False), name)
    if found.ndim not in (1, 2) or not found.size:
        raise checks.InputError(f"{name}: one or two dimensions are needed, got shape {found.shape}")
    found = found.astype(np.float64, copy=False)
    finite = np.isfinite(found) if found.ndim == 1 else np.isfinite(found).all(axis=1)
    if not finite.all():
        raise checks.InputError(f"{name}: NaN or infinite scores in {rows(np.flatnonzero(~finite))}; leave these out")
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


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
        raise checks.InputError(
            f"{name}: the same signals as in candidates are needed, got shapes {other.shape} and {judged.shape}"
        )


def _needs(method: str, dimensions: int, knockoffs: object, members: object) -> None:
    if members is not None and dimensions == 2:
        raise checks.InputError("members: the share is estimated from one score column, got several")
    if method == "adadetect" and dimensions == 1:
        raise checks.InputError("candidates: 'adadetect' learns from at least two signals, an array [m, d] is needed")
    if method not in ("auto", "adadetect") and dimensions == 2:
        raise checks.InputError(f"candidates: {method!r} judges one score, got several; use 'adadetect' or one column")
    if method == "knockoff" and knockoffs is None:
        raise checks.InputError("knockoffs: 'knockoff' needs the scores of paraphrases of the candidates")


def _texts_control(
    judged: Sequence[str] | None, known: Sequence[str] | None, m: int, n: int, seed: int
) -> list[Control]:
    if judged is None and known is None:
        return []
    if judged is None or known is None:
        missing = "candidate_texts" if judged is None else "calibration_texts"
        raise checks.InputError(f"{missing}: the texts of both sides are needed to compare them, got those of one")
    for name, texts, length in (("candidate_texts", judged, m), ("calibration_texts", known, n)):
        if len(texts) != length:
            raise checks.InputError(f"{name}: {length} texts are needed (one a score), got {len(texts)}")
    refuse_overlap(judged, known)
    return [controls.blind_text(known, judged, level=LEVEL, seed=seed)]


def refuse_overlap(judged: Sequence[str], known: Sequence[str]) -> None:
    """Raise when a candidate's text is also declared unseen.

    Raises:
        divulge.InputError: as said; the rows are named.
    """
    unseen = set(known)
    both = [i for i, text in enumerate(judged) if text in unseen]
    if both:
        raise checks.InputError(
            f"candidate_texts: {rows(both)} are also among the calibration texts; a document cannot be both "
            "in question and known to be unseen"
        )


def choose(
    method: str, evidence: Sequence[Control], counts: Counts, *, several: bool, eta: float = 0.05
) -> tuple[str, str]:
    """The method to use, and why when it was not the user who chose.

    Of one score "auto" takes "ptdi" where that finds more weak members than "storey" and loses next to nothing
    on strong ones, which the numbers of scores decide; but a shift of the scores hurts it more, so only where a
    holdout was compared. Else "storey".

    Args:
        method: what the user asked for.
        evidence: the controls that ran.
        counts: of the one score that is judged.
        several: whether that score was learned from several.
        eta: share of calibration beyond the threshold of "ptdi".
    """
    if method != "auto":
        return method, ""
    many = counts.total >= _MANY and step_up.sparse(counts, eta)[1] >= _BEYOND
    apart = any(control.name == "exchangeability" for control in evidence)
    best = "adadetect" if several else "ptdi" if many and apart else "storey"
    raised = [control.name for control in evidence if not control.passed]
    if raised:
        return "bh", f"auto chose bh, not {best}: {' and '.join(raised)} did not pass, and a shift hurts bh least"
    ran = ", ".join(control.name for control in evidence)
    return best, f"auto chose {best}, not bh: the controls that could run passed ({ran})"


def mean_rank(*tables: Floats) -> tuple[Floats, ...]:
    """One score from several without learning: the mean of the ranks in the pool of all tables ``[rows, d]``."""
    from scipy.stats import rankdata

    pooled = rankdata(np.concatenate(tables), axis=0).mean(axis=1)
    return tuple(np.split(pooled, np.cumsum([len(table) for table in tables])[:-1]))


def _knockoff(
    one: Judged,
    calibration: Floats,
    knockoffs: object,
    calibration_knockoffs: object,
    level: float,
    evidence: list[Control],
) -> tuple[Selection, list[Control]]:
    selected, _ = knockoff.select(one.scores, knockoffs, fdr=level)
    warnings, sound = (), True
    if calibration_knockoffs is None:
        sound = False
        warnings = ("symmetry was not tested (calibration_knockoffs is missing); with paraphrases it usually fails",)
    else:
        test = knockoff.symmetry(calibration, calibration_knockoffs, level=LEVEL)
        evidence = together([*evidence, test])
    found = replace(
        one.chosen(selected, fdr=level, warnings=warnings),
        guarantee=Guarantee("FDR", level, (SYMMETRIC,), "holds" if sound else "void"),
    )
    return found, evidence


def orientation(scores: Floats, truth: object) -> str:
    """A warning when declared members score below declared non-members; empty when not."""
    if truth is None:
        return ""
    member = checks.mask(truth, "truth", (len(scores),))
    if member.all() or not member.any():
        return ""
    area = controls.auc(scores[member], scores[~member])
    if area.value >= 0.5:
        return ""
    return (
        f"the scores seem to be the wrong way round: declared members score lower (AUC {area}); "
        "larger must mean more member-like"
    )


def realised(selected: Bools, truth: Bools) -> tuple[Estimate, Estimate]:
    """The false discovery proportion and the power that were realised, where membership is known.

    Args:
        selected: bool ``[m]``.
        truth: bool ``[m]``, True for members.

    Returns:
        Share of non-members among the selected (0 of none counts as 0), share of members that were
        selected; both with Clopper-Pearson intervals.

    Examples:
        >>> fdp, power = realised(np.array([True, True, False]), np.array([True, False, True]))
        >>> fdp.value, power.value
        (0.5, 0.5)
    """
    chosen = checks.mask(selected, "selected", (None,))
    member = checks.mask(truth, "truth", (len(chosen),))
    both = int((chosen & member).sum())
    return portion(int(chosen.sum()) - both, int(chosen.sum())), portion(both, int(member.sum()))


def portion(hits: int, total: int) -> Estimate:
    """``hits`` of ``total`` with a 95 % Clopper-Pearson interval; nothing of nothing is 0, known to be in [0, 1]."""
    from scipy.stats import binomtest

    if not total:
        return Estimate(0.0, 0.0, 1.0, 0.95, "clopper-pearson")
    interval = binomtest(hits, total).proportion_ci(0.95, method="exact")
    return Estimate(hits / total, float(interval.low), float(interval.high), 0.95, "clopper-pearson")
