"""An erasure check from inputs to result: scores of every model, checks of records and models, run directory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import evaluation, people, statistics
from divulge import plan as plans
from divulge.auditing.pipeline import list_reference_data
from divulge.auditing.result import KIND
from divulge.duplicates import match_records
from divulge.errors import InputError
from divulge.evaluation.comparison import measure
from divulge.references import Custom, FineTune, Train
from divulge.references.progress import check_progress, show_progress
from divulge.results import StudyControl
from divulge.run_directory import RunDirectory, check_out
from divulge.settings import ForgetSettings, OutputsSetting
from divulge.study import FALSE_ALARM, compare_blindly
from divulge.types import Records
from divulge.unlearning.finding import RECOMMENDED_CONTROLS, REMEMBERED, drop_copies
from divulge.unlearning.result import CONTROLS_MATCH, CONTROLS_NEVER_SAW, NEVER, OTHER, RETAINED, Erasure, blind_name
from divulge.unlearning.scores import ModelScores, is_score_table, read_scores, score_model, train_controls
from divulge.validation import (
    as_list,
    check_bool,
    check_ids,
    check_path,
    check_string,
    format_value,
    to_numpy,
)

if TYPE_CHECKING:
    from divulge.references.progress import ProgressSetting
    from divulge.settings import Outputs
    from divulge.targets import Task
    from divulge.types import Array, Bools, Floats

_DEFAULTS = ForgetSettings()
_MIN_TO_KNOW_COPIES, _MIN_DISTINCT = 3, 20  # tables of scores, and distinct scores, in which a tie is no accident
_MIN_FOR_OUTLIERS = 3  # controls: of fewer, nobody can say which one is the odd one out


def forget(
    before: Any,
    after: Any,
    *,
    forget: Any,
    never: Any,
    retrained: Sequence[Any] = (),
    references: Any = None,
    population: Records | None = None,
    retained: Any = None,
    other: Any = None,
    margin: float = _DEFAULTS.margin,
    confidence: float = _DEFAULTS.confidence,
    fdr: float = _DEFAULTS.fdr,
    at_random: bool = _DEFAULTS.at_random,
    outputs: Outputs = "logits",
    device: str = "auto",
    task: Task = _DEFAULTS.task,
    seed: int = _DEFAULTS.seed,
    pool: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressSetting = "auto",
) -> Erasure:
    """Find out whether a model still shows records that it was to forget.

    The model after the erasure is compared with models that never saw the records, never with an AUC of ½: forgotten
    and never-used records may differ, and every training moves the scores of a whole group a little. The spread
    between trainings is in every interval where there are 2 such models or more; 4 are recommended.

    Args:
        before: the model before the erasure: whatever `divulge.audit` takes as target; or a table of scores (a data
            frame, or a mapping) with columns "id" and "score", larger = more like a training record, and "correct" (0
            or 1) where the class is predicted; or None. Where it does not show the records, nothing is learned.
        after: the model after it, likewise.
        forget: the records that were to be forgotten; several requests as a mapping from their names. For tables of
            scores their ids will do.
        never: records of the same kind that no model was trained on.
        retrained: models trained again without the records, each with a seed of its own; models or tables of scores.
        references: other models that saw neither kind of record, matched to the target in their training: models or
            tables of scores; or how such models are trained on the ``population`` (`divulge.references.Train`,
            `FineTune`, `Custom`); or the run directory of an audit, whose reference models are used: those that saw
            none of its candidates, or of an online audit, for each record, those that did not see it.
        population: other records, none of those above among them; for training references.
        retained: training records that were not to be forgotten, to see what the erasure cost.
        other: further records that no model was trained on, for the same purpose.
        margin: largest difference of AUC that counts as none.
        confidence: probability that no answer is wrong, all requests together.
        fdr: bound on the expected share of wrong records on the list of those still remembered.
        at_random: whether a random draw decided which records were to be forgotten and which were never used. The
            comparison then needs fewer models. Ignored where a classifier without any model tells them apart.
        outputs: "logits" or "probabilities": what models return that are modules or callables.
        device: where torch modules run.
        task: "classification", "regression" (``y`` holds real values), or "auto", see `divulge.audit`.
        seed: of every random draw; reference models of an audit have that of the audit.
        pool: folder in which trained references are kept and found.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.
        progress: called with (done, total, note) while references are trained; "auto" or True: a bar on a terminal and
            in a notebook; None or False: nothing.

    Returns:
        An `divulge.unlearning.Erasure`: ``result.verdict.answer``, ``result.findings``, ``result.remembered``.

    Raises:
        divulge.InputError: records in two sets, a record without a score, models and tables of scores mixed, no records
            of a kind, settings out of their range, and what models refuse.

    Examples:
        >>> rng, ids = np.random.default_rng(1), [f"record {i}" for i in range(1000)]
        >>> def table(shift=0.0):
        ...     return {"id": ids, "score": rng.normal(size=1000) + shift * (np.arange(1000) < 400)}
        >>> never_saw = [table() for _ in range(6)]
        >>> result = forget(table(2), table(2), forget=ids[:400], never=ids[400:], retrained=never_saw)
        >>> result.verdict.answer, result.findings[0].difference.low > 0.3
        ('still remembered', True)
    """
    check_bool(overwrite, "overwrite")
    options = ForgetSettings.check(
        margin=margin, confidence=confidence, fdr=fdr, at_random=at_random, task=task, seed=seed
    )
    OutputsSetting.check(outputs=outputs)
    out_folder = check_out(out, overwrite=overwrite)
    pool_folder = None if pool is None else check_path(pool, "pool")
    shown_progress = check_progress(progress)
    controls_given, trainer = _list_controls(retrained, references)
    from_tables = is_score_table(after)
    _check_models_fit(before, after, controls_given, trainer, population)
    if isinstance(trainer, Path):
        trainer = open_audit_models(trainer)

    sets = _name_sets(forget, never, retained, other, as_records=not from_tables)
    warnings: list[str] = []
    ids, part = _identify_records(sets)
    if from_tables:
        tables = _list_models(before, after, controls_given)
        read = {name: read_scores(model, ids, name) for name, model in tables.items()}
        is_first, copied = _find_copied_scores(np.stack([scores.scores for scores in read.values()]), part)
        if copied:
            warnings += copied
            ids, part = ids[is_first], part[is_first]
            read = {name: read_scores(model, ids, name) for name, model in tables.items()}
        trained = np.empty((0, len(ids)))
    else:
        sets, dropped = _separate(sets)
        warnings += dropped
        ids, part = _identify_records(sets)
        stacked = _stack_records(sets)
        read = {
            name: score_model(model, stacked, name, outputs=outputs, device=device, task=task)
            for name, model in _list_models(before, after, controls_given).items()
        }
        trained = np.empty((0, len(ids)))
        with show_progress(shown_progress, "reference models") as report:
            model_options: dict[str, Any] = {"outputs": outputs, "device": device, "task": task, "progress": report}
            if isinstance(trainer, AuditModels):
                trained = train_controls(
                    trainer.references, trainer.records, after, stacked, seed=trainer.seed,
                    pool=pool_folder or trainer.pool, trained_on=trainer.trained_on,
                    saw_candidates=trainer.saw_candidates, **model_options,
                )  # fmt: skip
            elif trainer is not None and population is not None:
                trained = train_controls(
                    trainer, population, after, stacked, seed=options.seed, pool=pool_folder, **model_options
                )
    if len({scores.signal for scores in read.values()}) > 1:
        raise InputError("before, after: models that show different outputs cannot be compared")
    controls = np.array([read[name].scores for name in controls_given] + list(trained)).reshape(-1, len(ids))
    control_names = (*controls_given, *(f"reference {i + 1}" for i in range(len(trained))))
    scores_before = read["before"].scores if "before" in read else None
    checks = [] if from_tables else _check_records(sets, options.seed)
    checks += _check_models(read["after"].scores, scores_before, controls, part)
    result = Erasure(
        ids=ids, part=part, after=read["after"].scores, before=scores_before, controls=controls,
        control_names=control_names, null=_describe_null(controls_given, len(trained)), signal=read["after"].signal,
        correct=_stack_correct(read), checks=tuple(checks), warnings=(), settings=options,
    )  # fmt: skip
    result = replace(result, warnings=tuple(warnings + _warnings(result)))
    if out_folder is not None:
        result.save(out_folder, overwrite=overwrite)
    return result


def _check_models_fit(
    before: Any, after: Any, controls: Mapping[str, Any], trainer: Any, population: Records | None
) -> None:
    """Check that all are models or all are tables of scores, and that references can be trained."""
    from_tables = is_score_table(after)
    if empty := [name for name, model in {"after": after, **controls}.items() if model is None]:
        raise InputError(f"{empty[0]}: a model or a table of scores is needed, got None")
    for name, model in {"before": before, **controls}.items():
        if model is not None and is_score_table(model) != from_tables:
            after_type = "a table of scores" if from_tables else "a model"
            raise InputError(f"{name}: models and tables of scores cannot be mixed; `after` is {after_type}")
    if from_tables and trainer is not None:
        raise InputError("references: with tables of scores, give those of reference models; none can be trained")
    if isinstance(trainer, AuditModels | Path):
        if population is not None:
            raise InputError("population: the audit whose reference models are used has its own; leave it out")
    elif trainer is not None and population is None:
        raise InputError("population: reference models are trained on it, and none is given")


def _list_controls(retrained: Any, references: Any) -> tuple[dict[str, Any], Any]:
    """Return the models that never saw the records by name, and how others are to be trained."""
    if is_score_table(retrained) or callable(retrained):
        raise InputError("retrained: a list of models or of tables of scores is needed")
    controls = {f"retrained {i + 1}": model for i, model in enumerate(as_list(retrained, "retrained"))}
    if isinstance(references, str | Path):
        return controls, check_path(references, "references")
    if isinstance(references, Train | FineTune | Custom | AuditModels):
        return controls, references
    reference_models = [] if references is None else [references] if is_score_table(references) else references
    return controls | {
        f"reference {i + 1}": model for i, model in enumerate(as_list(reference_models, "references"))
    }, None


def _list_models(before: Any, after: Any, controls: Mapping[str, Any]) -> dict[str, Any]:
    return {**({} if before is None else {"before": before}), "after": after, **controls}


def _name_sets(forget: Any, never: Any, retained: Any, other: Any, *, as_records: bool) -> dict[str, Any]:
    """Return the sets by the name of their part, requests in square brackets."""
    requests = dict(forget) if isinstance(forget, Mapping) else {"forget": forget}
    if not requests:
        raise InputError("forget: at least 1 request is needed, got none")
    request_sets = {
        f"[{check_string(name, 'forget: name of a request')}]": records for name, records in requests.items()
    }
    optional = {RETAINED: retained, OTHER: other}
    sets = request_sets | {NEVER: never} | {name: records for name, records in optional.items() if records is not None}
    for name, records in sets.items():
        if isinstance(records, Records):
            if not as_records and records.ids is None:
                raise InputError(f"{_argument(name)}: scores are looked up by id, and these records have none")
        elif as_records:
            raise InputError(f"{_argument(name)}: divulge.Records are needed, got {type(records).__name__}")
        else:
            values = to_numpy(records, _argument(name))
            if values.ndim != 1 or not len(values):
                raise InputError(f"{_argument(name)}: a list of ids is needed, got {format_value(records)}")
            sets[name] = check_ids(values, _argument(name), len(values))
    return sets


def _argument(part: str) -> str:
    """Return the argument that a part was given as."""
    if part.startswith("["):
        return "forget" if part == "[forget]" else f"forget: {part[1:-1]}"
    return {NEVER: "never", RETAINED: "retained", OTHER: "other"}[part]


def _identify_records(sets: Mapping[str, Any]) -> tuple[Array, Array]:
    """Return the ids of all records, and the part of each; records of one id in two sets are refused."""
    part = np.repeat(list(sets), [len(records) for records in sets.values()])
    given_ids = {name: (records.ids if isinstance(records, Records) else records) for name, records in sets.items()}
    if any(values is None for values in given_ids.values()):
        ids = np.concatenate(
            [
                name_rows(_argument(name), len(records)) if given_ids[name] is None else given_ids[name].astype(str)
                for name, records in sets.items()
            ]
        )
    else:
        are_integers = {values.dtype.kind in "iu" for values in given_ids.values()}
        ids = np.concatenate(
            [values if are_integers == {True} else values.astype(str) for values in given_ids.values()]
        )
    values, counts = np.unique(ids, return_counts=True)
    if (repeated := values[counts > 1]).size:
        parts = [_argument(str(name)) for name in dict.fromkeys(part[ids == repeated[0]].tolist())]
        raise InputError(
            f"{', '.join(parts)}: {len(repeated)} ids stand for two records (first: {format_value(repeated[0])}); a "
            "record belongs to one set"
        )
    return ids, part


def name_rows(set_name: str, count: int) -> Array:
    """Return an id for each record of a set that has none: the row in which it was given, counted from 1.

    Examples:
        >>> name_rows("never", 2).tolist()
        ['row 1 of never', 'row 2 of never']
    """
    return np.array([f"row {row} of {set_name}" for row in range(1, count + 1)])


def _separate(sets: dict[str, Records]) -> tuple[dict[str, Records], list[str]]:
    """Refuse equal records in two sets that are compared; leave out copies within one, and retained ones among them.

    Copies of a record are no further observations: they would shorten every interval.
    """
    matches = match_records({_argument(name): records for name, records in sets.items()})
    groups = dict(zip(sets, matches.groups, strict=True))
    warnings = [*matches.notes]
    for name, records in sets.items():
        if records.ids is None:  # numbered before any is left out
            records = records.with_ids(name_rows(_argument(name), len(records)))
        if name in (RETAINED, OTHER):
            sets = sets | {name: records}
            continue
        first_rows = np.unique(groups[name], return_index=True)[1]
        sets = sets | {name: records[np.sort(first_rows)]}
        if copies := len(records) - len(first_rows):
            warnings.append(f"{_argument(name)}: {copies} copies of records within it were left out")
    names = [name for name in sets if name not in (RETAINED, OTHER)]
    for name, later in itertools.combinations(names, 2):
        if n_shared := len(np.intersect1d(groups[name], groups[later])):
            raise InputError(
                f"{_argument(name)}, {_argument(later)}: {n_shared} records are in both; a model that never saw them "
                "cannot be told from one that forgot them"
            )
    requested = np.concatenate([groups[name] for name in names if name != NEVER])
    if RETAINED in sets and (copies := np.isin(groups[RETAINED], requested)).any():
        if copies.all():
            raise InputError("retained: all of these records were to be forgotten")
        sets = sets | {RETAINED: sets[RETAINED][~copies]}
        warnings.append(
            f"{int(copies.sum())} of the retained records equal one that was to be forgotten and were left out; where "
            "such copies were trained on again, a model rightly remembers them"
        )
    sets, notes = _separate_documents(sets, names)
    return sets, [*warnings, *notes]


def _separate_documents(sets: dict[str, Records], names: Sequence[str]) -> tuple[dict[str, Records], list[str]]:
    """Take documents that persons of several sets share out of the records; there are none but of texts.

    Between requests and never-used records they tell nothing of one person; retained ones are rightly remembered.

    Args:
        sets: all records.
        names: of the sets that are compared: requests, and never-used records.
    """
    if sets[NEVER].x.dtype != object:
        return sets, []
    warnings = []
    if shared := people.find_shared_documents([sets[name] for name in names]):
        sets = sets | {name: _without_documents(sets[name], shared, name) for name in names}
        count = f"taken out of every record: {len(shared)}"
        warnings.append(f"documents in records of several of the sets that are compared were {count}")
    requests = [sets[name] for name in names if name != NEVER]
    if RETAINED in sets and (shared := people.find_shared_documents([*requests, sets[RETAINED]])):
        sets = sets | {RETAINED: _without_documents(sets[RETAINED], shared, RETAINED)}
        warnings.append(
            f"documents in retained records that others were to forget were taken out of these: {len(shared)}; where "
            "they were trained on again, a model rightly remembers them"
        )
    return sets, warnings


def _without_documents(records: Records, documents: set[str], name: str) -> Records:
    remaining, _ = people.remove_documents(records, documents)
    if remaining is None:
        raise InputError(f"{_argument(name)}: every document stands in a record of another set as well")
    return remaining


def _find_copied_scores(scores: Floats, part: Array) -> tuple[Bools, list[str]]:
    """Refuse records in two sets that are compared and leave out copies within one, known by their scores alone.

    Records that tie under one model because they are equal tie under all of them; ties of rounded scores do not.

    Args:
        scores: under every model, ``[m, n]``.
        part: of each record ``[n]``.

    Returns:
        Bool ``[n]``, True for the first of each set of copies; and what was left out.
    """
    _, groups = np.unique(scores, axis=1, return_inverse=True)
    groups = groups.ravel()
    n_distinct = int(groups.max()) + 1
    finest = max(len(np.unique(row)) for row in scores)
    is_first = np.ones(len(part), dtype=bool)
    if len(scores) < _MIN_TO_KNOW_COPIES or not _MIN_DISTINCT <= n_distinct < len(part) or n_distinct > finest:
        return is_first, []
    warnings = []
    names = [name for name in dict.fromkeys(part.tolist()) if name not in (RETAINED, OTHER)]
    for i, name in enumerate(names):
        rows = np.flatnonzero(part == name)
        for later in names[i + 1 :]:
            if shared := len(np.intersect1d(groups[rows], groups[part == later])):
                raise InputError(
                    f"{_argument(name)}, {_argument(later)}: {shared} records are in both: they score alike under "
                    "every model"
                )
        first_rows = rows[np.sort(np.unique(groups[rows], return_index=True)[1])]
        is_first[rows], is_first[first_rows] = False, True
        if copies := len(rows) - len(first_rows):
            warnings.append(
                f"{_argument(name)}: {copies} records that score like another one under every model were left out: "
                "copies are no further observations"
            )
    return is_first, warnings


def _stack_records(sets: Mapping[str, Records]) -> list[Records]:
    """Return the records to be forgotten, those never used, and the rest where there is any."""
    groups = [
        [records for name, records in sets.items() if name.startswith("[")],
        [sets[NEVER]],
        [sets[name] for name in (RETAINED, OTHER) if name in sets],
    ]
    return [Records.concatenate(group) for group in groups if group]


def _stack_correct(read: Mapping[str, ModelScores]) -> Floats | None:
    """Return whether the models before and after predict each class; None where that is not known of both."""
    correct = [read[name].correct for name in ("before", "after") if name in read]
    measured = [each for each in correct if each is not None]
    return np.stack(measured) if len(measured) == 2 else None


def _describe_null(controls: Mapping[str, Any], n_trained: int) -> str:
    sources = [name.split()[0] for name in controls] + ["reference"] * n_trained
    present_sources = [source for source in ("retrained", "reference") if source in sources]
    return f"{' and '.join(present_sources)} models" if present_sources else "nothing"


def _check_records(sets: Mapping[str, Records], seed: int) -> list[StudyControl]:
    """Compare the records of each request with never-used ones, without any model."""
    never = sets[NEVER]
    checks: list[StudyControl] = []
    for name, records in sets.items():
        if not name.startswith("["):
            continue
        has_labels = records.labels is not None and never.labels is not None
        joined = Records.concatenate([records, never])  # frames of both are encoded together
        checks.append(
            compare_blindly(
                blind_name(name[1:-1]), joined.x[: len(records)], joined.x[len(records) :],
                (records.labels, never.labels) if has_labels else (None, None), seed,
                apart="without any model the records can be told from never-used ones ({}): only models that never saw "
                "them say what is to be expected",
                alike="the records look like never-used ones",
            )
        )  # fmt: skip
        if records.x.dtype == object and never.x.dtype == object:
            request = name[1:-1]
            texts = list(records.x)
            other_texts = list(never.x)
            lengths = [np.array([len(text) for text in side], dtype=np.float64) for side in (other_texts, texts)]
            p_value = statistics.rank_sum_p_value(*lengths, seed=seed)
            signs = evaluation.text_differences(
                texts, other_texts, names=("forgotten", "never-used"), false_alarm=FALSE_ALARM, seed=seed
            )
            copies, _ = evaluation.near_duplicates(texts, other_texts).pairs[0].counts
            passages = f"{copies} of {len(texts)} share half of their word sequences or more with a never-used document"
            checks += [
                StudyControl(f"length: {request}", p_value > FALSE_ALARM, f"p = {p_value:.2g} by ranks of the lengths"),
                StudyControl(
                    f"topic: {request}", not signs, "; ".join(map(str, signs[:3])) or "no word, year or length differs"
                ),
                StudyControl(f"shared passages: {request}", not copies, passages),
            ]
    return checks


def _describe_unseen(controls: Floats, part: Array) -> list[StudyControl]:
    """Say how many controls never saw each record, where some did."""
    used = controls[:, [name == NEVER or str(name).startswith("[") for name in part.tolist()]]
    if not np.isnan(used).any():
        return []
    fewest = int((~np.isnan(used)).sum(axis=0).min())
    says = f"each record is compared with the {fewest} or more of {len(controls)} models that were not trained on it"
    return [StudyControl("controls that saw a record are left out", True, says)]


def _check_models(after: Floats, before: Floats | None, controls: Floats, part: Array) -> list[StudyControl]:
    """Check that something was done to the model, and that the controls are models of its kind."""
    checks = []
    if before is not None:
        same = bool(np.array_equal(after, before))
        says = "both models score every record alike: nothing was done" if same else "the models differ"
        checks.append(StudyControl("after = before", not same, says))
    never = part == NEVER
    if len(controls) >= 2:
        # Never-used records tell how a model generalises, whatever it remembers: how high they score, how far apart.
        ends = []
        for row in controls:
            never_rows = np.flatnonzero(never & ~np.isnan(row))
            is_after = np.repeat([False, True], len(never_rows))
            joined = np.r_[row[never_rows], after[never_rows]]
            distances = np.abs(joined - np.median(row[never_rows]))
            ends += [measure(values, is_after, "auc").value for values in (joined, distances)]
        level, width = ends[::2], ends[1::2]
        matched = all(min(aucs) < 0.6 and max(aucs) > 0.4 for aucs in (level, width))
        says = (
            f"never-used records score higher under the model than under the controls in {min(level):.2f} to "
            f"{max(level):.2f} of pairs, and further apart in {min(width):.2f} to {max(width):.2f}"
        ) + ("" if matched else ": the controls were not trained like the model, or the erasure changed it as a whole")
        checks.append(StudyControl(CONTROLS_MATCH, matched, says))
    checks += _check_controls(after, before, controls, part)
    return checks + _describe_unseen(controls, part)


def _check_controls(after: Floats, before: Floats | None, controls: Floats, part: Array) -> list[StudyControl]:
    """Look for controls that are the model itself, or that seem to have seen the records."""
    if not len(controls):
        return []
    used = np.array([name == NEVER or str(name).startswith("[") for name in part.tolist()])
    forgotten, problems = part[used] != NEVER, []
    for i, row in enumerate(controls):
        for name, model in (("before", before), ("after", after)):
            if model is not None and np.ptp(row) > 0 and np.array_equal(row, model):
                problems.append(f"model {i + 1} scores every record as the one {name} the erasure")
    if len(controls) > _MIN_FOR_OUTLIERS and not np.isnan(controls).any():  # who saw what is known of an audit's
        for i, row in enumerate(controls):
            other_controls = np.delete(controls, i, axis=0)
            test = evaluation.erasure_test(
                row[used], other_controls[:, used], forgotten, confidence=1 - FALSE_ALARM / len(controls)
            )
            if test.answer == REMEMBERED:
                problems.append(f"model {i + 1} shows the records as one that was trained on them would")
    if len(controls) >= _MIN_FOR_OUTLIERS and not np.isnan(controls).any():
        # Models of which each saw some of the records disagree about these, and not about never-used ones.
        relative = controls - (controls.sum(axis=0) - controls) / (len(controls) - 1)
        middle = np.median(relative[:, part == NEVER], axis=1, keepdims=True)
        disagreement = statistics.auc(np.abs(relative - middle).mean(axis=0)[used], forgotten, 1 - FALSE_ALARM)
        if disagreement.low > 0.5:
            problems.append(
                "they disagree about the records more than about never-used ones, as models do of which each saw some"
            )
    says = "; ".join(problems) or "none scores as the model itself, or as one that was trained on the records"
    return [StudyControl(CONTROLS_NEVER_SAW, not problems, says)]


def _warnings(result: Erasure) -> list[str]:
    """Say what limits the answer."""
    k, warnings = len(drop_copies(result.controls)), []
    if k < 2:
        warnings.append(
            f"{'no model' if k == 0 else 'a single model'} that never saw the records was given: training noise is not "
            f"included; {RECOMMENDED_CONTROLS} or more are recommended"
        )
    elif k < RECOMMENDED_CONTROLS:
        warnings.append(f"{k} models that never saw the records; {RECOMMENDED_CONTROLS} or more are recommended")
    if k < len(result.controls):
        warnings.append(
            f"{len(result.controls) - k} of the models that never saw the records score every record as another one "
            "does, and were left out: copies, or trainings with one seed, show no spread"
        )
    warnings += [f"{check.name}: {check.says}" for check in result.checks if not check.passed]
    return warnings


@dataclass(frozen=True, slots=True, eq=False)
class AuditModels:
    """How the reference models of an audit were trained.

    Args:
        folder: the run directory.
        references: how they were trained.
        records: that they learned from, ``r`` of them: the population, and where ``saw_candidates`` the candidates too.
        trained_on: bool ``[m, r]``, which of them each model was trained on.
        saw_candidates: whether they are models of an online audit, each of which saw half of the candidates.
        pool: where they are kept.
        seed: of the audit.
    """

    folder: Path
    references: Any
    records: Records
    trained_on: Bools
    saw_candidates: bool
    pool: Path
    seed: int


def open_audit_models(folder: Path, trust: Sequence[str] = ()) -> AuditModels:
    """Find the reference models of the audit in a run directory.

    Offline attacks compare with models that learned from halves of the population, and saw neither members nor
    non-members: these are taken where the audit has them. Models of online attacks saw half of the candidates each, so
    that every record is compared with those that did not see it. Networks are read from the pool of the run; of other
    models a pool keeps the scores that the audit needed, so that they are trained again, with the same records and
    seeds. What the audit's plan names as code is run, so it has to be trusted by name.

    Args:
        folder: the run directory of the audit.
        trust: code that its plan may name ("module:name"), and types that a ``.skops`` target may be built from.

    Raises:
        divulge.InputError: no finished audit, one that was started from Python or trains no reference models, code that
            is not trusted, files of the plan that are gone.
    """
    name = f"references: {folder}"
    try:
        run_kind = RunDirectory(folder).kind()
    except InputError as error:
        raise InputError(f"references: {error}") from None
    if run_kind != KIND:
        raise InputError(f"{name}: the run of an audit is needed, got one of kind {run_kind!r}")
    try:
        plan = plans.read(folder / "plan.toml")
    except InputError as error:
        raise InputError(
            f"{name}: {error}; give its trainer, population and pool as `references`, `population` and `pool`"
        ) from None
    if isinstance(plan.references, str):
        raise InputError(f"{name}: the audit has no reference models")
    home = (folder / (plan.folder or ".")).resolve()
    unknown = {key: code for key, code in plans.list_named_code(plan, home).items() if code not in trust}
    if unknown:
        listed = ", ".join(f"{key} = {code!r}" for key, code in unknown.items())
        first_code = next(iter(unknown.values()))
        raise InputError(f"{name}: its plan runs code in {home} ({listed}); trust it by name (--trust {first_code})")
    try:
        resolved = plans.resolve(plan, folder, trust)
        records, trained_on = list_reference_data(resolved.target, resolved.first_subject, resolved.options)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    population = resolved.subject.population
    n_outside = 0 if population is None else len(population)
    return AuditModels(
        folder, resolved.options.references, records, trained_on, len(records) > n_outside,
        resolved.pool or folder / "pool", plan.seed,
    )  # fmt: skip
