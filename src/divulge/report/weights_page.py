"""Reports of what the weights of a network say: membership, and training points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from divulge.report import charts, formatting, sections
from divulge.report.page import Bullet, BulletList, Chart, Collapsible, DotGrid, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, Origin, RunKind
from divulge.report.sections import RegulatorAnswers
from divulge.results import ReconstructionSummary, WeightsSummary

if TYPE_CHECKING:
    from divulge.report.page import Block
    from divulge.types import Bools, Estimate, Floats, Tone

_MAX_ROWS = 200
_OPEN = 12  # rows of a table that is not folded
CANDIDATE_COLUMNS = ("x", "label", "training point", "rules", "multiplier")
_OUTPUT = "|Φ(x)| is the network's output without its sign; training pushes that of training records to the margin."
_MARGIN = (
    "The margin is how far a record's class lies above the second best; training evens out that of training records."
)
_SCORES = {
    "kkt-nnls": "kkt-nnls is the weight with which a record takes part in rebuilding the network's weights; at 0 it is "
    "not needed.",
    "margin-abs": "margin-abs is |Φ(x)| itself.",
    "margin-band": "margin-band is how close |Φ(x)| lies to the margin, from either side.",
}
_LINE = (
    "The network's output Φ over its input. It bends at break-points, one of each neuron; training points lie where it "
    "meets the margin, the dashed lines."
)
_CANDIDATES_NOTE = (
    "Proven: without this point no training set gives these weights. If the margin is as typed in: no training set of "
    "this margin does. Found: it may be a training point. The multiplier is its weight in rebuilding the weights."
)
_INSTEAD = BulletList(
    [
        Bullet(
            "Publish answers instead of weights.",
            "What is shown here was read off the weights, without asking the model anything. What its answers give "
            "away is another question, which divulge audit measures.",
        )
    ],
    note="Nothing else is advised here, because nothing else was measured.",
)
_ADVERSARY = (
    "The adversary needs the weights, these records, and what the rules below take: others known not to be in the "
    "training set, or the margin. Nothing is asked of the model, and none is trained."
)
_READER = "The adversary needs the weights and their margin, which was taken to be {:g}; no record and no question."
_KKT = (
    "A KKT point is what training without end leads to: the smallest weights that give every training record its "
    "margin. Only there do weights prove training points."
)
_NONE = Paragraph("None: a rule needs the margin, a leaked record, or known non-members.")


@dataclass(frozen=True, slots=True, eq=False)
class WeightsRun:
    """Membership read off weights.

    Args:
        summary: what the weights say.
        network: name → value: which network they are of.
        truth: bool ``[n]``, which candidates were trained on, where that is known.
        calibration: Φ and signal of the known non-members, ``[2, z]``, or None.
        accuracy: set of records → the network's accuracy on it.
    """

    summary: WeightsSummary
    network: Mapping[str, str] = field(default_factory=dict)
    truth: Bools | None = None
    calibration: Floats | None = None
    accuracy: Mapping[str, Estimate] = field(default_factory=dict)


def weights_headline(run: WeightsRun) -> Headline:
    """Return how many candidates are recognised."""
    summary = run.summary
    heading = "Training records recognised" if summary.tone == "leak" else ""
    return Headline(
        summary.tone, summary.verdict, heading, (_ADVERSARY,) if summary.decisions else (), _pictures(summary)
    )


def weights_sections(run: WeightsRun) -> list[Section]:
    """Return every rule with what it claims, and outputs against scores, with the margin."""
    summary, truth, calibration = run.summary, run.truth, run.calibration
    outputs, scores = np.abs(summary.outputs), np.array(summary.scores)
    groups = {"candidates": (outputs, scores)}
    if truth is not None:
        parts = {"members": truth, "fresh candidates": ~truth}
        groups = {name: (outputs[side], scores[side]) for name, side in parts.items() if side.any()}
    if calibration is not None:
        groups["known non-members"] = (np.abs(calibration[0]), calibration[1])
    axis, meaning = ("|Φ(x)|", _OUTPUT) if summary.classes == 1 else ("margin", _MARGIN)
    scores_note = (
        _SCORES[summary.signal] if summary.classes == 1 else _SCORES[summary.signal].replace("|Φ(x)|", "the margin")
    )
    chart = charts.scatter(
        groups, x=axis, y=summary.signal, vertical=None if summary.margin is None else {"margin": summary.margin}
    )
    return [
        *_advice(summary.tone),
        Section("Decisions", _decisions(summary, truth)),
        Section("Called members", _called_records(summary)),
        Section("Outputs and scores", [Chart(chart, note=f"{meaning} {scores_note}")], annex=True),
        sections.regulator_section(
            RegulatorAnswers(
                means="the weights of the network alone.",
                queries=f"On membership alone: {summary.verdict}",
                unit="One record, as it was given.",
            )
        ),
    ]


def _network_facts(run: WeightsRun | ReconstructionRun) -> dict[str, str]:
    return {**run.network, "left unexplained": f"{formatting.format_percent(run.summary.residual)} of the weights"}


def _accuracy_facts(run: WeightsRun) -> Origin:
    shares = {name: formatting.format_percent_estimate(share) for name, share in run.accuracy.items()}
    return Origin({f"network's accuracy on {name}": share for name, share in shares.items()})


def _advice(tone: Tone) -> list[Section]:
    return [Section(sections.ADVICE_TITLE, [_INSTEAD])] if tone == "leak" else []


def _pictures(summary: WeightsSummary) -> tuple[DotGrid, ...]:
    """Draw the records that are named at a bounded false discovery rate, among all candidates."""
    fdr_rule = next((rule for name, rule in summary.decisions.items() if name.startswith("FDR") and rule.proven), None)
    if summary.tone != "leak" or fdr_rule is None or not fdr_rule.selected:
        return ()
    return (DotGrid.from_count(len(fdr_rule.selected), summary.candidates, "candidates are recognised"),)


def _decisions(summary: WeightsSummary, truth: Bools | None) -> list[Block]:
    if not summary.decisions:
        return [_NONE]
    columns, rows = ["rule", "called members", "claim"], decision_rows(summary)
    if truth is not None:
        columns.insert(2, "trained on")
        for row, rule in zip(rows, summary.decisions.values(), strict=True):
            row.insert(2, f"{int(truth[list(rule.selected)].sum())} of {row[1]}")
    warnings = [Paragraph(f"{name}: {text}.") for name, rule in summary.decisions.items() for text in rule.warnings]
    return [Table(columns, rows, sortable=False), *warnings]


def _called_records(summary: WeightsSummary) -> list[Block]:
    rows = called_rows(summary)
    if not rows:
        return []
    note = f"The first {_MAX_ROWS} of {len(rows)}; `--selection` writes them all." if len(rows) > _MAX_ROWS else ""
    table = Table(called_columns(summary), rows[:_MAX_ROWS], note=note, single_records=True)
    return [table] if len(rows) <= _OPEN else [Collapsible(f"{len(rows):,} records", [table])]


@dataclass(frozen=True, slots=True, eq=False)
class ReconstructionRun:
    """Training points read off weights.

    Args:
        summary: what the weights say.
        line: the network: outputs ``[n]`` of inputs ``[n, 1]``.
        network: name → value: which network they are of.
        truth: the training points, where they are known.
    """

    summary: ReconstructionSummary
    line: Callable[[Floats], Floats]
    network: Mapping[str, str] = field(default_factory=dict)
    truth: Floats | None = None


def reconstruction_headline(run: ReconstructionRun) -> Headline:
    """Return how many points are proven to be training points."""
    summary = run.summary
    heading = "Training points read off the weights" if summary.tone == "leak" else ""
    details = (_READER.format(summary.margin), *((_KKT,) if "KKT" in summary.verdict else ()))
    return Headline(summary.tone, summary.verdict, heading, details, _proven(summary))


def reconstruction_sections(run: ReconstructionRun) -> list[Section]:
    """Return the network as a line, with what was read off it."""
    summary, truth = run.summary, run.truth
    return [
        *_advice(summary.tone),
        Section(
            "The network",
            [
                Chart(_network(summary, run.line, truth), note=_LINE, single_records=True),
                *_known_points(summary, truth),
            ],
        ),
        Section("Points read off the weights", _candidates(summary)),
        sections.regulator_section(
            RegulatorAnswers(
                means="the weights of the network alone.",
                extraction=summary.verdict,
                unit="One training point.",
            )
        ),
    ]


def _proven(summary: ReconstructionSummary) -> tuple[DotGrid, ...]:
    if not summary.guaranteed or summary.standing != "holds":
        return ()
    return (DotGrid.from_count(summary.guaranteed, len(summary.candidates), "points are training points, at least"),)


def _network(summary: ReconstructionSummary, line: Callable[[Floats], Floats], truth: Floats | None) -> charts.Spec:
    bends = np.array(summary.break_points)
    points = np.concatenate([summary.candidates, () if truth is None else truth])
    # A neuron that hardly bends has its break-point far from all data.
    extent = points if len(points) > 1 else np.concatenate([points, bends])
    low, high = float(np.min(extent)), float(np.max(extent))
    reach = max(high - low, 1.0) * 0.15
    visible = bends[np.abs(bends - (low + high) / 2) <= (high - low) / 2 + reach]
    x = np.unique(np.concatenate([np.linspace(low - reach, high + reach, 400), visible, points]))
    return charts.network(
        x,
        line(x[:, None]),
        break_points=visible,
        margin=summary.margin,
        crossings=[
            point for point, rules in zip(summary.candidates, summary.rules, strict=True) if "crossing" in rules
        ],
        candidates=summary.candidates,
        truth=() if truth is None else truth,
    )


def _known_points(summary: ReconstructionSummary, truth: Floats | None) -> list[Block]:
    """Describe the distance of known training points from the reconstructed ones."""
    if truth is None or not len(truth) or not summary.candidates:
        return []
    farthest = np.abs(np.subtract.outer(truth, summary.candidates)).min(axis=1).max()
    return [
        Paragraph(
            f"{len(truth):,} training points are known, and marked. Each lies within {farthest:.2g} of a point that "
            "was read off."
        )
    ]


def _candidates(summary: ReconstructionSummary) -> list[Block]:
    if not summary.candidates:
        return []
    note = f"{_CANDIDATES_NOTE} {formatting.as_sentence(summary.guarantee)}"
    table = Table(CANDIDATE_COLUMNS, candidate_rows(summary), note=note, single_records=True)
    count = len(summary.candidates)
    return [table] if count <= _OPEN else [Collapsible(f"{count:,} points", [table])]


def candidate_rows(summary: ReconstructionSummary) -> list[list[str]]:
    """Return position, label, what is known, rules and multiplier of each candidate: what is proven first."""
    return [
        [
            f"{summary.candidates[i]:.6g}",
            f"{summary.labels[i]:+.0f}",
            _describe_point(summary, i),
            ", ".join(summary.rules[i]),
            f"{summary.multipliers[i]:.4g}",
        ]
        for i in sorted(range(len(summary.candidates)), key=lambda i: not summary.needed[i])
    ]


def _describe_point(summary: ReconstructionSummary, index: int) -> str:
    if summary.proven[index]:
        return "proven"
    return f"if the margin is {summary.margin:g}" if summary.needed[index] else "found"


def called_columns(summary: WeightsSummary) -> list[str]:
    """Return the headings of `called_rows`."""
    return ["record", "|Φ|" if summary.classes == 1 else "margin", summary.signal, "rules"]


def called_rows(summary: WeightsSummary) -> list[list[str]]:
    """Return name, |Φ|, score and rules of everyone called a member."""
    return [
        [record.id, f"{record.output:.4g}", f"{record.score:.4g}", ", ".join(record.rules)] for record in summary.called
    ]


def decision_rows(summary: WeightsSummary) -> list[list[str]]:
    """Return every rule, how many it calls members, and what it claims."""
    return [[name, str(len(rule.selected)), rule.guarantee] for name, rule in summary.decisions.items()]


WEIGHTS = RunKind(
    name="weights",
    title="Membership from weights",
    summary_type=WeightsSummary,
    sections=weights_sections,
    headline=weights_headline,
    facts=_network_facts,
    origin=_accuracy_facts,
)
RECONSTRUCTION = RunKind(
    name="reconstruction",
    title="Reconstruction from weights",
    summary_type=ReconstructionSummary,
    sections=reconstruction_sections,
    headline=reconstruction_headline,
    facts=_network_facts,
)
