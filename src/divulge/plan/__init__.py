"""A user's plan (TOML) into checked objects."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
from pydantic import ValidationError

from divulge import access, completion, datafiles, user_code
from divulge import recipes as book
from divulge.columns import has_pandas
from divulge.datafiles import DataFile, FileLayout
from divulge.errors import InputError
from divulge.plan.keys import AccessPlan, DataPlan, LoRAPlan, Plan, ReferencesPlan, TargetPlan
from divulge.references import FineTune, LoRA, Train
from divulge.request import AuditData, AuditOptions
from divulge.store import read_untrusted
from divulge.targets import SklearnTarget, is_language_model
from divulge.targets import files as models
from divulge.targets.estimators import fitted_frame_library
from divulge.types import Records
from divulge.validation import check_choice, check_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.completion import Imputer
    from divulge.targets import GivesLabels, GivesLogits, GivesTokens
    from divulge.types import Bools

_MODELS, _EPOCHS = 16, 20  # of reference models that are no fine-tunes


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A plan whose files are read and whose names are found.

    Args:
        target: the model under audit.
        origins: where the code that the plan names came from: key → file, or "the environment".
        subject: what is audited; ``known`` is a mask, several of them for `divulge.auditing.over_shares`, or None.
        options: how.
        pool: where finished reference models are kept, or None.
        plan: the plan itself, to be kept with the run.
    """

    target: GivesLogits | GivesLabels | GivesTokens
    origins: Mapping[str, str]
    subject: AuditData
    options: AuditOptions
    pool: Path | None
    plan: Mapping[str, Any]

    @property
    def first(self) -> AuditData:
        """What is audited first: with the first mask of several."""
        known = self.subject.known
        return replace(self.subject, known=known[0]) if isinstance(known, tuple) else self.subject

    def keywords(self) -> dict[str, Any]:
        """All but the target, as keywords of `divulge.audit`."""
        said = {
            field.name: getattr(part, field.name) for part in (self.subject, self.options) for field in fields(part)
        }
        return said | {"pool": self.pool, "plan": self.plan}


def read(path: str | Path) -> Plan:
    """The plan in a TOML file, checked whole.

    Raises:
        divulge.InputError: no such file, not TOML, or keys and values that do not fit: every one of them
            is named with its bound and its value.
    """
    where = Path(path)
    try:
        content = tomllib.loads(read_untrusted(where).decode())
    except FileNotFoundError:
        raise InputError(f"plan: no such file: {where}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"plan: {where} is not readable TOML ({error})") from None
    if isinstance(content.get("target"), str):
        raise InputError(
            f"plan: {where} records an audit started from Python; its target and data were objects, not files, so it "
            "cannot be run again from here"
        )
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        raise InputError(f"plan: {where}: " + "; ".join(_say(e) for e in error.errors())) from None


def resolve(plan: Plan, folder: Path, trust: Sequence[str] = ()) -> Ready:
    """Files read and names imported, relative to ``folder``; nothing has been asked of any model yet.

    Args:
        plan: what `read` gave.
        folder: where the plan lies.
        trust: types that a ``.skops`` target may be built from, beside those that the plan names.

    Raises:
        divulge.InputError: a file or name that cannot be used, naming the plan's key.
    """
    folder = (folder / (plan.folder or ".")).resolve()
    if not folder.is_dir():
        raise InputError(f"folder: no such directory: {folder}")
    origins = _origins(plan, folder)
    sets = {key: _records(folder, plan.data, key) for key in ("members", "nonmembers", "population")}
    if codes := _codes(plan.data, sets):
        sets = {key: _records(folder, plan.data, key, codes) for key in sets}
    _same_columns(sets)
    if plan.data.text is None:
        _labelled(plan, sets)
    groups = None
    if plan.data.group is not None:
        groups = np.concatenate([sets["members"].group, sets["nonmembers"].group])
    covariates = None
    if plan.data.covariates is not None:
        both = [sets["members"].covariates, sets["nonmembers"].covariates]
        covariates = {name: np.concatenate([side[name] for side in both]) for name in plan.data.covariates}
    population, dropped = _held(plan.access, sets["population"], plan.seed)
    references = None if plan.references is None else _references(plan.references, plan.device, folder)
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
    )
    if isinstance(target, SklearnTarget):
        target = replace(target, frames=_frames(plan.target.frames, target, sets["members"].records))
    if plan.data.text is not None:
        _labelled(plan, sets, target)
    pool = None if plan.references is None or plan.references.pool is None else folder / plan.references.pool
    subject = AuditData(
        members=sets["members"].records,
        nonmembers=sets["nonmembers"].records,
        population=population,
        unseen_classes=tuple(dict.fromkeys((*plan.unseen_classes, *dropped))),
        groups=groups,
        known=_known(plan, sets["members"]),
        covariates=covariates,
    )
    options = AuditOptions(
        recipes=tuple(plan.recipes),
        references=references,
        fpr=tuple(plan.fpr),
        imputer=None if plan.known is None else _imputer(plan.imputer),
        calibration=plan.calibration,
        duplicates=plan.duplicates,
        outputs=plan.target.outputs,
        unknown_classes=plan.unknown_classes,
        device=plan.device,
        texts=plan.texts,
        seed=plan.seed,
    )
    kept = plan.model_dump(exclude_none=True) | {"folder": str(folder)}
    return Ready(target=target, origins=origins, subject=subject, options=options, pool=pool, plan=kept)


