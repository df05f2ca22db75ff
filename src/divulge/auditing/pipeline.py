"""The audit from inputs to result: prepare, compute signals, score, check the split, write the run directory."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import chats, columns, errors, evaluation, store
from divulge.attacks import Need, Scored
from divulge.auditing import checks, signals
from divulge.auditing.checks import ScoredAudit, determinism
from divulge.auditing.checks.covariates import collect_covariates
from divulge.auditing.default_references import choose_references
from divulge.auditing.gates import Policy
from divulge.auditing.inputs import (
    ALL_KNOWN,
    align_data,
    attach_features,
    attach_placeholders,
    check_inputs,
    complete_inputs,
)
from divulge.auditing.language_modality import ANSWERS_FILE, LanguageModel, with_journal
from divulge.auditing.modality import Classifier, Modality, RegressionModel, resolve_task
from divulge.auditing.prepared import (
    AuditLog,
    PreparedAudit,
    add_scoring_time,
    check_memory_fits,
    count_records,
    describe_arguments,
    describe_settings,
    describe_target,
    estimate_check_seconds,
    is_adapter,
    make_forecast,
    recipe_metadata,
    summarise_estimator,
)
from divulge.auditing.reference_match import choose_held_out, describe_engines, match_references
from divulge.auditing.result import KIND, Audit
from divulge.auditing.signals import score_recipe
from divulge.auditing.target_features import refuse_target_as_features
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.evaluation.covariates import adjust
from divulge.provenance import collect_environment
from divulge.references import Train, matching
from divulge.references.progress import ProgressSetting, check_progress, ignore_progress, show_progress
from divulge.results import HeatStrip, RunMetadata, to_json_values
from divulge.run_directory import RunDirectory, RunDraft, check_out
from divulge.settings import AuditOptions, Duplicates, Outputs, ResolvedAuditSettings
from divulge.targets import (
    GivesTokens,
    Task,
    adapt,
    declared_modality,
    is_language_model,
    is_regression_model,
    token_statistics,
)
from divulge.types import AuditData, Records
from divulge.validation import check_bool, check_choice, check_instance, check_path, require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.auditing.prepared import Forecast
    from divulge.evidence import Measurements
    from divulge.recipes import Recipe
    from divulge.references import Progress
    from divulge.results import RunSettings
    from divulge.types import Array, Bools, Floats

_DEFAULTS, _DEFAULT_OPTIONS = ResolvedAuditSettings(), AuditOptions()


def audit(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records | None = AuditData.population,
    recipes: Sequence[Any] = _DEFAULTS.recipes,
    references: Any = _DEFAULTS.references,
    unseen_classes: Sequence[int | str] = AuditData.unseen_classes,
    fpr: Sequence[float] = _DEFAULTS.fpr,
    groups: Sequence[str] | None = AuditData.groups,
    features: Any = AuditData.features,
    duplicates: Duplicates = _DEFAULTS.duplicates,
    outputs: Outputs = _DEFAULTS.outputs,
    task: Task = _DEFAULTS.task,
    device: str = _DEFAULTS.device,
    show_records: bool = _DEFAULTS.show_records,
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
    options: AuditOptions = _DEFAULT_OPTIONS,
) -> Audit:
    """Measure how well an adversary can tell ``target``'s training records from others.

    Args:
        target: a torch module, scikit-learn classifier or regressor, callable, anything with ``logits(records)``, with
            ``labels(records)`` for recipes that ask for labels alone, or with ``predictions(records)``: real values.
        members: records the target was trained on.
        nonmembers: records of the same kind that it was not trained on.
        population: other data that the auditor holds, known not to be in the training set; may lack classes. A quarter
            is set aside: attacks never learn from it, its scores are the null
            distribution of every decision.
        recipes: names (`divulge list` shows them), settings such as ``divulge.recipes.LiRA(mode="online")``,
            `divulge.recipes.Recipe` objects or "module:Class". By default "auto", the attacks that do best in the
            circumstances, "loss" to compare with, and what reads no label ("max-probability") or, of documents, the
            last tokens.
        references: how reference models are trained (`divulge.references.Train`). "auto": of an estimator, 16 clones,
            where a recipe learns from them and they take less than a minute of one core; the settings of the run say
            whether. None: none are.
        unseen_classes: classes of which the auditor holds no records.
        fpr: false-positive rates to report.
        groups: a subgroup's name for each member, then for each non-member.
        features: what else is known of each record, such as a pretrained network's embedding of it, from which
            attacks may learn beside its own components (``transductive``, ``rmia-residual``, …): a mapping of
            ``members``, ``nonmembers`` and ``population`` to arrays ``[n, d]`` or data frames of numbers; a function of
            `Records` that returns such, called once on all of them, or "module:function"; a ``torch.nn.Module``, such
            as a pretrained body; or the beginning of the names of columns, which then are no part of a record. The
            target is not given them. They must not come from the target itself: what it says of a record depends on
            membership. A module with the target's parameters is refused, features that determine its answers are
            warned of.
        duplicates: what to do about records that occur in several sets: "error", "drop" or "keep".
        outputs: "logits" or "probabilities": what ``target`` returns, if it is a module or callable.
        task: "classification", "regression" (``y`` holds real values), or "auto": what an estimator says of itself; a
            module or callable of one output is a regression model where some of ``y`` is not a whole number.
        device: where a torch module runs: "auto", "cpu", "cuda", "mps".
        show_records: whether the most exposed records are kept in the run directory and shown in the report.
        seed: of every random draw.
        out: run directory to write; nothing is written when None.
        overwrite: replace a finished run in ``out`` (finished reference models are kept and reused).
        progress: called with (done, total, note) while reference models are trained; "auto" or True: a bar on a
            terminal and in a notebook; None or False: nothing.
        options: what few audits need: `divulge.AuditOptions`.

    Returns:
        An `Audit`: ``result["lira"].auc``, ``result["lira"].tpr_at_fpr(0.01)``, ``result.report(path)``.

    Raises:
        divulge.InputError: anything that does not fit, before work starts: NaN or infinity, shapes, labels
            out of range or missing, duplicates across the sets, an unknown recipe, an unseen class that the
            population holds or the candidates lack, too few non-members for ``fpr``, logits that are
            probabilities, a directory in use, more than fits into memory, a mask that does not fit or knows nothing
            of some record.

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> def records(n):
        ...     return Records(rng.normal(size=(n, 2)), rng.integers(0, 2, n))
        >>> honest = lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1)
        >>> result = audit(honest, members=records(200), nonmembers=records(200), population=records(200),
        ...               recipes=["loss"])
        >>> result["loss"].auc.low < 0.5 < result["loss"].auc.high
        True
    """
    subject, settings, pool = _read_arguments(
        options,
        {
            "members": members, "nonmembers": nonmembers, "population": population, "recipes": recipes,
            "references": references, "unseen_classes": unseen_classes, "fpr": fpr, "groups": groups,
            "features": features, "duplicates": duplicates, "outputs": outputs, "task": task, "device": device,
            "show_records": show_records, "seed": seed,
        },
    )  # fmt: skip
    return run_audit(target, subject, settings, out=out, overwrite=overwrite, progress=progress, pool=pool)


def _read_arguments(
    options: AuditOptions, arguments: Mapping[str, Any]
) -> tuple[AuditData, ResolvedAuditSettings, str | Path | None]:
    """Return the data, the settings and the pool that arguments of `audit` and their options name.

    Raises:
        divulge.InputError: options of another type, settings that do not fit.
    """
    check_instance(options, "options", AuditOptions, "divulge.AuditOptions")
    everything = {**arguments, **{name: getattr(options, name) for name in AuditOptions.model_fields}}
    pool = everything.pop("pool")
    data = {field.name: everything.pop(field.name) for field in fields(AuditData) if field.name in everything}
    return AuditData(**data), ResolvedAuditSettings.check(**everything), pool


def run_audit(
    target: Any,
    subject: AuditData,
    settings: ResolvedAuditSettings,
    *,
    out: str | Path | RunDraft | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
    pool: str | Path | None = None,
    plan: Mapping[str, Any] | None = None,
    expect: Callable[[Forecast], object] | None = None,
) -> Audit:
    """Run an audit of a plan, or one that belongs to another run; `audit` is this with its arguments by name.

    Args:
        target: as for `audit`.
        subject: what is audited.
        settings: how.
        out: run directory to write, or the draft of a run that this audit belongs to; nothing is written when None.
        overwrite: as for `audit`.
        progress: as for `audit`.
        pool: as for `divulge.AuditOptions`.
        plan: the plan that all this came from, to be kept in the run directory.
        expect: called with what the audit will take, before it starts.

    Raises:
        divulge.InputError: as `audit`.
    """
    check_bool(overwrite, "overwrite")
    out_folder = None if isinstance(out, RunDraft) else check_out(out, overwrite=overwrite)
    pool_folder = None if pool is None else check_path(pool, "pool")
    shown_progress = check_progress(progress)
    if expect is not None:
        require_callable(expect, "expect")
    with show_progress(shown_progress, "reference models") as report:
        prepared, run_settings = prepare_audit(target, subject, settings, report, pool_folder)
        check_memory_fits(prepared, on_disk=out is not None)
        if expect is not None:
            with errors.user_code_errors("expect"):
                expect(make_forecast(prepared, on_disk=out is not None))
        if isinstance(out, RunDraft):
            return _run_into(prepared, settings.fpr, run_settings, plan, out)
        if out_folder is None:
            return _run_audit(prepared, settings.fpr, run_settings, None)
        # Two runs whose covariates differ are two runs, though the settings hold nothing of them.
        covariate_columns = itertools.chain.from_iterable((prepared.inputs.covariates or {}).items())
        digest, kept_files = store.hash_values(run_settings, *covariate_columns), (ANSWERS_FILE,)
        with RunDirectory(out_folder).writing(KIND, digest, overwrite=overwrite, keep=kept_files) as draft:
            return _run_into(prepared, settings.fpr, run_settings, plan, draft)


def forecast(target: Any, subject: AuditData, options: ResolvedAuditSettings, *, asks_members: bool = True) -> Forecast:
    """Forecast an audit; everything is checked as in `audit`, and ten records and a few members are scored.

    Args:
        target: the model under audit.
        subject: what is audited.
        options: of the audit.
        asks_members: whether the fit to members is measured.

    Raises:
        divulge.InputError: as `audit`, before work starts.
    """
    prepared, _ = prepare_audit(target, subject, options, ignore_progress, None)
    check_memory_fits(prepared, on_disk=True)
    unasked = make_forecast(prepared, on_disk=True)
    unasked = replace(unasked, checks=estimate_check_seconds(prepared, unasked.models))
    queries = determinism.count_queries(prepared)
    return add_scoring_time(prepared, unasked, check_queries=queries, asks_members=asks_members)


def list_reference_data(target: Any, subject: AuditData, options: ResolvedAuditSettings) -> tuple[Records, Bools]:
    """Return the records that reference models of an audit learn from, and which of them each model is trained on.

    Those that saw no candidate, where the audit has such; else those of its online attacks, which saw half of the
    candidates.

    Returns:
        Records as they were given, ``r`` of them, and bool ``[m, r]``.

    Raises:
        divulge.InputError: an audit whose recipes train no such models, or of partly known records; and as `audit`,
            before work starts.
    """
    given = {name: getattr(subject, name) for name in ("members", "nonmembers", "population")}
    parts = {
        name: check_instance(records, "references: records of the audit", Records)
        for name, records in given.items()
        if records is not None or name != "population"
    }
    ends = np.cumsum([len(part) for part in parts.values()])
    numbered = {
        name: part.with_ids(np.arange(end - len(part), end))
        for (name, part), end in zip(parts.items(), ends.tolist(), strict=True)
    }
    renumbered = replace(subject, **numbered)
    prepared, _ = prepare_audit(target, renumbered, options, ignore_progress, None)
    needs = {need for recipe in prepared.inputs.recipes for need in recipe.needs}
    need = next((each for each in (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT) if each in needs), None)
    if need is None or prepared.partial_knowledge is not None:
        reason = "its recipes train none" if need is None else "it is of partly known records"
        raise InputError(f"references: the audit has no reference models for whole records: {reason}")
    records, trained_on = signals.training_data(prepared, need)
    assert records.ids is not None
    rows = records.ids.astype(np.int64)
    return Records.concatenate([part.without_ids() for part in parts.values()])[rows], trained_on


def prepare_audit(
    target: Any, subject: AuditData, options: ResolvedAuditSettings, progress: Progress, pool: Path | None
) -> tuple[PreparedAudit, RunSettings]:
    """Check and align all inputs; also return the settings that determine the run."""
    subject = refuse_target_as_features(subject, target)
    if callable(subject.features):  # it may work for hours: all else is checked before it is called
        _prepare_with_features(target, attach_placeholders(subject), options, ignore_progress, pool)
    return _prepare_with_features(target, attach_features(subject, options.seed), options, progress, pool)


def _prepare_with_features(
    target: Any, subject: AuditData, options: ResolvedAuditSettings, progress: Progress, pool: Path | None
) -> tuple[PreparedAudit, RunSettings]:
    """Check and align all inputs, of records that have their features beside them."""
    adapted_target = adapt(target, outputs=options.outputs, device=options.device, labels_only=True, task=options.task)
    adapted_target = resolve_task(adapted_target, subject, options.task)
    modality = find_modality(adapted_target)
    if options.calls > 1 and isinstance(modality, LanguageModel):
        raise InputError(f"calls: a language model is asked once about each document, got {options.calls}")
    aligned = align_data(modality.prepare_data(subject), adapted_target, options.unknown_classes)
    aligned_target, subject = aligned.target, aligned.subject
    default_note = ""
    if isinstance(options.references, str):
        check_choice(options.references, "references", ("auto",))
        chosen, default_note = choose_references(adapted_target, modality, subject, options)
        options = options.model_copy(update={"references": chosen})
    requested_references = options.references
    # Other models have no clones, and their modality refuses `Train` in its own words.
    if isinstance(options.references, Train) and isinstance(modality, Classifier | RegressionModel):
        options = options.model_copy(update={"references": options.references.for_target(adapted_target)})
    checked = check_inputs(subject, options, modality, aligned_target)
    checked = replace(checked, warnings=(*checked.warnings, *aligned.notes, *filter(None, [default_note])))
    modality.check_target(aligned_target, checked.recipes)
    inputs, partial_knowledge = complete_inputs(checked, options.imputer, options.seed)
    references = modality.open_references(options.references, inputs.recipes)
    views = (inputs.everything,) if partial_knowledge is None else partial_knowledge.views
    versions, version_places = signals.make_version_views(inputs.recipes, views[0], options.seed, len(views))
    views = (*views, *versions)
    n_classes = modality.probe_target(aligned_target, inputs)
    is_matched, notes = _plan_matching(requested_references, references, inputs.recipes)
    inputs = replace(inputs, warnings=(*inputs.warnings, *notes))
    signals.check_white_box(aligned_target, references, inputs.recipes, inputs.candidates)
    prepared = PreparedAudit(
        inputs, modality, aligned_target, n_classes, references, options.seed, views, partial_knowledge, progress, pool,
        show_records=options.show_records, version_views=version_places,
        held_out=choose_held_out(inputs.population, options.seed) if is_matched else None, calls=options.calls,
    )  # fmt: skip
    partial_metadata = (
        None if subject.known is None else ALL_KNOWN if partial_knowledge is None else partial_knowledge.metadata()
    )
    return prepared, describe_settings(checked, options, references, describe_target(adapted_target), partial_metadata)


def _plan_matching(requested: Any, references: Any, recipes: Sequence[Recipe]) -> tuple[bool, tuple[str, ...]]:
    """Return whether settings of reference models are to be chosen, and why not where that was asked for in vain.

    Raises:
        divulge.InputError: settings or values to try that there are not.
    """
    if getattr(requested, "match", None) is None:
        return False, ()
    if not any(need in recipe.needs for recipe in recipes for need in signals.TRAINED_REFERENCES):
        note = "none of the recipes trains reference models, so no settings were tried and it changes no score"
        return False, (f"match: {note}",)
    if references.match is None:
        note = (
            '"auto" tried nothing, as without make_model reference models are clones with the target\'s own parameters'
        )
        return False, (f"match: {note}",)
    matching.check_grid(references)
    return True, ()


def find_modality(target: Any) -> Modality:
    """Return the modality that a target declares; without one its outputs say which it is."""
    if (declared := declared_modality(target)) is not None:
        return declared
    if is_regression_model(target):
        return RegressionModel()
    return LanguageModel() if is_language_model(target) else Classifier()


def _run_into(
    prepared: PreparedAudit,
    fpr: tuple[float, ...],
    settings: RunSettings,
    plan: Mapping[str, Any] | None,
    draft: RunDraft,
) -> Audit:
    """Run the audit and write everything into ``draft``."""
    target = with_journal(prepared.target, draft.path)
    prepared = replace(
        prepared, target=target, pool=prepared.pool or draft.home / "pool", scratch_folder=draft.path / ".signals"
    )
    policy = Policy.from_plan(plan)  # before hours of work
    result = _run_audit(prepared, fpr, settings, draft.home)
    policy.write(draft)
    (draft.path / ANSWERS_FILE).unlink(missing_ok=True)
    if plan is not None and plan.get("references", "auto") == "auto":  # as decided: another machine may be slower
        decided = "none" if prepared.references is None else {"count": prepared.references.count}
        plan = {**plan, "references": decided}
    draft.write_plan(plan or to_json_values(settings))
    result.save(draft, {} if plan is None else plan_files(plan, draft.path))
    return result


def plan_files(plan: Mapping[str, Any], home: Path) -> dict[str, list[Path]]:
    """Return the model and data files that a plan names, by role."""
    folder = home / str(plan.get("folder", "."))
    target = plan.get("target", {})
    file_names = {"model": None if "endpoint" in target else target.get("model")} | dict(plan.get("data", {}))
    return {
        role: [folder / name] for role, name in file_names.items() if isinstance(name, str) and (folder / name).exists()
    }


def _run_audit(prepared: PreparedAudit, fpr: tuple[float, ...], settings: RunSettings, path: Path | None) -> Audit:
    """Run a prepared audit: signals, scores, findings, result."""
    log = AuditLog()
    prepared, views, results = score_records(prepared, log)
    inputs, layout = prepared.inputs, prepared.layout
    scores = {name: scored.scores[layout.candidate_rows] for name, scored in results.items()}
    calibration = {name: scored.scores[layout.calibration_rows] for name, scored in results.items()}
    covariates = log.run_timed("covariates", partial(collect_covariates, prepared))
    measure = partial(
        blind.measure_label_errors, inputs.candidates.x, inputs.candidates.y, prepared.seed, prepared.other_records
    )
    label_errors = log.run_timed("errors of labels", measure)
    explain = partial(
        log.run_timed, "scores less what records explain", partial(_unexplained_scores, prepared, scores, label_errors)
    )
    # Of texts the covariates already hold what their words, years and lengths explain.
    has_texts, adjustment = inputs.candidates.x.dtype == object, None
    unexplained = {} if has_texts else explain()
    if covariates is not None:
        groups = inputs.duplicate_groups
        work = partial(
            adjust, scores, inputs.truth, covariates, seed=prepared.seed, groups=groups, unexplained=unexplained
        )
        adjustment = log.run_timed("covariates", work)
    if has_texts and adjustment is None:
        unexplained = explain()
    scored_audit = ScoredAudit(prepared, settings, views, scores, calibration, fpr, log, label_errors, adjustment)
    for check in checks.CHECKS:
        if (finding := log.run_timed(check.name, partial(checks.run_check, check, scored_audit))) is not None:
            scored_audit.findings.append(finding)
    about = RunMetadata(
        settings=settings,
        recipes=recipe_metadata(prepared, log, results, fpr),
        counts=count_records(prepared),
        duplicates=inputs.duplicates,
        warnings=(*inputs.warnings, *log.warnings),
        environment=collect_environment(),
        timings={name: round(seconds, 3) for name, seconds in log.timings.items()},
        engine=describe_engines(log),
        estimator=summarise_estimator(prepared.target),
        matched=log.matched,
        adapter=is_adapter(prepared.target),
        findings=tuple(scored_audit.findings),
    )
    shown_values = choose_exhibits(inputs.candidates, inputs.truth, scores, show_records=prepared.show_records)
    return Audit(
        scores=scores,
        calibration=calibration,
        signals={name: values[layout.candidate_rows] for name, values in views[0].target.items()},
        ids=np.asarray(inputs.candidates.ids),
        members=inputs.truth,
        labels=inputs.candidates.labels,
        calibration_labels=inputs.calibration.labels,
        unseen_classes=inputs.unseen_classes,
        fpr=fpr,
        about=about,
        exhibits=shown_values,
        heat=compute_heat(prepared, views[0], shown_values),
        groups=inputs.groups,
        covariates=covariates,
        adjustment=adjustment,
        path=path,
        class_names=inputs.candidates.class_names,
        unexplained_scores=unexplained,
        duplicate_groups=inputs.duplicate_groups,
    )


def score_records(
    prepared: PreparedAudit, log: AuditLog
) -> tuple[PreparedAudit, list[Measurements], dict[str, Scored]]:
    """Return the audit with settings of its reference models, the signals, and each recipe's scores by its name."""
    with contextlib.ExitStack() as stack:
        if prepared.held_out is not None and prepared.pool is None:  # trial models become references through a pool
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="divulge-"))
            prepared = replace(prepared, pool=Path(folder) / "pool")
        prepared = match_references(prepared, log)
        views = prepared.modality.compute_signals(prepared, log)
    names = signals.signal_names(prepared.inputs.recipes)
    results = {
        recipe.name: log.run_timed(
            f"attack {recipe.name}",
            partial(score_recipe, recipe, names[recipe.name], views, prepared.version_views.get(recipe.name, ())),
        )
        for recipe in prepared.inputs.recipes
    }
    log.warnings += [f"{name}: {note}" for name, scored in results.items() for note in scored.notes]
    return prepared, views, results


