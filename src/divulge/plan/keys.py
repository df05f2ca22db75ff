"""The keys of a plan, and what each may be."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from divulge.references import LoRA
from divulge.request import AuditOptions, Duplicates, Outputs, UnknownClasses
from divulge.tables import ColumnNames

_Rate = Annotated[float, Field(gt=0, lt=1)]
_LORA = LoRA()
_FEWEST = 2  # reference models that are no fine-tunes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TargetPlan(_Strict):
    """The model under audit.

    Args:
        model: a file (.safetensors with a factory, .onnx, .skops), a Hugging Face folder or ``hf:NAME``, or
            "package.module:name" of a model, a predictor or a function that returns one; with ``endpoint``, its name
            there.
        endpoint: address of an OpenAI-compatible server of language models, ``http://…/v1``.
        base: of a LoRA adapter: folder or ``hf:NAME`` of the model that it was trained on.
        dtype: of a Hugging Face model.
        bos: whether a language model's documents begin with a BOS token.
        factory: "package.module:callable" that builds the empty network for the weights.
        trust: types that a .skops file may be built from, beside scikit-learn's own.
        outputs: what the model returns.
        frames: library of the data frames that a model fitted on named columns is given; what its encoders show, or
            pandas where it is installed, where this is not said.
    """

    model: str
    endpoint: str | None = None
    base: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    bos: Literal["tokenizer", "add", "none"] | None = None
    factory: str | None = None
    trust: list[str] = []
    outputs: Outputs = AuditOptions.outputs
    frames: Literal["auto", "pandas", "polars"] = "auto"


class DataPlan(ColumnNames):
    """Files of records: ``.npz`` (arrays ``x``, ``y``, ``ids``; ``columns`` names them), tables, or folders.

    Tables are ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` or ``.arrow``; those of text may end in ``.gz`` or ``.zst``.
    A folder holds tables, or is a data set saved by `datasets`, or one of images with a folder for each class. The keys
    that name columns are those of `divulge.tables.ColumnNames`.

    Args:
        members: records that the model was trained on.
        nonmembers: records of the same kind that it was not trained on.
        population: further records that it was not trained on: attacks learn from them, decisions are calibrated on
            them.
        covariates: columns in which members and non-members may differ beside membership, such as a date or a source:
            verdict and gate judge scores adjusted for them. Those of numbers are values of a record too, unless
            ``columns`` leaves them out.
        label: column of the classes.
        id: column of the identifiers, which are read as texts.
        text: column of the documents.
        group: column of the subgroups that are reported apart.
        person: column of whose each document is; all documents of one person are one record.
        drop: columns that are no part of a record.
        scale: factor on every value.
        separator: between the values of a .csv; the header's own where this is not said.
        columns: of the values of a record, in the model's order; all other columns where this is not said.
        classes: names of the classes, in the order of the model's outputs, where they are not numbers.
    """

    members: str
    nonmembers: str
    population: str
    covariates: Annotated[list[str], Field(min_length=1)] | None = None
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    classes: Annotated[list[str], Field(min_length=2)] | None = None


class LoRAPlan(_Strict):
    """Adapters in place of a full fine-tune, see `divulge.references.LoRA`.

    Args:
        rank: of each adapter.
        alpha: their scale is alpha / rank.
        dropout: on what goes into them.
        modules: names of the layers that get one; the architecture's usual ones where this is not said.
    """

    rank: Annotated[int, Field(ge=1)] = _LORA.rank
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _LORA.alpha
    dropout: Annotated[float, Field(ge=0, lt=1)] = _LORA.dropout
    modules: list[str] | None = None


class ReferencesPlan(_Strict):
    """How reference models are trained; further keys go to the class that trains them as they are.

    ``make_model`` for `divulge.references.Train`, ``base`` for `divulge.references.FineTune`.

    Args:
        make_model: "package.module:callable" that returns a new network.
        base: folder or ``hf:NAME`` of the language model that the target was fine-tuned from.
        lora: adapters in place of a full fine-tune.
        count: number of models.
        epochs: passes over a model's records.
        pool: folder of finished models; in the run directory where this is not said.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    make_model: str | None = None
    base: str | None = None
    lora: LoRAPlan | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    epochs: Annotated[int, Field(ge=1)] | None = None
    pool: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ReferencesPlan:
        if (self.make_model is None) == (self.base is None):
            raise ValueError("make_model is needed, or base for a language model; one of them")
        if self.base is None and self.count is not None and self.count < _FEWEST:
            raise ValueError(f"references.count must be at least {_FEWEST}, got {self.count}")
        if self.base is None and self.lora is not None:
            raise ValueError("lora goes with base")
        return self


class AccessPlan(_Strict):
    """What the auditor does not hold: taken away from the population before anything learns from it.

    Args:
        drop_classes: these classes.
        drop_share: this share of the classes, drawn.
        keep_per_class: all but so many records of each class.
        drop_groups: these subgroups.
    """

    drop_classes: list[Annotated[int, Field(ge=0)]] = []
    drop_share: _Rate | None = None
    keep_per_class: Annotated[int, Field(ge=1)] | None = None
    drop_groups: list[str] = []


class Plan(_Strict):
    """A whole audit.

    Args:
        target: the model under audit.
        data: the records.
        references: how reference models are trained.
        access: what the auditor does not hold.
        recipes: attacks by name (`divulge list`), or "package.module:Class"; where only ``[recipe.NAME]`` tables are
            given, those.
        recipe: settings of the attacks that ``recipes`` names, one table each: ``[recipe.lira]``, ``mode = "online"``.
        unseen_classes: classes of which the population has no records, reported apart.
        unknown_classes: what to do about records of a class that the model was not fitted on: error or drop.
        known: which values of a record the adversary knows, such as "share:0.4"; several in a list.
        imputer: what completes the unknown ones.
        fpr: false-positive rates to report.
        calibration: share of the population that decisions are calibrated on.
        duplicates: what to do about records that occur in several sets.
        texts: whether the most exposed documents may be kept and shown.
        device: where torch runs: auto, cpu, cuda, mps.
        folder: where files and modules are looked for; the plan's own where this is not said.
        seed: of every random draw.
    """

    target: TargetPlan
    data: DataPlan
    references: ReferencesPlan | None = None
    access: AccessPlan = AccessPlan()
    recipes: Annotated[list[str], Field(min_length=1)] = list(AuditOptions.recipes)
    recipe: dict[str, dict[str, Any]] | None = None
    unseen_classes: list[Annotated[int, Field(ge=0)] | str] = []
    unknown_classes: UnknownClasses = AuditOptions.unknown_classes
    known: str | Annotated[list[str], Field(min_length=1)] | None = None
    imputer: Literal["gaussian", "mean", "knn", "hot-deck", "autoencoder"] = "gaussian"
    fpr: Annotated[list[_Rate], Field(min_length=1)] = list(AuditOptions.fpr)
    calibration: _Rate = AuditOptions.calibration
    duplicates: Duplicates = AuditOptions.duplicates
    texts: bool = AuditOptions.texts
    device: str = AuditOptions.device
    folder: str | None = None
    seed: Annotated[int, Field(ge=0)] = AuditOptions.seed

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
