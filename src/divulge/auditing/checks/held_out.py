"""Check whether non-members and population were held out: neither may score like training data."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from divulge.auditing import signals
from divulge.auditing.checks.check import Check
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
    find_hidden_leaks,
    rank_held_out,
    smallest_share_seen,
)
from divulge.report import formatting
from divulge.results import CheckFinding
from divulge.signals.named import NAMED_SIGNALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.evaluation.blind import Blind
    from divulge.types import Estimate, Floats, Ints

# The smallest p-value of the blind baseline's 199 permutations. Held-out sets of different kinds are at that end of the
# scale before their scores differ beyond `held_out.FALSE_ALARM`; at a higher level the guard would be lifted by chance.
_BLIND_LEVEL = 1 / 200
# Candidates that differ from the population by as little as this raise no doubt about the non-members: the doubt is not
# as well founded as an accusation, and one of twenty is no great loss to it.
_DOUBT_BLIND_LEVEL = 0.05
_SUSPICION = 0.98  # held-out non-members score above the population so surely in one of a hundred audits
_PLAIN = "negative-loss"
_NAMES = {"members": "members", "nonmembers": "non-members", "population": "population"}
_NONMEMBERS_ABOVE = "AUC, non-members against population"


@dataclass(frozen=True, slots=True, eq=False)
class _AttackRows:
    """Scores of an attack, or a signal of the target alone, and the rows of the sets that it may compare."""

    values: Floats
    rows: Mapping[str, Ints]

    @property
    def scores(self) -> SetScores:
        return SetScores(**{name: self.values[part] for name, part in self.rows.items()})


@dataclass(frozen=True, slots=True, eq=False)
class _Sign:
    """An attack by which a set seems to have been trained on.

    Args:
        audit: the audit.
        name: of the attack.
        attack: its scores.
        unexplained: the same less what the records alone explain.
        label_errors: see `_measure_label_errors`.
        leak_confidence: of what members show against another set.
    """

    audit: ScoredAudit
    name: str
    attack: _AttackRows
    unexplained: SetScores
    label_errors: Floats | None
    leak_confidence: float

    def is_other_kind(self, compared: Sequence[str], level: float) -> bool:
        """Return whether sets differ from the population without the model."""
        found = _find_blind_difference(self.audit, self.attack.rows, compared, level, self.label_errors)
        return found is not None


class HeldOut(Check):
    """Members, non-members and population, compared in pairs.

    A model that was trained on the non-members as well gives them no lower scores than members, and the comparison of
    the two shows no leak. The population does.
    """

    name = "held-out records"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Compare the three sets, or say that they have no records to compare."""
        attacks = _collect_attacks(audit)
        if not attacks:
            return CheckFinding(
                self.name,
                "not checked",
                "Whether the declared non-members were held out of the training could not be checked: they and the "
                "population have no records in common classes that are no copies of members.",
            )
        scores = {name: attack.scores for name, attack in attacks.items()}
        areas = compare_held_out(scores)
        # Intervals of members' scores hold together with those of the verdict.
        n_intervals = len(audit.scores) * (2 + len(audit.fpr)) * (1 + bool(audit.prepared.inputs.unseen_classes))
        leak_confidence = 1 - (1 - CONFIDENCE) / max(n_intervals, len(attacks))
        is_seen = any(sets.area("members", "nonmembers", leak_confidence).low > 0.5 for sets in scores.values())
        hints = [name for name, sets in scores.items() if sets.hint_at_use(despite_leak=is_seen)]
        label_errors = _measure_label_errors(audit, attacks) if hints else None
        unexplained = _subtract_explained(audit, {name: attacks[name] for name in hints}, label_errors)
        unexplained_areas = compare_held_out(unexplained, n_attacks=len(attacks))
        confirmed = {
            name: area
            for name, area in unexplained_areas.items()
            if excludes_chance(area) and (area.value > 0.5) == (areas[name].value > 0.5)
        }
        hidden = [] if is_seen else find_hidden_leaks(unexplained, n_attacks=len(attacks))
        suspicious = {name: area for name, area in areas.items() if excludes_chance(area)}
        if not (confirmed or hidden or suspicious):
            return _suspect_class(audit, attacks) or _describe_held_out(self.name, attacks, areas)
        compared = confirmed or suspicious or {name: areas[name] for name in hidden[:1]}
        # The attack whose interval is furthest from one half.
        shown = max(compared, key=lambda name: max(compared[name].low - 0.5, 0.5 - compared[name].high))
        baseline = None
        if confirmed or suspicious:
            baseline = _find_blind_difference(audit, attacks[shown].rows, ("nonmembers",), _BLIND_LEVEL, label_errors)
        finding = None
        if confirmed and baseline is None:
            sign = _Sign(audit, shown, attacks[shown], unexplained[shown], label_errors, leak_confidence)
            finding = _accuse(sign, confirmed[shown])
        elif hidden and baseline is None:
            name = hidden[0]
            finding = _doubt(_Sign(audit, name, attacks[name], unexplained[name], label_errors, leak_confidence))
        if finding is not None:
            audit.log.warnings.append(finding.sentence[0].lower() + finding.sentence[1:].rstrip("."))
            return finding
        if baseline is None and not suspicious:
            return _suspect_class(audit, attacks) or _describe_held_out(self.name, attacks, areas)
        how = (
            "which the records alone explain"
            if baseline is None
            else "and so they do without the model "
            f"(AUC {formatting.format_estimate(baseline.auc)}, p = {baseline.p_value:.2g})"
        )
        return CheckFinding(
            self.name,
            "not checked",
            "Whether the declared non-members were held out of the training could not be checked: they differ from the "
            f"population in their scores, {how}, so the population is of another kind.",
            figures=_figures(attacks[shown]),
        )


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
        answers = audit.measurements[0].target.get(signal)
        if recipe.output_signal is None or prepared.partial_knowledge is not None or answers is None:
            attacks[recipe.name] = _AttackRows(values, part)
            continue
        if not np.array_equal(values, answers[layout.scored_rows]):
            attacks[recipe.name] = _AttackRows(values, part)
        attacks[f"signal {signal}"] = _AttackRows(answers, whole)
    if not any(recipe.output_signal for recipe in inputs.recipes):
        attacks |= _read_plain_signal(audit, part if prepared.partial_knowledge is not None else whole)
    return {name: attack for name, attack in attacks.items() if all(len(rows) for rows in attack.rows.values())}


