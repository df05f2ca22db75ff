"""What an attacker gains by accusing more: the ROC of every recipe, and the strongest one's rates by a slider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import evaluation
from divulge.auditing import headline
from divulge.auditing.headline import TestedStatistic
from divulge.auditing.verdict import simultaneous_confidence, scopes
from divulge.report import Chart, Dial, Section, Stop, charts, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from divulge.auditing.findings import Findings, Outcome
    from divulge.report.page import Block

_SLIDER_LEVELS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def trade_off_section(audit: Findings, strongest: str) -> Section:
    """ROC curves of the scores that the verdict judges, of the unseen classes first, and the slider."""
    blocks: list[Block] = []
    for scope in scopes(audit):
        title = "ROC, all candidates" if scope.name == "all" else "ROC on the unseen classes"
        curves = {outcome.recipe: outcome for outcome in scope.outcomes}
        blocks.append(_roc_chart(curves, f"{title}, adjusted for covariates" if scope.adjusted else title, strongest))
    blocks += _fpr_slider(audit, strongest)
    return Section("Trade-off", blocks)


def _roc_chart(outcomes: Mapping[str, Outcome], title: str, strongest: str) -> Chart:
    curves = {name: outcome.roc for name, outcome in outcomes.items()}
    return Chart(
        charts.roc({name: charts.Curve(c.fpr, c.tpr, c.low, c.high) for name, c in curves.items()}, focus=strongest),
        title=title,
        note="Both axes are logarithmic. The band is a pointwise 95 % interval of one recipe, the dashed line is "
        "guessing.",
    )


def _fpr_slider(audit: Findings, strongest: str) -> list[Block]:
    scope, confidence = scopes(audit)[-1], simultaneous_confidence(audit)
    outcome = next(one for one in scope.outcomes if one.recipe == strongest)
    nonmembers = scope.nonmembers
    levels = sorted({*_SLIDER_LEVELS, *audit.fpr})
    levels = [level for level in levels if nonmembers >= evaluation.least_nonmembers(level)]
    stops = [_slider_stop(outcome, level, confidence) for level in levels]
    if not stops:
        return []
    start = min(range(len(levels)), key=lambda i: abs(levels[i] - min(audit.fpr)))
    adjusted = ", adjusted for covariates" if scope.adjusted else ""
    note = (
        f"{strongest}, all candidates{adjusted}. Intervals are as wide as those of the verdict; those of "
        "false-positive rates that the audit was not asked for are not among the ones that hold together."
    )
    return [Dial("false-positive rate", stops, start, title="How many are recognised, at which price", note=note)]


def _slider_stop(outcome: Outcome, level: float, confidence: float) -> Stop:
    rate = evaluation.tpr_at_fpr(outcome.scores, outcome.members, level, confidence)
    label = in_words.per_cent(level)
    if rate.low > level:
        said = headline.make_headline(TestedStatistic(outcome.recipe, "TPR", level, rate))
        return Stop(label, said.words, said.pictures)
    shown, others = in_words.out_of(rate), in_words.of_others(level)
    words = (
        f"{shown.counted('training records')} are recognised while wrongly accusing at most {others}: not measurably "
        "more than by guessing."
    )
    return Stop(label, words, headline.dot_grids(shown, level))