def _unexplained_scores(
    prepared: PreparedAudit, scores: Mapping[str, Floats], label_errors: Floats | None
) -> dict[str, Floats]:
    """Return the candidates' scores less what the records, and the user's features of them, explain."""
    records = prepared.inputs.candidates
    adjusted = blind.adjust_scores(scores, records.x, records.y, prepared.seed, prepared.other_records, label_errors)
    if records.features is None:
        return adjusted
    return blind.adjust_scores(adjusted, records.features, None, prepared.seed)


def over_shares(
    target: Any,
    *,
    known: Sequence[Any],
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
    options: AuditOptions = _DEFAULT_OPTIONS,
    **arguments: Any,
) -> list[Audit]:
    """Run one audit for each entry of ``known``; the report of the first shows all, by known share.

    With a run directory, the first audit lies in ``out`` and the others in ``out/known-1``, ``out/known-2``, …;
    all use the reference models in the pool: what saw no candidate is trained once for all shares.

    Args:
        target: as for `divulge.audit`.
        known: masks or words, as for `divulge.AuditOptions`; ``"share:1"`` adds the whole record to compare with.
        out: run directory, or None.
        overwrite: replace a finished run in ``out``.
        progress: as for `divulge.audit`.
        options: as for `divulge.audit`, but ``known``.
        arguments: every other argument of `divulge.audit`.

    Raises:
        divulge.InputError: nothing in ``known``, or what `divulge.audit` refuses.
    """
    subject, settings, pool = _read_arguments(options, arguments)
    if isinstance(known, str) or not len(known):
        raise InputError(f"known: at least 1 mask in a list is needed, got {known!r}")
    subject = replace(subject, known=tuple(known))
    return run_shares(target, subject, settings, out=out, overwrite=overwrite, progress=progress, pool=pool)


