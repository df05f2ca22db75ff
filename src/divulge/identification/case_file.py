"""Case file of an identification, in sentences a court can read: the finding, its conditions and the list of documents.

The finding comes first. The conditions that its bound rests on follow, each met, open or not met; and no test can make
all of them met, because how documents were collected shows in no score.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import polars as pl

from divulge import store, tables
from divulge.decisions.controls import BLIND_SCORE
from divulge.decisions.counts import Counts, ranks
from divulge.identification.decision import (
    BLIND_RECORDS,
    CLASSES,
    DOUBT,
    NO_HOLDOUT,
    UNSEEN_CLASSES,
    UNTESTED,
    WRONG_END,
    alarms,
    excludes_large_shift,
    excludes_unlike_nonmembers,
)
from divulge.identification.finished_run import highest_rows, rank_shifts, stored_controls
from divulge.identification.score_adjustment import KNOWN_MEMBERS
from divulge.report import run_kinds
from divulge.report.formatting import (
    as_sentence,
    describe_uncleared,
    format_count,
    format_estimate,
    format_percent,
    join_words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.identification.score_tables import Columns
    from divulge.results import ControlResult, IdentificationSummary
    from divulge.run_directory import RunDraft
    from divulge.types import Tone

Mark: TypeAlias = Literal["met", "open", "not met"]

LIST_FILE = "selected.csv"
"""Name of the list of selected documents, which a spreadsheet opens."""

MAX_LISTED = 100_000
"""Documents in the list that a run writes by itself; `divulge report --format csv` writes all of them."""

VOID_REMEDY = "get unused documents collected like those in question, as calibration and as holdout, and decide again."
"""What to do where the guarantee is void."""

_LOSS_NAME = re.compile(r"loss|perplex|ppl|nll|entropy|surprisal", re.IGNORECASE)
_LARGE_EXCESS = 0.3  # of the share of low scores, that a test must rule out before its condition is met
_TOO_FEW = "No difference was found, but there are too few to rule out a large one"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the bound.

    Args:
        title: what must be so, in a sentence.
        mark: "met" if a test could have refuted it and did not, "open" if nothing decides it, "not met" if refuted.
        text: what was compared and observed, or why nothing could be.
    """

    title: str
    mark: Mark
    text: str


def state_finding(summary: IdentificationSummary) -> tuple[str, Tone]:
    """Return the finding with what it rests on, and its tone.

    It is in doubt where no known non-members could be compared with others, and nothing is claimed where they differ.
    """
    finding = describe_selection(summary)
    if summary.guarantee.standing == "void":
        return f"{finding} {explain_doubt(summary)}", "void"
    doubt = explain_doubt(summary)
    if not (summary.selected or count_members_shown(summary)):
        # Nothing is claimed that a lacking test could put in doubt, unlike a test that found something.
        if summary.guarantee.standing == "holds":
            # A selection needs strong scores, so an empty one clears nothing.
            return " ".join(filter(None, [finding, _suspect_direction(summary)])), "plain"
        return " ".join(filter(None, [finding, _suspect_direction(summary), f"In doubt: {doubt}"])), "doubt"
    if doubt:
        return f"{finding} In doubt: {doubt}", "doubt"
    return f"{finding} {_count_conditions(conditions(summary))}", "leak"


def direction_hints(summary: IdentificationSummary) -> list[str]:
    """Return the warnings that say that the other end of the score may be the member-like one."""
    return [warning for warning in summary.warnings if WRONG_END in warning]


def _suspect_direction(summary: IdentificationSummary) -> str:
    """Return that a score that is named like a loss may have been read from its wrong end; empty where it was not."""
    column, sign = score_name(summary)
    if sign < 0 or not _LOSS_NAME.search(column) or not direction_hints(summary):
        return ""
    return (
        f"The direction may be wrong: low values of a score that is named {column!r} mostly speak for use, and those "
        "of the documents are lower than those of the unused ones."
    )


def describe_selection(summary: IdentificationSummary) -> str:
    """Return what was selected and the claim about it, in a sentence or two without the conditions."""
    documents = f"{summary.selected:,} of {summary.candidates:,} documents"
    level = format_percent(summary.settings.fdr)
    if summary.guarantee.standing == "void":
        return name_records(f"{documents} stand out, and nothing is claimed about them.", summary)
    number = (
        f"t least {summary.members:,} of {format_count(summary.candidates, 'document')} "
        f"{'was' if summary.members == 1 else 'were'} used for training (95 % confidence, if the comparison is fair)"
    )
    counts_members = count_members_shown(summary) > summary.selected
    if not summary.selected and counts_members:
        return name_records(
            f"A{number}, and which ones cannot be said: a list with a false discovery rate of {level} is empty.",
            summary,
        )
    if not summary.selected:
        return name_records(
            f"None of {format_count(summary.candidates, 'document')} could be shown to have been used for training, at "
            f"a false discovery rate of {level}. That does not show that none was used.",
            summary,
        )
    are = "is" if summary.selected == 1 else "are"
    not_listed = f"In all, those on the list included, a{number}. " if counts_members else ""
    finding = (
        f"{documents} {are} identified as training data. If the comparison is fair, lists made in this way have at "
        f"most {level} wrong entries on average. This one list may have more, and no single entry is proven. "
        f"{not_listed}{describe_uncleared(summary.candidates - summary.selected, 'have been used')}"
    )
    return name_records(finding.rstrip(), summary)


