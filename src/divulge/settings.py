"""Settings of every command: each default, bound and description is declared here, once.

A field of these models is the default and the check of an argument in Python, a key of a plan, and an option on the
command line (`divulge.cli.options`); the comments of `divulge init` and the reference pages quote its description. The
module imports neither NumPy nor any other part of Divulge that does, so that the command line starts fast.
"""

from __future__ import annotations

import re
import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from divulge import lazy
from divulge.errors import InputError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from divulge import validation
else:
    validation = lazy.module("divulge.validation")

Duplicates: TypeAlias = Literal["error", "drop", "keep"]
Outputs: TypeAlias = Literal["logits", "probabilities"]
TaskName: TypeAlias = Literal["auto", "classification", "regression"]
UnknownClasses: TypeAlias = Literal["error", "drop"]
EngineName: TypeAlias = Literal["auto", "serial", "stacked", "processes", "ray"]


def _unwrap_scalar(value: Any) -> Any:
    """Return a NumPy scalar as Python's number; anything else as it is."""
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar and type(value).__name__ != "ndarray" else value


def _as_tuple(value: Any) -> tuple[Any, ...]:
    """Return the entries of a list, tuple or vector; a single value in place of a list is refused."""
    is_sequence = hasattr(value, "__len__") and getattr(value, "ndim", 1) == 1
    if isinstance(value, str | bytes | dict) or not is_sequence:
        shown_value = validation.format_value(value)
        raise PydanticCustomError(
            "not_a_list", "{text}", {"text": f"a list is needed, such as [{shown_value}], got {shown_value}"}
        )
    return tuple(value)


Integer: TypeAlias = Annotated[int, BeforeValidator(_unwrap_scalar)]
Number: TypeAlias = Annotated[float, BeforeValidator(_unwrap_scalar)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_unwrap_scalar)]
Rate: TypeAlias = Annotated[Number, Field(gt=0, lt=1)]
Share: TypeAlias = Annotated[Number, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[Integer, Field(ge=1)]
Texts: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]


class Settings(BaseModel):
    """Base of all settings: frozen, without conversions, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def check(cls, **values: Any) -> Self:
        """Return the settings with these values; all others have their defaults.

        Raises:
            divulge.InputError: values that do not fit; each is named with its bound.

        Examples:
            >>> AuditSettings.check(calibration=1.5)
            Traceback (most recent call last):
            divulge.errors.InputError: calibration: must lie in (0, 1), got 1.5
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError("; ".join(format_errors(cls, error))) from None

    @classmethod
    def check_attributes(cls, instance: object, *others: str) -> None:
        """Check the attributes of ``instance`` that are settings, apart from ``others``; numbers become plain ones."""
        names = [name for name in cls.model_fields if hasattr(instance, name) and name not in others]
        checked = cls.check(**{name: getattr(instance, name) for name in names})
        for name in names:  # of NumPy's or Python's other kinds of numbers, the plain one
            if isinstance(value := getattr(checked, name), bool | int | float):
                object.__setattr__(instance, name, value)


