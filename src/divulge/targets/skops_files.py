"""scikit-learn models in skops files: built from trusted types, and checked before they are queried."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy, store
from divulge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sklearn import neighbors as neighbours
    from sklearn import tree as sklearn_tree
    from sklearn.ensemble import _bagging as bagging
    from sklearn.ensemble import _forest as forests
    from sklearn.ensemble import _gb as gradient_boosting
    from sklearn.ensemble._hist_gradient_boosting import gradient_boosting as histogram_boosting
    from sklearn.neighbors import _base as neighbours_base
    from sklearn.svm import _base as support_vectors
    from skops import io as skops_io

    from divulge.types import Array
else:
    neighbours = lazy.module("sklearn.neighbors")
    neighbours_base = lazy.module("sklearn.neighbors._base")
    support_vectors = lazy.module("sklearn.svm._base")
    sklearn_tree = lazy.module("sklearn.tree")
    bagging = lazy.module("sklearn.ensemble._bagging")
    forests = lazy.module("sklearn.ensemble._forest")
    gradient_boosting = lazy.module("sklearn.ensemble._gb")
    histogram_boosting = lazy.module("sklearn.ensemble._hist_gradient_boosting.gradient_boosting")
    skops_io = lazy.module("skops.io")


# What scikit-learn's classifiers are made of beside the estimators and arrays that skops trusts itself: plain Python
# objects, functions without side effects, and the trees, whose content `check_trees` looks at.
# Of nearest neighbours, LightGBM and XGBoost: plain estimators; search trees, which `check_trees` builds again from the
# records; distances without state; boosters, which their own libraries parse and of which every path is checked.
TRUSTED = (
    "collections.OrderedDict",
    "functools.partial",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
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
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRFClassifier",
    "xgboost.sklearn.XGBRFRegressor",
    "xgboost.sklearn.XGBRegressor",
)


def read_skops(path: Path, trust: Sequence[str] = ()) -> Any:
    """Read the estimator in a skops file.

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
        untrusted_types = sorted(set(skops_io.get_untrusted_types(file=path)) - {*TRUSTED, *trust})
        model = None if untrusted_types else skops_io.load(path, trusted=[*TRUSTED, *trust])
    except errors.MissingExtraError:
        raise
    except Exception as error:  # of skops, NumPy or scikit-learn on what they were given
        raise InputError(f"{name}: not a readable skops file ({error})") from None
    if untrusted_types:
        raise InputError(
            f"{name} asks for types that are not trusted: {', '.join(untrusted_types)}. Building them may run code, or "
            "crash; if you made the file, or know what they do, name them: "
            f"trust=[{', '.join(map(repr, untrusted_types))}], in a plan under [target], "
            "or as --trust of a command without a plan"
        )
    check_trees(model, name)
    return model


_LEAF = -1


# scikit-learn's compiled code follows the indices of a tree without checking them (see its pull request 34558): an
# index out of range reads, and in gradient boosting writes, memory that is not the model's; a cycle never ends. Trees
# that came in a file are therefore checked before the model is asked.
def check_trees(model: Any, name: str) -> None:
    """Raise where a tree anywhere inside ``model`` could not be followed.

    Args:
        model: an estimator as it was read from a file.
        name: of the file, for the error.

    Raises:
        divulge.InputError: an index out of range, a cycle, a tree for more features than its model takes.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> check_trees(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]), "model.skops")
    """
    for part in _components(model):
        try:
            if isinstance(part, neighbours_base.NeighborsBase) and hasattr(part, "_fit_X"):
                _check_neighbours(part)
            elif isinstance(part, support_vectors.BaseLibSVM) and hasattr(part, "support_vectors_"):
                _check_support(part)
            elif type(part).__module__ == "lightgbm.basic" and hasattr(part, "model_to_string"):
                _check_lightgbm(part.model_to_string(num_iteration=-1))
            elif type(part).__module__ == "xgboost.core" and hasattr(part, "save_raw"):
                _check_xgboost(json.loads(part.save_raw("json")))
            else:
                _check_trees_of(part)
        except Exception as error:  # attributes of another type or shape than scikit-learn's own are damage too
            raise InputError(
                f"{name}: the {type(part).__name__} in it cannot be followed safely ({error}); the file is damaged "
                "or malicious"
            ) from None


