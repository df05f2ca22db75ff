"""Negative controls: tests that should find nothing if the guarantee of a selection holds.

Every guarantee here assumes exchangeability, and no score can prove that. The controls look where a violation would
show: in scores of documents declared unseen, in the scores of a model that saw none of the documents, in the texts
themselves. Each control raises a false alarm with probability at most its level.

What a difference means depends on who is compared. The assumption concerns non-members alone. So known non-members
compared with known non-members may *fail*: then the assumption is violated, whatever the members are. All candidates
compared with the calibration can only raise *doubt*: their members may well be about another topic, be longer or score
lower, while their non-members are like the calibration in every respect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from scipy import sparse

from divulge import lazy, seeds, statistics
from divulge.decisions import counts as counting
from divulge.decisions.counts import Counts
from divulge.errors import InputError
from divulge.types import Estimate
from divulge.validation import (
    as_list,
    check_array,
    check_instance,
    check_integer,
    check_nonempty,
    check_number,
    check_strings,
    check_vector,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import stats
    from sklearn import linear_model
    from sklearn.feature_extraction import text as sklearn_text

    from divulge.types import Array, Floats, Standing
else:
    stats = lazy.module("scipy.stats")
    linear_model = lazy.module("sklearn.linear_model")
    sklearn_text = lazy.module("sklearn.feature_extraction.text")

State: TypeAlias = Literal["passed", "doubtful", "failed"]

BLIND_SCORE = "blind score"
_STANDING: dict[State, Standing] = {"passed": "holds", "doubtful": "doubtful", "failed": "void"}

_MAX_SIGNS = 3  # differences named in a message about texts
_MAX_TEXTS = 20_000  # texts used of each side; more hardly change the result
_LOW_END_PARTS = (10, 40)  # the lowest tenth and the lowest fortieth of all scores are compared


@dataclass(frozen=True, slots=True)
class Control:
    """The result of a negative control.

    Args:
        name: of the control.
        p_value: probability of a result at least as extreme if the assumption holds.
        level: the control passes if ``p_value`` is above this.
        says: the observation, as text.
        auc: of one side against the other, where measured.
        conclusive: whether both sides are known non-members, so that a difference breaks the assumption.

    Examples:
        >>> print(Control("exchangeability", 0.3, 0.05, "40 against 50 scores", conclusive=True))
        exchangeability passed (p = 0.3): 40 against 50 scores
        >>> Control("low scores", 0.01, 0.05, "").state, Control("symmetry", 0.01, 0.05, "", conclusive=True).state
        ('doubtful', 'failed')
    """

    name: str
    p_value: float
    level: float
    says: str
    auc: Estimate | None = None
    conclusive: bool = False

    @property
    def passed(self) -> bool:
        """Whether the control passed."""
        return self.p_value > self.level

    @property
    def state(self) -> State:
        """The outcome: "failed" if known non-members differ, "doubtful" if candidates and calibration do."""
        if self.passed:
            return "passed"
        return "failed" if self.conclusive else "doubtful"

    @property
    def standing(self) -> Standing:
        """The standing of a guarantee whose assumption was examined."""
        return _STANDING[self.state]

    def __str__(self) -> str:
        word = {"passed": "passed", "doubtful": "raises doubt", "failed": "FAILED"}[self.state]
        return f"{self.name} {word} (p = {self.p_value:.2g}): {self.says}"


def exchangeability(calibration: object, holdout: object, *, level: float = 0.05, seed: int = 0) -> Control:
    """Test whether scores of documents declared unseen look like the calibration scores.

    Null hypothesis: both come from one distribution. Kolmogorov and Smirnov's test finds any difference, Mann and
    Whitney's a shift; each has half the level. Several signals share the level (Bonferroni). The holdout must not
    overlap the calibration and must be unseen beyond doubt: newer than the model, or written for the purpose.

    Args:
        calibration: scores ``[n]``, or several signals ``[n, d]``.
        holdout: scores ``[h]`` (``[h, d]``) of other known non-members.
        level: rate of false alarms.
        seed: of the permutations that are used if scores tie.

    Raises:
        divulge.InputError: empty, NaN or infinity, different numbers of signals.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> exchangeability(rng.normal(size=300), rng.normal(size=200)).passed
        True
        >>> exchangeability(rng.normal(size=300), rng.normal(size=200) + 0.5).state
        'failed'
    """
    calibration_signals = _check_signals(calibration, "calibration")
    holdout_signals = _check_signals(holdout, "holdout")
    if calibration_signals.shape[1:] != holdout_signals.shape[1:]:
        raise InputError(
            f"holdout: the same signals as in calibration are needed, got shapes "
            f"{holdout_signals.shape} and {calibration_signals.shape}"
        )
    description = "declared-unseen holdout"
    sides = [np.atleast_2d(side.T) for side in (calibration_signals, holdout_signals)]
    d = len(sides[0])
    names = [description] if d == 1 else [f"{description} (signal {i + 1} of {d})" for i in range(d)]
    pairs = zip(*sides, names, strict=True)
    return strongest([_compare_samples("exchangeability", *pair, level, seed, conclusive=True) for pair in pairs])


def _check_signals(value: object, name: str) -> Floats:
    """Return finite scores ``[n]`` or signals ``[n, d]``."""
    signals = check_nonempty(check_array(value, name), name)
    if signals.ndim > 2 or not signals.size:
        raise InputError(f"{name}: one or two dimensions are needed, got shape {signals.shape}")
    return signals.astype(np.float64, copy=False)


def strongest(evidence: Sequence[Control]) -> Control:
    """Return the control with the smallest p-value, which is multiplied by the number of controls (Bonferroni).

    Examples:
        >>> strongest([Control("exchangeability", p, 0.05, "") for p in (0.4, 0.02, 0.9)]).p_value
        0.06
    """
    if not (controls := as_list(evidence, "evidence")):
        raise InputError("evidence: at least 1 control is needed, got none")
    for control in controls:
        check_instance(control, "evidence", Control, "a controls.Control")
    lowest = min(evidence, key=lambda control: control.p_value)
    return replace(lowest, p_value=min(1.0, len(evidence) * lowest.p_value))


def clean_model(calibration: object, candidates: object, *, level: float = 0.05, seed: int = 0) -> Control:
    """Test whether the scores of a model that saw none of the documents differ between candidates and calibration.

    If they do, the sets themselves differ. The reason may be the members, so the control raises doubt and does not
    fail.

    Args:
        calibration: scores ``[n]`` under a model trained on none of the documents.
        candidates: scores ``[m]`` under the same model.
        level: rate of false alarms, where members differ from non-members only in their training.
        seed: of the permutations that are used if scores tie.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> clean_model([0.0, 1.0, 2.0], [0.5, 1.5]).passed
        True
    """
    calibration_scores = check_vector(calibration, "calibration")
    candidate_scores = check_vector(candidates, "candidates")
    return _compare_samples(
        "clean model", calibration_scores, candidate_scores, "candidates under a model that saw neither", level, seed
    )


def low_scores(calibration: object, candidates: object, *, level: float = 0.05) -> Control:
    """Test whether low scores are more frequent among candidates than in the calibration.

    Training on a document raises its score. So an excess of low scores among candidates (a one-sided Kolmogorov-Smirnov
    test) means that they differ from the calibration in some other way, or that the scores are reversed. The control
    needs nothing but scores. It does not notice a shift towards high scores, and cannot tell whether members or
    non-members have the low ones.

    Args:
        calibration: scores ``[n]``.
        candidates: scores ``[m]``.
        level: rate of false alarms.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> low_scores(rng.normal(size=300), rng.normal(size=200) - 1).passed
        False
    """
    return low_scores_from_counts(Counts.empty(calibration).add(candidates), level=level)


def low_scores_from_counts(counts: Counts, *, level: float = 0.05) -> Control:
    """Run the control `low_scores` on counts, for candidates that were streamed."""
    counting.check_counts(counts)
    check_number(level, "level", above=0, below=1)
    m, n = counts.total, len(counts.calibration)
    # The excess is largest just below a calibration score, before the distribution function of the calibration jumps.
    candidates = 1 - (counts.above + counts.tied) / m
    calibration = np.searchsorted(counts.calibration, counts.calibration, side="left") / n
    excess = max(float(np.max(candidates - calibration)), 0.0)
    p = float(np.exp(-2 * m * n / (m + n) * excess**2))  # Massey's bound
    says = (
        f"low scores are more frequent among candidates than in calibration, by up to {excess:.3f}"
        if excess
        else "low scores are nowhere more frequent among candidates than in calibration"
    )
    return Control("low scores", p, level, says)


def low_end(calibration: object, holdout: object, *, level: float = 0.05) -> Control:
    """Test whether documents declared unseen are as frequent among the lowest scores as the calibration is.

    The share of non-members is estimated from the lowest scores. Odd documents in the calibration, such as
    garbage or boilerplate, may gather there, and a comparison of the whole distributions does not show them. Null
    hypothesis: the order of holdout and calibration is random. Among the lowest tenth and the lowest fortieth of all
    scores, without ties at the edge, the number of holdout documents is then hypergeometric (Fisher's exact test,
    two-sided by doubling, each at half the level).

    Args:
        calibration: scores ``[n]``.
        holdout: scores ``[h]`` of other known non-members.
        level: rate of false alarms.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> known, unseen = rng.normal(size=400), rng.normal(size=200)
        >>> low_end(known, unseen).state, low_end(np.append(known, np.full(40, -9.0)), unseen).state
        ('passed', 'failed')
    """
    check_number(level, "level", above=0, below=1)
    calibration_scores, holdout_scores = check_vector(calibration, "calibration"), check_vector(holdout, "holdout")
    pooled = np.sort(np.append(calibration_scores, holdout_scores))
    p, description = 1.0, "no lowest scores that stand apart from the rest"
    for edge in pooled[[len(pooled) // part for part in _LOW_END_PARTS]]:
        n_low, n_holdout_low = int(np.searchsorted(pooled, edge)), int((holdout_scores < edge).sum())
        distribution = stats.hypergeom(len(pooled), len(holdout_scores), n_low)
        tail = 2 * len(_LOW_END_PARTS) * float(min(distribution.cdf(n_holdout_low), distribution.sf(n_holdout_low - 1)))
        if tail < p:
            expected = n_low * len(holdout_scores) / len(pooled)
            p = tail
            description = (
                f"{n_holdout_low} of the {n_low} lowest scores are of the declared-unseen holdout, "
                f"{expected:.1f} expected"
            )
    return Control("low end", p, level, description, conclusive=True)


def blind_score(calibration_baseline: object, baseline: object, *, level: float = 0.05, seed: int = 0) -> Control:
    """Test whether the blind score alone tells candidates from calibration.

    A blind score comes from a classifier that never saw the model. If it differs, the sets themselves differ. The
    reason may be the members, so the control raises doubt and does not fail.

    Args:
        calibration_baseline: blind scores of the calibration ``[n]``.
        baseline: of the candidates ``[m]``.
        level: rate of false alarms, where members differ from non-members only in their training.
        seed: of the permutations that are used if scores tie.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> blind_score([0.0, 1.0, 2.0], [0.5, 1.5]).passed
        True
    """
    check_integer(seed, "seed", minimum=0)
    calibration_scores = check_vector(calibration_baseline, "calibration_baseline")
    candidate_scores = check_vector(baseline, "baseline")
    p = statistics.two_sample_p_value(calibration_scores, candidate_scores, seed=seed)
    area = _auc_against_calibration(calibration_scores, candidate_scores)
    description = f"the blind score alone tells candidates from calibration with AUC {area} (1/2 expected)"
    return Control(BLIND_SCORE, p, check_number(level, "level", above=0, below=1), description, area)


def _compare_samples(
    name: str,
    calibration: Floats,
    sample: Floats,
    description: str,
    level: float,
    seed: int,
    *,
    conclusive: bool = False,
) -> Control:
    check_number(level, "level", above=0, below=1)
    check_integer(seed, "seed", minimum=0)
    area = _auc_against_calibration(calibration, sample)
    says = f"{description} against calibration: AUC {area} (1/2 expected)"
    return Control(name, statistics.two_sample_p_value(calibration, sample, seed=seed), level, says, area, conclusive)


def blind_text(cal_texts: Sequence[str], cand_texts: Sequence[str], *, level: float = 0.05, seed: int = 0) -> Control:
    """Test whether the texts alone, without any model, tell candidates from calibration.

    A classifier two-sample test (Lopez-Paz & Oquab 2017): a logistic regression on words, pairs of words, length,
    digits and years is trained on one half and tested on the other by Mann and Whitney's test, in both directions, each
    at half the level. Das et al., "Blind baselines beat membership inference attacks", 2024, show that membership
    benchmarks fail it. Equal texts stay in one half. Beyond 20,000 texts per side, a random sample is used. If the
    texts differ, ``says`` names the clearest differences (`divulge.evaluation.text_differences`).

    Args:
        cal_texts: texts of the known non-members.
        cand_texts: texts of the candidates.
        level: rate of false alarms, where members' texts are like non-members'.
        seed: of the split.

    Raises:
        divulge.InputError: fewer than 8 texts on a side, or something that is not a string.

    Examples:
        >>> old, new = [f"the king of {i}" for i in range(40)], [f"a tweet of {i}" for i in range(40)]
        >>> blind_text(old, new).state
        'doubtful'
    """
    check_number(level, "level", above=0, below=1)
    rng = seeds.generator(seed, "blind text")
    calibration_texts = _check_texts(cal_texts, "cal_texts", rng)
    candidate_texts = _check_texts(cand_texts, "cand_texts", rng)
    labels = np.repeat([0, 1], [len(calibration_texts), len(candidate_texts)])
    _, groups = np.unique(calibration_texts + candidate_texts, return_inverse=True)
    in_first_half = (rng.random(int(groups.max()) + 1) < 0.5)[groups]
    texts = np.array(calibration_texts + candidate_texts, dtype=object)
    score_pairs = []
    words = sklearn_text.HashingVectorizer(n_features=2**18, ngram_range=(1, 2), alternate_sign=False)
    for train in (in_first_half, ~in_first_half):
        if min(np.bincount(labels[train], minlength=2).min(), np.bincount(labels[~train], minlength=2).min()) < 2:
            continue
        model = linear_model.LogisticRegression(
            C=10.0, class_weight="balanced", max_iter=300, tol=1e-3, solver="liblinear"
        )
        model.fit(_text_features(words, texts[train]), labels[train])
        scores = model.decision_function(_text_features(words, texts[~train]))
        score_pairs.append((scores[labels[~train] == 1], scores[labels[~train] == 0]))
    control = _blind_text_control(score_pairs, len(calibration_texts), len(candidate_texts), level, seed)
    if control.passed or control.auc is None or control.auc.low <= 0.5:
        return control
    signs = statistics.text_differences(
        candidate_texts,
        calibration_texts,
        names=("candidates", "calibration texts"),
        max_differences=_MAX_SIGNS,
        seed=seed,
    )
    return replace(control, says="; ".join([control.says, *map(str, signs)]))


def _blind_text_control(score_pairs: list[tuple[Floats, Floats]], n: int, m: int, level: float, seed: int) -> Control:
    if not score_pairs:
        return Control("blind text", 1.0, level, f"{n} and {m} distinct texts are too few to be told apart")
    p = min(
        statistics.rank_sum_p_value(calibration, candidates, alternative="greater", seed=seed)
        for candidates, calibration in score_pairs
    )
    aucs = [_auc_against_calibration(calibration, candidates) for candidates, calibration in score_pairs]
    # The mean of the bounds covers the worst case, in which both directions err together.
    value, low, high = np.mean([(auc.value, auc.low, auc.high) for auc in aucs], axis=0).tolist()
    auc = Estimate(value, low, high, aucs[0].confidence, aucs[0].method)
    says = f"words, length and years alone tell candidates from calibration with AUC {auc} (1/2 expected)"
    return Control("blind text", min(1.0, len(score_pairs) * p), level, says, auc)


def _auc_against_calibration(calibration: Floats, sample: Floats) -> Estimate:
    """Return the probability that one of ``sample`` exceeds one of ``calibration``, with a 95 % interval."""
    return statistics.auc(
        np.concatenate([calibration, sample]), np.arange(len(calibration) + len(sample)) >= len(calibration)
    )


def _check_texts(value: Sequence[str], name: str, rng: np.random.Generator) -> list[str]:
    """Return the distinct texts, at most `_MAX_TEXTS` of them; repeated texts are not independent evidence."""
    texts = check_strings(value, name)
    if len(texts) < 8:
        raise InputError(f"{name}: at least 8 texts are needed, got {len(texts)}")
    distinct = sorted(set(texts))
    if len(distinct) <= _MAX_TEXTS:
        return distinct
    return [distinct[i] for i in rng.choice(len(distinct), _MAX_TEXTS, replace=False)]


def _text_features(words: sklearn_text.HashingVectorizer, texts: Array) -> sparse.csr_matrix:
    return sparse.hstack([words.transform(texts), sparse.csr_matrix([_style_features(text) for text in texts])]).tocsr()


def _style_features(text: str) -> tuple[float, ...]:
    """Return length, digits, capitals and years of a text, which often tell its date."""
    size = max(len(text), 1)
    years = [int(year) for year in re.findall(r"\b(?:1[5-9]|20)\d\d\b", text)]
    newest = (max(years) - 1900) / 100 if years else 0.0
    digits = sum(map(str.isdigit, text)) / size
    capitals = sum(map(str.isupper, text)) / size
    return np.log1p(size) / 10, digits, capitals, float(bool(years)), newest, min(len(years), 10) / 10
