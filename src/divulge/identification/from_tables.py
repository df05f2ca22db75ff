"""Identification on files of any size: one pass counts scores, a second one writes the selection.

The counts stay in the run directory, so that a finished run can be decided again at another level (`redecide`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from divulge import provenance, store, tables
from divulge.decisions import controls, fdr, rounding, usage
from divulge.decisions.counts import Counts, ranks
from divulge.decisions.methods import BH, AdaDetect, Auto, method_parameters, resolve_method
from divulge.decisions.rounding import align_calibration
from divulge.errors import InputError
from divulge.identification import case_file, finished_run, identification_page, score_adjustment
from divulge.identification.decision import (
    LEVEL,
    METHODS,
    Choice,
    Policy,
    choose,
    decide,
    direction_note,
    members_note,
    n_selected,
    share_level,
)
from divulge.identification.finished_run import RUN_TYPE, labelled_orientation, realised_in
from divulge.identification.identification_page import IdentificationRun
from divulge.identification.score_adjustment import BlindScores, ScoreSets
from divulge.identification.score_tables import (
    CleaningOptions,
    Columns,
    check_columns,
    clean_table,
    find_input_columns,
    leave_out_copies,
    normalise_text,
    scan_scores,
)
from divulge.report.run_kinds import RunKind, write_run
from divulge.results import BlindScoreResult, ControlResult, IdentificationSettings, IdentificationSummary
from divulge.run_directory import RunDirectory, RunDraft
from divulge.settings import IdentifySettings
from divulge.validation import check_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.fdr import Rule
    from divulge.decisions.methods import Method
    from divulge.identification.decision import Decision
    from divulge.identification.score_adjustment import BlindScoreComparison
    from divulge.identification.score_tables import CleanTable
    from divulge.tables import Table
    from divulge.types import Estimate, Floats

Progress: TypeAlias = "Callable[[int, int], None]"
_KEY = "tables"  # An interrupted decision is always made again, so that its key need not name the plan.
_TEXTS = 20_000  # texts of the candidates, and of the calibration, that the blind text control reads at most
_MIN_TEXTS = 8  # texts of each that it needs
_DEFAULTS = IdentifySettings()
_ROWS_PER_BATCH = 1 << 20  # scores counted at a time
# Measured: ids and pages of the tables that are being written, for each row; and what is held of each score.
_BYTES_OF_SOFTWARE, _BYTES_PER_ROW, _BYTES_PER_SIGNAL, _BYTES_PER_BLIND_SCORE = 1 << 28, 130, 60, 60
_INPUT_COLUMNS = ("row", "id", "score", "unadjusted", "baseline", "truth")  # of a selection; decisions keep them


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """Settings of a decision from tables: columns, policy, and the treatment of unusable rows.

    Args:
        columns: which columns mean what.
        policy: how false discoveries are bounded; `AdaDetect` goes with several score columns, and only with them.
        drop_nan: leave out rows whose score is missing instead of refusing them.
        drop_overlap: leave candidates whose text is also in the calibration, or whose id and scores are also in
            another set, out of both; and rows of the holdout that are also in the calibration out of the holdout.
        seed: of random splits and samples.
        show_records: whether the best documents are stored in the run directory and shown in the report.
    """

    columns: Columns
    policy: Policy = field(default_factory=Policy)
    drop_nan: bool = _DEFAULTS.drop_nan
    drop_overlap: bool = _DEFAULTS.drop_overlap
    seed: int = _DEFAULTS.seed
    show_records: bool = _DEFAULTS.show_records

    def check(self) -> None:
        """Check the number of score columns, before a file is opened.

        Raises:
            divulge.InputError: too few or too many score columns for the method.
        """
        method = self.policy.method
        several = len(self.columns.scores) > 1
        if isinstance(method, AdaDetect) and not several:
            raise InputError("score: 'adadetect' learns from at least two score columns, got 1")
        if several and not isinstance(method, Auto | AdaDetect):
            raise InputError(f"score: {method.name!r} uses one column, got {len(self.columns.scores)}")


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What is known of scores that a model at hand gave to candidates and calibration in one call.

    Args:
        controls: those that were run on the records.
        notes: what was asked, and how.
        files: where the candidates were read.
    """

    controls: tuple[Control, ...]
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()


