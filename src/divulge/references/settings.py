"""What the user sets about training: plain data, checked. `training` adds what acts on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from divulge import checks
from divulge.references.privacy import Private
from divulge.types import Records

if TYPE_CHECKING:
    import torch

EngineName: TypeAlias = Literal["auto", "serial", "stacked", "processes", "ray"]
ENGINES = ("auto", "serial", "stacked", "processes", "ray")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """The fields of `divulge.references.Train`, which says what each means."""

    make_model: Callable[..., Any]
    count: int = 16
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
    engine: EngineName = "auto"
    device: str = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.make_model) or _is_network(self.make_model):
            raise checks.InputError("make_model: a function that returns a new network each time is needed")
        for name, least in (("count", 2), ("epochs", 1), ("batch_size", 1)):
            checks.integer(getattr(self, name), name, least=least)
        checks.choice(self.optimizer, "optimizer", ("sgd", "adam", "adamw"))
        checks.choice(self.precision, "precision", ("single", "double", "mixed"))
        checks.choice(self.engine, "engine", ENGINES)
        if not callable(self.schedule):
            checks.choice(self.schedule, "schedule", ("constant", "cosine", "linear"))
        if self.lr is not None:
            checks.number(self.lr, "lr", above=0.0, below=3e38)  # what a float32 holds
        checks.number(self.momentum, "momentum", above=-1e-300, below=1.0)
        checks.number(self.weight_decay, "weight_decay", above=-1e-300)
        if self.stop_at_accuracy is not None:
            checks.number(self.stop_at_accuracy, "stop_at_accuracy", above=0.0, below=1.0, closed=True)
        if self.workers is not None:
            checks.integer(self.workers, "workers", least=1)
        if self.privacy is not None and (self.stop_at_accuracy is not None or self.precision == "mixed"):
            raise checks.InputError(
                "privacy: neither stop_at_accuracy (not private) nor mixed precision go with DP-SGD"
            )

    @property
    def learning_rate(self) -> float:
        """The learning rate before any schedule."""
        return self.lr if self.lr is not None else 0.02 if self.optimizer == "sgd" else 0.001

    def rate(self, progress: float) -> float:
        """The learning rate when ``progress`` (0 to 1) of a model's steps are done."""
        if callable(self.schedule):
            return self.learning_rate * self.schedule(progress)
        factor = {"constant": 1.0, "linear": 1.0 - progress, "cosine": 0.5 * (1.0 + math.cos(math.pi * progress))}
        return self.learning_rate * factor[self.schedule]


@dataclass(frozen=True, slots=True)
class CustomSettings:
    """The fields of `divulge.references.Custom`, which says what each means."""

    train: Callable[[Records, int], Any]
    count: int = 16
    version: str = ""
    outputs: Literal["logits", "probabilities"] = "logits"
    engine: Literal["auto", "serial", "processes", "ray"] = "auto"
    workers: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.train):
            raise checks.InputError("train: a function of records and a seed is needed")
        checks.integer(self.count, "count", least=2)
        checks.choice(self.outputs, "outputs", ("logits", "probabilities"))
        checks.choice(self.engine, "engine", tuple(name for name in ENGINES if name != "stacked"))
        if self.workers is not None:
            checks.integer(self.workers, "workers", least=1)


def _is_network(made: object) -> bool:
    """A network that already stands, where a function that builds one is needed; told without importing torch."""
    return hasattr(made, "state_dict") and not isinstance(made, type)
