"""HTML report of an audit: the verdict, advice, then the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from divulge import evaluation, types
from divulge.auditing.checks import show_finding
from divulge.auditing.scopes import TestedStatistic, scopes, simultaneous_confidence
from divulge.auditing.summary import summarise_audit
from divulge.auditing.verdict import decide_verdict
from divulge.auditing.wording import describe_claim, describe_silence, dot_grids, is_coarse
from divulge.errors import InputError
from divulge.evaluation.epsilon import FROM_SURE_NONMEMBERS
from divulge.report import (
    Chart,
    Collapsible,
    Exhibit,
    Gallery,
    Link,
    Paragraph,
    Section,
    Slider,
    SliderPosition,
    Table,
    charts,
    formatting,
    thumbnail,
)
from divulge.report.charts import MAX_LANES, class_lanes
from divulge.report.formatting import format_count, format_estimate, format_percent_estimate
from divulge.report.page import mark_tokens
from divulge.report.run_kinds import Headline, Origin
from divulge.report.sections import (
    ADVICE_TITLE,
    DECISIONS_TITLE,
    FAIRNESS_TITLE,
    MEASURED_TITLE,
    REFERENCES_TITLE,
    RegulatorAnswers,
    membership_advice,
    regulator_section,
)
from divulge.results import (
    BlindBaseline,
    ClassifierFit,
    ReferenceComparison,
    RegressionFit,
    TextSplit,
    TokenFit,
    to_json_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from divulge.auditing.findings import Findings, Outcome
    from divulge.auditing.scopes import Scope
    from divulge.auditing.wording import Verdict
    from divulge.report.page import Block
    from divulge.results import (
        Accuracy,
        Answer,
        AuditSummary,
        GroupStatistics,
        MemberCalls,
        PartialKnowledgeSettings,
        RealisedRate,
        RecipeStatistics,
        RecordCounts,
        RunMetadata,
    )
    from divulge.types import Array, Estimate


HEADINGS: Mapping[Answer, str] = {
    "leak found": "Leak found",
    "no leak found": "No leak found",
    "too little data to say": "Too little data to say",
    "split is confounded": "No answer: the records compared are too different",
}


FindingsT_co = TypeVar("FindingsT_co", bound="Findings", covariant=True)


@dataclass(frozen=True, eq=False)
class AuditRun(Generic[FindingsT_co]):
    """A finished audit; verdict and summary are computed from its scores once, when they are first read.

    Args:
        audit: what was found.
        find_related: return the same audit under other conditions, by name; only the page needs them.
    """

    audit: FindingsT_co
    find_related: Callable[[], Mapping[str, Findings]] = dict

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the model."""
        return decide_verdict(self.audit)

    @cached_property
    def summary(self) -> AuditSummary:
        """All numbers of the report."""
        return summarise_audit(self.audit, self.verdict)


def headline(run: AuditRun[Any]) -> Headline:
    """Return the verdict, with the strongest rate as grids of dots."""
    decided = run.verdict
    heading, tone, plain = HEADINGS[decided.answer], decided.tone, decided.plain
    if decided.answer == "no leak found":
        heading = describe_silence(decided.reasons[0])
        tone = "undecided" if is_coarse(decided.reasons[0]) else tone  # in the colour of a page that clears nobody
    if decided.reasons and decided.reasons[0].code == "implausible":
        plain = formatting.capitalize(plain.removeprefix("No answer: "))
        heading = "No answer: this may be another model, or one that is asked in another way"
    return Headline(
        tone,
        plain,
        heading,
        (*decided.caveats, *decided.details, *_describe_harm(run.summary)),
        decided.pictures,
        statement=decided.text,
    )


def _describe_harm(summary: AuditSummary) -> list[str]:
    """Say whom a leak may harm; nothing where the comparison says nothing of the model."""
    if summary.about.with_effect("proof"):
        return ["Who may be harmed: people whose records stand in the model. Whoever has its file can read them."]
    if summary.verdict.answer == "split is confounded":
        return []
    harm = (
        "Who may be harmed by a leak: people whose records were used, if that alone says something about them, as with "
        "patients of a clinic."
    )
    partial = summary.about.settings.partial
    if partial is not None and partial.share < 1:
        return [harm]
    return [
        f"{harm} These attacks take a record that is known already, and say whether it was used, not what is in it."
    ]


def sections(run: AuditRun[Any]) -> list[Section]:
    """Return the advice and the evidence; every number comes from the summary or from the scores."""
    audit, summary, audit_verdict, related = run.audit, run.summary, run.verdict, run.find_related()
    aucs = {name: 0.0 if recipe.auc is None else recipe.auc.value for name, recipe in summary.recipes.items()}
    strongest = audit_verdict.recipe or max(aucs, key=aucs.__getitem__)  # a verdict without evidence names none
    about = audit.about
    model = "" if about.estimator is None else about.estimator.name
    advice, measured_elsewhere = membership_advice(
        documents=about.measured(TextSplit) is not None, adapter=about.adapter, model=model
    )
    has_leak, is_void = (summary.verdict.answer == answer for answer in ("leak found", "split is confounded"))
    links = [
        Link(f"{name}/report.html", f"Report: {name}.", decide_verdict(related_audit).plain)
        for name, related_audit in related.items()
    ]
    return [
        Section(ADVICE_TITLE, advice if has_leak else []),
        Section(
            "What attacks measured" if is_void else "Evidence",
            [strongest_recipe_table(summary, strongest, audit_verdict.deciding)],
        ),
        Section("The figures behind the answer", [Paragraph(text) for text in audit_verdict.evidence], annex=True),
        Section(MEASURED_TITLE, measured_elsewhere if has_leak else [], annex=True),
        model_section(summary),
        Section(REFERENCES_TITLE, reference_blocks(summary), annex=True),
        Section("All recipes", [all_recipes_fold(summary)], annex=True),
        known_share_section(audit, tuple(related.values())),
        trade_off_section(audit, strongest),
        classes_section(summary, strongest),
        decisions_section(summary, strongest),
        *([] if is_void else [exposed_section(audit, strongest)]),
        fairness_section(summary),
        *finding_sections(summary),
        Section("The same audit under other conditions", links, annex=True),
        regulator_section(_regulator_answers(audit_verdict, summary, strongest)),
    ]