def run(
    candidates: Sequence[Path],
    calibration: Sequence[Path],
    out: Path | RunDraft,
    plan: DecisionPlan,
    *,
    holdout: Sequence[Path] = (),
    members: Sequence[Path] = (),
    scanned: Table | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    asked: AskedModel | None = None,
    listed: Sequence[Path] = (),
) -> IdentificationSummary:
    """Decide on tables of scores and write the selection, ``selected.csv``, ``summary.json`` and ``counts.npz``.

    Candidates are read in batches, and 8 bytes per id stay in memory to find repeats. Several score columns, from which
    one score is learned, and scores that are adjusted for a blind score are held in memory.

    Args:
        candidates: files or folders of shards.
        calibration: the same, of documents known not to have been used.
        out: run directory to write, or the draft of one.
        plan: what to decide.
        holdout: tables of other known non-members, for the exchangeability control.
        members: tables of documents known to have been used, for the estimated share of members.
        scanned: what `score_tables.scan_scores` made of the candidates, if it was called before.
        overwrite: replace a finished run in ``out``.
        progress: called with the number of rows finished and of all, over both passes.
        asked: where candidates and calibration were scored in one call by a model at hand; texts are then not compared.
        listed: tables of the candidates whose other columns the list shows; by default ``candidates``.

    Returns:
        The summary, as written.

    Raises:
        divulge.InputError: see `divulge.identify`; also repeated ids and missing columns, and a directory in use.
    """
    plan.check()
    sources = {
        "candidates": list(candidates),
        "calibration": list(calibration),
        "holdout": list(holdout),
        "members": list(members),
    }
    if isinstance(out, RunDraft):
        return _run(out, sources, plan, scanned, progress, asked, listed)
    with RunDirectory(out).writing(RUN_TYPE, _KEY, overwrite=overwrite) as draft:
        return _run(draft, sources, plan, scanned, progress, asked, listed)


