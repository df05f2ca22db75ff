"""Membership inference from the weights of a shallow ReLU network, or of the head of a frozen body."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import margin as proofs
from divulge import store, tables
from divulge.decisions import fdr, fpr
from divulge.decisions.counts import Counts
from divulge.decisions.methods import Storey
from divulge.duplicates import number_groups
from divulge.errors import InputError
from divulge.evaluation import proportion
from divulge.report import formatting
from divulge.results import CalledRecord, RuleSummary, WeightsSummary
from divulge.settings import WeightsSettings, choices
from divulge.signals import margin as signals
from divulge.statistics import find_missing_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from divulge.datafiles import NamedRows
    from divulge.margin import MarginDecision
    from divulge.margin.shallow_relu import Network
    from divulge.types import Array, Bools, Estimate, Floats, Ints, Selection, Tone

_DEFAULTS = WeightsSettings()
SIGNALS = choices(WeightsSettings.model_fields["signal"])
_MAX_UNEXPLAINED = 0.5  # of the weights; networks trained to a large margin keep 0.1 to 0.4, others 0.6 and more
_MAX_FALSE_REPORTS = 0.05  # share of runs without a member in which a leak may be reported


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRules:
    """Signal, margin and error levels of an examination.

    Args:
        margin: the margin of the training set, where it is known.
        band: half-width of the margin band.
        signal: what is decided on, one of `SIGNALS`.
        fpr: bound on the false-positive rate.
        fdr: bound on the expected share of non-members among those called members.
    """

    margin: float | None = _DEFAULTS.margin
    band: float = _DEFAULTS.band
    signal: str = _DEFAULTS.signal
    fpr: float = _DEFAULTS.fpr
    fdr: float = _DEFAULTS.fdr

    def __post_init__(self) -> None:
        WeightsSettings.check_attributes(self)


@dataclass(frozen=True, slots=True, eq=False)
class WeightsExamination:
    """Scores and decisions on candidates, from the weights alone.

    Args:
        ids: names of the candidates, ``[n]``.
        outputs: Φ of the candidates, ``[n]``.
        scores: the signal of the candidates, ``[n]``.
        calibration: Φ and signal of the known non-members, ``[2, z]``, or None.
        unexplained: share of the weights that no combination of the records' gradients rebuilds.
        margin: the margin that was used, or None.
        decisions: rule → its decision.
        signal: name of the signal.
        truth: bool ``[n]``, which candidates were trained on, where the file tells; only the chart shows it.
        leaks: whether the candidates stand out from the known non-members, `exceeds_chance`.
        accuracy: set of records → how often the network's answer is their label, where labels are known.
        classes: number of outputs of the network; 1 where the sign of one decides.
        failed_premises: why these weights need not be at a KKT point, as clauses.
    """

    ids: Array
    outputs: Floats
    scores: Floats
    calibration: Floats | None
    unexplained: float
    margin: float | None
    decisions: dict[str, MarginDecision | Selection]
    signal: str
    truth: Bools | None
    leaks: bool
    accuracy: Mapping[str, Estimate]
    classes: int = 1
    failed_premises: tuple[str, ...] = ()

    @property
    def tone(self) -> Tone:
        """The tone of the verdict."""
        return "leak" if self.leaks else "undecided" if self.failed_premises else "unproven"

    @property
    def verdict(self) -> str:
        """The claim in a sentence that needs no statistics."""
        n = len(self.outputs)
        if not self.decisions:
            return (
                f"Nothing can be said of the {n:,} candidates: no rule could decide. Give records known not to be in "
                "the training set (--nonmembers), its margin (--margin), or in Python records of which one was "
                "trained on (leaked)."
            )
        valid = [decision for decision in self.decisions.values() if decision.guarantee.standing == "holds"]
        fdr_decision = next((decision for decision in valid if decision.guarantee.kind == "FDR"), None)
        if not self.leaks and self.failed_premises:
            return f"Too little to say: {' and '.join(self.failed_premises)}."
        if not self.leaks:
            reason = "there is nothing to compare the candidates with"
            if self.calibration is not None:
                level = formatting.format_percent(_MAX_FALSE_REPORTS)
                reason = f"no candidate can be named at a false discovery rate of {level} or less"
            return f"No leak is proven: {reason}."
        if fdr_decision is None or not fdr_decision.count:
            return "Some candidates stand out from the records known not to be in the training set."
        return (
            f"{fdr_decision.count:,} of {n:,} candidates are recognised as training records from the weights alone; on "
            f"average at most {formatting.format_percent(fdr_decision.guarantee.level)} of such a selection is not, "
            f"assuming {' and '.join(fdr_decision.guarantee.assumes)}."
        )

    def called_records(self) -> Iterator[CalledRecord]:
        """Yield every candidate that a rule calls a member, highest score first."""
        selections = {name: chosen.selected for name, chosen in self.decisions.items()}
        chosen = np.any(list(selections.values()), axis=0) if selections else np.zeros(len(self.ids), bool)
        for i in np.flatnonzero(chosen)[np.argsort(-self.scores[chosen], kind="stable")]:
            names = tuple(name for name, selected in selections.items() if selected[i])
            yield CalledRecord(str(self.ids[i]), float(abs(self.outputs[i])), float(self.scores[i]), names)

    def write(self, path: Path) -> None:
        """Write candidates with outputs, scores and selections as Parquet."""
        columns = {"id": self.ids, "output": self.outputs, "score": self.scores}
        columns |= {name: chosen.selected for name, chosen in self.decisions.items()}
        store.write_file(path, lambda out: tables.write_parquet(tables.from_arrays(columns), out))

    def summary(self) -> WeightsSummary:
        """Return the examination as a summary."""
        return WeightsSummary(
            verdict=self.verdict,
            tone=self.tone,
            candidates=len(self.outputs),
            margin=self.margin,
            residual=float(self.unexplained),
            signal=self.signal,
            ids=tuple(self.ids.tolist()),
            scores=tuple(self.scores.tolist()),
            outputs=tuple(self.outputs.tolist()),
            classes=self.classes,
            decisions={
                name: RuleSummary(
                    tuple(chosen.selected.nonzero()[0].tolist()),
                    tuple(self.ids[chosen.selected].tolist()),
                    str(chosen.guarantee),
                    chosen.guarantee.says,
                    tuple(chosen.warnings),
                )
                for name, chosen in self.decisions.items()
            },
            called=tuple(self.called_records()),
        )


def examine_weights(
    net: Network,
    candidates: NamedRows,
    rules: ExaminationRules,
    *,
    nonmembers: NamedRows | None = None,
    leaked: NamedRows | None = None,
) -> WeightsExamination:
    """Decide which candidates the network was trained on.

    Args:
        net: one hidden ReLU layer without an output bias, or a linear head.
        candidates: records ``[n, …]``, with labels where they are known.
        rules: how members are told.
        nonmembers: records known not to be in the training set; without any, nothing is decided by scores.
        leaked: records of which one was trained on, which gives the margin.

    Raises:
        divulge.InputError: two margins, none for the margin band, too few non-members for a level, or a record
            that is a candidate and a non-member.
    """
    if rules.margin is not None and leaked is not None:
        raise InputError("margin: give it or leaked records, not both; a leaked record gives the margin")
    x, y, n = candidates.x, candidates.y, len(candidates.x)
    decisions: dict[str, MarginDecision | Selection] = {}
    margin = rules.margin
    if leaked is not None:
        margin = proofs.leaked_point(net, leaked.x, band=rules.band).margin
    if margin is not None:
        decisions["margin band"] = proofs.known_margin(net, x, margin, rules.band)
    labels = None if y is None else signals.as_network_labels(net, y, n)
    numbers = number_groups(x, labels)
    if nonmembers is not None:
        # Multipliers depend on the whole pool, so known non-members stand in it with the candidates.
        x = np.concatenate([x, nonmembers.x])
        other_y = nonmembers.y if labels is not None else None
        labels = (
            None
            if labels is None or other_y is None
            else np.concatenate([labels, signals.as_network_labels(net, other_y, len(nonmembers.x))])
        )
        numbers = _number_sets(x, labels, n)
    # Equal records would share a multiplier between them, and count as several observations.
    _, first_rows, own_places = np.unique(numbers, return_index=True, return_inverse=True)
    pool, pool_labels = x[first_rows], None if labels is None else labels[first_rows]
    explanation = proofs.explain(net, pool, pool_labels)
    pool_scores = (
        explanation.multipliers
        if rules.signal == "kkt-nnls"
        else _output_signal(net, pool, pool_labels, rules.signal, margin)
    )
    scores, outputs = pool_scores[own_places], net(x)
    if outputs.ndim > 1:
        outputs = net.margins(x)
    premises = _failed_premises(net, candidates, explanation.residual, margin)
    if premises and "margin band" in decisions:
        band = decisions["margin band"]
        note = f"too little to say: {' and '.join(premises)}"
        decisions["margin band"] = replace(band, warnings=(*band.warnings, note))
    calibration, leaks = None, False
    if nonmembers is not None:
        others = first_rows[first_rows >= n]
        distinct, places = np.unique(own_places[:n], return_inverse=True)
        by_fpr = fpr.decide(scores[others], scores[:n], rules.fpr)
        by_fdr = fdr.select(pool_scores[distinct], scores[others], fdr=rules.fdr)
        by_fdr = replace(by_fdr, selected=by_fdr.selected[places], p_values=by_fdr.p_values[places])
        leaks = exceeds_chance(pool_scores[distinct], scores[others], rules.fdr)
        if missing := _describe_missing_classes(net, x, labels, n, others):
            premises, leaks = (missing, *premises), False
            by_fpr, by_fdr = (
                replace(
                    each, guarantee=each.guarantee.capped_at("void"),
                    warnings=(f"the guarantee is void: {missing}", *each.warnings),
                )
                for each in (by_fpr, by_fdr)
            )  # fmt: skip
        decisions |= {f"FPR ≤ {rules.fpr:g}": by_fpr, f"FDR ≤ {rules.fdr:g}": by_fdr}
        calibration = np.stack([outputs[others], scores[others]])
    return WeightsExamination(
        ids=candidates.ids,
        outputs=outputs[:n],
        scores=scores[:n],
        calibration=calibration,
        unexplained=explanation.residual,
        margin=margin,
        decisions=decisions,
        signal=rules.signal,
        truth=candidates.member,
        leaks=leaks,
        accuracy=_accuracy(net, candidates, nonmembers),
        classes=getattr(net, "classes", 1),
        failed_premises=premises,
    )


def _number_sets(x: Floats, labels: Array | None, n_candidates: int) -> Ints:
    """Number the distinct records of candidates, then non-members.

    Raises:
        divulge.InputError: a record among both.
    """
    numbers = number_groups(x, labels)
    shared = np.flatnonzero(np.isin(numbers[:n_candidates], numbers[n_candidates:]))
    if shared.size:
        raise InputError(
            f"nonmembers: {shared.size:,} of the candidates are among them as well (first: candidate {shared[0]}, "
            "counted from 0); a record cannot be in question and known not to be used"
        )
    return numbers


def _describe_missing_classes(net: Network, x: Floats, labels: Array | None, n_candidates: int, others: Ints) -> str:
    """Say which classes of the candidates no known non-member is of, other than by chance; empty if there are none.

    Without labels the class is what the network answers.
    """
    if labels is None:
        outputs = net(x)
        labels = np.sign(outputs) if outputs.ndim == 1 else outputs.argmax(axis=1)
    missing = find_missing_classes(labels[:n_candidates], labels[others])
    if not missing.size:
        return ""
    named = "class " + ", ".join(f"{label:g}" for label in missing.tolist())
    return f"no record known not to be in the training set is of {named}, as some candidates are"


def _failed_premises(net: Network, candidates: NamedRows, unexplained: float, margin: float | None) -> tuple[str, ...]:
    """Say what shows that the weights are at no KKT point whose training records are among the candidates."""
    failed = []
    if candidates.member is not None and candidates.y is not None and candidates.member.any():
        margins = signals.margin_abs(net, candidates.x, candidates.y)[candidates.member]
        wrong = int((margins <= 0).sum())
        if wrong:
            failed.append(f"the network gets {wrong:,} of {len(margins):,} known training records wrong")
        elif np.median(margins) > 2.0 * (margins.min() if margin is None else margin):
            failed.append("known training records have unequal margins, as where training stopped early")
    if unexplained > _MAX_UNEXPLAINED:
        share = formatting.format_percent(unexplained)
        failed.append(
            f"the candidates leave {share} of the weights unexplained: few of them were trained on, or training did "
            "not last until every record had a large margin"
        )
    return tuple(failed)


def _accuracy(net: Network, candidates: NamedRows, nonmembers: NamedRows | None) -> dict[str, Estimate]:
    sets = {"candidates": (candidates, np.ones(len(candidates.x), bool))}
    if candidates.member is not None:
        sets = {"members": (candidates, candidates.member), "fresh candidates": (candidates, ~candidates.member)}
    if nonmembers is not None:
        sets["known non-members"] = (nonmembers, np.ones(len(nonmembers.x), bool))
    shares = {}
    for name, (rows, mask) in sets.items():
        if rows.y is not None and mask.any():
            is_correct = signals.margin_abs(net, rows.x, rows.y) > 0
            shares[name] = proportion(int(is_correct[mask].sum()), int(mask.sum()))
    return shares


def _output_signal(net: Network, x: Floats, y: Array | None, signal: str, margin: float | None) -> Floats:
    """Compute a signal of the network's outputs."""
    if signal == "margin-abs":
        return signals.margin_abs(net, x, y)
    if margin is None:
        raise InputError("signal: margin-band: the margin is needed; give it, or leaked records")
    return signals.margin_band(net, x, y, margin=margin)


def exceeds_chance(scores: Floats, nonmembers: Floats, level: float) -> bool:
    """Check whether any candidate is selected at an FDR of ``level``, at most 5 %.

    Among candidates none of which was trained on, every discovery is false: this happens in a share ``level`` of runs
    at most. A selection at a laxer level, and any number of members called at a bounded FPR, happen by chance.

    Args:
        scores: of the candidates, ``[n]``.
        nonmembers: scores of known non-members, ``[z]``.
        level: the false discovery rate that was asked for.

    Examples:
        >>> [exceeds_chance(np.array([99.0]), np.arange(float(nonmembers)), 0.5) for nonmembers in (5, 50)]
        [False, True]
    """
    rule = fdr.step_up(Counts.empty(nonmembers).add(scores), min(level, _MAX_FALSE_REPORTS), Storey())
    return bool((scores > rule.threshold).any())
