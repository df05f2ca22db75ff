"""Settings with which reference models answer most like a target, found with records that neither was trained on.

References imitate the target without the candidates. If they are trained less, or more, than the target was, its
difference from them measures training and not membership. Trial models are trained with several settings, on the
auditor's records but for a part that is held out, and their answers on that part are compared with the target's.
Members, candidates and calibration records have no part in it, so what is decided with the references stays valid. The
trial models of the chosen setting are references afterwards.

Epochs of one training are settings for free: after each, the held-out part is asked. At a constant rate without warm-up
an early epoch is the model of a shorter training; elsewhere, of the same training that stops there.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.references import engines, fitting
from divulge.references.jobs import finish_job
from divulge.references.splits import Splits
from divulge.validation import as_list, check_choice, format_value

if TYPE_CHECKING:
    from divulge.references.jobs import Job, Task, TrainedModel
    from divulge.types import Floats, Records

MAX_SETTINGS = 200
"""Combinations of values that a grid may have."""
MAX_RUNS = 8
"""Trainings with which "auto" looks for a learning rate; each is shown after every epoch."""
MAX_PARAMETER_RUNS = 24
"""Clones with which "auto" looks for an estimator's parameters."""
_TRIALS = 2  # models of each setting, as far as there are references: one alone may come near by chance
_STEP = 0.5  # decades between the learning rates that are tried first
_BUDGET = 2  # times the given epochs, that a trial is trained for at most before it is known to need more
_DIVERGED = "training diverged"
_MAX_FAILURE_LENGTH = 300  # characters of an error that a report repeats
_TRIAL_ERRORS = (ValueError, RuntimeError, MemoryError)
"""What training with some values may raise: the user's code (`InputError`), torch, a full memory."""
_CLEARLY_WORSE = 1.05  # of the least RMSE: beyond it, a direction or a training past its best epoch is given up


