"""Gradient-boosted trees as the regressors use them: one thread, seeded, stopped early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np

from divulge.validation import check_integer, check_number

if TYPE_CHECKING:
    from divulge.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Booster:
    """How trees grow (LightGBM).

    Args:
        rounds: most trees.
        rate: learning rate.
        leaves: most leaves of a tree.
        least_in_leaf: fewest records in a leaf.
        patience: trees without improvement on the held-out part before it stops.
    """

    rounds: int = 200
    rate: float = 0.05
    leaves: int = 15
    least_in_leaf: int = 20
    patience: int = 20

    def __post_init__(self) -> None:
        check_integer(self.rounds, "Booster.rounds", least=1)
        check_number(self.rate, "Booster.rate", above=0, below=1, closed=True)
        check_integer(self.leaves, "Booster.leaves", least=2)
        check_integer(self.least_in_leaf, "Booster.least_in_leaf", least=1)
        check_integer(self.patience, "Booster.patience", least=1)

    def fit(
        self, objective: str, table: Floats, target: Floats, train: Bools, stop: Bools, seed: int, alpha: float = 0.5
    ) -> Any:
        """Trees for ``target`` grown on the rows ``train`` until those in ``stop`` no longer gain.

        The result is the same on every machine and for any number of cores: one thread, row order fixed.
        """
        settings = {
            "objective": objective,
            "alpha": alpha,
            "learning_rate": self.rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least_in_leaf,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed,
            "verbosity": -1,
        }
        fitted = lightgbm.Dataset(table[train], target[train])
        return lightgbm.train(
            settings,
            fitted,
            num_boost_round=self.rounds,
            valid_sets=[lightgbm.Dataset(table[stop], target[stop], reference=fitted)],
            callbacks=[lightgbm.early_stopping(self.patience, verbose=False)],
        )


def crossfit(
    booster: Booster, objective: str, table: Floats, target: Floats, folds: Ints, seed: int
) -> tuple[tuple[Any, ...], Floats]:
    """One model per fold, and what each predicts (before any link function) of records it has never seen.

    Model k leaves out fold k, whose records it predicts, and fold k + 1, on which it stops: a fold that
    chose the number of trees is not unseen.

    Returns:
        The models, and their out-of-fold predictions ``[z]``.
    """
    count = int(folds.max()) + 1
    models, unseen = [], np.empty(len(target))
    for k in range(count):
        out, stop = folds == k, folds == (k + 1) % count
        model = booster.fit(objective, table, target, ~(out | stop), stop, seed)
        unseen[out] = model.predict(table[out], raw_score=True)
        models.append(model)
    return tuple(models), unseen
