"""Reference models of the target's own kind: clones of an estimator, trained on the population without torch."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, seeds, store, targets
from divulge.errors import InputError
from divulge.inspection.structure import find_weighted_trees
from divulge.references import fitting, matching, pool
from divulge.references.engines import Placement, limit_to_one_thread
from divulge.references.jobs import (
    Execute,
    Job,
    LocalEngine,
    OutputLearner,
    Task,
    Tick,
    Trained,
    TrainedModel,
    count_classes,
    output_only_model,
)
from divulge.targets.estimators import SklearnRegressor, SklearnTarget, clone_unfitted, describe_estimator
from divulge.targets.fitted_frames import estimator_inputs, sub_estimators
from divulge.targets.outputs import as_predictions
from divulge.targets.rights import FramedTarget, class_name
from divulge.validation import check_choice

if TYPE_CHECKING:
    from divulge.references.engines import EngineName
    from divulge.types import Array, Floats, Ints, Records

_SEED_NAMES = ("random_state", "random_seed", "seed")
_THREAD_NAMES = ("n_jobs", "thread_count", "nthread")
# Names under which LightGBM and CatBoost know the number of rounds, and LightGBM the rounds after which it gives up.
_ROUND_NAMES = (
    "n_estimators", "iterations", "num_iterations", "num_iteration", "n_iter", "num_tree", "num_trees", "num_round",
    "num_rounds", "nrounds", "num_boost_round", "max_iter",
)  # fmt: skip
# Parameters that clones have as they need them, or that change no model: there is nothing to choose among their values.
_INERT_NAMES = (
    *_THREAD_NAMES, "memory", "verbose", "verbosity", "silent", "logging_level", "verbose_eval", "allow_writing_files",
    "warm_start", "copy", "copy_X", "copy_x", "copy_X_train", "cache_size", "pre_dispatch", "oob_score",
    "return_train_score",
)  # fmt: skip
_PATIENCE_NAMES = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")


def is_estimator(value: object) -> bool:
    """Check whether ``value`` is an object in scikit-learn's idiom: it can be cloned and fitted."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("fit", "get_params"))


