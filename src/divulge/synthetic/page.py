"""The page of an audit of a release, and its kind of run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from divulge import results, tables
from divulge.errors import InputError
from divulge.report import charts, formatting
from divulge.report.page import Bullet, BulletList, Chart, Collapsible, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import ADVICE_TITLE, FAIRNESS_TITLE, RegulatorAnswers, regulator_section
from divulge.study import StudyRun, reopen
from divulge.synthetic.result import (
    CANNOT_JUDGE,
    COPIES,
    LEAK,
    RUN_TYPE,
    SyntheticAudit,
    SyntheticSummary,
    say_match,
)
from divulge.synthetic.scores import AUTO, SCORES
from divulge.synthetic.texts import TEXT_SCORES
from divulge.validation import check_mask, check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.report.page import Block
    from divulge.run_directory import RunDirectory

SyntheticRun: TypeAlias = StudyRun[SyntheticAudit]
_N_RECORDS = 50  # in a table of single records
_N_OPEN = 10  # of these, the rest is folded
_ADVERSARY = (
    "Who can do this: anyone who has the release, other records of the same kind, and the record in question. Nothing "
    "need be known of how the release was made."
)
_HARM = "Who may be harmed: people behind the records, if they are about people."
_HARM_BY_COPY = "To read what is copied, the release and a few facts about the person may be enough."
_MEANING = {
    **SCORES,
    **TEXT_SCORES,
    AUTO: "all of them in one, weighed without labels by how many records stand out",
}
_RISK_NOTE = (
    "In the words of the European guidelines on anonymisation (WP216): can a person be singled out, can records be "
    "linked, can something be inferred? What succeeds as often on non-members is no consequence of having been in the "
    "table; the differences hold together. A guess of a column is right if it names the value, and also counts against "
    "imputation from the population."
)
_NOT_PROVEN = (
    Bullet("Simulated:", "that intervals, answers and checks err as rarely as they say."),
    Bullet(
        "Neither:",
        "that no other attack finds more, and what the release says of the most unusual record. Distances to the "
        "closest record, and marks for new rows, say nothing of membership: copied values pass them.",
    ),
)


def _read_run(directory: RunDirectory) -> SyntheticRun:
    """Read scores and summary; the answer is decided from the scores again."""
    folder = directory.path
    stored, frame = results.read_summary(folder, SyntheticSummary), directory.read_table("records")
    try:
        if missing := {"id", "member", "counted", "order", f"score: {AUTO}"} - set(frame.columns):
            raise InputError(f"lacks {', '.join(sorted(missing))}")
        n = len(frame)

        def column(name: str):  # noqa: ANN202
            return tables.to_array(frame[name])

        result = SyntheticAudit(
            ids=column("id"),
            members=check_mask(column("member"), "member", (n,)),
            is_counted=check_mask(column("counted"), "counted", (n,)),
            order=check_vector(column("order"), "order", length=n).astype("int64"),
            scores={name.removeprefix("score: "): check_vector(column(name), name, length=n)
                    for name in frame.columns if name.startswith("score: ")},
            matches={name.removeprefix("proof: "): check_mask(column(name), name, (n,))
                     for name in frame.columns if name.startswith("proof: ")},
            copies=stored.copies, controls=stored.controls, risks=stored.risks, released=stored.released,
            population=stored.population, notes=stored.notes,
            uncompared=stored.uncompared, candidates_digest=stored.candidates,
            settings=stored.settings,
        )  # fmt: skip
        return reopen(result, stored)
    except InputError as error:
        raise InputError(f"{folder}: damaged, {error}") from None


def headline(run: SyntheticRun) -> Headline:
    """Return the answer, what it rests on, and what the adversary needs."""
    verdict = run.result.verdict
    heading = (
        "Nothing can be said of the release"
        if verdict.answer == CANNOT_JUDGE
        else formatting.capitalize(verdict.answer)
    )
    is_copied = run.result.copied[0] or any(proof.proven for proof in run.result.proofs)
    harm = f"{_HARM} {_HARM_BY_COPY}" if is_copied else _HARM
    return Headline(verdict.tone, verdict.plain, heading, (*verdict.details, _ADVERSARY, harm), statement=verdict.text)


def facts(run: SyntheticRun) -> dict[str, str]:
    """Return what was compared."""
    summary, settings = run.summary, run.summary.settings
    unit = "persons" if settings.person else "records"
    facts = {
        "release": formatting.format_count(summary.released, "row"),
        f"{unit} compared": f"{summary.members:,} that it was made from, {summary.nonmembers:,} others",
        "used to build the attack": formatting.format_count(summary.population, "further row"),
        "seed": str(settings.seed),
    }
    if summary.left_out:
        facts["left out"] = f"{formatting.format_count(summary.left_out, 'record')} that equal another"
    return facts


def score_rows(summary: SyntheticSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of scores, the combined one first."""
    levels = [f"{level:g}" for level in summary.settings.fpr]
    names = ["score", "AUC", *(f"members found at {formatting.format_percent(float(level))}" for level in levels)]
    ordered = sorted(summary.scores, key=lambda score: (score.name != AUTO, -score.auc.value))
    rows = [
        [score.name, formatting.format_estimate(score.auc),
         *(formatting.format_percent_estimate(score.tpr[level]) for level in levels)]
        for score in ordered
    ]  # fmt: skip
    return names, rows