@dataclass(frozen=True, slots=True, eq=False)
class MatchGoal:
    """Answers of the target that reference models should match.

    Args:
        held_out: ``h`` records that neither the target nor any trial model is trained on.
        target: what the target says of them, ``[h]``.
        measure: a model as a target, and records, to what it says of them, ``[h]``.
    """

    held_out: Records
    target: Floats
    measure: Callable[[Any, Records], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One setting that was tried.

    Args:
        changes: settings by name, where they differ from those given.
        answers: what its trial models say of the held-out records, one ``[h]`` each; none where one could not be
            trained.
        rmse: root mean squared difference between them and the target; infinite without answers.
        failure: why there are none; empty otherwise.
    """

    changes: Mapping[str, Any]
    answers: Sequence[Floats]
    rmse: float
    failure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The chosen setting, and all that were tried.

    Args:
        training: how references are to be trained.
        tried: all settings, the nearest first.
        n_models: trainings that it took.
        seconds: wall-clock time.
    """

    training: Any
    tried: Sequence[Trial]
    n_models: int
    seconds: float


def root_mean_square(target: Floats, answers: Sequence[Floats]) -> float:
    """Return the root mean squared difference between the target's answers and trial models'; infinite without any.

    Settings are ranked by it. It is steady because trainings that scatter more are farther from the target; with their
    scatter subtracted, of many settings one would be chosen whose trainings happen to scatter most.

    Examples:
        >>> root_mean_square(np.zeros(2), [np.array([3.0, 3.0]), np.array([-3.0, -3.0])])
        3.0
    """
    return math.sqrt(float(((np.stack(answers) - target) ** 2).mean())) if answers else math.inf


def match_settings(
    training: Any, request: fitting.TrainingRequest, splits: Splits, seed: int, goal: MatchGoal
) -> Match:
    """Choose the setting whose trial models answer most like the target, among those that ``training.match`` names.

    Trial models are the first references that would be trained with their setting: those of the nearest are stored in
    the pool of ``request`` under the same keys.

    Args:
        training: a `Train`, a clone training or an opened `FineTune`.
        request: what references are trained on and asked, with a pool.
        splits: the rows of each reference; none of them a held-out record.
        seed: the user's seed.
        goal: what to answer like.

    Raises:
        divulge.InputError: a setting that there is not, or out of its range; no setting with which models could be
            trained.
    """
    started = time.monotonic()
    check_grid(training)
    search = _Search(training.with_settings(match=None), request, splits, seed, goal)
    with engines.limit_to_one_thread():
        if training.match == "auto" and _is_trained_in_epochs(training):
            _search_rates(search)
        elif training.match == "auto":
            _search_parameters(search)
        else:
            # Of epochs that one training goes through, it shows them all.
            for changes in _combine_values(training.match):  # what does not fit is said before anything is trained
                search.check(changes)
            axis, full_trainings = _plan_grid(search.training, training.match)
            for changes in full_trainings:
                search.run(changes, axis, training.match[axis] if axis else None)
    tried = sorted(search.tried, key=lambda setting: setting.rmse)
    if not math.isfinite(tried[0].rmse):
        # Where every training diverged that is said; otherwise why the first one failed.
        failure = next((setting.failure for setting in search.tried if setting.failure != _DIVERGED), None)
        if failure is None:
            raise InputError(f"match: {_DIVERGED} with every setting that was tried; give others to try")
        raise InputError(f"match: no model could be trained with any of the {len(tried)} settings tried; {failure}")
    chosen = search.training.with_settings(**tried[0].changes)
    return Match(chosen, tried, search.n_models, time.monotonic() - started)


@dataclass(slots=True, eq=False)
class _Search:
    """State of a search: what was tried, and how many models it took."""

    training: Any
    request: fitting.TrainingRequest
    splits: Splits
    seed: int
    goal: MatchGoal
    tried: list[Trial] = field(default_factory=list)
    n_models: int = 0
    first_task: Task | None = None

    def check(self, changes: Mapping[str, Any]) -> None:
        """Check that models of a setting can be trained on these records.

        Raises:
            divulge.InputError: what the learner finds before any training.
        """
        task = self._make_task(self.training.with_settings(**changes))
        task.learner.check(task)
        task.learner.check_device()  # trial models are trained in this process, whatever the engine

    @property
    def n_records(self) -> int:
        """Number of records that a model is trained on, of the model with the fewest."""
        return min(len(self.splits.members(model)) for model in range(len(self.splits)))

    def _make_task(self, training: Any) -> Task:
        learner = training.make_learner(self.request.records)
        if self.first_task is None:  # the records are digested once
            self.first_task = fitting.make_task(learner, self.request)
            return self.first_task
        return replace(self.first_task, learner=learner)

    def run(
        self,
        changes: Mapping[str, Any],
        axis: str | None = None,
        epochs: Sequence[int] | None = None,
        *,
        prune: bool = False,
    ) -> tuple[Trial, int]:
        """Train the trial models of one setting; return its nearest form, and the number of epochs of that.

        Args:
            changes: the setting; with ``axis``, that of the whole training.
            axis: name of the setting that the epoch is; None judges finished models alone.
            epochs: those that may be chosen; None for all.
            prune: stop long after the nearest epoch.
        """
        training = self.training.with_settings(**changes)
        config = _config(training)
        total = getattr(config, "epochs", 1)
        final_epoch = getattr(config, "stop_after", None) or total
        may_stop = getattr(config, "stop_at_accuracy", None) is not None
        task = self._make_task(training)
        task.learner.check(task)
        task.learner.check_device()
        answers: dict[int, list[Floats]] = {}
        trained: list[tuple[int, TrainedModel]] = []
        failure, n_trials = "", min(_TRIALS, len(self.splits))
        for model in range(n_trials):
            job = fitting.make_job(task, self.splits, model, self.seed, "model")
            visit = _Visit(
                self.goal, answers, model, None if axis is not None else (0 if may_stop else final_epoch), epochs, prune
            )
            self.n_models += 1
            learned, failure = _train_trial(task, job, visit)
            if learned is None:
                break
            trained.append((visit.nearest, learned))
        setting, epoch = Trial(dict(changes), (), math.inf, failure), 0
        if len(trained) == n_trials:
            epoch = trained[-1][0]
            final = dict(changes) if axis is None else _settings_after_epoch(changes, axis, epoch, total)
            target, epoch_answers = self.goal.target, answers[epoch]
            setting = Trial(final, epoch_answers, root_mean_square(target, epoch_answers))
            # A model that is not the nearest so far will be no reference, and its answers may be costly.
            if setting.rmse < min((setting_tried.rmse for setting_tried in self.tried), default=math.inf):
                for model, (nearest, learned) in enumerate(trained):
                    if nearest == epoch:
                        # A trial model goes into the pool under the key of the reference that it would be.
                        reference = self._make_task(self.training.with_settings(**final))
                        finish_job(
                            reference, fitting.make_job(reference, self.splits, model, self.seed, "model"), learned
                        )
        self.tried.append(setting)
        return setting, epoch


def _train_trial(task: Task, job: Job, visit: _Visit) -> tuple[TrainedModel | None, str]:
    """Train a trial model; return it, or None and why there is none: one setting that fails must not end an audit."""
    try:
        learned = task.learner.trace(task, job, visit)
    except ArithmeticError:
        return None, _DIVERGED
    except _TRIAL_ERRORS as error:
        lines = (str(error).strip() or type(error).__name__).splitlines()
        return None, lines[0][:_MAX_FAILURE_LENGTH]
    return learned, "" if learned is not None else _DIVERGED


@dataclass(slots=True, eq=False)
class _Visit:
    """Asks a trial model after its epochs, and tells which one is nearest to the target so far.

    Args:
        goal: what to answer like.
        answers: epoch → the answers of each trial model; the answers of this one are added.
        model: its number among the trial models.
        only: the epoch after which it is asked; 0 for every one of which the last counts, None for a choice of epochs.
        epochs: those that may be chosen; None for all.
        prune: whether to stop long after the nearest epoch.
    """

    goal: MatchGoal
    answers: dict[int, list[Floats]]
    model: int
    only: int | None
    epochs: Sequence[int] | None
    prune: bool
    nearest: int = 0
    scores: dict[int, float] = field(default_factory=dict)

    def __call__(self, epoch: int, learned: TrainedModel) -> tuple[bool, bool]:
        """Return whether the model is the nearest so far, and whether its training should stop."""
        is_passed_over = self.only or (self.epochs is not None and epoch not in self.epochs)
        if is_passed_over and epoch != self.only:
            return False, False
        row = np.asarray(self.goal.measure(learned.target, self.goal.held_out), dtype=np.float64)
        if not np.isfinite(row).all():
            return False, True
        if self.only is not None:
            self.answers.setdefault(self.only, [])[self.model :] = [row]
            self.nearest = self.only
            return True, False
        listed = self.answers.setdefault(epoch, [])
        if len(listed) < self.model:  # the models before it were stopped earlier
            return False, True
        listed.append(row)
        self.scores[epoch] = root_mean_square(self.goal.target, listed)
        is_nearest = not self.nearest or self.scores[epoch] < self.scores[self.nearest]
        self.nearest = epoch if is_nearest else self.nearest
        is_past = epoch >= 2 * self.nearest + 2 and self.scores[epoch] > _CLEARLY_WORSE * self.scores[self.nearest]
        return is_nearest, self.prune and is_past


def _config(training: Any) -> Any:
    """Return where the settings of a training are: an opened fine-tune holds them in ``config``."""
    return getattr(training, "config", training)


def _is_trained_in_epochs(training: Any) -> bool:
    return hasattr(_config(training), "learning_rate") and hasattr(_config(training), "epochs")


def _epoch_axis(config: Any) -> str:
    """Return which setting the epochs of one training are.

    At a constant rate each is a shorter training of its own. Where the rate of a step depends on the number of steps,
    each is the same training that stops early.
    """
    is_constant = config.schedule == "constant" and not getattr(config, "warmup", 0)
    return "epochs" if is_constant else "stop_after"


def _settings_after_epoch(changes: Mapping[str, Any], axis: str, epoch: int, total: int) -> dict[str, Any]:
    """Return the setting of a training that ends after this epoch."""
    if axis != "stop_after" or epoch != total:
        return {**changes, axis: epoch}
    return {name: None if name == axis else value for name, value in changes.items()}  # the training as a whole


def _search_rates(search: _Search) -> None:
    """Look for a learning rate and a number of epochs: half decades up and down from the given rate, then quarters.

    The given setting is among those that are tried. An end that was given (``stop_after``) holds for it alone.
    """
    config = _config(search.training)
    axis = None if getattr(config, "privacy", None) is not None else _epoch_axis(config)
    epochs = config.epochs if axis is None else _BUDGET * config.epochs
    whole = {"stop_after": None} if axis is not None and getattr(config, "stop_after", None) is not None else {}
    runs: dict[float, tuple[float, int]] = {}

    def distance(position: float) -> float:
        """Return the least distance of the training whose rate is so many steps from the given one."""
        if position not in runs and len(search.tried) < MAX_RUNS:
            changes = {"lr": _round_rate(config.learning_rate * 10 ** (_STEP * position)), "epochs": epochs} | whole
            setting, epoch = search.run(changes, axis, prune=True)
            runs[position] = setting.rmse, epoch
        return runs[position][0] if position in runs else math.inf

    if axis == "stop_after":  # elsewhere it is an epoch of the first training below, or that training itself
        search.run({}, axis)
    nearest = min((0.0, 1.0, -1.0), key=distance)
    while nearest and distance(nearest + math.copysign(1.0, nearest)) < distance(nearest):
        nearest += math.copysign(1.0, nearest)
    nearest = min((nearest, nearest + 0.5, nearest - 0.5), key=distance)
    if axis is not None and nearest in runs and runs[nearest][1] == epochs:  # it was still coming nearer
        rate = _round_rate(config.learning_rate * 10 ** (_STEP * nearest))
        search.run({"lr": rate, "epochs": _BUDGET * epochs} | whole, axis, prune=True)


def _round_rate(rate: float) -> float:
    return float(f"{rate:.3g}")


def check_grid(training: Any) -> None:
    """Check all combinations of values that are to be tried, before anything is trained.

    Raises:
        divulge.InputError: a setting that there is not, or a value out of its range.
    """
    if isinstance(training.match, Mapping):
        for changes in _combine_values(training.match):
            training.with_settings(**changes, match=None)


def _plan_grid(training: Any, grid: Mapping[str, Sequence[Any]]) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the setting whose values are epochs of one training, if there is one, and the trainings of a grid."""
    axis = _grid_axis(_config(training), grid) if _is_trained_in_epochs(training) else None
    full = {name: (max(values),) if name == axis else values for name, values in grid.items()}
    return axis, _combine_values(full)


def _combine_values(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _grid_axis(config: Any, grid: Mapping[str, Sequence[Any]]) -> str | None:
    """Return the setting of a grid whose values are epochs of one training; None where each is trained by itself.

    DP-SGD shows its final model alone, and a training that stops by itself may not reach the epochs of a grid.
    """

    def is_always(name: str, value: Any) -> bool:
        return all(each == value for each in grid.get(name, (getattr(config, name, value),)))

    if "privacy" in grid or "stop_at_accuracy" in grid:
        return None
    if not (is_always("privacy", None) and is_always("stop_at_accuracy", None)):
        return None
    if "stop_after" in grid:
        return None if None in grid["stop_after"] else "stop_after"
    is_axis = is_always("schedule", "constant") and is_always("warmup", 0) and is_always("stop_after", None)
    return "epochs" if "epochs" in grid and is_axis else None


# Parameters that say how closely an estimator follows its training records, in the order in which they are tried.
_COUNTS = (
    "max_depth", "depth", "max_leaf_nodes", "num_leaves", "min_samples_leaf", "min_child_samples", "min_data_in_leaf",
    "n_estimators", "iterations", "n_neighbors",
)  # fmt: skip
_STRENGTHS = (
    "learning_rate", "eta", "learning_rate_init", "C", "alpha", "reg_lambda", "l2_regularization", "min_child_weight",
)  # fmt: skip
_UNBOUNDED = {"max_depth": (None, 16, 8, 4, 2), "max_leaf_nodes": (None, 64, 16, 4), "depth": (None, 8, 4, 2)}
_RECORDS_OF_LEAVES = ("min_samples_leaf", "min_child_samples", "min_data_in_leaf")  # a tree has two leaves or more
_MAX_DEPTH = 16  # of CatBoost's trees
_LIMITS_FROM_ABOVE = ("max_depth", "depth", "max_leaf_nodes", "num_leaves")
_LIMITS_FROM_BELOW = (*_RECORDS_OF_LEAVES, "min_child_weight")


def _search_parameters(search: _Search) -> None:
    """Look for an estimator's parameters one after the other: half or twice a number, half decades of a strength.

    Values that the estimator does not take are passed over, and so is what limits trees even less than a limit that
    they do not reach.
    """
    parameters = search.training.estimator.get_params(deep=True)
    order = {name: rank for rank, name in enumerate((*_COUNTS, *_STRENGTHS))}
    tunable = [name for name in parameters if name.rpartition("__")[2] in order]
    current: dict[str, Any] = {}
    nearest = search.run({})[0]
    for name in sorted(tunable, key=lambda each: order[each.rpartition("__")[2]]):
        for ladder in _ladders(name.rpartition("__")[2], parameters[name], search.n_records):
            before = nearest
            for changes in [current | {name: value} for value in ladder if _is_valid(search.training, {name: value})]:
                if len(search.tried) >= MAX_PARAMETER_RUNS:
                    return
                setting = search.run(changes)[0]
                if setting.rmse > _CLEARLY_WORSE * nearest.rmse:
                    break
                # Limits that trees do not reach change nothing, and looser ones would not either.
                is_alike = len(setting.answers) > 0 and np.array_equal(setting.answers, before.answers)
                if is_alike and _is_looser(name.rpartition("__")[2], ladder):
                    break
                before = setting
                if setting.rmse < nearest.rmse:
                    nearest, current = setting, changes


def _is_looser(name: str, ladder: Sequence[Any]) -> bool:
    """Check whether each value of a ladder limits trees less than the one before it."""
    is_rising = ladder[-1] > ladder[0]
    return is_rising if name in _LIMITS_FROM_ABOVE else name in _LIMITS_FROM_BELOW and not is_rising


def _is_valid(training: Any, changes: Mapping[str, Any]) -> bool:
    try:
        training.with_settings(**changes)
    except InputError:
        return False
    return True


def _ladders(name: str, value: Any, n_records: int) -> list[list[Any]]:
    """Return the values that are tried up and down from the given one.

    Args:
        name: of the parameter.
        value: the given one; a fraction below 1, where whole numbers count records, is a share of them.
        n_records: number of records that a model is trained on.
    """
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if name in _UNBOUNDED and (value is None or (is_number and value <= 0)):
        return [list(_UNBOUNDED[name][1:])]
    if not is_number or not 0 < value < math.inf:
        return []
    if name in _STRENGTHS:
        return [[_round_rate(value * 10 ** (sign * step / 2)) for step in (1, 2, 3)] for sign in (1, -1)]
    if value < 1:
        shares = [[float(value) * 2 ** (sign * step) for step in (1, 2, 3)] for sign in (1, -1)]
        return [[share for share in ladder if share <= 0.5] for ladder in shares]
    number_type = float if isinstance(value, float | np.floating) else int
    higher, lower = [int(value) * 2**step for step in (1, 2, 3)], [int(value) // 2**step for step in (1, 2, 3)]
    least, most = _bounds(name, n_records)
    return [[number_type(count) for count in ladder if least <= count <= most] for ladder in (higher, lower)]


def _bounds(name: str, n_records: int) -> tuple[int, float]:
    """Return the least and the largest number that a parameter can sensibly have."""
    if name in ("max_leaf_nodes", "num_leaves"):
        return 2, n_records
    if name in _RECORDS_OF_LEAVES:
        return 1, n_records // 2
    return 1, {"n_neighbors": n_records, "depth": _MAX_DEPTH}.get(name, math.inf)


def count_trials(training: Any) -> tuple[int, int]:
    """Return how many trial models a search trains at most, and how many epochs together; 1 each for other models.

    Examples:
        >>> from divulge.references import Train
        >>> count_trials(Train(lambda: ..., epochs=10, match={"lr": [0.1, 0.01], "epochs": [5, 20]}))
        (4, 80)
    """
    if training.match is None:
        return 0, 0
    n_trials = min(_TRIALS, training.count)
    if training.match == "auto" and not _is_trained_in_epochs(training):
        return MAX_PARAMETER_RUNS * n_trials, MAX_PARAMETER_RUNS * n_trials
    if training.match == "auto":
        longest = _BUDGET * _config(training).epochs
        return (MAX_RUNS + 1) * n_trials, (MAX_RUNS + _BUDGET) * longest * n_trials
    trainings = _plan_grid(training, training.match)[1]
    n_epochs = sum(_count_epochs(training, changes) for changes in trainings)
    return len(trainings) * n_trials, n_epochs * n_trials


def _count_epochs(training: Any, changes: Mapping[str, Any]) -> int:
    """Return after how many epochs a training with other settings ends; 1 for models without epochs."""
    config = _config(training)
    if not _is_trained_in_epochs(training):
        return 1
    stop_after, epochs = (changes.get(name, getattr(config, name, None)) for name in ("stop_after", "epochs"))
    return stop_after or epochs


def longest_training(training: Any) -> int:
    """Return the most epochs that a chosen setting can have; 1 for models that are not trained in epochs."""
    if training.match == "auto" and _is_trained_in_epochs(training):
        return _BUDGET * _BUDGET * _config(training).epochs
    if training.match is None or training.match == "auto":
        return _count_epochs(training, {})
    return max(_count_epochs(training, changes) for changes in _plan_grid(training, training.match)[1])


_COST_SETTINGS = ("make_model", "optimizer", "batch_size", "augment", "privacy", "precision", "lora", "length")
"""Settings on which the time of an epoch depends."""


@dataclass(frozen=True, slots=True, eq=False)
class EpochPlan:
    """Trainings whose epochs take equally long.

    Args:
        training: one of them.
        trial_epochs: epochs of all trial models together, at most.
        longest: most epochs of a reference model, should one of these settings be chosen.
    """

    training: Any
    trial_epochs: int
    longest: int


def plan_epochs(training: Any) -> list[EpochPlan]:
    """List what a search trains at most, by the settings on which the time of an epoch depends."""
    if not isinstance(training.match, Mapping):
        return [EpochPlan(training, count_trials(training)[1], longest_training(training))]
    plans = []
    costs = {name: values for name, values in training.match.items() if name in _COST_SETTINGS}
    for changes in _combine_values(costs):
        part = training.with_settings(match=training.match | {name: (value,) for name, value in changes.items()})
        plan = EpochPlan(part.with_settings(**changes, match=None), count_trials(part)[1], longest_training(part))
        plans.append(plan)
    return plans


def check_match(match: Any) -> Any:
    """Return what is to be tried: None, "auto", or a dict of settings to tuples of values.

    Raises:
        divulge.InputError: anything else; no values; too many combinations.

    Examples:
        >>> check_match({"lr": [0.1, 0.01]})
        {'lr': (0.1, 0.01)}
    """
    if match is None:
        return None
    if isinstance(match, str):
        return check_choice(match, "match", ("auto",))
    if not isinstance(match, Mapping) or not match or not all(isinstance(name, str) for name in match):
        raise InputError(f'match: "auto", or a mapping of settings to the values to try, got {format_value(match)}')
    grid = {name: tuple(as_list(values, f"match: {name}")) for name, values in match.items()}
    if empty := [name for name, values in grid.items() if not values]:
        raise InputError(f"match: {empty[0]}: at least 1 value is needed, got none")
    for name, values in grid.items():
        plain = [(type(value), value) for value in values if value is None or isinstance(value, str | int | float)]
        if repeated := [value for place, (_, value) in enumerate(plain) if plain[place] in plain[:place]]:
            raise InputError(f"match: {name}: each value may be given once, got {format_value(repeated[0])} twice")
    if "match" in grid:
        raise InputError("match: what is to be tried cannot itself be tried; name other settings")
    if (n_settings := math.prod(map(len, grid.values()))) > MAX_SETTINGS:
        raise InputError(f"match: at most {MAX_SETTINGS} combinations of values can be tried, got {n_settings:,}")
    return grid


_NO_SETTINGS = ("match", "count", "engine", "device", "workers", "base", "bos")


def check_names(names: Iterable[str], training_type: Any) -> None:
    """Check that these are settings of a training, which may differ between trials.

    Raises:
        divulge.InputError: one is not.
    """
    settings = [each.name for each in fields(training_type) if each.name not in _NO_SETTINGS]
    for name in names:
        if name != "match":
            check_choice(name, "match: a setting", settings)


def check_stop(stop_after: int | None, epochs: int) -> None:
    """Check that training stops after an epoch that it has.

    Raises:
        divulge.InputError: later than that.
    """
    if stop_after is not None and stop_after > epochs:
        raise InputError(f"stop_after: must be at most epochs = {epochs}, got {stop_after}")


def require_chosen(match: Any) -> None:
    """Check that no setting is still to be chosen.

    Raises:
        divulge.InputError: ``match`` was given where there is no target to match.
    """
    if match is not None:
        raise InputError(
            "match: settings are chosen in divulge.audit alone, where references are compared with a target; give the "
            "settings themselves here"
        )
