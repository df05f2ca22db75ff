"""What the controls of a run say together about its guarantee."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from divulge.types import STANDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.decisions.controls import Control
    from divulge.types import Standing

LEVEL = 0.05  # of all controls of a run that can fail, together; and of all that can raise doubt
UNTESTED = (
    "no control compared texts, a holdout or a clean model: that the non-members among the candidates score like "
    "the calibration set rests on your word"
)


def together(controls: Sequence[Control]) -> list[Control]:
    """The controls, each at its part of the level.

    Those that can fail raise a false alarm in at most 5 % of runs whose non-members are alike, whatever
    the members are. Those that can only raise doubt share another 5 %, of runs in which members too are
    like non-members in all but their training.

    Examples:
        >>> from divulge.decisions.controls import Control
        >>> first, second = Control("low scores", 1.0, 0.05, ""), Control("exchangeability", 1.0, 0.05, "", None, True)
        >>> [control.level for control in together([first, first, second])]
        [0.025, 0.025, 0.05]
    """
    alike = Counter(control.conclusive for control in controls)
    return [replace(control, level=LEVEL / alike[control.conclusive]) for control in controls]


def standing(controls: Sequence[Control]) -> Standing:
    """How a guarantee stands that rests on all that was examined."""
    return max((control.standing for control in controls), key=STANDINGS.index, default="holds")


def alarms(controls: Sequence[Control]) -> list[str]:
    """What the user must know first: why the guarantee is void, then why it is in doubt; empty if all passed.

    Examples:
        >>> from divulge.decisions.controls import Control
        >>> print(*alarms([Control("blind text", 1e-9, 0.05, "texts differ")]))
        the guarantee is in doubt: blind text (p = 1e-09): texts differ; the bound holds if the non-members ...
    """
    failed = [f"the guarantee is void: {control}" for control in controls if control.state == "failed"]
    doubtful = [control for control in controls if control.state == "doubtful"]
    if failed:
        return [*failed, *map(str, doubtful)]
    unless = _unless(controls)
    return [f"the guarantee is in doubt: {c.name} (p = {c.p_value:.2g}): {c.says}; {unless}" for c in doubtful]


def _unless(controls: Sequence[Control]) -> str:
    """When a doubtful bound holds all the same, and what settles it."""
    holds = "the bound holds if the non-members among the candidates do not differ from the calibration in that way"
    if any(control.name == "exchangeability" for control in controls):
        return f"{holds}; the holdout does not, which settles it if it was drawn as those non-members were"
    return f"{holds}; a holdout of other non-members, drawn as the candidates were, would settle it"


def warnings(controls: Sequence[Control], said: Sequence[str]) -> tuple[str, ...]:
    """What the user must know of a decision; what voids its guarantee, or puts it in doubt, is first.

    Args:
        controls: the controls that ran.
        said: of the decision itself; empty texts are left out.
    """
    lines = [*alarms(controls), *said, UNTESTED if untested(controls) else ""]
    return tuple(note for note in lines if note)


def untested(controls: Sequence[Control]) -> bool:
    """Whether nothing but the scores themselves was examined."""
    return all(control.name == "low scores" for control in controls)
