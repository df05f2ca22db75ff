"""Plans: TOML files that describe an audit. `read` checks one, `resolve` reads the files that it names.

`write_starting_plan` writes a commented plan to start from. The keys are the settings of `divulge.settings.Plan`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np
import polars as pl

from divulge import access, completion, datafiles, lazy, seeds, tables, user_code
from divulge import recipes as book
from divulge.columns import format_names, has_pandas
from divulge.datafiles import DataFile, FileLayout
from divulge.errors import InputError, UserCodeError
from divulge.references import Custom, FineTune, LoRA, Train, clones
from divulge.settings import (
    AccessPlan,
    AuditSettings,
    CustomPlan,
    DataPlan,
    ErasureRules,
    FineTunePlan,
    FineTuningSettings,
    InitSettings,
    Plan,
    ReferencesPlan,
    ResolvedAuditSettings,
    SearchRules,
    SearchSettings,
    TargetPlan,
    TrainingSettings,
    TrainPlan,
)
from divulge.store import read_arrays, read_untrusted
from divulge.targets import SklearnRegressor, SklearnTarget, is_language_model, network_stubs
from divulge.targets import files as models
from divulge.targets.estimators import known_texts
from divulge.targets.fitted_frames import estimator_errors, fitted_frame_library, takes_array
from divulge.targets.sacro_folders import read_sacro_folder, refuse_pickle
from divulge.types import AuditData, Records
from divulge.validation import check_path, format_value

if TYPE_CHECKING:
    from pydantic import BaseModel

    from divulge.targets import folders as model_folders
    from divulge.targets.folders import FolderHints
    from divulge.types import Bools
else:
    model_folders = lazy.module("divulge.targets.folders")

_DEFAULTS = ResolvedAuditSettings()

Ask: TypeAlias = Callable[[str, str], str]
"""A question and its default → the answer."""


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedPlan:
    """A plan whose files are read and whose names are imported.

    Args:
        target: the model under audit.
        origins: where the code that the plan names came from: key → file, or "the environment".
        subject: what is audited; ``known`` is a mask, several of them for `divulge.auditing.over_shares`, or None.
        options: the options of the audit.
        pool: folder of finished reference models, or None.
        plan: the plan itself, to be kept with the run.
    """

    target: Any
    origins: Mapping[str, str]
    subject: AuditData
    options: ResolvedAuditSettings
    pool: Path | None
    plan: Mapping[str, Any]

    @property
    def first_subject(self) -> AuditData:
        """Audit data with the first of several masks."""
        masks = self.subject.known
        return replace(self.subject, known=masks[0]) if isinstance(masks, tuple) else self.subject


def read(path: str | Path) -> Plan:
    """Read and check the plan in a TOML file.

    Raises:
        divulge.InputError: no such file, not TOML, or keys and values that do not fit: each of them
            is named with its bound and its value.
    """
    file = Path(path)
    if file.is_dir():
        raise InputError(f"plan: {file} is a folder, and a file is needed, such as {file / 'plan.toml'}")
    if tables.is_table_file(file) and file.exists():
        raise InputError(
            f"plan: {file} is a table, not a plan. divulge init writes a plan; scores of records whose membership is "
            "known are judged without one: docs/evaluation.md"
        )
    try:
        content = tomllib.loads(read_untrusted(file).decode())
    except FileNotFoundError:
        raise InputError(f"plan: no such file: {file}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"plan: {file} is not readable TOML ({error})") from None
    if isinstance(target := content.get("target"), str):
        if (file.parent / target).is_file():
            raise InputError(f"plan: {file}: target: a table is needed: [target], and below it model = {target!r}")
        raise InputError(
            f"plan: {file} records an audit started from Python; its target and data were objects, not files, so it "
            "cannot be run again from here"
        )
    if "synthetic" in content:
        raise InputError(f"plan: {file} is of a released table, for `divulge synthetic {file}`")
    try:
        return Plan.check(**content)
    except InputError as error:
        raise InputError(f"plan: {file}: {error}") from None


def resolve(plan: Plan, folder: Path, trust: Sequence[str] = ()) -> ResolvedPlan:
    """Read the files and import the names of a plan.

    No model is queried yet, but about a record with a text where another file holds numbers alone.

    Args:
        plan: what `read` returned.
        folder: folder of the plan; relative paths start here.
        trust: types that a ``.skops`` target may be built from, beside those that the plan names.

    Raises:
        divulge.InputError: a file or name that cannot be used; the message names the plan's key.
    """
    if plan.data.candidates is not None:
        raise InputError(
            "data.candidates: records of unknown membership, and here members are compared with non-members; for a "
            "list of those that were used, run: divulge identify PLAN"
        )
    opened = _open(plan, folder, trust, ("members", "nonmembers", "population"))
    sets = opened.sets
    groups = None
    if plan.data.group is not None:
        groups = np.concatenate([sets["members"].group, sets["nonmembers"].group])
    covariates = None
    if plan.data.covariates is not None:
        candidate_sets = [sets["members"].covariates, sets["nonmembers"].covariates]
        covariates = {name: np.concatenate([side[name] for side in candidate_sets]) for name in plan.data.covariates}
    subject = AuditData(
        members=sets["members"].records,
        nonmembers=sets["nonmembers"].records,
        population=opened.population,
        unseen_classes=opened.unseen_classes,
        groups=groups,
        known=_read_masks(plan, sets["members"], len(sets["members"].records) + len(sets["nonmembers"].records)),
        covariates=covariates,
        features=opened.features,
    )
    options = ResolvedAuditSettings(
        **{name: getattr(plan, name) for name in AuditSettings.model_fields if name != "recipes"},
        recipes=opened.recipes,
        outputs=plan.target.outputs,
        references=opened.references,
        imputer=_make_imputer(plan),
    )
    # Columns that a plan names must be there: to be run again it must name those alone that the user named.
    data = plan.data.model_dump(exclude_none=True, exclude_unset=True)
    resolved_plan = plan.model_dump(exclude_none=True) | {"folder": str(opened.folder), "data": data}
    return ResolvedPlan(opened.target, opened.origins, subject, options, opened.pool, resolved_plan)


def resolve_candidates(plan: Plan, folder: Path, trust: Sequence[str] = ()) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Read a plan whose ``[data]`` names candidates of unknown membership.

    Args:
        plan: what `read` returned.
        folder: as for `resolve`.
        trust: as for `resolve`.

    Returns:
        Keyword arguments of `divulge.identify`; where the code that the plan names came from.

    Raises:
        divulge.InputError: as for `resolve`; no candidates.
    """
    if plan.data.candidates is None:
        raise InputError(
            "data.candidates: a file of the records in question is needed; where members and non-members are known, "
            "run: divulge audit PLAN"
        )
    if plan.data.covariates is not None or isinstance(plan.known, list):
        name = "known: one text is needed" if isinstance(plan.known, list) else "data.covariates: not possible here"
        raise InputError(f"{name}, as candidates are of unknown membership")
    names = {"candidates": "candidates", "members": "members", "nonmembers": "holdout", "population": "population"}
    opened = _open(plan, folder, trust, [name for name in names if getattr(plan.data, name) is not None])
    records = {names[name]: file.records for name, file in opened.sets.items()} | {"population": opened.population}
    rules = {} if plan.identify is None else dict(plan.identify)
    shared = ("task", "unknown_classes", "duplicates", "device", "calls", "seed", "show_records", "known")
    return {
        "target": opened.target,
        **records,
        "recipes": opened.recipes if "recipes" in plan.model_fields_set else SearchSettings().recipes,
        "references": opened.references,
        "unseen_classes": opened.unseen_classes,
        "features": opened.features,
        "imputer": _make_imputer(plan),
        "outputs": plan.target.outputs,
        "pool": opened.pool,
        **{name: getattr(plan, name) for name in shared},
        **rules,
    }, opened.origins


