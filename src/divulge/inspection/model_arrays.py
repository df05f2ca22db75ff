"""Every array of a model, and the candidates whose rows stand in one of them.

Arrays are attributes of estimators, weights of networks, numbers in files of other libraries. Rows are searched for as
they are, as the model's own pipeline scales them, by some of their columns, and up to an affine map.

Whether a match is chance is decided by the non-members. Had the array nothing to do with which candidates are members,
then of all distinct rows that match it, members would be no more than drawn blindly: Fisher's exact test bounds the
chance that they are, whatever the array holds, however few values the columns have, and however the map was searched
for, as the search never reads who is a member. The bound is divided by the number of searches (Bonferroni).
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from divulge import lazy, seeds, store
from divulge.columns import is_frame, read_frame
from divulge.errors import InputError
from divulge.results import FALSE_MATCH, SUSPICION, ArrayMatch, Form, StoredRecords
from divulge.targets.estimators import Regressor, SklearnRegressor, SklearnTarget
from divulge.targets.fitted_frames import direct_parts, estimator_inputs
from divulge.targets.onnx import OnnxTarget
from divulge.targets.rights import FramedTarget, GivesWeights
from divulge.targets.sacro_folders import is_sacro_folder, read_sacro_folder, refuse_pickle
from divulge.targets.skops_files import read_skops
from divulge.validation import check_mask, check_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx
    from safetensors import numpy as tensors
    from scipy import spatial, stats
    from sklearn import utils as sklearn_utils

    from divulge.types import Array, Bools, Floats, Ints, Records
else:
    onnx = lazy.module("onnx")
    sklearn_utils = lazy.module("sklearn.utils")
    tensors = lazy.module("safetensors.numpy")
    spatial = lazy.module("scipy.spatial")
    stats = lazy.module("scipy.stats")

MAX_VALUES = 50_000_000
"""Values of one array beyond which it is listed and not searched."""
_MAX_PARTS = 200_000  # objects that are walked; a model of more is not walked to its end, and that is said


@dataclass(frozen=True, slots=True, eq=False)
class ModelArray:
    """One array of a model.

    Args:
        name: where it stands, such as "steps.1._fit_X".
        values: numbers, of any shape.
    """

    name: str
    values: Array


def collect_arrays(model: Any) -> list[ModelArray]:
    """List the arrays of numbers that a model holds.

    Args:
        model: a target, an estimator, a booster, a path of a file, a mapping from names to arrays.

    Returns:
        The arrays by name, empty where nothing can be looked into (a function, an endpoint).

    Raises:
        divulge.InputError: a file of a kind that cannot be read.

    Examples:
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> model = KNeighborsClassifier(1).fit([[0.0, 1.0], [2.0, 3.0]], [0, 1])
        >>> [array.values.tolist() for array in collect_arrays(model) if array.name == "_fit_X"]
        [[[0.0, 1.0], [2.0, 3.0]]]
    """
    if isinstance(model, FramedTarget | Regressor):
        return collect_arrays(model.target)
    if isinstance(model, SklearnTarget | SklearnRegressor):
        return collect_arrays(model.estimator)
    if isinstance(model, OnnxTarget):
        return collect_arrays(Path(model.path))
    if isinstance(model, str | Path):
        return collect_arrays(read_model(Path(model)))
    if isinstance(model, GivesWeights) and callable(model.weights):  # of neighbours, `weights` is a parameter
        return [ModelArray(name, np.asarray(values)) for name, values in sorted(model.weights().items())]
    if type(model).__module__.split(".")[0] == "divulge" or callable(getattr(model, "logits", None)):
        return []
    return list(_walk(model))


def read_model(path: Path) -> Any:
    """Read a model file for `collect_arrays`; nothing in it is run.

    Args:
        path: ``.skops``, ``.onnx``, ``.safetensors``, ``.npz``, LightGBM's ``.txt``, XGBoost's or CatBoost's ``.json``;
            or a target folder of SACRO-ML with one of these.

    Raises:
        divulge.InputError: no such file, one that is damaged, or another kind; pickles are refused.
    """
    path = read_sacro_folder(path).model if is_sacro_folder(path) else path
    refuse_pickle(path, "model")
    if not path.is_file():
        raise InputError(f"model: no such file: {path}")
    suffix = path.suffix.lower()
    try:
        if suffix == ".skops":
            return read_skops(path)
        if suffix == ".safetensors":
            return tensors.load_file(path)
        if suffix == ".npz":
            return store.read_arrays(path)
        if suffix == ".onnx":
            return _read_onnx(path)
        if suffix == ".json":
            return json.loads(store.read_untrusted(path))
        if suffix in (".txt", ".model", ".lgb"):
            return _parse_lightgbm(store.read_untrusted(path).decode())
    except InputError:
        raise
    except (OSError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"model: {path} is not readable ({type(error).__name__})") from None
    raise InputError(
        f"model: {path} cannot be looked into: .skops, .onnx, .safetensors, .npz, .txt of LightGBM and .json of "
        "XGBoost or CatBoost can"
    )


def _walk(model: Any) -> Iterator[ModelArray]:
    """Yield the arrays of an object and of all that it is made of, each once."""
    visited: set[int] = set()
    created_objects: list[Any] = []  # of what is made on the way: an object that is gone might lend its id to another
    pending: list[tuple[str, Any]] = [("", model)]
    while pending and len(visited) < _MAX_PARTS:
        name, part = pending.pop()
        if part is None or isinstance(part, str | bytes | bool | int | float | complex | type):
            continue
        if id(part) in visited:
            continue
        visited.add(id(part))
        created_objects.append(part)
        if isinstance(part, np.ndarray) and part.dtype.names:
            pending += [(f"{name}.{field}", part[field]) for field in part.dtype.names]
        elif isinstance(part, np.ndarray) and part.dtype.kind in "iufb":
            yield ModelArray(name, part)
        elif (numbers := _as_numbers(part)) is not None:
            yield ModelArray(name, numbers)
        else:
            pending += [(f"{name}.{key}".lstrip("."), value) for key, value in _children(part)]


def _as_numbers(part: Any) -> Array | None:
    """Return a sparse matrix, a data frame's numbers, or a list of numbers or of equally long lists, as an array."""
    if callable(getattr(part, "toarray", None)) and hasattr(part, "shape"):
        return part.toarray() if np.prod(part.shape, dtype=float) <= MAX_VALUES else part.data
    if isinstance(part, list | tuple) and part and isinstance(part[0], int | float | list | tuple):
        try:
            values = np.asarray(part)
        except (ValueError, OverflowError):
            return None
        return values if values.dtype.kind in "iuf" else None
    return _frame_numbers(part) if hasattr(part, "columns") or hasattr(part, "to_numpy") else None


