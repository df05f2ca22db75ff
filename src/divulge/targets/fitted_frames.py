"""Data frames as fitted estimators know them: their columns, types, categories, missing values and library.

An estimator that was fitted on a data frame answers rightly about frames of the same kind alone. A date is a text in
one file and a date in another, a missing text is NaN to pandas and None to polars, and to an encoder each is a
different category, which it may pass over in silence. What an estimator was fitted on shows in its parts; records are
brought back to it here.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from divulge import columns, errors, lazy
from divulge.columns import find_names, frame_of_array, has_pandas, match_columns, to_library
from divulge.errors import InputError
from divulge.validation import format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import pandas as pd

    from divulge.types import Records
else:
    pd = lazy.module("pandas")


def estimator_inputs(
    estimator: Any, records: Records, frames: Literal["auto", "own", "pandas", "polars"] = "auto"
) -> Any:
    """Return records as an estimator takes them: a frame with the columns it was fitted on, or an array.

    Args:
        estimator: fitted, or not yet: then a frame of plain numbers becomes an array.
        records: the records.
        frames: the library of the frames, as in `SklearnTarget`.

    Examples:
        >>> import divulge as dv
        >>> from sklearn.naive_bayes import GaussianNB
        >>> estimator_inputs(GaussianNB(), dv.Records([[1.0, 2.0]]))
        array([[1., 2.]])
    """
    names = fitted_columns(estimator)
    if records.table is not None and records.encoder is not None:
        if names := names or find_names(likely_columns(estimator), records.table.columns):
            table = match_columns(records.table, names, "records", required_by_model=True)
            frame = _frame_for(estimator, table, frames)
            frame = restore_numbers(estimator, restore_types(estimator, frame))
            return restore_categories(estimator, restore_missing(estimator, frame))
        if frames == "auto" and records.encoder.is_plain:
            return records.x
        if frames == "auto" and takes_array(estimator, records):
            numbers = [records.table[name].cast(nw.Float64).to_list() for name in records.encoder.names]
            return np.array(numbers, dtype=np.float64).T  # what is missing becomes NaN
        return _frame_for(estimator, records.table, frames)
    if records.x.dtype == object:
        return records.x
    x = records.x.reshape(len(records.x), -1)
    if names and x.shape[1] == len(names) and hasattr(estimator, "feature_names_in_"):
        return frame_of_array(x, names)  # it would warn of an array
    return x


def takes_array(estimator: Any, records: Records) -> bool:
    """Check whether an estimator of scikit-learn was fitted on an array of as many numbers as a record has.

    Records of numbers in which some are missing are an array then, too: of a frame it would warn, or it would fail.
    """
    return (
        records.encoder is not None
        and type(estimator).__module__.startswith("sklearn.")
        and not any(_column_names(part)[0] for part in sub_estimators(estimator))
        and getattr(estimator, "n_features_in_", None) == len(records.encoder.columns)
        and all(column.measure in ("number", "boolean") for column in records.encoder.columns)
    )


def fitted_columns(estimator: Any) -> tuple[str, ...]:
    """Return the names of the columns that an estimator was fitted on; empty where it was fitted on an array."""
    names, are_certain = _column_names(estimator)
    return names if are_certain else ()


def likely_columns(estimator: Any) -> tuple[tuple[str, ...], ...]:
    """Return names that may be those of the columns: which a part met, or which LightGBM makes up too."""
    candidates = (_column_names(part)[0] for part in sub_estimators(estimator))
    return tuple(dict.fromkeys(names for names in candidates if names))


@contextlib.contextmanager
def estimator_errors(estimator: Any, records: Records, inputs: Any) -> Generator[None]:
    """Turn what an estimator raises into an error that says what it was given.

    Raises:
        divulge.InputError: it is not fitted.
        divulge.errors.UserCodeError: it raised another error.
    """
    name = f"target: {type(estimator).__name__}"
    try:
        with errors.user_code_errors(name, hint="" if records.table is None else _describe_inputs(records, inputs)):
            yield
    except errors.UserCodeError as error:
        if type(error.__cause__).__name__ == "NotFittedError":
            raise InputError(f"{name} is not fitted: {error.__cause__}") from None
        raise


def _describe_inputs(records: Records, inputs: Any) -> str:
    """Describe what an estimator that fails was given: empty values, or how it is given something else."""
    table = records.table
    if table is not None and (empty := [name for name in table.columns if table[name].is_null().any()]):
        return (
            f"values are missing in {columns.format_names(empty)}: fill them in or leave those records out where the "
            "model takes none"
        )
    given = "an array"
    if not isinstance(inputs, np.ndarray):
        schema = nw.from_native(inputs, eager_only=True).schema
        texts = [name for name, dtype in schema.items() if isinstance(dtype, nw.String | nw.Object)]
        stand = f" with texts in {columns.format_names(texts)}" if texts else ""
        given = f"a data frame of {type(inputs).__module__.split('.')[0]}{stand}"
    return (
        f'it was given {given}; SklearnTarget(model, frames="pandas") or frames="polars" gives it another, in a plan '
        "target.frames"
    )


def _frame_for(estimator: Any, table: nw.DataFrame[Any], frames: Literal["auto", "own", "pandas", "polars"]) -> Any:
    """Return a table in the library of an estimator; with the types of the user's own frame only where they ask."""
    if frames == "auto" and (fitted := fitted_frame_library(estimator)) is not None:
        frames = fitted
    elif frames == "auto":
        frames = "own" if table.implementation.value in ("pandas", "polars") or not has_pandas() else "pandas"
    frame = to_library(table, frames)
    return frame if frames == "own" else columns.without_nullable_types(frame)


