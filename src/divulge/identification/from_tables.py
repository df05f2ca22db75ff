"""Identification on files of any size: counted in one pass, decided, written in a second one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from divulge import checks, lazy, store
from divulge.decisions import controls, fdr, usage
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, AdaDetect, Auto
from divulge.dossier import Dossier, Draft
from divulge.identification import exhibits, score_files, several, table_results, truth
from divulge.identification.decide import Choice, Policy, choose, decide
from divulge.identification.from_arrays import rows
from divulge.identification.score_files import Columns
from divulge.identification.standing import LEVEL, together
from divulge.results import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from divulge.decisions.controls import Control
    from divulge.decisions.fdr import Rule
    from divulge.results import IdentificationSummary
    from divulge.types import Floats
else:
    pl = lazy.module("polars")

Progress: TypeAlias = "Callable[[int, int], None]"
KEY = "tables"  # an interrupted decision is made again, whatever its plan was
_TEXTS = 20_000  # read of each kind for the blind text control


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """What to decide, and what to do with rows that cannot be used.

    Args:
        columns: which columns mean what.
        policy: how false discoveries are bounded; `AdaDetect` goes with several score columns, and only with them.
        drop_nan: leave out rows whose score is missing instead of refusing them.
        drop_overlap: leave out candidates whose text is also in the calibration.
        seed: of random splits and samples.
        texts: whether the best documents are kept in the run directory and shown in the report.
    """

    columns: Columns
    policy: Policy = field(default_factory=Policy)
    drop_nan: bool = False
    drop_overlap: bool = False
    seed: int = 0
    texts: bool = True

    def check(self) -> None:
        """Raise for what can be known to be wrong before a file is opened.

        Raises:
            divulge.InputError: too few or too many score columns for the method.
        """
        method = self.policy.method
        several = len(self.columns.scores) > 1
        if isinstance(method, AdaDetect) and not several:
            raise checks.InputError("score: 'adadetect' learns from at least two score columns, got 1")
        if several and not isinstance(method, Auto | AdaDetect):
            raise checks.InputError(f"score: {method.name!r} uses one column, got {len(self.columns.scores)}")


def run(
    candidates: Sequence[Path],
    calibration: Sequence[Path],
    out: Path | Draft,
    plan: DecisionPlan,
    *,
    holdout: Sequence[Path] = (),
    members: Sequence[Path] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> IdentificationSummary:
    """Decide on tables of scores and write ``selection.parquet``, ``summary.json`` and ``counts.npz`` to ``out``.

    Candidates are never held in memory: scores, identifiers and digests of texts pass through in chunks
    (several score columns, from which one is learned, are the exception).

    Args:
        candidates: files or folders of shards.
        calibration: the same, of documents known not to have been used.
        out: run directory to write, or the draft of one.
        plan: what to decide.
        holdout: tables of other known non-members, for the exchangeability control.
        members: tables of documents known to have been used, for the estimated share of members.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of rows finished and of all, over both passes.

    Returns:
        The summary, as written.

    Raises:
        divulge.InputError: see `divulge.identify`; also repeated ids and missing columns, and a directory in use.
    """
    plan.check()
    tell = progress or (lambda done, total: None)
    given = _Given(tuple(candidates), tuple(calibration), tuple(holdout), tuple(members))
    if isinstance(out, Draft):
        return _decide(out, given, plan, tell)
    with Dossier(out).writing(table_results.KIND, KEY, overwrite=overwrite) as draft:
        return _decide(draft, given, plan, tell)


def _decide(draft: Draft, given: _Given, plan: DecisionPlan, tell: Progress) -> IdentificationSummary:
    frame, known = score_files.scan(given.candidates, "candidates"), score_files.scan(given.calibration, "calibration")
    with draft.workshop() as folder:
        tables = _Tables.make(frame, known, folder, plan)
        texts = _blind(frame, known, plan)
        apart = _other(given.holdout, "holdout", tables, plan) if given.holdout else None
        taught = _members(given.members, tables, plan)
        counts, evidence, used = _weigh(tables, texts, apart, plan, tell)
        orientation = truth.declared(tables.candidates, "score0")
        made = decide(counts, evidence, plan.policy, used=used, orientation=orientation, notes=tables.notes)
        _write(tables.candidates, draft.path, made.rule, counts.calibration, tell)
    if plan.texts:
        exhibits.keep(draft, frame, plan.columns, given.candidates)
    provenance.write(draft, {name: list(paths) for name, paths in given.named().items()})
    asked = table_results.asked(plan.policy, plan.seed, plan.columns.scores, tables.notes)
    return table_results.conclude(draft, counts, made, asked, usage.share(counts, taught))


@dataclass(frozen=True, slots=True)
class _Given:
    """Files or folders of shards of each kind."""

    candidates: tuple[Path, ...]
    calibration: tuple[Path, ...]
    holdout: tuple[Path, ...]
    members: tuple[Path, ...]

    def named(self) -> dict[str, tuple[Path, ...]]:
        """The files of each kind by the name of the kind."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True)
