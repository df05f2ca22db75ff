"""The audit itself, from target to result."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from divulge import errors, evaluation, store
from divulge.auditing import comparability, documents, exhibits, forecasts, plausibility, run_metadata, signals
from divulge.auditing.alignment import align_data
from divulge.auditing.inputs import check_inputs, check_label_recipes, count_classes
from divulge.auditing.partial_knowledge import ALL_KNOWN, complete_inputs
from divulge.auditing.prepared import AuditLog, PreparedAudit
from divulge.auditing.result import KIND, Audit
from divulge.auditing.signals import compute_signals, score_recipe
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.evaluation.covariates import adjust
from divulge.evidence import query_target
from divulge.references.progress import silent
from divulge.request import AuditData, AuditOptions, Duplicates, Outputs, UnknownClasses
from divulge.results import About, Accuracy, BlindBaseline, environment, to_json_values
from divulge.run_directory import RunDirectory, RunDraft
from divulge.targets import Endpoint, GivesLabels, GivesLogits, GivesTokens, adapt
from divulge.types import Records
from divulge.validation import check_bool, check_choice, check_path, check_string, require_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from divulge.auditing.forecasts import Forecast
    from divulge.evidence import Measurements
    from divulge.references import Progress
    from divulge.results import Settings, TransferSummary
    from divulge.types import Floats


def audit(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records | None = AuditData.population,
    recipes: Sequence[Any] = AuditOptions.recipes,
    references: Any = AuditOptions.references,
    unseen_classes: Sequence[int | str] = AuditData.unseen_classes,
    fpr: Sequence[float] = AuditOptions.fpr,
    groups: Sequence[str] | None = AuditData.groups,
    known: Any = AuditData.known,
    covariates: Any = AuditData.covariates,
    imputer: Any = AuditOptions.imputer,
    calibration: float = AuditOptions.calibration,
    duplicates: Duplicates = AuditOptions.duplicates,
    outputs: Outputs = AuditOptions.outputs,
    unknown_classes: UnknownClasses = AuditOptions.unknown_classes,
    device: str = AuditOptions.device,
    texts: bool = AuditOptions.texts,
    seed: int = AuditOptions.seed,
    out: str | Path | RunDraft | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    pool: str | Path | None = None,
    plan: Mapping[str, Any] | None = None,
    expect: Callable[[Forecast], object] | None = None,
) -> Audit:
    """How well can an adversary tell ``target``'s training records from others?

    Args:
        target: a torch module, scikit-learn classifier, callable, anything with ``logits(records)``, or with
            ``labels(records)`` for recipes that ask for labels alone.
        members: records the target was trained on.
        nonmembers: records of the same kind that it was not trained on.
        population: other data that the auditor holds, known not to be in the training set; may lack classes. A quarter
            (``calibration``) is set aside: attacks never learn from it, its scores are the null
            distribution of every decision.
        recipes: names (`divulge list` shows them), `divulge.recipes.Recipe` objects or "module:Class".
        references: how reference models are trained (`divulge.references.Train`); needed by some recipes.
        unseen_classes: classes of which the auditor holds no records.
        fpr: false-positive rates to report.
        groups: a subgroup's name for each member, then for each non-member.
        known: which values of a record the adversary knows: bool, of one record's shape or with one mask for each
            member, then each non-member; or words such as "share:0.4" (`divulge.completion.mask`). Unknown
            values are never read, except to refuse duplicates across the sets and to tell whether two runs are of
            the same candidates. None: whole records.
        covariates: what else may differ between members and non-members and move the scores, such as age, source or
            date: a table (name → a value for each member, then each non-member) or an array. Verdict and gate judge
            scores adjusted for it; of texts always for length, years named and topic besides.
        imputer: completes them from the population: of `divulge.completion`, or a function; None for the
            class-conditional Gaussian.
        calibration: share of the population set aside.
        duplicates: what to do about records that occur in several sets: "error", "drop" or "keep".
        outputs: "logits" or "probabilities": what ``target`` returns, if it is a module or callable.
        unknown_classes: what to do about records of a class that the target was not fitted on: "error" or "drop".
        device: where a torch module runs: "auto", "cpu", "cuda", "mps".
        texts: whether the most exposed documents are kept as they are in the run directory and shown in the report.
        seed: of every random draw.
        out: run directory to write, or the draft of a run that this audit belongs to; nothing is written when None.
        overwrite: replace a finished run in ``out`` (finished reference models are kept and reused).
        progress: called with (done, total, note) while reference models are trained.
        pool: where finished reference models are kept and found; ``out/pool`` when None.
        plan: the plan the arguments came from, to be kept in the run directory.
        expect: called with what the audit will take (`divulge.auditing.Forecast`) before it starts, such as ``print``.

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
        >>> found = audit(honest, members=records(200), nonmembers=records(200), population=records(200),
        ...               recipes=["loss"])
        >>> found["loss"].auc.low < 0.5 < found["loss"].auc.high
        True
    """
    check_bool(overwrite, "overwrite")
    check_bool(texts, "texts")
    check_string(device, "device")
    folder = None if out is None or isinstance(out, RunDraft) else check_path(out, "out")
    models = None if pool is None else check_path(pool, "pool")
    if progress is not None:
        require_callable(progress, "progress")
    options = AuditOptions(
        recipes=recipes,
        references=references,
        fpr=fpr,
        imputer=imputer,
        calibration=calibration,
        duplicates=duplicates,
        outputs=outputs,
        unknown_classes=unknown_classes,
        device=device,
        texts=texts,
        seed=seed,
    )
    subject = AuditData(
        members=members,
        nonmembers=nonmembers,
        population=population,
        unseen_classes=unseen_classes,
        groups=groups,
        known=known,
        covariates=covariates,
    )
    if expect is not None:
        require_callable(expect, "expect")
    case, settings = _prepare_audit(target, subject, options, progress or silent, models)
    forecasts.check_memory_fits(case, on_disk=out is not None)
    if expect is not None:
        with errors.user_code_errors("expect"):
            expect(forecasts.make_forecast(case, on_disk=out is not None))
    if isinstance(out, RunDraft):
        return _run_into(case, tuple(fpr), settings, plan, out)
    if folder is None:
        return _run_audit(case, tuple(fpr), settings, None)
    named = [] if case.given.covariates is None else [part for pair in case.given.covariates.items() for part in pair]
    digest, kept = store.hash_values(settings, *named), (documents.ANSWERS_FILE,)
    with RunDirectory(folder).writing(KIND, digest, overwrite=overwrite, keep=kept) as draft:
        return _run_into(case, tuple(fpr), settings, plan, draft)


def forecast(target: Any, subject: AuditData, options: AuditOptions) -> Forecast:
    """What an audit will take; everything is checked as `audit` would, and ten records are scored.

    Raises:
        divulge.InputError: as `audit`, before work starts.
    """
    case, _ = _prepare_audit(target, subject, options, silent, None)
    forecasts.check_memory_fits(case, on_disk=True)
    return forecasts.add_scoring_time(case, forecasts.make_forecast(case, on_disk=True))


def _prepare_audit(
    target: Any, subject: AuditData, options: AuditOptions, progress: Progress, pool: Path | None
) -> tuple[PreparedAudit, Settings]:
    """Everything checked, and in words all that determines the run."""
    check_choice(options.unknown_classes, "unknown_classes", get_args(UnknownClasses))
    own = adapt(target, outputs=options.outputs, device=options.device, labels_only=True)
    aligned = align_data(subject, own, options.unknown_classes)
    adapted, subject = aligned.target, aligned.subject
    of_documents = documents.is_language_model(adapted)
    whole = check_inputs(subject, options, documents=of_documents)
    whole = replace(whole, warnings=(*whole.warnings, *aligned.notes))
    if not isinstance(adapted, GivesLogits | GivesTokens):
        check_label_recipes(whole.recipes)
    if isinstance(adapted, Endpoint):
        documents.check_endpoint_recipes(whole.recipes)
    given, seen = complete_inputs(whole, options.imputer, options.seed)
    references = documents.open_references(given, options.references) if of_documents else options.references
    views = (given.everything,) if seen is None else seen.views
    further = signals.make_version_views(given.recipes, views[0], options.seed, len(views))
    views = (*views, *further.views)
    classes = count_classes(adapted, given)
    signals.check_white_box(adapted, references, given.recipes, given.candidates)
    case = PreparedAudit(
        given, adapted, classes, references, options.seed, views, seen, progress, pool,
        texts=options.texts, further=further.places,
    )  # fmt: skip
    partly = None if subject.known is None else ALL_KNOWN if seen is None else seen.about()
    return case, run_metadata.describe_settings(whole, options, references, run_metadata.describe_target(own), partly)


def _run_into(
    case: PreparedAudit, fpr: tuple[float, ...], settings: Settings, plan: Mapping[str, Any] | None, draft: RunDraft
) -> Audit:
    """The result, with all of it written into ``draft``."""
    asked = documents.with_journal(case.target, draft.path)
    case = replace(case, target=asked, pool=case.pool or draft.home / "pool", scratch=draft.path / ".signals")
    result = _run_audit(case, fpr, settings, draft.home)
    (draft.path / documents.ANSWERS_FILE).unlink(missing_ok=True)
    draft.write_plan(plan or to_json_values(settings))
    result.save(draft, {} if plan is None else plan_files(plan, draft.path))
    return result


def plan_files(plan: Mapping[str, Any], home: Path) -> dict[str, list[Path]]:
    """The model and the records that a plan names, where they are files."""
    folder = home / str(plan.get("folder", "."))
    target = plan.get("target", {})
    named = {"model": None if "endpoint" in target else target.get("model")} | dict(plan.get("data", {}))
    return {role: [folder / name] for role, name in named.items() if isinstance(name, str) and (folder / name).exists()}


def _run_audit(case: PreparedAudit, fpr: tuple[float, ...], settings: Settings, path: Path | None) -> Audit:
    """The order of work."""
    given, layout, log = case.given, case.layout, AuditLog()
    views = (
        documents.compute_document_signals(case, log)
        if documents.is_language_model(case.target)
        else compute_signals(case, log)
    )
    if not documents.is_language_model(case.target):
        _record_predictions(case, log)
    called = signals.signal_names(given.recipes)
    scoring = {
        r.name: partial(score_recipe, r, called[r.name], views, case.further.get(r.name, ())) for r in given.recipes
    }
    outputs = {name: log.timed(f"attack {name}", work) for name, work in scoring.items()}
    log.warnings += [f"{name}: {note}" for name, scored in outputs.items() for note in scored.notes]
    scores = {name: scored.scores[layout.of_candidates] for name, scored in outputs.items()}
    calibration = {name: scored.scores[layout.of_calibration] for name, scored in outputs.items()}
    checked = log.timed("blind baseline", lambda: _blind_baseline(case, log))
    compared = log.timed("comparison of texts", partial(comparability.compare_texts, case))
    held = log.timed("covariates", partial(comparability.collect_covariates, case))
    explain = partial(log.timed, "scores less what records explain", partial(_unexplained_scores, case, scores))
    # Of texts the covariates already hold what their words, years and lengths explain.
    has_texts, adjusted = given.candidates.x.dtype == object, None
    unexplained = {} if has_texts else explain()
    if held is not None:
        groups = given.duplicate_groups
        work = partial(adjust, scores, given.truth, held, seed=case.seed, groups=groups, unexplained=unexplained)
        adjusted = log.timed("covariates", work)
    if has_texts and adjusted is None:
        unexplained = explain()
    carried = log.timed("transfer", lambda: _transfer(case, calibration, views[0], max(fpr)))
    shown = exhibits.choose_exhibits(given.candidates, given.truth, scores, texts=case.texts)
    about = About(
        settings=settings,
        recipes=run_metadata.recipe_metadata(case, log, outputs, fpr),
        counts=run_metadata.count_records(case),
        duplicates=given.duplicates,
        blind_baseline=checked,
        texts=compared,
        transfer=carried,
        warnings=(*comparability.text_warnings(compared), *given.warnings, *log.warnings),
        environment=environment(),
        timings={name: round(seconds, 3) for name, seconds in log.timings.items()},
        engine="; ".join(dict.fromkeys(log.engines)),
        accuracy=_target_accuracy(case, log),
        token_fit=log.token_fit,
        single_answer=log.told is not None and plausibility.gives_single_answer(case, log.told),
    )
    return Audit(
        scores=scores,
        calibration=calibration,
        signals={name: values[layout.of_candidates] for name, values in views[0].target.items()},
        ids=np.asarray(given.candidates.ids),
        members=given.truth,
        labels=given.candidates.y,
        calibration_labels=given.calibration.y,
        unseen_classes=given.unseen_classes,
        fpr=fpr,
        about=about,
        exhibits=shown,
        heat=exhibits.compute_heat(case, views[0], shown),
        groups=given.groups,
        covariates=held,
        adjustment=adjusted,
        path=path,
        class_names=given.candidates.class_names,
        unexplained_scores=unexplained,
        duplicate_groups=given.duplicate_groups,
    )


def _record_predictions(case: PreparedAudit, log: AuditLog) -> None:
    """Ask what the target calls the candidates, where active signals alone were measured and none has asked it yet."""
    if log.told is None and isinstance(case.target, GivesLogits | GivesLabels):
        log.told = query_target(case.target, case.views[0][: case.layout.candidates], ())[1]


def _target_accuracy(case: PreparedAudit, log: AuditLog) -> Accuracy | None:
    """How often the target is right on the candidates, or on their completions; None without classes."""
    given = case.given
    if log.told is None or given.candidates.y is None:
        return None
    right = log.told[case.layout.of_candidates] == given.candidates.y
    shares = [
        evaluation.intervals.proportion(int(right[rows].sum()), int(rows.sum())) for rows in (given.truth, ~given.truth)
    ]
    return Accuracy(*shares, completed=case.partial is not None)


def _transfer(
    case: PreparedAudit, calibration: Mapping[str, Floats], measured: Measurements, level: float
) -> TransferSummary | None:
    """Whether thresholds set on seen classes are expected to hold on the unseen ones; None without any."""
    labels, features = case.given.candidates.y, measured.features
    if not case.given.unseen_classes or labels is None or features is None:
        return None
    unseen = features[case.layout.of_candidates][np.isin(labels, case.given.unseen_classes)]
    return comparability.assess_thresholds(calibration, features[case.layout.of_calibration], unseen, level, case.seed)


def _blind_baseline(case: PreparedAudit, log: AuditLog) -> BlindBaseline | None:
    """What can be told without the model; None (with a warning) where there are too few records to tell."""
    inside, records = case.given.truth, case.given.candidates
    y = records.y
    own, others = (None, None) if y is None else (y[inside], y[~inside])
    try:
        told = blind.baseline(records.x[inside], records.x[~inside], case.seed, y_members=own, y_nonmembers=others)
    except InputError as error:
        log.warnings.append(f"no blind baseline, so a confounded split would go undetected: {error}")
        return None
    found: tuple[str, ...] = ()
    if told.confounded and (records.x.dtype != object or y is not None):
        found = evaluation.differences(records.x, inside, y)
    return BlindBaseline(**{field.name: getattr(told, field.name) for field in fields(told)}, differences=found)


def _unexplained_scores(case: PreparedAudit, scores: Mapping[str, Floats]) -> dict[str, Floats]:
    """Scores less what the records alone explain; their rows are those of the candidates."""
    records = case.given.candidates
    return blind.adjust_scores(scores, records.x, records.y, case.seed)


def over_shares(
    target: Any,
    *,
    known: Sequence[Any],
    out: str | Path | None = None,
    overwrite: bool = False,
    pool: str | Path | None = None,
    expect: Callable[[Forecast], object] | None = None,
    **arguments: Any,
) -> list[Audit]:
    """One audit for each entry of ``known``; the report of the first shows them all, by known share.

    With a run directory, the first audit lies in ``out`` and the others in ``out/known-1``, ``out/known-2``, …;
    all use the reference models in ``pool``: what saw no candidate is trained once for all shares.

    Args:
        target: as for `divulge.audit`.
        known: masks or words, as for `divulge.audit`; ``"share:1"`` adds the whole record to compare with.
        out: run directory, or None.
        overwrite: replace a finished run in ``out``.
        pool: where finished reference models are kept and found; ``out/pool`` when None.
        expect: called with what the first of the audits will take, before it starts.
        arguments: every other argument of `divulge.audit`.

    Raises:
        divulge.InputError: nothing in ``known``, or what `divulge.audit` refuses.
    """
    if isinstance(known, str) or not len(known):
        raise InputError(f"known: at least 1 mask in a list is needed, got {known!r}")
    if out is None:
        said = [expect, *[None] * (len(known) - 1)]
        each = zip(known, said, strict=True)
        return [audit(target, known=mask, pool=pool, expect=first, **arguments) for mask, first in each]
    key = store.hash_values("shares", *known, *run_metadata.describe_arguments(arguments))
    with RunDirectory(Path(out)).writing(KIND, key, overwrite=overwrite) as draft:
        shared = draft.home / "pool" if pool is None else pool
        first = audit(target, known=known[0], out=draft, pool=shared, expect=expect, **arguments)
        more = {}
        for at, mask in enumerate(known[1:], start=1):
            with draft.part(f"known-{at}", KIND, key) as inner:
                more[inner.path.name] = audit(target, known=mask, out=inner, pool=shared, **arguments)
        first.report(draft.path / "report.html", beside=more)
    return [first, *more.values()]
