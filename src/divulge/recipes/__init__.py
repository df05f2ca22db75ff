"""Recipes: a signal and an attack on it under one name, and what a user may ask of each attack, a file each.

`ATTACKS` are the attacks, one class of settings each: ``LiRA(mode="online")`` is the recipe that is called
"lira-online". `aliases` maps the names of recipes to such settings.
"""

from divulge.recipes.advice import Circumstances, DataSet, Performance, Suggestion, advise, measured
from divulge.recipes.auto import Auto
from divulge.recipes.base import BASE
from divulge.recipes.bavaria import BaVarIA
from divulge.recipes.calibrated import Calibrated
from divulge.recipes.catalogue import (
    ATTACKS,
    aliases,
    augmented_recipes,
    configure,
    document_recipes,
    everything,
    label_recipes,
    on_errors,
    partial_recipes,
    recipes,
    regression_recipes,
    resolve,
    resolve_for,
    resolve_regression,
    seeded,
    weight_recipes,
    white_box_recipes,
)
from divulge.recipes.ez import EZ
from divulge.recipes.labels import Labels
from divulge.recipes.learned import Learned
from divulge.recipes.lira import LiRA
from divulge.recipes.loss import Loss
from divulge.recipes.margin import Margin
from divulge.recipes.mrad import MRAD
from divulge.recipes.quantile import Quantile
from divulge.recipes.recipe import (
    RESERVED,
    Imputed,
    PartialMeasure,
    PartialSignal,
    PreparedSignal,
    Recipe,
    References,
    Signal,
)
from divulge.recipes.rmia import RMIA
from divulge.recipes.settings import AttackSettings, RecordType, Setting, make_recipe, setting
from divulge.recipes.transductive import Transductive
from divulge.recipes.transfer import Transfer
from divulge.recipes.wbc import WBC

__all__ = [
    "ATTACKS",
    "BASE",
    "EZ",
    "MRAD",
    "RESERVED",
    "RMIA",
    "WBC",
    "AttackSettings",
    "Auto",
    "BaVarIA",
    "Calibrated",
    "Circumstances",
    "DataSet",
    "Imputed",
    "Labels",
    "Learned",
    "LiRA",
    "Loss",
    "Margin",
    "PartialMeasure",
    "PartialSignal",
    "Performance",
    "PreparedSignal",
    "Quantile",
    "Recipe",
    "RecordType",
    "References",
    "Setting",
    "Signal",
    "Suggestion",
    "Transductive",
    "Transfer",
    "advise",
    "aliases",
    "augmented_recipes",
    "configure",
    "document_recipes",
    "everything",
    "label_recipes",
    "make_recipe",
    "measured",
    "on_errors",
    "partial_recipes",
    "recipes",
    "regression_recipes",
    "resolve",
    "resolve_for",
    "resolve_regression",
    "seeded",
    "setting",
    "weight_recipes",
    "white_box_recipes",
]
