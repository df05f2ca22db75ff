"""Columns and classes of all records in the order that the target knows them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import columns
from divulge.columns import TableEncoder
from divulge.errors import InputError
from divulge.targets import FramedTarget
from divulge.types import Records
from divulge.validation import as_list, check_choice, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.request import AuditData, UnknownClasses

_SETS = ("members", "nonmembers", "population")


@dataclass(frozen=True, slots=True, eq=False)
class AlignedData:
    """What an audit goes on with.

    Args:
        subject: all records with the same columns, encoded alike, and labels that number the target's classes.
        target: the adapter, which is given frames where the records have columns.
        class_names: of the classes, by their number; None where they have no names.
        notes: what was assumed.
    """

    subject: AuditData
    target: Any
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def align_data(subject: AuditData, target: Any, unknown_classes: UnknownClasses) -> AlignedData:
    """Bring the columns and classes of all sets into the target's order.

    Args:
        subject: as the user hands it in.
        target: an adapter; its ``feature_names`` and ``class_names`` are read where it has them.
        unknown_classes: "error" or "drop": what happens to records of a class that the target does not know.

    Raises:
        divulge.InputError: columns that are missing or too many, of other types in two sets, or that the target cannot
            read; a class that the target does not know; names of classes whose order nobody says.
    """
    sets = {name: getattr(subject, name) for name in _SETS}
    if not all(isinstance(records, Records) for records in sets.values()):
        return AlignedData(subject, target)  # refused later, with the name of the argument
    given_order = None if sets["members"].table is None else list(sets["members"].table.columns)
    sets, column_notes = _align_columns(sets, target)
    known = _reorder_mask(subject.known, given_order, sets["members"])
    class_names, class_notes = _class_order(sets, target)
    kept = {name: np.ones(len(records), dtype=bool) for name, records in sets.items()}
    if class_names is not None:
        for name, records in sets.items():
            sets[name], kept[name] = _number_classes(records, class_names, name, unknown_classes)
    elif unknown_classes == "drop":
        sets, kept = _drop_unknown(sets, target)
    dropped = {name: int((~mask).sum()) for name, mask in kept.items()}
    notes = [*column_notes, *class_notes]
    if any(dropped.values()):
        listed = ", ".join(f"{count:,} of the {name}" for name, count in dropped.items() if count)
        notes.append(f"records of classes that the target does not know were left out: {listed}")
    candidates = np.concatenate([kept["members"], kept["nonmembers"]])
    subject = replace(
        subject,
        **sets,
        groups=_select_rows(subject.groups, candidates),
        known=_select_rows(known, candidates),
        covariates=_select_columns(subject.covariates, candidates),
        unseen_classes=_class_numbers(subject.unseen_classes, class_names, "unseen_classes"),
    )
    framed = target if sets["members"].table is None else FramedTarget(target, sets["population"][:1])
    return AlignedData(subject, framed, class_names, tuple(notes))


def _align_columns(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], list[str]]:
    """All sets with the same columns, in the order in which the target was fitted, encoded together."""
    wanted = _fitted_names(target, sets["members"])
    framed = [name for name, records in sets.items() if records.table is not None]
    if not framed:
        width = sets["members"].x[0].size if sets["members"].x.dtype != object else 0
        if wanted and width == len(wanted):
            listed = columns.format_names(wanted)
            return dict(sets), [
                f"the records have no column names; their values were taken in the order of the target's: {listed}"
            ]
        return dict(sets), []
    if len(framed) < len(sets):
        bare = [name for name in sets if name not in framed]
        raise InputError(
            f"{', '.join(bare)}: {', '.join(framed)} have named columns, so all sets must; pass data frames throughout"
        )
    tables = {name: records.table for name, records in sets.items() if records.table is not None}
    order = wanted or tuple(tables["members"].columns)
    for name, table in tables.items():
        columns.match_columns(table, order, name, of_model=bool(wanted))
    joined = columns.concatenate([table.select(*order) for table in tables.values()])
    encoder = TableEncoder.fit([joined])
    if not encoder.is_plain and not getattr(target, "takes_frames", False):
        odd = [column.name for column in encoder.columns if column.measure not in ("number", "boolean")]
        odd += [column.name for column in encoder.columns if column.has_missing]
        raise InputError(
            f"target: {type(target).__name__} takes numbers, and the columns {columns.format_names(odd)} hold texts, "
            "categories, dates or missing values; pass the model with its encoder, as a pipeline or as a function of a "
            "data frame"
        )
    notes = []
    if not wanted:
        listed = columns.format_names(order)
        notes.append(
            f"the target does not say by which columns it was fitted; it was given them in the order of the members': "
            f"{listed}"
        )
    return {name: records.with_encoder(encoder) for name, records in sets.items()}, notes


def _fitted_names(target: Any, members: Records) -> tuple[str, ...]:
    """The columns that the target was fitted on; those that merely seem to be, where the records have just these."""
    if (names := tuple(getattr(target, "feature_names", ()))) or members.table is None:
        return names
    return columns.find_names(getattr(target, "likely_names", ()), members.table.columns)


def _reorder_mask(known: Any, given_order: list[str] | None, members: Records) -> Any:
    """A mask over columns in the order that these have now; words name them anyway."""
    if known is None or isinstance(known, str) or given_order is None or members.encoder is None:
        return known
    mask = to_numpy(known, "known")
    if not mask.ndim or mask.shape[-1] != len(given_order):
        return known  # refused later
    return mask[..., [given_order.index(name) for name in members.encoder.names]]


def _class_order(sets: Mapping[str, Records], target: Any) -> tuple[tuple[str, ...] | None, list[str]]:
    """The names of the classes in the order of the target's outputs; None where labels are its numbers already."""
    labelled = [records for records in sets.values() if records.y is not None]
    named = [records for records in labelled if records.class_names is not None]
    own: tuple[str, ...] | None = getattr(target, "class_names", None)
    if own is not None:
        if not named and getattr(target, "has_given_names", False):
            return None, []  # the user said how the labels number them
        return own, []
    if not named:
        return None, []
    given = {records.class_names for records in named if records.has_class_order}
    if len(given) > 1:
        raise InputError("class_names: all sets must name the same classes in the same order")
    if given:
        return next(iter(given)), []
    found = sorted({name for records in labelled for name in _class_of_each(records)})
    if all(name in ("False", "True") for name in found):
        return ("False", "True"), []
    if all(_is_integer(name) for name in found):
        numbers = sorted(int(name) for name in found)
        if numbers[0] < 0:
            return tuple(map(str, numbers)), [
                f"the classes {', '.join(map(str, numbers))} were taken for the target's outputs in this order"
            ]
        return tuple(map(str, range(numbers[-1] + 1))), []
    raise InputError(
        f"y: the classes have names, {format_value(found)}, and the target does not say which output is whose; give "
        "their order: divulge.Records(x, y, class_names=[…]), or data.classes in a plan"
    )


