"""Neural regressors of a signal: configurations for `divulge.attacks.QuantileRegression`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge import lazy
from divulge.errors import InputError, MissingExtraError
from divulge.regressors import bodies
from divulge.regressors.bodies import MLP, Body
from divulge.validation import check_choice, check_integer, check_number, check_rates, check_vector, require_callable

if TYPE_CHECKING:
    from divulge.regressors import torch_network
    from divulge.regressors.torch_network import FittedNetwork
    from divulge.types import Array, Floats
else:
    torch_network = lazy.module("divulge.regressors.torch_network")


@dataclass(frozen=True, slots=True)
class Network:
    """A network that learns the conditional distribution of a signal among non-members.

    With the Gaussian head it gives mean and log-variance and is trained by their likelihood, as Bertran et
    al. 2023 (arXiv:2307.03694) do because the pinball loss is hard to minimise. With the pinball head it gives
    several quantiles at once that cannot cross: the lowest, and steps to the next that are positive by
    construction. A share of the records is held out; training stops when its loss no longer falls, and the best
    epoch is kept. A network whose loss was never finite predicts NaN, for which the attack falls back on one
    location and scale and says so.

    The same seed gives the same weights on the same kind of device.

    Args:
        body: what the network looks at records with (`divulge.regressors.bodies`).
        head: "gaussian" or "pinball".
        levels: quantile levels of the pinball head, increasing, in (0, 1).
        epochs: most passes over the records (30 in Thaker et al. 2025).
        lr: learning rate of Adam (1e-4 there, for a pretrained network).
        batch_size: records per step (16 there).
        weight_decay: of Adam.
        held: share of the records that only decides when to stop; 0 learns from all of them and keeps the last pass
            (as Thaker et al. 2025 do).
        patience: passes without a lower held-out loss before it stops.
        device: "auto", "cpu", "cuda" or "mps".

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> Network(epochs=5).head
        'gaussian'
    """

    reads_records: ClassVar[bool] = True
    """Whether an audit hands it the records themselves."""
    least_records: ClassVar[int] = 10
    """Fewest records to learn from."""

    body: Body = field(default_factory=MLP)
    head: Literal["gaussian", "pinball"] = "gaussian"
    levels: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    epochs: int = 30
    lr: float = 1e-3
    batch_size: int = 64
    weight_decay: float = 0.0
    held: float = 0.2
    patience: int = 5
    device: str = "auto"

    def __post_init__(self) -> None:
        check_choice(self.head, "Network.head", ("gaussian", "pinball"))
        require_callable(self.body, "Network.body", "prepare", "build")
        object.__setattr__(self, "levels", check_rates(self.levels, "Network.levels", increasing=True))
        for name, minimum in (("epochs", 1), ("batch_size", 2), ("patience", 1)):
            check_integer(getattr(self, name), f"Network.{name}", minimum=minimum, maximum=2**31)
        check_number(self.lr, "Network.lr", above=0, below=3e38)  # what a float32 holds
        check_number(self.weight_decay, "Network.weight_decay", above=0, below=1e30, closed=True)
        check_number(self.held, "Network.held", above=0, below=1, closed=True)

    @classmethod
    def published(cls, weights: str | None = None) -> Network:
        """Return the regressor of Thaker et al. 2025: Gaussian head, 30 passes of Adam at 1e-4, batches of 16.

        It learns from all records and keeps the last pass; its bodies are `divulge.regressors.bodies.Published`.

        Args:
            weights: folder of a pretrained network for images, see there.

        Examples:
            >>> Network.published().lr
            0.0001
        """
        return cls(bodies.Published(weights), epochs=30, lr=1e-4, batch_size=16, held=0.0)

    def check_installed(self) -> None:
        """Check that torch is installed, and that the body has what it starts from.

        Raises:
            divulge.MissingExtraError: torch is not installed.
            divulge.InputError: the body's files are not there.
        """
        try:
            _ = torch_network.FittedNetwork
        except MissingExtraError as error:
            raise MissingExtraError(
                f"{error} (the recipes quantile-trees and quantile-gap-trees, boosted trees, need no torch)"
            ) from None
        if callable(check := getattr(self.body, "check_installed", None)):
            check()

    def notes(self, features: Array) -> tuple[str, ...]:
        """Return the notes of the body on records such as these."""
        describe = getattr(self.body, "notes", None)
        return tuple(describe(features)) if callable(describe) else ()

    def fit(self, features: Array, signal: Floats, seed: int = 0) -> FittedNetwork:
        """Fit the network.

        Args:
            features: records as the body wants them, ``[z, ...]``.
            signal: what each shows under the target, ``[z]``.
            seed: of weights, batches and the held-out part.

        Raises:
            divulge.InputError: fewer than 10 records, or records the body cannot take.
            divulge.MissingExtraError: torch is not installed.
        """
        values = check_vector(signal, "signal", length=len(features), finite=False)
        if len(values) < self.least_records:
            raise InputError(
                f"Network: at least {self.least_records} records are needed to learn from, got {len(values)}"
            )
        shape = torch_network.NetworkShape(self.body, self.head, self.levels)
        schedule = torch_network.Schedule(
            self.epochs, self.lr, self.batch_size, self.weight_decay, self.held, self.patience, self.device
        )
        return torch_network.fit_network(shape, schedule, self.body.prepare(np.asarray(features)), values, seed)
