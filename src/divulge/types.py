"""Records, evidence, estimates and selections: frozen dataclasses that hold arrays and nothing else.

Shapes in this module: ``n`` candidates, ``z`` population records, ``m`` reference models.
Every signal and every score is oriented so that *larger means more like a member*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from divulge import columns
from divulge.columns import TableEncoder
from divulge.errors import InputError
from divulge.validation import (
    as_list,
    check_array,
    check_choice,
    check_class_labels,
    check_ids,
    check_instance,
    check_labels,
    check_mask,
    check_matrix,
    check_nonempty,
    check_records,
    check_row_labels,
    check_vector,
    format_value,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import narwhals as nw


Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
Standing: TypeAlias = Literal["holds", "conditional", "doubtful", "void"]  # from best to worst
STANDINGS: tuple[Standing, ...] = get_args(Standing)
Tone: TypeAlias = Literal["leak", "clear", "undecided", "unproven", "void", "doubt", "plain"]

SEPARATOR = "\x1e"
"""Separates the documents of a person in one record (ASCII's record separator), see `divulge.people`."""

_LONGEST = 100  # characters of a field in a repr


class ShortRepr:
    """Base of a dataclass (``repr=False``) that may hold much: its repr is a line, whatever is in its fields.

    Examples:
        >>> @dataclass(repr=False)
        ... class Scored(ShortRepr):
        ...     scores: Array
        ...     name: str = "loss"
        >>> Scored(np.zeros(500))
        Scored(scores=float64[500], name='loss')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f"{each.name}={_summarise(getattr(self, each.name))}" for each in fields(self) if each.repr]  # ty: ignore[invalid-argument-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def _summarise(value: object) -> str:
    """Return a value's repr if it is short, else its type and size."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    text = repr(value)
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    if isinstance(value, str):
        return f"{text[:_LONGEST]}…"
    if isinstance(value, dict | list | tuple):
        return f"{type(value).__name__} of {len(value):,}"
    return f"{type(value).__name__}(…)"


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """``n`` records, with labels and identifiers where the auditor has them.

    A data frame keeps its column names, types, categories and missing values: the target is given a frame again
    (`divulge.targets.SklearnTarget`), and what needs numbers reads ``x``, their numeric encoding
    (`divulge.columns.TableEncoder`).

    Args:
        x: array ``[n, ...]`` of numbers (rows, images) or of strings (documents), or a data frame of pandas, polars or
            PyArrow with numbers, booleans, categories, texts, dates and missing values.
        y: class labels or real values ``[n]``, or None. Booleans and texts are names of classes, numbers that are not
            all whole are real values. Whole numbers ≥ 0 may be either, and stay as they are. Where the lowest is -1
            they are names of classes, as in tables with -1 and 1; where it is lower they are real values. An audit
            reads them as its target needs them: `with_real_values` and `with_class_labels` lose nothing.
        ids: one unique identifier per record, or None.
        class_names: all classes where ``y`` holds names, in the order of the target's outputs; None where the target
            knows its classes by these names itself.

    Attributes:
        x: numbers ``[n, ...]`` or strings ``[n]``.
        y: class labels, int64 ``[n]``; real values, float64 ``[n]``; or None.
        table: the data frame, as a `narwhals.DataFrame`, or None.
        encoder: what made ``x`` from it, or None.
        class_names: what the numbers in ``y`` stand for, or None.
        has_class_order: whether the order of ``class_names`` was given, and not merely sorted.
        features: what else is known of each record and what attacks may learn from, float64 ``[n, d]``, or None; no
            model is given it (`with_features`).
        feature_names: names of its columns, or None.

    Raises:
        divulge.InputError: empty ``x``, NaN or infinity in an array, infinity or nested values in a frame, labels that
            are missing or no classes, lengths that differ, repeated ids, columns of pandas whose rows have other labels
            (they are joined by position, which is right where the labels are equal or merely count from 0).

    Examples:
        >>> Records([[0.0, 1.0], [2.0, 3.0]], [0, 1])
        Records(n=2, shape=(2,), classes=2)
        >>> import polars as pl
        >>> Records(pl.DataFrame({"age": [48, 31], "sex": ["f", "m"]}), ["ill", "well"])
        Records(n=2, columns=('age', 'sex'), classes=2)
    """

    x: Array
    y: Array | None = None
    ids: Array | None = None
    table: nw.DataFrame[Any] | None = None
    encoder: TableEncoder | None = None
    class_names: tuple[str, ...] | None = None
    has_class_order: bool = False
    features: Floats | None = None
    feature_names: tuple[str, ...] | None = None

    def __init__(
        self, x: object, y: object = None, ids: object = None, *, class_names: Sequence[str] | None = None
    ) -> None:
        check_row_labels({"x": x, "y": y, "ids": ids})
        table = columns.read_frame(x, "x") if columns.is_frame(x) else None
        if table is None:
            columns.check_numbered_columns(x, "x")
        encoder = None if table is None else TableEncoder.fit([table])
        data = check_records(x, "x") if table is None or encoder is None else encoder.encode(table)
        n = len(data)
        numbers: Array | None = None
        names = None
        _reject_other_outcomes(y)
        y = _without_decimals(y)
        if y is not None and class_names is None and _holds_real_values(y):
            numbers = check_vector(y, "y", length=n)
        elif y is not None:
            numbers, names = check_class_labels(y, "y", length=n, names=class_names)
        self._put(
            x=data,
            y=numbers,
            ids=None if ids is None else check_ids(ids, "ids", n),
            table=table,
            encoder=encoder,
            class_names=names,
            has_class_order=class_names is not None,
            features=None,
            feature_names=None,
        )

    def _put(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _with(self, **values: Any) -> Records:
        """Return a copy with some fields replaced."""
        changed = object.__new__(Records)
        changed._put(**{each.name: getattr(self, each.name) for each in fields(Records)} | values)
        return changed

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Array | slice) -> Records:
        """Return the records at ``index`` (a mask, positions or a slice), in that order."""
        if not isinstance(index, slice) and np.ndim(index) == 0:  # NumPy asks for rows one by one, and loops do
            raise InputError(
                f"records[{format_value(index)}]: a mask, positions or a slice is needed; the values of all records "
                "are records.x"
            )
        x = check_nonempty(self.x[index], "x")
        return self._with(
            x=x,
            y=None if self.y is None else self.y[index],
            ids=None if self.ids is None else self.ids[index],
            table=None if self.table is None else self.table[np.arange(len(self))[index].tolist()],
            features=None if self.features is None else self.features[index],
        )

    def copy(self) -> Records:
        """Return the same records in arrays of their own, for code that may write into them; without features."""
        arrays = {name: getattr(self, name) for name in ("x", "y", "ids")}
        copies = {name: None if array is None else array.copy() for name, array in arrays.items()}
        table = None if self.table is None else self.table.clone()
        return self._with(**copies, table=table, features=None, feature_names=None)

    def with_values(self, x: Array, template: Records | None = None) -> Records:
        """Return the same records with other values: ``x`` of the same shape, and the frame that it stands for.

        Args:
            x: the values ``[n, ...]``.
            template: what has no numbers of its own (rare categories, free text) is taken from its first record, so
                that nothing of these records' own values is read; None to leave it as it is.
        """
        values = check_records(x, "x")
        if self.table is None or self.encoder is None:
            return self._with(x=values)
        table = self.table if template is None or template.table is None else template.table[[0] * len(values)]
        return self._with(x=values, table=self.encoder.decode(values.reshape(len(values), -1), table))

    def with_columns_of(self, names: Sequence[int | str], donor: Records, row: int) -> Records:
        """Return the same records with the values of one row of others in some columns.

        Args:
            names: names of a table's columns, or positions in a row of numbers.
            donor: records with the same columns.
            row: of the donor.
        """
        if self.table is None or self.encoder is None or donor.table is None:
            x = self.x.copy()
            x[:, list(map(int, names))] = donor.x[row, list(map(int, names))]
            return self._with(x=x)
        values = donor.table[[row] * len(self)]
        table = self.table.with_columns(*(values[str(name)] for name in names))
        return self._with(x=self.encoder.encode(table), table=table)

    @property
    def labels(self) -> Ints | None:
        """Class labels ``[n]``; None where there are none, or where ``y`` holds real values."""
        return None if self.y is None or self.y.dtype.kind == "f" else self.y

    def with_labels(self, y: object, class_names: tuple[str, ...] | None = None) -> Records:
        """Return the same records with other labels, whole numbers ``[n]``."""
        return self._with(y=check_labels(y, "y", length=len(self)), class_names=class_names)

    def with_y_of(self, source: Records) -> Records:
        """Return the same records with ``y`` of others, one for one: classes with their names, real values, or none."""
        return self._with(y=source.y, class_names=source.class_names, has_class_order=source.has_class_order)

    def with_real_values(self) -> Records:
        """Return the same records with ``y`` as float64; names of classes are read as the numbers that they spell.

        That is what a model of whole numbers from -1 on is trained on: their ``y`` is taken for classes.

        Raises:
            divulge.InputError: names that are no numbers.

        Examples:
            >>> Records([[0.0], [1.0]], [-2.0, 3.0]).with_real_values().y
            array([-2.,  3.])
        """
        if self.y is None:
            return self
        if self.class_names is None:
            return self._with(y=self.y.astype(np.float64))
        try:
            values = np.array([float(name) for name in self.class_names])
        except ValueError:
            raise InputError(
                f"y: real values are needed, and these are names: {format_value(list(self.class_names))}"
            ) from None
        return self._with(y=values[self.y], class_names=None, has_class_order=False)

    def with_class_labels(self) -> Records:
        """Return the same records with ``y`` as classes, where it holds whole numbers; else as they are.

        Examples:
            >>> likert = Records([[0.0], [1.0], [2.0]], [-2, 2, 0])
            >>> likert.y, likert.with_class_labels().class_names
            (array([-2.,  2.,  0.]), ('-2', '0', '2'))
        """
        if self.y is None or self.labels is not None or (self.y % 1 != 0).any():
            return self
        labels, names = check_class_labels(self.y, "y", length=len(self))
        return self._with(y=labels, class_names=names)

    def with_ids(self, ids: object) -> Records:
        """Return the same records under other identifiers."""
        return self._with(ids=check_ids(ids, "ids", len(self)))

    def without_columns(self, names: Sequence[str]) -> Records:
        """Return the same records without these columns of their frame, encoded anew; at least one must remain."""
        if self.table is None:
            return self
        table = self.table.select([name for name in self.table.columns if name not in names])
        encoder = TableEncoder.fit([table])
        return self._with(x=encoder.encode(table), table=table, encoder=encoder)

    def without_ids(self) -> Records:
        """Return the same records without identifiers."""
        return self._with(ids=None)

    def with_features(self, features: object, names: Sequence[str] | None = None) -> Records:
        """Return the same records with what else is known of each: attacks may learn from it, models are not given it.

        Args:
            features: numbers ``[n, d]`` or ``[n]``, a data frame of numbers, or None for none.
            names: of the columns of an array.

        Raises:
            divulge.InputError: other shapes, NaN or infinity, columns that hold no numbers.

        Examples:
            >>> Records(["a word", "another"]).with_features([[0.5, 1.0], [2.0, 0.0]]).features.shape
            (2, 2)
        """
        if features is None:
            return self._with(features=None, feature_names=None)
        check_row_labels({"x": None if self.table is None else self.table.to_native(), "features": features})
        values, columns_of_frame = check_features(features, "features", len(self))
        return self._with(features=values, feature_names=columns_of_frame or (None if names is None else tuple(names)))

    def with_table(self, table: nw.DataFrame[Any]) -> Records:
        """Return the same records with the values of another frame of the same columns, encoded as these are."""
        return self._with(table=table).with_encoder(self.encoder) if self.encoder is not None else self

    def with_encoder(self, encoder: TableEncoder) -> Records:
        """Return the same records with ``x`` encoded by ``encoder``, whose columns the frame then has, in its order."""
        if self.table is None:
            return self
        table = encoder.type_missing(columns.match_columns(self.table, encoder.names, "records"))
        return self._with(x=encoder.encode(table), table=table, encoder=encoder)

    @staticmethod
    def concatenate(parts: Sequence[Records]) -> Records:
        """Return all records in one, in order; labels, ids and frames are kept where every part has them."""
        if any(part.y is not None and part.labels is None for part in parts):
            parts = [part.with_real_values() for part in parts]

        def join(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if any(array is None for array in arrays) else np.concatenate(arrays)

        first_part = parts[0]
        table, encoder = None, None
        tables = [part.table for part in parts if part.table is not None]
        if len(tables) == len(parts):
            table, encoder = columns.concatenate(tables), first_part.encoder
        if table is None or all(part.encoder is encoder for part in parts):
            x = join("x")
        else:
            encoder = TableEncoder.fit([table])
            x = encoder.encode(table)
        ids, features = join("ids"), join("features")
        return first_part._with(
            x=x,
            y=join("y"),
            ids=None if ids is None else check_ids(ids, "ids", len(ids)),
            table=table,
            encoder=encoder,
            features=features,
            feature_names=None if features is None else first_part.feature_names,
        )

    def digests(self) -> list[bytes]:
        """Return a digest of each record's values: equal where two records are, whatever the order of their columns."""
        return columns.row_digests(self.table) if self.table is not None else list(columns.digest_records(self.x))

    def __repr__(self) -> str:
        classes = "unlabelled" if self.y is None else f"classes={len(np.unique(self.y))}"
        if self.y is not None and self.labels is None:
            classes = f"y={self.y.min():.4g}..{self.y.max():.4g}"
        shape = f"shape={self.x.shape[1:]}" if self.table is None else f"columns={tuple(self.table.columns)}"
        return f"Records(n={len(self)}, {shape}, {classes})"


def _reject_other_outcomes(y: object) -> None:
    """Raise, and say what can be audited, where ``y`` is no one outcome of each record."""
    values = None if y is None else to_numpy(y, "y")
    if values is None or (values.dtype.names is None and (values.ndim < 2 or not values.size)):
        return
    if values.dtype.names is not None:
        raise InputError(
            f"y: one class or real value of each record is needed, got the fields {', '.join(values.dtype.names)}; of "
            "survival data, leave out the records without an event and pass the times of the others as y: y['time']"
        )
    if values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "biuf":
        is_one_hot = bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())
        way = (
            "each row holds a single one: pass y.argmax(axis=1)"
            if is_one_hot
            else "audit one label at a time: y[:, 0], with a target that answers for this label alone, such as lambda "
            "x: model.predict_proba(x)[:, 0] with outputs='probabilities' (forests give a list: take its [0])"
        )
        raise InputError(f"y: one class or real value of each record is needed, got shape {values.shape}; {way}")


def _without_decimals(y: object) -> object:
    """Return ``y`` as floats where it holds decimals, as columns of amounts do."""
    values = None if y is None else to_numpy(y, "y")
    if values is None or values.dtype != object or not any(isinstance(label, Decimal) for label in values.ravel()):
        return y
    return np.array([float(label) if isinstance(label, Decimal) else label for label in values.ravel().tolist()])


def check_features(value: object, name: str, length: int) -> tuple[Floats, tuple[str, ...] | None]:
    """Return features as float64 ``[n, d]``, and the names of their columns where they are a data frame.

    Raises:
        divulge.InputError: other shapes, no column, NaN or infinity, columns that hold no numbers.

    Examples:
        >>> check_features([1.0, 2.0], "features", 2)
        (array([[1.],
               [2.]]), None)
    """
    names = None
    if columns.is_frame(value):
        frame = columns.read_frame(value, name)
        read = [columns.read_column(frame, each) for each in frame.columns]
        for column in read:
            if column.measure not in ("number", "boolean") or column.missing.any():
                fault = "holds missing values" if column.missing.any() else f"holds no numbers ({column.measure})"
                raise InputError(f"{name}: column {column.name!r} {fault}; features are numbers")
        names = tuple(column.name for column in read)
        value = np.column_stack([column.values for column in read])
    array = check_array(value, name).astype(np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != length or not array.shape[1]:
        raise InputError(f"{name}: an array [{length}, d] with d ≥ 1 is needed, one row per record, got {array.shape}")
    return array, names


_LOWEST_CLASS = -1  # of whole numbers that are classes; -1 is the other class, or none, in many tables

_WHOLE_FLOATS = 2.0**53  # from here on every float is a whole number, and neighbouring classes would be one


def _holds_real_values(y: object) -> bool:
    """Tell real values from class labels, which pandas may have made floats of."""
    values = to_numpy(y, "y")
    if values.dtype.kind not in "iuf" or not values.size or not np.isfinite(values).all():
        return False
    is_large = values.dtype.kind == "f" and bool(np.abs(values).max() >= _WHOLE_FLOATS)
    return is_large or bool((values % 1 != 0).any() or values.min() < _LOWEST_CLASS)


@dataclass(frozen=True, eq=False, kw_only=True)
class AuditData:
    """Data of an audit, as the user passes it; see `divulge.audit`."""

    members: Records
    nonmembers: Records
    population: Records | None = None
    unseen_classes: Sequence[int | str] = ()
    groups: Any = None
    known: Any = None
    covariates: Any = None
    features: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class PartialRecords:
    """Partly known records; unknown values are overwritten and never read.

    Args:
        x: float array ``[n, ...]``; what stands where ``known`` is False is ignored (NaN is welcome there).
        y: integer labels ``[n]``, or None.
        known: bool, the shape of ``x`` or broadcastable to it; True where the value is known.

    Raises:
        divulge.InputError: a mask that does not fit, a record of which nothing is known, NaN in a known value.

    Examples:
        >>> import numpy as np
        >>> PartialRecords(np.array([[1.0, np.nan]]), [0], np.array([True, False])).x
        array([[1., 0.]])
    """

    x: Array
    y: Ints | None
    known: Bools

    def __init__(self, x: object, y: object, known: object) -> None:
        data = check_array(x, "x", finite=False)
        mask = check_mask(known, "known", data.shape)
        data = check_records(np.where(mask, data, 0.0), "x")
        empty = np.flatnonzero(~mask.reshape(len(mask), -1).any(axis=1))
        if empty.size:
            raise InputError(
                f"known: {empty.size} records have no known value at all (first: record {empty[0]}); "
                "at least one value of every record must be known"
            )
        if y is not None and np.asarray(y).dtype.kind == "f":
            raise InputError(
                "y: real values, and partly known records are completed for classifiers alone, whose classes are whole "
                "numbers; audit a regression model with whole records"
            )
        object.__setattr__(self, "x", data)
        object.__setattr__(self, "y", None if y is None else check_labels(y, "y", length=len(data)))
        object.__setattr__(self, "known", mask)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class TokenLogs:
    """Log-probabilities of the tokens of ``n`` documents, one document after the other, under a target and others.

    Args:
        offsets: document ``i`` has the tokens ``offsets[i]:offsets[i + 1]``, at least one, ``[n + 1]``.
        target: log-probability of each token under the target, ``[t]``.
        references: the same under each of ``m`` reference models, ``[m, t]``.
        wrong: bool ``[t]``, True where the target's likeliest token is another one; None if that is not known.

    Raises:
        divulge.InputError: offsets that do not start at 0, an empty document, numbers of tokens that differ, NaN,
            infinity, or a log-probability above 0.

    Examples:
        >>> logs = TokenLogs([0, 2, 3], [-1.0, -2.0, -3.0])
        >>> logs.lengths, logs.documents(slice(1, 2)).target
        (array([2, 1]), array([-3.]))
    """

    offsets: NDArray[np.int64]
    target: Floats
    references: Floats | None = None
    wrong: Bools | None = None

    def __init__(self, offsets: object, target: object, references: object = None, wrong: object = None) -> None:
        checked_offsets = check_labels(offsets, "offsets")
        if checked_offsets[0] != 0 or (np.diff(checked_offsets) < 1).any():
            raise InputError("offsets: numbers that start at 0 and rise are needed (no document is empty)")
        n_tokens = int(checked_offsets[-1])
        object.__setattr__(self, "offsets", checked_offsets)
        checked_target = check_vector(target, "target", length=n_tokens)
        object.__setattr__(self, "target", _check_nonpositive(checked_target, "target"))
        if references is not None:
            references = _check_nonpositive(check_matrix(references, "references", columns=n_tokens), "references")
        object.__setattr__(self, "references", references)
        object.__setattr__(self, "wrong", None if wrong is None else check_mask(wrong, "wrong", (n_tokens,)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each document, ``[n]``."""
        return np.diff(self.offsets)

    @property
    def document(self) -> NDArray[np.int64]:
        """Number of the document of each token, ``[t]``."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def documents(self, rows: slice) -> TokenLogs:
        """Return the documents in ``rows``, a slice without a step."""
        start, stop, _ = rows.indices(len(self))
        begin, end = int(self.offsets[start]), int(self.offsets[stop])
        references = None if self.references is None else self.references[:, begin:end]
        wrong = None if self.wrong is None else self.wrong[begin:end].copy()
        return TokenLogs(self.offsets[start : stop + 1] - begin, self.target[begin:end].copy(), references, wrong)

    def mean(self, values: Floats) -> Floats:
        """Return the mean of ``values`` ``[t]`` over the tokens of each document, ``[n]``."""
        return np.add.reduceat(values, self.offsets[:-1]) / self.lengths


def _check_nonpositive(values: Floats, name: str) -> Floats:
    if values.size and (highest := float(values.max())) > 1e-3:  # A softmax in float32 may slightly exceed 0.
        raise InputError(f"{name}: log-probabilities, at most 0, are needed, got {highest:g}")
    return values


def check_token_logs(value: object, name: str, documents: int | None) -> TokenLogs | None:
    """Return ``value`` if it holds the token log-probabilities of so many documents, or is None.

    Raises:
        divulge.InputError: something else, or another number of documents.

    Examples:
        >>> check_token_logs(None, "tokens", 3) is None
        True
    """
    if value is None:
        return None
    logs = check_instance(value, name, TokenLogs, "a divulge.types.TokenLogs")
    if len(logs) != documents:
        raise InputError(f"{name}: {documents} documents are needed, got {len(logs)}")
    return logs


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Input of an attack: signals of the target and of reference models, as plain arrays.

    Args:
        target: signal of each candidate under the target, ``[n]``.
        references: the same under each of ``m`` reference models, ``[m, n]``.
        trained_on: bool ``[m, n]``, True where reference model ``i`` was trained on candidate ``j``.
        population: signal of records known not to be members, under the target, ``[z]``.
        population_references: the same under the reference models, ``[m, z]``.
        features: what a quantile regressor may condition on, ``[n, d]``.
        population_features: the same for the population, ``[z, d]``.
        labels: class of each candidate, ``[n]``.
        population_labels: class of each population record, ``[z]``.
        population_trained_on: bool ``[m, z]``, True where reference ``i`` was trained on population record ``j``.
        tokens: log-probabilities of each token of each candidate, where the records are documents.
        population_tokens: the same for the population.
        queries: the same of further versions of all these records (flipped, say) or of further signals, each by itself.

    Raises:
        divulge.InputError: an array that is empty, has NaN or infinity, or does not fit the others.

    Examples:
        >>> Evidence(target=[0.1, 0.9], population=[0.2, 0.3, 0.4])
        Evidence(n=2, m=0, z=3)
    """

    target: Floats
    references: Floats | None = None
    trained_on: Bools | None = None
    population: Floats | None = None
    population_references: Floats | None = None
    features: Array | None = None
    population_features: Array | None = None
    labels: Ints | None = None
    population_labels: Ints | None = None
    population_trained_on: Bools | None = None
    tokens: TokenLogs | None = None
    population_tokens: TokenLogs | None = None
    queries: tuple[Evidence, ...] | None = None

    def __init__(
        self,
        target: object,
        references: object = None,
        trained_on: object = None,
        population: object = None,
        population_references: object = None,
        features: object = None,
        population_features: object = None,
        labels: object = None,
        population_labels: object = None,
        population_trained_on: object = None,
        tokens: object = None,
        population_tokens: object = None,
        queries: object = None,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        signal = check_vector(target, "target")
        n = len(signal)
        put("target", signal)
        put(
            "references",
            refs := None if references is None else check_matrix(references, "references", columns=n),
        )
        m = None if refs is None else len(refs)
        put("trained_on", _mask(trained_on, "trained_on", m, n))
        put("population", pop := None if population is None else check_vector(population, "population"))
        z = None if pop is None else len(pop)
        put("population_references", _rows(population_references, "population_references", m, z))
        put("population_trained_on", _mask(population_trained_on, "population_trained_on", m, z))
        put("features", _features(features, "features", n))
        put("population_features", _features(population_features, "population_features", z))
        for name, classes, length in (("labels", labels, n), ("population_labels", population_labels, z)):
            put(name, None if classes is None else check_labels(classes, name, length=length))
        put("tokens", check_token_logs(tokens, "tokens", n))
        put("population_tokens", check_token_logs(population_tokens, "population_tokens", z))
        put("queries", None if queries is None else _versions(queries, self))

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        m = 0 if self.references is None else len(self.references)
        z = 0 if self.population is None else len(self.population)
        return f"Evidence(n={len(self)}, m={m}, z={z})"


def _versions(value: object, evidence: Evidence) -> tuple[Evidence, ...]:
    for version in (listed := as_list(value, "queries")):
        check_instance(version, "queries", Evidence, "a divulge.Evidence")
        if repr(version) != repr(evidence) or version.queries is not None:
            raise InputError(f"queries: {evidence!r} without queries of its own is needed, got {version!r}")
    return tuple(listed)


def _rows(value: object, name: str, rows: int | None, columns: int | None) -> Floats | None:
    if value is None:
        return None
    matrix = check_matrix(value, name, columns=columns)
    if rows is not None and len(matrix) != rows:
        raise InputError(f"{name}: {len(matrix)} rows, but references has {rows} reference models")
    return matrix


def _mask(value: object, name: str, rows: int | None, columns: int | None) -> Bools | None:
    return None if value is None else check_mask(value, name, (rows, columns))


def _features(value: object, name: str, length: int | None) -> Array | None:
    if value is None:
        return None
    features = check_records(value, name)
    if length is not None and len(features) != length:
        raise InputError(f"{name}: {len(features)} rows, but {length} are needed (one per record)")
    return features.reshape(len(features), -1) if features.ndim == 1 else features


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Claim of a decision: its kind, level and assumptions.

    Args:
        kind: "marginal FPR", "training-conditional FPR", "FDR", …
        level: the bound that is claimed (0.05: at most five per cent).
        assumes: one sentence per assumption; the report prints them next to the claim.
        standing: "holds" where there is no evidence against the assumptions; "conditional" where one of them is a
            number that somebody typed in, which nothing here confirms; "doubtful" where something was seen
            that would break the claim under one reading and not under another; "void" where an assumption
            is known, or was shown, to fail: then nothing is claimed.

    Raises:
        divulge.InputError: another standing.

    Examples:
        >>> claim = Guarantee("FDR", 0.05, ("non-member candidates are exchangeable with the calibration records",))
        >>> print(claim)
        FDR ≤ 0.05, assuming non-member candidates are exchangeable with the calibration records
        >>> print(claim.capped_at("doubtful"))
        DOUBTFUL: FDR ≤ 0.05, only if non-member candidates are exchangeable with the calibration records
        >>> claim.capped_at("void").holds
        False
        >>> print(Guarantee("FDR", 1.0, ()))
        nothing is proven about the FDR
    """

    kind: str
    level: float
    assumes: tuple[str, ...]
    standing: Standing = "holds"

    def __post_init__(self) -> None:
        check_choice(self.standing, "standing", STANDINGS)

    @property
    def holds(self) -> bool:
        """False only when void: a conditional or doubtful claim may hold."""
        return self.standing != "void"

    @property
    def says(self) -> bool:
        """Whether anything is claimed: not void, and a bound below 1."""
        return self.holds and self.level < 1.0

    def capped_at(self, standing: Standing) -> Guarantee:
        """Return the same claim, standing no better than ``standing``."""
        return replace(self, standing=max(self.standing, standing, key=STANDINGS.index))

    def __str__(self) -> str:
        if self.level >= 1.0:
            return f"nothing is proven about the {self.kind}"
        claim, rests = f"{self.kind} ≤ {self.level:g}", " and ".join(self.assumes)
        if self.standing == "void":
            return f"VOID: {claim} (an assumption fails: {rests})" if rests else f"VOID: {claim}"
        if self.standing in ("conditional", "doubtful"):
            return f"{self.standing.upper()}: {claim}" + (f", only if {rests}" if rests else "")
        return f"{claim}, assuming {rests}" if rests else claim


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty; the only form in which a number leaves the evaluation.

    Args:
        value: the point estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        confidence: coverage of the interval, 0.95 for 95 %.
        method: how the interval was made ("clopper-pearson", "delong", …).

    Examples:
        >>> print(Estimate(0.5, 0.4, 0.6, 0.95, "delong"))
        0.5000 [0.4000, 0.6000]
    """

    value: float
    low: float
    high: float
    confidence: float
    method: str

    def __str__(self) -> str:
        return f"{self.value:z.4f} [{self.low:z.4f}, {self.high:z.4f}]"

    def __repr__(self) -> str:
        return f"Estimate({self}, {100 * self.confidence:.6g} %, {self.method})"


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A yes/no for each candidate, and what is guaranteed of the set.

    Args:
        selected: bool ``[n]``.
        p_values: ``[n]``, conformal p-values against known non-members.
        threshold: smallest score that is selected; infinity when none is.
        usage: estimated share of members among the candidates, with interval.
        guarantee: what is claimed about the selected set.
        warnings: what the user must know before relying on it.
    """

    selected: Bools
    p_values: Floats
    threshold: float
    usage: Estimate | None
    guarantee: Guarantee
    warnings: Sequence[str] = field(default_factory=tuple)

    @property
    def count(self) -> int:
        """Number of selected candidates."""
        return int(self.selected.sum())

    def __repr__(self) -> str:
        return f"Selection({self.count} of {len(self.selected)} selected; {self.guarantee})"