def run_shares(
    target: Any,
    subject: AuditData,
    settings: ResolvedAuditSettings,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    pool: str | Path | None = None,
    expect: Callable[[Forecast], object] | None = None,
    **keywords: Any,
) -> list[Audit]:
    """Run the audits of `over_shares`; ``subject.known`` is a tuple, and everything else is as for `run_audit`."""
    first_subject, *other_subjects = (replace(subject, known=mask) for mask in subject.known)
    if out is None:
        first_audit = run_audit(target, first_subject, settings, pool=pool, expect=expect, **keywords)
        return [first_audit, *(run_audit(target, each, settings, pool=pool, **keywords) for each in other_subjects)]
    data = {field.name: getattr(subject, field.name) for field in fields(subject) if field.name != "known"}
    key = store.hash_values("shares", *subject.known, *describe_arguments(data | dict(settings)))
    with RunDirectory(Path(out)).writing(KIND, key, overwrite=overwrite) as draft:
        keywords["pool"] = draft.home / "pool" if pool is None else pool
        first_audit = run_audit(target, first_subject, settings, out=draft, expect=expect, **keywords)
        other_audits = {}
        for number, each in enumerate(other_subjects, start=1):
            with draft.part(f"known-{number}", KIND, key) as part:
                other_audits[part.path.name] = run_audit(target, each, settings, out=part, **keywords)
        first_audit.report(draft.path / "report.html", related=other_audits)
    return [first_audit, *other_audits.values()]


