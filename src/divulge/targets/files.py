"""Models in files, loaded without ever running what somebody sent."""

from __future__ import annotations

import contextlib
import inspect
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import errors, lazy, user_code
from divulge.errors import InputError
from divulge.targets.endpoint import Endpoint
from divulge.targets.estimators import as_regressor
from divulge.targets.onnx import OnnxTarget
from divulge.targets.rights import adapt
from divulge.targets.sacro_folders import CONVERTER, is_sacro_folder, read_sacro_folder, refuse_pickle
from divulge.targets.skops_files import read_skops
from divulge.validation import as_list, check_path, check_string, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from safetensors import torch as tensors

    from divulge.targets import folders, torch_modules
    from divulge.targets.rights import Task
else:
    folders = lazy.module("divulge.targets.folders")
    torch_modules = lazy.module("divulge.targets.torch_modules")
    tensors = lazy.module("safetensors.torch")


SAFE = ".safetensors (with a factory), .onnx, .skops, .gguf, a Hugging Face folder"
_SUFFIXES = (".safetensors", ".onnx", ".skops", ".gguf")
_LOAD_YOURSELF = "load it in your own code and pass the module, or name that code as 'package.module:callable'"
_SAVE_WEIGHTS = "save the weights with safetensors.torch.save_file and name a factory"

_SAVED_ANSWERS = (
    "write its answers to the records into a table where it runs, and audit those: divulge.targets.TableTarget(ids, "
    "probabilities, outputs='probabilities'), in a plan a function that returns it, named as 'package.module:callable'"
)
_EXPORT_KERAS = (
    "in Keras 3, model.export('model.onnx', format='onnx') writes one that can be read; before, tf2onnx does"
)

# What is refused, and the way on: all of these are programs, or are read by unpickling, which runs one.
REFUSED = {
    "TorchScript": f"is a program, which can write files; if you trust it, {_LOAD_YOURSELF}",
    "torch.export": f"is unpickled and evaluated by torch as it is opened; if you trust it, {_LOAD_YOURSELF}",
    "torch.save": f"is a pickle; {_SAVE_WEIGHTS}; a whole module that you trust: {_LOAD_YOURSELF}",
    "pickle": f"is a program; where it was made, {CONVERTER} turns a scikit-learn model into .skops; for torch, "
    f"{_SAVE_WEIGHTS}",
    "Keras": f"may hold pickled functions; {_EXPORT_KERAS}",
    "HDF5": f"may hold pickled functions; {_EXPORT_KERAS}",
    "R": f"holds objects of R, which may be code; {_SAVED_ANSWERS}",
}
# What nothing here reads, though it may be no program.
_UNREAD = {
    "PMML": f"is read by evaluators of its own; {_SAVED_ANSWERS}",
    "TensorFlow": "is no .onnx file; tf2onnx makes one of it",
    "document": "is no model; documents are records (members, nonmembers, population)",
}
_TYPES_BY_SUFFIX = {
    ".pkl": "pickle", ".pickle": "pickle", ".joblib": "pickle", ".pth": "pickle", ".pt": "torch.save",
    ".ckpt": "torch.save", ".keras": "Keras", ".h5": "HDF5", ".hdf5": "HDF5", ".rds": "R", ".rda": "R", ".rdata": "R",
    ".pmml": "PMML", ".pb": "TensorFlow", ".tflite": "TensorFlow", ".docx": "document", ".pdf": "document",
    ".doc": "document", ".odt": "document",
}  # fmt: skip
_BOOSTING_BY_SUFFIX = {".cbm": "CatBoost", ".ubj": "XGBoost"}
_BOOSTER_LOADERS = {
    "LightGBM": "lightgbm.Booster(model_file=…)",
    "XGBoost": "xgboost.Booster(model_file=…)",
    "CatBoost": "catboost.CatBoost().load_model(…)",
}