def _read_plain_signal(audit: ScoredAudit, rows: Mapping[str, Ints]) -> dict[str, _AttackRows]:
    """Return a classifier's loss, which no recipe of the audit reads: it often shows more than attacks on the inside.

    Empty for other targets, and those that give labels alone.
    """
    prepared = audit.prepared
    last = 1 + max((int(part.max()) for part in rows.values() if len(part)), default=-1)
    with contextlib.suppress(InputError):
        read = prepared.modality.target_signals(prepared, prepared.views[0][:last], [NAMED_SIGNALS[_PLAIN]], audit.log)
        return {f"signal {_PLAIN}": _AttackRows(read[_PLAIN], rows)}
    return {}


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
        else "Too few records, or members that hardly score above the population: it might well not have been seen."
    )
    clearest = min(shares, key=lambda name: shares[name] or math.inf)
    figures = _figures(attacks[clearest])
    sentence = (
        "The declared non-members score like the population: nothing suggests that the model was trained on them."
        if figures[_NONMEMBERS_ABOVE].low <= 0.5
        else "The declared non-members score a little above the population, as they may by chance: too little to say "
        "whether the model was trained on some of them."
    )
    return CheckFinding(check, "none", sentence, (power,), figures)


def _suspect_class(audit: ScoredAudit, attacks: Mapping[str, _AttackRows]) -> CheckFinding | None:
    """Say of which class the non-members score like training data, too few to show among all; None where of none."""
    records = audit.prepared.views[0]
    if records.labels is None:
        return None
    origins, by_class = dict[str, tuple[str, str]](), dict[str, _AttackRows]()
    for name, attack in attacks.items():
        for label in np.unique(records.labels[attack.rows["nonmembers"]]).tolist():
            rows = {part: rows[records.labels[rows] == label] for part, rows in attack.rows.items()}
            if all(map(len, rows.values())):
                key = f"{name}, class {label}"
                origins[key] = name, f"class {formatting.class_name(label, records.class_names)}"
                by_class[key] = _AttackRows(attack.values, rows)
    for key in rank_held_out({key: each.scores for key, each in by_class.items()}):  # the surest first
        attack = by_class[key]
        unexplained = _subtract_explained(audit, {key: attack}, None)
        is_explained = not rank_held_out(unexplained, n_attacks=len(by_class))
        if is_explained or _find_blind_difference(audit, attack.rows, ("nonmembers",), _BLIND_LEVEL, None) is not None:
            continue
        name, group = origins[key]
        area = attack.scores.area("nonmembers", "population", CONFIDENCE)
        sentence = (
            f"The declared non-members of {group} score like training data: the model may have been trained on them, "
            "and a leak in this class would then not show."
        )
        details = (
            f"By {name}, within {group} they score above the population: AUC {formatting.format_estimate(area)}, "
            "where records that were both held out have 0.5, and the records alone do not explain it.",
            _advise(audit, "nonmembers"),
        )
        audit.log.warnings.append(sentence[0].lower() + sentence[1:].rstrip("."))
        return CheckFinding(HeldOut.name, "not cleared", sentence, details, _figures(attack))
    return None