@dataclass(frozen=True, slots=True, eq=False)
class _OpenedPlan:
    """What every use of a plan needs: files that are read, and names that are imported."""

    folder: Path
    target: Any
    origins: Mapping[str, str]
    recipes: tuple[Any, ...]
    sets: Mapping[str, DataFile]
    population: Records
    unseen_classes: tuple[int | str, ...]
    references: Train | Custom | FineTune | Literal["auto"] | None
    features: Any
    pool: Path | None


def _open(plan: Plan, folder: Path, trust: Sequence[str], keys: Sequence[str]) -> _OpenedPlan:
    """Read the files of these keys of ``[data]`` and import the names of a plan; see `resolve`."""
    folder = (folder / (plan.folder or ".")).resolve()
    if not folder.is_dir():
        raise InputError(f"folder: no such directory: {folder}")
    origins = _import_named_code(plan, folder)
    recipes = book.configure(plan.recipes, plan.recipe or {}, folder)
    sets = {key: _read_records(folder, plan.data, key) for key in keys}
    if codes := datafiles.find_code_columns(list(sets.values())):
        sets = {key: _read_records(folder, plan.data, key, codes) for key in sets}
    sets = _tell_texts_apart(folder, plan.data, sets)
    _check_same_columns(sets)
    is_text = any(tables.is_text_folder(folder / getattr(plan.data, key)) for key in keys)
    holds_documents = is_text or bool(_layout(plan.data).document_columns())
    if not holds_documents:
        _check_labels(plan, recipes, sets)
    population, dropped_classes = _apply_access(plan.access, sets["population"], plan.seed)
    references = _make_references(plan.references, plan.device, folder)
    target = models.load(
        plan.target.model,
        factory=plan.target.factory,
        outputs=plan.target.outputs,
        device=plan.device,
        folder=folder,
        trust=(*plan.target.trust, *trust),
        base=plan.target.base,
        dtype=plan.target.dtype,
        bos=plan.target.bos,
        endpoint=plan.target.endpoint,
        labels_only=True,
        names=plan.data.classes,
        task=plan.task,
        output=plan.target.output,
    )
    if codes_of_target := datafiles.find_code_columns(list(sets.values()), known_texts(target)):
        sets = {key: _read_records(folder, plan.data, key, (*codes, *codes_of_target)) for key in sets}
        population, dropped_classes = _apply_access(plan.access, sets["population"], plan.seed)
    if isinstance(target, SklearnTarget | SklearnRegressor):
        target = replace(target, frames=_choose_frames(plan.target.frames, target, sets[keys[0]].records))
        _check_texts_among_numbers(target, plan.data, sets, codes)
        _check_empty_values(target, plan.data, sets)
    if holds_documents:
        _check_labels(plan, recipes, sets, target)
    pool = None if isinstance(plan.references, str) or plan.references.pool is None else folder / plan.references.pool
    features = None
    if _names_function(plan.data):
        features = user_code.import_object(plan.data.features, "data.features", folder).value
    unseen_classes = tuple(dict.fromkeys((*plan.unseen_classes, *dropped_classes)))
    return _OpenedPlan(
        folder, target, origins, tuple(recipes), sets, population, unseen_classes, references, features, pool
    )


def _make_imputer(plan: Plan) -> Any:
    imputers = {"gaussian": completion.ConditionalGaussian, "mean": completion.Mean}
    return None if plan.known is None else imputers[plan.imputer]()


def resolve_forget(plan: Plan, resolved: ResolvedPlan, folder: Path, trust: Sequence[str] = ()) -> dict[str, Any]:
    """Load the models and records of the plan's ``[forget]``, and return the arguments of `divulge.forget`.

    Args:
        plan: what `read` returned.
        resolved: what `resolve` made of it.
        folder: folder of the plan.
        trust: as for `resolve`.

    Raises:
        divulge.InputError: no ``[forget]``, a file or name that cannot be used; the message names the plan's key.
    """
    if plan.forget is None:
        raise InputError("plan: it has no table [forget]")
    folder = (folder / (plan.folder or ".")).resolve()

    def load(name: str, key: str) -> Any:
        try:
            return models.load(
                name, factory=plan.target.factory, outputs=plan.target.outputs, device=plan.device, folder=folder,
                trust=(*plan.target.trust, *trust), base=plan.target.base, dtype=plan.target.dtype,
                bos=plan.target.bos, endpoint=plan.target.endpoint, labels_only=True, names=plan.data.classes,
                task=plan.task, output=plan.target.output if name.lower().endswith(".onnx") else None,
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"forget.{key}: {error}") from None

    files = plan.forget.records if isinstance(plan.forget.records, dict) else {"forget": plan.forget.records}
    requests = {}
    table = resolved.subject.members.table
    codes = () if table is None else tuple(name for name in table.columns if table[name].dtype == nw.String)
    for name, file in files.items():
        try:
            requests[name] = datafiles.read_records(folder / file, replace(_layout(plan.data), codes=codes)).records
        except InputError as error:
            raise InputError(f"forget.records: {error}") from None
    subject, trainer = resolved.subject, resolved.options.references
    trainer = None if trainer == "auto" else trainer
    return {
        "before": resolved.target,
        "after": load(plan.forget.after, "after"),
        "forget": requests,
        "never": subject.nonmembers,
        "retrained": [load(name, "retrained") for name in plan.forget.retrained],
        "references": trainer,
        "population": None if trainer is None else subject.population,
        "retained": _without_requests(subject.members, requests),
        "pool": resolved.pool,
        "outputs": plan.target.outputs,
        "device": plan.device,
        "task": plan.task,
        "seed": plan.seed,
        **{name: getattr(plan.forget, name) for name in ErasureRules.model_fields},
    }