class _Tables:
    """Candidates and calibration as Parquet files of ids, scores and digests, checked and cleaned.

    Args:
        candidates: file with the columns id, score (or score0, score1, …), and truth and text if there are any.
        calibration: the same.
        notes: what was left out.
    """

    candidates: Path
    calibration: Path
    notes: tuple[str, ...]

    @classmethod
    def make(cls, frame: pl.LazyFrame, known: pl.LazyFrame, folder: Path, plan: DecisionPlan) -> _Tables:
        judged, unseen = folder / "candidates.parquet", folder / "calibration.parquet"
        score_files.gather(frame, plan.columns, judged, "candidates")
        score_files.gather(known, replace(plan.columns, truth=None), unseen, "calibration")
        count = len(plan.columns.scores)
        both = ((unseen, "calibration"), (judged, "candidates"))
        notes = [_clean(path, count, plan.drop_nan, name) for path, name in both]
        if plan.columns.text:
            notes.append(_part(judged, unseen, plan.drop_overlap))
        if plan.columns.id:
            _refuse_repeats(judged, "candidates")
            _refuse_repeats(unseen, "calibration")
        return cls(judged, unseen, tuple(note for note in notes if note))


def _clean(path: Path, count: int, drop: bool, name: str) -> str:
    """Refuse, or drop and count, rows without a usable score."""
    usable = pl.all_horizontal(pl.col(f"score{i}").is_finite().fill_null(False) for i in range(count))
    bad = score_files.parquet(path).filter(~usable)
    number = bad.select(pl.len()).collect(engine="streaming").item()
    total = score_files.length(path)
    if number and not drop:
        first = bad.select("row").head(10).collect()["row"].to_list()
        shown = ", ".join(map(str, first)) + (", …" if number > len(first) else "")
        raise checks.InputError(
            f"{name}: missing, NaN or infinite scores in {number} rows ({shown}); --drop-nan leaves them out"
        )
    if total == number:
        raise checks.InputError(f"{name}: at least 1 row with a score is needed, got {total} rows, {number} without")
    if number:
        _filter(path, usable)
        return f"{number} {name} rows without a usable score were left out"
    return ""


def _filter(path: Path, keep: pl.Expr) -> None:

    kept = path.with_suffix(".kept.parquet")
    score_files.parquet(path).filter(keep).sink_parquet(kept)
    kept.replace(path)


def _part(judged: Path, unseen: Path, drop: bool) -> str:
    """Refuse, or drop and count, candidates whose text is declared unseen."""
    known = score_files.parquet(unseen).select("text").unique().collect()["text"]
    both = pl.col("text").is_in(known.implode())
    shared = score_files.parquet(judged).filter(both).select("row").collect(engine="streaming")["row"]
    if not len(shared):
        return ""
    if not drop:
        raise checks.InputError(
            f"candidates: the text of {rows(shared.to_numpy())} is also in the calibration; a document cannot "
            "be both a candidate and known to be unseen (--drop-overlap leaves it out of the candidates)"
        )
    _filter(judged, ~both)
    return f"{len(shared)} candidates whose text is also in the calibration were left out"


def _refuse_repeats(path: Path, name: str) -> None:
    ids = score_files.parquet(path).select(pl.col("id").hash(seed=0)).collect()["id"]
    repeated = ids.is_duplicated()
    if repeated.any():
        shown = score_files.parquet(path).select("id").collect()["id"].filter(repeated).unique(maintain_order=True)
        sample = ", ".join(repr(value) for value in shown.head(5).to_list())
        raise checks.InputError(f"{name}: ids must be unique; {len(shown)} occur more than once ({sample})")


def _blind(frame: pl.LazyFrame, known: pl.LazyFrame, plan: DecisionPlan) -> list[Control]:
    if not plan.columns.text:
        return []
    unseen = _sample(known, plan.columns.text, plan.seed)
    declared = set(unseen)
    judged = [text for text in _sample(frame, plan.columns.text, plan.seed) if text not in declared]
    if min(len(judged), len(unseen)) < 8:
        return []
    return [controls.blind_text(unseen, judged, level=LEVEL, seed=plan.seed)]


