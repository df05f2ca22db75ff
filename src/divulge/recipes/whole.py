"""The recipes for whole records."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from divulge.attacks import (
    BASE,
    RMIA,
    Auto,
    BaVarIA,
    Calibrated,
    Combined,
    Learned,
    LiRA,
    QuantileRegression,
    Residual,
    Threshold,
    Transductive,
)
from divulge.recipes.recipe import Recipe

RESIDUALS = ("lira", "rmia", "learned")


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every recipe for whole records that comes with Divulge, in the order of the report.

    Examples:
        >>> [recipe.name for recipe in recipes()][:4]
        ['loss', 'entropy', 'gap', 'calibrated']
    """
    plain = _plain()
    return (
        *plain,
        *(_residual(recipe) for recipe in plain if recipe.name in RESIDUALS),
        Recipe(
            "auto",
            "scaled-logit",
            Auto(),
            "out",
            "mean of the attacks that do best with each reference model as the target",
            features=True,
        ),
    )


def _plain() -> tuple[Recipe, ...]:
    return (
        Recipe("loss", "negative-loss", Threshold(), summary="LOSS: how small the loss is (Yeom et al. 2018)"),
        Recipe("entropy", "modified-entropy", Threshold(), summary="modified entropy (Song & Mittal 2021)"),
        Recipe("gap", "top-two-gap", Threshold(), summary="top-two logit gap; needs no label"),
        Recipe(
            "calibrated",
            "negative-loss",
            Calibrated(),
            "out",
            "loss minus its mean under reference models (Watson et al. 2022)",
        ),
        Recipe(
            "lira",
            "scaled-logit",
            LiRA(mode="offline", variance="global"),
            "out",
            "offline likelihood ratio, one-sided (Carlini et al. 2022)",
        ),
        Recipe(
            "lira-online",
            "scaled-logit",
            LiRA(mode="online", variance="global"),
            "in and out",
            "online likelihood ratio (Carlini et al. 2022)",
        ),
        Recipe(
            "bavaria",
            "scaled-logit",
            BaVarIA(),
            "out",
            "offline LiRA with a prior on variances, for few references (Brännvall 2026)",
        ),
        Recipe(
            "bavaria-online",
            "scaled-logit",
            BaVarIA("online"),
            "in and out",
            "online LiRA with a prior on variances, for few references (Brännvall 2026)",
        ),
        Recipe("rmia", "confidence", RMIA(), "out", "offline relative attack (Zarifzadeh et al. 2024)"),
        Recipe(
            "rmia-online",
            "confidence",
            RMIA(offline_a=None),
            "in and out",
            "online relative attack (Zarifzadeh et al. 2024)",
        ),
        Recipe("base", "negative-loss", BASE(), "out", "offline BASE, RMIA without a population (Lassila et al. 2025)"),
        Recipe(
            "base-online",
            "negative-loss",
            BASE("online"),
            "in and out",
            "online BASE, RMIA without a population (Lassila et al. 2025)",
        ),
        Recipe("learned", "scaled-logit", Learned(), "out", "log-odds learned on the reference models' own records"),
        Recipe(
            "learned-few",
            "scaled-logit",
            Learned(few=True),
            "out",
            "the same with the target among the models not trained on a record; for few references",
        ),
        Recipe(
            "learned-online",
            "scaled-logit",
            Learned("online"),
            "in and out",
            "log-odds learned on models trained on halves of the candidates",
        ),
        Recipe(
            "quantile",
            "hinge",
            QuantileRegression(conformal=False),
            features=True,
            summary="quantile regression on the true-class hinge (Bertran et al. 2023)",
        ),
        Recipe(
            "quantile-gap",
            "top-two-gap",
            QuantileRegression(conformal=False),
            features=True,
            summary="quantile regression on the top-two gap, for unseen classes (Thaker et al. 2025)",
        ),
        Recipe(
            "transductive",
            "hinge",
            Transductive(),
            features=True,
            summary="hinge beyond what the candidates' own features explain, for unseen classes",
        ),
        Recipe(
            "combined",
            "hinge",
            Combined((QuantileRegression(conformal=False), Transductive())),
            features=True,
            summary="mean rank under quantile regression and the transductive attack, for unseen classes",
        ),
    )


def _residual(recipe: Recipe) -> Recipe:
    """What the recipe's score has beyond what the records' features explain."""
    return replace(
        recipe,
        name=f"{recipe.name}-residual",
        attack=Residual(recipe.attack),
        features=True,
        summary=f"{recipe.name} beyond what the candidates' own features explain",
    )
