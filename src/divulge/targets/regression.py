"""Regression models as targets: estimators, networks, files and functions that predict one real value per record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from divulge import errors, lazy
from divulge.errors import InputError
from divulge.targets import arrays as out
from divulge.targets.estimators import describe_inputs, estimator_inputs, fitted_columns, likely_columns
from divulge.validation import check_choice, format_value, require_callable

if TYPE_CHECKING:
    from sklearn import base

    from divulge.types import Floats, Records
else:
    base = lazy.module("sklearn.base")


@dataclass(frozen=True, slots=True)
class SklearnRegressor:
    """A fitted estimator whose ``predict`` gives a real value: of scikit-learn, LightGBM, XGBoost or CatBoost.

    A model that was fitted on a data frame is given one with the same columns, as `divulge.targets.SklearnTarget` does.

    Args:
        estimator: fitted, with ``predict``; a pipeline too.
        frames: the library of the data frames that the estimator is given, see `divulge.targets.SklearnTarget`.

    Raises:
        divulge.InputError: a classifier, or no ``predict``.

    Examples:
        >>> from sklearn.linear_model import LinearRegression
        >>> from divulge import Records
        >>> model = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
        >>> SklearnRegressor(model).predictions(Records([[2.0]])).round(6)
        array([5.])
    """

    estimator: Any
    frames: Literal["auto", "own", "pandas", "polars"] = "auto"
    takes_frames: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice(self.frames, "frames", ("auto", "own", "pandas", "polars"))
        require_callable(self.estimator, "estimator", "predict")
        has_classes = hasattr(self.estimator, "classes_") or hasattr(self.estimator, "predict_proba")
        if has_classes and not is_regressor(self.estimator):  # CatBoost's regressors have classes_, too
            raise InputError(
                f"target: {type(self.estimator).__name__} is a classifier, which predicts classes; a regression model "
                "is needed"
            )

    def predictions(self, records: Records) -> Floats:
        """Predicted value of each record, float64 ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, several values for a record.
            divulge.errors.UserCodeError: the estimator raised an error.
        """
        name = f"target: {type(self.estimator).__name__}"
        # An estimator of the user's own may write into what it is given.
        inputs = self.model_inputs(records.copy())
        with errors.user_code_errors(name, hint="" if records.table is None else describe_inputs(inputs)):
            predicted = self.estimator.predict(inputs)
        return out.as_predictions(predicted, len(records), f"{name}.predict")

    def model_inputs(self, records: Records) -> Any:
        """Return the records as the estimator was fitted on them: a frame with its columns, or an array."""
        return estimator_inputs(self.estimator, records, self.frames)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that the estimator was fitted on; empty where it was fitted on an array."""
        return fitted_columns(self.estimator)

    @property
    def likely_names(self) -> tuple[tuple[str, ...], ...]:
        """Names that may be those of the columns."""
        return likely_columns(self.estimator)


@dataclass(frozen=True)
class Regressor:
    """A network, ONNX file or function whose single output is the predicted value.

    Args:
        target: the adapter that runs it: `divulge.targets.TorchTarget`, `OnnxTarget` or `CallableTarget`.

    Raises:
        divulge.InputError: another object.

    Examples:
        >>> from divulge import Records
        >>> from divulge.targets import CallableTarget
        >>> Regressor(CallableTarget(lambda x: x.sum(axis=1))).predictions(Records([[1.0, 2.0]]))
        array([3.])
    """

    target: Any

    def __post_init__(self) -> None:
        require_callable(self.target, "target", "raw_outputs")
        for name in ("feature_names", "likely_names", "takes_frames", "weights"):
            if hasattr(self.target, name):
                object.__setattr__(self, name, getattr(self.target, name))

    def predictions(self, records: Records) -> Floats:
        """Predicted value of each record, float64 ``[n]``.

        Raises:
            divulge.InputError: NaN or infinity, several values for a record.
            divulge.errors.UserCodeError: the function raised an error.
        """
        return out.as_predictions(self.target.raw_outputs(records), len(records))


def is_regressor(model: Any) -> bool:
    """Check whether an object is an estimator that says that it predicts real values.

    Examples:
        >>> from sklearn import linear_model
        >>> is_regressor(linear_model.Ridge()), is_regressor(linear_model.LogisticRegression())
        (True, False)
    """
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        return False
    if getattr(model, "_estimator_type", None) == "regressor":
        return True
    try:
        return bool(base.is_regressor(model))
    except Exception:  # an object with predict that is no estimator of scikit-learn has no tags
        return False


def as_regressor(target: Any) -> Any:
    """Return an adapter, or an object with ``predictions(records)``, as a regression model.

    Raises:
        divulge.InputError: a classifier, or a model of another kind.
    """
    if callable(getattr(target, "predictions", None)):
        return target
    if callable(getattr(target, "raw_outputs", None)):
        return Regressor(target)
    described = type(getattr(target, "estimator", getattr(target, "target", target))).__name__
    raise InputError(
        f'target: task = "regression" needs a model that predicts one real value of each record, got '
        f"{format_value(described)}"
    )
