"""The keys of a plan, and what each may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from divulge.references import LoRA
from divulge.request import Duplicates, Options, Outputs

_Rate = Annotated[float, Field(gt=0, lt=1)]
_LORA = LoRA()
_FEWEST = 2  # reference models that are no fine-tunes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TargetPlan(_Strict):
    """The model under audit."""

    model: str
    base: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    bos: Literal["tokenizer", "add", "none"] | None = None
    factory: str | None = None
    trust: list[str] = []
    outputs: Outputs = Options.outputs


class DataPlan(_Strict):
    """Files of records: ``.npz`` (arrays ``x``, ``y``, ``ids``; ``columns`` names them), tables, or folders.

    Tables are ``.parquet``, ``.csv``, ``.jsonl`` or ``.ndjson``; ``text`` names the column of documents. A folder is a
    data set saved by `datasets`, or one of images with a folder for each class.
    """

    members: str
    nonmembers: str
    population: str
    label: str = "label"
    id: str = "id"
    group: str | None = None
    text: str | None = None
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    separator: Annotated[str, Field(min_length=1, max_length=1)] = ","
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    classes: Annotated[list[str], Field(min_length=2)] | None = None


class LoRAPlan(_Strict):
    """Adapters in place of a full fine-tune, see `divulge.references.LoRA`."""

    rank: Annotated[int, Field(ge=1)] = _LORA.rank
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = _LORA.alpha
    dropout: Annotated[float, Field(ge=0, lt=1)] = _LORA.dropout
    modules: list[str] | None = None


class ReferencesPlan(_Strict):
    """How reference models are trained; further keys go to the class that trains them as they are.

    ``make_model`` for `divulge.references.Train`, ``base`` for `divulge.references.FineTune`.
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
    """What the auditor does not hold: taken away from the population before anything learns from it."""

    drop_classes: list[Annotated[int, Field(ge=0)]] = []
    drop_share: _Rate | None = None
    keep_per_class: Annotated[int, Field(ge=1)] | None = None
    drop_groups: list[str] = []


class Plan(_Strict):
    """A whole audit. Files and modules are looked for in ``folder``, which is the plan's own if not given."""

    target: TargetPlan
    data: DataPlan
    references: ReferencesPlan | None = None
    access: AccessPlan = AccessPlan()
    recipes: Annotated[list[str], Field(min_length=1)] = list(Options.recipes)
    unseen_classes: list[Annotated[int, Field(ge=0)]] = []
    known: str | Annotated[list[str], Field(min_length=1)] | None = None
    imputer: Literal["gaussian", "mean", "knn", "hot-deck", "autoencoder"] = "gaussian"
    fpr: Annotated[list[_Rate], Field(min_length=1)] = list(Options.fpr)
    calibration: _Rate = Options.calibration
    duplicates: Duplicates = Options.duplicates
    texts: bool = Options.texts
    device: str = Options.device
    folder: str | None = None
    seed: Annotated[int, Field(ge=0)] = Options.seed
