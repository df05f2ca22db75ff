"""Splits: the records that each reference model is trained on.

Models come in blocks: within a block of ``of`` models every record is a member of exactly ``k``. The block
of a model depends on the seed and its own position alone, so asking for more models later changes none of
those that exist, and a pool of finished models serves the larger run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.types import Array, Bools, Ints
from divulge.validation import check_integer, check_labels, check_mask, check_memory


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Membership of ``n`` records in ``m`` models.

    Args:
        trained_on: bool ``[m, n]``, True where model ``i`` is trained on record ``j``.

    Raises:
        divulge.InputError: not a bool matrix, or a model without any record.

    Examples:
        >>> Splits(np.array([[True, False], [False, True]]))
        Splits(models=2, records=2, members=1..1)
    """

    trained_on: Bools

    def __init__(self, trained_on: object) -> None:
        rows = check_mask(trained_on, "trained_on", (None, None))
        if rows.ndim != 2 or not rows.size:
            raise InputError(f"trained_on: a bool matrix [models, records] is needed, got shape {rows.shape}")
        empty = np.flatnonzero(~rows.any(axis=1))
        if empty.size:
            raise InputError(f"trained_on: model {empty[0]} has no record to be trained on")
        object.__setattr__(self, "trained_on", rows)

    def __len__(self) -> int:
        return len(self.trained_on)

    def members(self, model: int) -> Ints:
        """Return the positions of the records that ``model`` is trained on, ascending."""
        return np.flatnonzero(self.trained_on[model])

    def __repr__(self) -> str:
        models, records = self.trained_on.shape
        sizes = self.trained_on.sum(axis=1)
        return f"Splits(models={models}, records={records}, members={sizes.min()}..{sizes.max()})"


def online(records: int, models: int, seed: int, *, labels: Array | None = None, groups: Array | None = None) -> Splits:
    """Put every record into exactly half of the models (an odd last model trains on a random half).

    Args:
        records: number of records ``n``, candidates included.
        models: number of models ``m``.
        seed: the user's seed.
        labels: classes ``[n]``; when given, each model also gets half of every class (to within one record).
        groups: number of the distinct record that each is, ``[n]``; equal records are in the same models.

    Raises:
        divulge.InputError: no model, or fewer than 2 distinct records.

    Examples:
        >>> online(10, 4, seed=0).trained_on.sum(axis=0)
        array([2, 2, 2, 2, 2, 2, 2, 2, 2, 2])
    """
    return offline(records, models, seed, k=1, of=2, labels=labels, groups=groups)


def offline(
    records: int,
    models: int,
    seed: int,
    *,
    k: int = 1,
    of: int = 2,
    candidates: Bools | None = None,
    labels: Array | None = None,
    groups: Array | None = None,
) -> Splits:
    """Put every record into exactly ``k`` of each ``of`` consecutive models, and candidates into none.

    Args:
        records: number of records ``n``.
        models: number of models ``m``.
        seed: the user's seed.
        k: in how many models of a block a record is a member.
        of: the number of models in a block.
        candidates: bool ``[n]``, True for records that no model may see.
        labels: classes ``[n]``; when given, the split is the same within every class (to within one record).
        groups: number of the distinct record that each is, ``[n]``; equal records are in the same models.

    Raises:
        divulge.InputError: no model, ``k`` not in ``1..of-1``, fewer usable records than ``of``.

    Examples:
        >>> split = offline(8, 3, seed=0, k=2, of=3, candidates=np.arange(8) < 2)
        >>> split.trained_on.sum(axis=0)
        array([0, 0, 2, 2, 2, 2, 2, 2])
    """
    models = check_integer(models, "models", minimum=1, maximum=10**6)
    records = check_integer(records, "records", minimum=2, maximum=10**12)
    check_memory(float(models) * records, "models", "fewer models need less")
    check_integer(of, "of", minimum=2)
    if not 1 <= check_integer(k, "k", minimum=1) < of:
        raise InputError(f"k: must be below of = {of}, got {k}")
    usable = np.arange(records)
    if candidates is not None:
        usable = np.flatnonzero(~check_mask(candidates, "candidates", (records,)))
    representative = np.arange(records)
    if groups is not None:
        # The first usable record of a group is dealt out, and the others follow it.
        _, first_rows, group_ids = np.unique(np.asarray(groups)[usable], return_index=True, return_inverse=True)
        representative[usable] = usable[first_rows[group_ids.ravel()]]
        usable = np.sort(usable[first_rows])
    if len(usable) < of:
        qualifier = "" if groups is None else "distinct ones "
        raise InputError(f"records: at least {of} {qualifier}outside the candidates are needed, got {len(usable)}")
    classes = None if labels is None else check_labels(labels, "labels", length=records)
    trained_on = np.zeros((models, records), dtype=bool)
    for first_rows in range(0, models, of):
        block = trained_on[first_rows : first_rows + of]
        order = seeds.generator(seed, "splits", k, of, first_rows).permutation(usable)
        order = order if classes is None else order[np.argsort(classes[order], kind="stable")]
        for position in range(of):
            for model in (np.arange(position, position + k) % of)[:k]:
                if model < len(block):
                    block[model, order[position::of]] = True
    return Splits(trained_on[:, representative])