def _without_requests(members: Records, requests: Mapping[str, Records]) -> Records | None:
    """Return the training records without those of the requests, as far as ids tell; None if none is left."""
    ids = [records.ids.astype(str) for records in requests.values() if records.ids is not None]
    if members.ids is None or not ids:
        return members
    requested = np.isin(members.ids.astype(str), np.concatenate(ids))
    return members if not requested.any() else None if requested.all() else members[~requested]


def describe_default_training(plan: Plan, training: Any) -> str:
    """Say with which defaults reference networks are trained; empty where the plan has a setting of their training.

    Args:
        plan: what `read` returned.
        training: the references that were made of it.
    """
    written, defaults = plan.references, _training_defaults()
    is_open = isinstance(written, TrainPlan) and written.match is None and not written.model_fields_set & set(defaults)
    if not is_open or training.make_model is None or clones.build_estimator(training.make_model) is not None:
        return ""
    settings = ", ".join(f"{name}={value}" for name, value in defaults.items())
    return (
        f"references: networks are trained with defaults ({settings}): write those with which the target was trained "
        "below [references]; with others, the audit may understate the leak"
    )


def list_named_code(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the code that a plan names, "module:name" by the plan's keys.

    Args:
        plan: what `read` returned.
        folder: where its modules are looked for.
    """
    model = plan.target.model
    is_code = plan.target.endpoint is None and ":" in model and not model.startswith("hf:")
    is_file = is_code and check_path(folder / model, "target.model").exists()
    names = {
        "target.model": model if is_code and not is_file else None,
        "target.factory": plan.target.factory,
        "references.make_model": plan.references.make_model if isinstance(plan.references, TrainPlan) else None,
        "data.features": plan.data.features if _names_function(plan.data) else None,
        "references.train": plan.references.train if isinstance(plan.references, CustomPlan) else None,
        **{f"recipes {name}": name for name in plan.recipes if ":" in name},
    }
    return {key: name for key, name in names.items() if name is not None}


def _import_named_code(plan: Plan, folder: Path) -> dict[str, str]:
    """Import the code that the plan names, so that recipes in a file are known from now on; return where it lies."""
    code_names = list_named_code(plan, folder)
    return {key: user_code.import_object(name, key, folder).origin for key, name in code_names.items()}


def _read_records(folder: Path, plan: DataPlan, key: str, codes: tuple[str, ...] = ()) -> DataFile:
    """Read the records of one file."""
    name = getattr(plan, key)
    try:
        file = datafiles.read_records(folder / name, replace(_layout(plan), codes=codes))
    except InputError as error:
        raise InputError(f"data.{key}: {error}") from None
    if not file.folders:
        return file
    # Each set may have a cat/0.png.
    ids = [f"{Path(name).as_posix()}/{record_id}" for record_id in np.asarray(file.records.ids)]
    return replace(file, records=file.records.with_ids(ids))


def _tell_texts_apart(folder: Path, plan: DataPlan, sets: dict[str, DataFile]) -> dict[str, DataFile]:
    """Return the sets with the folders in the ids of texts, where several folders have files of one name."""
    names = {key: Path(getattr(plan, key)) for key in sets if tables.is_text_folder(folder / getattr(plan, key))}
    all_ids = [record_id for key in names for record_id in np.asarray(sets[key].records.ids).tolist()]
    if len(set(all_ids)) == len(all_ids):
        return sets
    ids = {
        key: [f"{name.as_posix()}/{each}" for each in np.asarray(sets[key].records.ids)] for key, name in names.items()
    }
    return sets | {key: replace(sets[key], records=sets[key].records.with_ids(ids[key])) for key in names}


def _layout(plan: DataPlan) -> FileLayout:
    settings = plan.model_dump(include={field.name for field in fields(FileLayout)})
    if _names_function(plan):
        settings["features"] = None
    for key in ("columns", "classes", "drop", "covariates"):
        if settings[key] is not None:
            if repeated := sorted({name for name in settings[key] if settings[key].count(name) > 1}):
                raise InputError(f"data.{key}: each may be named once, got {repeated[0]!r} more than once")
            settings[key] = tuple(settings[key])
    return FileLayout(**settings, user_set=frozenset(plan.model_fields_set), real_values=True)


def _names_function(plan: DataPlan) -> bool:
    """Check whether the features are those that a function makes of the records."""
    return plan.features is not None and ":" in plan.features


def _check_same_columns(sets: dict[str, DataFile]) -> None:
    """Check that all files have the same columns; arrays, whose columns have no names, in the same order."""
    first = next(iter(sets))
    member_columns, folders = sets[first].columns, sets[first].folders
    for key, file in sets.items():
        if file.folders != folders and file.folders and folders:
            different = sorted(set(folders) ^ set(file.folders))
            raise InputError(
                f"data.{key}: the folders of the classes differ from those of data.{first} in {', '.join(different)}; "
                "set data.classes to all of them, in the order of the model's outputs"
            )
        if file.columns != member_columns and (file.records.table is None or set(file.columns) != set(member_columns)):
            sides = {
                f"data.{first}": sorted(set(member_columns) - set(file.columns)),
                f"data.{key}": sorted(set(file.columns) - set(member_columns)),
            }
            differences = [f"{', '.join(names)} only in {side}" for side, names in sides.items() if names]
            lacking = sides[f"data.{key}"] if first in ("candidates", "members") else []
            remedy = (
                f"; if nobody knows them, add them to data.{first} as empty columns, and name the others as known = "
                '"columns:…"'
                if lacking
                else ""
            )
            raise InputError(
                f"data.{key}: the columns differ from those of data.{first}: {'; '.join(differences)}{remedy}"
                if differences
                else f"data.{key}: the columns are in another order than in data.{first}"
            )


def _check_labels(
    plan: Plan, recipes: Sequence[str | book.AttackSettings], sets: dict[str, DataFile], target: Any = None
) -> None:
    """Check that there are labels where recipes read them; for documents of a language model, none does."""
    if any(book.resolve_for(target, recipe).needs_labels for recipe in recipes):
        datafiles.require_labels(sets, _layout(plan.data))
    elif not is_language_model(target):
        datafiles.require_labels({key: file for key, file in sets.items() if file.unlabelled}, _layout(plan.data))


def _apply_access(plan: AccessPlan, file: DataFile, seed: int) -> tuple[Records, tuple[int, ...]]:
    """Return the part of the population that the auditor holds, and the classes that are dropped."""
    population, groups = file.records, file.group
    dropped_classes: tuple[int, ...] = tuple(plan.drop_classes)
    if plan.drop_share is not None:
        dropped_classes += access.DropShare(plan.drop_share).dropped(population, seed)
    rules: list[access.Access] = []
    if dropped_classes:
        rules.append(access.DropClasses(dropped_classes))
    if plan.drop_groups:
        rules.append(access.DropGroups(tuple(plan.drop_groups)))
    if plan.keep_per_class is not None:
        rules.append(access.KeepPerClass(plan.keep_per_class))
    try:
        for rule in rules:
            kept_rows = rule.mask(population, groups, seed)
            population, groups = population[kept_rows], None if groups is None else groups[kept_rows]
    except InputError as error:
        raise InputError(f"access: {error}") from None
    return population, dropped_classes


def _make_references(
    plan: ReferencesPlan, device: str, folder: Path
) -> Train | Custom | FineTune | Literal["auto"] | None:
    if isinstance(plan, str):
        return None if plan == "none" else "auto"
    settings: dict[str, Any] = plan.model_dump(exclude={"pool", "lora"}, exclude_none=True)
    if isinstance(plan, CustomPlan):
        settings["train"] = user_code.import_object(plan.train, "references.train", folder).value
        return Custom(**settings)
    settings = {"device": device} | settings
    if isinstance(plan, TrainPlan) and plan.make_model is None:
        return Train(**settings)
    if isinstance(plan, TrainPlan):
        settings["make_model"] = user_code.import_object(plan.make_model, "references.make_model", folder).value
        return Train(**settings)
    if plan.lora is not None:
        settings["lora"] = LoRA(**plan.lora.model_dump())
    base_folder = check_path(folder / plan.base, "references.base")
    if not plan.base.startswith("hf:") or base_folder.exists():
        if not base_folder.is_dir():
            raise InputError(
                f"references.base: no such folder: {base_folder} (and no 'hf:NAME' either); "
                "it is the model that the target was tuned from; where you have none, remove [references]: attacks see "
                "less then"
            )
        settings["base"] = str(base_folder)
    return FineTune(**settings)


def _choose_frames(
    requested: Literal["auto", "pandas", "polars"], target: SklearnTarget | SklearnRegressor, records: Records
) -> Literal["auto", "pandas", "polars"]:
    """Return the library of the frames that a model is given; a model fitted on an array of numbers is given none."""
    is_plain = records.encoder is None or records.encoder.is_plain
    if requested != "auto" or (is_plain and not target.feature_names) or takes_array(target.estimator, records):
        return requested
    return fitted_frame_library(target.estimator) or ("pandas" if has_pandas() else "polars")


def _check_texts_among_numbers(
    target: SklearnTarget | SklearnRegressor, plan: DataPlan, sets: Mapping[str, DataFile], names: Sequence[str]
) -> None:
    """Raise if the model cannot read the texts in columns that hold numbers alone in another file."""
    for key, file in sets.items():
        for name in names:
            assert file.records.table is not None
            values = file.records.table[name].to_list()
            is_text = (value is not None and not datafiles.is_number(value) for value in values)
            row = next((row for row, is_found in enumerate(is_text) if is_found), None)
            if row is None:
                continue
            record = file.records[np.array([row])]
            if (error := _error_of_prediction(target, record)) is not None:
                raise InputError(
                    f"data.{key}: {getattr(plan, key)}: row {row + 1} (the header not counted), column {name!r} holds "
                    f"the text {format_value(values[row])}, where another file has numbers, and the model cannot read "
                    f"it ({type(error.__cause__).__name__})"
                ) from error


def _check_empty_values(target: SklearnTarget | SklearnRegressor, plan: DataPlan, sets: Mapping[str, DataFile]) -> None:
    """Raise if the model answers about records that are complete, and not about one in which values are missing."""
    for key, file in sets.items():
        table = file.records.table
        if table is None:
            continue
        empty = {name: np.flatnonzero(table[name].is_null().to_numpy()) for name in table.columns}
        complete = np.setdiff1d(np.arange(len(table)), np.concatenate(list(empty.values())))
        if len(complete) in (0, len(table)) or _error_of_prediction(target, file.records[complete[:1]]) is not None:
            continue
        for row in dict.fromkeys(int(rows[0]) for rows in empty.values() if len(rows)):
            if (error := _error_of_prediction(target, file.records[np.array([row])])) is not None:
                names = [name for name in table.columns if row in empty[name]]
                raise InputError(
                    f"data.{key}: {getattr(plan, key)}: row {row + 1} (the header not counted) is empty in "
                    f"{format_names(names)}, and the model takes no empty value "
                    f"({type(error.__cause__).__name__}); fill it in or leave the row out"
                ) from error


def _error_of_prediction(target: SklearnTarget | SklearnRegressor, record: Records) -> UserCodeError | None:
    """Return the error that the model raises when it is asked about one record; None without any."""
    inputs = target.model_inputs(record)
    try:
        with warnings.catch_warnings(), estimator_errors(target.estimator, record, inputs):
            warnings.simplefilter("ignore")  # it will say the same of the records, if they are scored
            target.estimator.predict(inputs)
    except UserCodeError as error:
        return error
    return None


def _read_masks(plan: Plan, members: DataFile, n_candidates: int) -> Bools | tuple[Bools, ...] | None:
    """Return the mask that ``known`` describes; several for a list."""
    if plan.known is None:
        return None
    columns = members.columns
    shape = members.records.x.shape[1:] if members.records.table is None else (len(columns),)
    descriptions = [plan.known] if isinstance(plan.known, str) else plan.known
    masks = tuple(
        completion.mask(text, shape, columns=columns, seed=plan.seed, records=n_candidates) for text in descriptions
    )
    return masks[0] if isinstance(plan.known, str) else masks


_USUAL_ANSWERS: dict[str, dict[str, str]] = {
    "images": {
        "model": "model.safetensors",
        "known": "yes",
        "candidates": "candidates.npz",
        "members": "members.npz",
        "nonmembers": "nonmembers.npz",
        "population": "population.npz",
        "label": "label",
        "references": "16",
    },
    "table": {
        "model": "model.skops",
        "known": "yes",
        "candidates": "candidates.csv",
        "members": "members.csv",
        "nonmembers": "nonmembers.csv",
        "population": "population.csv",
        "label": "label",
        "references": "8",
    },
    "text": {
        "model": "finetuned/",
        "known": "yes",
        "candidates": "candidates.jsonl",
        "members": "members.jsonl",
        "nonmembers": "nonmembers.jsonl",
        "population": "population.jsonl",
        "label": "text",
        "references": "4",
    },
}


def complete_answers(settings_by_name: Mapping[str, Any], ask: Ask | None) -> InitSettings:
    """Return what there is to audit: as given, or else asked, or else the usual where nobody can be asked.

    Args:
        settings_by_name: settings by name; None where a setting is not given.
        ask: asks the user; None where nobody can be asked.

    Raises:
        divulge.InputError: an unknown kind of records, an empty name, a number of models below 0.
    """
    answers: dict[str, Any] = {}
    for name, field in InitSettings.model_fields.items():
        if name in _surplus_files(answers, settings_by_name):
            continue
        if name in ("task", "id"):  # not asked: files and data show it nearly always
            if (given := settings_by_name.get(name)) is not None:
                answers[name] = getattr(InitSettings.check(**{name: given}), name)
            continue
        usual = _usual_answer(name, answers, settings_by_name)
        options = get_args(field.annotation)
        question = f"{field.description}"[:-1] + (f" ({', '.join(options)})" if options else "")
        answer = settings_by_name.get(name)
        if answer is None:
            answer = usual if ask is None else ask(question, usual)
        if name == "references" and isinstance(answer, str) and answer.isdecimal():
            answer = int(answer)
        answers[name] = getattr(InitSettings.check(**{name: answer}), name)
        if name == "model":
            models.refuse_unsafe_file(Path(answers[name]))
    if answers["references"] == 1 and answers["records"] != "text":
        raise InputError("references: 0 or at least 2 are needed, got 1")
    return InitSettings.check(**answers)


def _surplus_files(answers: Mapping[str, Any], settings_by_name: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files that a plan does not have, as membership is known, or is not.

    Raises:
        divulge.InputError: such a file is given.
    """
    if "known" not in answers:
        return ()
    surplus = ("candidates",) if answers["known"] == "yes" else ("members", "nonmembers")
    if given := [name for name in surplus if settings_by_name.get(name) is not None]:
        raise InputError(f"{given[0]}: known is {answers['known']!r}, so the plan has no such file")
    return surplus


def _usual_answer(name: str, answers: Mapping[str, Any], settings_by_name: Mapping[str, Any]) -> str:
    """Return the answer to suggest: what the files show where they are there, else the usual one."""
    model = str(settings_by_name.get("model") or "")
    if name == "records":
        if model.startswith("hf:") or (Path(model) / "config.json").is_file():
            return "text"
        members = Path(str(settings_by_name.get("members") or settings_by_name.get("candidates") or ""))
        if members.suffix.lower() in (".jsonl", ".ndjson"):
            return "text"
        if _holds_answers(members) and not model.endswith(".skops"):
            return "text"
        is_table = model.endswith(".skops") or tables.is_table(members) or _holds_rows(members)
        return "table" if is_table else "images"
    usual = _USUAL_ANSWERS[answers["records"]][name]
    if name == "known" and settings_by_name.get("candidates") is not None:
        return "no"
    if name == "label":
        first_file = answers.get("members") or answers["candidates"]
        columns = find_columns(answers["model"], first_file, is_text=answers["records"] == "text")
        return columns.text if answers["records"] == "text" and columns.text else columns.label or usual
    if name == "references" and answers["records"] == "table":
        return usual if answers["model"].endswith((".skops", ".safetensors")) else "0"
    return usual


def _holds_answers(path: Path) -> bool:
    """Check whether a file is a table of chats, or of prompts and answers, without a column of classes."""
    try:
        names = tables.scan_table(path).columns if tables.is_table(path) else []
    except (InputError, OSError, ValueError):
        return False
    return bool(datafiles.find_answer_columns(names)) and not any(name.lower() in _LABEL_NAMES for name in names)


def _holds_rows(path: Path) -> bool:
    """Check whether a file holds arrays with one row of values for each record."""
    try:
        return path.suffix == ".npz" and read_arrays(path)["x"].ndim == 2
    except (InputError, KeyError):
        return False


@dataclass(frozen=True, slots=True)
class TableColumns:
    """What the columns of a table are, as far as the table and the model show; empty where they do not.

    Args:
        label: column of the classes.
        id: column of the identifiers.
        text: column of the documents.
        chats: columns of messages, or of prompts and answers, by the keys that name them.
        drop: columns that the model was not fitted on and that are neither of these.
    """

    label: str = ""
    id: str = ""
    text: str = ""
    drop: tuple[str, ...] = ()
    chats: Mapping[str, str] = dataclasses.field(default_factory=dict)


def find_columns(
    model: str, members: str, *, is_text: bool = False, label: str = "", record_id: str = ""
) -> TableColumns:
    """Find out which columns of the members' table hold classes, identifiers and documents.

    Args:
        model: name of the model; the columns and classes of one in a ``.skops`` file are read from it.
        members: name of the table, or of a folder of its shards.
        is_text: whether the records are documents.
        label: the column of the classes, where it is known.
        record_id: the column of the identifiers, where it is known.

    Examples:
        >>> find_columns("model.skops", "not_there.csv")
        TableColumns(label='', id='', text='', drop=(), chats={})
    """
    try:
        if is_text and tables.is_table(Path(members)):
            table = tables.scan_table(Path(members))
            if columns := datafiles.find_answer_columns(table.columns):
                ids = [name for name in table.columns if _is_id_name(name) and name not in columns.values()]
                return TableColumns("", record_id or next(iter(ids), ""), next(iter(columns.values())), chats=columns)
        frame = tables.read_table(Path(members)) if tables.is_table(Path(members)) else None
    except (InputError, OSError, ValueError):
        frame = None
    if frame is None or not len(frame):
        return TableColumns()
    features, classes = _read_model_columns(model)
    other_columns = [name for name in frame.columns if name not in features]
    if features and len(other_columns) + len(features) != len(frame.columns):
        features, other_columns = (), frame.columns  # the model's columns are not those of this table
    texts = [name for name in other_columns if frame[name].dtype == pl.String]
    text = max(texts, key=lambda name: frame[name].str.len_chars().mean() or 0.0, default="") if is_text else ""
    other_columns = [name for name in other_columns if name not in (text, record_id)]
    label = label or _find_label(frame.select(other_columns), classes)
    if features and not classes and not label:  # a regression model: the one column of numbers that it does not read
        values = [name for name in other_columns if frame[name].dtype.is_numeric() and not _is_id_name(name)]
        label = values[0] if len(values) == 1 else ""
    other_columns = [name for name in other_columns if name != label]
    id_columns = [name for name in other_columns if _is_id_name(name)]
    unique = [name for name in other_columns if features and frame[name].n_unique() == len(frame)]
    record_id = record_id or next(iter([*id_columns, *unique]), "")
    drop = tuple(name for name in other_columns if name != record_id) if features else ()
    return TableColumns(label, record_id, text, drop)


def _is_id_name(name: str) -> bool:
    return name.lower() == "id" or name.lower().endswith(("_id", "-id", " id"))


def _read_model_columns(model: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the columns and the classes of an estimator in a skops file; nothing where it cannot be read."""
    try:
        target = models.load(model) if model.endswith(".skops") else None
    except (InputError, OSError, ValueError):
        target = None
    if isinstance(target, SklearnRegressor):
        return target.feature_names, frozenset()
    if not isinstance(target, SklearnTarget):
        return (), frozenset()
    return target.feature_names, frozenset(map(str, np.asarray(target.estimator.classes_).tolist()))


_LABEL_NAMES = ("label", "labels", "y", "class", "target", "outcome", "truth")


def _find_label(frame: pl.DataFrame, classes: frozenset[str]) -> str:
    """Return the column of the classes: of the usual name, or the only one whose values are the model's classes."""
    fitting = [
        name
        for name in frame.columns
        if classes and frame[name].n_unique() <= len(classes) and set(map(str, frame[name].unique())) <= classes
    ]
    usual_names = [name for name in frame.columns if name.lower() in _LABEL_NAMES]
    matching = [name for name in usual_names if name in fitting] or ([] if fitting else usual_names)
    return matching[0] if matching else fitting[0] if len(fitting) == 1 else ""


_FACTORY = "my_model:make_model"
_STUB = "my_model.py"


def choose_columns(answers: InitSettings) -> TableColumns:
    """Return the columns that a starting plan names: those that the answers name, else what `find_columns` finds.

    Examples:
        >>> choose_columns(InitSettings(model="my_code:model", members="none.csv", id="customer")).id
        'customer'
    """
    is_text = answers.records == "text"
    label = "" if is_text else answers.label
    found = find_columns(answers.model, answers.first_file, is_text=is_text, label=label, record_id=answers.id)
    return replace(found, id=answers.id or found.id)  # also of files that are not there yet


def write_starting_plan(folder: Path, answers: InitSettings) -> list[Path]:
    """Write ``plan.toml`` to ``folder``, and the code that it names and that is not there; nothing is overwritten.

    Files that are named relative to the current folder, and are not in ``folder``, are renamed relative to ``folder``.

    Raises:
        divulge.InputError: one of the files exists, or cannot be written.
    """
    files = ("model", *answers.files)
    columns, level = choose_columns(answers), _lowest_fpr(answers.nonmembers)
    names = {name: _relative_to(folder, getattr(answers, name)) for name in files}
    hints = model_folders.read_folder_hints(answers.model) if answers.records == "text" else None
    if hints is not None and hints.has_base:
        hints = replace(hints, base=Path(os.path.relpath(hints.base, folder.absolute())).as_posix())
    texts = {"plan.toml": format_starting_plan(answers.model_copy(update=names), columns, level, hints)}
    if _names_code(answers):
        texts[_STUB] = _write_stub(answers, columns)[0]
    if answers.records in _ASKS_SERVER and (function := _find_unwritten_function(answers.model, folder)):
        texts[f"{function[0]}.py"] = _ASKS_SERVER[answers.records].format(name=function[1])
        texts["plan.toml"] = texts["plan.toml"].replace("# outputs = ", "outputs = ", 1)
    paths = {check_path(folder / name, "folder"): text for name, text in texts.items()}
    if existing := [path for path in paths if path.exists()]:
        raise InputError(f"folder: {existing[0]} is there already; move it away, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise InputError(f"folder: {folder} cannot be written ({error.strerror or error})") from None
    return list(paths)


_ASKS_SERVER = {
    "table": '''"""Ask a model behind a server about records."""

import json
import urllib.request

import numpy as np

URL = "http://localhost:8000/predict"  # of the server


def {name}(frame):  # a polars.DataFrame: the columns of a record, without label and id; an array if all are numbers
    """Return the probability of each class, [records, classes], in the order of data.classes in the plan."""
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.tolist()
    body = json.dumps({{"records": rows}}, default=str).encode()  # as the server takes them
    request = urllib.request.Request(URL, body, {{"Content-Type": "application/json"}})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.array(json.load(answer)["probabilities"])  # as the server gives them
''',
}
_ASKS_SERVER["images"] = (
    _ASKS_SERVER["table"]
    .replace(
        "a polars.DataFrame: the columns of a record, without label and id; an array if all are numbers",
        "an array, [records, …]",
    )
    .replace('frame.to_dicts() if hasattr(frame, "to_dicts") else frame.tolist()', "x.tolist()")
    .replace("(frame)", "(x)")
)


def _find_unwritten_function(model: str, folder: Path) -> tuple[str, str] | None:
    """Return module and function that ``model`` names, where there is no such module yet."""
    module, _, function = model.partition(":")
    if not (module.isidentifier() and function.isidentifier()) or module == "hf":
        return None
    is_there = any((folder / name).exists() for name in (f"{module}.py", module)) or importlib.util.find_spec(module)
    return None if is_there else (module, function)


def list_blanks(answers: InitSettings, written: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return what a starting plan leaves open and only the user knows: its file or table, a colon, what to fill in.

    Args:
        answers: what the plan was written from.
        written: the files, as `write_starting_plan` returned them.

    Examples:
        >>> list_blanks(InitSettings(model="model.skops", references=8))
        ()
    """
    blanks = list[str]()
    if _names_code(answers):
        blanks.append(f"{_STUB}: {_write_stub(answers, choose_columns(answers))[1]}")
    module = f"{answers.model.partition(':')[0]}.py"
    if module != _STUB and module in [path.name for path in written]:
        blanks.append(f"{module}: the server's address, and how it is asked; [data]: classes, in the model's order")
    if answers.references and _has_networks(answers):
        blanks.append(f"[references]: {', '.join(_training_defaults())}, as in the training of the target")
    if answers.records == "text":
        hints = model_folders.read_folder_hints(answers.model)
        has_base = hints is not None and hints.has_base
        if hints is not None and hints.is_adapter and not has_base:
            blanks.append("[target]: base, the folder of the adapter's base")
        if answers.references:
            keys = [*["base"] * (not has_base), *_tuning_defaults(hints)]
            blanks.append(f"[references]: {', '.join(keys)}, as in the training of the target")
    return tuple(blanks)


def list_missing(answers: InitSettings) -> tuple[str, ...]:
    """Return what a plan names and is not there, is empty, or cannot be read: files, and columns of the members' table.

    Examples:
        >>> list_missing(InitSettings(model="my_code:model", members="none.csv"))
        ('members: no such file: none.csv',)
    """
    missing = list[str]()
    for key in ("model", *answers.files):
        name = getattr(answers, key)
        if not name or (key == "model" and ":" in name):
            continue
        try:
            path = check_path(name, key)
            if not path.exists():
                raise InputError(f"no such file: {name}")
            if not (any(path.iterdir()) if path.is_dir() else path.stat().st_size):
                raise InputError(f"empty: {name}")
            header = tables.scan_table(path).columns if key != "model" and tables.is_table(path) else ()
        except (InputError, OSError, ValueError) as error:
            missing.append(f"{key}: {str(error).removeprefix(f'{key}: ')}")
            continue
        for option in ("label", "id") if key in ("members", "candidates") and header else ():
            column = getattr(answers, option)
            if column and column not in header:
                missing.append(f"{option}: {name} has no column {column!r}; it has {format_names(header)}")
    return tuple(missing)


def import_sacro_folder(model: Path, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Write the records of a target folder of SACRO-ML as tables into ``folder``, and return the answers they give.

    The test records are split at random: one half are the non-members, the other the population.

    Args:
        model: the target folder; its model and arrays are no pickles (`divulge.targets.sacro_folders`).
        folder: where the plan will be.
        seed: of the split.

    Raises:
        divulge.InputError: pickles, missing arrays, fewer than two test records, tables that are there already.
    """
    source = read_sacro_folder(model)
    refuse_pickle(source.model, "model")
    sides = source.tables()
    order = seeds.generator(seed, "test records of a target folder").permutation(len(sides["test"]))
    if len(order) < 2:
        raise InputError(f"model: {model} has {len(order)} test records; at least 2 are needed")
    half = len(order) // 2
    sets = {
        "members": sides["train"],
        "nonmembers": sides["test"][np.sort(order[:half])],
        "population": sides["test"][np.sort(order[half:])],
    }
    paths = {name: folder / f"{name}.parquet" for name in sets}
    if existing := [path for path in paths.values() if path.exists()]:
        raise InputError(f"folder: {existing[0]} is there already; move it away, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in sets.items():
        tables.write_parquet(table, paths[name])
    files = {name: str(path) for name, path in paths.items()}
    return {"records": "table", "model": str(source.model), "label": "label"} | files


def _names_code(answers: InitSettings) -> bool:
    """Check whether the plan names a function that builds a network."""
    return answers.model.endswith(".safetensors") or bool(answers.references and _has_networks(answers))


def _write_stub(answers: InitSettings, columns: TableColumns) -> tuple[str, str]:
    """Return the code of the network, and what to fill in there."""
    shapes = network_stubs.read_weight_shapes(Path(answers.model)) if answers.model.endswith(".safetensors") else {}
    record_shape, n_outputs, has_values = _describe_records(answers, columns)
    is_regression = answers.task == "regression" or (answers.task == "auto" and has_values)
    return network_stubs.write_network_stub(shapes, record_shape, n_outputs, is_regression=is_regression)


def _describe_records(answers: InitSettings, columns: TableColumns) -> tuple[tuple[int, ...], int | None, bool]:
    """Return the shape of a record, the number of its classes, and whether labels are real values.

    The shape is empty and the number None where the first file does not show them.
    """
    path = Path(answers.first_file)
    labels: Any = None
    shape: tuple[int, ...] = ()
    try:
        if path.suffix == ".npz":
            arrays = read_arrays(path)
            shape, labels = arrays["x"].shape[1:], arrays.get("y")
        elif tables.is_table(path):
            frame = tables.read_table(path)
            others = (answers.label, columns.id, *columns.drop)
            values = [name for name in frame.columns if name not in others]
            shape = (len(values),) if all(frame[name].dtype.is_numeric() for name in values) else ()
            labels = frame[answers.label].drop_nulls().to_numpy() if answers.label in frame.columns else None
    except (InputError, OSError, ValueError, KeyError):
        return (), None, False
    if labels is None or not labels.size or labels.dtype.kind not in "biufUO":
        return shape, None, False
    if labels.dtype.kind == "f" and not np.all(labels == np.round(labels)):
        return shape, None, True
    is_number = labels.dtype.kind in "biuf"
    return shape, max(len(np.unique(labels)), int(labels.max()) + 1 if is_number else 0), False


def _has_networks(answers: InitSettings) -> bool:
    """Check whether reference models are networks, which the plan names the code of."""
    return answers.records != "text" and not answers.model.endswith(".skops")


def _lowest_fpr(nonmembers: str) -> float:
    """Return the false-positive rate to report: 0.01, or the lowest that a smaller set of non-members supports."""
    try:
        n = len(tables.read_table(Path(nonmembers))) if tables.is_table(Path(nonmembers)) else 0
    except (InputError, OSError, ValueError):
        n = 0
    usual = float(_DEFAULTS.fpr[0])
    return usual if not n else next((level for level in (usual, 0.02, 0.05, 0.1) if n * level >= 1 - level), 0.2)


def _relative_to(folder: Path, name: str) -> str:
    try:
        if (folder / name).exists() or not Path(name).exists():
            return name
    except (OSError, ValueError):  # no name that a file could have
        return name
    return Path(os.path.relpath(Path(name).absolute(), folder.absolute())).as_posix()


def format_starting_plan(
    answers: InitSettings,
    columns: TableColumns = TableColumns(),
    fpr: float = float(_DEFAULTS.fpr[0]),
    hints: FolderHints | None = None,
) -> str:
    """Return the text of a commented plan.

    Args:
        answers: what there is to audit.
        columns: what the columns of its table are.
        fpr: the false-positive rate to report.
        hints: what the folder of a language model shows; None where it is not there.

    Examples:
        >>> print(format_starting_plan(complete_answers({"records": "text"}, None)).splitlines()[0])
        # An audit: which of these records was the model trained on? Run it with: divulge audit plan.toml
    """
    # Without the word, clones of an estimator are trained.
    is_refused = not answers.references and answers.model.endswith(".skops")
    parts = [
        (
            _audit_keys(fpr, answers.task)
            if answers.known == "yes"
            else _search_keys(answers.task, is_text=answers.records == "text")
        )
        + is_refused * f"\n{_line(Plan, 'references', 'none')}",
        _target_keys(answers, hints),
        _data_keys(answers, columns),
        _reference_keys(answers, hints),
        *(["[identify]\n" + _line(SearchRules, "fdr", SearchRules().fdr)] if answers.known == "no" else []),
    ]
    return "\n\n".join(parts) + "\n"


def _audit_keys(fpr: float, task: str) -> str:
    lines = f"""# An audit: which of these records was the model trained on? Run it with: divulge audit plan.toml
# Paths start at this file's folder. Every key is explained in docs/reference/plan.md.

{_line(AuditSettings, "recipes", list(_DEFAULTS.recipes))}
{_line(AuditSettings, "fpr", [fpr])}
{_line(AuditSettings, "seed", _DEFAULTS.seed)}"""
    return lines if task == "auto" else f"{lines}\n{_line(AuditSettings, 'task', task)}"


def _search_keys(task: str, *, is_text: bool) -> str:
    recipes = ["auto", "loss"] if is_text else list(SearchSettings().recipes)
    lines = f"""# Which of these records was the model trained on? Run it with: divulge identify plan.toml
# Paths start at this file's folder. Every key is explained in docs/reference/plan.md.

{_line(SearchSettings, "recipes", recipes)}
{_line(AuditSettings, "seed", _DEFAULTS.seed)}"""
    return lines if task == "auto" else f"{lines}\n{_line(AuditSettings, 'task', task)}"


def _target_keys(answers: InitSettings, hints: FolderHints | None) -> str:
    lines = ["[target]", f"model = {_to_toml(answers.model)}"]
    if answers.model.endswith(".safetensors"):
        lines.append(_line(TargetPlan, "factory", _FACTORY))
    elif answers.model.endswith(".onnx") or ":" in answers.model:
        lines.append("# " + _line(TargetPlan, "outputs", "probabilities"))
    elif answers.model.endswith(".skops"):
        lines.append("# " + _line(TargetPlan, "frames", "pandas"))
    elif answers.records == "text":
        lines += _language_model_keys(hints)
    return "\n".join(lines)


def _language_model_keys(hints: FolderHints | None) -> list[str]:
    """Return the lines on base and BOS: comments where they are only a possibility."""
    if hints is None:
        return ["# " + _line(TargetPlan, "base", "base/"), "# " + _line(TargetPlan, "bos", "tokenizer")]
    lines = []
    if hints.has_base:
        lines.append(f"# base = {_to_toml(hints.base)}  # That of the adapter, which is found without this line.")
    elif hints.is_adapter:
        lines.append("# " + _line(TargetPlan, "base", _name_base(hints)))
    if hints.bos is None:
        lines.append("# " + _line(TargetPlan, "bos", "tokenizer"))
    elif hints.adds_bos:
        lines.append(
            f'# bos = "none"  # If training put no BOS before a document: the tokenizer puts {hints.bos} there.'
        )
    elif hints.bos:
        lines.append(
            f'# bos = "add"  # If training put {hints.bos} before a document: the tokenizer alone puts no BOS.'
        )
    return lines


def _name_base(hints: FolderHints | None) -> str:
    """Return the base that an adapter names, as a plan would: a folder, or one on the hub."""
    if hints is None or not hints.base:
        return "base/"
    return hints.base if hints.has_base or hints.base.startswith((".", "/")) else f"hf:{hints.base}"


def _data_keys(answers: InitSettings, columns: TableColumns) -> str:
    optional: dict[str, dict[str, Any]] = {
        "images": {"scale": 0.00392156862745098},
        "table": {"id": "id", "columns": ["age", "hours"], "drop": ["row"], "classes": ["no", "yes"]},
        "text": {"id": "id"},
    }
    known_keys: dict[str, Any] = {"id": columns.id, "drop": list(columns.drop)}
    if answers.records == "text" and columns.label:
        known_keys["label"] = columns.label
    known_keys = {name: value for name, value in known_keys.items() if value}
    return "\n".join(
        [
            "[data]",
            *(_line(DataPlan, name, getattr(answers, name)) for name in answers.files),
            *(_line(DataPlan, name, value) for name, value in _record_keys(answers, columns).items()),
            *(_line(DataPlan, name, value) for name, value in known_keys.items()),
            *(
                "# " + _line(DataPlan, key, value)
                for key, value in optional[answers.records].items()
                if key not in known_keys
            ),
        ]
    )


def _record_keys(answers: InitSettings, columns: TableColumns) -> dict[str, str]:
    """Return the keys that name the columns of documents, or of the classes."""
    if answers.records != "text":
        return {"label": answers.label}
    is_chat = answers.label in columns.chats.values()
    return {**columns.chats, "tokens": "answer"} if is_chat else {"text": answers.label}


def _reference_keys(answers: InitSettings, hints: FolderHints | None) -> str:
    if not answers.references and answers.model.endswith(".skops"):
        return "# with reference models, attacks are much stronger: see docs/references.md"
    if not answers.references:
        heading = "# [references]  # with reference models, attacks are much stronger: see docs/references.md"
        keys = {"base": "base/", "count": FineTuningSettings().count} if answers.records == "text" else {}
        return "\n".join([heading, *(f"# {_line(FineTunePlan, name, value)}" for name, value in keys.items())])
    if answers.records == "text":
        keys = {"base": _name_base(hints), "count": answers.references}
        heading = "[references]  # trained as the target was: the same base, epochs and learning rate"
        defaults = _tuning_defaults(hints)
        return "\n".join(
            [
                heading,
                *(_line(FineTunePlan, name, value) for name, value in keys.items()),
                *("# " + _line(FineTunePlan, name, value) for name, value in defaults.items()),
                *["lora = {}  # Adapters, as the target has them: rank, alpha, modules."] * _is_adapter(hints),
            ]
        )
    if not _has_networks(answers):
        heading = "[references]  # clones of the target, with its parameters, trained on the population"
        online = '# "auto-online" beside "auto" in recipes: for an attacker who has candidates with their classes'
        lines = [heading, _line(TrainPlan, "count", answers.references), *[online] * (answers.known == "yes")]
        return "\n".join(lines)
    keys = {"make_model": _FACTORY, "count": answers.references}
    return "\n".join(
        [
            "[references]  # trained as the target was: the same network, optimiser and epochs",
            *(_line(TrainPlan, name, value) for name, value in keys.items()),
            *("# " + _line(TrainPlan, name, value) for name, value in _training_defaults().items()),
        ]
    )


def _is_adapter(hints: FolderHints | None) -> bool:
    return hints is not None and hints.is_adapter


def _tuning_defaults(hints: FolderHints | None) -> dict[str, Any]:
    """Return the settings of a fine-tune that only the user knows, with their defaults."""
    defaults = FineTuningSettings()
    learning_rate = {"lr": 2e-4 if _is_adapter(hints) else 5e-5}
    return {"epochs": defaults.epochs, **learning_rate, "batch_size": defaults.batch_size}


def _training_defaults() -> dict[str, Any]:
    """Return the settings of a network's training that only the user knows, with their defaults."""
    defaults = TrainingSettings()
    learning_rate = {"lr": 0.02}  # of the default optimiser
    return {
        "optimizer": defaults.optimizer,
        **learning_rate,
        "epochs": defaults.epochs,
        "batch_size": defaults.batch_size,
    }


def _line(model: type[BaseModel], name: str, value: Any) -> str:
    """Return a line of a plan: the key, its value, and what it means as a comment."""
    return f"{name} = {_to_toml(value)}  # {model.model_fields[name].description}"


def _to_toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