MODEL_TITLE = "The model"


def model_section(summary: AuditSummary) -> Section:
    """Return what was audited: class and parameters of an estimator, else the type of the target, and how it fits."""
    about, rows = summary.about, []
    if (estimator := about.estimator) is None:
        rows.append(("model", about.settings.target))
    else:
        steps = f", after {', '.join(estimator.steps)}" if estimator.steps else ""
        rows.append(("class", f"{estimator.name}{steps}"))
        # What is left at None says least, such as most of the forty parameters of XGBoost.
        names = sorted(estimator.parameters, key=lambda name: (estimator.parameters[name] is None, name))
        if names:
            rows.append(("parameters", ", ".join(f"{name} = {estimator.parameters[name]}" for name in names)))
    if (accuracy := _accuracy(about)) is not None:
        rows.append(_pair_row("accuracy", format_percent_estimate, accuracy.members, accuracy.nonmembers))
    if (fit := about.measured(RegressionFit)) is not None:
        if fit.r_squared_members is not None and fit.r_squared_nonmembers is not None:
            rows.append(_pair_row("R²", format_estimate, fit.r_squared_members, fit.r_squared_nonmembers))
        rows.append(_pair_row("mean absolute error", formatting.format_error, fit.error_members, fit.error_nonmembers))
    if (tokens := about.measured(TokenFit)) is not None and tokens.perplexity_members and tokens.perplexity_nonmembers:
        perplexities = tokens.perplexity_members, tokens.perplexity_nonmembers
        rows.append(_pair_row(f"perplexity of a {tokens.unit}", formatting.format_error, *perplexities))
    if (compared := about.measured(ReferenceComparison)) is not None:
        matches = {
            None: "too few to tell whether they match the model",
            True: "trained otherwise than the model, so that a leak tends to be understated",
            False: "nothing shows that they were trained otherwise than the model",
        }
        rows += [("reference models", f"{each.models}; {matches[each.differs]}") for each in compared.agreement]
    return Section(MODEL_TITLE, [Table(("what", "value"), rows, sortable=False)], annex=True)


def _accuracy(about: RunMetadata) -> Accuracy | None:
    fit = about.measured(ClassifierFit)
    return None if fit is None else fit.accuracy


def _pair_row(name: str, format_value: Callable[[Any], str], members: Any, nonmembers: Any) -> tuple[str, str]:
    return name, f"{format_value(members)} on members, {format_value(nonmembers)} on non-members"


def _regulator_answers(audit_verdict: Verdict, summary: AuditSummary, strongest: str) -> RegulatorAnswers:
    is_valid = summary.verdict.answer != "split is confounded"
    numbers = summary.recipes[strongest] if summary.adjusted is None else summary.adjusted.recipes[strongest]
    epsilon = None
    if is_valid and numbers.epsilon is not None:
        bound = formatting.format_lower_bound(numbers.epsilon.low)
        epsilon = (
            f"Scores under one trained model bound it from below only: ε ≥ {bound}. {audit_verdict.deciding}".rstrip()
            + " A claim "
            "that training keeps an ε is tested by divulge canaries."
        )
    return RegulatorAnswers(
        means=f"membership inference by {', '.join(summary.recipes)}.",
        extraction=None,
        queries=f"On membership alone: {audit_verdict.plain}" if is_valid else f"Not evaluable. {audit_verdict.plain}",
        epsilon=epsilon,
        unit="One record, as it was given to the audit.",
        guessing=_compare_with_guessing(audit_verdict),
    )


def _compare_with_guessing(audit_verdict: Verdict) -> str:
    """Answer whether an attack exceeds guessing; that none was seen to is no demonstration that none does."""
    match audit_verdict.answer:
        case "leak found":
            return f"Not met. {audit_verdict.plain}"
        case "no leak found":
            sentences = " ".join((audit_verdict.plain, *audit_verdict.caveats, *audit_verdict.evidence))
            return f"Met by the attacks that were run, down to the size that is named. {sentences}"
        case _:
            return f"Not shown. {audit_verdict.plain}"


_MAX_TARGET_LENGTH = 200  # characters; the summary holds all


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TARGET_LENGTH else f"{text[:_MAX_TARGET_LENGTH]} …"


