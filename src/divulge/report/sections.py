"""Sections that several reports share: advice, regulators' questions, and provenance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from divulge.report.page import Bullet, BulletList, Collapsible, Paragraph, Section, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.provenance import Provenance
    from divulge.report.page import Block, Page

# Files of this repository that hold the measurements.
_DEFENCES = "papers/results/unseen_defences.md"
_LANGUAGE_MODELS = "papers/results/language.md"
_CLASSICAL_MODELS = "benchmarks/results/defences.md"
_STRUCTURE = "benchmarks/results/structure.md"
ADVICE_TITLE = "What to do about it"
CONDITIONS_TITLE = "What this rests on"
DECISIONS_TITLE = "Decisions, and whether their false-positive rate holds"
FAIRNESS_TITLE = "Is the comparison fair?"
REFERENCES_TITLE = "How well the reference models match the target"
WARNINGS_TITLE = "Warnings"
MEASURED_TITLE = "What helped in other models"
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
        "In a network with one hidden layer on CIFAR-10, with one class unseen by the attacker, the AUC of the loss "
        "attack was 0.525 [0.503, 0.548] with DP-SGD at ε = 1 and 0.563 [0.542, 0.585] at ε = 16; test accuracy was "
        "24.3 % and 37.0 %. "
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


def membership_advice(
    *, documents: bool = False, adapter: bool = False, model: str = ""
) -> tuple[list[Block], list[Block]]:
    """Return what to do against membership inference, in a line, and what it did in other models, for the annex.

    Args:
        documents: whether the model is a language model.
        adapter: whether it is an adapter already.
        model: class of an estimator, for which its own kind's measurements are quoted.

    Examples:
        >>> membership_advice(documents=True, adapter=True)[0][0].text.partition(":")[0]
        'Worth trying'
        >>> [point.title for point in membership_advice(documents=True, adapter=True)[1][0].points]
        ['Train for fewer epochs.']
    """
    if model_advice := advice_for_model(model):
        points = (*model_advice, _AGAINST_MEMBERSHIP[-1])
        after = "divulge defend PLAN tries such settings on this model, and says what each gives away and what it costs"
        if model_advice == (_KEEPS,):
            after = "The annex says what was measured of such models"
        line = f"Worth trying: {_join_titles(points)}. {after}."
        return [Paragraph(line)], [BulletList(points, note=_MEASURED_ELSEWHERE)]
    points = _AGAINST_MEMBERSHIP
    if documents:
        points = _AGAINST_DOCUMENT_MEMBERSHIP[:1] if adapter else _AGAINST_DOCUMENT_MEMBERSHIP
    return _advise(points)


def extraction_advice() -> tuple[list[Block], list[Block]]:
    """Return what to do against the extraction of training documents, in a line, and what it did in other models."""
    return _advise(_AGAINST_EXTRACTION)


def _advise(points: Sequence[Bullet]) -> tuple[list[Block], list[Block]]:
    line = (
        f"Worth trying: {_join_titles(points)}. Measure again after the change, and set both results side by side; the "
        "annex says what it did in other models."
    )
    return [Paragraph(line)], [BulletList(points, note=_MEASURED_ELSEWHERE)]


def _join_titles(points: Sequence[Bullet]) -> str:
    titles = [point.title.rstrip(".") for point in points]
    return "; or ".join(f"{title[0].lower()}{title[1:]}" for title in titles)


_FAMILIES = {
    "forest": ("RandomForest", "ExtraTreesC", "ExtraTreesR", "Bagging"),
    "tree": ("DecisionTree", "ExtraTreeC", "ExtraTreeR"),
    "boosting": ("GradientBoosting", "HistGradientBoosting", "LGBM", "XGB", "CatBoost", "AdaBoost"),
    "neighbours": ("KNeighbors", "RadiusNeighbors", "NearestCentroid"),
    "support vectors": ("SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"),
    "Gaussian process": ("GaussianProcess",),
    "network": ("MLP",),
    "linear": (
        "LogisticRegression", "Ridge", "Lasso", "ElasticNet", "LinearRegression", "LinearSV", "SGD", "Perceptron",
        "PassiveAggressive", "Huber", "PoissonRegressor", "GammaRegressor", "TweedieRegressor",
    ),
}  # fmt: skip


def model_family(name: str) -> str:
    """Return the kind of an estimator of this class; empty where it is none that is known here.

    Examples:
        >>> model_family("RandomForestRegressor"), model_family("LGBMClassifier"), model_family("GaussianNB")
        ('forest', 'boosting', '')
    """
    return next((family for family, starts in _FAMILIES.items() if name.startswith(starts)), "")


MEASURED_HINTS = {
    "records of a leaf": f"of 35 forests and boosted models, 29 had it, at an AUC of 0.56 to 1.00 (median 0.78), and 6 "
    f"did not, at 0.52 to 0.90 (0.63) ({_STRUCTURE}).",
    "class disclosure": f"of 35 forests and boosted models, 12 had it, at an AUC of 0.65 to 1.00 (median 0.79), and 23 "
    f"did not, at 0.52 to 0.97 (0.70) ({_STRUCTURE}).",
    "value disclosure": f"two forests of one table had it, at an AUC of 0.82 and 0.89 ({_STRUCTURE}).",
    "least records of a leaf": f"of 35 forests and boosted models, 30 had it, at an AUC of 0.52 to 1.00 (median 0.78), "
    f"and 5 did not, at 0.56 to 0.90 (0.66) ({_STRUCTURE}).",
    "depth": f"of 35 forests and boosted models, 10 had it, at an AUC of 0.65 to 1.00 (median 0.82), and 25 did not, "
    f"at 0.52 to 0.97 (0.70) ({_STRUCTURE}).",
    "residual degrees of freedom": "of 35 forests and boosted models, 33 had it, at an AUC of 0.56 to 1.00; the others "
    f"had 0.52 and 0.56 ({_STRUCTURE}).",
    "records of an output": f"all 75 models of five tables had it, at an AUC of 0.49 to 1.00 ({_STRUCTURE}).",
    "class disclosure by outputs": f"of 75 models, 21 had it, at an AUC of 0.50 to 1.00 (median 0.77), and 54 did not, "
    f"at 0.49 to 1.00 (0.64) ({_STRUCTURE}).",
    "small groups": f"of 75 models, 60 had it, at an AUC of 0.49 to 1.00 (median 0.67), and 15 did not, at 0.51 to "
    f"0.89 (0.58) ({_STRUCTURE}).",
    "forest": "AUC of forests of 100 trees as they are, with 5 and with 20 records a leaf, and of depth 5: adult 0.85, "
    "0.65, 0.57, 0.68; satimage 0.88, 0.78, 0.67, 0.80; location30 1.00, 0.98, 0.90, 0.95; diabetes 0.89, 0.74, 0.60, "
    f"0.82 ({_CLASSICAL_MODELS}).",
    "tree": "",
    "boosting": "AUC of boosting as it is, with a fifth of the rounds, and with smaller trees (depth 1; diabetes 2): "
    "adult 0.64, 0.56, 0.52; satimage 0.79, 0.70, 0.64; location30 0.98, 0.96, 0.90; diabetes 0.89, 0.74, 0.83 "
    f"({_CLASSICAL_MODELS}).",
    "stored": "neighbours kept all training records of five tables in their file, support vectors 58 % to all, with "
    f"either setting; the AUC of the answers alone was 0.50 to 0.77 and 0.53 to 0.94 ({_CLASSICAL_MODELS}).",
}
"""Hint of the structure → what was measured of it; empty where nothing was."""

_KEEPS = Bullet(
    "Do not release the file.",
    "A model of this kind keeps its training records: of neighbours all of them stood in the file, of support vectors "
    "39 of 60 to all, whatever the setting. Publish its answers, or train another kind of model.",
    _CLASSICAL_MODELS,
)
_ADVICE_OF_FAMILY: Mapping[str, tuple[Bullet, ...]] = {
    "forest": (
        Bullet(
            "Ask for more records in a leaf (min_samples_leaf).",
            "In forests of 100 trees, 300 members and 4 reference models, from 1 to 5 to 20 records the AUC fell on "
            "adult from 0.85 [0.81, 0.89] to 0.65 [0.60, 0.71] to 0.57 [0.51, 0.62] at an accuracy of 0.82, 0.82 and "
            "0.82; on satimage from 0.88 to 0.78 to 0.67 at 0.88, 0.89 and 0.86. Where there are few records of a "
            "class it costs more: on wine, 20 records of 60 left an accuracy of 0.27, and location30 with 30 classes "
            "still had 0.90.",
            _CLASSICAL_MODELS,
        ),
        Bullet(
            "Limit the depth (max_depth).",
            "Depth 5 brought the AUC to 0.68 (adult) and 0.80 (satimage) at an accuracy of 0.83 and 0.88: less than "
            "leaves of 20 records do.",
            _CLASSICAL_MODELS,
        ),
    ),
    "boosting": (
        Bullet(
            "Grow smaller trees (max_depth, leaves).",
            "In 50 rounds, stumps in place of depth 3 brought the AUC on adult from 0.64 [0.59, 0.69] to 0.52 [0.46, "
            "0.58] at an accuracy of 0.83 for both, and on satimage from 0.79 to 0.64, where the accuracy fell from "
            "0.89 to 0.84.",
            _CLASSICAL_MODELS,
        ),
        Bullet(
            "Train for fewer rounds.",
            "10 rounds in place of 50 brought the AUC to 0.56 (adult) and 0.70 (satimage), at an accuracy of 0.84 and "
            "0.86.",
            _CLASSICAL_MODELS,
        ),
    ),
    "neighbours": (_KEEPS,),
    "support vectors": (_KEEPS,),
    "Gaussian process": (_KEEPS,),
    "network": (
        Bullet(
            "Raise the weight penalty (alpha).",
            "In networks of 64 hidden units, 10 in place of 0.0001 brought the AUC on adult from 0.61 [0.56, 0.66] "
            "to 0.54 [0.49, 0.60] at an accuracy of 0.83 and 0.82, and on satimage from 0.64 to 0.56 at 0.90 and "
            "0.88.",
            _CLASSICAL_MODELS,
        ),
    ),
    "linear": (
        Bullet(
            "Use fewer columns, or more records.",
            "Logistic regression gave away little with few columns (AUC on adult 0.52 [0.46, 0.57], satimage 0.62 "
            "[0.56, 0.67]) and nearly all with more columns than records (location30 0.99), where a stronger "
            "penalty, C of 0.01 in place of 1, did not help (0.99). On satimage it brought 0.56 at no loss of "
            "accuracy. Ridge regression of real values gave away little too: 0.53 [0.45, 0.62] on diabetes, and 0.51 "
            "to 0.57 in three draws of insurance charges, in one of which a leak was found "
            "(benchmarks/results/classical.md).",
            _CLASSICAL_MODELS,
        ),
    ),
}


def advice_for_model(name: str) -> tuple[Bullet, ...]:
    """Return measured advice for an estimator of this class; none where its kind was not measured.

    Examples:
        >>> [bullet.title for bullet in advice_for_model("KNeighborsClassifier")]
        ['Do not release the file.']
    """
    return _ADVICE_OF_FAMILY.get(model_family(name), ())


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
    epsilon = None if answers.epsilon is None else f"On ε: {answers.epsilon}"
    finding = answers.extraction or answers.queries or epsilon or NOT_EVALUABLE
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
            f"The one that this report names is examined and documented here. {finding} Others: not evaluable from "
            "this run.",
        ),
        (
            "MEASURE 2.1: are test sets, metrics and tools documented?",
            "Yes, as far as this report shows them: records by number or digest, metrics, and software with versions.",
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
