"""One decision for arrays and files: the method, what it selects, and how its guarantee stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from divulge.decisions import fdr as step_up
from divulge.decisions.methods import BH, PTDI, AdaDetect, Adaptive, Auto, Storey
from divulge.identification import standing
from divulge.types import Guarantee
from divulge.validation import check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.counts import Counts
    from divulge.decisions.fdr import Rule
    from divulge.decisions.methods import StepUp

USED = (BH, PTDI, Storey, Adaptive, AdaDetect)
METHODS = (Auto, *USED)
"""Methods that judge candidates by their counts among the calibration."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How false discoveries are to be bounded.

    Args:
        fdr: bound on the expected share of non-members among the selected.
        method: how the share of non-members among the candidates is estimated.

    Raises:
        divulge.InputError: a level outside (0, 1).
    """

    fdr: float = 0.05
    method: Auto | AdaDetect | StepUp = field(default_factory=Auto)

    def __post_init__(self) -> None:
        check_number(self.fdr, "fdr", above=0, below=1)


@dataclass(frozen=True, slots=True)
class Choice:
    """The method that is used, and why, where it was `Auto` that chose."""

    method: AdaDetect | StepUp
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What is selected, and what is claimed about it.

    Args:
        used: the method.
        rule: which scores are selected.
        guarantee: what is claimed.
        controls: the controls it was made on.
        said: what the user must know of the selection, whatever the controls found.
    """

    used: Choice
    rule: Rule
    guarantee: Guarantee
    controls: tuple[Control, ...]
    said: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user must know before relying on it; what voids the guarantee or puts it in doubt is first."""
        return standing.warnings(self.controls, self.said)


def decide(
    judged: Counts,
    controls: Sequence[Control],
    policy: Policy,
    *,
    used: Choice | None = None,
    orientation: str = "",
    notes: Sequence[str] = (),
) -> Decision:
    """Decide on candidates that have one score each.

    Args:
        judged: candidates above each calibration score.
        controls: the controls that ran, each at its part of the level.
        policy: what is asked for.
        used: the method, where it was chosen before; `choose` chooses when None.
        orientation: a warning that the scores seem to be the wrong way round.
        notes: what else the user must know of the candidates.

    Raises:
        divulge.InputError: no candidates, or calibration too small for any candidate ever to be selected.
    """
    used = used or choose(policy, controls)
    m, n, level = judged.total, len(judged.calibration), policy.fdr
    method = BH() if isinstance(used.method, AdaDetect) else used.method
    if isinstance(used.method, AdaDetect) and step_up.too_small(n, level):
        # Enough calibration for the level, but not in the half that learning leaves.
        rule = step_up.step_up(judged, level, method)
        least, cautions = 2 * step_up.required_calibration(m, level, m), ()
        said = (f"nothing was selected: {n} calibration rows remain after learning; at least {least} rows are needed",)
    else:
        rule = step_up.decide(judged, fdr=level, method=method)
        said, cautions = step_up.warnings(judged, rule, level), method.caution(m)
    guarantee = Guarantee("FDR", level, step_up.ASSUMES, standing.standing(controls))
    if cautions:
        guarantee = guarantee.at_most("doubtful")
    told = (*(f"the guarantee is in doubt: {text}" for text in cautions), orientation, *said, *notes, used.why)
    return Decision(used, rule, guarantee, tuple(controls), tuple(text for text in told if text))


def choose(policy: Policy, controls: Sequence[Control], *, several: bool = False) -> Choice:
    """The method to use: the one asked for, or what `Auto` takes.

    Of one score it takes `Adaptive`, which finds more weak members than `Storey` and loses little on strong ones; but a
    shift of the scores hurts it more, and so do odd documents at the low end of the calibration, so only where a
    holdout was compared, low scores apart. Else `Storey`.

    Args:
        policy: what is asked for.
        controls: the controls that ran.
        several: whether that score was learned from several.
    """
    if not isinstance(policy.method, Auto):
        return Choice(policy.method)
    apart = any(control.name == "exchangeability" for control in controls)
    best = AdaDetect() if several else policy.method.adaptive if apart else policy.method.storey
    raised = [control.name for control in controls if not control.passed]
    if raised:
        shift = f"{' and '.join(raised)} did not pass, and a shift hurts bh least"
        return Choice(BH(), f"auto chose bh, not {best.name}: {shift}")
    ran = ", ".join(control.name for control in controls)
    return Choice(best, f"auto chose {best.name}, not bh: the controls that could run passed ({ran})")
