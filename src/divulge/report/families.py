"""Kinds of classical models by the name of their class."""

from __future__ import annotations

_FAMILIES = {
    "forest": ("RandomForest", "ExtraTreesC", "ExtraTreesR", "Bagging"),
    "tree": ("DecisionTree", "ExtraTreeC", "ExtraTreeR"),
    "boosting": ("GradientBoosting", "HistGradientBoosting", "LGBM", "XGB", "CatBoost", "AdaBoost"),
    "neighbours": ("KNeighbors", "RadiusNeighbors", "NearestCentroid"),
    "support vectors": ("SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"),
    "Gaussian process": ("GaussianProcess",),
    "network": ("MLP",),
    "linear": (
        "LogisticRegression", "Ridge", "Lasso", "ElasticNet", "LinearRegression", "LinearSV", "SGD", "Perceptron",
        "PassiveAggressive", "Huber", "PoissonRegressor", "GammaRegressor", "TweedieRegressor",
    ),
}  # fmt: skip


def model_family(name: str) -> str:
    """Return the kind of an estimator of this class; empty where it is none that is known here.

    Examples:
        >>> model_family("RandomForestRegressor"), model_family("LGBMClassifier"), model_family("GaussianNB")
        ('forest', 'boosting', '')
    """
    return next((family for family, starts in _FAMILIES.items() if name.startswith(starts)), "")