def _run(
    draft: RunDraft,
    sources: dict[str, list[Path]],
    plan: DecisionPlan,
    scanned: Table | None,
    progress: Progress | None,
    asked: AskedModel | None,
    listed: Sequence[Path],
) -> IdentificationSummary:
    report_progress = progress or (lambda done, total: None)
    if sources["members"] and len(plan.columns.scores) > 1:
        raise InputError("members: the share is estimated from one score column, got several")
    if asked is None and not (plan.drop_overlap and (plan.columns.id or plan.columns.text)):
        _check_files_differ(sources)
    candidates = scan_scores(sources["candidates"], "candidates") if scanned is None else scanned
    calibration = scan_scores(sources["calibration"], "calibration")
    with draft.scratch_folder() as folder:
        check_columns(candidates, plan.columns)  # before all of the calibration is read
        check_memory_fits(candidates.estimate_rows(), plan.columns)
        cleaning = CleaningOptions(plan.drop_nan, plan.drop_overlap, seed=plan.seed, sample_size=_TEXTS)
        keep_hashes = asked is None  # records of a model at hand were compared as records
        clean_calibration = clean_table(
            calibration,
            replace(plan.columns, truth=None),
            folder / "calibration",
            replace(cleaning, keep_hashes=keep_hashes),
        )
        known_sets = [clean_calibration] if asked is None else []
        holdout = _clean_others(sources["holdout"], "holdout", folder, plan, known_sets)
        members = _clean_others(sources["members"], "members", folder, plan, known_sets)
        clean_candidates = clean_table(
            candidates,
            plan.columns,
            folder / "candidates",
            replace(cleaning, known_sets=tuple(known_sets)),
        )
        if plan.drop_overlap:
            clean_calibration = leave_out_copies(clean_calibration, clean_candidates)
            holdout = None if holdout is None else leave_out_copies(holdout, clean_candidates)
            members = None if members is None else leave_out_copies(members, clean_candidates)
        check_memory_fits(clean_candidates.n_rows, plan.columns)  # now that they are counted
        if asked is None:
            first_controls = _compare_texts(clean_candidates, clean_calibration, plan.seed)
        else:
            first_controls = list(asked.controls)
        clean = _CleanTables(clean_candidates, clean_calibration, holdout, members)
        scored = _score(clean, first_controls, plan, report_progress, scored_together=asked is not None)
        notes = (
            *(() if asked is None else asked.notes),
            *clean_calibration.notes,
            *clean_candidates.notes,
            *(note for other in (holdout, members) if other is not None for note in other.notes),
            *(_direction_notes(plan.columns, scored.counts) if asked is None else ()),  # else it is Divulge's own
            *scored.notes,
            *filter(None, [members_note(scored.members, scored.counts.calibration)]),
        )
        decision = decide(
            scored.counts,
            scored.controls,
            plan.policy,
            choice=scored.choice,
            orientation=labelled_orientation(clean_candidates.scan(), "score0"),
            notes=notes,
            scored_together=asked is not None,
            seed=plan.seed,
        )
        n_written = clean_candidates.n_rows  # progress counts both passes

        def report_written(count: int) -> None:
            nonlocal n_written
            n_written += count
            report_progress(n_written, 2 * clean_candidates.n_rows)

        rows = clean_candidates.scan().rename({"score0": "score"})
        _write_selection(rows, draft.path, decision.rule, scored.counts.calibration, report_written)
    if plan.show_records:
        finished_run.write_documents(draft, candidates, plan.columns, sources["candidates"])
        files = listed or (find_input_columns(sources["candidates"]) if asked is None else asked.files)
        is_input = listed or asked or files != list(sources["candidates"])
        case_file.write_columns(draft, files, None if is_input else plan.columns)
    # The tables of scores that were made of the records are Divulge's own; the command declared what it read for them.
    provenance.write_provenance(draft, sources if asked is None else None)
    return _write_results(
        draft,
        scored.counts,
        decision,
        IdentificationSettings(
            **_method_settings(plan.policy),
            seed=plan.seed,
            scores=tuple(map(str, plan.columns.scores)),
            notes=notes,
            scored_together=asked is not None,
            text=plan.columns.text or "",
        ),
        usage.share(scored.counts, scored.members),
        _summarize_comparison(plan.columns, scored.comparison),
    )


def estimate_memory(n_candidates: int, columns: Columns) -> int:
    """Estimate the bytes that a decision holds at once, software included, by what `benchmarks/growth.py` measures.

    Args:
        n_candidates: number of rows, with at most as many of the calibration.
        columns: of several scores, and of scores that are adjusted for a blind one, all candidates are in memory.

    Examples:
        >>> from divulge.identification.score_tables import Score
        >>> from divulge.identification.score_tables import Columns, Score
        >>> estimate_memory(10**7, Columns((Score("loss"),))) // 2**20  # MiB
        1495
    """
    held = _BYTES_PER_SIGNAL * len(columns.scores) if len(columns.scores) > 1 else 0
    held += _BYTES_PER_BLIND_SCORE if columns.baseline is not None else 0
    return _BYTES_OF_SOFTWARE + n_candidates * (_BYTES_PER_ROW + held)


def check_memory_fits(n_candidates: int | None, columns: Columns) -> None:
    """Raise if a decision on so many candidates needs more memory than is free; None where their number is unknown.

    Raises:
        divulge.InputError: it does not fit; both sizes are named.
    """
    if n_candidates is not None:
        remedy = (
            f"there are about {n_candidates:,} rows; decide on fewer, or by one score, which is read piece by piece"
        )
        check_memory(estimate_memory(n_candidates, columns), "candidates", remedy)