def origin(run: AuditRun[Any]) -> Origin:
    """Return seed, target, accuracy, digests, configurations and timings."""
    about = run.summary.about
    settings = about.settings
    facts = {"seed": str(settings.seed), "target": _shorten(settings.target)}
    if (accuracy := _accuracy(about)) is not None:
        qualifier = "completed " if accuracy.completed else ""
        facts |= {f"target's accuracy on {qualifier}members": format_percent_estimate(accuracy.members)}
        facts |= {f"target's accuracy on {qualifier}non-members": format_percent_estimate(accuracy.nonmembers)}
    fit_facts = formatting.format_regression_fit(about.measured(RegressionFit))
    facts |= {f"target's {name}": text for name, text in fit_facts.items()}
    if (fit := about.measured(TokenFit)) is not None:
        facts |= {f"target's log-probability of a {fit.unit} of the members": f"{fit.members:.3f}"}
        facts |= {f"beyond {fit.unit} frequencies of the population": format_estimate(fit.gain, "+")}
        facts |= {f"target's {name}": text for name, text in formatting.format_token_fit(fit).items()}
    rows = [[f"{name}, SHA-256", digest] for name, digest in to_json_values(settings.data).items() if digest]
    rows += [["reference models", settings.references], ["trained by", about.engine or "–"]]
    timings = [[name, f"{seconds:.2f}"] for name, seconds in about.timings.items()]
    attacks = [[name, recipe.attack] for name, recipe in about.recipes.items()]
    folds = [
        Collapsible("Records and reference models", [Table(["what", "value"], rows, sortable=False)]),
        Collapsible("Configuration of every recipe", [Table(["recipe", "configuration"], attacks)]),
        Collapsible("Time", [Table(["step", "seconds"], timings)]),
    ]
    return Origin(facts, folds)


def facts(run: AuditRun[Any]) -> dict[str, str]:
    """Return the model, how many records were compared, and how many the attacks were built from."""
    summary, about = run.summary, run.summary.about
    counts = about.counts
    training, others = _count_compared(counts)
    facts = {
        "model": about.settings.target.partition(", weights ")[0] if about.estimator is None else about.estimator.name,
        "compared": f"{training} with {others}",
        "used to build the attack": f"{counts.population + counts.calibration:,} further records",
    }
    if summary.unseen_classes:
        unseen = (formatting.class_name(label, summary.class_names) for label in summary.unseen_classes)
        facts["classes unknown to the attacker"] = ", ".join(unseen)
    return facts | {"divulge": summary.divulge}


def _count_compared(counts: RecordCounts) -> tuple[str, str]:
    return formatting.format_count(counts.members, "training record"), formatting.format_count(
        counts.nonmembers, "other"
    )


_INTERVALS_NOTE = (
    "All intervals of AUC, TPR and ε hold together with 95 % confidence, here and in the verdict; that of the "
    "advantage is as wide as each of them. TPR at FPR is conservative: the threshold's own uncertainty is in the "
    "interval. ε is a lower bound, 0 where nothing can be claimed; it assumes independent scores, which is only "
    "approximately true under a single trained model, and the lower of two: by the score as it is, and less what the "
    "records alone explain."
)


_N_BEST = 3  # attacks in the table of a terminal


def best_recipes(summary: AuditSummary, verdict: Verdict) -> tuple[str, list[str], list[list[str]]]:
    """Return title, columns and rows of the attacks with the largest AUC, that of the verdict first, as it judges."""
    scope = next((reason.scope for reason in verdict.reasons if reason.scope is not None), None)
    is_unseen = bool(summary.unseen_classes) and scope is not None and scope.name != "all"
    adjusted = summary.adjusted is not None
    statistics = summary.recipes if summary.adjusted is None else summary.adjusted.recipes
    aucs = {name: numbers.auc for name, numbers in statistics.items()}
    if is_unseen and not adjusted:
        aucs = {name: None if recipe.unseen is None else recipe.unseen.auc for name, recipe in summary.recipes.items()}
    best = sorted(aucs, key=lambda name: (name != verdict.recipe, 0.0 if (auc := aucs[name]) is None else -auc.value))
    columns, rows = recipe_table(
        summary, unseen=is_unseen and not adjusted, adjusted=adjusted, names=best[:_N_BEST], brief=True
    )
    count = len(summary.recipes)
    title = f"The {_N_BEST} best of {count} attacks" if count > _N_BEST else "Attacks"
    where = ", on the unseen classes" if is_unseen and not adjusted else ", adjusted for covariates" if adjusted else ""
    void = "; as the groups differ, these say nothing of the model" if verdict.answer == "split is confounded" else ""
    return f"{title}{where}{void}", columns, rows