def _column_names(estimator: Any) -> tuple[tuple[str, ...], bool]:
    """Return the names of the columns that an estimator knows, and whether a frame had them for certain."""
    for attribute in ("feature_names_in_", "feature_names_", "feature_name_"):
        attribute_value = getattr(estimator, attribute, None)
        if attribute_value is None or callable(attribute_value):
            continue
        names = tuple(str(name) for name in attribute_value)
        # What LightGBM and CatBoost call the columns of an array; in scikit-learn such names are the user's.
        may_be_made_up = attribute != "feature_names_in_" or hasattr(estimator, "booster_")
        return names, not (may_be_made_up and all(re.fullmatch(r"(?:Column_)?\d+", name) for name in names))
    return (), False


def fitted_frame_library(estimator: Any) -> Literal["pandas", "polars"] | None:
    """Return the library of the frame that an estimator was fitted on, where its encoders show it; else None.

    A text that is missing is NaN in a column of pandas and None in one of polars, and an encoder takes them for two
    different categories.
    """
    parts = list(sub_estimators(estimator))
    if any(_pandas_categories(part) is not None or _reads_categories(part) for part in parts) and columns.has_pandas():
        return "pandas"
    encoded = [categories for part in parts for categories in getattr(part, "categories_", ())]
    if any(map(_holds_days, encoded)) and columns.has_pandas():
        return "pandas"
    markers = [
        value
        for categories in encoded
        for value in np.asarray(categories, dtype=object).tolist()
        if columns.is_missing(value)
    ]
    markers += [part.missing_values for part in parts if _imputes_texts(part)]
    # A frame of pandas may have both, one of polars None alone.
    return None if not markers else "polars" if all(marker is None for marker in markers) else "pandas"


def _imputes_texts(part: Any) -> bool:
    """Check whether a part is an imputer of texts, for which a missing one is either NaN or None."""
    return hasattr(part, "statistics_") and getattr(part, "_fit_dtype", np.dtype(float)).kind == "O"


def _reads_categories(estimator: Any) -> bool:
    """Check whether an estimator of XGBoost or CatBoost knows categories, which they read safely of pandas alone."""
    is_xgboost = hasattr(estimator, "get_booster") and bool(getattr(estimator, "enable_categorical", False))
    return is_xgboost or (hasattr(estimator, "get_cat_feature_indices") and bool(estimator.get_cat_feature_indices()))


def _pandas_categories(estimator: Any) -> list[Any] | None:
    """Return the categories of each column of LightGBM's pandas frame; None if it was fitted on something else."""
    return getattr(getattr(estimator, "booster_", None), "pandas_categorical", None)


def sub_estimators(estimator: Any) -> Iterator[Any]:
    """Yield an estimator and those that it is made of."""
    yield estimator
    for part in direct_parts(estimator):
        yield from sub_estimators(part)