def _components(model: Any) -> Iterator[Any]:
    """Yield everything that ``model`` is made of, itself first."""
    visited: set[int] = set()
    pending = [model]
    while pending:
        part = pending.pop()
        if id(part) in visited or isinstance(part, str | bytes | int | float | type):
            continue
        visited.add(id(part))
        yield part
        parts: list[Any] = list(vars(part).values()) if hasattr(part, "__dict__") else []
        if isinstance(part, dict):
            parts += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            parts += part
        elif isinstance(part, np.ndarray) and part.dtype == object:
            parts += np.asarray(part).ravel().tolist()
        pending += parts


def _check_trees_of(part: Any) -> None:
    if isinstance(part, sklearn_tree.BaseDecisionTree) and hasattr(part, "tree_"):
        _check_tree(part, part.n_features_in_)
    elif isinstance(part, forests.BaseForest) and hasattr(part, "estimators_"):
        for tree in part.estimators_:
            _check_tree(tree, part.n_features_in_)
    elif isinstance(part, bagging.BaseBagging) and hasattr(part, "estimators_"):
        for tree, columns in zip(part.estimators_, part.estimators_features_, strict=True):
            if isinstance(tree, sklearn_tree.BaseDecisionTree):
                _check_tree(tree, len(columns))
    elif isinstance(part, gradient_boosting.BaseGradientBoosting) and hasattr(part, "estimators_"):
        features = part.n_features_in_
        for regression_tree in part.estimators_.ravel():
            _check_tree(regression_tree, features)
            _require(
                regression_tree.tree_.n_outputs * regression_tree.tree_.max_n_classes == 1, "a tree of several values"
            )
        initial = part._raw_predict_init(np.zeros((1, features), np.float32))
        _require(initial.shape[1] == part.estimators_.shape[1], "a different number of trees per step than of classes")
    elif isinstance(part, histogram_boosting.BaseHistGradientBoosting) and hasattr(part, "_predictors"):
        _check_histogram(part)


def _check_neighbours(model: Any) -> None:
    """Check the records of a nearest-neighbour model, and build its search tree from them, whatever the file had."""
    records = model._fit_X
    labels = getattr(model, "_y", None)
    _require(labels is None or len(labels) == records.shape[0], "another number of labels than of records")
    _require(records.shape[1] == model.n_features_in_, "records of other features")
    tree = getattr(model, "_tree", None)
    if tree is not None:
        _require(type(tree) in (neighbours.KDTree, neighbours.BallTree), "a search tree of another type")
        parameters = dict(model.effective_metric_params_ or {})
        model._tree = type(tree)(records, model.leaf_size, metric=model.effective_metric_, **parameters)


def _check_support(model: Any) -> None:
    n_vectors, counts = model.support_vectors_.shape[0], np.asarray(model._n_support)
    if model._impl not in ("c_svc", "nu_svc"):  # of these, only the first count is one
        counts = counts[:1]
    _require((counts >= 0).all() and counts.sum() == n_vectors, "another number of support vectors than counted")
    _require(len(model.support_) == n_vectors, "support vectors without their positions")
    _require(model.support_vectors_.shape[1] == model.shape_fit_[1], "support vectors of other features")
    n_classes = len(counts) if model._impl in ("c_svc", "nu_svc") else 2
    _require(model._dual_coef_.shape == (n_classes - 1, n_vectors), "coefficients that do not fit the support vectors")
    n_pairs = n_classes * (n_classes - 1) // 2
    _require(len(model._intercept_) == n_pairs, "another number of intercepts than of pairs of classes")
    for sigmoid in (getattr(model, "_probA", ()), getattr(model, "_probB", ())):
        _require(len(sigmoid) in (0, 1, n_pairs), "another number of sigmoids than of pairs of classes")


