"""How one network is trained: plain data, checked."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from divulge import errors, lazy
from divulge.errors import InputError
from divulge.validation import check_choice, check_instance, check_integer, check_number, require_callable

if TYPE_CHECKING:
    import torch
    from opacus import accountants
else:
    accountants = lazy.module("opacus.accountants")


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
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.noise, "noise", above=0.0, below=1e9, closed=True)
        if 0 < self.noise < _LEAST_NOISE:
            raise InputError(f"noise: 0, or at least {_LEAST_NOISE:g}, is needed, got {self.noise:g}")
        check_number(self.clip, "clip", above=0.0)

    def epsilon(
        self,
        *,
        records: int,
        batch_size: int,
        epochs: int,
        delta: float,
        accountant: Literal["rdp", "prv"] = "rdp",
    ) -> float:
        """The ε (at δ) that training spends, by Opacus' accountant; infinite without noise.

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
    """How one network is trained; `divulge.references.Train` says what each field means."""

    make_model: Callable[..., Any]
    _: KW_ONLY
    epochs: int = 20
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float | None = None
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 128
    schedule: Literal["constant", "cosine", "linear"] | Callable[[float], float] = "constant"
    stop_at_accuracy: float | None = None
    augment: Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None = None
    privacy: Private | None = None
    precision: Literal["single", "double", "mixed"] = "single"

    def __post_init__(self) -> None:
        if not callable(self.make_model) or _is_network(self.make_model):
            raise InputError("make_model: a function that returns a new network each time is needed")
        check_integer(self.epochs, "epochs", least=1)
        check_integer(self.batch_size, "batch_size", least=1, most=2**31)
        check_choice(self.optimizer, "optimizer", ("sgd", "adam", "adamw"))
        check_choice(self.precision, "precision", ("single", "double", "mixed"))
        if not callable(self.schedule):
            check_choice(self.schedule, "schedule", ("constant", "cosine", "linear"))
        if self.lr is not None:
            check_number(self.lr, "lr", above=0.0, below=3e38)  # what a float32 holds
        check_number(self.momentum, "momentum", above=-1e-300, below=1.0)
        check_number(self.weight_decay, "weight_decay", above=0.0, below=1e30, closed=True)
        if self.stop_at_accuracy is not None:
            check_number(self.stop_at_accuracy, "stop_at_accuracy", above=0.0, below=1.0, closed=True)
        if self.privacy is not None:
            check_instance(self.privacy, "privacy", Private, "a references.Private")
        if self.augment is not None:
            require_callable(self.augment, "augment")
        if self.privacy is not None and (self.stop_at_accuracy is not None or self.precision == "mixed"):
            raise InputError("privacy: DP-SGD works with neither stop_at_accuracy (not private) nor mixed precision")

    @property
    def learning_rate(self) -> float:
        """The learning rate before any schedule."""
        return self.lr if self.lr is not None else 0.02 if self.optimizer == "sgd" else 0.001

    def rate(self, progress: float) -> float:
        """The learning rate when ``progress`` (0 to 1) of a model's steps are done."""
        if callable(self.schedule):
            with errors.user_code_errors("schedule"):
                factor = self.schedule(progress)
            return self.learning_rate * check_number(factor, "schedule: its factor", above=0.0, closed=True)
        factor = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}
        return self.learning_rate * factor[self.schedule]


def _is_network(made: object) -> bool:
    """A network instead of the function that builds one; recognised without importing torch."""
    return hasattr(made, "state_dict") and not isinstance(made, type)