def name_records(text: str, summary: IdentificationSummary) -> str:
    """Return a sentence about documents as one about records, where a model was asked about those."""
    if not summary.settings.scored_together:
        return text
    return re.sub(r"\b([Dd])ocument(?=s?\b)", lambda match: "Record" if match[1] == "D" else "record", text)


def explain_doubt(summary: IdentificationSummary) -> str:
    """Return why the finding is in doubt or void, as a sentence; empty where tests could have found that and did not.

    Candidates that differ from the calibration leave it in doubt also where known non-members agree: members may differ
    in topic, length or date from non-members, and so may the non-members among the candidates from the known ones.
    """
    return name_records(_explain_doubt(summary), summary)


def _explain_doubt(summary: IdentificationSummary) -> str:
    failed = [control for control in summary.controls if control.state == "failed"]
    if unseen := [control for control in failed if control.name == UNSEEN_CLASSES]:
        return as_sentence(unseen[0].says)
    if failed:
        return "Both sets of unused documents do not score alike, so the bound does not apply."
    if summary.guarantee.standing == "void":
        return as_sentence(next(iter(summary.warnings), "the guarantee is void"))
    if caution := _find_caution(summary):
        return as_sentence(caution)
    compared = _compare_unused(summary)
    raised = [control.name for control in summary.controls if control.state == "doubtful"]
    if not compared:
        other_differences = f" The documents differ from the unused ones in: {join_words(raised)}." if raised else ""
        return (
            "whether the comparison is fair was not tested, as there was no second set of documents known to be unused."
            + other_differences
        )
    if not excludes_unlike_nonmembers(compared):
        return "there were too few unused documents to test them against each other."
    if raised:
        return (
            f"the documents differ from the unused ones in more than the model's scores ({join_words(raised)}). That "
            "both sets of unused documents score alike settles it only if they are like the unused ones among these."
        )
    return ""


_EXCHANGEABLE = "Do both sets of unused documents score alike?"
_TITLES = {
    "blind text": "Are the texts of the documents like those of the unused ones?",
    "precision": "Have the scores of both sets as many decimals?",
    "low scores": "Are low scores no more frequent among the documents than among the unused ones?",
    BLIND_SCORE: "Does a model that never saw the training data score the documents like the unused ones?",
    BLIND_RECORDS: "Are the documents themselves like the unused ones?",
    CLASSES: "Are the unused documents of all classes of those in question?",
    UNSEEN_CLASSES: "Are the unused documents of the class of those in question?",
    KNOWN_MEMBERS: "Does the score tell used documents from unused ones better than the blind score does?",
}


def conditions(summary: IdentificationSummary) -> list[Condition]:
    """Return what the bound rests on: each test that ran, those that could not, and what no test can show.

    A condition is met only where its test could have found a difference worth the name; a test of a few documents
    passes whatever they are.
    """
    compared = _compare_unused(summary)
    inconclusive = [control for control in summary.controls if control not in compared]
    listed = [_compare_known_nonmembers(compared), *(_describe_control(control, summary) for control in inconclusive)]
    if all(control.name not in ("blind text", BLIND_RECORDS) for control in inconclusive):
        listed.append(Condition(_TITLES["blind text"], "open", _explain_untested_texts(summary)))
    if caution := _find_caution(summary):
        listed.append(Condition("Does the method keep its bound?", "open", as_sentence(caution)))
    listed.append(
        Condition(
            "Were the unused documents collected in the same way as those in question?",
            "open",
            "No test can show this. It rests on how both were collected: from the same sources, on the same subjects, "
            "at the same time, and with near-copies of one document counted once.",
        )
    )
    named = [replace(c, title=name_records(c.title, summary), text=name_records(c.text, summary)) for c in listed]
    return sorted(named, key=lambda condition: condition.mark != "not met")


def _explain_untested_texts(summary: IdentificationSummary) -> str:
    if summary.settings.text:
        return f"Not tested: column {summary.settings.text!r} holds too few texts that are not on both sides."
    return (
        "Not tested: no column of texts was named, and none that all tables have was compared (--text names one). "
        "Other columns are not compared, as they may come from the model; --baseline names a score that does not."
    )


