"""What a fine-tune is asked for."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

from divulge.references.engines import Placement
from divulge.validation import (
    as_list,
    check_choice,
    check_instance,
    check_integer,
    check_number,
    check_string,
    require_callable,
)


@dataclass(frozen=True, slots=True)
class LoRA:
    """Low-rank adapters in place of all weights (Hu et al. 2022), through the library `peft`.

    Args:
        rank: of each adapter.
        alpha: their scale is ``alpha / rank``.
        dropout: on what goes into them.
        modules: names of the layers that get one; the usual ones of the architecture when None.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    modules: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_integer(self.rank, "LoRA.rank", least=1)
        check_number(self.alpha, "LoRA.alpha", above=0)
        check_number(self.dropout, "LoRA.dropout", above=-1e-12, below=1)
        if self.modules is not None:
            names = as_list(self.modules, "LoRA.modules")
            object.__setattr__(self, "modules", tuple(check_string(name, "LoRA.modules") for name in names))


@dataclass(frozen=True, slots=True)
class FineTuneSettings:
    """The settings of a `FineTune`, which says what each of them is.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    base: Any
    count: int = 4
    epochs: int = 3
    _: KW_ONLY
    lr: float | None = None
    batch_size: int = 8
    lora: LoRA | None = None
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: float = 0.0
    weight_decay: float = 0.0
    length: int | None = None
    bos: Literal["tokenizer", "add", "none"] = "tokenizer"
    engine: Literal["auto", "serial", "processes", "ray"] = "auto"
    device: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.base, str | Path):
            check_string(str(self.base), "base")
        else:
            require_callable(self.base, "base", "tokens")
        check_integer(self.count, "count", least=0, most=10**6)
        check_integer(self.epochs, "epochs", least=1)
        if self.lr is not None:
            check_number(self.lr, "lr", above=0)
        check_integer(self.batch_size, "batch_size", least=1)
        if self.lora is not None:
            check_instance(self.lora, "lora", LoRA)
        check_choice(self.schedule, "schedule", ("linear", "cosine", "constant"))
        check_number(self.warmup, "warmup", above=-1e-12, below=1)
        check_number(self.weight_decay, "weight_decay", above=-1e-12)
        if self.length is not None:
            check_integer(self.length, "length", least=2)
        check_choice(self.bos, "bos", ("tokenizer", "add", "none"))
        check_choice(self.engine, "engine", ("auto", "serial", "processes", "ray"))
        Placement(self.engine, self.workers)

    @property
    def learning_rate(self) -> float:
        """The highest learning rate."""
        return self.lr if self.lr is not None else 5e-5 if self.lora is None else 2e-4
