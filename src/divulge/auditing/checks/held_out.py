"""Check whether non-members and population were held out: neither may score like training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divulge.auditing import signals
from divulge.auditing.findings import CONFIDENCE
from divulge.decisions import usage
from divulge.decisions.counts import Counts
from divulge.duplicates import match_records, number_pairs
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.evaluation.held_out import (
    SetScores,
    comparable_rows,
    compare_held_out,
    excludes_chance,
    smallest_share_seen,
)
from divulge.report import formatting
from divulge.results import CheckFinding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.evaluation.blind import Blind
    from divulge.types import Estimate, Floats, Ints

# The smallest p-value of the blind baseline's 199 permutations. Held-out sets of different kinds are at that end of the
# scale before their scores differ beyond `held_out.FALSE_ALARM`; at a higher level the guard would be lifted by chance.
_BLIND_LEVEL = 1 / 200
_NAMES = {"members": "members", "nonmembers": "non-members", "population": "population"}


@dataclass(frozen=True, slots=True, eq=False)
class _AttackRows:
    """Scores of an attack, or a signal of the target alone, and the rows of the sets that it may compare."""

    values: Floats
    rows: Mapping[str, Ints]

    @property
    def scores(self) -> SetScores:
        return SetScores(**{name: self.values[part] for name, part in self.rows.items()})


class HeldOut:
    """Members, non-members and population, compared in pairs.

    A model that was trained on the non-members as well gives them no lower scores than members, and the comparison of
    the two shows no leak. The population does.
    """

    name = "held-out records"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Compare non-members with the population; None where there is no population to compare with."""
        attacks = _collect_attacks(audit)
        if not attacks:
            return None
        areas = compare_held_out({name: attack.scores for name, attack in attacks.items()})
        suspicious = {name: areas[name] for name in areas if excludes_chance(areas[name])}
        if not suspicious:
            return _describe_held_out(self.name, attacks, areas)
        widest = max((attacks[name].rows for name in suspicious), key=lambda rows: len(rows["population"]))
        if reason := _describe_other_population(audit, widest):
            return CheckFinding(self.name, "none", reason, figures=_figures(attacks[_surest(suspicious)]))
        unexplained = {
            name: _unexplained_area(audit, attacks[name], "nonmembers", area) for name, area in suspicious.items()
        }
        confirmed = {
            name: area
            for name, area in suspicious.items()
            if excludes_chance(unexplained[name]) and (unexplained[name].low > 0.5) == (area.low > 0.5)
        }
        if not confirmed:
            sentence = (
                "Non-members and population score differently, which the records alone explain: the population is of "
                "another kind, so whether the model was trained on the non-members cannot be told by it."
            )
            return CheckFinding(self.name, "none", sentence, figures=_figures(attacks[_surest(suspicious)]))
        finding = _accuse(self.name, audit, {name: attacks[name] for name in confirmed}, _surest(confirmed), confirmed)
        audit.log.warnings.append(finding.sentence[0].lower() + finding.sentence[1:].rstrip("."))
        return finding


def _collect_attacks(audit: ScoredAudit) -> dict[str, _AttackRows]:
    """Return scores to compare the sets by, each with the rows that it may compare.

    Signals of the target alone compare the whole population, whatever attacks have learned from it. Scores of attacks,
    signals that were prepared on the population, and those of completed records compare what was set aside of it.
    """
    prepared, layout = audit.prepared, audit.prepared.layout
    inputs, records = prepared.inputs, prepared.views[0]
    candidates = np.arange(layout.candidates)
    sets = {"members": candidates[inputs.truth], "nonmembers": candidates[~inputs.truth]}
    others, set_aside = np.arange(layout.candidates, layout.total), np.arange(layout.candidates, layout.scored)
    parts = {**sets, "population": others}
    matches = match_records(
        {name: records[rows] for name, rows in parts.items()}, labelled=records.y is not None and records.labels is None
    )
    groups = np.empty(layout.total, dtype=np.int64)
    groups[np.concatenate(list(parts.values()))] = np.concatenate(matches.groups)
    if records.labels is not None:
        groups = number_pairs(groups, records.labels)
    whole, part = (
        comparable_rows({**sets, "population": population}, groups, records.labels, inputs.unseen_classes)
        for population in (others, set_aside)
    )
    names, attacks = signals.signal_names(inputs.recipes), dict[str, _AttackRows]()
    for recipe in inputs.recipes:
        signal, values = names[recipe.name], np.append(audit.scores[recipe.name], audit.calibration[recipe.name])
        answers = audit.views[0].target.get(signal)
        if recipe.output_signal is None or prepared.partial_knowledge is not None or answers is None:
            attacks[recipe.name] = _AttackRows(values, part)
            continue
        if not np.array_equal(values, answers[layout.scored_rows]):
            attacks[recipe.name] = _AttackRows(values, part)
        attacks[f"signal {signal}"] = _AttackRows(answers, whole)
    return {name: attack for name, attack in attacks.items() if all(len(rows) for rows in attack.rows.values())}