def _labelled(plan: Plan, sets: dict[str, DataFile], target: Any = None) -> None:
    """Raise where recipes read labels and there are none; of documents under a language model, none does."""
    if any(book.resolve_for(target, name).needs_labels for name in plan.recipes):
        datafiles.require_labels(sets, _layout(plan.data))
    elif not is_language_model(target):
        datafiles.require_labels({key: file for key, file in sets.items() if file.unlabelled}, _layout(plan.data))


def _origins(plan: Plan, folder: Path) -> dict[str, str]:
    """Where the code comes from that the plan names; run here, so that recipes in a file are known from now on."""
    model = plan.target.model
    code = plan.target.endpoint is None and ":" in model and not model.startswith("hf:")
    there = code and check_path(folder / model, "target.model").exists()
    wanted = {
        "target.model": model if code and not there else None,
        "target.factory": plan.target.factory,
        "references.make_model": None if plan.references is None else plan.references.make_model,
        **{f"recipes {name}": name for name in plan.recipes if ":" in name},
    }
    return {key: user_code.import_object(name, key, folder).origin for key, name in wanted.items() if name is not None}


_PARTS = {"lora": LoRAPlan, "target": TargetPlan, "data": DataPlan, "references": ReferencesPlan, "access": AccessPlan}


def _say(error: Any) -> str:
    """One line for one of pydantic's findings: key, bound, value; a near miss is suggested for a key."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        place: Any = Plan
        for part in error["loc"][:-1]:
            place = _PARTS.get(str(part), place)
        try:
            check_choice(str(error["loc"][-1]), f"unknown key {key}", place.model_fields)
        except InputError as found:
            return str(found)
    if error["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {error['msg'][0].lower()}{error['msg'][1:]}, got {error['input']!r}"


def _references(plan: ReferencesPlan, device: str, folder: Path) -> Train | FineTune:
    options: dict[str, Any] = plan.model_dump(exclude={"pool"}, exclude_none=True) | {"device": device}
    kind = Train if plan.base is None else FineTune
    known = [field.name for field in fields(kind)]
    for key in options:
        check_choice(key, f"plan: unknown key references.{key}", known)
    if plan.make_model is not None:
        made = user_code.import_object(plan.make_model, "references.make_model", folder).value
        options = {"count": _MODELS, "epochs": _EPOCHS} | options | {"make_model": made}
        return Train(**options)
    if plan.lora is not None:
        options["lora"] = LoRA(**plan.lora.model_dump())
    options["base"] = _base(plan.base or "", folder)
    return FineTune(**options)


def _frames(
    wanted: Literal["auto", "pandas", "polars"], target: SklearnTarget, records: Records
) -> Literal["auto", "pandas", "polars"]:
    """The library of the frames that a model is given; a model fitted on an array of numbers is given none."""
    is_plain = records.encoder is None or records.encoder.is_plain
    if wanted != "auto" or (is_plain and not target.feature_names):
        return wanted
    return fitted_frame_library(target.estimator) or ("pandas" if has_pandas() else "polars")


def _base(name: str, folder: Path) -> str:
    """A base from its folder, relative to the plan's, or from the hub."""
    place = check_path(folder / name, "references.base")
    if name.startswith("hf:") and not place.exists():
        return name
    if not place.is_dir():
        raise InputError(f"references.base: no such folder: {place} (and no 'hf:NAME' either)")
    return str(place)


