"""A finished run: its summary, what it would select at another level, and how much it can be relied on.

`envelope` bounds how many of the best candidates can be non-members, for whoever looks first and chooses afterwards;
`sensitivity` tells how much doubt in the calibration the selection survives.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from divulge import results, store, tables
from divulge.decisions import fdp
from divulge.decisions import fdr as robustness
from divulge.decisions.controls import Control
from divulge.decisions.counts import Counts
from divulge.decisions.methods import resolve_method
from divulge.errors import InputError
from divulge.identification import score_tables
from divulge.identification.decision import (
    METHODS,
    RESOLVED_METHODS,
    Choice,
    Decision,
    Policy,
    decide,
    excludes_unlike_nonmembers,
    n_selected,
    orientation_warning,
    realised,
)
from divulge.results import HeatStrip, IdentificationSummary, RealisedOutcome, to_json_values
from divulge.run_directory import RunDirectory
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from divulge.decisions.fdp import Envelope
    from divulge.decisions.fdr import Sensitivity
    from divulge.decisions.methods import AdaDetect, StepUp
    from divulge.identification.score_tables import Columns
    from divulge.run_directory import RunDraft
    from divulge.tables import Table
    from divulge.types import Floats

RUN_TYPE = "identification"
EXHIBITS = "exhibits"
"""Name of the file of the best documents."""

_TOKEN_STATISTICS = "tokens"  # noqa: S105  a folder
_STATISTICS = ("end", "logp", "entropy")
_MAX_DOCUMENTS = 12
_MAX_CHARACTERS = 2000  # of a text
_HEAT_DIGITS = 3
_HEAT_AGAINST = "one that it would choose there by itself"
Result = TypeVar("Result")


def read_run(directory: str | Path, function: Callable[[IdentificationSummary, Path], Result]) -> Result:
    """Return ``function(summary, folder)`` of a run, while nobody changes its files.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    folder = Path(directory)
    return RunDirectory(folder).read(RUN_TYPE, lambda: function(recompute_summary(folder), folder))


def recompute_summary(folder: Path) -> IdentificationSummary:
    """Return the summary in a run directory, with everything that scores decide computed from them again.

    The controls and the estimated share of members are as they were: the records behind them are not stored.

    Raises:
        divulge.InputError: a damaged file, or files that contradict each other.
    """
    checked = check_selection(folder)
    stored, counts, decision = checked.stored, checked.counts, checked.decision
    selected = n_selected(counts, decision.rule)
    return replace(
        stored,
        claim=str(decision.guarantee),
        guarantee=decision.guarantee,
        selected=selected,
        members=decision.members,
        candidates=counts.total,
        calibration=len(counts.calibration),
        threshold=checked.threshold if selected else None,
        null_share=decision.rule.null_share if np.isfinite(decision.rule.null_share) else None,
        truth=realised_in(folder / "selection.parquet"),
        warnings=decision.warnings,
        controls=tuple(
            replace(before, state=control.state)
            for before, control in zip(stored.controls, decision.controls, strict=True)
        ),
    )


def load_selection(directory: str | Path) -> pl.DataFrame:
    """Return the rows of ``selection.parquet``, checked against the decision that their scores lead to.

    Raises:
        divulge.InputError: as for `read_run`.
    """
    home = RunDirectory(Path(directory))

    def load() -> pl.DataFrame:
        check_selection(home.path)
        return home.read_table("selection")

    return home.read(RUN_TYPE, load)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedSelection:
    """Content of a run directory, and the decision that its scores lead to.

    Args:
        stored: the summary as it was written.
        counts: of the candidates.
        decision: made again by the counts.
        threshold: the smallest selected score; infinity where none is selected.
    """

    stored: IdentificationSummary
    counts: Counts
    decision: Decision
    threshold: float


_ROWS_AT_ONCE = 500_000  # of a selection that is checked