def _surest(areas: Mapping[str, Estimate]) -> str:
    """Return the attack whose interval is furthest from ½."""
    return max(areas, key=lambda name: max(areas[name].low - 0.5, 0.5 - areas[name].high))


def _figures(attack: _AttackRows) -> dict[str, Estimate]:
    # Members against non-members stand elsewhere, with the verdict's interval.
    pairs = (("members", "population"), ("nonmembers", "population"))
    return {
        f"AUC, {_NAMES[first]} against {_NAMES[second]}": attack.scores.area(first, second, CONFIDENCE)
        for first, second in pairs
    }


def _describe_held_out(check: str, attacks: Mapping[str, _AttackRows], areas: Mapping[str, Estimate]) -> CheckFinding:
    """Say that non-members score like the population, and how many trained ones would have been seen."""
    shares = {
        name: smallest_share_seen(areas[name], attack.scores.area("members", "population", CONFIDENCE))
        for name, attack in attacks.items()
    }
    seen = [share for share in shares.values() if share is not None]
    power = (
        f"Had the model been trained on {formatting.format_percent(math.ceil(100 * min(seen)) / 100)} of them or more, "
        "that would probably have been seen."
        if seen
        else "Too few records, or members that hardly score above the population: it would not have been seen."
    )
    clearest = min(shares, key=lambda name: shares[name] or math.inf)
    sentence = (
        "The declared non-members score like the population: nothing suggests that the model was trained on them."
    )
    return CheckFinding(check, "none", sentence, (power,), _figures(attacks[clearest]))


def _describe_other_population(audit: ScoredAudit, rows: Mapping[str, Ints]) -> str:
    """Say that the population is of another kind than the non-members; empty if it is not known to be."""
    baseline = _blind_difference(audit, rows["nonmembers"], rows["population"], rows["members"])
    if baseline is None:
        return ""
    return (
        "Non-members and population cannot be compared: the population differs from the non-members without the model "
        f"(AUC {formatting.format_estimate(baseline.auc)}, p = {baseline.p_value:.2g}), so whether the model was "
        "trained on the non-members cannot be told by it."
    )


def _blind_difference(audit: ScoredAudit, first: Ints, second: Ints, others: Ints) -> Blind | None:
    """Return the blind baseline of two sets if it tells them apart; None if not, or with too few records to tell."""
    records, rows = audit.prepared.views[0], np.append(first, second)
    y, features = records.y, records.features
    try:
        baseline = blind.baseline_with_features(
            records.x[rows],
            None if y is None else y[rows],
            None if features is None else features[rows],
            np.arange(len(rows)) < len(first),
            audit.prepared.seed,
            (records.x[others], None if y is None else y[others]),
        )
    except InputError:
        return None
    n_tests = 1 if features is None else 2
    return baseline if baseline.p_value <= n_tests * _BLIND_LEVEL else None


def _unexplained_area(audit: ScoredAudit, attack: _AttackRows, above: str, area: Estimate) -> Estimate:
    """Return the AUC of a set against the population by scores less what the records alone explain."""
    first, second = attack.rows[above], attack.rows["population"]
    others = attack.rows["members" if above == "nonmembers" else "nonmembers"]
    records, rows, seed = audit.prepared.views[0], np.append(first, second), audit.prepared.seed
    y, other_y = (None if records.y is None else records.y[part] for part in (rows, others))
    left = blind.adjust_scores({"": attack.values[rows]}, records.x[rows], y, seed, (records.x[others], other_y))
    if records.features is not None:
        left = blind.adjust_scores(left, records.features[rows], None, seed)
    return SetScores(*np.split(left[""], [0, len(first)])).area("nonmembers", "population", area.confidence)


