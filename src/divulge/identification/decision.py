"""Decide which candidates are selected, for arrays and files alike: method, controls and standing of the guarantee."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, statistics
from divulge.decisions import fdr as step_up
from divulge.decisions.counts import has_unmatched_repeats
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Storey
from divulge.report.formatting import format_estimate
from divulge.settings import DecisionSettings
from divulge.statistics import proportion
from divulge.types import STANDINGS, Estimate, Guarantee
from divulge.validation import check_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy import special

    from divulge.decisions.controls import Control
    from divulge.decisions.counts import Counts
    from divulge.decisions.fdr import Rule
    from divulge.decisions.methods import StepUp
    from divulge.identification.score_tables import Score
    from divulge.types import Bools, Floats, Standing
else:
    special = lazy.module("scipy.special")

RESOLVED_METHODS = (BH, PTDI, Storey, Adaptive, AdaDetect)
METHODS = (Auto, *RESOLVED_METHODS)
"""Methods that judge candidates by their counts among the calibration."""

LEVEL = 0.05
"""Level of all controls of a run that can fail, together; and of all that can raise doubt."""

UNTESTED = (
    "no control compared texts, a holdout or a clean model: that the non-members among the candidates score like "
    "the calibration set is your assumption"
)
_COPIES = (
    "so that documents seem to stand there several times; the bound counts each once: name their texts, or hand each "
    "in once"
)
CALIBRATION_COPIES = f"calibration scores repeat, and no candidate has one of these scores, {_COPIES}"
CANDIDATE_COPIES = f"scores of candidates repeat, and the calibration has none of these scores, {_COPIES}"
_PLAUSIBLE_SHARE = 0.05  # of non-members among the candidates, at least
_MAX_TAIL = 1e-3  # probability below which a result is implausible
_SURELY_LOW = 3.09  # standard deviations; a normal variable lies beyond them with probability 1/1000


@dataclass(frozen=True, slots=True)
class Policy:
    """Bound on false discoveries, and the method that keeps it.

    Args:
        fdr: bound on the expected share of non-members among the selected.
        method: how the share of non-members among the candidates is estimated.

    Raises:
        divulge.InputError: a level outside (0, 1).
    """

    fdr: float = DecisionSettings().fdr
    method: Auto | AdaDetect | StepUp = field(default_factory=Auto)

    def __post_init__(self) -> None:
        DecisionSettings.check(fdr=self.fdr)


@dataclass(frozen=True, slots=True)
class Choice:
    """The method in use, and the reason where `Auto` chose it."""

    method: AdaDetect | StepUp
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A selection rule with its guarantee.

    Args:
        choice: the method.
        rule: which scores are selected.
        guarantee: bound, assumptions and standing.
        controls: the controls on which the standing rests.
        notes: further notes for the user.
    """

    choice: Choice
    rule: Rule
    guarantee: Guarantee
    controls: tuple[Control, ...]
    notes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user, those that void the guarantee or put it in doubt first."""
        return warnings(self.controls, self.notes)


def decide(
    counts: Counts,
    controls: Sequence[Control],
    policy: Policy,
    *,
    choice: Choice | None = None,
    orientation: str = "",
    notes: Sequence[str] = (),
    doubts: Sequence[str] = (),
    scored_together: bool = False,
) -> Decision:
    """Decide on candidates that have one score each.

    Args:
        counts: candidates above each calibration score.
        controls: the controls that ran, each at its part of the level.
        policy: the level and the requested method.
        choice: the method, where it was chosen before; `choose` chooses when None.
        orientation: a warning that the scores seem to be the wrong way round.
        notes: further notes for the user.
        doubts: what else puts the guarantee in doubt.
        scored_together: whether candidates and calibration were scored in one call, so that their units are the same.

    Raises:
        divulge.InputError: no candidates, or calibration too small for any candidate ever to be selected.
    """
    choice = choice or choose(policy, controls)
    m, n, level = counts.total, len(counts.calibration), policy.fdr
    method = BH() if isinstance(choice.method, AdaDetect) else choice.method
    if isinstance(choice.method, AdaDetect) and step_up.is_calibration_too_small(n, level):
        # Enough calibration for the level, but not in the half that learning leaves.
        rule = step_up.step_up(counts, level, method)
        required, cautions = 2 * step_up.required_calibration(m, level, m), ()
        rule_notes: tuple[str, ...] = (
            f"nothing was selected: {n} calibration rows remain after learning; at least {required} rows are needed",
        )
    else:
        rule = step_up.decide(counts, fdr=level, method=method)
        rule_notes, cautions = step_up.selection_warnings(counts, rule, level), method.caution(m)
    guarantee = Guarantee("FDR", level, step_up.ASSUMES, combined_standing(controls))
    cautions = (
        *cautions,
        *doubts,
        *(() if scored_together else _scale_doubts(counts)),
        *([CALIBRATION_COPIES] if has_unmatched_repeats(counts) else []),
    )
    if cautions:
        guarantee = guarantee.capped_at("doubtful")
    all_doubts = [f"the guarantee is in doubt: {text}" for text in cautions]
    all_notes = [*all_doubts, orientation, *rule_notes, *notes, choice.reason]
    return Decision(choice, rule, guarantee, tuple(controls), tuple(text for text in all_notes if text))


def _scale_doubts(counts: Counts) -> tuple[str, ...]:
    """Return a doubt where over 95 % of the candidates would have to be members; empty where they need not.

    Per cent beside shares, log10 beside ln, sums beside means or a turned sign shift all candidates alike, and nothing
    in the scores says so but this: hardly any candidate scores among the calibration. If a twentieth of them are not
    members, so few do with probability 1/1000 at most, below the largest and below the median calibration score.
    """
    m, n = counts.total, len(counts.calibration)
    for place in (n - 1, n // 2):
        n_low = m - int(counts.above[place])
        least = float(special.betaincinv(place + 1, n - place, _MAX_TAIL))  # share of non-members that is as low
        if special.bdtr(n_low, m, _PLAUSIBLE_SHARE * least) <= _MAX_TAIL:
            return (
                f"over {1 - _PLAUSIBLE_SHARE:.0%} of the candidates would have to be members ({n_low} of {m} score as "
                f"low as {(place + 1) / n:.0%} of the calibration): are both in the same unit, sign and scale?",
            )
    return ()


def choose(policy: Policy, controls: Sequence[Control], *, several: bool = False) -> Choice:
    """Return the requested method, or the one that `Auto` chooses.

    For one score, `Auto` chooses `Adaptive` where a holdout was compared and `Storey` otherwise: `Adaptive` finds more
    weak members and loses little on strong ones, but a shift of the scores hurts it more, and so do odd documents at
    the low end of the calibration.

    Args:
        policy: the level and the requested method.
        controls: the controls that ran.
        several: whether the score was learned from several.
    """
    if not isinstance(policy.method, Auto):
        return Choice(policy.method)
    has_holdout = any(control.name == "exchangeability" for control in controls)
    best = AdaDetect() if several else policy.method.adaptive if has_holdout else policy.method.storey
    raised = [control.name for control in controls if not control.passed]
    if raised:
        shift = f"{' and '.join(raised)} did not pass, and a shift hurts bh least"
        return Choice(BH(), f"auto chose bh, not {best.name}: {shift}")
    names = ", ".join(control.name for control in controls)
    return Choice(best, f"auto chose {best.name}, not bh: the controls that could run passed ({names})")


def n_selected(counts: Counts, rule: Rule) -> int:
    """Return how many candidates a rule selects."""
    return int(counts.reached[rule.rank]) if rule.rank >= 0 else 0


def share_level(controls: Sequence[Control]) -> list[Control]:
    """Divide the level among the controls.

    Those that can fail raise a false alarm in at most 5 % of runs whose non-members are alike, whatever
    the members are. Those that can only raise doubt share another 5 %, of runs in which members too are
    like non-members in all but their training.

    Examples:
        >>> from divulge.decisions.controls import Control
        >>> first, second = Control("low scores", 1.0, 0.05, ""), Control("exchangeability", 1.0, 0.05, "", None, True)
        >>> [control.level for control in share_level([first, first, second])]
        [0.025, 0.025, 0.05]
    """
    sizes = Counter(control.conclusive for control in controls)
    return [replace(control, level=LEVEL / sizes[control.conclusive]) for control in controls]


def combined_standing(controls: Sequence[Control]) -> Standing:
    """Return the worst standing among the controls, which is that of the guarantee."""
    return max((control.standing for control in controls), key=STANDINGS.index, default="holds")


def warnings(controls: Sequence[Control], notes: Sequence[str]) -> tuple[str, ...]:
    """Return the warnings of a decision, those that void its guarantee or put it in doubt first.

    Args:
        controls: the controls that ran.
        notes: on the decision itself; empty texts are left out.
    """
    lines = [*alarms(controls), *notes, UNTESTED if is_untested(controls) else ""]
    return tuple(line for line in lines if line)


def alarms(controls: Sequence[Control]) -> list[str]:
    """Return why the guarantee is void, then why it is in doubt; empty if all controls passed.

    Examples:
        >>> from divulge.decisions.controls import Control
        >>> print(*alarms([Control("blind text", 1e-9, 0.05, "texts differ")]))
        the guarantee is in doubt: blind text (p = 1e-09): texts differ; the bound holds if the non-members ...
    """
    failed = [f"the guarantee is void: {control}" for control in controls if control.state == "failed"]
    doubtful = [control for control in controls if control.state == "doubtful"]
    if failed:
        return [*failed, *map(str, doubtful)]
    condition = "the bound holds if the non-members among the candidates do not differ from the calibration in that way"
    if any(control.name == "exchangeability" for control in controls):
        remedy = "the holdout does not, which settles it if it was drawn as those non-members were"
    else:
        remedy = "a holdout of other non-members, drawn as the candidates were, would settle it"
    return [
        f"the guarantee is in doubt: {c.name} (p = {c.p_value:.2g}): {c.says}; {condition}; {remedy}" for c in doubtful
    ]


def is_untested(controls: Sequence[Control]) -> bool:
    """Return True where no control examined anything but the scores themselves."""
    return all(control.name == "low scores" for control in controls)


def realised(selected: Bools, truth: Bools) -> tuple[Estimate, Estimate]:
    """Return the realised false discovery proportion and power, where membership is known.

    Args:
        selected: bool ``[m]``.
        truth: bool ``[m]``, True for members.

    Returns:
        Share of non-members among the selected (0 of none counts as 0), share of members that were
        selected; both with Clopper-Pearson intervals.

    Examples:
        >>> import numpy as np
        >>> fdp, power = realised(np.array([True, True, False]), np.array([True, False, True]))
        >>> fdp.value, power.value
        (0.5, 0.5)
    """
    chosen = check_mask(selected, "selected", (None,))
    member = check_mask(truth, "truth", (len(chosen),))
    n_true = int((chosen & member).sum())
    return share_of(int(chosen.sum()) - n_true, int(chosen.sum())), share_of(n_true, int(member.sum()))


def share_of(hits: int, total: int) -> Estimate:
    """Return ``hits / total`` with a 95 % Clopper-Pearson interval; 0 in [0, 1] where ``total`` is 0."""
    return proportion(hits, total) if total else Estimate(0.0, 0.0, 1.0, 0.95, "clopper-pearson")


def members_note(members: Floats | None, calibration: Floats) -> str:
    """Say that known members do not score above the calibration; empty where they do, or none are known.

    Examples:
        >>> import numpy as np
        >>> members_note(np.arange(100.0), np.arange(100.0))[:64]
        'known members do not surely score above the calibration (AUC 0.5'
        >>> members_note(np.arange(100.0) + 50, np.arange(100.0))
        ''
    """
    if members is None or not len(members):
        return ""
    scores = np.concatenate([members, calibration])
    area = statistics.auc(scores, np.arange(len(scores)) < len(members))
    if area.low > 0.5:
        return ""
    return (
        f"known members do not surely score above the calibration (AUC {format_estimate(area)}): the score tells "
        "nothing, or the calibration was used for training, too; then it says little that few candidates are selected"
    )


def orientation_warning(scores: Floats, truth: object) -> str:
    """Return a warning when declared members score below declared non-members; empty when not."""
    if truth is None:
        return ""
    member = check_mask(truth, "truth", (len(scores),))
    if member.all() or not member.any():
        return ""
    area = statistics.auc(scores, member)
    if area.high >= 0.5:
        return ""
    return (
        f"the scores seem to be the wrong way round: declared members score lower (AUC {area}); "
        "larger must mean more member-like"
    )


WRONG_END = "did you mean"
"""Words of a note that says that the other end of a score may be meant."""


def direction_note(score: Score, counts: Counts) -> str:
    """Return a note about a score without a named direction, or whose other end may be meant.

    The other end may be meant where candidates score significantly less member-like than the calibration: at 1 in 1000,
    by a rank test with the variance without ties, which is the largest. Members are then at that end, or the candidates
    differ in another way; the scores cannot tell which.

    Args:
        score: the column.
        counts: the candidates, among the calibration.
    """
    assumption = f"no direction was named for the score {score.column!r}: high was taken as member-like ({score})"
    m, n = counts.total, len(counts.calibration)
    area = float((counts.above + counts.tied / 2).sum()) / (m * n)
    deviation = float(np.sqrt((m + n + 1) / (12 * m * n)))
    if area > 0.5 - _SURELY_LOW * deviation:
        return assumption if score.assumed else ""
    beginning = f"{assumption}, but " if score.assumed else f"{score} was named as the member-like end, but "
    compared, other_end = ("lower", "low") if score.sign > 0 else ("higher", "high")
    return (
        f"{beginning}the candidates score {compared} than the calibration (AUC {area:.3f}); {WRONG_END} "
        f"{score.column}:{other_end}? Decide by what the score means: an end chosen for what it selects voids the bound"
    )
