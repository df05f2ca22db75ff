"""A question into a model's answer: one small Protocol per right, one adapter per kind of model.

Adapters of networks are imported on first use, as torch may be missing; `adapt` finds the one that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from divulge import lazy
from divulge.targets.endpoint import ChatEndpoint, Endpoint, GivesText
from divulge.targets.estimators import Regressor, SklearnRegressor, SklearnTarget, as_regressor
from divulge.targets.files import load
from divulge.targets.onnx import OnnxTarget
from divulge.targets.outputs import CallableTarget, TableTarget
from divulge.targets.rights import (
    Averaged,
    FramedTarget,
    GivesGradientNorms,
    GivesGradients,
    GivesHead,
    GivesLabels,
    GivesLogits,
    GivesLoss,
    GivesPredictions,
    GivesWeights,
    Metered,
    Noisy,
    Rounded,
    Task,
    adapt,
    adapt_output_model,
    declared_modality,
    is_label_only,
    is_language_model,
    is_regression_model,
    wrap_target,
)
from divulge.targets.token_statistics import Continuations, Decoding, GivesContinuations, GivesTokens, TokenStatistics

if TYPE_CHECKING:
    from divulge.targets.language_models import CausalLM, VisionLanguage
    from divulge.targets.text_classifiers import TextClassifier
    from divulge.targets.torch_modules import TorchTarget

_NETWORK_ADAPTERS = {
    "CausalLM": "divulge.targets.language_models",
    "TextClassifier": "divulge.targets.text_classifiers",
    "TorchTarget": "divulge.targets.torch_modules",
    "VisionLanguage": "divulge.targets.language_models",
}

__all__ = [
    "CallableTarget",
    "CausalLM",
    "ChatEndpoint",
    "Continuations",
    "Decoding",
    "Endpoint",
    "FramedTarget",
    "GivesContinuations",
    "GivesGradientNorms",
    "GivesGradients",
    "GivesHead",
    "GivesLabels",
    "GivesLogits",
    "GivesLoss",
    "GivesPredictions",
    "GivesText",
    "GivesTokens",
    "GivesWeights",
    "Averaged",
    "Metered",
    "Noisy",
    "OnnxTarget",
    "Regressor",
    "Rounded",
    "SklearnRegressor",
    "SklearnTarget",
    "TableTarget",
    "Task",
    "TextClassifier",
    "TokenStatistics",
    "TorchTarget",
    "VisionLanguage",
    "adapt",
    "adapt_output_model",
    "as_regressor",
    "declared_modality",
    "is_label_only",
    "is_language_model",
    "is_regression_model",
    "load",
    "wrap_target",
]


def __getattr__(name: str) -> Any:
    if name not in _NETWORK_ADAPTERS:
        raise AttributeError(f"module 'divulge.targets' has no attribute {name!r}")
    return getattr(lazy.module(_NETWORK_ADAPTERS[name]), name)  # says which extra is missing