def _find_blind_difference(
    audit: ScoredAudit,
    rows: Mapping[str, Ints],
    compared: Sequence[str],
    level: float,
    label_errors: Floats | None,
) -> Blind | None:
    """Return the blind baseline of sets against the population if it tells them apart; None if not.

    None, too, with too few records to tell.
    """
    records, first = audit.prepared.views[0], np.concatenate([rows[name] for name in compared])
    compared_rows = np.append(first, rows["population"])
    y, features = records.y, records.features
    try:
        baseline = blind.baseline_with_features(
            records.x[compared_rows],
            None if y is None else y[compared_rows],
            None if features is None else features[compared_rows],
            np.arange(len(compared_rows)) < len(first),
            audit.prepared.seed,
            label_errors=None if label_errors is None else label_errors[compared_rows],
        )
    except InputError:
        return None
    n_tests = 1 if features is None else 2
    return baseline if baseline.p_value <= n_tests * level else None


def _measure_label_errors(audit: ScoredAudit, attacks: Mapping[str, _AttackRows]) -> Floats | None:
    """Return how badly each compared label is predicted from its record, ``[total, 2]``; None without labels."""
    records = audit.prepared.views[0]
    compared = np.unique(np.concatenate([part for attack in attacks.values() for part in attack.rows.values()]))
    errors = blind.measure_label_errors(
        records.x[compared], None if records.y is None else records.y[compared], audit.prepared.seed
    )
    if errors is None:
        return None
    spread = np.full((len(records), errors.shape[1]), np.nan)
    spread[compared] = errors
    return spread


def _subtract_explained(
    audit: ScoredAudit, attacks: Mapping[str, _AttackRows], label_errors: Floats | None
) -> dict[str, SetScores]:
    """Return the scores of each attack in the three sets less what the records alone explain."""
    records, seed = audit.prepared.views[0], audit.prepared.seed
    unexplained = {}
    for rows in {id(attack.rows): attack.rows for attack in attacks.values()}.values():
        names = [name for name, attack in attacks.items() if attack.rows is rows]
        compared = np.concatenate([rows[name] for name in _NAMES])
        y = None if records.y is None else records.y[compared]
        left = blind.adjust_scores(
            {name: attacks[name].values[compared] for name in names},
            records.x[compared],
            y,
            seed,
            label_errors=None if label_errors is None else label_errors[compared],
        )
        if records.features is not None:
            left = blind.adjust_scores(left, records.features[compared], None, seed)
        ends = np.cumsum([len(rows[name]) for name in _NAMES])[:-1]
        unexplained |= {name: SetScores(*np.split(left[name], ends)) for name in names}
    return unexplained