_EXHIBITS_PER_RECIPE = 12
_MAX_TEXT_LENGTH = 2000  # characters


def choose_exhibits(
    candidates: Records, truth: Bools, scores: Mapping[str, Floats], *, show_records: bool = True
) -> dict[int, Array | str]:
    """Map the row of each of the `_EXHIBITS_PER_RECIPE` members that any recipe exposes most to its value.

    Members are compared with the non-members of their own class; see `divulge.evaluation.rank_exposed`.

    Args:
        candidates: ``n`` records.
        truth: bool ``[n]``, True for members.
        scores: recipe name → ``[n]``.
        show_records: whether records may be kept; without, none is.
    """
    if not show_records:
        return {}
    rows = {
        int(row)
        for recipe_scores in scores.values()
        for row in evaluation.rank_exposed(recipe_scores, truth, candidates.labels)[:_EXHIBITS_PER_RECIPE]
    }
    if (table := candidates.table) is not None:
        return {row: columns.describe_row(table, row)[:_MAX_TEXT_LENGTH] for row in sorted(rows)}
    values = {row: candidates.x[row] for row in sorted(rows)}
    return {
        row: chats.show_text(value)[:_MAX_TEXT_LENGTH] if isinstance(value, str) else np.asarray(value)
        for row, value in values.items()
    }


