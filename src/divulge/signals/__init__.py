"""Answers of a model into one number per record, larger = more like a member."""

from divulge.signals import classification, internals, margin, regression, tokens, versions
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness
from divulge.signals.gradient_matching import GradientMatching
from divulge.signals.mrad import MRAD
from divulge.signals.named import OutputSignal
from divulge.signals.recall import PreparedReCaLL, ReCaLL

__all__ = [
    "MRAD",
    "BoundaryDistance",
    "GradientMatching",
    "NoiseRobustness",
    "OutputSignal",
    "PreparedReCaLL",
    "ReCaLL",
    "classification",
    "internals",
    "margin",
    "regression",
    "tokens",
    "versions",
]
