"""Features that are the target under another name: what it says of a record depends on membership."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from divulge import user_code
from divulge.errors import InputError

if TYPE_CHECKING:
    from divulge.types import AuditData


def refuse_target_as_features(subject: AuditData, target: Any) -> AuditData:
    """Return the data, with the object that "module:function" names in its place; refuse features of the target's own.

    Raises:
        divulge.InputError: the features are the target, a method of it, or a torch module most of whose parameters are
            the target's: itself, a copy, a part, or a module around it.
    """
    features = subject.features
    if isinstance(features, str) and ":" in features:
        features = user_code.import_object(features, "features").value
        subject = replace(subject, features=features)
    if features is None:
        return subject
    if features is target or getattr(features, "__self__", None) is target:
        raise InputError("features: the model under audit itself: what it says of a record depends on membership")
    module, target_module = _find_module(features) if callable(features) else None, _find_module(target)
    if module is None or target_module is None:
        return subject
    share = max(_shared_share(module, target_module), _shared_share(target_module, module))
    if share > _MAX_SHARED:
        raise InputError(
            f"features: {100 * share:.0f} % of its parameters are those of the model under audit, and what they say of "
            "a record depends on membership; give another network, or, where they were frozen while that model was "
            "trained, their outputs as an array for each set"
        )
    return subject


_MAX_SHARED = 0.5  # of the numbers in the parameters
_HOLDERS = ("__self__", "func", "module", "module_", "model", "target")  # attributes that may hold a torch module
_MAX_DEPTH = 4


def _find_module(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return the torch module that an object is or holds; None without one."""
    torch = sys.modules.get("torch")
    if torch is None or value is None or not depth:
        return None
    if isinstance(value, torch.nn.Module):
        return value
    inner_values = (getattr(value, name, None) for name in _HOLDERS)
    return next((module for inner in inner_values if (module := _find_module(inner, depth - 1)) is not None), None)


def _shared_share(module: Any, other: Any) -> float:
    """Return the share of the numbers in a module's parameters that are another module's, too."""
    torch = sys.modules["torch"]
    own, others = (
        [p.detach() for p in each.parameters() if not torch.nn.parameter.is_lazy(p) and not p.is_meta]
        for each in (module, other)
    )
    by_shape: dict[Any, list[Any]] = {}
    for tensor in others:
        by_shape.setdefault(tensor.shape, []).append(tensor)
    n_shared = sum(t.numel() for t in own if any(_is_same(t, each) for each in by_shape.get(t.shape, [])))
    return n_shared / max(1, sum(t.numel() for t in own))


def _is_same(tensor: Any, other: Any) -> bool:
    """Check that two parameters lie in one place, or have equal values that are not all the same, as fresh biases are.

    A copy of lower precision is compared in that precision.
    """
    if tensor.device == other.device and tensor.data_ptr() == other.data_ptr():
        return True
    coarse = min(tensor.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
    first, second = tensor.to("cpu", coarse), other.to("cpu", coarse)
    return bool((first == second).all()) and bool((first != first.flatten()[:1]).any())
