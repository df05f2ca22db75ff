"""Hyperparameters of reference models: networks with or without DP-SGD, fine-tunes with or without adapters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from divulge import errors, lazy, settings
from divulge.errors import InputError
from divulge.references import matching
from divulge.validation import check_choice, check_instance, check_number, check_string, require_callable

if TYPE_CHECKING:
    import torch
    from opacus import accountants
else:
    accountants = lazy.module("opacus.accountants")

_PRIVACY = settings.DifferentialPrivacySettings(noise=0.0)
_TRAINING = settings.TrainingSettings()
_FINE_TUNING = settings.FineTuningSettings()
_LORA = settings.LoRASettings()
_LEAST_NOISE = 1e-6  # its ε is beyond 10¹² for any training; less cannot be accounted for


@dataclass(frozen=True, slots=True)
class Private:
    """DP-SGD (Abadi et al. 2016, algorithm 1) with Poisson sampling.

    Each step takes every record with probability ``batch_size / n``, scales each record's gradient down to norm
    ``clip``, adds Gaussian noise of standard deviation ``noise * clip`` to their sum, and divides by ``batch_size``.

    Args:
        noise: noise multiplier; 0 clips only and is not private.
        clip: largest norm of one record's gradient.

    The noise comes from torch's ordinary generator, so that runs can be repeated: good for auditing a method, not
    for releasing a model.

    Raises:
        divulge.InputError: negative noise, a clip that is not positive.
    """

    noise: float
    clip: float = _PRIVACY.clip

    def __post_init__(self) -> None:
        settings.DifferentialPrivacySettings.check_attributes(self)
        if 0 < self.noise < _LEAST_NOISE:
            raise InputError(f"noise: 0, or at least {_LEAST_NOISE:g}, is needed, got {self.noise:g}")

    def epsilon(
        self,
        *,
        records: int,
        batch_size: int,
        epochs: int,
        delta: float,
        accountant: Literal["rdp", "prv"] = "rdp",
    ) -> float:
        """Return the ε (at δ) that training spends, by Opacus' accountant; infinite without noise.

        Args:
            records: number of training records ``n``.
            batch_size: expected records per step.
            epochs: passes, of ``ceil(n / batch_size)`` steps each.
            delta: δ, below ``1 / n`` to mean anything.
            accountant: "rdp" (an upper bound) or "prv" (tighter, numerical).

        Raises:
            divulge.MissingExtraError: Opacus is not installed.
            divulge.InputError: δ outside (0, 1).
        """
        check_number(delta, "delta", above=0.0, below=1.0)
        check_choice(accountant, "accountant", ("rdp", "prv"))
        if not self.noise:
            return float("inf")
        spent = accountants.create_accountant(accountant)
        steps = epochs * -(-records // batch_size)
        spent.history = [(self.noise, min(1.0, batch_size / records), steps)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the range of orders searched; the bound holds all the same
            return float(spent.get_epsilon(delta))


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Settings of the training of one network; `divulge.references.Train` describes each of them."""

    make_model: Callable[..., Any] | None = None
    _: KW_ONLY
    epochs: int = _TRAINING.epochs
    optimizer: Literal["sgd", "adam", "adamw"] = _TRAINING.optimizer
    lr: float | None = _TRAINING.lr
    momentum: float = _TRAINING.momentum
    weight_decay: float = _TRAINING.weight_decay
    batch_size: int = _TRAINING.batch_size
    schedule: Literal["constant", "cosine", "linear"] | Callable[[float], float] = _TRAINING.schedule
    stop_at_accuracy: float | None = _TRAINING.stop_at_accuracy
    augment: Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None = None
    privacy: Private | None = None
    precision: Literal["single", "double", "mixed"] = _TRAINING.precision
    stop_after: int | None = _TRAINING.stop_after

    def __post_init__(self) -> None:
        # A network in place of the function that builds one can be called, too; torch may not be there to ask.
        is_network = hasattr(self.make_model, "state_dict") and not isinstance(self.make_model, type)
        if self.make_model is not None and (not callable(self.make_model) or is_network):
            raise InputError("make_model: a function that returns a new network or estimator each time is needed")
        settings.TrainingSettings.check_attributes(self, *(["schedule"] if callable(self.schedule) else []))
        matching.check_stop(self.stop_after, self.epochs)
        if self.privacy is not None:
            check_instance(self.privacy, "privacy", Private, "a references.Private")
        if self.augment is not None:
            require_callable(self.augment, "augment")
        if self.privacy is not None and (self.stop_at_accuracy is not None or self.precision == "mixed"):
            raise InputError("privacy: DP-SGD works with neither stop_at_accuracy (not private) nor mixed precision")

    def network_function(self) -> Callable[..., Any]:
        """Return ``make_model``.

        Raises:
            divulge.InputError: there is none.
        """
        if self.make_model is None:
            raise InputError(
                "make_model: a function that returns a new network or estimator is needed; only an audit of an "
                "estimator can do without, as it clones the target"
            )
        return self.make_model

    def check_network_settings(self) -> None:
        """Check that no setting was changed that only networks have.

        Raises:
            divulge.InputError: one was.
        """
        for setting in fields(Hyperparameters):
            if setting.name != "make_model" and getattr(self, setting.name) != setting.default:
                raise InputError(
                    f"references: {setting.name} is a setting of networks, and an estimator is to be trained; its own "
                    f"parameters say how, got {setting.name}={getattr(self, setting.name)!r}"
                )

    @property
    def learning_rate(self) -> float:
        """The learning rate before any schedule."""
        return self.lr if self.lr is not None else 0.02 if self.optimizer == "sgd" else 0.001

    def rate(self, progress: float) -> float:
        """Return the learning rate after the share ``progress`` (0 to 1) of a model's steps."""
        if callable(self.schedule):
            with errors.user_code_errors("schedule"):
                factor = self.schedule(progress)
            return self.learning_rate * check_number(factor, "schedule: its factor", above=0.0, closed=True)
        factor = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}
        return self.learning_rate * factor[self.schedule]


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

    rank: int = _LORA.rank
    alpha: float = _LORA.alpha
    dropout: float = _LORA.dropout
    modules: tuple[str, ...] | None = _LORA.modules

    def __post_init__(self) -> None:
        try:
            settings.LoRASettings.check_attributes(self)
        except InputError as error:
            raise InputError(f"LoRA.{error}") from None
        if self.modules is not None:
            object.__setattr__(self, "modules", tuple(self.modules))