def _accuse(
    check: str, audit: ScoredAudit, attacks: Mapping[str, _AttackRows], surest: str, areas: Mapping[str, Estimate]
) -> CheckFinding:
    """Say which set the model was probably trained on, how much of it, and what members show against the other."""
    suspect, clean = ("nonmembers", "population") if areas[surest].low > 0.5 else ("population", "nonmembers")
    name = {"nonmembers": "declared non-members", "population": "population records"}[suspect]
    attack, rows, scores = attacks[surest], attacks[surest].rows, attacks[surest].scores
    n_intervals = len(audit.scores) * (2 + len(audit.fpr)) * (1 + bool(audit.prepared.inputs.unseen_classes))
    leak = scores.area("members", clean, 1 - (1 - CONFIDENCE) / max(n_intervals, len(attacks)))
    area = formatting.format_estimate(scores.area(suspect, clean, areas[surest].confidence))
    figures = _figures(attack)
    details = (
        f"By {surest}, {_NAMES[suspect]} score above {_NAMES[clean]}: AUC {area}, where records that were both held "
        "out have 0.5. A classifier that never saw the model does not tell them apart, and the difference is not "
        "explained by the records alone.",
        _advise(audit, suspect),
    )
    if leak.low <= 0.5:
        sentence = (
            f"The {name} score like training data, more so than the declared members: the model was probably trained "
            "on them, and the sets may have been mixed up."
        )
        return CheckFinding(check, "not cleared", sentence, details, figures)
    counts = Counts.empty(getattr(scores, clean)).add(getattr(scores, suspect))
    share = usage.mixture(counts, scores.members, confidence=CONFIDENCE)
    figures[f"share of the {name} that the model was trained on"] = share
    used = _count_used(share, len(rows[suspect]), name)
    sentence = f"{used} score like training data: the model was probably trained on them."
    is_leak = (
        suspect == "nonmembers"
        and _blind_difference(audit, rows["members"], rows["population"], rows["nonmembers"]) is None
        and _unexplained_area(audit, attack, "members", leak).low > 0.5
    )
    if not is_leak:
        return CheckFinding(check, "not cleared", sentence, details, figures)
    rate = formatting.natural_frequency(leak, 0.5)
    sentence += (
        " Shown a member and a record of the population, the attack tells which is which in about "
        f"{rate.describe('cases')}; guessing is right in {rate.total // 2:,}."
    )
    return CheckFinding(check, "leak", sentence, details, figures)


def _count_used(share: Estimate, n: int, name: str) -> str:
    """Return the share of a set as a count of its records.

    Examples:
        >>> from divulge.types import Estimate
        >>> _count_used(Estimate(0.96, 0.9, 1.0, 0.95, ""), 500, "declared non-members")
        'About 480 of the 500 declared non-members (450 to 500)'
    """
    low, high = math.floor(share.low * n), math.ceil(share.high * n)
    if low == 0 and high == n:  # no share fits: the set scores otherwise than members and the other set do
        return f"Some or all of the {n:,} {name}"
    return f"About {round(share.value * n):,} of the {n:,} {name} ({low:,} to {high:,})"


def _advise(audit: ScoredAudit, suspect: str) -> str:
    if suspect == "population":
        return (
            "No decision that is calibrated by this population holds. Give a population that surely was not used: "
            "collected after the training, or held out of every fit."
        )
    is_text = audit.prepared.views[0].x.dtype == object
    ask = ", or ask with `divulge identify` which of the documents were used" if is_text else ""
    return (
        "A last fit on all data and a test set that got into the training do that, and so do two parts of the training "
        "data given as members and non-members. Members cannot be told from records that were used as well, so what is "
        "measured against the non-members is too low. Give non-members that surely were not used: collected after the "
        f"training, or held out of every fit{ask}."
    )