def check_selection(folder: Path) -> CheckedSelection:
    """Decide again by the counts, and compare scores and marks of ``selection.parquet`` with them, row by row.

    Raises:
        divulge.InputError: a damaged file, or files that contradict each other.
    """
    stored, counts = results.read_summary(folder, IdentificationSummary), Counts.load(folder / "counts.npz")
    path, settings = folder / "selection.parquet", stored.settings
    policy = Policy(settings.fdr, resolve_method(settings.method, METHODS, eta=settings.eta, lam=settings.lam))
    rows = tables.open_parquet(path)
    decision = decide(
        counts,
        stored_controls(stored),
        policy,
        choice=Choice(resolved_method(stored), stored.why),
        orientation=labelled_orientation(rows),
        notes=settings.notes,
        scored_together=settings.scored_together,
        seed=settings.seed,
    )
    candidate_counts, threshold, is_same = Counts.empty(counts.calibration), np.inf, True
    batches = tables.row_batches(rows.select("score", "p", "q", "selected"), _ROWS_AT_ONCE)
    while True:
        with tables.table_errors(str(path)):
            columns = next(batches, None)
        if columns is None:
            break
        scores, p_values, q_values = (  # a q-value is infinite where no share of non-members could be estimated
            check_vector(tables.to_array(columns[name]), f"{path}: {name}", finite=name != "q")
            for name in ("score", "p", "q")
        )
        candidate_counts, expected_p_values = candidate_counts.add_with_p_values(scores)
        rank = np.rint(expected_p_values * (len(counts.calibration) + 1)).astype(np.int64) - 1
        selected = rank <= decision.rule.rank
        is_same &= (
            np.array_equal(selected, columns["selected"].to_numpy())
            and np.allclose(p_values, expected_p_values, rtol=1e-9, atol=0)
            and np.allclose(q_values, decision.rule.q_values[rank], rtol=1e-9, atol=0, equal_nan=True)
        )
        threshold = min(threshold, scores[selected].min(initial=np.inf))
    if not all(
        np.array_equal(getattr(candidate_counts, part), getattr(counts, part)) for part in ("above", "tied", "total")
    ):
        raise InputError(f"{path}: damaged, its scores are not those that counts.npz counts")
    if not is_same:
        raise InputError(f"{path}: damaged, it holds another selection than counts.npz leads to")
    return CheckedSelection(stored, counts, decision, float(threshold))


def resolved_method(summary: IdentificationSummary) -> AdaDetect | StepUp:
    """Return the method that decided, with its parameters."""
    return resolve_method(summary.used, RESOLVED_METHODS, eta=summary.settings.eta, lam=summary.settings.lam)


def stored_controls(summary: IdentificationSummary) -> list[Control]:
    """Return the controls that a run was decided on."""
    return [Control(c.name, c.p_value, c.level, c.says, c.auc, c.conclusive) for c in summary.controls]


def realised_in(path: Path) -> RealisedOutcome | None:
    """Return the realised error rates of a finished ``selection.parquet``; None where no membership is known."""
    labelled = _labelled_rows(tables.open_parquet(path), str(path), "score", "selected")
    if labelled is None:
        return None
    member, scores = labelled["truth"].to_numpy(), labelled["score"].to_numpy()
    fdp_estimate, power = realised(labelled["selected"].to_numpy(), member)
    return RealisedOutcome(len(labelled), int(member.sum()), fdp_estimate, power, orientation_warning(scores, member))


def labelled_orientation(rows: pl.LazyFrame, score: str = "score") -> str:
    """Return the `orientation_warning` of scores, by the rows whose membership is known."""
    labelled = _labelled_rows(rows, "selection", score)
    return "" if labelled is None else orientation_warning(labelled[score].to_numpy(), labelled["truth"].to_numpy())


def _labelled_rows(rows: pl.LazyFrame, name: str, *columns: str) -> pl.DataFrame | None:
    """Return the rows whose membership is known; None where it is known of none."""
    if "truth" not in rows.collect_schema():
        return None
    with tables.table_errors(name):
        labelled = rows.select(*columns, "truth").filter(pl.col("truth").is_not_null()).collect()
    return labelled if len(labelled) else None


def envelope(directory: str | Path, *, confidence: float = 0.95) -> Envelope:
    """Bound the false discovery proportion of the ``k`` best candidates of a run, for all ``k`` at once.

    The bounds rest on the assumption that the selection rests on and stand as its guarantee does.

    Args:
        directory: what `divulge identify` wrote.
        confidence: of all bounds together.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run, a confidence outside (0, 0.999].
    """
    return read_run(directory, lambda summary, folder: run_envelope(summary, folder, confidence))


