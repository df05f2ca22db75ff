"""Models in files, loaded without ever unpickling what somebody sent."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divulge import checks
from divulge.targets.rights import adapt

if TYPE_CHECKING:
    from collections.abc import Callable

    from divulge.targets.rights import GivesLogits

SAFE = ".safetensors (with a factory), .onnx, .skops, .pt2 (torch.export), .pt/.ts (TorchScript)"


def load(
    model: str,
    *,
    factory: str | Callable[[], Any] | None = None,
    outputs: str = "logits",
    device: str = "auto",
    folder: Path | None = None,
) -> GivesLogits:
    """The target that ``model`` names: a file, or ``"package.module:callable"`` that returns a model.

    Args:
        model: path of a file (`SAFE` lists the kinds), or a callable's name.
        factory: builds the empty module whose weights a ``.safetensors`` file holds; a callable or its name.
        outputs: "logits" or "probabilities": what the model returns.
        device: where a torch module runs.
        folder: relative paths start here; modules here can be imported.

    Raises:
        divulge.InputError: no such file, a pickle, weights that do not fit, a name that cannot be imported.
    """
    path = Path(folder or ".") / model
    if not path.exists() and ":" in model:
        return adapt(named(model, "target.model", folder)(), outputs=outputs, device=device)
    if not path.is_file():
        raise checks.InputError(f"target.model: no such file: {path} (and no 'package.module:callable' either)")
    readers = {".safetensors": _safetensors, ".skops": _skops, ".onnx": _onnx, ".pt2": _exported}
    read = readers.get(path.suffix.lower())
    if read is None:
        _refuse_pickle(path)
        read = _torchscript
    return read(path, factory=factory, outputs=outputs, device=device, folder=folder)


def named(name: str, key: str, folder: Path | None = None) -> Any:
    """The object that ``"package.module:attribute"`` names; modules in ``folder`` can be imported.

    Examples:
        >>> named("math:sqrt", "target.model")(4.0)
        2.0
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise checks.InputError(f"{key}: 'package.module:callable' is needed, got {name!r}")
    place = str(Path(folder or ".").resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise checks.InputError(f"{key}: {name!r} cannot be imported ({error})") from None
    return found


def _refuse_pickle(path: Path) -> None:
    """TorchScript archives carry code; anything else that is left over here is a pickle or unknown."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any("/code/" in name or name.startswith("code/") for name in archive.namelist()):
                return
    raise checks.InputError(
        f"target.model: {path} is not of a kind that can be loaded without running code from it (pickle, joblib "
        f"and torch.save files are refused); give one of: {SAFE}"
    )


def _safetensors(path: Path, *, factory: Any, outputs: str, device: str, folder: Path | None) -> GivesLogits:
    if factory is None:
        raise checks.InputError(f"target.factory: {path} holds only weights; name the callable that builds the module")
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise checks.extra("torch", "torch") from None
    module = (named(factory, "target.factory", folder) if isinstance(factory, str) else factory)()
    try:
        module.load_state_dict(load_file(path))
    except Exception as error:
        raise checks.InputError(f"target.model: {path} does not fit the factory's module ({error})") from None
    return adapt(module, outputs=outputs, device=device)


def _skops(path: Path, *, outputs: str, device: str, **_: Any) -> GivesLogits:
    try:
        import skops.io
    except ImportError:
        raise checks.extra("skops", "sklearn") from None
    try:
        untrusted = skops.io.get_untrusted_types(file=path)
        if untrusted:
            raise checks.InputError(f"target.model: {path} holds types that are not trusted: {', '.join(untrusted)}")
        return adapt(skops.io.load(path), outputs=outputs, device=device)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        if isinstance(error, checks.InputError):
            raise
        raise checks.InputError(f"target.model: {path} is not a readable skops file ({error})") from None


def _onnx(path: Path, *, outputs: str, **_: Any) -> GivesLogits:
    from divulge.targets.onnx import OnnxTarget

    return OnnxTarget(path, outputs=outputs)


def _exported(path: Path, *, outputs: str, device: str, **_: Any) -> GivesLogits:
    return _opened(path, "torch.export", lambda torch: torch.export.load(path).module(), outputs, device)


def _torchscript(path: Path, *, outputs: str, device: str, **_: Any) -> GivesLogits:
    return _opened(path, "TorchScript", lambda torch: torch.jit.load(str(path), map_location="cpu"), outputs, device)


def _opened(path: Path, kind: str, read: Callable[[Any], Any], outputs: str, device: str) -> GivesLogits:
    """A module that stands whole in a file, graph and weights."""
    try:
        import torch
    except ImportError:
        raise checks.extra("torch", "torch") from None
    try:
        module = read(torch)
    except Exception as error:
        raise checks.InputError(f"target.model: {path} is not a readable {kind} file ({error})") from None
    return adapt(module, outputs=outputs, device=device)
