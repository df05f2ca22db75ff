"""The report of a test of a claim of differential privacy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from divulge.canaries.claim import Claim
from divulge.evaluation import roc
from divulge.report import DotGrid, charts, formatting
from divulge.report.charts import Curve
from divulge.report.page import Bullet, BulletList, Chart, Page, Paragraph, Section, Table
from divulge.report.sections import ADVICE_TITLE, RegulatorAnswers, regulator_section

if TYPE_CHECKING:
    from divulge.results import CanarySummary
    from divulge.types import Bools, Floats

_POINTS = 200
_EVERYDAY = math.log(1000)  # ε from which odds are written as a power of ten
_ASKED = "what decides"
_SPREAD = "The further the two groups lie apart, the surer each canary is told to have been included or not."
_HEADINGS = {
    "violated": "The claim is violated",
    "consistent": "The claim is not refuted",
    "not testable": "The claim cannot be tested with these canaries",
    "no claim": "What is proven of ε",
}


def page(summary: CanarySummary, scores: Floats, included: Bools) -> Page:
    """Claimed and proven ε, the trade-off curve with the claim's own, and what more canaries would show.

    Args:
        summary: what was proven.
        scores: of the canaries, ``[n]``.
        included: bool ``[n]``.
    """
    bounds = {_ASKED: summary.bound, **summary.others}
    sure = formatting.format_percent(summary.bound.confidence)
    rows = [[name, formatting.format_lower_bound(bound.low), bound.method] for name, bound in bounds.items()]
    return Page(
        title="A claim of differential privacy",
        verdict=summary.verdict,
        tone=summary.tone,
        pictures=_pictures(summary),
        sections=[
            *_advice(summary),
            Section(
                "What is proven",
                [
                    Table(["bound", "ε ≥", "how"], rows, f"Each with {sure} confidence"),
                    Paragraph(formatting.as_sentence(summary.guarantee)),
                ],
            ),
            Section("Errors of a test on one canary", [_curve(summary, scores, included)]),
            Section("Scores", [Chart(_histogram(scores, included), note=_SPREAD)]),
            Section("What would show more", [Paragraph(text) for text in _more(summary)]),
            regulator_section(_answers(summary)),
            *(
                [Section("Warnings", [Paragraph(formatting.as_sentence(note)) for note in summary.warnings])]
                if summary.warnings
                else []
            ),
        ],
        facts=facts(summary),
        heading=_HEADINGS[summary.answer],
        more=_meaning(summary),
    )


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


def _pictures(summary: CanarySummary) -> tuple[DotGrid, ...]:
    """How sure ε lets somebody be who held it as likely as not that a record was used."""
    grids = []
    if summary.claimed is not None:
        sure = math.ceil(_sure(summary.claimed) - 1e-9)
        grids.append(DotGrid(f"Claimed: from 50 of 100 sure that a record was used to {sure}, at most", sure, 100))
    if summary.bound.low > 0:
        sure = math.floor(_sure(summary.bound.low) + 1e-9)
        grids.append(DotGrid(f"Proven: from 50 of 100 sure to {sure} or more, for some record", sure, 100))
    return tuple(grids)


def _sure(epsilon: float) -> float:
    """Per cent that odds of one to one become at ``epsilon``."""
    return 100 / (1 + math.exp(-epsilon))


def _meaning(summary: CanarySummary) -> tuple[str, ...]:
    """Who this was tested against, and what the two numbers say of a single record."""
    tested = (
        f"The adversary of this test planted the canaries and scores them with the trained model ({summary.recipe}). A "
        "claim of differential privacy is made against everybody, so that one who breaks it is enough."
    )
    told = (
        "A training that keeps ε multiplies the odds that any one record was used by at most exp(ε), whoever looks at "
        "the model and whatever they know."
    )
    proven = f"Proven: it can be {_odds(summary.bound.low)} or more." if summary.bound.low > 0 else ""
    if summary.claimed is None:
        return tested, f"{told} {proven}".strip()
    # A δ of 1e-5 is one in 100,000, though 1 / 1e-5 is a little less as a float.
    apart = f" (apart from a chance of at most 1 in {math.floor(1 / summary.delta + 1e-6):,})" if summary.delta else ""
    return tested, f"{told} Claimed: by at most {_odds(summary.claimed)}{apart}. {proven}".strip()


def _odds(epsilon: float) -> str:
    """exp(ε) to two digits, or as a power of ten."""
    return f"{math.exp(epsilon):.2g}" if epsilon < _EVERYDAY else f"10^{epsilon / math.log(10):.0f}"


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
    """What was tested, and how."""
    told = {
        "claim": "none" if summary.claimed is None else f"ε = {summary.claimed:g}, δ = {summary.delta:g}",
        "proven": f"ε ≥ {formatting.format_lower_bound(summary.bound.low)}",
        "canaries": f"{summary.canaries} {summary.kind_of_canary}, {summary.included} of them included",
        "records beside them": f"{summary.trained_on:,}",
        "models trained": str(summary.runs),
        "score": summary.recipe,
        "exposure": f"mean {summary.mean_exposure:.2f} bits, largest {summary.largest_exposure:.2f}",
    }
    if summary.accuracy and summary.accuracy_without:
        told["accuracy"] = f"{_share(summary.accuracy)} with canaries, {_share(summary.accuracy_without)} without"
    if summary.training_accuracy:
        told["accuracy on the training set"] = _share(summary.training_accuracy)
    if summary.seed is not None:
        told["seed"] = str(summary.seed)
    return told


def _share(ends: tuple[float, float, float]) -> str:
    return f"{ends[0]:.3f} [{ends[1]:.3f}, {ends[2]:.3f}]"


def _curve(summary: CanarySummary, scores: Floats, included: Bools) -> Chart:
    seen = roc(scores, included)
    fpr = np.linspace(0.0, 1.0, _POINTS)
    curves = {"canaries": Curve(seen.fpr, 1 - seen.tpr)}
    if summary.claimed is not None and summary.delta is not None:
        claim = Claim(summary.claimed, summary.delta)
        curves["least the claim allows"] = Curve(fpr, [claim.fnr(rate) for rate in fpr])
    proven = Claim(summary.bound.low, summary.delta or 0.0)
    curves["least at the ε that is proven"] = Curve(fpr, [proven.fnr(rate) for rate in fpr])
    spec = charts.lines(curves, x="false-positive rate", y="false-negative rate")
    return Chart(spec, note="Below what the claim allows, a curve contradicts it, up to chance.")


def _histogram(scores: Floats, included: Bools) -> charts.Spec:
    groups = {"included": scores[included], "not included": scores[~included]}
    return charts.histogram(groups, quantity="score")


def _more(summary: CanarySummary) -> list[str]:
    text = [
        "Canaries change the model: the more of them, the more a trained model differs from one without. "
        "divulge.canaries.play measures the accuracy of both."
    ]
    if summary.answer == "not testable":
        text.insert(0, "More canaries (divulge canaries plan says how many), or a score with fewer ties.")
    elif summary.answer == "consistent":
        text.insert(
            0,
            "A consistent claim is not a true one: more canaries, canaries that a model remembers better, or a "
            "stated family (--family gaussian) prove larger ε where it is there.",
        )
    return text