def _compare_unused(summary: IdentificationSummary) -> list[ControlResult]:
    """Return the controls that compared records known to be unused with others."""
    return [control for control in summary.controls if control.conclusive and control.name != UNSEEN_CLASSES]


def _compare_known_nonmembers(compared: Sequence[ControlResult]) -> Condition:
    """Describe the tests of known non-members against each other, which are one condition."""
    if not compared:
        return Condition(
            _EXCHANGEABLE,
            "open",
            "Not tested: there was no second set of documents known not to have been used (--holdout; of a plan, "
            "data.nonmembers).",
        )
    if failed := [control for control in compared if control.state == "failed"]:
        observed = "; ".join(map(_observe, failed))
        return Condition(_EXCHANGEABLE, "not met", f"No: they differ, so the bound does not apply ({observed}).")
    # The lowest scores alone are a finer test of the same documents: it can refute the condition and not fulfil it.
    full_tests = [control for control in compared if control.auc is not None]
    observed = "; ".join(map(_observe, full_tests or compared))
    if excludes_unlike_nonmembers(compared):
        return Condition(_EXCHANGEABLE, "met", f"No difference was found ({observed}).")
    return Condition(_EXCHANGEABLE, "open", f"{_TOO_FEW} ({observed}).")


def _describe_control(control: ControlResult, summary: IdentificationSummary) -> Condition:
    """Describe a test of all documents against known non-members, which no finding can refute."""
    title, observed = _TITLES.get(control.name, control.name), _observe(control)
    if control.state == "failed":
        return Condition(title, "not met", f"No, so the bound does not apply ({observed}).")
    if control.state != "passed":
        return Condition(
            title,
            "open",
            f"No ({observed}). The bound holds if only members are the reason, and not if non-members are.",
        )
    if not _could_have_raised_doubt(control, summary):
        return Condition(title, "open", f"{_TOO_FEW} ({observed}).")
    return Condition(title, "met", f"Nothing speaks against it ({observed}).")


def _could_have_raised_doubt(control: ControlResult, summary: IdentificationSummary) -> bool:
    """Return True where a large difference would not have passed the control."""
    if control.name == "low scores":
        m, n = summary.candidates, summary.calibration
        least_excess = np.sqrt(-np.log(control.level) * (m + n) / (2 * m * n))  # by Massey's bound, as in the control
        return bool(least_excess <= _LARGE_EXCESS)
    if control.name == KNOWN_MEMBERS:
        return summary.baseline is not None and summary.baseline.answer == "leak found"
    return excludes_large_shift(control.auc)


def _observe(control: ControlResult) -> str:
    """Return what a control saw: in a number where it found nothing, in its own words where it did."""
    p = f"p = {control.p_value:.2g}"
    if control.state == "passed" and control.auc is not None:
        return f"{p}, AUC {format_estimate(control.auc)}, where 0.5 means alike"
    return f"{p}: {control.says}"


def count_members_shown(summary: IdentificationSummary) -> int:
    """Return how many candidates were used, at least; 0 where anything was observed that speaks against the bound.

    A set that is unlike the calibration as a whole would seem to have been used as a whole.
    """
    is_doubted = _find_caution(summary) or any(control.state != "passed" for control in summary.controls)
    return 0 if is_doubted else summary.members


def _find_caution(summary: IdentificationSummary) -> str:
    """Return the warning that puts the guarantee in doubt though every control passed; empty where none does."""
    if summary.guarantee.standing != "doubtful" or any(c.state != "passed" for c in summary.controls):
        return ""
    for warning in summary.warnings:
        if warning.startswith(DOUBT):
            return warning.removeprefix(DOUBT)
    if not excludes_unlike_nonmembers(summary.controls):
        return ""  # nothing is known to be wrong, but a test is lacking
    return next(iter(summary.warnings), "the method itself may exceed its bound")


def _count_conditions(listed: list[Condition]) -> str:
    """Return how many conditions are met and open, as a sentence.

    Examples:
        >>> _count_conditions([Condition("Alike?", "met", ""), Condition("Drawn alike?", "open", "")])
        'These figures rest on 2 conditions: 1 was tested and met, and 1 is open. Drawn alike?'
    """
    tally = Tally(condition.mark for condition in listed)
    were, are = ("was" if tally["met"] == 1 else "were"), ("is" if tally["open"] == 1 else "are")
    counts = (
        f"These figures rest on {len(listed)} conditions: {tally['met']} {were} tested and met, and {tally['open']} "
        f"{are} open."
    )
    return " ".join([counts, *(condition.title for condition in listed if condition.mark == "open")])