_INNER_NAMES = (
    "estimator_", "best_estimator_", "final_estimator_", "regressor_", "transformer_", "nbrs_", "estimator",
    "_preprocessor", "base_estimator_",
)  # fmt: skip


def direct_parts(estimator: Any) -> Iterator[Any]:
    """Yield the estimators that an estimator is directly made of."""
    for _, step in getattr(estimator, "steps", ()):
        yield step
    for _, transformer, *_ in getattr(estimator, "transformers_", ()):
        yield transformer
    for _, step in getattr(estimator, "transformer_list", ()):
        yield step
    for name in ("estimators_", "calibrated_classifiers_"):
        inner = getattr(estimator, name, None)
        yield from () if inner is None else np.ravel(np.array(inner, dtype=object))
    for name in _INNER_NAMES:
        if (inner := getattr(estimator, name, None)) is not None:
            yield inner


def restore_types(estimator: Any, frame: Any) -> Any:
    """Return a frame whose columns hold values of the types that the encoders of an estimator were fitted on.

    A date is a text in a CSV file and a date in a Parquet file, and a code may be a number in one and a text in the
    other. To an encoder these are different categories, and one that ignores what it does not know would answer as if
    the column were empty.

    Raises:
        divulge.InputError: a column holds values that the estimator's type cannot express.
    """
    if not hasattr(frame, "select_dtypes") and not isinstance(frame, pl.DataFrame):
        return frame
    changed = {}
    for name, categories in _categories_by_column(estimator, tuple(frame.columns)).items():
        if name not in frame.columns or (fitted_type := _type_of_values(categories)) is None:
            continue
        column = nw.from_native(frame[name], series_only=True)
        column_type = _type_of_column(column)
        if column_type == fitted_type == "dates" and hasattr(frame, "select_dtypes"):
            if (dates := _restore_dates(frame[name], categories)) is not None:
                frame = frame.assign(**{name: dates})
            continue
        if column_type in (None, fitted_type) or {column_type, fitted_type} == {"numbers", "truth values"}:
            continue
        fitted_values = [value for value in categories if not columns.is_missing(value)]
        try:
            convert = _find_conversion(str(column_type), fitted_type, fitted_values)
            changed[name] = [None if columns.is_missing(value) else convert(value) for value in column.to_list()]
        except (KeyError, ValueError, TypeError):
            raise InputError(
                f"column {name!r} holds {column_type}, and the target was fitted on {fitted_type} such as "
                f"{format_value(str(fitted_values[0]))}; bring them as the target knows them"
            ) from None
    if not changed:
        return frame
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(pl.Series(name, values) for name, values in changed.items())
    filled = {name: [np.nan if value is None else value for value in values] for name, values in changed.items()}
    as_series = {name: pd.Series(values, frame.index, dtype=object) for name, values in filled.items()}
    return frame.assign(
        **{
            name: pd.to_datetime(series) if any(isinstance(value, dt.date) for value in changed[name]) else series
            for name, series in as_series.items()
        }
    )


def _restore_dates(series: Any, categories: Any) -> Any | None:
    """Return a column of dates of pandas as an encoder met it: days of Python's, or time stamps; None as it is.

    pandas reads the dates of a Parquet file as the former and knows those that it parses as the latter, and to an
    encoder no day is a time stamp.
    """
    met_days = _holds_days(categories)
    if met_days and series.dtype.kind == "M":
        days = [np.nan if columns.is_missing(value) else value.date() for value in series]
        return pd.Series(days, series.index, dtype=object)
    if not met_days and series.dtype.kind == "O":
        return pd.to_datetime(series)
    return None


def _holds_days(categories: Any) -> bool:
    """Check whether there are days of Python's among categories, which no frame of polars turns into."""
    return any(isinstance(value, dt.date) and not isinstance(value, dt.datetime) for value in categories)


