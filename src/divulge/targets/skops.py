"""scikit-learn models in skops files: built from types that are trusted, and looked at before they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skops import io as skops_io

from divulge import errors, lazy, store
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from divulge.targets import forests
else:
    forests = lazy.module("divulge.targets.forests")

# What scikit-learn's classifiers are made of beside the estimators and arrays that skops trusts itself: plain Python
# objects, functions without side effects, and the trees, whose content `forests` looks at.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.CompoundKernel",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Hyperparameter",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)


def read(path: Path, trust: Sequence[str] = ()) -> Any:
    """The estimator in a skops file.

    Args:
        path: the file.
        trust: full names of further types it may be built from.

    Raises:
        divulge.InputError: a damaged file, types that are not trusted (all are named), trees that cannot be followed.
        divulge.MissingExtraError: skops is not installed.
    """
    name = f"target.model: {path}"
    store.check_archive_size(path, name)
    try:
        asked = sorted(set(skops_io.get_untrusted_types(file=path)) - {*TRUSTED, *trust})
        model = None if asked else skops_io.load(path, trusted=[*TRUSTED, *trust])
    except errors.MissingExtraError:
        raise
    except Exception as error:  # of skops, NumPy or scikit-learn on what they were given
        raise InputError(f"{name}: not a readable skops file ({error})") from None
    if asked:
        raise InputError(
            f"{name} asks for types that are not trusted: {', '.join(asked)}. Building them may run code, or crash; if "
            f"you made the file, or know what they do, name them: trust=[{', '.join(map(repr, asked))}], in a plan or "
            "as --trust"
        )
    forests.check(model, name)
    return model
