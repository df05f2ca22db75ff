"""Alignment of columns and class labels with the target's own order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import columns
from divulge.columns import TableEncoder
from divulge.errors import InputError
from divulge.targets import FramedTarget
from divulge.types import AuditData, Records
from divulge.validation import as_list, check_choice, format_value, to_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.settings import UnknownClasses

_SETS = ("members", "nonmembers", "population")


@dataclass(frozen=True, slots=True, eq=False)
class AlignedData:
    """Audit data in the target's order of columns and classes.

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
    known_mask = _reorder_mask(subject.known, given_order, sets["members"])
    class_names, class_notes = _class_order(sets, target)
    kept_rows = {name: np.ones(len(records), dtype=bool) for name, records in sets.items()}
    if class_names is not None:
        for name, records in sets.items():
            sets[name], kept_rows[name] = _number_classes(records, class_names, name, unknown_classes)
    elif unknown_classes == "drop":
        sets, kept_rows = _drop_unknown(sets, target)
    dropped = {name: int((~mask).sum()) for name, mask in kept_rows.items()}
    notes = [*column_notes, *class_notes]
    if any(dropped.values()):
        listed = ", ".join(f"{count:,} of the {name}" for name, count in dropped.items() if count)
        notes.append(f"records of classes that the target does not know were left out: {listed}")
    candidates = np.concatenate([kept_rows["members"], kept_rows["nonmembers"]])
    subject = replace(
        subject,
        **sets,
        groups=_select_rows(subject.groups, candidates),
        known=_select_rows(known_mask, candidates),
        covariates=_select_columns(subject.covariates, candidates),
        unseen_classes=_class_numbers(subject.unseen_classes, class_names, "unseen_classes"),
    )
    framed_target = target if sets["members"].table is None else FramedTarget(target, sets["population"][:1])
    return AlignedData(subject, framed_target, class_names, tuple(notes))


def _align_columns(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], list[str]]:
    """Order the columns of all sets as the target was fitted, and encode them together."""
    fitted_names = _fitted_names(target, sets["members"])
    with_columns = [name for name, records in sets.items() if records.table is not None]
    if not with_columns:
        width = sets["members"].x[0].size if sets["members"].x.dtype != object else 0
        if fitted_names and width == len(fitted_names):
            listed = columns.format_names(fitted_names)
            return dict(sets), [
                f"the records have no column names; their values were taken in the order of the target's: {listed}"
            ]
        return dict(sets), []
    if len(with_columns) < len(sets):
        without_columns = [name for name in sets if name not in with_columns]
        raise InputError(
            f"{', '.join(without_columns)}: {', '.join(with_columns)} have named columns, so all sets must; pass data "
            "frames throughout"
        )
    tables = {name: records.table for name, records in sets.items() if records.table is not None}
    order = fitted_names or tuple(tables["members"].columns)
    for name, table in tables.items():
        columns.match_columns(table, order, name, of_model=bool(fitted_names))
    joined = columns.concatenate([table.select(*order) for table in tables.values()])
    encoder = TableEncoder.fit([joined])
    if not encoder.is_plain and not getattr(target, "takes_frames", False):
        unreadable = [column.name for column in encoder.columns if column.measure not in ("number", "boolean")]
        unreadable += [column.name for column in encoder.columns if column.has_missing]
        raise InputError(
            f"target: {type(target).__name__} takes numbers, and the columns {columns.format_names(unreadable)} hold "
            "texts, categories, dates or missing values; pass the model with its encoder, as a pipeline or as a "
            "function of a data frame"
        )
    notes = []
    if not fitted_names:
        listed = columns.format_names(order)
        notes.append(
            f"the target does not say by which columns it was fitted; it was given them in the order of the members': "
            f"{listed}"
        )
    return {name: records.with_encoder(encoder) for name, records in sets.items()}, notes


def _fitted_names(target: Any, members: Records) -> tuple[str, ...]:
    """Return the columns that the target was fitted on; likely ones only if they match the records."""
    if (names := tuple(getattr(target, "feature_names", ()))) or members.table is None:
        return names
    return columns.find_names(getattr(target, "likely_names", ()), members.table.columns)


def _reorder_mask(known: Any, given_order: list[str] | None, members: Records) -> Any:
    """Reorder a mask over columns to the new column order; masks given in words name their columns."""
    if known is None or isinstance(known, str) or given_order is None or members.encoder is None:
        return known
    mask = to_numpy(known, "known")
    if not mask.ndim or mask.shape[-1] != len(given_order):
        return known  # refused later
    return mask[..., [given_order.index(name) for name in members.encoder.names]]


