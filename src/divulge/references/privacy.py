"""Differentially private training: its settings and what it costs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

from divulge import checks


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
        checks.number(self.noise, "noise", above=0.0, below=1e9, closed=True)
        checks.number(self.clip, "clip", above=0.0)

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
            batch_size: expected records a step.
            epochs: passes, of ``ceil(n / batch_size)`` steps each.
            delta: δ, below ``1 / n`` to mean anything.
            accountant: "rdp" (an upper bound) or "prv" (tighter, numerical).

        Raises:
            divulge.MissingExtraError: Opacus is not installed.
            divulge.InputError: δ outside (0, 1).
        """
        checks.number(delta, "delta", above=0.0, below=1.0)
        checks.choice(accountant, "accountant", ("rdp", "prv"))
        if not self.noise:
            return float("inf")
        try:
            from opacus.accountants import create_accountant
        except ImportError:
            raise checks.extra("opacus", "dp") from None
        spent = create_accountant(accountant)
        steps = epochs * -(-records // batch_size)
        spent.history = [(self.noise, min(1.0, batch_size / records), steps)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the range of orders searched; the bound holds all the same
            return float(spent.get_epsilon(delta))