def recipe_table(
    summary: AuditSummary,
    *,
    unseen: bool = False,
    adjusted: bool = False,
    names: Sequence[str] | None = None,
    brief: bool = False,
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of the table of recipes.

    Args:
        summary: of the audit.
        unseen: the unseen classes alone, in place of all candidates.
        adjusted: adjusted for covariates.
        names: of the recipes, in order; all of them when None.
        brief: AUC and TPR alone.
    """
    levels = [f"{level:g}" for level in summary.fpr]
    columns = [
        "attack" if brief else "recipe",
        "AUC",
        *(f"TPR at FPR {formatting.format_percent(level)}" for level in summary.fpr),
        *(() if brief else ("advantage", "ε ≥", "queries")),
    ]
    rows = []
    for name in summary.recipes if names is None else names:
        recipe = summary.recipes[name]
        numbers = recipe.unseen if unseen else recipe
        if adjusted and summary.adjusted is not None:
            numbers = summary.adjusted.recipes[name]
        if numbers is None:
            continue
        epsilon = "–" if numbers.epsilon is None else formatting.format_lower_bound(numbers.epsilon.low)
        rates = [format_percent_estimate(numbers.tpr_at_fpr[level]) for level in levels]
        queries = str(summary.about.recipes[name].queries)
        more = () if brief else (format_estimate(numbers.advantage), epsilon, queries)
        rows.append([name, format_estimate(numbers.auc), *rates, *more])
    return columns, rows


def recipe_notes(summary: AuditSummary) -> list[str]:
    """Return notes on the table of recipes: sources of ε, and false-positive rates that were exceeded."""
    notes = []
    bounds = [
        f"{name}{suffix} (ε ≥ {formatting.format_lower_bound(epsilon.low)})"
        for name, suffix, numbers in _iterate_numbers(summary)
        if (epsilon := numbers.epsilon) and epsilon.method.endswith(FROM_SURE_NONMEMBERS)
    ]
    if bounds:
        notes.append(
            "these bounds on ε come from sure non-members, records that score lower than nearly every member; they do "
            f"not show that a member can be named: {', '.join(bounds)}"
        )
    recipes_by_note: dict[str, list[str]] = {}
    for name, suffix, numbers in _iterate_numbers(summary):
        for level, rate in numbers.realised_fpr.items():
            if rate and rate.broken:
                where = suffix or (" among all candidates" if summary.unseen_classes else "")
                note = f"more non-members{where} are called members than the {_format_level(level)} asked for"
                recipes_by_note.setdefault(note, []).append(f"{name} {format_percent_estimate(rate.rate)}")
    reason = (
        "as is to be expected where the auditor holds no record of these classes; no claim on them rests on this "
        "threshold"
        if summary.unseen_classes
        else "and the luck of one calibration does not explain it: do not rely on decisions at this rate"
    )
    return notes + [f"{note}, {reason}: {', '.join(recipes)}" for note, recipes in recipes_by_note.items()]


def iterate_scopes(summary: AuditSummary) -> Iterator[tuple[str, str, RecipeStatistics]]:
    """Yield every recipe's numbers on all candidates, on the unseen classes, and adjusted for covariates."""
    for name, suffix, numbers in _iterate_numbers(summary):
        yield name, "unseen classes" if suffix else "all", numbers
    if summary.adjusted is not None:
        for name, numbers in summary.adjusted.recipes.items():
            yield name, "adjusted", numbers


def _iterate_numbers(summary: AuditSummary) -> Iterator[tuple[str, str, RecipeStatistics]]:
    """Yield every recipe's numbers on all candidates, then on the unseen classes."""
    for name, recipe in summary.recipes.items():
        yield name, "", recipe
        if recipe.unseen is not None:
            yield name, " on the unseen classes", recipe.unseen


def strongest_recipe_table(summary: AuditSummary, name: str, deciding: str = "") -> Table:
    """Table of one recipe: each statistic with its interval, beside its value by guessing; then what else decided."""
    recipe = summary.recipes[name]
    scopes: dict[str, RecipeStatistics] = {"": recipe}
    if recipe.unseen:
        scopes = {"unseen classes": recipe.unseen, "all candidates": recipe}
    if summary.adjusted is not None:
        unadjusted = {f"{scope} without adjustment".lstrip(): numbers for scope, numbers in scopes.items()}
        scopes = {"adjusted": summary.adjusted.recipes[name], **unadjusted}
    rows = [
        ["tells which of two records was trained on (AUC)", *(format_estimate(each.auc) for each in scopes.values()),
         "0.5"]
    ]  # fmt: skip
    for level in summary.fpr:
        rates = [format_percent_estimate(each.tpr_at_fpr[f"{level:g}"]) for each in scopes.values()]
        chance = formatting.format_percent(level)
        rows.append(
            [f"recognises training records, wrongly accusing {chance} of others (TPR at FPR {chance})", *rates, chance]
        )
    values = [scope or "value" for scope in scopes]
    note = "In brackets: ranges that hold the true values, with 95 % confidence for all attacks at once."
    note = f"{note} {deciding}".rstrip()
    return Table(
        ["what the attack does", *values, "by guessing"],
        rows,
        title=f"{name}: {describe_recipe(summary, name)}",
        note=note if summary.adjusted is None else f"{summary.adjusted.text} {note}",
        sortable=False,
    )


def reference_blocks(summary: AuditSummary) -> list[Block]:
    """Say how well reference models match the target, and which settings were tried."""
    about, blocks = summary.about, _found_blocks(summary, REFERENCES_TITLE)
    matched, compared = about.matched, about.measured(ReferenceComparison)
    if matched is None:
        return blocks
    rows = [
        [
            each.setting,
            str(each.models),
            (each.failure or "training diverged") if each.rmse is None else format_estimate(each.rmse),
            "–" if each.score is None else format_estimate(each.score),
        ]
        for each in matched.tried
    ]
    note = (
        f"RMSE of {matched.distance} on {matched.held_out:,} population records that neither the target nor a trial "
        "model was trained on; the nearest was chosen. The last column is the mean difference less half of that "
        "between two trainings of it. The nearest of many looks a little nearer than it is"
        + (
            ": the paragraph above is of records without a part in the choice."
            if compared is not None and compared.agreement
            else "."
        )
    )
    columns = ["setting", "trial models", "RMSE to the target", "beyond the scatter"]
    table = Table(columns, rows, note=note, sortable=False)
    return [*blocks, Collapsible(f"Settings of the reference models: {matched.chosen}", [table])]


def describe_recipe(summary: AuditSummary, name: str) -> str:
    """Describe a recipe in one line."""
    about = summary.about.recipes[name]
    return about.summary or about.signal


def all_recipes_fold(summary: AuditSummary) -> Collapsible:
    """Return tables of all recipes, on all candidates and on the unseen classes."""
    blocks: list[Block] = []
    if summary.unseen_classes:
        listed = ", ".join(formatting.class_name(label, summary.class_names) for label in summary.unseen_classes)
        title = f"Unseen classes {listed}: the auditor holds no record of them"
        blocks.append(Table(*recipe_table(summary, unseen=True), title=title))
    if summary.adjusted is not None:
        blocks.append(
            Table(*recipe_table(summary, adjusted=True), title="Adjusted for covariates, as the verdict judges")
        )
    title = "All candidates" if summary.adjusted is None else "All candidates, without adjustment"
    blocks.append(Table(*recipe_table(summary), title=title, note=_INTERVALS_NOTE))
    blocks += [Paragraph(formatting.as_sentence(text)) for text in recipe_notes(summary)]
    descriptions = [[name, r.signal, r.summary, r.references] for name, r in summary.about.recipes.items()]
    blocks.append(Table(["recipe", "signal", "attack", "reference models"], descriptions, title="What was run"))
    return Collapsible(f"All recipes ({len(summary.recipes)})", blocks)


_SLIDER_LEVELS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def trade_off_section(audit: Findings, strongest: str) -> Section:
    """ROC curves behind the verdict, and the strongest recipe's rates by a slider."""
    blocks: list[Block] = []
    for scope in scopes(audit):
        title = "ROC, all candidates" if scope.name == "all" else "ROC on the unseen classes"
        blocks.append(
            Chart(
                roc_specification(scope, strongest),
                title=f"{title}, adjusted for covariates" if scope.adjusted else title,
                note="Both axes are logarithmic. The band is a pointwise 95 % interval of one recipe, the dashed line "
                "is guessing.",
            )
        )
    # The slider shows all candidates, and levels alone at which so many non-members can tell a rate.
    scope, confidence = scopes(audit)[-1], simultaneous_confidence(audit)
    outcome = next(outcome_of_scope for outcome_of_scope in scope.outcomes if outcome_of_scope.recipe == strongest)
    levels = sorted({*_SLIDER_LEVELS, *audit.fpr})
    levels = [level for level in levels if scope.nonmembers >= evaluation.min_nonmembers(level)]
    if stops := [_slider_stop(outcome, level, confidence) for level in levels]:
        start = min(range(len(levels)), key=lambda i: abs(levels[i] - min(audit.fpr)))
        adjusted = ", adjusted for covariates" if scope.adjusted else ""
        note = (
            f"{strongest}, all candidates{adjusted}. Intervals are as wide as those of the verdict; those of "
            "false-positive rates that the audit was not asked for are not among the ones that hold together."
        )
        title = "How many are recognised, at which price"
        blocks.append(Slider("false-positive rate", stops, start, title=title, note=note))
    return Section("Trade-off", blocks, annex=True)


def roc_specification(scope: Scope, focus: str | None = None) -> charts.Spec:
    """Return the ROC curves of every recipe in a scope, as a Vega-Lite specification."""
    curves = {outcome.recipe: outcome.roc for outcome in scope.outcomes}
    return charts.roc({name: charts.Curve(c.fpr, c.tpr, c.low, c.high) for name, c in curves.items()}, focus=focus)


def _slider_stop(outcome: Outcome, level: float, confidence: float) -> SliderPosition:
    rate = evaluation.tpr_at_fpr(outcome.scores, outcome.members, level, confidence)
    label = formatting.format_percent(level)
    if rate.low > level:
        return SliderPosition(label, *describe_claim(TestedStatistic(outcome.recipe, "TPR", level, rate)))
    # Compared with 1, as no interval of a rate excludes chance here: a hundred is enough to say so.
    rate_words, accused = formatting.natural_frequency(rate, 1.0), formatting.format_others(level)
    words = (
        f"{rate_words.describe('training records')} are recognised while wrongly accusing at most {accused}: not "
        "measurably more than by guessing."
    )
    return SliderPosition(label, words, dot_grids(rate_words, level))


_MAX_LISTED = 300  # classes or subgroups in a table


def classes_section(summary: AuditSummary, strongest: str) -> Section:
    """AUC by class and by subgroup: a chart of all recipes and a table of the strongest."""
    blocks: list[Block] = []
    for grouping in ("class", "group"):
        by_recipe = {
            name: recipe.classes if grouping == "class" else recipe.groups for name, recipe in summary.recipes.items()
        }
        series = {
            name: known
            for name, groups in by_recipe.items()
            if (known := {group: row for group, row in groups.items() if row.auc is not None})
        }
        if strongest in series:
            blocks.append(_group_chart(summary, series, grouping, strongest))
        if groups := by_recipe[strongest]:
            blocks.append(
                Collapsible(
                    f"{strongest} by {grouping}, in figures",
                    [_group_table(groups, grouping, strongest, max(summary.fpr))],
                )
            )
    return Section("Classes and subgroups", blocks, annex=True)


def _group_chart(
    summary: AuditSummary, series: Mapping[str, Mapping[str, GroupStatistics]], grouping: str, strongest: str
) -> Chart:
    unseen = (
        {formatting.class_name(label, summary.class_names) for label in summary.unseen_classes}
        if grouping == "class"
        else set()
    )
    estimates = {
        name: {
            f"{grouping} {group}{' (unseen)' if group in unseen else ''}": row.auc
            for group, row in groups.items()
            if row.auc is not None
        }
        for name, groups in series.items()
    }
    count = len(estimates[strongest])
    cut_note = f" The {MAX_LANES} with the largest AUC of {count} are shown." if count > MAX_LANES else ""
    return Chart(
        class_lanes(estimates, focus=strongest, quantity="AUC", reference=0.5),
        title=f"AUC by {grouping}",
        note="One dot per recipe. The whiskers are the intervals of verdict and gate, which hold together with 95 % "
        f"confidence over classes, groups and recipes; the dashed line is guessing.{cut_note}",
    )


def _group_table(groups: Mapping[str, GroupStatistics], grouping: str, name: str, level: float) -> Table:
    """Table of rates by group; of very many groups, those with the largest AUC."""
    ordered = sorted(groups, key=lambda group: -(0.0 if (auc := groups[group].auc) is None else auc.value))
    listed, count = set(ordered[:_MAX_LISTED]), len(groups)
    cut_note = f" Of {count:,}, the {_MAX_LISTED} with the largest AUC are listed; summary.json has all."
    cut_note = cut_note if count > _MAX_LISTED else ""
    columns = [grouping, "members", "non-members", "AUC", "TPR", "FPR"]
    rows = [
        [group, str(row.members), str(row.nonmembers), format_estimate(row.auc), *map(format_percent_estimate, rates)]
        for group, row in groups.items()
        if group in listed
        for rates in [(row.tpr, row.fpr)]
    ]
    nominal = formatting.format_percent(level)
    note = (
        f"TPR and FPR at a common threshold, where the FPR over all non-members is at most {nominal}. The intervals of "
        f"the AUC are those of verdict and gate; the others are as wide.{cut_note}"
    )
    return Table(columns, rows, title=f"{name}: by {grouping}", note=note)


def decisions_section(summary: AuditSummary, strongest: str) -> Section:
    """Decisions and realised rates of the strongest recipe; those of the others folded."""
    names = list(summary.recipes)
    said_elsewhere = {finding.sentence.rstrip(".") for finding in summary.about.findings}
    recipes_by_warning: dict[str, list[str]] = {}
    for name, recipe_summary in summary.recipes.items():
        warnings = {text for d in recipe_summary.decisions.values() if d for text in d.warnings}
        for text in sorted(warnings - said_elsewhere):
            recipes_by_warning.setdefault(text, []).append(name)
    paragraphs = [
        text if len(warned) == len(names) else f"of {formatting.join_words(warned)}: {text}"
        for text, warned in sorted(recipes_by_warning.items())
    ]
    recipe = summary.recipes[strongest]
    rows = []
    for level, decision in recipe.decisions.items():
        n_called, _, claim = _format_claim(decision)
        rate = recipe.realised_fpr[level]
        rows.append(
            [
                _format_level(level),
                n_called,
                "–" if rate is None else format_percent_estimate(rate.rate),
                _format_realised(rate, summary)[1],
                claim,
            ]
        )
    columns = ["FPR asked for", "called members", "realised FPR", "compared", "claim and assumptions"]
    everything = [_claims_table(summary, names), _realised_table(summary, names)]
    blocks: list[Block] = [
        Table(columns, rows, title=f"{strongest}, all candidates", sortable=False),
        Collapsible(f"All recipes ({len(names)}), and what was realised", everything),
        *(Paragraph(formatting.as_sentence(text)) for text in paragraphs),
    ]
    return Section(DECISIONS_TITLE, blocks, annex=True)


def _format_level(level: str) -> str:
    return formatting.format_percent(float(level))


def _claims_table(summary: AuditSummary, names: Sequence[str]) -> Table:
    rows = [
        [name, _format_level(level), *_format_claim(decision)]
        for name in names
        for level, decision in summary.recipes[name].decisions.items()
    ]
    columns = ["recipe", "nominal FPR", "called members", "one calibration's FPR", "claim and assumptions"]
    note = (
        "A marginal claim is an average over calibrations; the FPR of a single one lies in the interval shown (95 %, "
        "Beta distribution of the conformal rank)."
    )
    return Table(columns, rows, note=note)


def _realised_table(summary: AuditSummary, names: Sequence[str]) -> Table:
    rows = []
    for name in names:
        recipe = summary.recipes[name]
        for level in recipe.decisions:
            for scope, numbers in (("all", recipe), ("unseen classes", recipe.unseen)):
                if numbers is not None:
                    raw = format_percent_estimate(recipe.raw_fpr.get(level)) if scope == "all" else "–"
                    rows.append(
                        [
                            name,
                            scope,
                            _format_level(level),
                            *_format_realised(numbers.realised_fpr[level], summary),
                            raw,
                        ]
                    )
    columns = ["recipe", "candidates", "nominal FPR", "realised FPR", "compared", "raw"]
    note = (
        "The share of true non-members called members by a conformal-rank threshold on calibration records, which "
        "nothing was trained on, and whether its 95 % interval contains the nominal rate. A rate above nominal may be "
        "the luck of one calibration; where it is called higher than asked for, such luck has less than 5 % "
        "probability over all rows together. “Raw” is the threshold a quantile regressor would set by itself. A dash: "
        "too few records."
    )
    return Table(columns, rows, title="Realised on these non-members", note=note)


def _format_realised(rate: RealisedRate | None, summary: AuditSummary) -> tuple[str, str]:
    if rate is None:
        return "–", "–"
    is_expected = rate.broken and bool(summary.unseen_classes)
    return format_percent_estimate(
        rate.rate
    ), "higher, as is expected of unseen classes" if is_expected else rate.judged


def _format_claim(decision: MemberCalls | None) -> tuple[str, str, str]:
    if decision is None:
        return "–", "–", "too few calibration records for this level"
    return str(decision.selected), format_percent_estimate(decision.one_calibration), decision.guarantee


_MAX_EXHIBITS = 12
_MAX_UNFOLDED = 6  # documents, or rows of a table, that are not folded


def exposed_section(audit: Findings, strongest: str) -> Section:
    """Members that the strongest recipe tells from nearly all non-members of their own class."""
    scores, nonmembers = audit.scores[strongest], ~audit.members
    member_rows = [
        int(row) for row in evaluation.rank_exposed(scores, audit.members, audit.labels) if int(row) in audit.exhibits
    ][:_MAX_EXHIBITS]
    exhibits = [_make_exhibit(audit, row, float(scores[row])) for row in member_rows]

    def count_as_high(row: int) -> int:
        is_comparable = nonmembers if audit.labels is None else nonmembers & (audit.labels == audit.labels[row])
        return int((scores[is_comparable] >= scores[row]).sum())

    n_as_high = max(map(count_as_high, member_rows), default=0)
    others = f"at most {format_count(n_as_high, 'non-member')}" if n_as_high else "no non-member"
    verb = "scores" if n_as_high < 2 else "score"
    of_class = " of its own class" if audit.labels is not None else ""
    note = (
        f"Members with the highest scores under {strongest}, the strongest recipe here: for each, "
        f"{others}{of_class} {verb} as high."
    )
    if audit.heat:
        baseline = next(iter(audit.heat.values())).against
        note += f" The deeper a token is marked, the likelier the target finds it than {baseline} does."
        if any(strip.starts is not None for strip in audit.heat.values()):
            note += " Prompts are pale: answers alone are scored."
    # Pictures are taken in at a glance; rows and documents are long.
    n_unfolded = _MAX_EXHIBITS if all(exhibit.png for exhibit in exhibits) else _MAX_UNFOLDED
    folded = (
        [Collapsible(f"{len(exhibits) - n_unfolded} more", [Gallery(exhibits[n_unfolded:])])]
        if len(exhibits) > n_unfolded
        else []
    )
    return Section(
        "Most exposed records", [Gallery(exhibits[:n_unfolded], note=note), *folded] if exhibits else [], annex=True
    )


def _make_exhibit(audit: Findings, row: int, score: float) -> Exhibit:
    label = (
        "" if audit.labels is None else f", class {formatting.class_name(int(audit.labels[row]), audit.class_names)}"
    )
    caption = f"{audit.ids[row]}{label}, score {score:.4g}"
    value = audit.exhibits[row]
    if isinstance(value, str):
        value = value.replace(types.SEPARATOR, "\n")
        return Exhibit(caption, text=value, heat=mark_tokens(value, audit.heat.get(row)))
    image = _as_image(value)
    if image is not None:
        return Exhibit(caption, png=thumbnail(image))
    return Exhibit(caption, text=", ".join(f"{number:.4g}" for number in value.ravel()[:64]))


def _as_image(value: Array) -> Array | None:
    """Scale ``[h, w]``, ``[h, w, 3]`` or channels-first arrays to [0, 1]; None for a row of a table."""
    if value.ndim == 3 and value.shape[0] in (1, 3):
        value = np.moveaxis(value, 0, -1)
    if value.ndim == 3 and value.shape[-1] == 1:
        value = value[..., 0]
    if value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[-1] != 3):
        return None
    low, high = float(value.min()), float(value.max())
    return (value - low) / (high - low) if high > low else np.zeros(value.shape)