def _class_order(sets: Mapping[str, Records], target: Any) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the class names in the order of the target's outputs; None if labels are already numbers."""
    labelled = [records for records in sets.values() if records.labels is not None]
    with_names = [records for records in labelled if records.class_names is not None]
    target_names: tuple[str, ...] | None = getattr(target, "class_names", None)
    if target_names is not None:
        if not with_names and getattr(target, "has_given_names", False):
            return None, []  # the user said how the labels number them
        return target_names, []
    if not with_names:
        return None, []
    given_orders = {records.class_names for records in with_names if records.has_class_order}
    if len(given_orders) > 1:
        raise InputError("class_names: all sets must name the same classes in the same order")
    if given_orders:
        return next(iter(given_orders)), []
    class_names = sorted({name for records in labelled for name in _class_of_each(records)})
    if all(name in ("False", "True") for name in class_names):
        return ("False", "True"), []
    if all(_is_integer(name) for name in class_names):
        numbers = sorted(int(name) for name in class_names)
        if numbers[0] < 0:
            return tuple(map(str, numbers)), [
                f"the classes {', '.join(map(str, numbers))} were taken for the target's outputs in this order"
            ]
        return tuple(map(str, range(numbers[-1] + 1))), []
    raise InputError(
        f"y: the classes have names, {format_value(class_names)}, and the target does not say which output is whose; "
        "give their order: divulge.Records(x, y, class_names=[…]), or data.classes in a plan"
    )


def _class_of_each(records: Records) -> list[str]:
    """Return the class name of each record."""
    assert records.y is not None
    if records.class_names is None:
        return [str(number) for number in records.y]
    return [records.class_names[number] for number in records.y]


def _is_integer(name: str) -> bool:
    return name.lstrip("-").isdecimal()


def _number_classes(
    records: Records, class_names: Sequence[str], set_name: str, unknown_classes: UnknownClasses
) -> tuple[Records, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Encode labels as positions in ``class_names``; also return the mask of kept records."""
    if records.y is None:
        return records, np.ones(len(records), dtype=bool)
    number_of = {class_name: number for number, class_name in enumerate(class_names)}
    names_of_records = _class_of_each(records)
    if set(class_names) == {"False", "True"} and set(names_of_records) <= {"0", "1"}:
        names_of_records = ["True" if class_name == "1" else "False" for class_name in names_of_records]
    is_known = np.array([class_name in number_of for class_name in names_of_records])
    if not is_known.any():
        raise InputError(
            f"{set_name}: y: the target knows none of the classes {format_value(sorted(set(names_of_records)))}; it "
            f"knows {format_value(list(class_names))}"
        )
    if not is_known.all() and unknown_classes == "error":
        unknown_name = next(class_name for class_name in names_of_records if class_name not in number_of)
        raise InputError(
            f"{set_name}: y: the target does not know the class {format_value(unknown_name)} (it knows "
            f"{format_value(list(class_names))}); {int((~is_known).sum())} records have such a class; leave them out, "
            "or pass unknown_classes='drop'"
        )
    kept_records = records if is_known.all() else records[is_known]
    return kept_records.with_labels(
        [number_of[class_name] for class_name in names_of_records if class_name in number_of], tuple(class_names)
    ), is_known


def _drop_unknown(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], dict[str, Any]]:
    """Drop records of classes that the target, which numbers its classes, was not fitted on."""
    known_classes = getattr(target, "known_classes", None)
    kept_rows = {
        name: np.ones(len(records), dtype=bool)
        if known_classes is None or records.y is None
        else np.isin(records.y, known_classes)
        for name, records in sets.items()
    }
    for name, mask in kept_rows.items():
        if not mask.any():
            raise InputError(f"{name}: y: the target was fitted on none of these classes")
    return {
        name: records if kept_rows[name].all() else records[kept_rows[name]] for name, records in sets.items()
    }, kept_rows


def _select_rows(values: Any, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Select the kept candidates from per-candidate values; a single mask is returned unchanged."""
    if rows.all() or values is None or isinstance(values, str):
        return values
    array = to_numpy(values, "groups, known")
    return array[rows] if array.ndim and len(array) == len(rows) else array


def _select_columns(table: Any, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Select the kept candidates from every column of a table."""
    if rows.all() or table is None:
        return table
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        names = table if isinstance(table, Mapping) else table.columns
        return {str(name): _select_rows(table[name], rows) for name in names}
    return _select_rows(table, rows)


def _class_numbers(values: Sequence[Any], class_names: tuple[str, ...] | None, argument: str) -> tuple[Any, ...]:
    """Convert class names to class numbers."""
    listed = as_list(values, argument)
    if class_names is None or not any(isinstance(value, str) for value in listed):
        return tuple(listed)
    return tuple(
        class_names.index(check_choice(value, argument, class_names)) if isinstance(value, str) else value
        for value in listed
    )
