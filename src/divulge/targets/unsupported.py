"""Models that no adapter calls as they are, refused with the function that an audit can call in their place."""

from __future__ import annotations

import json
from typing import Any

from divulge.errors import InputError

_PROBABILITIES, _LOGITS, _REGRESSION = "outputs='probabilities'", "outputs='logits'", "task='regression'"
_SURVIVAL_METHODS = ("predict_survival_function", "predict_cumulative_hazard_function")
_LIGHTGBM_REGRESSION = (
    "regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
)  # fmt: skip
_CATBOOST_REGRESSION = (
    "RMSE", "MAE", "MAPE", "Quantile", "Huber", "Lq", "Expectile", "LogCosh", "LogLinQuantile", "Poisson", "Tweedie",
)  # fmt: skip
_CATBOOST_EXPONENTS = ("Poisson", "Tweedie")  # their raw values are logarithms of what they predict


def reject_unsupported_model(model: Any, task: str) -> None:
    """Raise where ``model`` is a native booster or a survival model, and say which function to pass in its place.

    What the function returns follows from the objective that the booster was trained on. A booster of LightGBM that is
    declared a regression model is called as it is.

    Args:
        model: what the user passed as the target.
        task: "auto", "classification" or "regression".

    Raises:
        divulge.InputError: it is one of these.

    Examples:
        >>> import lightgbm, numpy as np
        >>> data = lightgbm.Dataset(np.arange(60.0).reshape(-1, 1), np.arange(60) % 2)
        >>> booster = lightgbm.train({"objective": "binary", "verbose": -1}, data, 1)
        >>> reject_unsupported_model(booster, "auto")
        Traceback (most recent call last):
        divulge.errors.InputError: target: a Booster of LightGBM is no estimator of scikit-learn's kind; pass lambda ...
    """
    if isinstance(model, type):
        return
    packages = {base.__module__.split(".")[0] for base in type(model).__mro__}
    if "lightgbm" in packages and hasattr(model, "dump_model") and task != "regression":
        _reject_lightgbm(model)
    elif "xgboost" in packages and hasattr(model, "save_config"):
        _reject_xgboost(model)
    elif "catboost" in packages and not hasattr(model, "predict_proba") and not hasattr(model, "_estimator_type"):
        _reject_catboost(model)
    elif any(callable(getattr(model, method, None)) for method in _SURVIVAL_METHODS):
        _reject_survival_model(model)


def _reject_lightgbm(booster: Any) -> None:
    objective = str(booster.dump_model(num_iteration=1).get("objective", "")).split(" ")[0]
    names = booster.feature_name()
    x = "x" if names == [f"Column_{place}" for place in range(len(names))] else "x[booster.feature_name()]"
    call, described = f"booster.predict({x})", "a Booster of LightGBM"
    if objective in ("binary", "cross_entropy", "multiclass"):
        raise _pass_instead(described, call, _PROBABILITIES, x)
    if objective == "multiclassova":  # a probability for each class against the rest, which do not sum to one
        raise _pass_instead(described, _normalise(call), _PROBABILITIES, x)
    if objective in _LIGHTGBM_REGRESSION:
        raise _pass_instead(described, call, _REGRESSION, x)
    raise _other_objective(described, objective)


def _reject_xgboost(booster: Any) -> None:
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    x = "x" if booster.feature_names is None else "x[booster.feature_names]"
    has_categories = "c" in (booster.feature_types or ())
    matrix = f"xgboost.DMatrix({x}{', enable_categorical=True' if has_categories else ''})"
    call, described = f"booster.predict({matrix})", "a Booster of XGBoost"
    if objective in ("binary:logistic", "multi:softprob"):
        raise _pass_instead(described, call, _PROBABILITIES, x)
    if objective in ("multi:softmax", "binary:logitraw"):  # the former predicts classes unless asked for more
        raise _pass_instead(described, f"booster.predict({matrix}, output_margin=True)", _LOGITS, x)
    if objective.startswith(("reg:", "count:")):
        raise _pass_instead(described, call, _REGRESSION, x)
    raise _other_objective(described, objective)


def _reject_catboost(model: Any) -> None:
    described = "a CatBoost model without the classifier's or regressor's methods"
    if not model.is_fitted():
        raise InputError(f"target: {described} is not fitted")
    objective = str(model.get_all_params().get("loss_function", "")).split(":")[0]
    names = model.feature_names_
    x = "x" if names == [str(place) for place in range(len(names))] else "x[model.feature_names_]"
    probabilities = f"model.predict({x}, prediction_type='Probability')"
    if objective in ("Logloss", "CrossEntropy", "MultiClass"):
        raise _pass_instead(described, probabilities, _PROBABILITIES, x)
    if objective == "MultiClassOneVsAll":
        raise _pass_instead(described, _normalise(probabilities), _PROBABILITIES, x)
    if objective in _CATBOOST_REGRESSION:
        exponent = ", prediction_type='Exponent'" if objective in _CATBOOST_EXPONENTS else ""
        raise _pass_instead(described, f"model.predict({x}{exponent})", _REGRESSION, x)
    raise _other_objective(described, objective)


def _normalise(call: str) -> str:
    return f"(p := {call}) / p.sum(axis=1, keepdims=True)"


def _pass_instead(described: str, call: str, declaration: str, x: str) -> InputError:
    """Return the error that names the function; one that picks columns by their names is given data frames."""
    function = f"lambda x: {call}"
    if x != "x":
        function = f"divulge.targets.CallableTarget({function}, {declaration}, frames=True)"
        if declaration == _REGRESSION:
            function = f"divulge.targets.CallableTarget(lambda x: {call}, frames=True)"
    return InputError(
        f"target: {described} is no estimator of scikit-learn's kind; pass {function}, with {declaration}"
    )


def _other_objective(described: str, objective: str) -> InputError:
    is_survival = objective.lower().startswith(("survival:", "cox", "survivalaft"))
    reason = "survival models are not covered" if is_survival else "no function around it is known here"
    return InputError(
        f"target: {described} with the objective {objective or 'of its own'!r}: {reason}. Pass a function of the "
        f"records that returns a logit for each class (or probabilities, with {_PROBABILITIES}), or one real value, "
        f"with {_REGRESSION}, in the unit of y"
    )


def _reject_survival_model(model: Any) -> None:
    if callable(getattr(model, "predict_expectation", None)):  # lifelines, which reads columns by their names
        function = "divulge.targets.CallableTarget(model.predict_expectation, frames=True)"
    elif callable(getattr(model, "predict_survival_function", None)):  # scikit-survival: steps at the times f.x
        function = "lambda x: [f.x[0] + f.y[:-1] @ numpy.diff(f.x) for f in model.predict_survival_function(x)]"
    else:
        curves = "model.predict_cumulative_hazard_function(x)"
        function = f"lambda x: [f.x[0] + numpy.exp(-f.y[:-1]) @ numpy.diff(f.x) for f in {curves}]"
    raise InputError(
        f"target: {type(model).__name__} is a survival model: its curves, and records without an event, are not "
        f"covered. What can be audited is the expected time as a regression: pass {function}, with {_REGRESSION}, and "
        "only records with an event, their times as y. That says nothing of the other records, nor of what the curves "
        "show beside this time"
    )
