"""Identification on files of any size: counted in one pass, decided, written in a second one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from divulge import checks, frames, store
from divulge.decisions import controls, fdr, usage
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, AdaDetect, Auto
from divulge.dossier import Dossier, Draft
from divulge.identification import exhibits, score_files, several, shards, table_results, truth
from divulge.identification.decide import Choice, Policy, choose, decide
from divulge.identification.gathering import Cleaning, Gathered, gather
from divulge.identification.score_files import Columns
from divulge.identification.standing import LEVEL, together
from divulge.results import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.fdr import Rule
    from divulge.frames import Frame
    from divulge.identification.shards import ScoreTable
    from divulge.results import IdentificationSummary
    from divulge.types import Floats

Progress: TypeAlias = "Callable[[int, int], None]"
KEY = "tables"  # an interrupted decision is made again, whatever its plan was
_TEXTS = 20_000  # read of each kind for the blind text control
_FEWEST = 8  # of each kind, which it needs
_ROWS = 1 << 20  # scores counted at a time


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

    Candidates are never held in memory: scores, identifiers and texts pass through in pieces, of which
    8 bytes per id stay to find those that repeat (several score columns, from which one is learned, are the exception).

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
    judged, known = score_files.scan(given.candidates, "candidates"), score_files.scan(given.calibration, "calibration")
    with draft.workshop() as folder:
        tables = _Tables.make(judged, known, folder, plan)
        texts = tables.blind(plan)
        apart = _other(given.holdout, "holdout", folder, plan) if given.holdout else None
        taught = _members(given.members, folder, plan)
        counts, evidence, used = _weigh(tables, texts, apart, plan, tell)
        orientation = truth.declared(tables.candidates.path, "score0")
        made = decide(counts, evidence, plan.policy, used=used, orientation=orientation, notes=tables.notes)
        _write(tables.candidates, draft.path, made.rule, counts.calibration, tell)
    if plan.texts:
        exhibits.keep(draft, judged, plan.columns, given.candidates)
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
    """Candidates and calibration as files of ids and scores, checked and cleaned.

    Args:
        candidates: the rows to judge.
        calibration: those known not to have been used.
    """

    candidates: Gathered
    calibration: Gathered

    @classmethod
    def make(cls, judged: ScoreTable, known: ScoreTable, folder: Path, plan: DecisionPlan) -> _Tables:
        score_files.check(judged, plan.columns)  # before all of the other is read
        cleaning = Cleaning(plan.drop_nan, plan.drop_overlap, seed=plan.seed, texts=_TEXTS)
        unseen = gather(known, replace(plan.columns, truth=None), folder / "calibration.parquet", cleaning)
        apart = replace(cleaning, unseen=unseen.digests)
        return cls(gather(judged, plan.columns, folder / "candidates.parquet", apart), unseen)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out."""
        return (*self.calibration.notes, *self.candidates.notes)

    def blind(self, plan: DecisionPlan) -> list[Control]:
        """Whether the texts by themselves tell the two apart; empty where there are too few."""
        unseen = self.calibration.sample
        declared = set(unseen)
        judged = [text for text in self.candidates.sample if text not in declared]
        if min(len(judged), len(unseen)) < _FEWEST:
            return []
        return [controls.blind_text(unseen, judged, level=LEVEL, seed=plan.seed)]


def _members(paths: Sequence[Path], folder: Path, plan: DecisionPlan) -> Floats | None:
    if not paths:
        return None
    if len(plan.columns.scores) > 1:
        raise checks.InputError("members: the share is estimated from one score column, got several")
    return _other(paths, "members", folder, plan)[:, 0]


def _other(paths: Sequence[Path], name: str, folder: Path, plan: DecisionPlan) -> Floats:
    """The scores ``[rows, d]`` of further tables."""
    columns, cleaning = Columns(plan.columns.scores), Cleaning(plan.drop_nan)
    return gather(score_files.scan(paths, name), columns, folder / f"{name}.parquet", cleaning).scores(
        len(columns.scores)
    )


def _weigh(
    tables: _Tables, texts: Sequence[Control], holdout: Floats | None, plan: DecisionPlan, progress: Progress
) -> tuple[Counts, list[Control], Choice]:
    """Count the candidates, run the controls that compare scores, choose the method."""
    count = len(plan.columns.scores)
    known = tables.calibration.scores(count)
    judged = tables.candidates.scores(count) if count > 1 else None
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


def _count(judged: Gathered, calibration: Floats, progress: Progress) -> Counts:
    counts = Counts.empty(calibration)
    for piece in shards.parquet(judged.path, ["score0"], _ROWS):
        counts = counts.add(piece["score0"])
        progress(counts.total, 2 * judged.rows)
    _refuse_constant(counts)
    return counts


def _refuse_constant(counts: Counts) -> None:
    first, last = counts.calibration[0], counts.calibration[-1]
    if first == last and counts.tied[0] == counts.total:
        fdr.refuse_constant(counts.calibration[:1], counts.calibration)


def _replace(judged: Gathered, scores: Floats, known: Floats, progress: Progress) -> Counts:
    """Put the one score made of several in the place of the first, and count it."""

    def replaced() -> Iterator[Frame]:
        at = 0
        for piece in shards.parquet(judged.path, score_files.names(judged.path)):
            yield piece.with_columns({"score0": scores[at : at + len(piece)]})
            at += len(piece)

    with store.atomic(judged.path) as temporary:
        frames.write_parquet(replaced(), temporary, score_files.types(judged.path))
    return _count(judged, known, progress)


def _write(judged: Gathered, out: Path, rule: Rule, calibration: Floats, progress: Progress) -> None:
    """Write the decision of every candidate, piece by piece, as one Parquet file."""
    names = [name for name in ("id", "score0", "truth") if name in score_files.names(judged.path)]

    def marked() -> Iterator[Frame]:
        done = judged.rows
        for piece in shards.parquet(judged.path, names, min(_ROWS, shards.PIECE)):
            done += len(piece)
            progress(done, 2 * judged.rows)
            yield table_results.mark(piece.renamed({"score0": "score"}), rule, calibration)

    with store.atomic(out / "selection.parquet") as temporary:
        frames.write_parquet(marked(), temporary, score_files.types(judged.path))
