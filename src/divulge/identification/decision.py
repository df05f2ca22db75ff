"""Decide which candidates are selected, for arrays and files alike: method, controls and standing of the guarantee."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import lazy, statistics
from divulge.decisions import fdp, usage
from divulge.decisions import fdr as step_up
from divulge.decisions.controls import BLIND_SCORE
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
    from divulge.results import ControlResult
    from divulge.types import Bools, Floats, Standing
else:
    special = lazy.module("scipy.special")

RESOLVED_METHODS = (BH, PTDI, Storey, Adaptive, AdaDetect)
METHODS = (Auto, *RESOLVED_METHODS)
"""Methods that judge candidates by their counts among the calibration."""

LEVEL = 0.05
"""Level of all controls of a run that can fail, together; and of all that can raise doubt."""

BLIND_RECORDS, CLASSES, UNSEEN_CLASSES = "blind records", "classes", "unseen classes"
"""Names of controls that compare the records themselves, where a model is asked about them."""

UNTESTED = (
    "no control compared texts, a holdout or a clean model: that the non-members among the candidates score like "
    "the calibration set is your assumption"
)
NO_HOLDOUT = "no second set of known non-members was compared (holdout), so nothing shows that the comparison is fair"
_COPIES = (
    "so that documents seem to stand there several times; the bound counts each once: name their texts, or hand each "
    "in once"
)
CALIBRATION_COPIES = f"calibration scores repeat, and no candidate has one of these scores, {_COPIES}"
CANDIDATE_COPIES = f"scores of candidates repeat, and the calibration has none of these scores, {_COPIES}"
DOUBT = "the guarantee is in doubt: "
"""How warnings begin that say why the guarantee is in doubt."""
_BLIND_CONTROLS = ("blind text", "clean model", BLIND_SCORE, BLIND_RECORDS)
_LARGE_SHIFT = 0.65  # AUC between two sets that a test must rule out before its condition is met
_NEARLY_ALL, _MOST = 0.9, 0.8  # shares of candidates: of the selected, and of members at least
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
        members: number of candidates that were used, at least, with 95 % confidence, if the guarantee's assumption
            holds; 0 where that was not asked for.
    """

    choice: Choice
    rule: Rule
    guarantee: Guarantee
    controls: tuple[Control, ...]
    notes: tuple[str, ...]
    members: int = 0

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
    requires_holdout: bool = True,
    seed: int = 0,
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
        requires_holdout: whether the members are counted, and all that is claimed is in doubt unless two sets of known
            non-members were compared and a large difference between them was ruled out.
        seed: of the count of members.

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
        *(() if scored_together else _scale_doubts(counts) or _whole_set_doubts(counts, rule, controls)),
        *([CALIBRATION_COPIES] if has_unmatched_repeats(counts) else []),
    )
    if cautions:
        guarantee = guarantee.capped_at("doubtful")
    n_members = count_members(counts, seed) if requires_holdout and guarantee.says else 0
    if requires_holdout and (n_members or n_selected(counts, rule)) and not excludes_unlike_nonmembers(controls):
        guarantee = guarantee.capped_at("doubtful")
        lacks_holdout = not any(control.conclusive for control in controls) and not is_untested(controls)
        notes = (*notes, NO_HOLDOUT) if lacks_holdout else notes
    all_doubts = [f"{DOUBT}{text}" for text in cautions]
    all_notes = [*all_doubts, orientation, *rule_notes, *notes, choice.reason]
    return Decision(choice, rule, guarantee, tuple(controls), tuple(text for text in all_notes if text), n_members)


def count_members(counts: Counts, seed: int = 0) -> int:
    """Return a number of candidates that were used, at least, with 95 % confidence.

    It is the larger one of two bounds, each of which fails with a probability of 2.5 % at most: one counts the
    candidates among low scores (`divulge.decisions.usage.share`), the other among high ones
    (`divulge.decisions.fdp.envelope`). Both take non-members to score like the calibration, and members at will.

    Args:
        counts: candidates above each calibration score.
        seed: of the second bound, where it is simulated.

    Examples:
        >>> from divulge.decisions.counts import Counts
        >>> rng = np.random.default_rng(0)
        >>> known = Counts.empty(rng.normal(size=1000))
        >>> count_members(known.add(rng.normal(1, 1, 500))), count_members(known.add(rng.normal(size=500)))
        (317, 0)
    """
    by_low_scores = int(np.ceil(usage.share(counts).low * counts.total - 1e-9))
    bounds = fdp.envelope_from_counts(counts, confidence=0.975, seed=seed)
    return max(by_low_scores, counts.total - bounds.false(counts.total))


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


def _whole_set_doubts(counts: Counts, rule: Rule, controls: Sequence[Control]) -> tuple[str, ...]:
    """Return a doubt where nearly all candidates differ from the calibration, and their scores alone were compared.

    Candidates of another length, topic or date than the calibration may all score higher although none was used, and
    no score can tell that from a set that was used as a whole. A blind control that could have found a difference
    between the sets, or did, says it instead.
    """
    blind_controls = [control for control in controls if control.name in _BLIND_CONTROLS]
    if any(not control.passed or excludes_large_shift(control.auc) for control in blind_controls):
        return ()
    m, selected = counts.total, n_selected(counts, rule)
    share = usage.share(counts)
    if selected >= _NEARLY_ALL * m:
        what = f"{selected:,} of {m:,} candidates, nearly all, were selected"
    elif share.low >= _MOST:
        what = f"at least {share.low:.0%} of the candidates would have to be members"
    else:
        return ()
    compared = "too few texts were compared to tell" if blind_controls else "nothing but the scores was compared"
    return (
        f"{what}, and {compared}: a set that is unlike the calibration as a whole, in length, subject or date, looks "
        "the same though none of it was used; texts in both tables or a blind score would tell",
    )


def excludes_large_shift(area: Estimate | None) -> bool:
    """Return whether a comparison of two sets rules out that they are far apart."""
    return area is not None and area.low > 1 - _LARGE_SHIFT and area.high < _LARGE_SHIFT


def excludes_unlike_nonmembers(controls: Sequence[Control] | Sequence[ControlResult]) -> bool:
    """Return whether two sets of known non-members were compared, and a large difference was ruled out.

    The lowest scores alone are a finer test of the same documents: it can refute that they are alike and not show it.
    """
    areas = [c.auc for c in controls if c.conclusive and c.auc is not None and c.name != UNSEEN_CLASSES]
    return bool(areas) and all(map(excludes_large_shift, areas))


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
    return [f"{DOUBT}{c.name} (p = {c.p_value:.2g}): {c.says}; {condition}; {remedy}" for c in doubtful]


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