def run_envelope(summary: IdentificationSummary, folder: Path, confidence: float = 0.95) -> Envelope:
    """Return the `envelope` of a run that is open."""
    bounds = fdp.envelope_from_counts(
        Counts.load(folder / "counts.npz"), confidence=confidence, seed=summary.settings.seed
    )
    is_tested = excludes_unlike_nonmembers(summary.controls)
    guarantee = bounds.guarantee.capped_at(summary.guarantee.standing)
    return replace(bounds, guarantee=guarantee if is_tested else guarantee.capped_at("doubtful"))


def describe_best(bounds: Envelope, k: int) -> str:
    """Return what is claimed about the ``k`` best candidates.

    Examples:
        >>> describe_best(fdp.envelope(range(99), [120.0] * 30), 30)
        'at most 0 of the 30 best candidates (0 %) are non-members, with 95 % confidence for all such numbers at once'
    """
    if not bounds.guarantee.says:
        return f"nothing is claimed about the {k} best candidates: the guarantee is void"
    doubt = "if the assumption holds, " if bounds.guarantee.standing == "doubtful" else ""
    return (
        f"{doubt}at most {bounds.false(k)} of the {k} best candidates ({100 * bounds.bound(k):.3g} %) are non-members, "
        f"with {100 * bounds.confidence:g} % confidence for all such numbers at once"
    )


def sensitivity(directory: str | Path) -> Sensitivity:
    """Return how much likelier, or less likely, any score may be of a non-member than in the calibration.

    Args:
        directory: what `divulge identify` wrote.

    Returns:
        The largest factor up to which each candidate stays selected, best candidate first.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return read_run(directory, run_sensitivity)


def run_sensitivity(summary: IdentificationSummary, folder: Path) -> Sensitivity:
    """Return the `sensitivity` of a run that is open."""
    counts = Counts.load(folder / "counts.npz")
    factors = rank_shifts(summary, counts)
    return robustness.Sensitivity(np.repeat(factors, np.diff(counts.reached, prepend=0)), summary.settings.fdr)


def rank_shifts(summary: IdentificationSummary, counts: Counts) -> Floats:
    """Return the shift that a document with so many calibration scores above it survives, ``[n + 1]``; 0 if none."""
    return robustness.sensitivity_by_rank(counts, fdr=summary.settings.fdr, method=resolved_method(summary))


@dataclass(frozen=True, slots=True)
class Preview:
    """The selection of a run at another level, of which nothing is written.

    Args:
        selected: how many candidates.
        candidates: of how many.
        claim: what would be claimed.
        warnings: what the user must know before relying on it.
    """

    selected: int
    candidates: int
    claim: str
    warnings: tuple[str, ...]


def preview(directory: str | Path, fdr: float) -> Preview:
    """Return the selection of a finished run at another level, by the method it used.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run, a level outside (0, 1).
    """

    def decide_at_level(summary: IdentificationSummary, folder: Path) -> Preview:
        counts, choice = Counts.load(folder / "counts.npz"), Choice(resolved_method(summary))
        decision = decide(
            counts,
            stored_controls(summary),
            Policy(fdr, choice.method),
            choice=choice,
            notes=summary.settings.notes,
            scored_together=summary.settings.scored_together,
            seed=summary.settings.seed,
        )
        return Preview(n_selected(counts, decision.rule), counts.total, str(decision.guarantee), decision.warnings)

    return read_run(directory, decide_at_level)


def highest_rows(path: Path, columns: Sequence[str], count: int, *, selected: bool = False) -> list[dict[str, Any]]:
    """Return the rows of ``selection.parquet`` with the highest scores, best first; lowest ids where scores tie.

    Args:
        path: of the file, of which no more rows are held than are returned, scores apart.
        columns: names, among them "id" and "score".
        count: of rows, at most.
        selected: whether to return selected rows alone.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    rows = tables.open_parquet(path)
    if selected:
        rows = rows.filter("selected")
    with tables.table_errors(str(path)):
        scores = rows.select("score").collect().to_series().to_numpy()
        if len(scores) > count:
            smallest = np.partition(scores, -count)[-count]
            rows = rows.filter(pl.col("score") >= smallest)  # with all that tie there
        best = rows.select(columns).sort("score", "id", descending=[True, False], nulls_last=True)
        return best.head(count).collect().to_dicts()