def _frame_numbers(part: Any) -> Array | None:
    """Return the numbers and truth values of a data frame or of one of its columns as an array; None without any."""
    if not is_frame(part):  # one column, or a pandas frame whose columns are numbered
        values = np.asarray(part) if hasattr(part, "to_numpy") else np.empty(0, dtype=object)
        return values if values.dtype.kind in "iufb" else None
    try:
        table = read_frame(part, "model")
    except InputError:  # such as a lazy one, which holds no rows
        return None
    numbers = [
        table[name] for name in table.columns if table[name].dtype.is_numeric() or table[name].dtype == nw.Boolean
    ]
    return np.column_stack([series.cast(nw.Float64).to_numpy() for series in numbers]) if numbers else None


def _children(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, dict):
        return [(str(key), value) for key, value in part.items()]
    if isinstance(part, list | tuple | set | frozenset):
        return [(str(place), value) for place, value in enumerate(part)]
    if isinstance(part, np.ndarray) and part.dtype == object:
        return [(str(place), value) for place, value in enumerate(part.ravel().tolist())]
    module = type(part).__module__
    if module == "lightgbm.basic" and hasattr(part, "model_to_string"):
        return list(_parse_lightgbm(part.model_to_string()).items())
    if module == "xgboost.core" and hasattr(part, "save_raw"):
        return [("booster", json.loads(part.save_raw("json")))]
    if module.startswith("catboost") and callable(getattr(part, "get_tree_leaf_counts", None)):
        return _catboost_arrays(part)
    if type(part).__name__ in ("KDTree", "BallTree") and module.startswith("sklearn."):
        return [("data", np.asarray(part.data))]
    if type(part).__name__ == "Tree" and module.startswith("sklearn."):
        state = part.__getstate__()
        return [("nodes", state["nodes"]), ("values", state["values"])]
    if isinstance(part, np.random.RandomState | np.random.Generator):
        return []
    return list(vars(part).items()) if hasattr(part, "__dict__") else []


