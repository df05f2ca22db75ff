"""`divulge weights` and `divulge reconstruct`: what the weights of a shallow ReLU network prove."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from divulge.cli import printing
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge.cli.weights_found import Examined
    from divulge.margin import MarginDecision, ShallowReLU
    from divulge.types import Array, Bools, Floats, Selection

_SHOWN = 20
_SIGNALS = ("kkt-nnls", "margin-abs", "margin-band")
Model = Annotated[Path, typer.Argument(help="safetensors file: one hidden ReLU layer, no output bias.")]


def weights(
    model: Model,
    candidates: Annotated[
        Path, typer.Option(help=".npz with x [n, d], and y (labels), ids and member (bool) where known.")
    ],
    nonmembers: Annotated[
        Path | None, typer.Option(help=".npz like it, of records known not to be in the training set.")
    ] = None,
    margin: Annotated[float | None, typer.Option(help="Margin of the training set, if known.")] = None,
    leaked: Annotated[Path | None, typer.Option(help=".npz of records, one of which was trained on.")] = None,
    band: Annotated[float, typer.Option(help="Half-width of the margin band (0.1 if training stopped early).")] = 0.01,
    signal: Annotated[str, typer.Option(help=f"Score to decide on: {', '.join(_SIGNALS)}.")] = "kkt-nnls",
    fpr: Annotated[float, typer.Option(help="Bound on the false-positive rate.")] = 0.01,
    fdr: Annotated[float, typer.Option(help="Bound on the share of non-members among the selected.")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    selection: Annotated[
        Path | None, typer.Option(help="Every candidate with its id, output, score and decisions (Parquet) to write.")
    ] = None,
    json: printing.Json = False,
) -> None:
    """Which candidates was this network trained on? Read it off the weights."""
    from divulge import checks
    from divulge.cli import weights_found
    from divulge.margin import ShallowReLU
    from divulge.results import plain

    checks.choice(signal, "--signal", _SIGNALS)
    if margin is not None and leaked is not None:
        raise InputError("--margin and --leaked: give only one; a leaked record gives the margin")
    net = ShallowReLU.from_safetensors(model)
    found = _examine(net, _Request(candidates, nonmembers, margin, leaked, band, signal, fpr, fdr))
    summary = found.summary()
    if out is not None:
        from divulge.cli import weights_page
        from divulge.report import html

        html.write(weights_page.membership(net, summary, model.name, found.truth, found.nulls), out)
    if selection is not None:
        found.write(selection)
    if json:
        printing.as_json(plain(summary))
        return
    printing.verdict(summary.tone, summary.verdict)
    if rows := weights_found.decision_rows(summary):
        printing.table(f"{summary.candidates} candidates", ["rule", "called members", "claim"], rows)
    if called := weights_found.called_rows(summary):
        printing.table("Called members", ["record", "|Φ|", summary.signal, "rules"], called[:_SHOWN])
    if len(called) > _SHOWN:
        printing.line(f"and {len(called) - _SHOWN} more; --selection writes them all")
    for name, rule in summary.decisions.items():
        for warning in rule.warnings:
            printing.line(f"{name}: {warning}")


def reconstruct(
    model: Model,
    margin: Annotated[float | None, typer.Option(help="Margin of the training set.")] = None,
    algorithm: Annotated[str, typer.Option(help="both, 1, 2 or crossings.")] = "both",
    truth: Annotated[Path | None, typer.Option(help=".npz with the training points x, to compare.")] = None,
    out: Annotated[Path | None, typer.Option(help="Report (HTML) to write.")] = None,
    json: printing.Json = False,
) -> None:
    """Training points of a network of one input, read off its weights."""
    from divulge import checks
    from divulge.cli import weights_found
    from divulge.margin import ShallowReLU
    from divulge.reconstruction import univariate
    from divulge.results import plain

    net = ShallowReLU.from_safetensors(model)
    rules: dict[str, Any] = {"both": "both", "crossings": "crossings", "1": 1, "2": 2}
    rule = rules[checks.choice(algorithm, "--algorithm", rules)]
    found = weights_found.reconstructed(univariate(net, margin=margin, algorithm=rule))
    if out is not None:
        from divulge.cli import weights_page
        from divulge.report import html

        known = None if truth is None else _records(truth).x.ravel()
        html.write(weights_page.reconstruction(net, found, model.name, known), out)
    if json:
        printing.as_json(plain(found))
        return
    printing.verdict(found.tone, found.verdict)
    printing.table("Candidates", weights_found.CANDIDATE_COLUMNS, weights_found.candidate_rows(found))


@dataclass(frozen=True, slots=True)
class _Request:
    candidates: Path
    nonmembers: Path | None
    margin: float | None
    leaked: Path | None
    band: float
    signal: str
    fpr: float
    fdr: float


def _examine(net: ShallowReLU, asked: _Request) -> Examined:
    import numpy as np

    from divulge.cli.weights_found import Examined, beyond_chance
    from divulge.decisions import fdr, fpr
    from divulge.margin import explain, known_margin, leaked_point
    from divulge.signals import margin as signals

    records = _records(asked.candidates)
    x, y, n = records.x, records.y, len(records.x)
    decisions: dict[str, MarginDecision | Selection] = {}
    margin = asked.margin
    if asked.leaked is not None:
        margin = leaked_point(net, _records(asked.leaked).x, band=asked.band).margin
    if margin is not None:
        decisions["margin band"] = known_margin(net, x, margin, asked.band)
    if asked.nonmembers is not None:
        # Multipliers depend on the whole pool, so known non-members stand in it with the candidates.
        other = _records(asked.nonmembers)
        x = np.concatenate([x, other.x])
        y = np.concatenate([y, other.y]) if y is not None and other.y is not None else None
    sign = None if y is None else signals.signs(y, len(x))
    best = explain(net, x, sign)
    scores = best.multipliers if asked.signal == "kkt-nnls" else _outputs_only(net, x, y, asked.signal, margin)
    outputs = net(x)
    if asked.nonmembers is not None:
        decisions[f"FPR ≤ {asked.fpr:g}"] = fpr.decide(scores[n:], scores[:n], asked.fpr)
        decisions[f"FDR ≤ {asked.fdr:g}"] = fdr.select(scores[:n], scores[n:], fdr=asked.fdr)
    nulls = np.stack([outputs[n:], scores[n:]]) if len(x) > n else None
    return Examined(
        ids=records.ids,
        outputs=outputs[:n],
        scores=scores[:n],
        nulls=nulls,
        unexplained=best.residual,
        margin=margin,
        decisions=decisions,
        signal=asked.signal,
        truth=records.truth,
        leaks=nulls is not None and beyond_chance(scores[:n], scores[n:], asked.fdr),
    )


def _outputs_only(net: ShallowReLU, x: Floats, y: Any, signal: str, margin: float | None) -> Floats:
    from divulge.signals import margin as signals

    if signal == "margin-abs":
        return signals.margin_abs(net, x, y)
    if margin is None:
        raise InputError("--signal margin-band: the margin is needed, give --margin or --leaked")
    return signals.margin_band(net, x, y, margin=margin)


class _File(NamedTuple):
    """Records ``[n, d]``, their names, and their labels and membership where the file tells."""

    x: Floats
    ids: Array
    y: Any
    truth: Bools | None


def _records(path: Path) -> _File:
    import numpy as np

    from divulge import checks, store

    arrays = store.read_arrays(path)
    if "x" not in arrays:
        raise InputError(f"{path}: an array named x is needed, found {', '.join(sorted(arrays)) or 'nothing'}")
    x = checks.nonempty(checks.array(arrays["x"], f"{path}: x"), f"{path}: x")
    truth = None
    if "member" in arrays:
        truth = checks.mask(arrays["member"], f"{path}: member", (len(x),))
    ids = checks.identifiers(arrays["ids"], f"{path}: ids", len(x)) if "ids" in arrays else np.arange(len(x))
    return _File(x.reshape(len(x), -1).astype(float), ids, arrays.get("y"), truth)