def _check_lightgbm(text: str) -> None:
    """Check the trees in LightGBM's own text: no path may leave a tree or come back to where it was."""
    header, *trees = text.split("\nTree=")
    features = int(_lines_to_values(header)["max_feature_idx"]) + 1
    for tree in trees:
        values = _lines_to_values(tree.split("\nend of trees")[0])
        n_leaves = int(values["num_leaves"])
        if n_leaves < 2:
            continue
        left, right, feature = (
            np.array(values[name].split(), dtype=np.int64) for name in ("left_child", "right_child", "split_feature")
        )
        _require(len(left) == len(right) == len(feature) == n_leaves - 1, "a tree with nodes that are missing")
        children = np.stack([left, right])
        is_leaf = children < 0
        _require((~children[is_leaf] < n_leaves).all(), "a leaf that is not there")
        parents = np.broadcast_to(np.arange(n_leaves - 1), children.shape)
        _require((children[~is_leaf] > parents[~is_leaf]).all(), "a child that does not come after its parent")
        _require((children[~is_leaf] < n_leaves - 1).all(), "a node that is not there")
        _require(((feature >= 0) & (feature < features)).all(), "a feature out of range")


def _lines_to_values(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _check_xgboost(model: Any) -> None:
    """Check the trees in XGBoost's own JSON: every node is reached once, and every feature is there."""
    booster = model["learner"]["gradient_booster"]
    features = int(model["learner"]["learner_model_param"]["num_feature"])
    booster = booster.get("gbtree", booster)
    for tree in booster.get("model", {}).get("trees", ()):
        left, right = (np.asarray(tree[name], dtype=np.int64) for name in ("left_children", "right_children"))
        feature = np.asarray(tree["split_indices"], dtype=np.int64)
        _require(len(left) == len(right) == len(feature) >= 1, "a tree with nodes that are missing")
        reached, pending = np.zeros(len(left), dtype=bool), [0]
        while pending:
            node = pending.pop()
            _require(0 <= node < len(left) and not reached[node], "a node that is not there, or a cycle")
            reached[node] = True
            if left[node] >= 0:
                pending += [int(left[node]), int(right[node])]
        _require(((feature[reached] >= 0) & (feature[reached] < max(features, 1))).all(), "a feature out of range")


def _check_tree(estimator: Any, features: int) -> None:
    tree = estimator.tree_
    _require(min(tree.node_count, tree.n_outputs, tree.max_n_classes) >= 1, "a tree without nodes")
    _require(tree.n_features == features, f"a tree for {tree.n_features} features in a model for {features}")
    nodes = tree.__getstate__()["nodes"]
    inner = nodes["left_child"] != _LEAF
    _check_nodes(inner, nodes["left_child"], nodes["right_child"], nodes["feature"], features)


def _check_histogram(model: Any) -> None:
    features = model.n_features_in_
    _require(not getattr(model, "_in_fit", False), "a model in the middle of its training")
    row = np.zeros((1, features), dtype=object)
    if getattr(model, "is_categorical_", None) is not None:  # whose categories may be texts
        row[0, model.is_categorical_] = [
            known[0] for known in model._preprocessor.named_transformers_["encoder"].categories_
        ]
    _require(model._preprocess_X(row, reset=False).shape[1] == features, "columns that are lost")
    mapped = model._bin_mapper.is_categorical_
    _require(len(mapped) == features, "a mapper for other features")
    for step in model._predictors:
        for predictor in step:
            nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
            inner = nodes["is_leaf"] == 0
            _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], features)
            is_categorical = inner & (nodes["is_categorical"] != 0)
            if is_categorical.any():
                _require(
                    (nodes["bitset_idx"][is_categorical] < len(sets)).all(), "a set of categories that is not there"
                )
                _require(sets.shape[1] == 8, "sets of categories of another size")
                _require(mapped[nodes["feature_idx"][is_categorical]].all(), "categories of a feature that has none")


def _check_nodes(inner: Array, left: Array, right: Array, feature: Array, features: int) -> None:
    """Check that children come after their parent, as training leaves them, so that every path ends inside the tree."""
    _require(len(inner) >= 1, "a tree without nodes")
    parents = np.flatnonzero(inner)
    for child in (left[parents].astype(np.int64), right[parents].astype(np.int64)):
        _require(((child > parents) & (child < len(inner))).all(), "a child that does not come after its parent")
    _require(((feature[parents] >= 0) & (feature[parents] < features)).all(), "a feature out of range")


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)
