"""Data-access settings: classes, records or subgroups removed from the auditor's population.

An auditor who asks about abuse imagery or a rare disease holds no records of it. A setting turns a
population that has everything into the one such an auditor would have; reference models, quantile regressors
and calibration then learn from what is left, whatever the attack. Settings are plain data: they can be
compared, printed, written in a plan and applied one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.validation import as_list, check_integer, check_number, to_numpy

if TYPE_CHECKING:
    from divulge.types import Array, Bools, Ints, Records


class Access(Protocol):
    """A data-access setting."""

    def mask(self, records: Records, groups: object = None, seed: int = 0) -> Bools:
        """Return the mask of the records that the auditor keeps, bool ``[n]``."""
        ...

    def apply(self, records: Records, groups: object = None, seed: int = 0) -> Records:
        """Return the records that the auditor keeps."""
        ...


@dataclass(frozen=True, slots=True)
class DropClasses:
    """The auditor holds no record of these classes (Thaker et al. 2025, arXiv:2506.06488, §3).

    Args:
        classes: the labels to remove.

    Raises:
        divulge.InputError: no class, or a negative one.

    Examples:
        >>> from divulge import Records
        >>> DropClasses((1,)).apply(Records([[0.0], [1.0], [2.0]], [0, 1, 0]))
        Records(n=2, shape=(1,), classes=1)
    """

    classes: tuple[int, ...]

    def __post_init__(self) -> None:
        classes = as_list(self.classes, "DropClasses.classes")
        labels = tuple(sorted({check_integer(label, "DropClasses.classes", minimum=0) for label in classes}))
        if not labels:
            raise InputError("DropClasses.classes: at least 1 class is needed, got none")
        object.__setattr__(self, "classes", labels)

    def mask(self, records: Records, groups: object = None, seed: int = 0) -> Bools:
        """Return the mask of records of other classes, bool ``[n]``.

        Raises:
            divulge.InputError: no labels, a class that no record has, or nothing left.
        """
        y = _require_labels(records, "DropClasses")
        if absent := sorted(set(self.classes) - set(np.unique(y).tolist())):
            raise InputError(f"DropClasses.classes: {absent} are not among the records' classes; nothing to drop")
        return _check_some_left(~np.isin(y, self.classes), "DropClasses")

    def apply(self, records: Records, groups: object = None, seed: int = 0) -> Records:
        """Return the records of other classes."""
        return records[self.mask(records, groups, seed)]


@dataclass(frozen=True, slots=True)
class DropShare:
    """The auditor holds no record of a share of all classes, drawn by the seed.

    Args:
        share: of the classes, in (0, 1); at least one class goes and at least one stays.

    Examples:
        >>> from divulge import Records
        >>> DropShare(0.5).dropped(Records([[0.0]] * 4, [0, 1, 2, 3]), seed=0)
        (1, 3)
    """

    share: float

    def __post_init__(self) -> None:
        check_number(self.share, "DropShare.share", above=0, below=1)

    def dropped(self, records: Records, seed: int = 0) -> tuple[int, ...]:
        """Return the removed classes; a larger share removes the same classes and more.

        Raises:
            divulge.InputError: no labels, or fewer than two classes.
        """
        classes = np.unique(_require_labels(records, "DropShare"))
        if len(classes) < 2:
            raise InputError(f"DropShare: at least 2 classes are needed, got {len(classes)}")
        count = min(max(1, round(self.share * len(classes))), len(classes) - 1)
        removed = seeds.generator(seed, "access", "classes").permutation(classes)[:count]
        return tuple(sorted(removed.tolist()))

    def mask(self, records: Records, groups: object = None, seed: int = 0) -> Bools:
        """Return the mask of records of the classes that stay, bool ``[n]``."""
        return DropClasses(self.dropped(records, seed)).mask(records)

    def apply(self, records: Records, groups: object = None, seed: int = 0) -> Records:
        """Return the records of the classes that stay."""
        return records[self.mask(records, groups, seed)]


@dataclass(frozen=True, slots=True)
class KeepPerClass:
    """The auditor holds few records of each class, or of some (scarcity).

    Args:
        count: records kept of each, drawn by the seed; a smaller count keeps a subset.
        classes: the classes that are scarce; every class when empty.

    Examples:
        >>> from divulge import Records
        >>> KeepPerClass(1).apply(Records([[0.0], [1.0], [2.0]], [0, 1, 0]))
        Records(n=2, shape=(1,), classes=2)
    """

    count: int
    classes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_integer(self.count, "KeepPerClass.count", minimum=1)
        classes = as_list(self.classes, "KeepPerClass.classes")
        labels = tuple(check_integer(label, "KeepPerClass.classes", minimum=0) for label in classes)
        object.__setattr__(self, "classes", labels)

    def mask(self, records: Records, groups: object = None, seed: int = 0) -> Bools:
        """Return the mask of ``count`` records of each scarce class and of all others, bool ``[n]``.

        Raises:
            divulge.InputError: no labels, or a class that no record has.
        """
        y = _require_labels(records, "KeepPerClass")
        scarce = np.unique(y) if not self.classes else np.asarray(self.classes)
        mask = ~np.isin(y, scarce)
        for label in scarce.tolist():
            rows = np.flatnonzero(y == label)
            if not rows.size:
                raise InputError(f"KeepPerClass.classes: no record is of class {label}")
            mask[seeds.generator(seed, "access", "scarce", label).permutation(rows)[: self.count]] = True
        return mask

    def apply(self, records: Records, groups: object = None, seed: int = 0) -> Records:
        """Return what is left of the scarce classes, and all of the others."""
        return records[self.mask(records, groups, seed)]


@dataclass(frozen=True, slots=True)
class DropGroups:
    """The auditor holds no record of these subgroups: a hospital, an age band, a value of a column.

    Args:
        groups: names of the subgroups to remove.

    Examples:
        >>> from divulge import Records
        >>> DropGroups(("ward 3",)).apply(Records([[0.0], [1.0]]), groups=["ward 1", "ward 3"])
        Records(n=1, shape=(1,), unlabelled)
    """

    groups: tuple[str, ...]

    def __post_init__(self) -> None:
        names = as_list(self.groups, "DropGroups.groups")
        if not names:
            raise InputError("DropGroups.groups: at least 1 name is needed, got none")
        object.__setattr__(self, "groups", tuple(sorted({str(name) for name in names})))

    def mask(self, records: Records, groups: object = None, seed: int = 0) -> Bools:
        """Return the mask of records of other subgroups, bool ``[n]``.

        Args:
            records: ``n`` records.
            groups: the subgroup of each.
            seed: not used; settings have one form.

        Raises:
            divulge.InputError: no subgroups, not one per record, a name that no record has, or nothing left.
        """
        if groups is None:
            raise InputError("DropGroups: the subgroup of each record is needed (groups=…)")
        names: Array = to_numpy(groups, "groups").astype(str)
        if names.shape != (len(records),):
            raise InputError(f"groups: {len(records)} names are needed (one per record), got shape {names.shape}")
        if absent := sorted(set(self.groups) - set(np.unique(names).tolist())):
            raise InputError(f"DropGroups.groups: no record is in {', '.join(absent)}; nothing to drop")
        return _check_some_left(~np.isin(names, self.groups), "DropGroups")

    def apply(self, records: Records, groups: object = None, seed: int = 0) -> Records:
        """Return the records of other subgroups."""
        return records[self.mask(records, groups, seed)]


def _require_labels(records: Records, name: str) -> Ints:
    if (labels := records.with_class_labels().labels) is None:
        raise InputError(f"{name}: labelled records are needed, but there are no labels")
    return labels


def _check_some_left(mask: Bools, name: str) -> Bools:
    if not mask.any():
        raise InputError(f"{name}: no record is left; the auditor must hold at least one class to learn from")
    return mask
