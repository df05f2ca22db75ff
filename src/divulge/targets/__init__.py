"""A question into a model's answer: one small Protocol a right, one adapter a kind of model.

Adapters of optional libraries are imported on first use; `adapt` finds the one that fits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from divulge.targets.arrays import CallableTarget, TableTarget
from divulge.targets.limits import Metered, Noisy, Rounded
from divulge.targets.rights import GivesGradients, GivesHead, GivesLabels, GivesLogits, GivesLoss, GivesWeights, adapt

if TYPE_CHECKING:
    from divulge.targets.estimators import SklearnTarget
    from divulge.targets.files import load
    from divulge.targets.modules import TorchTarget
    from divulge.targets.onnx import OnnxTarget

_HOMES = {
    "OnnxTarget": "divulge.targets.onnx",
    "SklearnTarget": "divulge.targets.estimators",
    "TorchTarget": "divulge.targets.modules",
    "load": "divulge.targets.files",
}

__all__ = [
    "CallableTarget",
    "GivesGradients",
    "GivesHead",
    "GivesLabels",
    "GivesLogits",
    "GivesLoss",
    "GivesWeights",
    "Metered",
    "Noisy",
    "OnnxTarget",
    "Rounded",
    "SklearnTarget",
    "TableTarget",
    "TorchTarget",
    "adapt",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'divulge.targets' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