def text_columns(estimator: Any) -> tuple[str, ...]:
    """Return the columns of which the encoders of an estimator know texts.

    Examples:
        >>> import pandas as pd
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> text_columns(OneHotEncoder().fit(pd.DataFrame({"zip": ["007", "012"], "ward": [1, 2]})))
        ('zip',)
    """
    names = fitted_columns(estimator)
    categories = _categories_by_column(estimator, names)
    for part in sub_estimators(estimator):
        fitted = _pandas_categories(part) or []
        if fitted and len(_column_names(part)[0]) == len(names):
            for name, values in zip(_find_category_columns(part, fitted, names), fitted, strict=False):
                categories.setdefault(name, values)
    return tuple(name for name, values in categories.items() if _type_of_values(values) == "texts")


def restore_numbers(estimator: Any, frame: Any) -> Any:
    """Return a frame in which truth values with gaps are numbers where an imputer of an estimator met numbers.

    pandas' nullable truth values are numbers to scikit-learn, with NaN where one is missing. Those of polars, and of
    pandas without a type, are objects to it, and an imputer of NaN leaves None where it stands.
    """
    if not hasattr(frame, "select_dtypes") and not isinstance(frame, pl.DataFrame):
        return frame
    imputed = [
        name
        for part, names in _parts_with_columns(estimator, tuple(frame.columns))
        if hasattr(part, "statistics_") and getattr(part, "_fit_dtype", np.dtype(object)).kind in "fiub"
        for name in names
    ]
    for name in dict.fromkeys(imputed):
        column = nw.from_native(frame[name], series_only=True) if name in frame.columns else None
        if column is None or not column.is_null().any() or _type_of_column(column) != "truth values":
            continue
        numbers = np.array([np.nan if columns.is_missing(value) else float(value) for value in column.to_list()])
        if isinstance(frame, pl.DataFrame):
            frame = frame.with_columns(pl.Series(name, numbers))
        else:
            frame = frame.assign(**{name: numbers})
    return frame


def restore_missing(estimator: Any, frame: Any) -> Any:
    """Return a pandas frame in which a missing value is what it was to each encoder of an estimator: NaN, None or NA.

    To an encoder these are different categories. Columns that no encoder was fitted on stay as they are.
    """
    if not hasattr(frame, "select_dtypes"):
        return frame
    changed = {}
    for name, marker in _markers_by_column(estimator, tuple(frame.columns)).items():
        if name not in frame.columns or not (absent := frame[name].isna()).any():
            continue
        dtype = frame[name].dtype
        if dtype.kind == "O" or not (isinstance(marker, float) or dtype.kind == "M"):
            changed[name] = frame[name].astype(object)
            changed[name][absent] = marker
    return frame.assign(**changed) if changed else frame


_ValueType = Literal["numbers", "truth values", "dates", "texts"]


_DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f")