def other_warnings(summary: IdentificationSummary) -> list[str]:
    """Return the warnings that neither the finding, its conditions nor its notes say already."""
    mentioned = {*alarms(stored_controls(summary)), UNTESTED, NO_HOLDOUT, summary.why}
    if caution := _find_caution(summary):
        mentioned |= {caution, f"{DOUBT}{caution}"}
    return [warning for warning in summary.warnings if warning not in mentioned]


def describe_adversary(summary: IdentificationSummary) -> str:
    """Return who can show the finding, and what it takes."""
    names = join_words([score.rpartition(":")[0] or score for score in summary.settings.scores])
    knowledge = (
        f"the documents, the model's scores of them ({names}), and its scores of {summary.calibration:,} documents "
        "that are known not to have been used"
    )
    if summary.guarantee.standing == "void":
        return name_records(f"What was used: {knowledge}.", summary)
    return name_records(
        f"Who can show this: anyone who has {knowledge}. The rest of the training data need not be known.", summary
    )


def selected_documents(summary: IdentificationSummary, folder: Path, *, max_rows: int | None = None) -> pl.DataFrame:
    """Return a row per selected document, best first: id, score, p-value, q-value and the shift that it survives.

    Args:
        summary: of the run.
        folder: where ``selection.parquet`` and ``counts.npz`` stand.
        max_rows: rows to return; all of them when None.

    Returns:
        Columns ``id``, ``score`` in the user's direction, ``p``, ``q`` and ``survives_shift``: up to this factor any
        score may be likelier, or less likely, among the non-members than in the calibration, and the document still
        stands on a list with the same bound. It is null where nothing is claimed.

    Raises:
        divulge.InputError: missing or damaged file.
    """
    path = folder / "selection.parquet"
    with tables.table_errors(str(path)):
        rows = tables.open_parquet(path).filter("selected").select("id", "score", "p", "q")
        rows = rows.sort("score", "id", descending=[True, False], nulls_last=True)
        frame = (rows if max_rows is None else rows.head(max_rows)).collect()
    counts = Counts.load(folder / "counts.npz")
    claims = summary.guarantee.says
    shifts = rank_shifts(summary, counts) if claims else np.full(len(counts.calibration) + 1, np.nan)
    _, sign = score_name(summary)
    survives = pl.Series(shifts[ranks(frame["score"].to_numpy(), counts.calibration)], dtype=pl.Float64).fill_nan(None)
    return frame.with_columns(pl.col("score") * sign, survives.alias("survives_shift"))


def list_documents(
    summary: IdentificationSummary, folder: Path, *stored: Path, max_rows: int | None = None
) -> pl.DataFrame:
    """Return `selected_documents` with the score under the name that the user's tables give it, and their columns.

    In each row stands whether the bound holds, is doubtful or void, for whoever sees the list alone.
    """
    frame, (name, _) = selected_documents(summary, folder, max_rows=max_rows), score_name(summary)
    frame = frame.with_columns(pl.lit(summary.guarantee.standing).alias("guarantee"))
    named = frame if name in frame.columns else frame.rename({"score": name})
    return tables.add_input_columns(named, run_kinds.read_input_columns(folder, *stored))


def write_columns(draft: RunDraft, paths: Sequence[Path], columns: Columns | None) -> None:
    """Write what tables say of the candidates with the highest scores into ``draft``, for the list of the selected.

    Args:
        draft: holds ``selection.parquet``.
        paths: of the tables.
        columns: which of their columns mean what; None where these are no tables of scores.
    """
    if not paths:
        return
    best = highest_rows(draft.path / "selection.parquet", ["id", "score"], MAX_LISTED)
    ids = {str(row["id"]) for row in best}
    id_column = "id" if columns is None else columns.id
    documents = () if columns is None or columns.text is None else (columns.text,)
    run_kinds.write_input_columns(draft, tables.read_input_columns(paths, ids, id_column, without=documents))


def write_list(draft: RunDraft, summary: IdentificationSummary, *stored: Path) -> None:
    """Write the selected documents as a CSV that spreadsheets open, the best `MAX_LISTED` of them."""
    frame = tables.escape_formulas(list_documents(summary, draft.path, *stored, max_rows=MAX_LISTED))
    columns = run_kinds.read_input_columns(draft.path, *stored)
    dialect = {} if columns is None else columns.dialect
    store.write_file(draft.path / LIST_FILE, lambda out: tables.write_csv(frame, out, spreadsheet=True, **dialect))


def score_name(summary: IdentificationSummary) -> tuple[str, int]:
    """Return the score as the user named it, and the sign that restores its orientation in the user's tables."""
    if len(summary.settings.scores) != 1:
        return "score", 1
    column, _, end = summary.settings.scores[0].rpartition(":")
    if summary.baseline is not None and column:
        column = f"{column} beyond {summary.baseline.column.rpartition(':')[0]}"
    return (column, -1 if end == "low" else 1) if column else ("score", 1)
