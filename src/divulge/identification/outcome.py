"""What a decision on tables says, and how it is decided again at another level without any score."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge._version import __version__
from divulge.decisions import fdr as step_up
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts, ranks
from divulge.dossier import Dossier, Draft
from divulge.identification import decide, kept, page, sources, standing
from divulge.report import html
from divulge.types import Estimate, Guarantee

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from divulge.decisions.fdr import Rule
    from divulge.types import Floats

KIND = "identification"


def rule(counts: Counts, used: str, facts: dict[str, Any]) -> Rule:
    """The selection rule of a chosen method, from counts."""
    step = "bh" if used == "adadetect" else used
    return step_up.decide(counts, fdr=facts["fdr"], method=step, eta=facts["eta"], lam=facts["lam"])


def mark(frame: pl.DataFrame, found: Rule, calibration: Floats) -> pl.DataFrame:
    """Rows with a ``score``, with ``p``, ``q`` and ``selected`` beside it."""
    import polars as pl

    rank = ranks(frame["score"].to_numpy(), calibration)
    return frame.with_columns(
        p=pl.Series((rank + 1.0) / (len(calibration) + 1)),
        q=pl.Series(found.q_values[rank]),
        selected=pl.Series(rank <= found.rank),
    )


def join(parts: Path, to: Path) -> None:
    """Make one Parquet file of the shards in a folder, without holding them."""
    with store.atomic(to) as temporary:
        sources.parquet(sorted(parts.iterdir())).sink_parquet(temporary)


def redecide(directory: str | Path, *, fdr: float | None = None, method: str | None = None) -> dict[str, Any]:
    """Decide a finished run again at another level or with another method; no score is computed anew.

    Rewrites ``selection.parquet``, ``summary.json`` and the report in ``directory``.

    Args:
        directory: what `divulge identify` wrote.
        fdr: the new bound; the old one when None.
        method: the new method; the old one when None.

    Returns:
        The new summary.

    Raises:
        divulge.InputError: not such a directory, a level outside (0, 1), or a method that does not apply:
            from "adadetect" to another or back needs the signals again.
    """
    folder = Path(directory)
    with Dossier(folder).changing(KIND) as draft:
        return _again(draft, kept.read(folder), fdr, method)


def _again(draft: Draft, before: dict[str, Any], fdr: float | None, method: str | None) -> dict[str, Any]:
    counts = Counts.load(draft.home / "counts.npz")
    facts = {**before["settings"], "fdr": before["settings"]["fdr"] if fdr is None else fdr}
    facts["method"] = method or facts["method"]
    evidence = [_control(found) for found in before["controls"]]
    used, why = _choose_again(facts, evidence, counts, before)
    checks.number(facts["fdr"], "fdr", above=0, below=1)
    found = rule(counts, used, facts)
    with draft.workshop() as parts:
        path = draft.home / "selection.parquet"
        names = [name for name in ("id", "score", "truth") if name in sources.names(path)]
        for number, chunk in enumerate(sources.chunks(path, names)):
            mark(chunk, found, counts.calibration).write_parquet(parts / f"{number:06d}.parquet")
        join(parts, draft.path / "selection.parquet")
    return conclude(draft, counts, found, evidence, facts, used, why, Estimate(**before["usage"]))


def report(directory: str | Path, to: str | Path | None = None) -> Path:
    """Render the report of a finished run again, and give its place.

    Args:
        directory: what `divulge identify` wrote.
        to: file to write; ``report.html`` in the directory when None.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    folder = Path(directory)
    if to is not None:
        html.write(Dossier(folder).read(KIND, lambda: page.page(kept.read(folder), folder)), Path(to))
        return Path(to)
    with Dossier(folder).changing(KIND) as draft:
        html.write(page.page(kept.read(folder), folder), draft.path / "report.html")
    return folder / "report.html"


def _choose_again(
    facts: dict[str, Any], evidence: Sequence[Control], counts: Counts, before: dict[str, Any]
) -> tuple[str, str]:
    checks.choice(facts["method"], "method", ("auto", "bh", "ptdi", "storey", "adadetect"))
    learned = before["used"] == "adadetect"
    if facts["method"] == "auto" and len(facts["scores"]) > 1:
        return before["used"], before["why"]
    used, why = decide.choose(facts["method"], evidence, counts, several=False, eta=facts["eta"])
    if learned and used == "bh":
        used = "adadetect"
    if learned != (used == "adadetect"):
        raise checks.InputError(
            f"method: this run decided by {before['used']!r}; {used!r} needs the signals again, run `divulge identify`"
        )
    return used, why


def conclude(
    draft: Draft,
    counts: Counts,
    found: Rule,
    evidence: Sequence[Control],
    facts: dict[str, Any],
    used: str,
    why: str,
    members: Estimate,
) -> dict[str, Any]:
    """Write and return the summary of a decision whose ``selection.parquet`` stands in ``draft``."""
    claim = Guarantee("FDR", facts["fdr"], step_up.ASSUMES, standing.standing(evidence))
    out = draft.path
    counts.save(out / "counts.npz")
    truth = _truth(out / "selection.parquet")
    notes = [
        *standing.alarms(evidence),
        *([truth["orientation"]] if truth and truth["orientation"] else []),
        *step_up.warnings(counts, found, facts["fdr"]),
        *step_up.few(counts.total, used, facts["eta"]),
        *facts["notes"],
        *([why] if why else []),
        *([standing.UNTESTED] if standing.untested(evidence) else []),
    ]
    selected = int(counts.reached[found.rank]) if found.rank >= 0 else 0
    summary = {
        "kind": KIND,
        "version": __version__,
        "claim": str(claim),
        "guarantee": {**asdict(claim), "assumes": list(claim.assumes)},
        "selected": selected,
        "candidates": counts.total,
        "calibration": len(counts.calibration),
        "used": used,
        "why": why,
        "threshold": _smallest(out / "selection.parquet") if selected else None,
        "null_share": found.null_share if np.isfinite(found.null_share) else None,
        "usage": asdict(members),
        "truth": truth,
        "warnings": notes,
        "controls": [_as_dict(control) for control in evidence],
        "settings": facts,
    }
    draft.write_json("summary", summary)
    html.write(page.page(summary, out), out / "report.html")
    return summary


def _smallest(path: Path) -> float:
    import polars as pl

    return sources.parquet(path).filter("selected").select(pl.col("score").min()).collect(engine="streaming").item()


def _truth(path: Path) -> dict[str, Any] | None:
    """Realised false discoveries and power over the rows whose membership is known."""
    import polars as pl

    if "truth" not in sources.names(path):
        return None
    known = sources.parquet(path).filter(pl.col("truth").is_not_null()).select("score", "selected", "truth").collect()
    if not len(known):
        return None
    member = known["truth"].to_numpy().astype(bool)
    fdp, power = decide.realised(known["selected"].to_numpy().astype(bool), member)
    return {
        "known": len(known),
        "members": int(member.sum()),
        "fdp": asdict(fdp),
        "power": asdict(power),
        "orientation": decide.orientation(known["score"].to_numpy(), np.asarray(member)),
    }


def _as_dict(control: Control) -> dict[str, Any]:
    return {**asdict(control), "state": control.state}


def _control(found: dict[str, Any]) -> Control:
    area = Estimate(**found["auc"]) if found["auc"] else None
    return Control(found["name"], found["p_value"], found["level"], found["says"], area, found["conclusive"])