def fairness_section(summary: AuditSummary) -> Section:
    """Say whether the groups can be compared, what checks found against it, and warnings; the figures are folded."""
    about = summary.about
    counts = about.counts
    baseline = about.measured(BlindBaseline)
    texts = [
        f"{' with '.join(_count_compared(counts))}: these were compared. "
        f"The attacks were built from {counts.population:,} further records, and "
        f"{counts.calibration:,} more show what is usual.",
        *map(formatting.as_sentence, about.warnings),
    ]
    if baseline is not None and not about.with_effect("not comparable"):
        texts.insert(0, "Nothing shows that the training records and the others can be told apart without the model.")
    in_figures = [
        block for each in about.findings if each.section == FAIRNESS_TITLE and each.effect == "none"
        for block in show_finding(each)
    ]  # fmt: skip
    found = [
        block for each in about.findings if each.section == FAIRNESS_TITLE and each.effect != "none"
        for block in show_finding(each)
    ]  # fmt: skip
    fold = [Collapsible("What was checked, in figures", in_figures)] if in_figures else []
    return Section(FAIRNESS_TITLE, [*found, *map(Paragraph, texts), *fold])


def _found_blocks(summary: AuditSummary, title: str) -> list[Block]:
    """Return what checks found that stands in the section of that title."""
    return [block for each in summary.about.findings if each.section == title for block in show_finding(each)]


