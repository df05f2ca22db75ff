"""`divulge power`: how much calibration an identification takes, before any is collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from divulge import lazy
from divulge.cli import printing
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge import results
    from divulge.decisions import fdr as step_up
    from divulge.decisions import planning
    from divulge.types import Estimate
else:
    planning = lazy.module("divulge.decisions.planning")
    results = lazy.module("divulge.results")
    step_up = lazy.module("divulge.decisions.fdr")

_SELECTED = "share of members selected"


def power(
    candidates: Annotated[int, typer.Option(help="Documents to be judged.")],
    members: Annotated[int, typer.Option(help="How many of them are expected to have been used.")],
    auc: Annotated[float, typer.Option(help="How well scores tell members from non-members, as a pilot shows.")],
    fdr: Annotated[float, typer.Option(help="Bound on the share of non-members among the selected.")] = 0.05,
    method: Annotated[list[str] | None, typer.Option(help="bh, ptdi, storey or adaptive (default: each).")] = None,
    calibration: Annotated[
        int | None, typer.Option(help="The power that so many calibration scores have.", min=1, max=10**7)
    ] = None,
    wanted: Annotated[
        float | None, typer.Option(help="The calibration that this share of members takes (default: 0.8).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", min=0)] = 0,
    json: printing.Json = False,
) -> None:
    """How much calibration does an identification take? By simulation, before any is collected."""
    setting = planning.Setting(candidates, members, auc)
    methods = tuple(dict.fromkeys(method or step_up.METHODS))
    if calibration is None:
        _needed(setting, 0.8 if wanted is None else wanted, fdr, methods, seed, json)
    elif wanted is not None:
        raise InputError("--wanted: a power is asked for, or what --calibration gives; both were given")
    else:
        _given(setting, calibration, fdr, methods, seed, json)


def _needed(
    setting: planning.Setting, wanted: float, fdr: float, methods: tuple[str, ...], seed: int, json: bool
) -> None:
    plans = {name: planning.calibration(setting, wanted, fdr=fdr, method=name, seed=seed) for name in methods}
    if json:
        printing.as_json(results.to_json_values(plans))
        return
    sizes = {name: "over 20,000" if p.calibration is None else f"{p.calibration:,}" for name, p in plans.items()}
    rows = [(name, sizes[name], _interval(p.power)) for name, p in plans.items()]
    printing.table(f"To select {_shown(wanted)} of the members", ["method", "calibration", _SELECTED], rows)
    _caveat(next(iter(plans.values())).power.method)
    printing.line(f"With fewer than {next(iter(plans.values())).least:,} no method selects anything.")


def _given(setting: planning.Setting, n: int, fdr: float, methods: tuple[str, ...], seed: int, json: bool) -> None:
    powers = {name: planning.power(n, setting, fdr=fdr, method=name, seed=seed) for name in methods}
    if json:
        printing.as_json(results.to_json_values(powers))
        return
    rows = [(name, _interval(power)) for name, power in powers.items()]
    printing.table(f"With {n:,} calibration scores", ["method", _SELECTED], rows)
    _caveat(next(iter(powers.values())).method)
    least = step_up.min_selected(n, setting.candidates, fdr)
    printing.line(
        f"They can prove no selection at this level; {step_up.required_calibration(1, fdr, 1):,} can prove one."
        if least is None
        else f"With bh they can prove a selection of {least:,} candidates or more, and none that is smaller."
    )


def _caveat(simulated: str) -> None:
    printing.line(f"Means of {simulated}. Real scores of the same AUC differ: measure the power on a pilot.")


def _interval(power: Estimate) -> str:
    return f"{power.value:.3f} [{power.low:.3f}, {power.high:.3f}]"


def _shown(share: float) -> str:
    return f"{100 * share:.3g} %"