def _find_conversion(column_type: str, fitted_type: str, fitted_values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return what makes values of one type those of another, in the spelling of the ``fitted_values`` ones.

    Raises:
        KeyError: there is no such conversion.
        ValueError: no spelling gives what is known.
    """
    if fitted_type == "texts" and column_type == "dates":
        for style in _DATE_FORMATS:
            with contextlib.suppress(ValueError):
                if all(dt.datetime.strptime(text, style).strftime(style) == text for text in fitted_values):
                    return lambda value: value.strftime(style)
        raise ValueError(fitted_values)
    if fitted_type == "texts" and column_type == "numbers":
        if not all(str(int(text)) == text for text in fitted_values):
            raise ValueError(fitted_values)
        return lambda value: str(int(value) if value == int(value) else value)
    if fitted_type == "texts" and column_type == "truth values":
        spellings = {text.lower() == "true": text for text in fitted_values if text.lower() in ("true", "false")}
        return lambda value: spellings[bool(value)]
    conversions: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("texts", "dates"): dt.datetime.fromisoformat,
        ("texts", "numbers"): float,
        ("texts", "truth values"): lambda text: {"true": True, "false": False}[text.lower()],
    }
    return conversions[column_type, fitted_type]


def _type_of_column(column: nw.Series[Any]) -> _ValueType | None:
    dtype = column.dtype
    if isinstance(dtype, nw.Date | nw.Datetime):
        return "dates"
    if isinstance(dtype, nw.Boolean):
        return "truth values"
    if isinstance(dtype, nw.String):
        return "texts"
    return "numbers" if dtype.is_numeric() else _type_of_values(column.unique().to_list())


def _type_of_values(values: Any) -> _ValueType | None:
    """Return the type that all values have which are not missing; None where they have several, or there are none."""
    if getattr(values, "dtype", np.dtype(object)).kind == "M":
        return "dates"
    present = [value for value in values if not columns.is_missing(value)]
    types: dict[_ValueType, tuple[type, ...]] = {
        "truth values": (bool, np.bool_),
        "numbers": (int, float, np.number),
        "dates": (dt.date,),
        "texts": (str,),
    }
    return next(
        (
            name
            for name, types_of_value in types.items()
            if present and all(isinstance(v, types_of_value) for v in present)
        ),
        None,
    )


def _categories_by_column(estimator: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the categories that encoders in an estimator were fitted on, by the name of the column.

    Args:
        estimator: fitted.
        names: columns of what it was fitted on, where it does not name them.
    """
    categories_by_column: dict[str, Any] = {}
    for part, its_names in _parts_with_columns(estimator, names):
        categories = getattr(part, "categories_", ())
        if len(categories) == len(its_names):
            categories_by_column = dict(zip(its_names, categories, strict=True)) | categories_by_column
    return categories_by_column


def _markers_by_column(estimator: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what stands for a missing value to the encoders and imputers of an estimator, by the name of the column.

    Columns without a missing value in what they were fitted on are left out; arguments as for `_categories_by_column`.
    """
    markers_by_column: dict[str, Any] = {}
    for name, categories in _categories_by_column(estimator, names).items():
        missing = [value for value in np.asarray(categories, dtype=object).tolist() if columns.is_missing(value)]
        if missing:
            markers_by_column[name] = missing[0]
    for part, its_names in _parts_with_columns(estimator, names):
        if _imputes_texts(part) and len(part.statistics_) == len(its_names):
            markers_by_column = dict.fromkeys(its_names, part.missing_values) | markers_by_column
    return markers_by_column


def _parts_with_columns(part: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield an estimator and its parts, each with the columns that it is given; none where they are unknown."""
    names = tuple(map(str, getattr(part, "feature_names_in_", names)))
    yield part, names
    inner: list[tuple[Any, tuple[str, ...]]] = []
    step_names = names
    for _, step in getattr(part, "steps", ()):
        inner.append((step, step_names))
        if not hasattr(step, "statistics_"):  # an imputer keeps the columns and their order; others may not
            step_names = ()
    for _, transformer, chosen in getattr(part, "transformers_", ()):
        inner.append((transformer, _select_names(names, chosen)))
    inner += [(step, names) for _, step in getattr(part, "transformer_list", ())]
    for name in ("estimators_", "calibrated_classifiers_"):
        parts = getattr(part, name, None)
        inner += [(each, names) for each in (() if parts is None else np.ravel(np.array(parts, dtype=object)))]
    for name in ("estimator_", "best_estimator_", "final_estimator_", "estimator"):
        if (each := getattr(part, name, None)) is not None:
            inner.append((each, names))
    for each, its_names in inner:
        yield from _parts_with_columns(each, its_names)


def _select_names(names: tuple[str, ...], chosen: Any) -> tuple[str, ...]:
    """Return the names of the columns that a part of a ColumnTransformer was given."""
    chosen = [chosen] if isinstance(chosen, str | int) else chosen
    if not isinstance(chosen, slice) and all(isinstance(entry, str) for entry in chosen):
        return tuple(chosen)
    try:
        return tuple(np.array(names, dtype=object)[chosen].tolist())
    except (IndexError, TypeError):
        return ()


def restore_categories(estimator: Any, frame: Any) -> Any:
    """Return a pandas frame whose categories are those that the estimator was fitted on (LightGBM, XGBoost).

    Raises:
        divulge.InputError: a column of which no value is among the categories.
    """
    if not hasattr(frame, "select_dtypes"):
        return frame
    texts = [name for name in frame.columns if str(frame[name].dtype) in ("object", "str", "string", "category")]
    for part in sub_estimators(estimator):
        if not (fitted_categories := _pandas_categories(part)):
            continue
        names, part_columns = texts, _column_names(part)[0]
        if len(part_columns) == len(frame.columns):
            names = _find_category_columns(part, fitted_categories, list(frame.columns), frame)
        if len(names) == len(fitted_categories):
            return _assign_categories(frame, dict(zip(names, fitted_categories, strict=True)))
        if len(part_columns) == len(frame.columns):
            raise InputError(
                f"records: the target was fitted on {len(fitted_categories)} columns of categories, and which ones "
                "these are does not show in the values: pass data frames of pandas to divulge.audit where they are of "
                "type category"
            )
    for part in sub_estimators(estimator):
        if getattr(part, "enable_categorical", False) and part.__sklearn_is_fitted__():
            booster = part.get_booster()
            # XGBoost before 3.1 kept the codes of its categories, and not what they stood for.
            if hasattr(booster, "get_categories") and len(booster.feature_types or ()) == len(frame.columns):
                named = zip(frame.columns, booster.get_categories(export_to_arrow=True).to_arrow(), strict=True)
                return _assign_categories(
                    frame, {name: kept.to_pylist() for name, (_, kept) in named if kept is not None}
                )
    return frame


def _find_category_columns(
    part: Any, fitted_categories: Sequence[Any], names: Sequence[str], frame: Any = None
) -> list[str]:
    """Return the columns, in their order, of which LightGBM kept the categories; none where several choices fit.

    LightGBM says which columns have categories without an order. Those with an order are numbers to it: they are found
    by their codes, of which it keeps the range, and by the values in the frame. Texts in a frame are always categories.
    """
    positions = part.booster_.params.get("categorical_column") or []
    header = part.booster_.model_to_string(num_iteration=1).split("\nfeature_infos=")[1].split("\n")[0].split()
    ranges = [[float(value) for value in re.findall(r"[^:\[\]]+", info) if info != "none"] for info in header]

    def fits(place: int, categories: Sequence[Any]) -> bool:
        if any(code not in range(-1, len(categories)) for code in ranges[place]):
            return False
        if frame is None:
            return True
        present = _convert_to_fitted(frame[names[place]], categories).dropna()
        return bool(present.isin(categories).all()) or (place in texts and bool(present.isin(categories).any()))

    texts = set()
    if frame is not None:
        readable = ("object", "str", "string", "category")
        texts = {place for place, name in enumerate(names) if str(frame[name].dtype) in readable}
    # The first places may not be categories: the user may have named columns of numbers.
    for certain in (texts | set(positions), texts):
        choices = [[()], *([] for _ in fitted_categories)]  # by how many lists of categories are placed; two are enough
        for place in range(len(names)):
            placed = [[] if place in certain else list(found) for found in choices]
            for number, categories in enumerate(fitted_categories):
                if choices[number] and fits(place, categories):
                    placed[number + 1] += [(*found, place) for found in choices[number]]
            choices = [found[:2] for found in placed]
        if choices[-1]:
            return [names[place] for place in choices[-1][0]] if len(choices[-1]) == 1 else []
    # A column of which the target knows no value is named by the error that follows.
    return [names[place] for place in sorted(texts | set(positions))]


def _assign_categories(frame: Any, categories_by_column: Mapping[Any, Sequence[Any]]) -> Any:
    """Return a pandas frame in which columns have the categories that the model was fitted on.

    Raises:
        divulge.InputError: a column of which no value is among the categories.
    """
    changed = {}
    for name, categories in categories_by_column.items():
        column = _convert_to_fitted(frame[name], categories)
        fitted = pd.Categorical(column.astype(object).where(column.isin(categories)), categories=categories)
        if column.notna().any() and not fitted.notna().any():
            raise InputError(
                f"column {name!r}: the target knows none of its values, such as "
                f"{format_value(column.dropna().iloc[0])}; it was fitted on {format_value(list(categories))}"
            )
        changed[name] = fitted
    return frame.assign(**changed)


def _convert_to_fitted(column: Any, categories: Sequence[Any]) -> Any:
    """Return a column of pandas with its values in the type of the categories, where they can be written so."""
    column_type = _type_of_column(nw.from_native(column, series_only=True))
    fitted_type = _type_of_values(categories)
    if column_type == fitted_type or column_type is None or fitted_type is None:
        return column
    try:
        convert = _find_conversion(column_type, fitted_type, [str(value) for value in categories])
        values = [np.nan if columns.is_missing(value) else convert(value) for value in column]
    except (KeyError, ValueError, TypeError):
        return column
    return pd.Series(values, column.index, dtype=object)