def finding_sections(summary: AuditSummary) -> list[Section]:
    """Return a section for each finding that stands in none of the others."""
    return [
        Section(finding.section or formatting.capitalize(finding.check), show_finding(finding), annex=True)
        for finding in summary.about.findings
        if finding.section not in (FAIRNESS_TITLE, REFERENCES_TITLE)
    ]


def known_share_section(audit: Findings, related: Sequence[Findings]) -> Section:
    """Show known share and imputer of partly known records, with curves over several shares.

    Args:
        audit: the audit reported.
        related: the same audit under other conditions; those of partly known records are shown beside it.
    """
    partial = audit.about.settings.partial
    if partial is None:
        return Section("Known share", [])
    recipes = audit.about.recipes
    rows = [[name, recipes[name].completed_by or "nothing", str(recipes[name].queries)] for name in audit]
    blocks: list[Block] = [
        Paragraph(_describe_completion(partial)),
        Table(["recipe", "completed by", "queries"], rows, title="How each number was computed"),
    ]
    audits = sorted((a for a in (audit, *related) if a.about.settings.partial is not None), key=_known_share)
    if len(audits) > 1:
        level = min(audit.fpr)
        names = {"auc": "AUC", f"tpr@fpr={level:g}": f"TPR at FPR {formatting.format_percent(level)}"}
        chance = {"auc": 0.5}
        blocks += [
            _known_share_chart(audits, statistic, name, chance.get(statistic, level))
            for statistic, name in names.items()
        ]
        blocks.append(_known_share_table(audits, names))
    return Section("Known share", blocks, annex=True)