def proof_rows(summary: SyntheticSummary) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of proofs."""
    rows = [
        [proof.name, f"{proof.members:,} of {summary.members:,}", f"{proof.nonmembers:,} of {summary.nonmembers:,}",
         formatting.format_percent_estimate(proof.excess), f"{proof.p_value:.1g}{' (proof)' if proof.proven else ''}"]
        for proof in summary.proofs
    ]  # fmt: skip
    return ["copied", "members", "non-members", "difference", "p"], rows


def risk_rows(summary: SyntheticSummary, *, brief: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of singling out, linkability and inference; ``brief`` for a terminal."""
    columns = ["risk", "members", "non-members", "difference", "beyond imputation", "guess by"]
    rows = []
    for risk in summary.risks:
        estimates = risk.members, risk.nonmembers, risk.difference, risk.gain
        rows.append([risk.name, *map(formatting.format_percent_estimate, estimates), risk.guess])
    if brief:
        return columns[:4], [
            [name, *(cell.partition(" [")[0] for cell in cells[:2]), cells[2]] for name, *cells in rows
        ]
    return columns, rows


def sections(run: SyntheticRun) -> list[Section]:
    """Return proofs, scores, the list, the three risks, controls, and what this cannot show."""
    summary = run.summary
    return [
        *_advice(summary),
        Section("What is copied", _proof_blocks(summary)),
        Section("What attacks find", _score_blocks(summary)),
        Section("Whom it gives away", _list_blocks(run)),
        Section("Singling out, linkability, inference", _risk_blocks(summary)),
        Section(FAIRNESS_TITLE, [_control_table(summary)]),
        Section("What is proven, and what is not", [_list_standing(summary)]),
        regulator_section(
            RegulatorAnswers(
                means=f"membership inference from the release alone, by {', '.join(s.name for s in summary.scores)}.",
                extraction=f"On copied rows, values and passages: {summary.verdict}",
                queries="A release answers no queries; whoever holds it holds all of it.",
                epsilon=None if summary.epsilon is None
                else f"At least {formatting.format_lower_bound(summary.epsilon.low)}, with "
                f"{formatting.format_percent(summary.epsilon.confidence)} confidence.",
                unit="One person, with all rows." if summary.settings.person else "One row, as given.",
            )
        ),
    ]  # fmt: skip


def _list_standing(summary: SyntheticSummary) -> BulletList:
    """Say what is proven, what was simulated, and what neither is."""
    epsilon = ", and the bound on ε" if summary.epsilon is not None else ""
    proven = Bullet(
        "Proven, for every generator, if members and non-members are of one kind:",
        "that more members than non-members are copied where a line says (proof), and the bound on wrong names in the "
        f"list{epsilon}.",
    )
    return BulletList([proven, *_NOT_PROVEN])


def _advice(summary: SyntheticSummary) -> list[Section]:
    if summary.answer != LEAK:
        return []
    points = [
        Bullet(
            "Do not publish this release as it is.",
            "If it is out, withdraw it, and expect that there are copies.",
        ),
        Bullet(
            "Release no copied row, and no value that only one record has.",
            "Some generators (trees, hot decks) put real values into released rows. Coarser categories, fewer digits "
            "and smoothing take them out; measure the new release again.",
        ),
        Bullet(
            "Use a generator with differential privacy.",
            "Of 60 releases of other data at a strict setting (ε = 1), an earlier set of these attacks found no leak "
            "in 39, and of 21 nothing could be said. How much less useful a release becomes is to be measured, too.",
        ),
    ]
    return [Section(ADVICE_TITLE, [BulletList(points)])]