# What the target's log-probability of a token is held against: the first of these that there is.
_BASELINES = {
    Need.REFERENCES_OUT: "the mean of the reference models",
    Need.REFERENCES_BASE: "the model it was fine-tuned from",
    Need.REFERENCES_IN_AND_OUT: "the mean of the reference models",
}
_DIGITS = 3


def compute_heat(
    audit: PreparedAudit, measured: Measurements, exhibits: Mapping[int, Array | str]
) -> dict[int, HeatStrip]:
    """Map the row of each shown document to the values of its tokens.

    Without any model to hold the target against, there are none: likely tokens are not exposed ones.
    """
    logs = measured.tokens
    if logs is None or not isinstance(audit.target, GivesTokens):
        return {}
    baseline = next((baseline for baseline in _BASELINES if baseline in measured.models), None)
    baseline_logs = None if baseline is None else measured.models[baseline].tokens
    if baseline is None or baseline_logs is None:
        return {}
    strips = {}
    for row, text in exhibits.items():
        token_rows = slice(int(logs.offsets[row]), int(logs.offsets[row + 1]))
        record = str(audit.inputs.candidates.x[row])
        spans = token_statistics.token_spans(audit.target, record)
        if spans is None or len(spans) != token_rows.stop - token_rows.start:
            continue
        values = logs.target[token_rows] - baseline_logs[:, token_rows].mean(axis=0, dtype=np.float64)
        shown_tokens = [
            (start, end, round(float(value), _DIGITS))
            for (start, end), value in zip(spans, values, strict=True)
            if end <= len(text)
        ]
        strips[row] = HeatStrip(
            tuple(end for _, end, _ in shown_tokens),
            tuple(value for *_, value in shown_tokens),
            _BASELINES[baseline],
            tuple(start for start, *_ in shown_tokens) if chats.has_answers([record]) else None,
        )
    return strips