def _compare_texts(candidates: CleanTable, calibration: CleanTable, seed: int) -> list[Control]:
    """Run the blind text control on samples of the texts; no control where there are too few."""
    calibration_texts = calibration.text_sample
    excluded = set(map(normalise_text, calibration_texts))
    candidate_texts = [text for text in candidates.text_sample if normalise_text(text) not in excluded]
    if min(len(candidate_texts), len(calibration_texts)) < _MIN_TEXTS:
        return []
    return [controls.blind_text(calibration_texts, candidate_texts, level=LEVEL, seed=seed)]


def _check_files_differ(sources: Mapping[str, Sequence[Path]]) -> None:
    """Raise where a file is given on two sides, under one name or two; only files of equal size are read for it."""
    sides = [(name, file) for name, paths in sources.items() for path in paths for file in _list_files(path)]
    by_size: dict[int, list[tuple[str, Path]]] = {}
    for name, file in sides:
        by_size.setdefault(file.stat().st_size, []).append((name, file))
    for same_size in by_size.values():
        if len({name for name, _ in same_size}) == 1:
            continue
        first: dict[str, tuple[str, Path]] = {}
        for name, file in same_size:
            other, other_file = first.setdefault(store.hash_file(file), (name, file))
            if other != name and scan_scores([file], name).has_rows():
                raise InputError(
                    f"{name}: {file} is the same file as {other_file} of the {other}; a document cannot be in both"
                )