@dataclass(frozen=True, slots=True)
class FineTuneSettings:
    """Settings of `FineTune`, which describes each of them.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    base: Any
    count: int = _FINE_TUNING.count
    epochs: int = _FINE_TUNING.epochs
    _: KW_ONLY
    lr: float | None = _FINE_TUNING.lr
    batch_size: int = _FINE_TUNING.batch_size
    lora: LoRA | None = None
    schedule: Literal["linear", "cosine", "constant"] = _FINE_TUNING.schedule
    warmup: float = _FINE_TUNING.warmup
    weight_decay: float = _FINE_TUNING.weight_decay
    stop_after: int | None = _FINE_TUNING.stop_after
    length: int | None = _FINE_TUNING.length
    bos: Literal["tokenizer", "add", "none"] = _FINE_TUNING.bos
    precision: Literal["single", "mixed", "bfloat16"] = _FINE_TUNING.precision
    quantization: Literal["4bit"] | None = _FINE_TUNING.quantization
    gradient_checkpointing: bool = _FINE_TUNING.gradient_checkpointing
    gradient_accumulation_steps: int = _FINE_TUNING.gradient_accumulation_steps
    engine: Literal["auto", "serial", "processes", "ray"] = _FINE_TUNING.engine
    device: str = "auto"
    workers: int | None = _FINE_TUNING.workers
    gpus: float | None = _FINE_TUNING.gpus
    match: Literal["auto"] | Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "match", matching.check_match(self.match))
        if isinstance(self.base, str | Path):
            check_string(str(self.base), "base")
        else:
            require_callable(self.base, "base", "tokens")
        if self.lora is not None:
            check_instance(self.lora, "lora", LoRA)
        settings.FineTuningSettings.check_attributes(self)
        matching.check_stop(self.stop_after, self.epochs)
        for name, value, default in (
            ("precision", self.precision, "bfloat16"),
            ("quantization", self.quantization, "4bit"),
        ):
            if value == default and self.lora is None:
                raise InputError(f"{name}: {value} holds the base as it is, and only adapters can be trained; set lora")
        if self.quantization is not None and not isinstance(self.base, str | Path):
            raise InputError("quantization: a base given as a folder or hf:NAME is needed; this one is loaded already")

    @property
    def learning_rate(self) -> float:
        """The highest learning rate."""
        return self.lr if self.lr is not None else 5e-5 if self.lora is None else 2e-4
