"""What a finding answers of the questions that regulators and their guidance ask, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from divulge.report.page import Fold, Paragraph, Section, Table

NOT = "Not evaluable from this run."
_NOTE = (
    "The questions are put in our words; the documents' own decide. An answer says what was measured, never whether a "
    "model is lawful or anonymous: that is a judgement, made case by case, on more than measurements."
)


@dataclass(frozen=True, slots=True)
class Answers:
    """What one run can say; None where it says nothing.

    Args:
        means: which attacks were tried, and what they need.
        extraction: whether training data can be brought out of the model.
        queries: whether asking the model tells who or what it was trained on.
        epsilon: what is known of ε.
        unit: what one record is.
    """

    means: str
    extraction: str | None = None
    queries: str | None = None
    epsilon: str | None = None
    unit: str | None = None


def section(answers: Answers) -> Section:
    """Questions of EDPB Opinion 28/2024, the NIST AI RMF 1.0 and NIST SP 800-226, each with its answer."""
    european = [
        (
            "Is it unlikely, to the point of insignificance, that personal data of the people whose data trained the "
            "model are extracted from it, directly or by probable inference?",
            answers.extraction or NOT,
        ),
        (
            "Is it as unlikely that such data are obtained by queries, on purpose or not?",
            answers.queries or NOT,
        ),
        (
            "Were all means considered that the controller or somebody else is reasonably likely to use?",
            f"Only these were tried: {answers.means} Whether others are likely is not evaluable from this run.",
        ),
        ("Is there a legitimate interest, and was the data lawfully obtained?", NOT),
    ]
    american = [
        (
            "MEASURE 2.10: are the privacy risks that were identified examined and documented?",
            f"The risk that this report names is. {_finding(answers)} Others: not evaluable from this run.",
        ),
        (
            "MEASURE 2.1: are test sets, metrics and tools documented?",
            "Yes: the records by their digests, the metrics with their intervals, the software with its versions.",
        ),
    ]
    private = [
        ("Which ε does the training keep?", answers.epsilon or NOT),
        ("Whose privacy is the unit?", answers.unit or NOT),
        ("Are data collection, security and access control sound?", NOT),
    ]
    columns = ("question", "answer")
    about_dp = [_table(columns, private), Paragraph(_NOTE)]
    return Section(
        "Questions that regulators ask",
        [
            Fold("EDPB Opinion 28/2024, on whether a model is anonymous", [_table(columns, european)]),
            Fold("NIST AI Risk Management Framework 1.0", [_table(columns, american)]),
            Fold("NIST SP 800-226, on guarantees of differential privacy", about_dp),
        ],
    )


def _finding(answers: Answers) -> str:
    """What was found, standing by itself."""
    epsilon = None if answers.epsilon is None else f"On ε: {answers.epsilon}"
    return answers.extraction or answers.queries or epsilon or NOT


def _table(columns: tuple[str, str], rows: list[tuple[str, str]]) -> Table:
    return Table(columns, rows, sortable=False)
