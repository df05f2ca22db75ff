"""Every array of a model: attributes of estimators, weights of networks, numbers in files of other libraries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy, store
from divulge.errors import InputError
from divulge.targets.estimators import Regressor, SklearnRegressor, SklearnTarget
from divulge.targets.onnx import OnnxTarget
from divulge.targets.rights import FramedTarget, GivesWeights
from divulge.targets.sacro_folders import is_sacro_folder, read_sacro_folder, refuse_pickle
from divulge.targets.skops_files import read_skops

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx
    from safetensors import numpy as tensors

    from divulge.types import Array
else:
    onnx = lazy.module("onnx")
    tensors = lazy.module("safetensors.numpy")

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
    kept: list[Any] = []  # of what is made on the way: an object that is gone might lend its id to another
    pending: list[tuple[str, Any]] = [("", model)]
    while pending and len(visited) < _MAX_PARTS:
        name, part = pending.pop()
        if part is None or isinstance(part, str | bytes | bool | int | float | complex | type):
            continue
        if id(part) in visited:
            continue
        visited.add(id(part))
        kept.append(part)
        if isinstance(part, np.ndarray) and part.dtype.names:
            pending += [(f"{name}.{field}", part[field]) for field in part.dtype.names]
        elif isinstance(part, np.ndarray) and part.dtype.kind in "iufb":
            yield ModelArray(name, part)
        elif (numbers := _as_numbers(part)) is not None:
            yield ModelArray(name, numbers)
        else:
            pending += [(f"{name}.{key}".lstrip("."), value) for key, value in _children(part)]


def _as_numbers(part: Any) -> Array | None:
    """Return a sparse matrix, or a list of numbers or of equally long lists of numbers, as an array."""
    if callable(getattr(part, "toarray", None)) and hasattr(part, "shape"):
        return part.toarray() if np.prod(part.shape, dtype=float) <= MAX_VALUES else part.data
    if isinstance(part, list | tuple) and part and isinstance(part[0], int | float | list | tuple):
        try:
            values = np.asarray(part)
        except (ValueError, OverflowError):
            return None
        return values if values.dtype.kind in "iuf" else None
    return None


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
    if type(part).__name__ in ("KDTree", "BallTree") and module.startswith("sklearn."):
        return [("data", np.asarray(part.data))]
    if type(part).__name__ == "Tree" and module.startswith("sklearn."):
        state = part.__getstate__()
        return [("nodes", state["nodes"]), ("values", state["values"])]
    if isinstance(part, np.random.RandomState | np.random.Generator):
        return []
    return list(vars(part).items()) if hasattr(part, "__dict__") else []


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
