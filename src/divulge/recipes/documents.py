"""The recipes for documents, where the target is a language model."""

from __future__ import annotations

from functools import cache

from divulge.attacks import (
    RMIA,
    WBC,
    Calibrated,
    Learned,
    LiRA,
    QuantileRegression,
    SequenceLiRA,
    Threshold,
)
from divulge.recipes.recipe import Recipe
from divulge.signals import ReCaLL


@cache
def document_recipes() -> tuple[Recipe, ...]:
    """Return the recipes that `divulge.audit` knows where the target is a language model, in the order of the report.

    Several are called as their counterparts for classifiers are: the same attack, on the likelihood of the document.

    Examples:
        >>> [recipe.name for recipe in document_recipes()][:4]
        ['loss', 'zlib', 'min-k', 'min-k++']
    """
    likelihood = "log_likelihood"
    return (
        Recipe(
            "loss", likelihood, Threshold(), summary="LOSS: how likely the tokens are on average (Yeom et al. 2018)"
        ),
        Recipe("zlib", "zlib", Threshold(), summary="likelihood over compressed size (Carlini et al. 2021)"),
        Recipe("min-k", "min_k", Threshold(), summary="likelihood of the least likely tokens (Shi et al. 2024)"),
        Recipe("min-k++", "min_k_plus", Threshold(), summary="the same, standardised (Zhang et al. 2025)"),
        Recipe("entropy", "modified_entropy", Threshold(), summary="modified entropy (Song & Mittal 2021)"),
        Recipe(
            "recall",
            ReCaLL(),
            Threshold(),
            summary="likelihood after other documents over likelihood alone (Xie et al. 2024)",
        ),
        Recipe(
            "base-ratio",
            likelihood,
            Calibrated(),
            "base",
            "likelihood relative to the model that was fine-tuned (Carlini et al. 2021)",
        ),
        Recipe(
            "reference-ratio",
            likelihood,
            Calibrated(),
            "out",
            "likelihood relative to fine-tunes on other documents (Watson et al. 2022)",
        ),
        Recipe(
            "wbc",
            likelihood,
            WBC(),
            "base",
            "share of windows likelier than under the model that was fine-tuned (Chen et al. 2026)",
        ),
        Recipe("windows", likelihood, WBC(), "out", "the same, relative to fine-tunes on other documents"),
        Recipe("lira", likelihood, LiRA(mode="offline"), "out", "offline likelihood ratio (Carlini et al. 2022)"),
        Recipe(
            "lira-sequence",
            likelihood,
            SequenceLiRA(),
            "out",
            "offline likelihood ratio over correlated tokens (after Rossi et al. 2025)",
        ),
        Recipe(
            "lira-online",
            likelihood,
            LiRA(mode="online"),
            "in and out",
            "online likelihood ratio (Carlini et al. 2022)",
        ),
        Recipe(
            "rmia", "token_probability", RMIA(offline_a=1.0), "out", "offline relative attack (Zarifzadeh et al. 2024)"
        ),
        Recipe(
            "rmia-online",
            "token_probability",
            RMIA(offline_a=None),
            "in and out",
            "online relative attack (Zarifzadeh et al. 2024)",
        ),
        Recipe(
            "learned", "scaled_likelihood", Learned(), "out", "log-odds learned on the reference models' own documents"
        ),
        Recipe(
            "learned-online",
            "scaled_likelihood",
            Learned("online"),
            "in and out",
            "log-odds learned on models fine-tuned on halves of the candidates",
        ),
        Recipe(
            "quantile",
            likelihood,
            QuantileRegression(conformal=False),
            features=True,
            summary="quantile regression on the likelihood (Bertran et al. 2023)",
        ),
    )
