"""Every number of the report, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from divulge import checks, evaluation
from divulge._version import __version__
from divulge.decisions import fpr as by_fpr

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.auditing.outcome import Findings, Outcome
    from divulge.types import Array, Estimate

CONFIDENCE = 0.95


def summarise(audit: Findings) -> dict[str, Any]:
    """The audit in numbers; see `divulge.auditing.Audit.summary`."""
    smallest = _smallest(audit)
    return {
        "divulge": __version__,
        "verdict": verdict(audit, smallest),
        "fpr": list(audit.fpr),
        "unseen_classes": list(audit.unseen_classes),
        "counts": dict(audit.about["counts"]),
        "blind_baseline": audit.about["blind_baseline"],
        "transfer": audit.about["transfer"],
        "duplicates": audit.about["duplicates"],
        "warnings": list(audit.warnings),
        "partial": audit.about.get("partial"),
        "recipes": {name: _recipe(audit, audit[name]) for name in audit},
        "smallest_detectable": smallest,
    }


def as_data(estimate: Estimate) -> dict[str, Any]:
    """An estimate as plain data; an unbounded end (the upper one of ε) is None, which JSON can say."""
    return {name: None if part in (float("inf"), float("-inf")) else part for name, part in asdict(estimate).items()}


def numbers(outcome: Outcome, fpr: tuple[float, ...]) -> dict[str, Any]:
    """AUC, advantage, ε and TPR at each level; None where the records do not suffice for one."""
    return {
        "members": int(outcome.members.sum()),
        "nonmembers": int((~outcome.members).sum()),
        "auc": _or_none(lambda: outcome.auc),
        "advantage": _or_none(lambda: outcome.advantage),
        "epsilon": _or_none(outcome.epsilon),
        "tpr_at_fpr": {f"{level:g}": _or_none(lambda a=level: outcome.tpr_at_fpr(a)) for level in fpr},
        "realised_fpr": {f"{level:g}": _or_none(lambda a=level: outcome.realised_fpr(a)) for level in fpr},
    }


def _recipe(audit: Findings, outcome: Outcome) -> dict[str, Any]:
    found = dict(audit.about["recipes"][outcome.recipe]) | numbers(outcome, audit.fpr)
    found["decisions"] = {f"{level:g}": _decision(outcome, level) for level in audit.fpr}
    if raw := found.pop("raw_thresholds"):
        found["raw_fpr"] = {level: as_data(_raw_fpr(outcome, threshold)) for level, threshold in raw.items()}
    if audit.unseen_classes:
        found["unseen"] = numbers(outcome.unseen, audit.fpr)
    if audit.labels is not None:
        found["classes"] = _subgroups(outcome, audit.labels, max(audit.fpr))
    if audit.groups is not None:
        found["groups"] = _subgroups(outcome, audit.groups, max(audit.fpr))
    return found


def _decision(outcome: Outcome, level: float) -> dict[str, Any] | None:
    """Who is called a member at this level, and what is claimed; None with too few calibration records."""
    try:
        made = outcome.selection(fpr=level)
    except checks.InputError:
        return None
    return {
        "selected": made.count,
        "guarantee": str(made.guarantee),
        "one_calibration": as_data(by_fpr.realised_interval(len(outcome.nulls), level)),
        "warnings": list(made.warnings),
    }


def _subgroups(outcome: Outcome, names: Array, level: float) -> dict[str, Any]:
    """Each group's AUC, and its TPR and FPR at the threshold of all; None where it has one kind of record only."""
    return {
        str(row.group): {
            "members": row.members,
            "nonmembers": row.nonmembers,
            "auc": row.auc and as_data(row.auc),
            "tpr": row.tpr and as_data(row.tpr),
            "fpr": row.fpr and as_data(row.fpr),
        }
        for row in evaluation.subgroups(outcome.scores, outcome.members, names, level)
    }


def _raw_fpr(outcome: Outcome, threshold: float) -> Estimate:
    """FPR of the threshold the regressor would set by itself."""
    outside = outcome.scores[~outcome.members]
    return evaluation.intervals.proportion(int((outside > threshold).sum()), len(outside))


def _or_none(work: Callable[[], Estimate]) -> dict[str, Any] | None:
    """An estimate as data; None where there are too few records for it (never zero, never a guess)."""
    try:
        return as_data(work())
    except checks.InputError:
        return None


def _smallest(audit: Findings) -> dict[str, Any]:
    members = _judged(audit).members
    inside, outside = int(members.sum()), int((~members).sum())
    return asdict(evaluation.smallest_detectable(inside, outside, max(audit.fpr), _at_once(audit)))


def _judged(audit: Findings) -> Outcome:
    """Any recipe's outcome, on the candidates the verdict is about."""
    first = audit[next(iter(audit))]
    return first.unseen if audit.unseen_classes else first