def _doubt(sign: _Sign) -> CheckFinding | None:
    """Say that members leak by the population though not by the non-members; None where the sets differ in kind."""
    if sign.is_other_kind(("members", "nonmembers"), _DOUBT_BLIND_LEVEL):
        return None
    scores = sign.attack.scores
    areas = {other: scores.area("members", other, sign.leak_confidence) for other in ("population", "nonmembers")}
    by_population, by_nonmembers = map(formatting.format_estimate, areas.values())
    seems_used = sign.unexplained.area("nonmembers", "population", _SUSPICION).low > 0.5
    sentence = (
        "Against the population the model shows a leak that it does not show against the declared non-members: "
        + ("it may have been trained on these as well, or " if seems_used else "")
        + "the leak is too weak to be seen in so few of them."
    )
    details = (
        f"By {sign.name}, members score above the population with AUC {by_population} and above the non-members with "
        f"{by_nonmembers}. A classifier that never saw the model does not tell candidates from the population, and the "
        "difference is not explained by the records alone.",
    )
    return CheckFinding(
        HeldOut.name,
        "not cleared" if seems_used else "unsure",
        sentence,
        (*details, *([_advise(sign.audit, "nonmembers")] if seems_used else [])),
        _figures(sign.attack),
        member_auc=areas["population"],
    )


def _accuse(sign: _Sign, area: Estimate) -> CheckFinding:
    """Say which set the model was probably trained on, how much of it, and what members show against the other.

    Args:
        sign: the attack that decided.
        area: AUC of non-members against the population by its unexplained scores.
    """
    sides: tuple[Literal["nonmembers", "population"], ...] = ("nonmembers", "population")
    suspect, clean = sides if area.low > 0.5 else sides[::-1]
    suspects = {"nonmembers": "declared non-members", "population": "population records"}[suspect]
    scores, unexplained, figures = sign.attack.scores, sign.unexplained, _figures(sign.attack)
    shown_area = formatting.format_estimate(unexplained.area(suspect, clean, area.confidence))
    details = (
        f"By {sign.name}, less what the records alone explain, {_NAMES[suspect]} score above {_NAMES[clean]}: AUC "
        f"{shown_area}, where records that were both held out have 0.5. A classifier that never saw the model does not "
        "tell them apart.",
        _advise(sign.audit, suspect),
    )
    leak = scores.area("members", clean, sign.leak_confidence)
    is_leak = leak.low > 0.5 and unexplained.area("members", clean, sign.leak_confidence).low > 0.5
    if not is_leak:
        is_mixed_up = unexplained.area("members", suspect, area.confidence).high < 0.5
        reason = (
            ", more so than the declared members: the model was probably trained on them, and the sets may have been "
            "mixed up."
            if is_mixed_up
            else ": the model was probably trained on some or all of them."
        )
        sentence = f"The {suspects} score like training data{reason}"
        return CheckFinding(HeldOut.name, "not cleared", sentence, details, figures, trained_on=suspect)
    counts = Counts.empty(getattr(scores, clean)).add(getattr(scores, suspect))
    share = usage.mixture(counts, scores.members, confidence=CONFIDENCE)
    figures[f"share of the {suspects} that the model was trained on"] = share
    used = _count_used(share, len(sign.attack.rows[suspect]), suspects)
    sentence = f"{used} score like training data: the model was probably trained on them."
    # Of a long message test reports show the beginning, so that stands first which matters most.
    ruling = f"the model was probably trained on {used[0].lower()}{used[1:]}, which score like training data"
    if suspect == "population" or sign.is_other_kind(("members",), _BLIND_LEVEL):
        return CheckFinding(HeldOut.name, "not cleared", sentence, details, figures, trained_on=suspect, ruling=ruling)
    rate = formatting.natural_frequency(leak, 0.5)
    sentence += (
        " Shown a member and a record of the population, the attack tells which is which in about "
        f"{rate.describe('such pairs')}; guessing is right in {rate.total // 2:,}."
    )
    return CheckFinding(HeldOut.name, "leak", sentence, details, figures, trained_on=suspect, ruling=ruling)


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
    return (
        "A last fit on all data and a test set that got into the training do that, and so do two parts of the training "
        "data given as members and non-members. Members cannot be told from records that were used as well, so what is "
        "measured against the non-members is too low. Give non-members that surely were not used: collected after the "
        "training, or held out of every fit, or ask with `divulge identify` which of the records were used."
    )