def _sample(frame: pl.LazyFrame, column: str, seed: int) -> list[str]:
    """The distinct texts, or those of them whose digests are lowest: a sample that no order of the rows changes."""
    every = frame.select(text=pl.col(column).cast(pl.String)).filter(pl.col("text") != "")
    key = pl.col("text").hash(seed=seed)
    lowest = every.select(key).unique().bottom_k(_TEXTS, by="text").collect(engine="streaming")["text"]
    if lowest.is_empty():
        return []
    return every.filter(key <= lowest.max()).unique().collect(engine="streaming")["text"].to_list()


def _members(paths: Sequence[Path], tables: _Tables, plan: DecisionPlan) -> Floats | None:
    if not paths:
        return None
    if len(plan.columns.scores) > 1:
        raise checks.InputError("members: the share is estimated from one score column, got several")
    return _other(paths, "members", tables, plan)[:, 0]


def _other(paths: Sequence[Path], name: str, tables: _Tables, plan: DecisionPlan) -> Floats:
    """The scores ``[rows, d]`` of further tables."""
    path = tables.candidates.with_name(f"{name}.parquet")
    score_files.gather(score_files.scan(paths, name), Columns(plan.columns.scores), path, name)
    _clean(path, len(plan.columns.scores), plan.drop_nan, name)
    return _column(path, len(plan.columns.scores))


def _column(path: Path, count: int) -> Floats:

    return score_files.parquet(path).select(f"score{i}" for i in range(count)).collect().to_numpy()


def _weigh(
    tables: _Tables, texts: Sequence[Control], holdout: Floats | None, plan: DecisionPlan, progress: Progress
) -> tuple[Counts, list[Control], Choice]:
    """Count the candidates, run the controls that compare scores, choose the method."""
    count = len(plan.columns.scores)
    known = _column(tables.calibration, count)
    judged = _column(tables.candidates, count) if count > 1 else None
    if judged is None:
        counts = _count(tables.candidates, known[:, 0], progress)
    else:
        counts = _replace(tables.candidates, *several.learned(judged, known, plan.policy.fdr, plan.seed), progress)
    apart = [] if holdout is None else several.held_out(holdout, known, judged, plan.seed)
    evidence = together([*texts, *apart, controls.low_scores_of(counts, level=LEVEL)])
    used = choose(plan.policy, evidence, several=judged is not None)
    if judged is not None and isinstance(used.method, BH):
        ranked, kept = several.mean_rank(judged, known)
        counts = _replace(tables.candidates, ranked, kept, progress)
    return counts, evidence, used


def _count(path: Path, calibration: Floats, progress: Progress) -> Counts:
    counts, total = Counts.empty(calibration), score_files.length(path)
    for chunk in score_files.chunks(path, ["score0"]):
        counts = counts.add(chunk["score0"].to_numpy())
        progress(counts.total, 2 * total)
    _refuse_constant(counts)
    return counts


def _refuse_constant(counts: Counts) -> None:
    first, last = counts.calibration[0], counts.calibration[-1]
    if first == last and counts.tied[0] == counts.total:
        fdr.refuse_constant(counts.calibration[:1], counts.calibration)


def _replace(path: Path, judged: Floats, known: Floats, progress: Progress) -> Counts:
    """Put the one score made of several in the place of the first, and count it."""
    frame = score_files.parquet(path).collect().with_columns(score0=pl.Series(judged))
    with store.atomic(path) as temporary:
        frame.write_parquet(temporary)
    return _count(path, known, progress)


def _write(path: Path, out: Path, rule: Rule, calibration: Floats, progress: Progress) -> None:
    """Write the decision of every candidate, chunk by chunk, as one Parquet file."""
    names, total, done = score_files.names(path), score_files.length(path), 0
    parts = path.with_name("parts")
    parts.mkdir()
    kept = [name for name in ("id", "score0", "truth") if name in names]
    for number, chunk in enumerate(score_files.chunks(path, kept)):
        marked = table_results.mark(chunk.rename({"score0": "score"}), rule, calibration)
        marked.write_parquet(parts / f"{number:06d}.parquet")
        done += len(chunk)
        progress(total + done, 2 * total)
    table_results.join(parts, out / "selection.parquet")