def _same_columns(sets: dict[str, DataFile]) -> None:
    """All files must have the same columns; arrays, whose columns have no names of their own, in the same order."""
    first, folders = sets["members"].columns, sets["members"].folders
    for key, read in sets.items():
        if read.folders != folders and read.folders and folders:
            odd = sorted(set(folders) ^ set(read.folders))
            raise InputError(
                f"data.{key}: the folders of the classes differ from those of data.members in {', '.join(odd)}; set "
                "data.classes to all of them, in the order of the model's outputs"
            )
        if read.columns != first and (read.records.table is None or set(read.columns) != set(first)):
            odd = sorted(set(first) ^ set(read.columns))
            what = (
                f"differ from those of data.members in {', '.join(odd)}"
                if odd
                else "are in another order than in data.members"
            )
            raise InputError(f"data.{key}: the columns {what}")


def _known(plan: Plan, members: DataFile) -> Bools | tuple[Bools, ...] | None:
    """The mask that each of the plan's words means; a list of words gives several."""
    if plan.known is None:
        return None
    columns = members.columns
    shape = members.records.x.shape[1:] if members.records.table is None else (len(columns),)
    words = [plan.known] if isinstance(plan.known, str) else plan.known
    masks = tuple(completion.mask(each, shape, columns=columns, seed=plan.seed) for each in words)
    return masks[0] if isinstance(plan.known, str) else masks


def _imputer(name: str) -> Imputer:
    made = {
        "gaussian": completion.ConditionalGaussian,
        "mean": completion.Mean,
        "knn": completion.KNN,
        "hot-deck": completion.HotDeck,
        "autoencoder": completion.Autoencoder,
    }
    return made[name]()


def _held(plan: AccessPlan, file: DataFile, seed: int) -> tuple[Records, tuple[int, ...]]:
    """What is left of the population, and the classes that are not."""
    population, groups = file.records, file.group
    dropped: tuple[int, ...] = tuple(plan.drop_classes)
    if plan.drop_share is not None:
        dropped += access.DropShare(plan.drop_share).dropped(population, seed)
    settings: list[access.Access] = []
    if dropped:
        settings.append(access.DropClasses(dropped))
    if plan.drop_groups:
        settings.append(access.DropGroups(tuple(plan.drop_groups)))
    if plan.keep_per_class is not None:
        settings.append(access.KeepPerClass(plan.keep_per_class))
    try:
        for setting in settings:
            kept = setting.mask(population, groups, seed)
            population, groups = population[kept], None if groups is None else groups[kept]
    except InputError as error:
        raise InputError(f"access: {error}") from None
    return population, dropped


def _once(names: Sequence[str], key: str) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{key}: each may be named once, got {repeated[0]!r} more than once")


def _layout(plan: DataPlan) -> FileLayout:
    settings = plan.model_dump(include={field.name for field in fields(FileLayout)})
    for key in ("columns", "classes", "drop", "covariates"):
        if settings[key] is not None:
            _once(settings[key], f"data.{key}")
            settings[key] = tuple(settings[key])
    return FileLayout(**settings, named=frozenset(plan.model_fields_set))


def _codes(plan: DataPlan, sets: dict[str, DataFile]) -> tuple[str, ...]:
    """Columns that look like numbers in one text file and hold texts in another, such as 007 here and A1 there."""
    tables = [read.records.table for read in sets.values() if read.records.table is not None]
    if any(Path(getattr(plan, key)).suffix not in (".csv", ".tsv") for key in sets):
        return ()  # every other kind of file says what its columns hold
    kinds: dict[str, set[bool]] = {}
    for table in tables:
        for name in table.columns:
            if not table[name].is_null().all():
                kinds.setdefault(name, set()).add(table[name].dtype == nw.String)
    return tuple(name for name, found in kinds.items() if len(found) > 1)


def _records(folder: Path, plan: DataPlan, key: str, codes: tuple[str, ...] = ()) -> DataFile:
    """Records of one file, and the group column where one is named."""
    name = getattr(plan, key)
    try:
        read = datafiles.read_records(folder / name, replace(_layout(plan), codes=codes))
    except InputError as error:
        raise InputError(f"data.{key}: {error}") from None
    if not read.folders:
        return read
    ids = [f"{Path(name).as_posix()}/{one}" for one in np.asarray(read.records.ids)]  # each set may have a cat/0.png
    return replace(read, records=read.records.with_ids(ids))
