"""Identification on files of any size: counted in one pass, decided, written in a second one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from divulge import tables
from divulge.decisions import controls, fdr, usage
from divulge.decisions.counts import Counts
from divulge.decisions.methods import BH, AdaDetect, Auto
from divulge.dossier import Dossier, Draft
from divulge.errors import InputError
from divulge.identification import against_blind, exhibits, score_files, several, table_results, truth
from divulge.identification.against_blind import BlindScores
from divulge.identification.decide import Choice, Policy, choose, decide
from divulge.identification.gathering import Cleaning, Gathered, gather
from divulge.identification.score_files import Columns, Score
from divulge.identification.standing import LEVEL, together
from divulge.results import BlindScoreResult, provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from divulge.decisions.controls import Control
    from divulge.decisions.fdr import Rule
    from divulge.identification.against_blind import AdjustedScores, BlindComparison
    from divulge.results import IdentificationSummary
    from divulge.tables import Table
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
            raise InputError("score: 'adadetect' learns from at least two score columns, got 1")
        if several and not isinstance(method, Auto | AdaDetect):
            raise InputError(f"score: {method.name!r} uses one column, got {len(self.columns.scores)}")


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
        both = _Tables.make(judged, known, folder, plan)
        texts = both.blind(plan)
        apart = _other(given.holdout, "holdout", folder, plan) if given.holdout else None
        taught = _members(given.members, folder, plan)
        weighed = _weigh(both, texts, apart, taught, plan, tell)
        counts, evidence, used = weighed.counts, weighed.evidence, weighed.used
        notes = (*both.notes, *_direction_notes(plan.columns.scores, counts), *weighed.notes)
        orientation = truth.declared(both.candidates.frame(), "score0")
        made = decide(counts, evidence, plan.policy, used=used, orientation=orientation, notes=notes)
        _write(both.candidates, draft.path, made.rule, counts.calibration, tell)
    if plan.texts:
        exhibits.keep(draft, judged, plan.columns, given.candidates)
    provenance.write_provenance(draft, {name: list(paths) for name, paths in given.named().items()})
    asked = table_results.asked(plan.policy, plan.seed, plan.columns.scores, notes)
    share = usage.share(counts, weighed.members)
    return table_results.conclude(draft, counts, made, asked, share, _compared(plan.columns, weighed.comparison))


def _compared(columns: Columns, blind: BlindComparison | None) -> BlindScoreResult | None:
    """What the summary says of the blind score; None where there is none."""
    if blind is None:
        return None
    known, pairs = blind.known, {}
    if known is not None:
        pairs = dict(next(iter(known.attacks.values())).difference)
    return BlindScoreResult(
        column=str(columns.baseline),
        adjusted=", ".join(map(str, columns.scores)),
        blind=blind.blind,
        score=blind.score,
        difference=blind.difference,
        answer="" if known is None else known.answer,
        text="" if known is None else known.text,
        known=pairs,
    )


def _direction_notes(scores: Sequence[Score], counts: Counts) -> list[str]:
    """What was assumed of scores whose direction nobody named; of several together the counts say nothing of each."""
    if len(scores) == 1:
        return [note] if (note := truth.direction_note(scores[0], counts)) else []
    return [
        f"no direction was named for the score {score.column!r}: high was taken as member-like ({score})"
        for score in scores
        if score.assumed
    ]


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
    def make(cls, judged: Table, known: Table, folder: Path, plan: DecisionPlan) -> _Tables:
        score_files.check(judged, plan.columns)  # before all of the other is read
        cleaning = Cleaning(plan.drop_nan, plan.drop_overlap, seed=plan.seed, texts=_TEXTS)
        unseen = gather(known, replace(plan.columns, truth=None), folder / "calibration", cleaning)
        apart = replace(cleaning, unseen=unseen.digests)
        return cls(gather(judged, plan.columns, folder / "candidates", apart), unseen)

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


def _members(paths: Sequence[Path], folder: Path, plan: DecisionPlan) -> Gathered | None:
    if not paths:
        return None
    if len(plan.columns.scores) > 1:
        raise InputError("members: the share is estimated from one score column, got several")
    return _other(paths, "members", folder, plan)


def _other(paths: Sequence[Path], name: str, folder: Path, plan: DecisionPlan) -> Gathered:
    """The scores of further tables."""
    columns, cleaning = Columns(plan.columns.scores, baseline=plan.columns.baseline), Cleaning(plan.drop_nan)
    return gather(score_files.scan(paths, name), columns, folder / name, cleaning)


@dataclass(frozen=True, slots=True, eq=False)
class _Weighed:
    """What a decision is made on.

    Args:
        counts: of the candidates.
        evidence: the controls.
        used: the method.
        notes: what the user must know of the blind score.
        members: scores of known members ``[k]``; None where there are none.
        comparison: with a blind score; None where there is none.
    """

    counts: Counts
    evidence: list[Control]
    used: Choice
    notes: tuple[str, ...]
    members: Floats | None
    comparison: BlindComparison | None


def _weigh(
    both: _Tables,
    texts: Sequence[Control],
    holdout: Gathered | None,
    members: Gathered | None,
    plan: DecisionPlan,
    progress: Progress,
) -> _Weighed:
    """Count the candidates, run the controls that compare scores, choose the method."""
    count, has_baseline = len(plan.columns.scores), plan.columns.baseline is not None
    known = both.calibration.scores(count)
    judged = both.candidates.scores(count) if count > 1 or has_baseline else None
    apart = None if holdout is None else holdout.scores(count)
    taught = None if members is None else members.scores(1)[:, 0]
    blind = None
    if judged is not None and has_baseline:
        blind = _adjust(both, judged, known, apart, holdout, taught, members, plan)
        judged, known, taught = blind.candidates, blind.calibration, blind.members
    if judged is None:
        counts = _count(both.candidates, known[:, 0], progress)
    else:
        counts = _replace(both.candidates, *several.learned(judged, known, plan.policy.fdr, plan.seed), progress)
    learned = judged if count > 1 else None
    found = [*texts, *(blind.controls if blind else ())]
    if apart is not None and blind is None:
        found += several.held_out(apart, known, learned, plan.seed)
    evidence = together([*found, controls.low_scores_of(counts, level=LEVEL)])
    used = choose(plan.policy, evidence, several=learned is not None)
    if learned is not None and isinstance(used.method, BH):
        ranked, kept = several.mean_rank(learned, known)
        counts = _replace(both.candidates, ranked, kept, progress)
    notes, comparison = (blind.notes, blind.comparison) if blind else ((), None)
    return _Weighed(counts, evidence, used, notes, taught, comparison)


def _adjust(
    both: _Tables,
    judged: Floats,
    known: Floats,
    apart: Floats | None,
    holdout: Gathered | None,
    taught: Floats | None,
    members: Gathered | None,
    plan: DecisionPlan,
) -> AdjustedScores:
    """Adjust the scores for the blind score; candidates are held in memory for it."""
    several_scores = len(plan.columns.scores) > 1
    blind = BlindScores(
        both.candidates.column("baseline"),
        both.calibration.column("baseline"),
        None if holdout is None else holdout.column("baseline"),
        None if members is None else members.column("baseline"),
    )
    return against_blind.adjust(
        judged if several_scores else judged[:, 0],
        known if several_scores else known[:, 0],
        blind,
        holdout=apart if apart is None or several_scores else apart[:, 0],
        members=taught,
        truth=both.candidates.column("truth") if plan.columns.truth else None,
        seed=plan.seed,
    )


def _count(judged: Gathered, calibration: Floats, progress: Progress) -> Counts:
    counts = Counts.empty(calibration)
    for piece in tables.row_batches(judged.frame().select("score0"), _ROWS):
        counts = counts.add(piece["score0"].to_numpy())
        progress(counts.total, 2 * judged.rows)
    _refuse_constant(counts)
    return counts


def _refuse_constant(counts: Counts) -> None:
    first, last = counts.calibration[0], counts.calibration[-1]
    if first == last and counts.tied[0] == counts.total:
        fdr.refuse_constant(counts.calibration[:1], counts.calibration)


def _replace(judged: Gathered, scores: Floats, known: Floats, progress: Progress) -> Counts:
    """Put the one score made of several, or adjusted for a blind score, in the place of the first, and count it."""
    folder = judged.path.with_name(f"{judged.path.name} scored")
    writer, at = tables.PieceWriter(folder), 0
    for piece in tables.row_batches(judged.frame()):
        own = (
            {} if "unadjusted" in piece.columns or "baseline" not in piece.columns else {"unadjusted": piece["score0"]}
        )
        writer.add(piece.with_columns(score0=scores[at : at + len(piece)], **own))
        at += len(piece)
    writer.close()
    shutil.rmtree(judged.path)
    folder.rename(judged.path)
    return _count(judged, known, progress)


def _write(judged: Gathered, out: Path, rule: Rule, calibration: Floats, progress: Progress) -> None:
    """Write the decision of every candidate as one Parquet file."""
    rows = judged.frame().rename({"score0": "score"})
    done = judged.rows

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(done, 2 * judged.rows)

    names = [name for name in table_results.KEPT if name in rows.collect_schema()]
    table_results.write_selection(rows.select(names), out, rule, calibration, tell)