def _class_of_each(records: Records) -> list[str]:
    """Name of the class of each record."""
    assert records.y is not None
    if records.class_names is None:
        return [str(number) for number in records.y]
    return [records.class_names[number] for number in records.y]


def _is_integer(name: str) -> bool:
    return name.lstrip("-").isdecimal()


def _number_classes(
    records: Records, class_names: Sequence[str], name: str, unknown: UnknownClasses
) -> tuple[Records, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Labels as numbers of ``class_names``, and which records were kept."""
    if records.y is None:
        return records, np.ones(len(records), dtype=bool)
    place = {each: at for at, each in enumerate(class_names)}
    own = _class_of_each(records)
    if set(class_names) == {"False", "True"} and set(own) <= {"0", "1"}:
        own = ["True" if each == "1" else "False" for each in own]
    kept = np.array([each in place for each in own])
    if not kept.any():
        raise InputError(
            f"{name}: y: the target knows none of the classes {format_value(sorted(set(own)))}; it knows "
            f"{format_value(list(class_names))}"
        )
    if not kept.all() and unknown == "error":
        strange = next(each for each in own if each not in place)
        raise InputError(
            f"{name}: y: the target does not know the class {format_value(strange)} (it knows "
            f"{format_value(list(class_names))}); {int((~kept).sum())} records have such a class; leave them out, or "
            "pass unknown_classes='drop'"
        )
    left = records if kept.all() else records[kept]
    return left.with_labels([place[each] for each in own if each in place], tuple(class_names)), kept


def _drop_unknown(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], dict[str, Any]]:
    """Records without those of a class that the target, which numbers its classes, was not fitted on."""
    known = getattr(target, "known_classes", None)
    kept = {
        name: np.ones(len(records), dtype=bool) if known is None or records.y is None else np.isin(records.y, known)
        for name, records in sets.items()
    }
    for name, mask in kept.items():
        if not mask.any():
            raise InputError(f"{name}: y: the target was fitted on none of these classes")
    return {name: records if kept[name].all() else records[kept[name]] for name, records in sets.items()}, kept


def _select_rows(values: Any, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """A value for each candidate, without those of records left out; a single mask stays as it is."""
    if kept.all() or values is None or isinstance(values, str):
        return values
    array = to_numpy(values, "groups, known")
    return array[kept] if array.ndim and len(array) == len(kept) else array


def _select_columns(table: Any, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Columns with a value for each candidate, without those of records left out."""
    if kept.all() or table is None:
        return table
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        names = table if isinstance(table, Mapping) else table.columns
        return {str(name): _select_rows(table[name], kept) for name in names}
    return _select_rows(table, kept)


def _class_numbers(values: Sequence[Any], class_names: tuple[str, ...] | None, argument: str) -> tuple[Any, ...]:
    """Classes by their numbers, where they are given by name."""
    listed = as_list(values, argument)
    if class_names is None or not any(isinstance(value, str) for value in listed):
        return tuple(listed)
    return tuple(
        class_names.index(check_choice(value, argument, class_names)) if isinstance(value, str) else value
        for value in listed
    )
