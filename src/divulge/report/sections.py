"""Sections that several reports share: advice, regulators' questions, and provenance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from divulge.report.measured_defences import advice_for_model
from divulge.report.page import Bullet, BulletList, Collapsible, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.provenance import Provenance
    from divulge.report.page import Block, Page

# Files of this repository that hold the measurements.
_DEFENCES = "papers/results/unseen_defences.md"
_LANGUAGE_MODELS = "papers/results/language.md"
ADVICE_TITLE = "What to do about it"
CONDITIONS_TITLE = "What this rests on"
_MEASURED_ELSEWHERE = (
    "Measured on other models than this one, so these figures say what can be gained and not what will be: "
    "measure again after the change (divulge compare sets two audits side by side). Nothing else is advised here, "
    "because nothing else was measured."
)
_AGAINST_MEMBERSHIP = (
    Bullet(
        "Regularise more strongly.",
        "In a network with one hidden layer, trained on 3,000 images of CIFAR-100 with 5 of 20 superclasses unseen by "
        "the attacker, raising the weight decay from 0.0005 to 0.05 lowered the AUC of the loss attack from 0.778 "
        "[0.777, 0.780] to 0.534 [0.524, 0.544]. Its test accuracy fell from 23.6 % to 18.5 %.",
        _DEFENCES,
    ),
    Bullet(
        "Train with differential privacy.",
        "In the same network on CIFAR-10 with one class unseen by the attacker, the AUC of the loss attack was 0.525 "
        "[0.503, 0.548] with DP-SGD at ε = 1 and 0.563 [0.542, 0.585] at ε = 16; test accuracy was 24.3 % and 37.0 %. "
        "The command divulge canaries tests whether training keeps the ε it claims.",
        _DEFENCES,
    ),
)
_AGAINST_DOCUMENT_MEMBERSHIP = (
    Bullet(
        "Train for fewer epochs.",
        "In a small GPT-2 fine-tuned on 300 text messages, all weights, the AUC of the windows attack with three "
        "reference models was 0.985 [0.978, 0.992] after four epochs and 0.824 [0.806, 0.840] after one.",
        _LANGUAGE_MODELS,
    ),
    Bullet(
        "Train an adapter instead of all weights.",
        "In the same model, LoRA of rank 8 brought it from 0.985 [0.978, 0.992] to 0.775 [0.747, 0.802] after four "
        "epochs. What either change costs the model was not measured.",
        _LANGUAGE_MODELS,
    ),
)
_AGAINST_EXTRACTION = (
    Bullet(
        "Leave each document in the training set once.",
        "In a small GPT-2 fine-tuned for four epochs on 300 newsgroup articles, 15.0 % [0.0, 36.2] of those that stood "
        "there sixteen times were given back nearly verbatim, and 0.0 % [0.0, 1.5] of those that stood there once.",
        _LANGUAGE_MODELS,
    ),
)


def membership_advice(*, documents: bool = False, model: str = "") -> list[BulletList]:
    """Return measured defences against membership inference on classifiers, or on fine-tuned language models.

    Args:
        documents: whether the model is a language model.
        model: class of an estimator, for which its own kind's measurements are quoted.

    Examples:
        >>> membership_advice(documents=True)[0].points[0].title
        'Train for fewer epochs.'
    """
    if own := advice_for_model(model):
        note = f"divulge defend measures such settings on your own model. {_MEASURED_ELSEWHERE}"
        return [BulletList((*own, _AGAINST_MEMBERSHIP[-1]), note=note)]
    return [BulletList(_AGAINST_DOCUMENT_MEMBERSHIP if documents else _AGAINST_MEMBERSHIP, note=_MEASURED_ELSEWHERE)]


def extraction_advice() -> list[BulletList]:
    """Return measured defences against the extraction of training documents."""
    return [BulletList(_AGAINST_EXTRACTION, note=_MEASURED_ELSEWHERE)]


NOT_EVALUABLE = "Not evaluable from this run."
_REGULATORS_NOTE = (
    "The questions are put in our words, but for the one in quotation marks; the documents' own decide. An answer says "
    "what was measured, never whether a model is lawful or anonymous: that is a judgement, made case by case, on more "
    "than measurements."
)


@dataclass(frozen=True, slots=True)
class RegulatorAnswers:
    """Answers that one run gives; None where it gives none.

    Args:
        means: which attacks were tried, and what they need.
        extraction: whether training data can be brought out of the model.
        queries: whether asking the model tells who or what it was trained on.
        epsilon: what is known of ε.
        unit: what one record is.
        guessing: whether a membership attack does better than guessing.
    """

    means: str
    extraction: str | None = None
    queries: str | None = None
    epsilon: str | None = None
    unit: str | None = None
    guessing: str | None = None


def regulator_section(answers: RegulatorAnswers) -> Section:
    """Return the questions of EDPB Opinion 28/2024, NIST AI RMF 1.0, NIST SP 800-226 and OWASP AISVS 1.0, answered.

    The section is part of the annex.
    """
    european = [
        (
            "Is it unlikely, to the point of insignificance, that personal data of the people whose data trained the "
            "model are extracted from it, directly or by probable inference?",
            answers.extraction or NOT_EVALUABLE,
        ),
        (
            "Is it as unlikely that such data are obtained by queries, on purpose or not?",
            answers.queries or NOT_EVALUABLE,
        ),
        (
            "Were all means considered that the controller or somebody else is reasonably likely to use?",
            f"Only these were tried: {answers.means} Whether others are likely is not evaluable from this run.",
        ),
        ("Is there a legitimate interest, and was the data lawfully obtained?", NOT_EVALUABLE),
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
        ("Which ε does the training keep?", answers.epsilon or NOT_EVALUABLE),
        ("Whose privacy is the unit?", answers.unit or NOT_EVALUABLE),
        ("Are data collection, security and access control sound?", NOT_EVALUABLE),
    ]
    # The requirement's own words (OWASP AISVS 1.0, C11.2, level 3); its other requirements are about operation.
    owasp = [
        (
            "11.2.5: “Verify that membership-inference attack simulations demonstrate that attack accuracy does not "
            "exceed random guessing on evaluated data.”",
            answers.guessing or NOT_EVALUABLE,
        )
    ]
    return Section(
        "Questions that regulators ask",
        [
            Collapsible("EDPB Opinion 28/2024, on whether a model is anonymous", [_question_table(european)]),
            Collapsible("NIST AI Risk Management Framework 1.0", [_question_table(american)]),
            Collapsible("NIST SP 800-226, on guarantees of differential privacy", [_question_table(private)]),
            Collapsible("OWASP AISVS 1.0, requirement 11.2.5", [_question_table(owasp)]),
            Paragraph(_REGULATORS_NOTE),
        ],
        annex=True,
    )


def _finding(answers: RegulatorAnswers) -> str:
    """Return the answer that states the finding."""
    epsilon = None if answers.epsilon is None else f"On ε: {answers.epsilon}"
    return answers.extraction or answers.queries or epsilon or NOT_EVALUABLE


def _question_table(rows: list[tuple[str, str]]) -> Table:
    return Table(("question", "answer"), rows, sortable=False)


PROVENANCE_TITLE = "Where this comes from"


def provenance_section(
    provenance: Provenance | None, facts: Mapping[str, str], details: Sequence[Block] = ()
) -> Section:
    """Return date, command, files by name and digest, software, and other facts of a run.

    Args:
        provenance: what was recorded when the run was written; None for a run without a record.
        facts: name → value: seeds, accuracy, digests.
        details: folded tables.
    """
    rows = [(name, value) for name, value in facts.items() if value]
    if provenance is None:
        missing = Paragraph("Neither date, command nor files were noted when this run was written.")
        fact_table = [Table(("what", "value"), rows, sortable=False)] if rows else []
        return Section(PROVENANCE_TITLE, [missing, *fact_table, *details], annex=True)
    date = provenance.date.replace("T", " ").replace("+00:00", " UTC")
    head = [("date", date), ("command", provenance.command or "used from Python")]
    blocks: list[Block] = [Table(("what", "value"), [*head, *rows], sortable=False)]
    if provenance.sources:
        files = [(source.role, source.name, f"{source.size:,}", source.digest) for source in provenance.sources]
        note = "SHA-256 of the content; of a folder, of the names and contents of its files."
        blocks.append(
            Collapsible("Files that were read", [Table(("role", "file", "bytes", "digest"), files, note=note)])
        )
    environment = provenance.environment
    software = [
        ("divulge", environment.divulge),
        ("python", environment.python),
        ("platform", environment.platform),
        ("processors", str(environment.cpu_count or "–")),
        ("git commit", environment.git_commit or "–"),
        *environment.packages.items(),
    ]
    blocks.append(Collapsible("Software", [Table(("what", "version"), software)]))
    return Section(PROVENANCE_TITLE, [*blocks, *details], annex=True)


def add_provenance(page: Page, provenance: Provenance | None, facts: Mapping[str, str] | None = None) -> Page:
    """Return ``page`` with the day of the run in its head and the provenance section at its end."""
    return replace(
        page,
        sections=[*page.sections, provenance_section(provenance, facts or {})],
        facts={**page.facts, **date_fact(provenance)},
    )


def date_fact(provenance: Provenance | None) -> dict[str, str]:
    """Return the day of the run for the head of a report; empty where it is unknown."""
    return {} if provenance is None else {"date": provenance.date.partition("T")[0]}