def _list_files(path: Path) -> list[Path]:
    """Return the file, or the tables in a folder; what cannot be found is refused where it is read."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and tables.is_table(file))


def _clean_others(
    paths: Sequence[Path], name: str, folder: Path, plan: DecisionPlan, known_sets: list[CleanTable]
) -> CleanTable | None:
    """Clean the tables of a holdout or of known members, none of them in another set; None where there are none."""
    if not paths:
        return None
    table = scan_scores(paths, name)
    text, id_column = (column if column in table.columns else None for column in (plan.columns.text, plan.columns.id))
    columns = Columns(plan.columns.scores, id=id_column, baseline=plan.columns.baseline, text=text)
    options = CleaningOptions(
        plan.drop_nan,
        plan.drop_overlap and name == "holdout",  # nothing is known to be used and known not to be
        known_sets=tuple(known_sets),
        keep_hashes=bool(known_sets),
        seed=plan.seed,
    )
    clean = clean_table(table, columns, folder / name, options)
    if known_sets:
        known_sets.append(clean)
    return clean


@dataclass(frozen=True, slots=True)
class _CleanTables:
    """The cleaned tables of all sets; None where a set is missing."""

    candidates: CleanTable
    calibration: CleanTable
    holdout: CleanTable | None
    members: CleanTable | None


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredCandidates:
    """Counts of the candidates' scores, the controls and the chosen method.

    Args:
        counts: candidates above each calibration score.
        controls: each at its part of the level.
        choice: the method.
        notes: notes on the precision of the scores, or on the blind score.
        members: scores of known members ``[k]``; None where there are none.
        comparison: with a blind score; None where there is none.
    """

    counts: Counts
    controls: list[Control]
    choice: Choice
    notes: tuple[str, ...]
    members: Floats | None
    comparison: BlindScoreComparison | None


def _score(
    clean: _CleanTables,
    first_controls: Sequence[Control],
    plan: DecisionPlan,
    progress: Progress,
    *,
    scored_together: bool,
) -> _ScoredCandidates:
    """Count the candidates by the one score to decide on, run the controls that compare scores, choose the method.

    Candidates are held in memory only where one score is learned from several, or adjusted for a blind score.
    """
    several = len(plan.columns.scores) > 1
    sets, precision = None, []
    if several or plan.columns.baseline is not None:
        sets, precision = _read_sets(clean, plan.columns).round_alike()
    adjusted = None
    if sets is not None and sets.blind is not None:
        truth = clean.candidates.column("truth") if plan.columns.truth else None
        adjusted = sets.adjust(truth, plan.seed)
        sets = replace(sets, candidates=adjusted.candidates, calibration=adjusted.calibration, members=adjusted.members)
    if sets is None:
        sets = _read_sets(clean, plan.columns, candidates=_sample_scores(clean.candidates))
        aligned = align_calibration(sets.candidates, sets.calibration)
        counts = _count(clean.candidates, aligned.raised, progress)
        low_counts = counts if aligned.lowered is aligned.raised else _count(clean.candidates, aligned.lowered)
        notes = (aligned.note,) if aligned.note else ()
        precision = [] if scored_together else sets.doubt_round_scores()
    else:
        learned = score_adjustment.learn_score(sets.candidates, sets.calibration, plan.policy.fdr, plan.seed)
        counts = low_counts = _replace_scores(clean.candidates, *learned, progress)
        notes = adjusted.notes if adjusted else ()
    control_results = [*first_controls, *(adjusted.controls if adjusted else ()), *precision]
    if sets.holdout is not None and adjusted is None:
        control_results += score_adjustment.compare_holdout(
            sets.holdout, sets.calibration, sets.candidates if several else None, plan.seed
        )
    control_results = share_level([*control_results, controls.low_scores_from_counts(low_counts, level=LEVEL)])
    choice = choose(plan.policy, control_results, several=several)
    if several and isinstance(choice.method, BH):
        ranked = score_adjustment.mean_rank(sets.candidates, sets.calibration)
        counts = _replace_scores(clean.candidates, *ranked, progress)
    comparison = adjusted.comparison if adjusted else None
    return _ScoredCandidates(counts, control_results, choice, notes, sets.members, comparison)


def _read_sets(clean: _CleanTables, columns: Columns, candidates: Floats | None = None) -> ScoreSets:
    """Read the scores of all sets, or of all but the ``candidates``, into memory; one column as a vector."""
    count = len(columns.scores)

    def read(table: CleanTable) -> Floats:
        return table.scores(count) if count > 1 else table.scores(1)[:, 0]

    blind = None
    if columns.baseline is not None:
        blind = BlindScores(
            clean.candidates.column("baseline"),
            clean.calibration.column("baseline"),
            None if clean.holdout is None else clean.holdout.column("baseline"),
            None if clean.members is None else clean.members.column("baseline"),
        )
    return ScoreSets(
        read(clean.candidates) if candidates is None else candidates,
        read(clean.calibration),
        None if clean.holdout is None else read(clean.holdout),
        None if clean.members is None else read(clean.members),
        blind,
    )


def _sample_scores(candidates: CleanTable) -> Floats:
    """Return evenly spaced scores of the candidates, enough to see their precision."""
    step = -(-candidates.n_rows // rounding.MAX_SCORES)
    return candidates.scan().select(pl.col("score0").gather_every(step)).collect()["score0"].to_numpy()


def _count(candidates: CleanTable, calibration: Floats, progress: Progress | None = None) -> Counts:
    """Count the candidates above each calibration score, batch by batch; raise where all scores are equal."""
    counts = Counts.empty(calibration)
    for batch in tables.row_batches(candidates.scan().select("score0"), _ROWS_PER_BATCH):
        counts = counts.add(batch["score0"].to_numpy())
        if progress is not None:
            progress(counts.total, 2 * candidates.n_rows)
    lowest, highest = counts.calibration[0], counts.calibration[-1]
    if lowest == highest and counts.tied[0] == counts.total:
        fdr.require_distinct_scores(counts.calibration[:1], counts.calibration)
    return counts


def _replace_scores(candidates: CleanTable, scores: Floats, calibration: Floats, progress: Progress) -> Counts:
    """Put the score learned from several, or adjusted for a blind score, in the place of the first, and count it."""
    folder = candidates.path.with_name(f"{candidates.path.name} scored")
    writer, start = tables.PieceWriter(folder), 0
    for batch in tables.row_batches(candidates.scan()):
        columns = {"score0": pl.Series(scores[start : start + len(batch)])}
        if "baseline" in batch.columns and "unadjusted" not in batch.columns:
            columns["unadjusted"] = batch["score0"]
        writer.add(batch.with_columns(**columns))
        start += len(batch)
    writer.close()
    shutil.rmtree(candidates.path)
    folder.rename(candidates.path)
    return _count(candidates, calibration, progress)


def _direction_notes(columns: Columns, counts: Counts) -> list[str]:
    """Return notes about scores without a named direction; the counts cannot judge each of several scores."""
    if len(columns.scores) == 1:
        return [note] if (note := direction_note(columns.scores[0], counts)) else []
    return [
        f"no direction was named for the score {score.column!r}: high was taken as member-like ({score})"
        for score in columns.scores
        if score.assumed
    ]


def _write_selection(
    rows: pl.LazyFrame, folder: Path, rule: Rule, calibration: Floats, progress: Callable[[int], None] | None = None
) -> None:
    """Write rows with a ``score``, and ``p``, ``q`` and ``selected`` beside it, as ``selection.parquet``.

    Args:
        rows: the candidates.
        folder: folder to write to.
        rule: the selection rule.
        calibration: calibration scores, ascending.
        progress: called with the number of each batch's rows.
    """

    def decide_batch(scores: pl.Series) -> pl.Series:
        rank = ranks(scores.to_numpy(), calibration)
        p = (rank + 1.0) / (len(calibration) + 1)
        if progress is not None:
            progress(len(scores))
        return pl.DataFrame({"p": p, "q": rule.q_values[rank], "selected": rank <= rule.rank}).to_struct("decision")

    dtype = pl.Struct({"p": pl.Float64, "q": pl.Float64, "selected": pl.Boolean})
    decision = pl.col("score").map_batches(decide_batch, return_dtype=dtype, is_elementwise=True).alias("decision")
    names = [name for name in _INPUT_COLUMNS if name in rows.collect_schema()]
    decided = rows.select(names).with_columns(decision).unnest("decision")
    with tables.table_errors(str(folder)):
        store.write_file(folder / "selection.parquet", lambda out: tables.write_parquet(decided, out))


def _summarize_comparison(columns: Columns, comparison: BlindScoreComparison | None) -> BlindScoreResult | None:
    """Summarize the comparison with the blind score; None where there is none."""
    if comparison is None:
        return None
    labelled = comparison.labelled
    return BlindScoreResult(
        column=str(columns.baseline),
        adjusted=", ".join(map(str, columns.scores)),
        blind=comparison.blind,
        score=comparison.score,
        difference=comparison.difference,
        answer="" if labelled is None else labelled.answer,
        text="" if labelled is None else labelled.text,
        known={} if labelled is None else dict(next(iter(labelled.attacks.values())).difference),
    )


def _method_settings(policy: Policy) -> dict[str, Any]:
    eta, lam = method_parameters(policy.method)
    return {"method": policy.method.name, "fdr": policy.fdr, "eta": eta, "lam": lam}


def _write_results(
    draft: RunDraft,
    counts: Counts,
    decision: Decision,
    settings: IdentificationSettings,
    share_of_members: Estimate,
    baseline: BlindScoreResult | None,
    *,
    stored: Sequence[Path] = (),
) -> IdentificationSummary:
    """Write counts, summary and report of a decision whose ``selection.parquet`` is in ``draft``.

    What was stored of the documents is read there or in the run that is decided again, ``stored``; a run that is
    replaced is another one.
    """
    rule, selection = decision.rule, draft.path / "selection.parquet"
    counts.save(draft.path / "counts.npz")
    selected = n_selected(counts, rule)
    threshold = None
    if selected:
        with tables.table_errors(str(selection)):
            lowest = tables.open_parquet(selection).filter("selected").select(pl.col("score").min())
            threshold = float(lowest.collect(engine="streaming").item())
    summary = IdentificationSummary(
        claim=str(decision.guarantee),
        guarantee=decision.guarantee,
        selected=selected,
        members=decision.members,
        candidates=counts.total,
        calibration=len(counts.calibration),
        used=decision.choice.method.name,
        why=decision.choice.reason,
        threshold=threshold,
        null_share=rule.null_share if np.isfinite(rule.null_share) else None,
        usage=share_of_members,
        truth=realised_in(selection),
        warnings=decision.warnings,
        controls=tuple(
            ControlResult(c.name, c.p_value, c.level, c.says, c.auc, c.conclusive, state=c.state)
            for c in decision.controls
        ),
        settings=settings,
        baseline=baseline,
    )
    documents = finished_run.read_documents(draft.path, *stored)
    origin = provenance.read_provenance(draft.path, *stored)
    case_file.write_list(draft, summary, *stored)
    write_run(draft, IDENTIFICATION, IdentificationRun(summary, draft.path, documents), origin=origin)
    return summary


def redecide(
    directory: str | Path, *, fdr: float | None = None, method: Method | str | None = None
) -> IdentificationSummary:
    """Decide a finished run again at another level or with another method; no score is recomputed.

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
    with RunDirectory(folder).changing(RUN_TYPE) as draft:
        checked = finished_run.check_selection(folder)
        before, counts, settings = checked.stored, checked.counts, checked.stored.settings
        requested = resolve_method(
            settings.method if method is None else method, METHODS, eta=settings.eta, lam=settings.lam
        )
        policy = Policy(settings.fdr if fdr is None else fdr, requested)
        control_results = finished_run.stored_controls(before)
        rows = tables.open_parquet(draft.home / "selection.parquet")
        decision = decide(
            counts,
            control_results,
            policy,
            choice=_choose_again(policy, control_results, before),
            orientation=labelled_orientation(rows),
            notes=settings.notes,
            scored_together=settings.scored_together,
            seed=settings.seed,
        )
        _write_selection(rows, draft.path, decision.rule, counts.calibration)
        new_settings = settings.model_copy(update=_method_settings(policy))
        return _write_results(draft, counts, decision, new_settings, before.usage, before.baseline, stored=[draft.home])


