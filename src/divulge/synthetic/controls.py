"""Controls of an audit of a release: are the sets alike, and did the generator see what it must not have seen?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge import seeds, statistics
from divulge.evaluation import blind
from divulge.report.formatting import format_estimate
from divulge.synthetic import texts as text_scores
from divulge.synthetic.scores import MAX_REFERENCE, Codes, Rows, compare_values, sample_rows, score_by_deviation
from divulge.types import Estimate

if TYPE_CHECKING:
    from divulge.synthetic.preparation import Tables
    from divulge.types import Floats, Ints

ALIKE = "members and non-members without the release"
HOLDOUT = "whether the generator saw the non-members"
POPULATION = "whether the generator saw the population"
FALSE_ALARM = 0.01
"""Of the comparison of members with non-members."""
_HOLDOUT_ALARM = 0.005  # of either direction of the comparison with fresh rows of the population
_UNSURE = 0.05  # of an interval that rules out that the generator saw the non-members
_MAX_CONTROL = 2_000
_MIN_CONTROL = 20


@dataclass(frozen=True, slots=True)
class Control:
    """One control.

    Args:
        name: of the control.
        state: "holds", "unsure" (nothing was found, but too few records to rule it out), "fails" or "not run".
        p_value: of what was seen, were all as it should be; None where it was not run.
        says: what was found.
        auc: of one side against the other, where ``says`` names it.
    """

    name: str
    state: str
    p_value: float | None
    says: str
    auc: Estimate | None = None


def compare_blindly(tables: Tables, members: Ints, nonmembers: Ints, population: Ints, seed: int) -> Control:
    """Compare members with non-members by their rows alone: where they differ, so would every score.

    Args:
        tables: all sets.
        members: places of their rows, one for each person.
        nonmembers: the same.
        population: from which codes are learned.
        seed: of the test.
    """
    if min(len(members), len(nonmembers)) < 2 * blind.FOLDS:
        return Control(ALIKE, "not run", None, f"fewer than {2 * blind.FOLDS} records on a side")
    p_value, tested = differ(tables, members, nonmembers, population, seed)
    if p_value is None:
        return Control(ALIKE, "not run", None, "no column varies")
    if p_value <= FALSE_ALARM:
        says = f"members can be told from non-members by their rows alone ({tested})"
        return Control(ALIKE, "fails", p_value, says)
    return Control(ALIKE, "holds", p_value, f"members and non-members look alike ({tested})")


def differ(tables: Tables, one: Ints, other: Ints, population: Ints, seed: int) -> tuple[float | None, str]:
    """Return the p-value of two sets of rows being exchangeable, and what was seen; None where nothing varies."""
    baselines = []
    if tables.columns:
        features = _encode(tables, population)
        features = features[:, np.ptp(features[np.concatenate([one, other])], axis=0) > 0]
        if features.shape[1]:
            baselines.append(blind.baseline(features[one], features[other], seed, false_alarm=FALSE_ALARM / 2))
    if tables.texts is not None:
        texts = np.array([text or " " for text in tables.texts], dtype=object)
        baselines.append(blind.baseline(texts[one], texts[other], seed, false_alarm=FALSE_ALARM / 2))
    if not baselines:
        return None, ""
    worst = min(baselines, key=lambda each: each.p_value)
    p_value = min(1.0, len(baselines) * worst.p_value)
    return p_value, f"AUC {worst.auc.value:.3f}, p = {p_value:.2g}"


def _encode(tables: Tables, population: Ints) -> Floats:
    """Return standardised numbers, and an indicator for each of the more frequent categories."""
    codes = Codes.fit(tables.columns, population)
    parts = [codes.deviations]
    for column in codes.categories.T:
        values, counts = np.unique(column[population], return_counts=True)
        frequent = values[np.argsort(-counts, kind="stable")][:30]
        parts.append((column[:, None] == frequent).astype(float))
    return np.hstack(parts)


def test_holdout(
    tables: Tables, rows: Rows, nonmembers: Ints, population: Ints, margin: float, seed: int
) -> tuple[Control, Control]:
    """Compare non-members with a fresh part of the population, against the rest of it.

    A generator that saw the non-members as well gives both away alike, and no difference between them is left: an
    audit would say that nothing leaks. Against the population it shows. The other way round, a population that the
    generator saw is nearer to the release than non-members are.

    Args:
        tables: all sets.
        rows: as they are scored.
        nonmembers: places of their rows, one for each person.
        population: the same.
        margin: largest AUC above one half that counts as none.
        seed: of the draw of the fresh part.
    """
    rng = seeds.generator(seed, "synthetic", "holdout")
    nonmembers = nonmembers[np.sort(rng.permutation(len(nonmembers))[:_MAX_CONTROL])]
    count = min(len(nonmembers), len(population) // 3)
    if min(count, len(nonmembers)) < _MIN_CONTROL:
        reason = f"fewer than {_MIN_CONTROL} non-members, or {3 * _MIN_CONTROL} rows of population"
        return Control(HOLDOUT, "not run", None, reason), Control(POPULATION, "not run", None, reason)
    fresh = np.sort(population[rng.permutation(len(population))[:count]])
    reference = rows.reference[~np.isin(rows.owners[rows.reference], rows.owners[fresh])]
    compared = Rows(np.concatenate([nonmembers, fresh]), rows.released, reference, rows.owners)
    scores = _control_scores(tables, compared, seed)
    n = len(nonmembers)
    if not scores:
        return Control(HOLDOUT, "not run", None, "no score varies"), Control(POPULATION, "not run", None, "no score")
    higher, lower = (
        min(1.0, len(scores) * min(_rank_test(score[:n], score[n:], side) for score in scores))
        for side in ("greater", "less")
    )
    if min(higher, lower) <= _HOLDOUT_ALARM:
        p_value, tested = differ(tables, nonmembers, fresh, reference, seed)
        if p_value is not None and p_value <= FALSE_ALARM:
            says = f"not to be said: non-members and population are of different kinds ({tested})"
            return Control(HOLDOUT, "not run", None, says), Control(POPULATION, "not run", None, says)
    is_nonmember = np.arange(len(compared.scored)) < n
    confidence = 1 - _UNSURE / len(scores)
    reach = max((statistics.auc(score, is_nonmember, confidence) for score in scores), key=lambda auc: auc.high)
    is_open = reach.high >= 0.5 + margin  # as far as members may stand out where nothing is found
    near_ones, near_fresh = higher <= _HOLDOUT_ALARM, lower <= _HOLDOUT_ALARM
    return (
        Control(
            HOLDOUT, "fails" if near_ones else "unsure" if is_open else "holds", higher,
            f"non-members {'are' if near_ones else 'may be' if is_open else 'are not'} nearer to the release than "
            f"fresh rows of the population (AUC {format_estimate(reach)}, p = {higher:.2g})",
            reach,
        ),
        Control(
            POPULATION, "fails" if near_fresh else "holds", lower,
            f"fresh rows of the population {'are' if near_fresh else 'are not'} nearer to the release than non-members "
            f"(p = {lower:.2g})",
        ),
    )  # fmt: skip


def _control_scores(tables: Tables, rows: Rows, seed: int) -> list[Floats]:
    scores = []
    if tables.columns:
        near = sample_rows(rows.reference, MAX_REFERENCE, seed, "control")
        codes = Codes.fit(tables.columns, rows.reference)
        scores.append(score_by_deviation(codes, rows, near, with_influence=False)["ratio"])
        scores.append(compare_values(tables, rows)[0])
    if tables.texts is not None:
        found = text_scores.score_texts(tables.texts, rows)
        scores += [found[name] for name in ("3-grams", text_scores.NEAREST) if name in found]
    return [score for score in scores if np.ptp(score) > 0]


def _rank_test(one: Floats, other: Floats, side: str) -> float:
    return float(stats.mannwhitneyu(one, other, alternative=side).pvalue)