def every_nth_row(path: Path, columns: Sequence[str], step: int) -> pl.DataFrame:
    """Return columns of the first row and of every ``step``-th one after it; errors as for `highest_rows`."""
    rows = tables.open_parquet(path).select(columns)
    with tables.table_errors(str(path)):
        return rows.gather_every(step).collect(engine="streaming")


@dataclass(frozen=True, slots=True)
class Document:
    """A candidate, the beginning of its text, and how much better the model knows its tokens than it should."""

    id: str
    text: str
    heat: HeatStrip | None = None


def write_documents(draft: RunDraft, table: Table, columns: Columns, sources: Sequence[Path]) -> None:
    """Write the texts of the candidates with the highest scores into ``draft``; nothing where there are no texts.

    Args:
        draft: holds ``selection.parquet``.
        table: the candidates.
        columns: which of their columns mean what.
        sources: where they were read; token statistics that `divulge identify score` wrote there mark their tokens.
    """
    if columns.text is None:
        return
    best = highest_rows(draft.path / "selection.parquet", ["row", "id", "score"], _MAX_DOCUMENTS)
    values = table.take([row["row"] for row in best], {columns.text: tables.TEXT})
    texts = {str(row["id"]): values[row["row"]][columns.text] for row in sorted(best, key=lambda row: row["row"])}
    strips = {} if columns.id is None else _read_heat_strips(sources, texts.keys())
    documents = [Document(key, text[:_MAX_CHARACTERS], strips.get(key)) for key, text in texts.items() if text]
    draft.write_json(EXHIBITS, to_json_values(documents))


def _read_heat_strips(sources: Sequence[Path], ids: Collection[str]) -> dict[str, HeatStrip]:
    """Return id → the values of its tokens, as far as token statistics stand beside the tables.

    There is no second model here to hold the first against. What it knows by heart it still finds likelier than its own
    choices where it hesitates: log-probability of the token, plus the entropy (Zhang et al. 2025, Min-K%++, unscaled).
    """
    strips: dict[str, HeatStrip] = {}
    for source in sources:
        if source.suffix == ".parquet":  # a table beside the token statistics, as in the demo
            folder = source.parent / "token-statistics" / source.stem
        else:
            folder = source.parent if source.name == score_tables.DOCUMENTS else source
        for file in sorted((folder / _TOKEN_STATISTICS).glob("*.parquet")):
            statistics = tables.open_parquet(file)
            if not {"id", *_STATISTICS} <= set(statistics.collect_schema()):
                continue
            matching = statistics.filter(pl.col("id").cast(pl.String).is_in(list(ids)))
            with tables.table_errors(str(file)):
                rows = matching.select("id", *_STATISTICS, pl.col("^start$")).collect().to_dicts()
            for row in rows:
                ends, logp, entropy = (row[name] for name in _STATISTICS)
                if not ends or not entropy:
                    continue
                values = np.add(logp, entropy).round(_HEAT_DIGITS).tolist()
                n_visible = sum(end <= _MAX_CHARACTERS for end in ends)
                starts = tuple(row["start"][:n_visible]) if "start" in row else None
                strips[str(row["id"])] = HeatStrip(
                    tuple(ends[:n_visible]), tuple(values[:n_visible]), _HEAT_AGAINST, starts
                )
    return strips


def read_documents(*folders: Path) -> dict[str, Document]:
    """Return id → document from the first of ``folders`` that has any.

    Raises:
        divulge.InputError: a damaged file.
    """
    paths = [folder / f"{EXHIBITS}.json" for folder in folders]
    path = next((path for path in paths if os.path.lexists(path)), None)
    if path is None:
        return {}
    rows = store.read_json(path, inside=path.parent)
    if not isinstance(rows, list):
        raise InputError(f"{path}: damaged: a list of documents is needed")
    documents = [store.parse_json(row, Document, path) for row in rows]
    for document in documents:
        if document.heat is not None and not document.heat.fits(document.text):
            raise InputError(f"{path}: damaged: the heat of {document.id} does not belong to its text")
    return {document.id: document for document in documents}