def _proof_blocks(summary: SyntheticSummary) -> list[Block]:
    note = (
        "Non-members match by chance: the generator never saw them. (proof): that so many more members match is hardly "
        "ever chance, a p-value (Fisher's exact test) of at most .001 over all lines."
    )
    blocks: list[Block] = [Table(*proof_rows(summary), note=note, sortable=False)]
    meanings = [[proof.name, f"records that {say_match(proof.name)}"] for proof in summary.proofs]
    blocks.append(Table(("copied", "what is counted"), meanings, sortable=False))
    if not summary.copies:
        blocks.append(Paragraph("No row of the release equals a member or a non-member."))
        return blocks
    rows = [
        [str(copy.released), copy.set, copy.record, str(copy.population), copy.values]
        for copy in summary.copies[:_N_RECORDS]
    ]
    further = len(summary.copies) - len(rows)
    note = f"{further:,} more stand in summary.json." if further else ""
    columns = ("row of the release", "equals one of", _unit(summary), "equal rows of the population", "values")
    blocks += _record_tables("Copied rows", columns, rows, note)
    return blocks


def _unit(summary: SyntheticSummary) -> str:
    return "person" if summary.settings.person else "row"


def _record_tables(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> list[Block]:
    """Return a table of single records: the first are open, the rest is folded, as each is a card on a telephone."""
    shown, rest = rows[:_N_OPEN], rows[_N_OPEN:]
    if not rest:
        return [Table(columns, shown, title=title, note=note, single_records=True)]
    folded = Table(columns, rest, title=title, note=note, single_records=True)
    return [Table(columns, shown, title=title, single_records=True), Collapsible(f"{len(rest)} more", [folded])]


def _score_blocks(summary: SyntheticSummary) -> list[Block]:
    if not summary.scores:
        return [Paragraph("No score varies, or no records count.")]
    aucs = {score.name: score.auc for score in summary.scores}
    chart = Chart(charts.intervals(aucs, quantity="AUC", reference=0.5))
    note = "All intervals hold together, so that one above one half is evidence."
    meanings = [[name, _MEANING[name]] for name in aucs]
    return [
        Table(*score_rows(summary), note=note, sortable=False),
        chart,
        Collapsible("What each score weighs", [Table(("score", "what it weighs"), meanings, sortable=False)]),
    ]


def _list_blocks(run: SyntheticRun) -> list[Block]:
    summary, result = run.summary, run.result
    blocks: list[Block] = []
    if summary.epsilon is not None:
        blocks.append(
            Paragraph(
                f"The generator's ε is at least {formatting.format_lower_bound(summary.epsilon.low)}, with "
                f"{formatting.format_percent(summary.epsilon.confidence)} confidence: a draw decided who is a member."
            )
        )
    found = summary.members_list
    if found is None:
        return [*blocks, Paragraph("There are too few non-members for a list with a bound on false discoveries.")]
    listed = formatting.format_count(found.members + found.nonmembers, "record")
    blocks.append(
        Paragraph(
            f"{listed} of {found.candidates:,} can be named as members; {found.nonmembers:,} of them are non-members. "
            f"On average at most {formatting.format_percent(summary.settings.fdr)} of such a list are wrong "
            f"({found.guarantee}; calibrated on {found.calibration:,} other non-members)."
        )
    )
    blocks += [Paragraph(formatting.as_sentence(warning)) for warning in found.warnings]
    if found.members + found.nonmembers:
        selected = result.selection().selected
        best = sorted(((score, row) for row, score in enumerate(result.scores[AUTO]) if selected[row]), reverse=True)
        rows = [[str(result.ids[row]), "member" if result.members[row] else "non-member", f"{score:.3g}"]
                for score, row in best[:_N_RECORDS]]  # fmt: skip
        blocks += _record_tables("Most exposed of the list", (_unit(summary), "truly a", "score"), rows)
    return blocks


def _risk_blocks(summary: SyntheticSummary) -> list[Paragraph | Table]:
    if not summary.risks:
        return [Paragraph("These need a table of several columns.")]
    return [Table(*risk_rows(summary), note=_RISK_NOTE, sortable=False)]


def _control_table(summary: SyntheticSummary) -> Table:
    words = {"holds": "nothing found", "unsure": "nothing found, not ruled out", "fails": "FOUND", "not run": "not run"}
    rows = [[control.name, words[control.state], control.says] for control in summary.controls]
    return Table(("check", "result", "what it says"), rows, sortable=False)


SYNTHETIC = RunKind(
    name=RUN_TYPE,
    title="Released table",
    summary_type=SyntheticSummary,
    sections=sections,
    headline=headline,
    facts=facts,
    warnings=lambda run: run.summary.notes,
    read=_read_run,
    records=lambda folder: SYNTHETIC.load(folder).result.to_frame(),
    noun="a released table",
    metrics=("auc", "share", COPIES, "tpr@fpr=LEVEL"),
)
SyntheticAudit.run_kind = SYNTHETIC