def load(
    model: str,
    *,
    factory: str | Callable[[], Any] | None = None,
    outputs: str = "logits",
    device: str = "auto",
    folder: Path | None = None,
    trust: Sequence[str] = (),
    base: str | None = None,
    dtype: str | None = None,
    bos: str | None = None,
    endpoint: str | None = None,
    labels_only: bool = False,
    names: Sequence[str] | None = None,
    task: Task = "auto",
    output: str | None = None,
) -> Any:
    """Load the target that ``model`` names: a file, a Hugging Face folder, or ``"package.module:callable"``.

    Args:
        model: path of a file (`SAFE` lists the kinds); a Hugging Face folder, or ``hf:NAME`` on the hub, of a causal
            language model, a sequence classifier, or a LoRA adapter of one of them; or the name of a model, of a
            function from records to outputs, or of a function that takes nothing and returns one of them.
        factory: builds the empty module whose weights a ``.safetensors`` file holds; a callable or its name.
        outputs: "logits" or "probabilities": what the model returns.
        device: where a torch module runs.
        folder: relative paths start here, and named modules are looked for here first
            (`divulge.user_code.import_object`).
        trust: full names of types that a ``.skops`` file may be built from beside scikit-learn's own.
        base: of a LoRA adapter: a folder or ``hf:NAME``; what its configuration names when None.
        dtype: of a Hugging Face model: "float32" (the default), "bfloat16" or "float16".
        bos: of a causal language model: "tokenizer" (the default), "add" or "none", see `divulge.targets.CausalLM`.
        endpoint: address of an OpenAI-compatible server, ``http://…/v1``, that has a language model of this name.
        labels_only: whether a named object, or an estimator in a file, that gives labels and no logits will do.
        names: of the classes, see `divulge.targets.adapt`.
        task: "auto", "classification" or "regression", see `divulge.targets.adapt`.
        output: name of the output to read of an ``.onnx`` file, see `divulge.targets.OnnxTarget`.

    Raises:
        divulge.InputError: no such file, a kind that cannot be opened safely, weights that do not fit, a name that
            cannot be imported, types that are not trusted, an adapter without its base.
    """
    only_onnx = f"only .onnx files have named outputs, and {model} is none"
    _reject_options(output=None if model.lower().endswith(".onnx") else output, reason=only_onnx)
    if endpoint is not None:
        _reject_options(base=base, dtype=dtype, bos=bos, factory=factory, reason="a model behind an endpoint has none")
        return Endpoint(endpoint, model)
    path = check_path(Path(folder or ".") / check_string(model, "target.model"), "target.model")
    if is_sacro_folder(path):
        try:
            model_path = read_sacro_folder(path).model
            refuse_pickle(model_path, "model")
        except InputError as error:
            raise InputError(f"target.{error}") from None
        return load(
            str(model_path), factory=factory, outputs=outputs, device=device, trust=trust, labels_only=labels_only,
            names=names, task=task,
        )  # fmt: skip
    if (
        path.is_dir()
        or (path.is_file() and path.suffix.lower() == ".gguf")
        or (model.startswith("hf:") and not path.exists())
    ):
        options = {} if bos is None else {"bos": bos}
        return folders.load_folder(model, base=base, dtype=dtype or "float32", device=device, folder=folder, **options)
    is_import_path = ":" in model and not path.exists()
    if not is_import_path and not path.is_file():
        raise InputError(f"target.model: no such file or folder: {path} (and no 'module:callable' either)")
    _reject_options(base=base, dtype=dtype, bos=bos, reason=f"only Hugging Face folders have one, and {path} is none")
    if is_import_path:
        return adapt(
            _import_model(model, folder),
            outputs=outputs,
            device=device,
            labels_only=labels_only,
            names=names,
            task=task,
        )
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return adapt(_load_safetensors(path, factory, folder), outputs=outputs, device=device, task=task)
    if suffix == ".skops":
        trusted = [check_string(name, "trust") for name in as_list(trust, "trust")]
        return adapt(
            read_skops(path, trusted), outputs=outputs, device=device, labels_only=labels_only, names=names, task=task
        )
    if suffix == ".onnx":
        onnx_target = _load_onnx(path, outputs, output)
        return as_regressor(onnx_target) if task == "regression" else onnx_target
    raise _not_loadable(path)


def refuse_unsafe_file(path: Path) -> None:
    """Refuse a file that cannot be loaded without running code from it; what is not there yet is left to `load`.

    Raises:
        divulge.InputError: the file is there and is none of .safetensors, .skops and .onnx.
    """
    if path.is_file() and path.suffix.lower() not in _SUFFIXES:
        raise _not_loadable(path)