@dataclass(frozen=True, slots=True)
class CloneTraining:
    """Train ``count`` clones of an estimator; `divulge.references.Train` makes one of these of a target.

    A clone has the estimator's parameters (`sklearn.base.clone`), and its own seed wherever it draws at random. It is
    given the records as the target is (the same columns, the same kind of frame) and their classes by the names that
    the target knows them by. It is trained on one thread, so that it is the same on every machine and in any number of
    processes. Boosting that a validation set stopped early has as many rounds in each clone as in the target. A search
    for parameters (`GridSearchCV`) and the folds of a stack or a calibration are run again by each clone.

    Args:
        estimator: what is cloned: the target's estimator, or one that ``make_model`` returned; kept as an unfitted
            copy.
        count: number of reference models.
        engine: "auto", "serial", "processes" or "ray".
        workers: processes for "processes"; None means one per core.
        target: the fitted target, from which columns and names of classes are taken; None where it is no estimator.
        match: which parameters are tried, see `Train`.

    Raises:
        divulge.InputError: the estimator holds fitted parts, which have seen the target's training records; it stops
            early on a validation set, and after how many rounds is not known.
    """

    estimator: Any
    count: int
    engine: EngineName = "auto"
    workers: int | None = None
    target: SklearnTarget | SklearnRegressor | None = field(default=None, repr=False)
    match: Any = None
    device = "cpu"

    def with_settings(self, **changes: Any) -> CloneTraining:
        """Return the same training of clones with other parameters; ``match`` is a setting of the training.

        Raises:
            divulge.InputError: a parameter that the estimator does not have, or that changes no clone; a value that
                scikit-learn's own check of parameters refuses.
        """
        training = replace(self, match=changes.pop("match", self.match))
        if not changes:
            return training
        clone = clone_estimator(self.estimator, 0)
        parameters = clone.get_params(deep=True)
        if unknown := [name for name in changes if name not in parameters]:
            check_choice(unknown[0], f"match: a parameter of {type(clone).__name__}", parameters)
        for name in changes:
            parameter = name.rpartition("__")[2]
            if parameter in _SEED_NAMES:
                raise InputError(f"match: {name} cannot be tried, as each reference model has a seed of its own")
            if parameter in _INERT_NAMES:
                raise InputError(f"match: {name} cannot be tried, as it changes no reference model")
        with errors.user_code_errors(f"match: {type(clone).__name__}"):
            changed = clone_as_trained(self.estimator).set_params(**changes)
        parts = _named_parts(changed)
        prefixes = [f"{name.rpartition('__')[0]}__".removeprefix("__") for name in changes]
        for part in [*(parts.get(prefix) for prefix in prefixes), *filter(is_estimator, changes.values())]:
            if not isinstance(getattr(part, "_parameter_constraints", None), dict) or not hasattr(
                part, "_validate_params"
            ):
                continue
            try:
                part._validate_params()
            except ValueError as error:
                raise InputError(f"match: {' '.join(str(error).split())}") from None
        return replace(training, estimator=changed)

    @property
    def has_target_settings(self) -> bool:
        """Whether clones have the parameters of the target's own estimator."""
        if self.target is None:
            return False
        try:
            targets_clone = clone_as_trained(self.target.estimator)
        except InputError:  # a target that has no clones: `make_model` returned the estimator
            return False
        return describe_estimator(targets_clone) == describe_estimator(self.estimator)

    def make_learner(self, records: Records) -> CloneLearner:
        """Return the learner of these settings."""
        return CloneLearner(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimator", clone_as_trained(self.estimator))
        _refuse_fitted_parts(self.estimator)

    def fit(
        self,
        records: Records,
        splits: Any,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        signal: Any = None,
        classes: int | None = None,
        pool: Any = None,
        out: Any = None,
        progress: Any = None,
        inside: Any = None,
        measure: Any = None,
    ) -> Trained:
        """Train the clones of ``splits`` and keep their outputs on the observed records; as `Train.fit`."""
        request = fitting.TrainingRequest(
            records, splits, tuple(observe), signal, classes, pool, out, progress, inside, measure
        )
        return self.fit_request(request, seed)

    def fit_request(self, request: fitting.TrainingRequest, seed: int) -> Trained:
        """Train the clones that a checked request asks for."""
        matching.require_chosen(self.match)
        placement = Placement(self.engine, self.workers)
        trained = fitting.fit_references(CloneLearner(self), request, self.count, seed, placement)
        weighted = "" if self.target is None else find_weighted_trees(self.target.estimator)
        if not weighted:
            return trained
        warning = (
            f"references: the target's {weighted} was fitted with sample weights, and its clones know nothing of them; "
            'name your own training (references.Custom, in a plan train = "module:function")'
        )
        return replace(trained, warnings=(*trained.warnings, warning))

    def train_model(self, records: Records, *, seed: int, classes: int | None = None, progress: Any = None) -> Any:
        """Train a single clone on all ``records`` and return it as a target."""
        return train_clone(self, records, seed, count_classes(records, classes))


@dataclass(frozen=True, slots=True)
class CloneLearner(OutputLearner):
    """The learner behind `CloneTraining`."""

    config: CloneTraining

    @property
    def timed_by_doing(self) -> bool:
        """True: how long an estimator takes is known once one is trained."""
        return True

    def settings(self) -> dict[str, str]:
        """Return the estimator's class and parameters."""
        return {"estimator": describe_estimator(self.config.estimator)}

    def width(self, records: Records, classes: int | None) -> int:
        """Return the size of the whole label set."""
        return count_classes(records, classes)

    def check(self, task: Task) -> None:
        """Check nothing more: estimators check their input as they are fitted."""

    def trial(
        self, task: Task, jobs: Sequence[Job], *, untimed: bool, execute: Execute | None = None
    ) -> tuple[LocalEngine, float, str]:
        """Return the serial engine, without a trial."""
        return "serial", 0.0, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Return a digest of class, parameters, library versions, data, subset, seed, observed records and signal."""
        config = self.config
        target = config.target
        classes = np.asarray(getattr(None if target is None else target.estimator, "classes_", ()))
        target_description = () if target is None else (list(target.feature_names), repr(classes))
        observed = [pool.digest_records(records) for records in task.observe]
        functions = [pool.digest_function(f) for f in (task.signal, task.inside, task.measure)]
        return store.hash_values(
            "clone",
            pool.ARITHMETIC_VERSION,
            digest_estimator(config.estimator),
            _library_versions(config.estimator),
            *target_description,
            task.data,
            rows,
            seed,
            task.classes,
            observed,
            *functions,
        )[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that fits a clone to the records of a job, on one thread, on which it is asked too."""

        def learn(job: Job, tick: Tick) -> TrainedModel:
            with limit_to_one_thread():
                if task.measure is not None:
                    model = train_regressor(self.config, task.records[job.rows], job.seed)
                else:
                    model = train_clone(self.config, task.records[job.rows], job.seed, task.classes)
            tick(1.0)
            return output_only_model(partial(ask, model), model)

        def ask(model: Any, records: Records) -> Floats:
            with limit_to_one_thread():
                if task.measure is not None:
                    return task.measure(model, records)
                return model.logits(records).astype(np.float32)

        return learn


@dataclass(frozen=True, slots=True)
class CloneTarget:
    """A fitted clone as a target: asked as the audited target is, with logits over the whole label set ``[n, K]``.

    Args:
        inner: the clone.
        classes: size of the whole label set.
        seen_classes: numbers of the classes in the order of the clone's outputs, where it numbers them itself; else
            None.
        audited_target: the audited target, or None.
    """

    inner: SklearnTarget
    classes: int
    seen_classes: Ints | None = None
    audited_target: SklearnTarget | None = None

    def logits(self, records: Records) -> Floats:
        """Return logits ``[n, K]``; a class that the clone never saw gets the floor."""
        with errors.user_code_errors(f"references: {type(self.inner.estimator).__name__}"):
            inputs = model_inputs(self.audited_target, self.inner.estimator, records)
            clone_logits = self.inner.logits_of(inputs) if self.inner.gives_logits else self.inner.votes_of(inputs)
        if self.seen_classes is None:
            return clone_logits
        full = np.tile(np.log(self.inner.floor) + clone_logits.max(axis=1, keepdims=True), (1, self.classes))
        full[:, self.seen_classes] = clone_logits
        return full

    def labels(self, records: Records) -> Ints:
        """Return the predicted class of each record ``[n]``."""
        return self.logits(records).argmax(axis=1)


def train_clone(config: CloneTraining, records: Records, seed: int, classes: int) -> Any:
    """Fit a clone to ``records`` and return it as a target with logits ``[n, classes]``.

    Raises:
        divulge.InputError: records without labels.
        divulge.errors.UserCodeError: the estimator raised an error.
    """
    records = records.with_class_labels()
    if records.labels is None:
        raise InputError("references: labels are needed to train on, got y=None")
    audited_target = config.target if isinstance(config.target, SklearnTarget) else None
    clone = clone_estimator(config.estimator, seed)
    seen_classes, codes = np.unique(records.labels, return_inverse=True)
    values = _class_values(config, seen_classes)
    y = codes if values is None else values[codes]
    if hasattr(clone, "get_booster") and len(seen_classes) == 2 and str(clone.objective).startswith("multi:"):
        clone.set_params(objective="binary:logistic")  # XGBoost notes the number of the target's classes there
    inputs = model_inputs(audited_target, clone, records)
    with errors.user_code_errors(f"references: {type(clone).__name__}.fit"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the target's training has said the same once
        clone.fit(inputs, y)
    if values is None:
        is_complete = len(seen_classes) == classes
        inner = SklearnTarget(clone, classes=len(seen_classes))
        target = CloneTarget(inner, classes, None if is_complete else seen_classes, audited_target)
    else:
        names = None if audited_target is None else audited_target.class_names
        target = CloneTarget(SklearnTarget(clone, classes=classes, names=names), classes, None, audited_target)
    return target if records.table is None else FramedTarget(target, records[:1])


@dataclass(frozen=True, slots=True)
class CloneRegressor:
    """A fitted clone of a regressor as a target: asked as the audited target is.

    Args:
        inner: the clone.
        audited_target: the audited target, or None.
    """

    inner: SklearnRegressor
    audited_target: SklearnRegressor | None = None

    def predictions(self, records: Records) -> Floats:
        """Return the predicted value of each record ``[n]``."""
        name = f"references: {type(self.inner.estimator).__name__}"
        with errors.user_code_errors(name):
            predicted = self.inner.estimator.predict(model_inputs(self.audited_target, self.inner.estimator, records))
        return as_predictions(predicted, len(records), f"{name}.predict")


def train_regressor(config: CloneTraining, records: Records, seed: int) -> Any:
    """Fit a clone to the records' real values and return it as a target with predictions ``[n]``.

    Raises:
        divulge.InputError: records without values; a classifier.
        divulge.errors.UserCodeError: the estimator raised an error.
    """
    if records.y is None:
        raise InputError("references: real values are needed to train on, got y=None")
    audited_target = config.target if isinstance(config.target, SklearnRegressor) else None
    clone = clone_estimator(config.estimator, seed)
    inputs = model_inputs(audited_target, clone, records)
    with errors.user_code_errors(f"references: {type(clone).__name__}.fit"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the target's training has said the same once
        clone.fit(inputs, records.with_real_values().y)
    target = CloneRegressor(SklearnRegressor(clone), audited_target)
    return target if records.table is None else FramedTarget(target, records[:1])


def clone_estimator(estimator: Any, seed: int) -> Any:
    """Return an unfitted copy with the same parameters, one thread, and ``seed`` wherever it draws at random.

    It keeps nothing in a cache of the user's (``memory`` of a pipeline) and prints nothing, as the answer of a command
    may be read by a program.
    """
    with errors.user_code_errors(f"references: {type(estimator).__name__}"):
        clone = clone_as_trained(estimator)
        parameters = clone.get_params(deep=True)
        changed: dict[str, Any] = {}
        for name, value in parameters.items():
            parameter = name.rpartition("__")[2]
            if parameter in _SEED_NAMES:
                changed[name] = seeds.derive_seed(seed, "clone", name) % 2**31
            elif parameter in _THREAD_NAMES:
                changed[name] = 1
            elif parameter == "memory" and value is not None:
                changed[name] = None
            elif parameter == "verbose" and isinstance(value, bool | int) and value > 0:
                changed[name] = type(value)(0)
            elif (
                not is_estimator(value)  # folds of a search or a calibration, where they are drawn at random
                and callable(getattr(value, "split", None))
                and getattr(value, "random_state", 0) is None
                and getattr(value, "shuffle", True)
            ):
                changed[name] = copy.copy(value)
                changed[name].random_state = seeds.derive_seed(seed, "clone", name) % 2**31
        for prefix, part in _named_parts(clone).items():
            changed |= _catboost_parameters(part, prefix, seed)
            changed |= {f"{prefix}{name}": value for name, value in _silent_parameters(part).items()}
        return clone.set_params(**changed) if changed else clone


def _catboost_parameters(part: Any, prefix: str, seed: int) -> dict[str, Any]:
    """Return the seed and the single thread that CatBoost, which lists only the parameters that were set, hides."""
    if not type(part).__module__.startswith("catboost"):
        return {}
    listed = part.get_params(deep=False)
    changed: dict[str, Any] = {f"{prefix}allow_writing_files": False}
    if not any(name in _SEED_NAMES for name in listed):
        changed[f"{prefix}random_seed"] = seeds.derive_seed(seed, "clone", f"{prefix}random_seed") % 2**31
    if "thread_count" not in listed:
        changed[f"{prefix}thread_count"] = 1
    return changed


def _silent_parameters(part: Any) -> dict[str, Any]:
    """Return parameters that keep LightGBM and CatBoost, which tell of their training by default, from printing."""
    library, parameters = type(part).__module__.split(".")[0], part.get_params(deep=False)
    if library == "lightgbm":
        return dict.fromkeys([name for name in ("verbosity", "verbose") if name in parameters] or ["verbose"], -1)
    if library != "catboost":
        return {}
    silent = {"logging_level": "Silent", "silent": True, "verbose_eval": False, "verbose": False}
    return dict([next(((name, value) for name, value in silent.items() if name in parameters), ("verbose", False))])


def clone_as_trained(estimator: Any) -> Any:
    """Return an unfitted copy with the same parameters that is trained for as long as the estimator was.

    The number of trees or rounds is that of the fitted estimator: boosting may have been stopped early by a validation
    set (LightGBM, XGBoost, CatBoost), which no clone has, and a forest may have grown in several calls of ``fit``.

    Raises:
        divulge.InputError: early stopping on a validation set, and no fitted estimator that says after how many rounds.
    """
    with errors.user_code_errors(f"references: {type(estimator).__name__}"):
        clone, parts = clone_unfitted(estimator), _named_parts(estimator)
        changed = {
            f"{prefix}{name}": value
            for prefix, part in parts.items()
            for name, value in _rounds_as_trained(part, clone.get_params(deep=True), prefix).items()
        }
        clone = clone.set_params(**changed) if changed else clone
    named_ids = {id(part) for part in parts.values()}
    hidden = [part for part in sub_estimators(estimator) if id(part) not in named_ids and _was_stopped(part)]
    waiting = [part for part in _named_parts(clone).values() if _waits_for_validation(part)]
    for part in [*waiting, *hidden]:
        raise InputError(
            f"references: {type(part).__name__} stops early on a validation set, which clones do not have, and how "
            "many rounds they need is not known; give make_model, which returns the estimator with a number of rounds "
            "and without early stopping, or your own training with Custom"
        )
    return clone


def _named_parts(estimator: Any) -> dict[str, Any]:
    """Return an estimator and those among its parameters, by the prefix of their parameters' names."""
    parameters = estimator.get_params(deep=True)
    return {"": estimator} | {f"{name}__": value for name, value in parameters.items() if is_estimator(value)}


def _rounds_as_trained(part: Any, parameters: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the parameters with which an estimator is trained for as many rounds as it was; none where it says none.

    Args:
        part: fitted or not.
        parameters: all that a clone of the whole estimator has.
        prefix: of the names of this part's parameters.
    """

    def present(names: Sequence[str]) -> list[str]:
        return [name for name in names if prefix + name in parameters]

    library, rounds = type(part).__module__.split(".")[0], _stopped_rounds(part)
    if library in ("lightgbm", "xgboost", "catboost"):
        if rounds is None:
            return {}
        changed: dict[str, Any] = dict.fromkeys(present(_ROUND_NAMES) or ["n_estimators"], rounds)
        if library == "catboost":  # without a validation set it ignores how long it should wait
            changed |= dict.fromkeys(present(("use_best_model",)), False)
        else:
            changed |= dict.fromkeys(present(_PATIENCE_NAMES), None if library == "xgboost" else 0)
        if library == "xgboost" and (callbacks := parameters.get(f"{prefix}callbacks")):
            changed["callbacks"] = [each for each in callbacks if type(each).__name__ != "EarlyStopping"] or None
        return changed
    if (
        isinstance(getattr(part, "bootstrap", None), bool)
        and hasattr(part, "estimators_")
        and present(["n_estimators"])
    ):
        return {"n_estimators": len(part.estimators_)}
    return {}


def _stopped_rounds(part: Any) -> int | None:
    """Return after how many rounds a validation set stopped boosting; None where none did, or it is not fitted."""
    library = type(part).__module__.split(".")[0]
    if library == "lightgbm":
        best = getattr(part, "best_iteration_", None)
        return int(best) if best is not None and best > 0 else None
    if library == "xgboost":
        try:
            best = getattr(part, "best_iteration", None)
        except Exception:  # not fitted yet
            return None
        return None if best is None else int(best) + 1
    # With eval_fraction it splits off a validation set of its own, as its clones will.
    if library == "catboost" and getattr(part, "tree_count_", None) and not part.get_params().get("eval_fraction"):
        return int(part.tree_count_)
    return None


def _was_stopped(part: Any) -> bool:
    """Check whether a validation set stopped boosting; CatBoost counts its trees also where it had none."""
    is_catboost = type(part).__module__.split(".")[0] == "catboost"
    return _stopped_rounds(part) is not None and not (is_catboost and part.best_iteration_ is None)


def _waits_for_validation(part: Any) -> bool:
    """Check whether a booster cannot be trained without a validation set, by which it stops early."""
    library, parameters = type(part).__module__.split(".")[0], part.get_params(deep=False)
    if library == "xgboost":
        callbacks = parameters.get("callbacks") or ()
        stops = any(type(each).__name__ == "EarlyStopping" for each in callbacks)
        return stops or bool(parameters.get("early_stopping_rounds"))
    return library == "lightgbm" and any((parameters.get(name) or 0) > 0 for name in _PATIENCE_NAMES)


def digest_estimator(estimator: Any) -> str:
    """Return a digest of an estimator's class and parameters, and of the source of classes and functions among them.

    Seeds and threads are left out: a clone has its own. What has no value of its own (its repr holds an address) makes
    a digest that never matches again, as in `divulge.references.pool.digest_function`.

    Examples:
        >>> from sklearn.preprocessing import FunctionTransformer
        >>> one, other = FunctionTransformer(lambda x: x + 1), FunctionTransformer(lambda x: x + 2)
        >>> digest_estimator(one) == digest_estimator(other)
        False
    """
    estimator_class = type(estimator)
    parts: list[str] = [estimator_class.__module__, estimator_class.__qualname__]
    parts += [
        pool.digest_function(base)
        for base in estimator_class.__mro__[:-1]
        if not _has_version(base.__module__.split(".")[0])  # the user's own, whose base classes are often theirs, too
    ]
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if name not in (*_SEED_NAMES, *_THREAD_NAMES, "memory"):
            parts += [name, _digest_parameter(value)]
    return store.hash_values("estimator", *parts)


def _digest_parameter(value: Any) -> str:
    if not isinstance(value, type) and callable(getattr(value, "get_params", None)):
        return digest_estimator(value)
    if isinstance(value, list | tuple):
        return store.hash_values(type(value).__name__, *map(_digest_parameter, value))
    if isinstance(value, dict):
        return store.hash_values("dict", *(f"{_digest_parameter(k)}: {_digest_parameter(v)}" for k, v in value.items()))
    if hasattr(value, "__array__"):  # a data frame's repr leaves out what stands in its middle
        return store.hash_values(type(value).__name__, np.asarray(value))
    if callable(value):
        return pool.digest_function(value)
    return pool.digest_value(value)


def model_inputs(target: SklearnTarget | SklearnRegressor | None, estimator: Any, records: Records) -> Any:
    """Return the records as the audited target is given them, or as an estimator of its own would be."""
    copied = records.copy()
    return estimator_inputs(estimator, copied) if target is None else target.model_inputs(copied)


def resolve_training(training: Any, target: Any) -> Any:
    """Return how references are trained once the target is known: clones where an estimator is to be trained.

    Args:
        training: a `divulge.references.Train`; anything else is returned as it is.
        target: the adapted target.

    Raises:
        divulge.InputError: no ``make_model`` and a target that is no estimator; settings that only networks have.
    """
    estimator = None
    fitted = target if isinstance(target, SklearnTarget | SklearnRegressor) else None
    if training.make_model is None:
        if fitted is None:
            raise InputError(
                "references: make_model is needed, a function that returns a new network or estimator; without it "
                "references are clones of the target, which must be a scikit-learn, LightGBM, XGBoost or CatBoost "
                f"classifier or regressor, and it is of the type {class_name(target)}"
            )
        estimator = fitted.estimator
    elif not isinstance(target, targets.TorchTarget):
        estimator = build_estimator(training.make_model)
    if estimator is None:
        return training
    training.check_network_settings()
    # Without make_model, clones have the target's own parameters: nothing is left to find out by itself.
    match = None if training.make_model is None and training.match == "auto" else training.match
    return CloneTraining(estimator, training.count, training.engine, training.workers, fitted, match)


def build_estimator(make_model: Callable[..., Any]) -> Any:
    """Return the estimator that ``make_model`` makes; None where it makes something else."""
    if is_network_class(make_model):
        return None
    try:
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            with torch.random.fork_rng(devices=[]):
                value = make_model()
        else:
            value = make_model()
    except Exception:  # it may want a seed, as networks may, and says so where it is called with one
        return None
    return value if is_estimator(value) else None


def is_network_class(make_model: object) -> bool:
    """Check whether ``make_model`` is itself the class of a torch module, which need not be built to be told."""
    return isinstance(make_model, type) and any(c.__module__.startswith("torch.") for c in make_model.__mro__)


def _class_values(config: CloneTraining, seen_classes: Ints) -> Array | None:
    """Return the values by which the target knows these classes; None where they are numbered from 0 on.

    XGBoost takes no others, and parameters such as ``class_weight`` name classes by the target's values.
    """
    if hasattr(config.estimator, "get_booster"):
        return None
    if not isinstance(config.target, SklearnTarget):
        return seen_classes
    known_classes = config.target.known_classes
    places = {int(number): place for place, number in enumerate(known_classes)}
    if any(int(number) not in places for number in seen_classes):
        return seen_classes
    return np.asarray(config.target.estimator.classes_)[[places[int(number)] for number in seen_classes]]


def _refuse_fitted_parts(clone: Any) -> None:
    """Raise where a clone still holds what was learned from the target's training records."""
    values = [clone, *clone.get_params(deep=True).values()]
    parts = [part for value in values if is_estimator(value) for part in sub_estimators(value)]
    for part in parts:
        name = type(part).__name__
        is_prefit = getattr(part, "cv", None) == "prefit" if isinstance(getattr(part, "cv", None), str) else False
        if name == "FrozenEstimator" or is_prefit or getattr(part, "prefit", False) is True:
            raise InputError(
                f"references: a clone of the target would hold a part that is fitted already ({name}), which has seen "
                "the target's training records; give make_model, which returns the whole estimator unfitted"
            )


def _library_versions(estimator: Any) -> list[str]:
    """Return the versions of the libraries that an estimator's parts come from."""
    packages = sorted({type(part).__module__.split(".")[0] for part in _named_parts(estimator).values()})
    return [
        f"{package} {metadata.version(_DISTRIBUTIONS.get(package, package))}" if _has_version(package) else package
        for package in packages
    ]


_DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def _has_version(package: str) -> bool:
    """Check whether a package is an installed one; the user's own modules have no version."""
    try:
        metadata.version(_DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        return False
    return True