def _describe_completion(partial: PartialKnowledgeSettings) -> str:
    if partial.share == 1.0:
        return "Every value of every record is known; nothing was completed."
    draws = f" and {partial.draws} random draws" if partial.draws else ""
    return (
        f"The adversary knows {formatting.format_percent(partial.share)} of the values. The others were completed from "
        f"the population by: {partial.imputer} (the single best completion{draws} of every record). A number made with "
        "another imputer is another attack's."
    )


def _known_share(audit: Findings) -> float:
    partial = audit.about.settings.partial
    return 1.0 if partial is None else partial.share


def _known_share_chart(audits: Sequence[Findings], statistic: str, name: str, chance: float) -> Chart:
    curves = {}
    for recipe in audits[0]:
        points = [(_known_share(audit), _measure_or_none(audit, recipe, statistic)) for audit in audits]
        known_points = [(share, estimate) for share, estimate in points if estimate is not None]
        if known_points:
            shares = [share for share, _ in known_points]
            bounds = ([getattr(estimate, bound) for _, estimate in known_points] for bound in ("value", "low", "high"))
            curves[recipe] = charts.Curve(shares, *bounds)
    spec = charts.lines(curves, x="known share of the record", y=name, reference=chance)
    note = (
        "The bands are as wide as the intervals of each share's own verdict. The same candidates, with more and more "
        "of each record known."
    )
    return Chart(spec, title=f"{name} by known share", note=note)