def _not_loadable(path: Path) -> InputError:
    if library := _detect_boosting_library(path):
        trust = "; such a file needs trust = ['catboost.core.CatBoostClassifier']" if library == "CatBoost" else ""
        return InputError(
            f"target.model: {path} is a file of {library}'s own, which lacks what the estimator in Python knows of "
            f"its classes and columns; save that by skops.io.dump(model, 'model.skops'), and name the .skops{trust}. "
            f"Without an estimator, load the file in your own code by {_BOOSTER_LOADERS[library]} and pass what that "
            "returns: the error then names the function to pass in its place"
        )
    file_type = _detect_file_type(path)
    described = f"{'an' if file_type in ('R', 'HDF5') else 'a'} {file_type} file"
    if file_type in REFUSED:
        fault = f"cannot be loaded without running code from it: {described} {REFUSED[file_type]}"
    elif file_type:
        fault = f"cannot be read as a model: {described} {_UNREAD[file_type]}"
    else:
        fault = (
            f"cannot be read as a model: its kind ({path.suffix or 'no ending'}) is not known here; {_SAVED_ANSWERS}"
        )
    return InputError(f"target.model: {path} {fault}. What can be read: {SAFE}")


def _reject_options(reason: str, **options: Any) -> None:
    """Raise if any of these options was given."""
    for key, value in options.items():
        if value is not None:
            raise InputError(f"target.{key}: {reason}")


def _load_onnx(path: Path, outputs: str, output: str | None) -> OnnxTarget:
    try:
        return OnnxTarget(path, outputs=outputs, output=output)
    except InputError as error:
        raise InputError(f"target.model: {error}") from None


def _import_model(name: str, folder: Path | None) -> Any:
    """Import the model of this name, or call the function of this name for one."""
    value = user_code.import_object(name, "target.model", folder).value
    if not (inspect.isroutine(value) or inspect.isclass(value)) or _requires_arguments(value):
        return value
    with errors.user_code_errors(f"target.model: {name!r}"):
        return value()


def _requires_arguments(function: Any) -> bool:
    """Check whether a function needs arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in
        return True
    return any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _load_safetensors(path: Path, factory: Any, folder: Path | None) -> Any:
    """Load the weights of a file into the factory's module."""
    if factory is None:
        raise InputError(f"target.factory: {path} holds only weights; name the callable that builds the module")
    read_weights = tensors.load_file
    build_module = (
        user_code.import_object(factory, "target.factory", folder).value if isinstance(factory, str) else factory
    )
    with errors.user_code_errors(f"target.factory: {format_value(factory)}"):
        module = build_module()
    try:
        weights = read_weights(path)
        dtypes = {name: str(value.dtype) for name, value in weights.items()}
        torch_modules.reject_quantised_weights(dtypes, module.state_dict())
        module.load_state_dict(weights)
    except Exception as error:
        raise InputError(f"target.model: {path} does not fit the factory's module ({error})") from None
    return module


def _detect_boosting_library(path: Path) -> str:
    """Return the library of boosted trees whose own format a file has; empty for none of them."""
    with path.open("rb") as file:
        head = file.read(1 << 16)
    if head.startswith(b"CBM1"):
        return "CatBoost"
    if head.startswith(b"tree\nversion="):
        return "LightGBM"
    if b'"learner"' in head or (head.startswith(b"{L") and b"learner" in head[:64]):
        return "XGBoost"
    if path.suffix.lower() == ".json" and b'"features_info"' in head:
        return "CatBoost"
    return _BOOSTING_BY_SUFFIX.get(path.suffix.lower(), "")


def _detect_file_type(path: Path) -> str:
    """Return the type of a file among `REFUSED` and `_UNREAD`, by content, then by name; empty for none of them."""
    by_name = _TYPES_BY_SUFFIX.get(path.suffix.lower(), "")
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        entries = archive.namelist()
        parts = {part for entry in entries for part in entry.split("/")}
        if "archive_format" in parts or "serialized_exported_program.json" in parts:
            return "torch.export"
        if "code" in parts or "constants.pkl" in parts:
            return "TorchScript"
        if {"metadata.json", "config.json"} <= parts:
            return "Keras"
        return "torch.save" if any(entry.endswith(".pkl") for entry in entries) else by_name
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"\x89HDF"):
        return "HDF5"
    return "pickle" if head[:1] == b"\x80" else by_name