def format_errors(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Return a line for each setting that pydantic refused: its key, its bound and the value."""
    lines: dict[str, str] = {}
    for finding in error.errors():
        place: Any = model
        field: FieldInfo | None = None
        path: list[str] = []
        for part in finding["loc"]:
            fields = getattr(_find_model(place, finding["loc"]), "model_fields", {})
            if part in fields:
                field, place = fields[part], fields[part].annotation
                path.append(str(part))
        key = ".".join(path)
        if finding["type"] == "extra_forbidden":
            name = str(finding["loc"][-1])
            key = ".".join([*path, name])
            known = tuple(_find_model(place, finding["loc"]).model_fields)
            hint = validation.describe_unknown(name, known)
            if path and name in model.model_fields:
                hint = "it stands at the top of the plan, before the first [table]"
            lines.setdefault(key, f"unknown key {key}: {hint}")
        elif key not in lines or finding["type"] == "float_type":  # of a whole number or a share, the wider word
            lines[key] = _format_finding(key, field, finding)
    return list(lines.values())


def _find_model(annotation: Any, loc: tuple[Any, ...]) -> Any:
    """Return the model inside an annotation; of several, the one whose tag is part of the place of an error."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    tags = [tag.tag for tag in getattr(annotation, "__metadata__", ()) if isinstance(tag, Tag)]
    if tags and tags[0] not in loc:
        return None
    inner = (_find_model(part, loc) for part in typing.get_args(annotation))
    return next((model for model in inner if model is not None), None)


_TYPE_MESSAGES = {
    "model_type": "a table is needed",
    "int_type": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "float_type": "a number is needed",
    "bool_type": "True or False is needed",
    "string_type": "a text is needed",
    "string_too_short": "a text is needed",
}


def _format_finding(key: str, field: FieldInfo | None, finding: Any) -> str:
    error_type, value, context = finding["type"], finding["input"], finding.get("ctx", {})
    got = validation.format_value(value)
    if error_type == "missing":
        return f"{key} is missing"
    if error_type == "literal_error":
        message = validation.describe_unknown(value, re.findall(r"'([^']*)'", context["expected"]))
    elif error_type == "value_error":
        message = str(context["error"])
    elif error_type == "not_a_list":
        message = finding["msg"]
    elif error_type in ("list_type", "tuple_type"):
        message = f"a list is needed, such as [{got}], got {got}"
    elif error_type == "too_short":
        entries = "entry is" if context["min_length"] == 1 else "entries are"
        message = f"at least {context['min_length']} {entries} needed, got {context['actual_length'] or 'none'}"
    elif error_type in _TYPE_MESSAGES:
        message = f"{_TYPE_MESSAGES[error_type]}, got {got}"
    elif error_type in ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"):
        message = f"{_format_bounds(field, error_type, context)}, got {got}"
    else:
        message = f"{finding['msg'][0].lower()}{finding['msg'][1:]}, got {got}"
    return f"{key}: {message}" if key else message


def _format_bounds(field: FieldInfo | None, violated: str, context: dict[str, Any]) -> str:
    limits = {} if field is None else bounds(field)
    if violated == "finite_number":
        return "must be finite"
    if field is not None and violated.endswith("equal") and _is_integer(field.annotation):
        return f"must be at {'least' if 'ge' in context else 'most'} {next(iter(context.values()))}"
    lower = f"[{limits['ge']:g}" if "ge" in limits else f"({limits.get('gt', float('-inf')):g}"
    upper = f"{limits['le']:g}]" if "le" in limits else f"{limits.get('lt', float('inf')):g})"
    return f"must lie in {lower}, {upper}"


def _is_integer(annotation: Any) -> bool:
    return annotation is int or (annotation is not None and any(map(_is_integer, typing.get_args(annotation))))


def bounds(field: FieldInfo) -> dict[str, float]:
    """Return the bounds of a setting, or of the entries of a list: "gt", "ge", "lt" and "le" → the bound.

    Examples:
        >>> bounds(AuditSettings.model_fields["calibration"])
        {'gt': 0, 'lt': 1}
    """
    limits: dict[str, float] = {}

    def collect(metadata: Any) -> None:
        for part in metadata:
            collect(getattr(part, "metadata", ()))
            limits.update(
                {name: value for name in ("gt", "ge", "lt", "le") if (value := getattr(part, name, None)) is not None}
            )

    def walk(annotation: Any) -> None:
        collect(getattr(annotation, "__metadata__", ()))
        for part in typing.get_args(annotation):
            walk(part)

    walk(field.annotation)
    collect(field.metadata)
    return limits


def format_limits(field: FieldInfo) -> str:
    """Return the bounds of a setting in words; empty where it has none.

    Examples:
        >>> format_limits(TrainingSettings.model_fields["count"])
        'at least 1 and at most 1,000,000'
    """
    signs = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    limits = bounds(field)
    texts = {name: f"{limit:,}" if isinstance(limit, int) else f"{limit:g}" for name, limit in limits.items()}
    return " and ".join(f"{sign} {texts[name]}" for name, sign in signs.items() if name in limits)


def choices(field: FieldInfo) -> tuple[str, ...]:
    """Return the words that a setting can be; none where it is no such setting.

    Examples:
        >>> choices(AuditSettings.model_fields["duplicates"])
        ('error', 'drop', 'keep')
    """

    def walk(annotation: Any) -> tuple[str, ...]:
        if typing.get_origin(annotation) is Literal:
            return typing.get_args(annotation)
        is_optional = typing.get_origin(annotation) in (types.UnionType, typing.Union, Annotated)
        return tuple(word for part in typing.get_args(annotation) for word in walk(part)) if is_optional else ()

    return walk(field.annotation)


def _same_as(model: type[BaseModel], name: str) -> Any:
    """Return a field with the default and the description of another."""
    field = model.model_fields[name]
    return Field(field.default, description=field.description)


# What several commands have in common.


class SeedSetting(Settings):
    """Seed of a command."""

    seed: Integer = Field(0, ge=0, description="Seed of every random draw: the same seed gives the same result.")


class OutputsSetting(Settings):
    """Kind of outputs of a target."""

    outputs: Outputs = Field("logits", description="What the model returns, where it is a network or a function.")


class LanguageModelSettings(Settings):
    """Loading and querying of a language model."""

    dtype: Literal["float32", "bfloat16", "float16"] = Field("float32", description="Type of the weights.")
    device: str = Field("auto", description="Where the model runs: auto, cpu, cuda, mps, or map for several devices.")
    bos: Literal["tokenizer", "add", "none"] = Field(
        "tokenizer", description="Whether documents begin with a BOS token: as the tokenizer says, always, or never."
    )
    length: Count | None = Field(
        None,
        description="Tokens of a window (default: the model's context); for an endpoint, characters.",
    )


# An audit.


class UsualAuditSettings(SeedSetting):
    """Settings of an audit that are keywords of `divulge.audit`."""

    recipes: Annotated[tuple[Any, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        ("auto", "loss"),
        description='Attacks by name (`divulge list`), or "package.module:Class"; each is tested, and corrected for. '
        "The default adds what reads no label, of documents the last tokens.",
    )
    fpr: Annotated[tuple[Rate, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        (0.01,), description="False-positive rates to report; a rate of 0.01 needs at least 99 non-members."
    )
    duplicates: Duplicates = Field("error", description="What to do about records that occur in several sets.")
    task: TaskName = Field(
        "auto",
        description="What the target does: an estimator says so itself; a network or function of one output is taken "
        "for a regression model where some label is not a whole number.",
    )
    device: Name = Field("auto", description="Where torch runs: auto, cpu, cuda or mps.")
    show_records: Flag = Field(
        True, description="Whether the most exposed records may be stored and shown in the report."
    )


class RareAuditSettings(Settings):
    """Settings of an audit that are in its options: fewer than one audit in a hundred changes one of them."""

    calibration: Rate = Field(0.25, description="Share of the population that is set aside to calibrate decisions.")
    unknown_classes: UnknownClasses = Field(
        "error", description="What to do about records of a class that the target was not fitted on."
    )
    calls: Count = Field(
        1, description="How often the target is asked about each record; the mean of its answers counts."
    )


class AuditSettings(RareAuditSettings, UsualAuditSettings):
    """Settings of an audit: keys at the top of a plan, keywords of `divulge.audit` and of its options."""


class AuditOptions(RareAuditSettings):
    """What few audits need: the ``options`` of `divulge.audit`, checked when they are made.

    Attributes:
        calibration: share of the population set aside.
        unknown_classes: what to do about records of a class that the target was not fitted on: "error" or "drop".
        calls: how often the target is asked about each record. Probabilities, predictions and the like are averaged,
            and the label that it gives most often counts: against noise that differs from call to call. Reference
            models are asked once, as they add none.
        covariates: what else may differ between members and non-members and move the scores, such as age, source or
            date: a table (name → a value for each member, then each non-member) or an array. Verdict and gate judge
            scores adjusted for it; of texts always for length, years named and topic besides.
        known: which values of a record the adversary knows: bool, of one record's shape or with one mask for each
            member, then each non-member; or words such as "share:0.4" (`divulge.completion.mask`). Unknown
            values are never read, except to find copies of records and to tell whether two runs are of the same
            candidates. None: whole records.
        imputer: completes unknown values from the population: of `divulge.completion`, or a function; None for the
            class-conditional Gaussian.
        pool: where finished reference models are kept and found; the folder ``pool`` of the run when None.

    Raises:
        divulge.InputError: values that do not fit; each is named with its bound.

    Examples:
        >>> AuditOptions(calibration=0.5, calls=3).calls
        3
        >>> AuditOptions(calibration=1.5)
        Traceback (most recent call last):
        divulge.errors.InputError: calibration: must lie in (0, 1), got 1.5
    """

    covariates: Any = None
    known: Any = None
    imputer: Any = None
    pool: Any = None

    if not TYPE_CHECKING:  # type checkers take the parameters from the fields

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InputError("; ".join(format_errors(type(self), error))) from None


class ResolvedAuditSettings(AuditSettings, OutputsSetting):
    """Settings of an audit, with the objects that a plan names in tables of their own."""

    references: Any = "auto"
    imputer: Any = None


class ColumnNames(BaseModel):
    """The columns of a table that are no values of a record, by what they mean.

    Every command that reads a table takes these as options, and a plan's ``[data]`` as keys.

    Examples:
        >>> ColumnNames(id="Exhibit", text="Text").required()
        {'id': 'Exhibit', 'text': 'Text'}
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    label: str = Field("label", description="Column of the classes, or of the real values of a regression.")
    id: str = Field("id", description="Column of the identifiers, which are read as texts.")
    text: str | None = Field(None, description="Column of the documents.")
    messages: str | None = Field(
        None,
        description="Column of chats, lists of messages with role and content, which the model's chat template puts "
        "together.",
    )
    prompt: str | None = Field(None, description="Column of prompts, beside the one of their answers.")
    answer: str | None = Field(None, description="Column of the answers to prompts.")
    tokens: Literal["answer", "all"] = Field(
        "answer",
        description="Which tokens of chats, and of prompts with answers, the model was tuned on: all turns of the "
        "assistant and answers alone, or all tokens. Those are scored, and fine-tuned references learn them.",
    )
    group: str | None = Field(None, description="Column of the subgroups that are reported apart.")
    person: str | None = Field(
        None, description="Column of whose each document is; all documents of one person are one record."
    )
    drop: list[str] = Field([], description="Columns that are no part of a record.")

    def required(self) -> dict[str, str]:
        """Return the columns that the user named, by what they mean: they must be there."""
        return {
            key: name
            for key in ("label", "id", "text", "messages", "prompt", "answer", "group", "person")
            if key in self.model_fields_set and (name := getattr(self, key)) is not None
        }

    def special(self) -> list[str]:
        """Return the names of all columns that are no values of a record, whether or not a table has them."""
        names = [
            self.label, self.id, self.text, self.messages, self.prompt, self.answer, self.group, self.person
        ]  # fmt: skip
        return list(dict.fromkeys([*(name for name in names if name), *self.drop]))

    @classmethod
    def from_options(cls, **options: Any) -> ColumnNames:
        """Return the names from options of the command line, of which None means that the user did not say.

        Raises:
            divulge.InputError: two columns that are one, unknown tokens.
        """
        settings = {key: value for key, value in options.items() if value is not None and value != []}
        columns = {key: value for key, value in settings.items() if key != "tokens"}
        if len(set(map(str, columns.values()))) < len(columns):
            twice = next(name for name in columns.values() if list(columns.values()).count(name) > 1)
            raise InputError(f"--{next(iter(columns))}: {twice!r} is named for two things")
        if "tokens" in settings:
            validation.check_choice(settings["tokens"], "--tokens", choices(cls.model_fields["tokens"]))
        return cls(**settings)


# A plan.


class TargetPlan(OutputsSetting):
    """The model under audit."""

    model: str = Field(
        description="A file (.safetensors with a factory, .onnx, .skops, .gguf), a Hugging Face folder or ``hf:NAME``, "
        'or "package.module:name" of a model, a predictor or a function that returns one; with ``endpoint``, its name '
        "there."
    )
    endpoint: str | None = Field(
        None, description="Address of an OpenAI-compatible server of language models, ``http://…/v1``."
    )
    base: str | None = Field(
        None, description="Of a LoRA adapter: folder or ``hf:NAME`` of the model that it was trained on."
    )
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        None, description="Type of the weights of a Hugging Face model."
    )
    bos: Literal["tokenizer", "add", "none"] | None = Field(
        None, description="Whether a language model's documents begin with a BOS token."
    )
    factory: str | None = Field(
        None, description='"package.module:callable" that builds the empty network for the weights.'
    )
    output: str | None = Field(
        None, description="Name of the output of an .onnx file that holds the classes' scores, where there are several."
    )
    trust: list[str] = Field([], description="Types that a .skops file may be built from, beside scikit-learn's own.")
    frames: Literal["auto", "pandas", "polars"] = Field(
        "auto",
        description="Library of the data frames that a model fitted on named columns is given; auto: what its encoders "
        "show, or pandas where it is installed.",
    )


class DataPlan(ColumnNames):
    """Files of records: ``.npz`` (arrays ``x``, ``y``, ``ids``; ``columns`` names them), tables, or folders.

    Tables are ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` or ``.arrow``; those of text may end in ``.gz`` or ``.zst``.
    A folder holds tables, or is a data set saved by `datasets`, or one of images with a folder for each class. The keys
    that name columns are those of `divulge.settings.ColumnNames`.
    """

    candidates: str | None = Field(
        None,
        description="Records of which nobody says whether the model was trained on them, for ``divulge identify``; "
        "``members`` and ``nonmembers`` are then further records, and may be left out.",
    )
    members: str | None = Field(None, description="Records that the model was trained on.")
    nonmembers: str | None = Field(None, description="Records of the same kind that it was not trained on.")
    population: str = Field(
        description="Further records that it was not trained on: attacks learn from them, decisions are calibrated on "
        "them."
    )
    covariates: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="Columns in which members and non-members may differ beside membership, such as a date or a "
        "source: verdict and gate judge scores adjusted for them. Those of numbers are values of a record too, unless "
        "``columns`` leaves them out.",
    )
    features: Name | None = Field(
        None,
        description="What else is known of a record and attacks may learn from, such as a pretrained network's "
        "embedding: the beginning of the names of columns, which then are no part of a record; of an .npz, the name of "
        'an array; or "package.module:function" of records.',
    )
    scale: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Factor on every value: 0.00392156862745098 turns pixels of 0 to 255 into 0 to 1.",
    )
    separator: str = Field(
        ",",
        min_length=1,
        max_length=1,
        description="Between the values of a .csv; the header's own where this is not said.",
    )
    columns: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description="Columns of the values of a record, in the model's order; all other columns where this is not "
        "said.",
    )
    classes: Annotated[list[str], Field(min_length=2)] | None = Field(
        None, description="Names of the classes, in the order of the model's outputs, where they are not numbers."
    )

    @model_validator(mode="after")
    def _require_sets(self) -> DataPlan:
        missing = [name for name in ("members", "nonmembers") if getattr(self, name) is None]
        if missing and self.candidates is None:
            raise ValueError(f"{missing[0]} is needed, or candidates for divulge identify")
        return self


class AccessPlan(Settings):
    """Data that the auditor does not hold, removed from the population before anything learns from it."""

    drop_classes: list[Annotated[int, Field(ge=0)]] = Field([], description="These classes.")
    drop_share: Rate | None = Field(None, description="This share of the classes, drawn at random.")
    keep_per_class: Count | None = Field(None, description="All but so many records of each class.")
    drop_groups: list[str] = Field([], description="These subgroups.")


Gpus = Annotated[
    Annotated[Number, Field(ge=0, le=64)] | None,
    Field(
        description="GPUs of a task of the engine ray, also a part of one, as .25 for four tasks on each; by default "
        "1 for networks where the cluster has any, and none for estimators and functions of your own."
    ),
]


class PlacementSettings(Settings):
    """Engine and devices for the training of reference models."""

    engine: EngineName = Field(
        "auto",
        description="How models are trained: serial (one after the other), stacked (many networks at once), processes "
        "(several on this machine), ray (several machines), or auto (a short measured trial chooses).",
    )
    workers: Count | None = Field(None, description="Processes for the engine processes; one per core by default.")
    gpus: Gpus = None


class TrainingSettings(PlacementSettings):
    """Settings of `divulge.references.Train`."""

    count: Integer = Field(16, ge=1, le=10**6, description="Number of reference models.")
    epochs: Count = Field(20, description="Passes over a model's records.")
    optimizer: Literal["sgd", "adam", "adamw"] = Field("sgd", description="The optimiser; sgd has momentum.")
    lr: Annotated[Number, Field(gt=0, lt=3e38)] | None = Field(  # what a float32 holds
        None, description="Learning rate; by default 0.02 for sgd, 0.001 for the others."
    )
    momentum: Number = Field(0.9, ge=0, lt=1, description="Momentum of sgd.")
    weight_decay: Number = Field(0.0, ge=0, le=1e30, description="As torch's optimisers define it.")
    batch_size: Integer = Field(
        128, ge=1, le=2**31, description="Records per step; a last batch of one record joins the one before."
    )
    schedule: Literal["constant", "cosine", "linear"] = Field(
        "constant", description="Learning rate over the steps; cosine and linear end at zero."
    )
    stop_at_accuracy: Share | None = Field(
        None, description="Stop a model after the first epoch whose running training accuracy reaches this."
    )
    precision: Literal["single", "double", "mixed"] = Field(
        "single", description="Floating-point precision; mixed is bfloat16 autocast."
    )
    stop_after: Count | None = Field(
        None, description="Epochs after which training stops, of those that the schedule is made for; all by default."
    )


class CustomTrainingSettings(OutputsSetting):
    """Settings of `divulge.references.Custom`."""

    count: Integer = Field(16, ge=1, le=10**6, description="Number of reference models.")
    version: str = Field("", description="Part of the key of a stored model: changed when the training changes.")
    engine: Literal["auto", "serial", "processes", "ray"] = Field(
        "auto",
        description="How models are trained: serial, processes (several on this machine), ray (several machines), or "
        "auto.",
    )
    workers: Count | None = Field(None, description="Processes for the engine processes; one per core by default.")
    gpus: Gpus = None


class DifferentialPrivacySettings(Settings):
    """Settings of `divulge.references.Private`."""

    noise: Number = Field(ge=0, le=1e9, description="Noise multiplier; 0 clips only and is not private.")
    clip: Number = Field(1.0, gt=0, allow_inf_nan=False, description="Largest norm of one record's gradient.")


class LoRASettings(Settings):
    """Adapters in place of a full fine-tune, see `divulge.references.LoRA`."""

    rank: Count = Field(8, description="Rank of each adapter.")
    alpha: Number = Field(16.0, gt=0, allow_inf_nan=False, description="The adapters' scale is alpha / rank.")
    dropout: Number = Field(0.0, ge=0, lt=1, description="Dropout on what goes into the adapters.")
    modules: Annotated[tuple[Name, ...], BeforeValidator(_as_tuple)] | None = Field(
        None, description="Names of the layers that get an adapter; the architecture's usual ones by default."
    )


class FineTuningSettings(Settings):
    """Settings of `divulge.references.FineTune`."""

    count: Integer = Field(4, ge=0, le=10**6, description="Number of reference models; 0 asks the base alone.")
    epochs: Count = Field(3, description="Passes over a model's documents.")
    lr: Annotated[Number, Field(gt=0)] | None = Field(
        None, description="Highest learning rate; by default 5e-5, and 2e-4 for LoRA."
    )
    batch_size: Count = Field(8, description="Documents per step.")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="Learning rate over the steps; linear and cosine end at zero."
    )
    warmup: Number = Field(0.0, ge=0, lt=1, description="Share of the steps in which the learning rate rises.")
    weight_decay: Number = Field(0.0, ge=0, description="Weight decay of AdamW.")
    stop_after: Count | None = Field(
        None, description="Epochs after which training stops, of those that the schedule is made for; all by default."
    )
    length: Annotated[Integer, Field(ge=2)] | None = Field(
        None, description="Longest stretch of tokens in training; the base's context by default."
    )
    bos: Literal["tokenizer", "add", "none"] = Field(
        "tokenizer", description="Whether documents begin with a BOS token, for a base given as a folder."
    )
    precision: Literal["single", "mixed", "bfloat16"] = Field(
        "single",
        description="Arithmetic of training: single; mixed (weights in single precision, products in bfloat16); or "
        "bfloat16 (the base too, which is then left as it is: adapters alone are trained, in single precision).",
    )
    quantization: Literal["4bit"] | None = Field(
        None, description="Weights of a frozen base in four bits each, under adapters; needs bitsandbytes."
    )
    gradient_checkpointing: Flag = Field(
        False, description="Whether layers are computed again for their gradients, which takes time and saves memory."
    )
    gradient_accumulation_steps: Count = Field(
        1, description="Parts in which the documents of a step go through the model, one after the other."
    )
    engine: Literal["auto", "serial", "processes", "ray"] = Field(
        "auto",
        description="How models are trained: serial, processes (several on this machine), ray (several machines), or "
        "auto (processes, on a CPU and where a short measured trial says that the work is worth their start).",
    )
    workers: Count | None = Field(None, description="Processes for the engine processes; one per core by default.")
    gpus: Gpus = None


MatchPlan: TypeAlias = Literal["auto"] | dict[Name, Annotated[list[Any], Field(min_length=1)]]


class _ReferencesPlan(Settings):
    match: MatchPlan | None = Field(
        None,
        description="Choose the training's settings so that references answer like the target on records that neither "
        "was trained on: auto, or a table of settings and the values to try, such as {lr = [0.01, 0.1]}.",
    )
    pool: str | None = Field(None, description="Folder of finished models; in the run directory by default.")
    device: str | None = Field(None, description="Where models are trained; where the audit runs by default.")


class TrainPlan(_ReferencesPlan, TrainingSettings):
    """Reference networks or estimators, see `divulge.references.Train`."""

    make_model: str | None = Field(
        None,
        description='"package.module:callable" that returns a new network or an unfitted estimator. Without it, '
        "references are clones of the target, which must be an estimator.",
    )

    @field_validator("count")
    @classmethod
    def _check_count(cls, count: int) -> int:
        if count < _FEWEST_NETWORKS:
            raise ValueError(f"must be at least {_FEWEST_NETWORKS}, got {count}")
        return count


_FEWEST_NETWORKS = 2  # that an audit can learn from


class CustomPlan(CustomTrainingSettings):
    """Reference models of the user's own training, see `divulge.references.Custom`."""

    train: str = Field(description='"package.module:function" of records and a seed, which returns a trained model.')
    pool: str | None = Field(None, description="Folder of finished models; in the run directory by default.")


class FineTunePlan(_ReferencesPlan, FineTuningSettings):
    """Reference language models, see `divulge.references.FineTune`."""

    base: str = Field(description="Folder or ``hf:NAME`` of the language model that the target was fine-tuned from.")
    lora: LoRASettings | None = Field(None, description="Adapters in place of a full fine-tune.")


def _check_references(value: Any) -> Any:
    """Check that a table of reference models names one way in which they come about."""
    if isinstance(value, dict):
        trainings = [name for name in ("make_model", "train", "base") if name in value]
        if len(trainings) > 1:
            raise ValueError(f"one of make_model, train and base may be given, got {' and '.join(trainings)}")
        if "lora" in value and "base" not in value:
            raise ValueError("lora goes with base")
    return value


def _references_tag(value: Any) -> str:
    if isinstance(value, str):
        return "words"
    if isinstance(value, dict):
        return "language models" if "base" in value else "own training" if "train" in value else "networks"
    if isinstance(value, CustomPlan):
        return "own training"
    return "language models" if isinstance(value, FineTunePlan) else "networks"


ReferencesPlan: TypeAlias = Annotated[
    Annotated[Literal["auto", "none"], Tag("words")]
    | Annotated[TrainPlan, Tag("networks")]
    | Annotated[CustomPlan, Tag("own training")]
    | Annotated[FineTunePlan, Tag("language models")],
    Discriminator(_references_tag),
    BeforeValidator(_check_references),
]


class ErasureRules(Settings):
    """When an erasure counts as done."""

    margin: Rate = Field(0.05, description="Largest difference of AUC that counts as none.")
    confidence: Rate = Field(0.95, description="Probability that the answers are right, all requests together.")
    fdr: Rate = Field(0.05, description="Bound on the expected share of wrong records on the list of those remembered.")
    at_random: Flag = Field(
        False, description="Whether a random draw decided which records were to be forgotten and which were never used."
    )


class AttributeRules(Settings):
    """Rules by which a guess of an attribute is judged."""

    tolerance: Annotated[Number, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Of a column of real values: how near a guess must be to be right; exactly by default."
    )
    max_values: Integer = Field(64, ge=2, le=1000, description="Values of the column that are tried at most.")
    margin: Rate = Field(0.1, description="Largest difference of the rates that counts as none.")
    confidence: Rate = Field(0.95, description="Probability that all intervals hold.")


class AttributePlan(AttributeRules):
    """A column that `divulge attribute` tries to infer."""

    column: str | int | Annotated[list[str | int], Field(min_length=1)] = Field(
        description="The column: a name, or a position where columns have none; several for one-hot codes."
    )


class AttributeSettings(AttributeRules, SeedSetting):
    """Settings of `divulge.attributes.infer`."""


class SyntheticRules(Settings):
    """What `divulge synthetic` compares, and how its answer is decided."""

    person: Name | None = Field(
        None, description="Column of members and non-members that names the person of each row: persons are counted."
    )
    text: Name | None = Field(None, description="Column of documents; found where it is the only one.")
    drop: Texts = Field((), description="Columns that are no part of a record.")
    attributes: Texts | None = Field(
        None, description="Columns that are inferred through the release; by default up to 8 of them."
    )
    at_random: Flag = Field(
        False, description="Whether a random draw decided which records are members: then ε is bounded from below."
    )
    duplicates: Literal["error", "drop"] = Field(
        "error", description="What to do where sets share more rows than chance explains; drop leaves equal rows out."
    )
    fpr: Annotated[tuple[Rate, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        (0.01,), description="False-positive rates at which the share of members found is measured."
    )
    fdr: Rate = Field(0.1, description="Bound on the expected share of non-members on the list of members.")
    margin: Annotated[Number, Field(gt=0, lt=0.5)] = Field(
        0.1, description="Largest AUC above one half that counts as none."
    )
    confidence: Rate = Field(0.95, description="Probability that the answer is no false alarm, all scores together.")


class SyntheticPlan(SyntheticRules, SeedSetting):
    """A plan of `divulge synthetic`: its four tables and its settings."""

    released: Annotated[Texts, Field(min_length=1)] = Field(
        description="File of the released table; several releases of one table as a list."
    )
    members: Name = Field(description="File of the table that it was made from.")
    nonmembers: Name = Field(description="File of records of the same kind that the generator never saw.")
    population: Name = Field(description="File of further records of the same kind, which an adversary knows.")


class SyntheticSettings(SyntheticRules, SeedSetting):
    """Settings of `divulge.synthetic.audit`."""


class DefendRules(Settings):
    """Which setting is recommended."""

    max_loss: Annotated[Number, Field(ge=0, allow_inf_nan=False)] = Field(
        0.05,
        description="Largest loss of accuracy that a recommended setting may have; of a regression model, of its mean "
        "absolute error.",
    )


class DefendPlan(DefendRules):
    """Settings of the target's estimator that `divulge defend` tries."""

    settings: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=40)] | None = Field(
        None,
        description="Parameters to change, a table for each model; by default those that help for its kind.",
    )


class DefendSettings(DefendRules, SeedSetting):
    """Settings of `divulge.defences.measure_settings`."""

    settings: (
        Annotated[tuple[dict[str, Any], ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=40)] | None
    ) = Field(None, description="Parameters to change, a mapping for each model.")


class ForgetPlan(ErasureRules):
    """An erasure to be checked by `divulge forget`.

    The model before it is ``target.model``, its training records are ``data.members``, records that no model was
    trained on are ``data.nonmembers``, and reference models learn from ``data.population``.
    """

    after: str = Field(description="The model after the erasure, named and loaded as the target is.")
    records: str | Annotated[dict[str, str], Field(min_length=1)] = Field(
        description="File of the records that were to be forgotten; several requests as a table of names and files."
    )
    retrained: list[str] = Field([], description="Models trained again without the records, each with its own seed.")


class SelectionRules(Settings):
    """How false discoveries are bounded."""

    fdr: Rate = Field(0.05, description="Bound on the expected share of non-members among the selected.")
    method: Any = Field(
        "auto",
        description="How candidates are selected: auto, bh, ptdi, storey, adaptive, or adadetect (several signals).",
    )
    eta: Rate = Field(0.05, description="Share of the calibration beyond the threshold of ptdi.")
    lam: Rate = Field(0.5, description="Grid point of storey.")


class SearchRules(SelectionRules):
    """How candidates are compared and decided on where a model is asked about records."""

    calibration: Rate = Field(
        0.5,
        description="Share of the population with whose scores those of candidates are compared; no attack learns it.",
    )
    by: Literal["class"] | None = Field(
        None, description="A list for each unseen class, beside that of all others (class); one list by default."
    )


class InspectionSettings(Settings):
    """Thresholds of `divulge inspect`; what lies below one is a hint, and no proof."""

    leaf_records: Count = Field(
        10, description="Least records of a leaf: an output that fewer share may single them out."
    )
    degrees_of_freedom: Count = Field(
        10, description="Least records that a model has beyond its parameters: with fewer it can be solved for them."
    )
    output_records: Count = Field(
        10, description="Least training records that share an output, and a class with it: fewer may be singled out."
    )


class GatePlan(Settings):
    """Limits that ``divulge gate RUN`` holds the audit to, where its options name none."""

    max: Annotated[Texts, Field(min_length=1)] = Field(
        description='Limits, each as METRIC:LIMIT, such as "auc:0.6" or "exposed:5".'
    )
    by: str = Field("class,group", description="What else is held to them: class, group, both with a comma, or none.")


class Plan(AuditSettings):
    """A whole audit."""

    target: TargetPlan = Field(description="The model under audit.")
    data: DataPlan = Field(description="The records.")
    references: ReferencesPlan = Field(
        "auto",
        description="How reference models are trained; auto: of an estimator, 16 clones are where they take less than "
        "a minute; none.",
    )
    access: AccessPlan = Field(AccessPlan(), description="What the auditor does not hold.")
    forget: ForgetPlan | None = Field(None, description="An erasure to be checked by ``divulge forget``.")
    defend: DefendPlan | None = Field(None, description="Settings to be tried by ``divulge defend``.")
    inspect: InspectionSettings | None = Field(None, description="Thresholds of ``divulge inspect``.")
    attribute: AttributePlan | None = Field(None, description="A column to be inferred by ``divulge attribute``.")
    identify: SearchRules | None = Field(None, description="How ``divulge identify`` decides on candidates.")
    gate: GatePlan | None = Field(None, description="Limits that ``divulge gate`` holds the run to.")
    recipes: Annotated[Texts, Field(min_length=1)] = _same_as(AuditSettings, "recipes")
    recipe: dict[str, dict[str, Any]] | None = Field(
        None,
        description='Settings of attacks that ``recipes`` names, a table each: ``[recipe.lira]``, ``mode = "online"``; '
        "where there is no ``recipes``, the attacks are those with tables.",
    )
    unseen_classes: list[Annotated[int, Field(ge=0)] | str] = Field(
        [], description="Classes of which the population has no records, reported apart."
    )
    known: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        description='Which values of a record the adversary knows, such as "share:0.4"; several in a list.',
    )
    imputer: Literal["gaussian", "mean"] = Field(
        "gaussian", description="What completes the values that the adversary does not know."
    )
    folder: str | None = Field(
        None, description="Where files and modules are looked for; the plan's own folder by default."
    )

    @field_validator("recipe", mode="before")
    @classmethod
    def _check_recipe_tables(cls, tables: Any) -> Any:
        if tables is None or (isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())):
            return tables
        raise ValueError("tables of settings are needed, such as [recipe.lira]; the list of attacks is recipes")

    @model_validator(mode="before")
    @classmethod
    def _name_configured_recipes(cls, keys: Any) -> Any:
        """Name the attacks that have a table, where ``recipes`` names none."""
        tables = keys.get("recipe") if isinstance(keys, dict) else None
        if tables and isinstance(tables, dict) and "recipes" not in keys:
            return keys | {"recipes": list(tables)}
        return keys


class InitSettings(Settings):
    """Questions of `divulge init`; a setting without a value is asked for, or has the default of its record type."""

    records: Literal["images", "table", "text"] = Field("images", description="What a record is.")
    model: Name = Field(
        "",
        description="The model: a file (.safetensors, .onnx, .skops), a Hugging Face folder, or module:name.",
    )
    known: Literal["yes", "no"] = Field(
        "yes",
        description="Do you know which records it was trained on? If not, the plan is for divulge identify.",
    )
    candidates: Name = Field("", description="File of records of which nobody says whether it was trained on them.")
    members: Name = Field("", description="File of records that the model was trained on.")
    nonmembers: Name = Field("", description="File of records of the same kind that it was not trained on.")
    population: Name = Field("", description="File of further records that it was not trained on.")
    label: Name = Field("", description="Column of the classes (of documents: of the text).")
    id: Name = Field("", description="Column of the identifiers; by default the one that looks like it, if any.")
    references: Integer = Field(
        0, ge=0, description="Reference models to train; with 0 of them there are only weaker attacks."
    )
    task: TaskName = Field(
        "auto",
        description="What the model does; to be said of a network or function that predicts whole numbers, such as "
        "counts, which may be classes.",
    )

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the settings that are files of records: those of an audit, or of an identification."""
        return ("members", "nonmembers", "population") if self.known == "yes" else ("candidates", "population")

    @property
    def first_file(self) -> str:
        """File of the records that are asked about."""
        return self.members if self.known == "yes" else self.candidates


# An identification.


class DecisionSettings(SelectionRules, SeedSetting):
    """Bound on the false discovery rate of a selection: keywords of `divulge.identify`."""


class IdentifySettings(DecisionSettings):
    """Settings of `divulge identify`: how to decide, and what to do with rows that cannot be used."""

    drop_nan: Flag = Field(False, description="Leave out rows whose score is missing instead of refusing them.")
    drop_overlap: Flag = Field(
        False,
        description="Leave out what stands in two sets, by text or by id and scores; of records, copies in any set.",
    )
    show_records: Flag = Field(True, description="Whether the best documents may be stored and shown in the report.")


class SearchSettings(SearchRules, SeedSetting):
    """Settings of `divulge.identify` where a model is asked about records: how they are scored, and how to decide."""

    recipes: Annotated[tuple[Any, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        ("auto",), description="Attacks by name (`divulge list`); of several, one score is learned."
    )
    show_records: Flag = _same_as(IdentifySettings, "show_records")


class ScoreSettings(LanguageModelSettings):
    """Settings of `divulge identify score`."""

    stride: Count | None = Field(None, description="Step between windows (default: half the length).")
    truncation: Literal["windows", "head"] = Field(
        "windows", description="How documents longer than a window are scored: in windows, or their head alone."
    )
    budget: Count | None = Field(None, description="Tokens in a batch, padding included (default: by device).")
    lowercase: Flag = Field(False, description="Also score the lower-cased texts, which doubles the work.")
    shard: Count = Field(512, description="Documents per file.")


# An erasure check.


class ForgetSettings(ErasureRules, SeedSetting):
    """Settings of `divulge forget`."""

    task: TaskName = _same_as(AuditSettings, "task")


# An extraction.


class DecodingSettings(Settings):
    """Sampling of tokens: keywords of `divulge.targets.Decoding`."""

    temperature: Number = Field(1.0, ge=0.01, le=100, description="Temperature of sampling: logits are divided by it.")
    top_k: Annotated[Integer, Field(ge=1, le=10**9)] | None = Field(
        None, description="Sample from the k most likely tokens only; all by default."
    )
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = Field(
        None, description="Sample only from the most likely tokens that together reach this share; all by default."
    )


class CutSettings(Settings):
    """Cutting of documents: keywords of `divulge.extraction.measure`."""

    prefix: Integer | Number = Field(
        50, gt=0, description="Tokens of the prompt, or the share of the document that it is, as in 0.5."
    )
    suffix: Count = Field(50, description="Tokens that the model is to give back.")
    place: Literal["start", "end", "random"] = Field("start", description="Where in a document the prompt stands.")


class ExtractSettings(CutSettings, SeedSetting):
    """Settings of `divulge.extraction.measure`."""

    draws: Annotated[
        tuple[Annotated[Integer, Field(ge=1, le=10**15)], ...], BeforeValidator(_as_tuple), Field(min_length=1)
    ] = Field(
        (1, 100, 10_000),
        description="Numbers of draws; a document counts as given back where an even chance of seeing it is reached.",
    )
    near: Share = Field(0.75, description="Overlap from which a greedy continuation counts as near-verbatim.")
    confidence: Rate = Field(0.95, description="Confidence that all differences lie in their intervals.")
    duplicates: Literal["error", "drop"] = Field(
        "error", description="What to do about documents of both sets; drop leaves them out of both."
    )
    show_records: Flag = Field(
        True, description="Whether the result, the run directory and the report may hold documents."
    )


# Canaries.


class CanarySettings(Settings):
    """Settings of `divulge.canaries.make`."""

    kind: Literal["mislabelled", "far", "shuffled", "random", "blank", "random-token", "unigram"] = Field(
        "mislabelled", description="What canaries are made of; random-token and unigram are for documents."
    )
    count: Integer = Field(1000, ge=8, le=10**6, description="Number of canaries.")
    design: Literal["coins", "fixed"] = Field(
        "coins", description="How canaries are included: each by its own fair coin, or half of them, drawn at random."
    )
    seed: Annotated[Integer, Field(ge=0)] | None = Field(
        None, description="Seed of canaries and coins; drawn from the system's entropy by default."
    )


class CanaryBoundSettings(Settings):
    """Guesses and confidence of a bound on ε."""

    sides: Literal["both", "in"] = Field("both", description="Guess canaries to be in and out, or in only.")
    confidence: Rate = Field(0.95, description="Confidence of the bound on ε.")


class CanaryAuditSettings(CanaryBoundSettings, OutputsSetting, SeedSetting):
    """Settings of `divulge.canaries.audit`."""

    recipe: Any = Field("loss", description="How canaries are scored; `divulge list` shows the recipes.")
    device: Name = Field("auto", description="Where torch runs: auto, cpu, cuda or mps.")


class CanaryPlanSettings(CanaryBoundSettings):
    """Settings of `divulge.evaluation.canaries_needed`."""

    power: Rate = Field(0.8, description="Probability of finding a violated claim.")


class LabelPrivacySettings(SeedSetting):
    """Settings of `divulge.canaries.label_privacy`."""

    confidence: Rate = Field(0.95, description="Confidence of each bound on ε.")


# Labels behind a scoring endpoint.


class OracleSettings(Settings):
    """Declared properties of a scoring endpoint: keywords of `divulge.labels.OracleSpec`."""

    metric: Any = Field(
        "log_loss",
        description="Metric: log_loss, accuracy, f1, macro_f1, auc, mse, rmse, rmsle, mae, mape, r2, "
        "balanced_accuracy, mcc, qwk, map_at_k, brier, norm_like:2, mahalanobis:1, …; your own as 'module:function'; "
        "or 'LOW:HIGH', where only the range is known.",
    )
    classes: Integer = Field(2, ge=2, le=10**9, description="Number of classes.")
    clip: Any = Field(
        "float64", description="Probabilities are clipped to this number, to the epsilon of a float type, or not: none."
    )
    decimals: Annotated[Integer, Field(ge=0, le=300)] | None = Field(
        None, description="Decimals of a score, if it is rounded."
    )
    noise: Number = Field(
        0.0, ge=0, allow_inf_nan=False, description="Bound, standard deviation or scale of a score's noise."
    )
    noise_kind: Literal["bounded", "gaussian", "laplace"] = Field("bounded", description="Distribution of the noise.")
    submission: Literal["rows", "positive", "labels"] = Field(
        "rows", description="What is submitted: one column per class, the positive class alone, or class numbers."
    )
    class_weight: Any = Field(None, description="Weights of the classes in a log loss, as 1,3.")
    scored: Any = Field("all", description="Rows that count: all, their number, or unknown.")


class DesignSettings(Settings):
    """Settings of `divulge.labels.design`."""

    method: str = Field("auto", description="Kind of plan: auto, dense, weighing, positional, theorem3, …")


class DefenceSettings(SeedSetting):
    """Settings of `divulge.labels.defend`."""

    queries: Integer = Field(100, ge=1, le=10**15, description="Queries that an attacker may ask.")
    accuracy: Number = Field(
        0.55, gt=0, lt=1, description="Accuracy on balanced labels that an attacker may reach, above chance."
    )


class SeasonRules(Settings):
    """A host's own rules over a season: options of `divulge labels defend`."""

    days: Integer = Field(90, ge=1, le=10**6, description="Length of the season.")
    per_day: Integer = Field(5, ge=1, le=10**6, description="Submissions that a team has a day.")
    public: Rate = Field(0.3, description="Share of the rows that a public leaderboard scores.")
    step: Annotated[Number, Field(gt=0)] | None = Field(
        None,
        description="Minimum gain, the step of the Ladder: a new score is shown only when it beats the team's best by "
        "this much (default: half a score's range, 1 at most, over the root of n).",
    )


class SeasonSettings(SeasonRules, SeedSetting):
    """Settings of `divulge.labels.menu`: a season, and the usual defences in it."""

    decimals: Integer = Field(3, ge=0, le=15, description="Decimals that scores are rounded to.")


# Weights of a shallow network.


class WeightsSettings(Settings):
    """Settings of `divulge weights`."""

    margin: Annotated[Number, Field(gt=0)] | None = Field(None, description="Margin of the training set, if known.")
    band: Number = Field(0.01, gt=0, description="Half-width of the margin band; 0.1 if training stopped early.")
    signal: Literal["kkt-nnls", "margin-abs", "margin-band"] = Field("kkt-nnls", description="Score to decide on.")
    fpr: Rate = Field(0.01, description="Bound on the false-positive rate.")
    fdr: Rate = Field(
        DecisionSettings.model_fields["fdr"].default,
        description="Bound on the expected share of non-members among those called members.",
    )


class CohortSettings(Settings):
    """How a published regression was fitted: keywords of `divulge.margin.Publication`."""

    family: Literal["logistic", "linear", "poisson"] | None = Field(
        None, description="With --cohort, of a table of coefficients: logistic (default), linear or poisson."
    )
    penalty: Number | None = Field(
        None,
        ge=0,
        description="With --cohort: 1 / C, or the regression's alpha (default: fitted; 0 for none).",
    )
    scaled: Flag = Field(
        False, description="With --cohort: whether columns were scaled to mean 0 and deviation 1 by the training set."
    )
    penalises_intercept: Flag = Field(False, description="With --cohort: whether the penalty holds for the intercept.")
    decimals: Integer | None = Field(
        None, ge=0, le=15, description="With --cohort: of the coefficients (default: as they stand in the table)."
    )
    gradient: Number | None = Field(
        None,
        ge=0,
        description="With --cohort: mean gradient at which the optimiser may have ended (default: 0.0001, as "
        "scikit-learn's; 0 if linear; R's glm and other Newton solvers end below 1e-6, unless values of columns are "
        "in the thousands).",
    )


# A model's file.