def _measure_or_none(audit: Findings, recipe: str, statistic: str) -> Estimate | None:
    """Measure a statistic as the verdict on ``audit`` does; None if the recipe was not run or has too few records."""
    if recipe not in audit.scores:
        return None
    try:
        outcome = scopes(audit)[-1].outcomes[list(audit).index(recipe)]
        return evaluation.measure(outcome.scores, outcome.members, statistic, simultaneous_confidence(audit))
    except InputError:
        return None


def _known_share_table(audits: Sequence[Findings], statistics: Mapping[str, str]) -> Table:
    whole_audit = next((audit for audit in audits if _known_share(audit) == 1.0), None)
    rows = []
    for audit in audits:
        for recipe in audit:
            values = [
                (format_estimate if statistic == "auc" else formatting.format_percent_estimate)(
                    _measure_or_none(audit, recipe, statistic)
                )
                for statistic in statistics
            ]
            queries = str(audit.about.recipes[recipe].queries)
            share, gap = formatting.format_percent(_known_share(audit)), _gap_to_whole(audit, whole_audit, recipe)
            rows.append([share, recipe, *values, gap, queries])
    columns = ["known", "recipe", *statistics.values(), "AUC minus that of the whole record", "queries"]
    note = (
        "Intervals are those of each share's own verdict. Those of the gaps are of paired differences, record by "
        "record, each by itself with 95 % confidence."
    )
    if whole_audit is None:
        note = "No gap to the whole record is shown: add the share 1 (known = [..., 'share:1'])."
    return Table(columns, rows, title="By known share", note=note)


def _gap_to_whole(audit: Findings, whole_audit: Findings | None, recipe: str) -> str:
    if whole_audit is None or whole_audit is audit or recipe not in whole_audit.scores:
        return "–"
    outcome, whole_outcome = audit[recipe], whole_audit[recipe]
    if outcome.is_counted is not None:  # copies are no further observations
        outcome, whole_outcome = outcome.on(outcome.is_counted), whole_outcome.on(outcome.is_counted)
    return format_estimate(
        evaluation.paired_difference(outcome.scores, whole_outcome.scores, outcome.members, "auc"), "+"
    )