def _catboost_arrays(model: Any) -> list[tuple[str, Any]]:
    """Return the attributes of a CatBoost model, and the weights and values of its leaves, if it gives them."""
    children = list(vars(model).items())
    if not model.is_fitted():
        return children
    try:
        weights, values = np.asarray(model.get_leaf_weights()), np.asarray(model.get_leaf_values())
    except AssertionError:  # of several classes, its own check of their number fails
        return children
    ends = np.cumsum(model.get_tree_leaf_counts())[:-1]
    for name, numbers in (("leaf_weights", weights), ("leaf_values", values)):
        per_leaf = max(1, len(numbers) // max(len(weights), 1))
        trees = np.split(numbers, ends * per_leaf)
        children += [(f"trees.{tree}.{name}", leaves) for tree, leaves in enumerate(trees)]
    return children


def _parse_lightgbm(text: str) -> dict[str, Array]:
    """Return the lines of numbers in LightGBM's text, by tree and key."""
    arrays: dict[str, Array] = {}
    tree = "header"
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if key == "Tree":
            tree = f"tree {value}"
        elif line.startswith("end of trees"):
            break
        elif separator:
            try:
                arrays[f"{tree}.{key}"] = np.array(value.split(), dtype=np.float64)
            except ValueError:  # names and settings
                continue
    return arrays


def _read_onnx(path: Path) -> dict[str, Array]:
    """Return the initialisers and the lists of numbers among the attributes of an ONNX model."""
    try:
        graph = onnx.load(str(path)).graph
    except (ValueError, OSError, TypeError) as error:
        raise InputError(f"model: {path} is not a readable ONNX model ({type(error).__name__})") from None
    except Exception as error:
        if type(error).__module__.split(".")[0] != "google":  # protobuf's own errors
            raise
        raise InputError(f"model: {path} is not a readable ONNX model") from None
    arrays: dict[str, Array] = {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}
    for place, node in enumerate(graph.node):
        for attribute in node.attribute:
            name = f"{node.name or place}.{attribute.name}"
            if len(attribute.floats):
                arrays[name] = np.array(attribute.floats, dtype=np.float32)
            elif len(attribute.ints):
                arrays[name] = np.array(attribute.ints, dtype=np.int64)
            elif attribute.HasField("t"):
                arrays[name] = onnx.numpy_helper.to_array(attribute.t)
    return arrays


_N_FIRST, _N_SECOND = 250, 2000  # candidates whose pairs may fix an affine map
_TRIALS = 16  # pairs of stored rows that are tried for one
_MOST_AFFINE = 40  # arrays in which a map is looked for, the longest first
_TOLERANCE = {4: 1e-5, 8: 1e-9, 2: 1e-2}  # by the bytes of a stored number, relative to the spread of a column
_MOST_FORMS = 20  # of the records, before and after steps of the model that differ
_MOST_PAIRS = 40_000  # of a record's and an array's columns, beyond which columns are not looked for one by one
_N_VALUES = 500  # of a column, that are looked for in the columns of an array
_LEAST_HITS = 8  # values of a column that stand in one of an array, from which on it may be this column
_AGREEMENT = 0.9  # share of the rows that one column matches in which another must agree
_ANCHORS = 3  # columns that are tried as the first
_LEAST_ROWS = 4  # stored rows from which a map is guessed: two fix it, the others test it


def find_stored_records(
    model: Any,
    records: Records,
    is_member: Bools,
    *,
    seed: int = 0,
    bound: float = FALSE_MATCH,
    comparable: bool = True,
    repeats_kept: bool = True,
) -> StoredRecords:
    """Search every array of a model for candidate rows.

    Args:
        model: as for `divulge.inspection.collect_arrays`; a target's own steps transform the records where it has any.
        records: candidates, of numbers; a row of several numbers each.
        is_member: bool ``[n]``, True for the members.
        seed: of the pairs of rows that are tried for an affine map.
        bound: bound on the chance that a match is reported for a model whose arrays do not depend on membership.
        comparable: whether non-members are drawn as the members are, and so control for rows that are there by chance.
            Where they are not, a model that holds other people, drawn as the members, must pass for one that holds no
            member; how often rows repeat among the members tells how often theirs would be equal to members' rows.
        repeats_kept: whether the members are as they were drawn. Where rows that repeat were taken out of them, only
            those that repeat in the model tell it.

    Returns:
        What was found. A record counts if its row stands in an array in which members stand significantly more often
        than non-members. Rows that are both a member's and a non-member's decide nothing. Unless sets are comparable,
        a match must also be unlikely for other records drawn as the members were: if two records have one row, that
        these are a member and a stored one must happen significantly more often than their numbers explain.

    Raises:
        divulge.InputError: a mask of another length, a bound outside (0, 1).

    Examples:
        >>> import divulge as dv
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x = np.random.default_rng(0).normal(size=(60, 3))
        >>> model = KNeighborsClassifier(3).fit(x[:30], np.arange(30) % 2)
        >>> print(find_stored_records(model, dv.Records(x), np.arange(60) < 30).sentence)
        30 of 30 training records stand in this file.
    """
    check_number(bound, "bound", above=0.0, below=1.0)
    is_member = check_mask(is_member, "is_member", (len(records),))
    arrays = collect_arrays(model)
    no_control = "" if comparable else "members and non-members differ by themselves"
    n_members, n_nonmembers = int(is_member.sum()), int((~is_member).sum())
    empty = StoredRecords(0, n_members, 0, n_nonmembers, (), 0, len(arrays), bound=bound, no_control=no_control)
    if not arrays:
        return replace(empty, not_searched=("the model shows no arrays",))
    if records.x.dtype == object or not is_member.any() or is_member.all():
        return replace(empty, not_searched=("the records are texts, or of one side alone",))
    notes = [f"{a.name} has more than {MAX_VALUES:,} values" for a in arrays if a.values.size > MAX_VALUES]
    searchable = [a for a in arrays if 0 < a.values.size <= MAX_VALUES]
    matches: list[tuple[ArrayMatch, Bools]] = []
    searches = 0
    forms, form_notes = _record_forms(model, records)
    coarse = _tolerance(np.asarray(records.x))
    judge = partial(_judge, is_member=is_member, comparable=comparable, repeats_kept=repeats_kept)
    for form, rows in forms:
        one_sided = _find_one_sided(rows, is_member)
        for array in searchable:
            in_place = np.zeros(len(records), dtype=bool)
            for table in _tables(array, rows.shape[1]):
                searches += 1
                counts = _match_rows(rows, table, coarse)
                matches.append(judge(array.name, form, counts, rows, one_sided, table))
                in_place |= counts > 0
            for table in _column_tables(array, rows.shape[1]):
                searches += 1
                counts, compared = _match_columns(rows, table, coarse)
                if ((counts > 0) & ~in_place).any():
                    n_columns, n_varying = compared.shape[1], int((np.ptp(rows, axis=0) > 0).sum())
                    # Rows that agree in some columns are more than those that agree in all, and are not counted. Of the
                    # array only the columns that are compared count, or it would seem to repeat less than it does.
                    is_whole = n_columns == n_varying
                    match, is_matched = judge(array.name, form, counts, rows, one_sided, compared if is_whole else None)
                    matches.append((replace(match, columns=n_columns, width=n_varying), is_matched))
    plain = forms[0][1]
    one_sided = _find_one_sided(plain, is_member)
    mappable = [
        (array.name, table)
        for array in searchable
        for table in _tables(array, plain.shape[1], flat=False)
        if len(table) >= _LEAST_ROWS
    ]
    mappable.sort(key=lambda pair: -len(pair[1]))
    if len(mappable) > _MOST_AFFINE:
        notes.append(f"a scale and shift was looked for in {_MOST_AFFINE} of {len(mappable)} arrays")
    for name, table in mappable[:_MOST_AFFINE]:
        searches += 1
        counts = _match_affine(plain, table, seeds.generator(seed, "stored records", name), coarse)
        matches.append(judge(name, "up to a scale and shift of each column", counts, plain, one_sided, table))
    unlikely = [
        match.members
        for match, _ in matches
        if (match.p_value if match.control_p_value is None else match.control_p_value) * searches <= SUSPICION
    ]
    proven = [(match, rows) for match, rows in matches if match.p_value * searches <= bound]
    proven.sort(key=lambda pair: -pair[0].members)
    any_row = np.logical_or.reduce([rows for _, rows in proven]) if proven else np.zeros(len(records), dtype=bool)
    return replace(
        empty,
        found=int((any_row & is_member).sum()),
        nonmembers_found=int((any_row & ~is_member).sum()),
        matches=tuple(match for match, _ in proven),
        suspected=0 if proven else max(unlikely, default=0),
        searches=searches,
        not_searched=(*notes, *form_notes),
    )


def _judge(
    name: str,
    form: Form,
    counts: Ints,
    rows: Floats,
    one_sided: Ints,
    table: Array | None,
    *,
    is_member: Bools,
    comparable: bool,
    repeats_kept: bool,
) -> tuple[ArrayMatch, Bools]:
    """Test whether members stand in an array more often than non-members; each distinct row counts once.

    Args:
        name: of the array.
        form: of the rows.
        counts: stored rows that are equal to each of the rows, ``[n]``.
        rows: ``[n, d]``.
        one_sided: the first of equal rows, of those that are members' alone or non-members' alone.
        table: the stored rows; None where they were compared by some of their columns.
        is_member: bool ``[n]``.
        comparable: whether non-members are a control.
        repeats_kept: whether the members are as they were drawn.
    """
    is_matched = counts > 0
    p_value = 1.0
    is_found = is_matched[one_sided]
    if is_found.any():
        is_members_row = is_member[one_sided]
        n_rows = len(one_sided), int(is_members_row.sum()), int(is_found.sum())
        p_value = float(stats.hypergeom.sf(int((is_members_row & is_found).sum()) - 1, *n_rows))
    control_p_value = None
    if not comparable:
        control_p_value = p_value
        if table is None or not is_matched.any():
            p_value = 1.0
        else:
            p_value = max(p_value, _repetition_p_value(counts, rows, table, is_member, repeats_kept))
    n_matched = int((is_matched & is_member).sum()), int((is_matched & ~is_member).sum())
    return ArrayMatch(name, form, *n_matched, p_value, control_p_value=control_p_value), is_matched


def _find_one_sided(rows: Floats, is_member: Bools) -> Ints:
    """Return the first of equal rows, of those that are members' alone or non-members' alone."""
    _, first_rows, groups = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    sides = np.zeros((len(first_rows), 2), dtype=bool)
    sides[groups.ravel(), is_member.astype(int)] = True
    return first_rows[sides[:, 0] != sides[:, 1]]


def _repetition_p_value(counts: Ints, rows: Floats, table: Array, is_member: Bools, repeats_kept: bool = True) -> float:
    """Return the chance of so many members with a stored twin, if other records drawn as the members were stored.

    Then members and stored records are exchangeable: of two records with one row, which no third has, one is a member
    and one is stored with a probability that follows from their numbers alone. Where neither members nor stored records
    repeat among themselves, every member with a twin is evidence that it is the member that is stored. Where members
    that repeat were taken out, pairs of them are missing, and their share is that of the other pairs alone.
    """
    _, first_rows, n_equal = np.unique(rows[is_member], axis=0, return_index=True, return_counts=True)
    n_twins = counts[is_member][first_rows]
    stored = np.asarray(table, dtype=np.float64)
    stored = stored[np.isfinite(stored).all(axis=1)]
    n_twice = int((np.unique(stored, axis=0, return_counts=True)[1] == 2).sum())
    pairs_across = int(((n_equal == 1) & (n_twins == 1)).sum())
    pairs_within = int(((n_equal == 2) & (n_twins == 0)).sum()) + max(n_twice - int((n_twins == 2).sum()), 0)
    n, m = int(is_member.sum()), len(stored)
    share = 2 * n * m / max((n + m) * (n + m - 1) if repeats_kept else 2 * n * m + m * (m - 1), 1)
    return float(stats.binom.sf(pairs_across - 1, pairs_across + pairs_within, share))


def _record_forms(model: Any, records: Records) -> tuple[list[tuple[Form, Floats]], list[str]]:
    """Return the candidates as they are, as the model is given them, and after each step of its own pipelines."""
    plain = np.asarray(records.x, dtype=np.float64).reshape(len(records), -1)
    forms: list[tuple[Form, Floats]] = [("as they are", plain)]
    target = model.target if isinstance(model, FramedTarget) else model
    if isinstance(target, SklearnTarget | SklearnRegressor):
        estimator, inputs = target.estimator, target.model_inputs(records.copy())
    else:
        is_file = isinstance(target, str | Path)
        estimator = read_model(Path(target)) if is_file and Path(target).suffix.lower() == ".skops" else target
        if not callable(getattr(estimator, "get_params", None)):
            return forms, []
        try:
            inputs = estimator_inputs(estimator, records.copy())
        except InputError as error:
            return forms, [f"the records are not what the model was fitted on ({error})"]
    notes: list[str] = []
    if (table := _as_table(inputs, notes)) is not None:
        forms.append(("as the model is given them", table))
    forms += [("as the model's own steps transform them", rows) for rows in _transform(estimator, inputs, notes)]
    distinct = {store.hash_values(rows): (form, rows) for form, rows in reversed(forms)}
    ordered = list(reversed(distinct.values()))
    if len(ordered) > _MOST_FORMS:
        notes.append(f"{_MOST_FORMS} of {len(ordered)} forms that the model's own steps give the records were searched")
    return ordered[:_MOST_FORMS], list(dict.fromkeys(notes))


def _transform(part: Any, inputs: Any, notes: list[str]) -> Iterator[Floats]:
    """Yield the records after each step of the pipelines in an estimator, each with what it is given."""
    if hasattr(part, "steps"):
        yield from _follow_steps([step for _, step in part.steps if step is not None], inputs, notes)
    elif hasattr(part, "transformers_"):
        for _, transformer, chosen in part.transformers_:
            if not isinstance(transformer, str):
                yield from _select_columns(transformer, chosen, inputs, notes)
    else:
        for inner in direct_parts(part):
            yield from _transform(inner, inputs, notes)


def _follow_steps(steps: Sequence[Any], inputs: Any, notes: list[str]) -> Iterator[Floats]:
    for place, step in enumerate(steps):
        if isinstance(step, str):  # passthrough
            continue
        yield from _transform(step, inputs, notes)
        if place == len(steps) - 1:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inputs = step.transform(inputs)
        except Exception as error:  # a step of the user's own
            if type(error).__name__ != "NotFittedError":  # as the estimator is that a search holds beside its best
                notes.append(f"{type(step).__name__} does not transform the records ({type(error).__name__})")
            return
        if (rows := _as_table(inputs, notes)) is not None:
            yield rows


def _select_columns(transformer: Any, chosen: Any, inputs: Any, notes: list[str]) -> Iterator[Floats]:
    """Yield the columns that a part of a ColumnTransformer is given, and what its own steps make of them."""
    try:
        selected = sklearn_utils._safe_indexing(inputs, chosen, axis=1)
    except Exception as error:  # columns that the records do not have
        notes.append(f"the columns of {type(transformer).__name__} are not found ({type(error).__name__})")
        return
    if (rows := _as_table(selected, notes)) is not None:
        yield rows
    yield from _transform(transformer, selected, notes)


def _as_table(values: Any, notes: list[str]) -> Floats | None:
    """Return what a model is given as float64 ``[n, d]``; None where it is no table of numbers, or too large a one."""
    # A sparse one is small: texts, or a category of each record, have as many columns as there are words or records.
    if (n_values := np.prod(np.shape(values), dtype=float)) > MAX_VALUES:
        notes.append(f"a form of the records has {n_values:,.0f} values, more than {MAX_VALUES:,}")
        return None
    try:
        dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
        return np.nan_to_num(dense.astype(np.float64).reshape(len(dense), -1))
    except (ValueError, TypeError):  # texts
        return None


def _tables(array: ModelArray, width: int, *, flat: bool = True) -> Iterator[Array]:
    """Yield an array as tables of rows ``width`` wide, where it can be one."""
    values = array.values
    if values.dtype.kind not in "iuf" or not width:
        return
    if width == 1 and values.ndim == 1:
        yield values[:, None]
    elif values.ndim >= 2:
        if int(np.prod(values.shape[1:])) == width:
            yield values.reshape(len(values), width)
        if values.ndim == 2 and values.shape[0] == width and values.shape[1] != width:
            yield values.T
    elif flat and values.size % width == 0 and values.size >= 2 * width:
        yield values.reshape(-1, width)
        yield values.reshape(width, -1).T


def _column_tables(array: ModelArray, width: int) -> Iterator[Array]:
    """Yield an array as a table of rows some of whose columns may be some of a record's, in any order."""
    values = array.values
    is_table = values.dtype.kind in "iuf" and values.ndim == 2 and len(values) >= _LEAST_ROWS
    if is_table and min(values.shape[1], width) >= 2 and values.shape[1] * width <= _MOST_PAIRS:
        yield values


def _tolerance(values: Array) -> float:
    """Return to which part of a column's spread numbers are exact: by their type, or the one that they were made of."""
    if values.dtype.kind != "f":
        return _TOLERANCE[8]
    finite = values[np.isfinite(values)]
    is_whole = bool((finite == np.round(finite)).all())
    with np.errstate(over="ignore"):
        if values.dtype.itemsize > 4 and not is_whole and (finite == finite.astype(np.float32)).all():
            return _TOLERANCE[4]
    return _TOLERANCE.get(values.dtype.itemsize, _TOLERANCE[8])


def _scale(rows: Floats) -> Floats:
    """Return the unit of each column in which a tolerance is meant.

    The precision of a stored number is relative to its size, which may be large against the spread of its column.
    """
    scale = np.ptp(rows, axis=0)
    largest = np.abs(rows).max(axis=0)
    return np.maximum(np.where(scale > 0, scale, np.maximum(largest, 1.0)), largest * 1e-1)


def _match_rows(rows: Floats, table: Array, coarse: float) -> Ints:
    """Return how often each of ``rows [n, d]`` stands in ``table [k, d]``, to the precision of the stored numbers."""
    tolerance, relative = max(_tolerance(table), coarse), _scale(rows)
    stored = np.asarray(table, dtype=np.float64)
    stored = stored[np.isfinite(stored).all(axis=1)]
    low, high = rows.min(axis=0) - tolerance * relative, rows.max(axis=0) + tolerance * relative
    stored = stored[((stored >= low) & (stored <= high)).all(axis=1)]
    if not len(stored):
        return np.zeros(len(rows), dtype=np.int64)
    distances, places = spatial.KDTree(stored / relative).query(
        rows / relative, p=np.inf, distance_upper_bound=2 * tolerance
    )
    is_near = np.isfinite(distances)
    if not is_near.any():
        return np.zeros(len(rows), dtype=np.int64)
    _, groups, n_equal = np.unique(stored / relative, axis=0, return_inverse=True, return_counts=True)
    return np.where(is_near, n_equal[groups.ravel()[np.minimum(places, len(stored) - 1)]], 0)


def _match_columns(rows: Floats, table: Array, coarse: float) -> tuple[Ints, Floats]:
    """Return how often each row stands in ``table`` by at least two of their columns, in any order, and these columns.

    The column with most values in a column of the table pairs rows with stored rows; other columns must agree on them.
    """
    stored = np.asarray(table, dtype=np.float64)
    stored = stored[np.isfinite(stored).all(axis=1)]
    nothing = np.zeros(len(rows), dtype=np.int64), stored[:, :0]
    if len(stored) < _LEAST_ROWS:
        return nothing
    tolerance = max(_tolerance(table), coarse)
    margins = 2 * tolerance * _scale(rows)
    varying = np.flatnonzero(np.ptp(rows, axis=0) > 0)
    samples = {c: _sample_values(rows[:, c]) for c in varying}
    ordered = [np.unique(column) for column in stored.T]
    hits = [
        (int((np.abs(values[_nearest(samples[c], values)] - samples[c]) <= margins[c]).sum()), c, s)
        for s, values in enumerate(ordered)
        for c in varying
    ]
    best: tuple[Ints, Floats] = nothing
    for n_hits, c, s in sorted(hits, key=lambda hit: (-hit[0], hit[1] != hit[2]))[:_ANCHORS]:
        if n_hits < _LEAST_HITS:
            break
        order = np.argsort(stored[:, s], kind="stable")
        nearest = order[_nearest(rows[:, c], stored[order, s])]
        pairs = np.abs(stored[nearest, s] - rows[:, c]) <= margins[c]
        chosen = {c: s}
        for column in varying:
            free = np.setdiff1d(np.arange(stored.shape[1]), list(chosen.values()))
            if column == c or not len(free) or not np.ptp(rows[pairs, column]) > 0:
                continue
            differences = np.abs(stored[nearest[pairs]][:, free] - rows[pairs][:, [column]])
            agreement = (differences <= margins[column]).mean(axis=0)
            if agreement.max() >= _AGREEMENT:
                chosen[int(column)] = int(free[agreement.argmax()])
        if len(chosen) > max(best[1].shape[1], 1):
            columns, compared = list(chosen), stored[:, list(chosen.values())]
            best = _match_rows(rows[:, columns], compared, tolerance), compared
    return best


def _nearest(values: Floats, ordered: Floats) -> Ints:
    """Return the place of the nearest of some ordered values."""
    above = np.clip(np.searchsorted(ordered, values), 1, max(len(ordered) - 1, 1))
    above = np.minimum(above, len(ordered) - 1)
    below = np.maximum(above - 1, 0)
    return np.where(np.abs(ordered[above] - values) <= np.abs(ordered[below] - values), above, below)


def _sample_values(column: Floats) -> Floats:
    """Return distinct values of a column, spread evenly over all of them where they are many."""
    values = np.unique(column)
    return values[np.linspace(0, len(values) - 1, min(len(values), _N_VALUES)).astype(int)]


def _match_affine(rows: Floats, table: Array, rng: np.random.Generator, coarse: float) -> Ints:
    """Return how often each row stands in ``table`` after the map ``a_j x_j + b_j`` of columns that matches most rows.

    Two stored rows are taken for two candidates, which fixes the map; a third tests it, then all.
    """
    best = np.zeros(len(rows), dtype=np.int64)
    stored = np.asarray(table, dtype=np.float64)
    stored = np.unique(stored[np.isfinite(stored).all(axis=1)], axis=0)
    varies = (np.ptp(rows, axis=0) > 0) & (np.ptp(stored, axis=0) > 0 if len(stored) else False)
    if len(stored) < _LEAST_ROWS or varies.sum() < 2 or (np.ptp(stored, axis=0)[~varies] > 0).any():
        return best
    tolerance = 10 * max(_tolerance(table), coarse)
    distinct = np.unique(rows[:, varies], axis=0)
    values = [np.unique(column) for column in distinct.T]
    for _ in range(_TRIALS):
        order = rng.permutation(len(distinct))
        pairs = distinct[order[:_N_FIRST]], distinct[order[-_N_SECOND:]]
        places = rng.choice(len(stored), 3, replace=False)
        for slope, shift in _fit_maps(pairs, values, stored[places][:, varies], tolerance):
            moved = rows.copy()
            moved[:, varies] = rows[:, varies] * slope + shift
            moved[:, ~varies] = stored[0, ~varies]
            counts = _match_rows(moved, table, coarse)
            if (counts > 0).sum() > (best > 0).sum():
                best = counts
        if (best > 0).sum() >= max(3, len(stored) // 2):
            break
    return best if (best > 0).sum() > 2 else np.zeros(len(rows), dtype=np.int64)


def _fit_maps(
    pairs: tuple[Floats, Floats], values: Sequence[Floats], stored: Floats, tolerance: float, max_maps: int = 5
) -> Iterator[tuple[Floats, Floats]]:
    """Yield maps under which two stored rows are two candidates, and a third is another one in every column.

    Args:
        pairs: candidates for the first stored row ``[n, d]``, and for the second ``[m, d]``.
        values: distinct values of each column of all candidates, in order.
        stored: three stored rows ``[3, d]``.
        tolerance: relative to the spread of a column.
        max_maps: how many are tried, at most.
    """
    (candidates_a, candidates_b), (stored_a, stored_b, stored_c) = pairs, stored
    stored_gap = stored_a - stored_b
    columns = sorted(range(len(values)), key=lambda j: -len(values[j]))
    moving = [j for j in columns if stored_gap[j] != 0]
    if not moving:
        return
    first = moving[0]
    ratio = float((stored_c - stored_b)[first] / stored_gap[first])
    p, q = _find_thirds(candidates_a[:, first], candidates_b[:, first], ratio, values[first], tolerance)
    for j in columns:
        gap = candidates_a[p, j] - candidates_b[q, j]
        fits = (gap != 0) if stored_gap[j] != 0 else (gap == 0)
        p, q, gap = p[fits], q[fits], gap[fits]
        if not len(p):
            return
        if stored_gap[j] == 0:
            continue
        # The third row, mapped back to the candidates' own scale, must be a value of the column.
        expected = candidates_b[q, j] + (stored_c[j] - stored_b[j]) * gap / stored_gap[j]
        fits = np.abs(values[j][_nearest(expected, values[j])] - expected) <= tolerance * np.ptp(values[j])
        p, q = p[fits], q[fits]
    for a, b in list(zip(p, q, strict=True))[:max_maps]:
        gap = candidates_a[a] - candidates_b[b]
        if (gap == 0).any():
            continue  # the map of a column in which both are alike is not fixed by them
        slope = stored_gap / gap
        if (slope == 0).any():
            continue
        yield slope, stored_a - slope * candidates_a[a]


def _find_thirds(a: Floats, b: Floats, ratio: float, values: Floats, tolerance: float) -> Ints:
    """Return the pairs ``[2, k]`` for which ``b + ratio (a - b)`` may be one of the values, and a few others.

    Half a million pairs are looked up in a table of cells, as searching them in the values would take most of an audit.
    """
    n_cells = int(min(2**20, 0.5 / tolerance))
    unit = n_cells / np.ptp(values)
    if not np.isfinite([unit, ratio * n_cells]).all():
        return np.zeros((2, 0), dtype=np.int64)
    is_near = np.zeros(n_cells + 5, dtype=bool)
    cells = ((values - values[0]) * unit).astype(np.int64) + 2
    for neighbour in (-1, 0, 1):
        is_near[cells + neighbour] = True
    expected = np.add.outer((a - values[0]) * unit * ratio, (b - values[0]) * unit * (1 - ratio) + 2)
    return np.array(np.nonzero(is_near[np.clip(expected, 0, n_cells + 4, out=expected).astype(np.int32)]))