def _choose_again(policy: Policy, control_results: Sequence[Control], before: IdentificationSummary) -> Choice:
    """Choose the method for stored scores, which were learned from several signals, or not."""
    if isinstance(policy.method, Auto) and len(before.settings.scores) > 1:
        return Choice(resolve_method(before.used, (BH, AdaDetect)), before.why)
    is_learned, choice = before.used == AdaDetect.name, choose(policy, control_results)
    if is_learned and isinstance(choice.method, BH):
        choice = replace(choice, method=AdaDetect())
    if is_learned != isinstance(choice.method, AdaDetect):
        raise InputError(
            f"method: this run decided by {before.used!r}; {choice.method.name!r} needs the signals again, run "
            "`divulge identify`"
        )
    return choice


def report(directory: str | Path, to: str | Path | None = None) -> Path:
    """Render the report of a finished run again, and return its path.

    Args:
        directory: what `divulge identify` wrote.
        to: file to write; ``report.html`` in the directory when None.

    Raises:
        divulge.InputError: not such a directory, an unfinished or damaged run.
    """
    return IDENTIFICATION.render_again(Path(directory), None if to is None else Path(to))


def _read_run(directory: RunDirectory) -> IdentificationRun:
    folder = directory.path
    return IdentificationRun(finished_run.recompute_summary(folder), folder, finished_run.read_documents(folder))


IDENTIFICATION = RunKind(
    name=RUN_TYPE,
    title="Training-data identification",
    summary_type=IdentificationSummary,
    sections=identification_page.sections,
    headline=identification_page.headline,
    facts=identification_page.settings_facts,
    read=_read_run,
    records=lambda folder: finished_run.read_run(folder, case_file.list_documents),
)
