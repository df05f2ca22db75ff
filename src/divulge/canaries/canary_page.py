"""Report of a test of a claim of differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge.canaries.proof import Claim
from divulge.evaluation import roc
from divulge.report import DotGrid, charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import Bullet, BulletList, Chart, Paragraph, Section, Table
from divulge.report.run_kinds import Headline
from divulge.report.sections import ADVICE_TITLE, RegulatorAnswers, regulator_section

if TYPE_CHECKING:
    from divulge.canaries.canary_audit import CanaryAudit
    from divulge.results import CanarySummary
    from divulge.study import StudyRun
    from divulge.types import Bools, Floats

_CURVE_POINTS = 200
_MAX_PLAIN_EPSILON = math.log(1000)  # ε from which odds are written as a power of ten
_SPREAD = "The further the two groups lie apart, the more surely it can be told of a canary whether it was included."
_HEADINGS = {
    "violated": "The claim is violated",
    "consistent": "The claim is not refuted",
    "not testable": "The claim cannot be tested with these canaries",
    "no claim": "What is proven of ε",
}


def headline(run: StudyRun[CanaryAudit]) -> Headline:
    """Return the verdict on the claim, with claimed and proven ε as grids of dots."""
    summary = run.summary
    grids = []
    if summary.claimed is not None:
        sure = math.ceil(_posterior_percent(summary.claimed) - 1e-9)
        grids.append(DotGrid(f"Claimed: from 50 of 100 sure that a record was used to {sure}, at most", sure, 100))
    if summary.bound.low > 0:
        sure = math.floor(_posterior_percent(summary.bound.low) + 1e-9)
        grids.append(DotGrid(f"Proven: from 50 of 100 sure to {sure} or more, for some record", sure, 100))
    return Headline(summary.tone, summary.verdict, _HEADINGS[summary.answer], _meaning(summary), tuple(grids))


def sections(run: StudyRun[CanaryAudit]) -> list[Section]:
    """Return the bounds, the trade-off curve beside that of the claim, the scores, and what would show more."""
    summary, scores, included = run.summary, run.result.scores, run.result.included
    groups = {"included": scores[included], "not included": scores[~included]}
    bounds = {"what decides": summary.bound, **summary.others}
    confidence = formatting.format_percent(summary.bound.confidence)
    rows = [[name, formatting.format_lower_bound(bound.low), bound.method] for name, bound in bounds.items()]
    return [
        *_advice(summary),
        Section(
            "What is proven",
            [
                Table(["bound", "ε ≥", "how"], rows, f"Each with {confidence} confidence"),
                Paragraph(formatting.as_sentence(summary.guarantee)),
            ],
        ),
        Section("Errors of a test on one canary", [_curve(summary, scores, included)], annex=True),
        Section("Scores", [Chart(charts.histogram(groups, quantity="score"), note=_SPREAD)], annex=True),
        Section("What would show more", [Paragraph(text) for text in _further_tests(summary)]),
        regulator_section(_answers(summary)),
    ]


def _advice(summary: CanarySummary) -> list[Section]:
    if summary.answer != "violated" or summary.claimed is None:
        return []
    points = [
        Bullet(
            f"Do not claim ε = {summary.claimed:g} of this training.",
            f"Whatever ε it keeps is at least {formatting.format_lower_bound(summary.bound.low)}, on the "
            "assumption stated below.",
        ),
        Bullet(
            "Look for the mistake.",
            "Compare what the accountant was told of sampling rate, steps and noise with what the training did; see "
            "that noise was added at its full scale, and that gradients were clipped record by record.",
        ),
        Bullet(
            "Train again, with new canaries.",
            "Coins whose outcome has been looked at prove nothing of a second training; divulge canaries make throws "
            "new ones.",
        ),
    ]
    return [Section(ADVICE_TITLE, [BulletList(points)])]


def _posterior_percent(epsilon: float) -> float:
    """Return the per cent that odds of one to one become at ``epsilon``."""
    return 100 / (1 + math.exp(-epsilon))


def _meaning(summary: CanarySummary) -> tuple[str, ...]:
    """Return who this was tested against, and what the two numbers say of a single record."""
    tested = (
        f"Whoever was assumed here planted test records (canaries) and scores them with the trained model "
        f"({summary.recipe}). A claim of differential privacy is made against everybody, so one breach is enough."
    )
    meaning = (
        "A training that keeps ε multiplies the odds that any one record was used by at most exp(ε), whoever looks at "
        "the model and whatever they know."
    )
    proven = f"Proven: it can be {_format_odds(summary.bound.low)} or more." if summary.bound.low > 0 else ""
    if summary.claimed is None:
        return tested, f"{meaning} {proven}".strip()
    # A δ of 1e-5 is one in 100,000, though 1 / 1e-5 is a little less as a float.
    exception = (
        f" (apart from a chance of at most 1 in {math.floor(1 / summary.delta + 1e-6):,})" if summary.delta else ""
    )
    return tested, f"{meaning} Claimed: by at most {_format_odds(summary.claimed)}{exception}. {proven}".strip()


def _format_odds(epsilon: float) -> str:
    """Return exp(ε) to two digits, or as a power of ten."""
    return f"{math.exp(epsilon):.2g}" if epsilon < _MAX_PLAIN_EPSILON else f"10^{epsilon / math.log(10):.0f}"


def _answers(summary: CanarySummary) -> RegulatorAnswers:
    sure = formatting.format_percent(summary.bound.confidence)
    claimed = "no ε was claimed" if summary.claimed is None else f"ε = {summary.claimed:g} was claimed"
    return RegulatorAnswers(
        means=f"{summary.canaries} canaries ({summary.kind_of_canary}), scored by {summary.recipe}.",
        epsilon=f"At least {formatting.format_lower_bound(summary.bound.low)} with {sure} confidence; {claimed}. How "
        "much larger it is, such a test cannot say.",
        unit="One record, as the canaries are.",
    )


def facts(summary: CanarySummary) -> dict[str, str]:
    """Return what was tested, and how."""
    lines = {
        "claim": "none" if summary.claimed is None else f"ε = {summary.claimed:g}, δ = {summary.delta:g}",
        "proven": f"ε ≥ {formatting.format_lower_bound(summary.bound.low)}",
        "canaries": f"{summary.canaries} {summary.kind_of_canary}, {summary.included} of them included",
        "records beside them": f"{summary.trained_on:,}",
        "models trained": str(summary.runs),
        "score": summary.recipe,
        "exposure": f"mean {summary.mean_exposure:.2f} bits, largest {summary.largest_exposure:.2f}",
    }
    if summary.accuracy and summary.accuracy_without:
        lines["accuracy"] = (
            f"{_format_interval(summary.accuracy)} with canaries, {_format_interval(summary.accuracy_without)} without"
        )
    if summary.training_accuracy:
        lines["accuracy on the training set"] = _format_interval(summary.training_accuracy)
    if summary.seed is not None:
        lines["seed"] = str(summary.seed)
    return lines


def _format_interval(ends: tuple[float, float, float]) -> str:
    return f"{ends[0]:.3f} [{ends[1]:.3f}, {ends[2]:.3f}]"


def _curve(summary: CanarySummary, scores: Floats, included: Bools) -> Chart:
    observed = roc(scores, included)
    fpr = np.linspace(0.0, 1.0, _CURVE_POINTS)
    curves = {"canaries": Curve(observed.fpr, 1 - observed.tpr)}
    if summary.claimed is not None and summary.delta is not None:
        claim = Claim(summary.claimed, summary.delta)
        curves["least the claim allows"] = Curve(fpr, [claim.fnr(rate) for rate in fpr])
    proven = Claim(summary.bound.low, summary.delta or 0.0)
    curves["least at the ε that is proven"] = Curve(fpr, [proven.fnr(rate) for rate in fpr])
    spec = charts.lines(curves, x="false-positive rate", y="false-negative rate")
    return Chart(spec, note="Below what the claim allows, a curve contradicts it, up to chance.")


def _further_tests(summary: CanarySummary) -> list[str]:
    texts = [
        "Canaries change the model: the more of them, the more a trained model differs from one without. "
        "divulge.canaries.play measures the accuracy of both."
    ]
    if summary.answer == "not testable":
        texts.insert(0, "More canaries (divulge canaries plan says how many), or a score with fewer ties.")
    elif summary.answer == "consistent":
        texts.insert(
            0,
            "A consistent claim is not a true one: more canaries, canaries that a model remembers better, or a "
            "stated family (--family gaussian) prove larger ε where it is there.",
        )
    return texts