@dataclass(frozen=True, slots=True)
class Claim:
    """One statistic of one recipe beside what a model that leaks nothing would have."""

    recipe: str
    statistic: str
    chance: float
    estimate: Estimate

    @property
    def leak(self) -> bool:
        """Whether the interval lies above chance."""
        return self.estimate.low > self.chance


def scopes(audit: Findings, name: str) -> list[Outcome]:
    """What is judged of a recipe: the unseen classes alone where there are some, and always all candidates."""
    outcome = audit[name]
    return [outcome.unseen, outcome] if audit.unseen_classes else [outcome]


def claims(audit: Findings) -> list[list[Claim]]:
    """AUC and TPR of every recipe, a list a scope, with intervals that hold all at once (Bonferroni).

    Otherwise, among five recipes with two statistics each, one would exclude chance by luck in every
    other audit of a model that leaks nothing.
    """
    confidence = _at_once(audit)
    by_recipe = [[_claims(outcome, audit.fpr, confidence) for outcome in scopes(audit, name)] for name in audit]
    return [[claim for found in of_scope for claim in found] for of_scope in zip(*by_recipe, strict=True)]


def _claims(outcome: Outcome, levels: tuple[float, ...], confidence: float) -> list[Claim]:
    scores, members, name = outcome.scores, outcome.members, outcome.recipe
    found = [Claim(name, "AUC", 0.5, evaluation.auc(scores, members, confidence))]
    for level in _supported(outcome, levels):
        rate = evaluation.tpr_at_fpr(scores, members, level, confidence)
        found.append(Claim(name, f"TPR at FPR {level:g}", level, rate))
    return found


def _supported(outcome: Outcome, levels: tuple[float, ...]) -> list[float]:
    outside = int((~outcome.members).sum())
    return [level for level in levels if outside >= evaluation.least_nonmembers(level)]


def _at_once(audit: Findings) -> float:
    """Confidence of each interval that lets all of them hold at once."""
    tests = sum(1 + len(_supported(outcome, audit.fpr)) for name in audit for outcome in scopes(audit, name))
    return 1 - (1 - CONFIDENCE) / tests


def verdict(audit: Findings, smallest: dict[str, Any]) -> dict[str, str]:
    """What leaks, how sure we are, under which threat model: the first line of the report."""
    blind = audit.about["blind_baseline"]
    if blind is not None and blind["confounded"]:
        area = blind["auc"]
        return {
            "tone": "void",
            "text": "The split is confounded: a classifier that never saw the model tells members from non-members "
            f"(AUC {area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}], p = {blind['p_value']:.2g}). No number "
            "below can be blamed on the model.",
        }
    where = f" on the unseen classes {list(audit.unseen_classes)}" if audit.unseen_classes else ""
    judged = [[claim for claim in found if claim.leak] for found in claims(audit)]
    if judged[0]:
        return {"tone": "leak", "text": _found(audit, judged[0], where)}
    if judged[-1]:
        return {"tone": "leak", "text": f"{_found(audit, judged[-1], ' over all classes')} {_nothing(where, smallest)}"}
    return {"tone": "clear", "text": _nothing(where, smallest)}


def _found(audit: Findings, leaks: list[Claim], where: str) -> str:
    worst = max(leaks, key=lambda claim: (claim.estimate.low - claim.chance) / claim.chance)
    e = worst.estimate
    return (
        f"This model gives away who was in its training data{where}. The strongest evidence is {worst.recipe}: "
        f"{worst.statistic} {e.value:.3f} [{e.low:.3f}, {e.high:.3f}], where a model that leaks nothing has "
        f"{worst.chance:g} (intervals of all recipes hold at once with {CONFIDENCE:.0%} confidence). "
        f"{_adversary(audit.about['recipes'][worst.recipe])}"
    )


def _nothing(where: str, smallest: dict[str, Any]) -> str:
    area = "no AUC" if smallest["auc"] is None else f"an AUC of {smallest['auc']:.3f}"
    rate = "no TPR" if smallest["tpr"] is None else f"a TPR of {smallest['tpr']:.3f} at FPR {smallest['fpr']:g}"
    return (
        f"No leak found at this power{where}: no interval lies above chance. These records would have shown {area} or "
        f"{rate} with {smallest['power']:.0%} probability; a smaller leak they could have missed."
    )


def _adversary(recipe: dict[str, Any]) -> str:
    models = {
        "none": "no reference models",
        "out": "reference models trained on other data of the same kind",
        "in and out": "reference models trained on halves of population and candidates",
    }[recipe["references"]]
    return f"The adversary needs {recipe['reads']} ({recipe['signal']}) and {models}."
