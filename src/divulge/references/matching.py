"""Settings with which reference models answer most like a target, found with records that neither was trained on.

References imitate the target without the candidates. If they are trained less, or more, than the target was, its
difference from them measures training and not membership. Trial models are trained with several settings, on the
auditor's records but for a part that is held out, and their answers on that part are compared with the target's.
Members, candidates and calibration records have no part in it, so what is decided with the references stays valid. The
trial models of the chosen setting are references afterwards.

Epochs of one training at a constant rate are settings for free: after each, the held-out part is asked.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError
from divulge.references import engines, fitting
from divulge.references.jobs import finish_job
from divulge.references.splits import Splits
from divulge.validation import as_list, check_choice, format_value

if TYPE_CHECKING:
    from divulge.references.jobs import TrainedModel
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
class TriedSetting:
    """One setting that was tried.

    Args:
        changes: settings by name, where they differ from those given.
        answers: what its trial models say of the held-out records, one ``[h]`` each; none where training diverged.
        rmse: root mean squared difference between them and the target.
    """

    changes: Mapping[str, Any]
    answers: Sequence[Floats]
    rmse: float


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
    tried: Sequence[TriedSetting]
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
        divulge.InputError: a setting that there is not, or out of its range; no setting with which training did not
            diverge.
    """
    started = time.monotonic()
    search = _Search(training.with_settings(match=None), request, splits, seed, goal)
    with engines.limit_to_one_thread():
        if training.match == "auto" and _is_trained_in_epochs(training):
            _search_rates(search)
        elif training.match == "auto":
            _search_parameters(search)
        else:
            _search_grid(search, training.match)
    tried = sorted(search.tried, key=lambda setting: setting.rmse)
    if not tried or not math.isfinite(tried[0].rmse):
        raise InputError("match: training diverged with every setting that was tried; give others to try")
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
    tried: list[TriedSetting] = field(default_factory=list)
    n_models: int = 0

    def run(
        self,
        changes: Mapping[str, Any],
        axis: str | None = None,
        epochs: Sequence[int] | None = None,
        *,
        prune: bool = False,
    ) -> tuple[TriedSetting, int]:
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
        learner = training.make_learner(self.request.records)
        task = fitting.make_task(learner, self.request)
        learner.check(task)
        answers: dict[int, list[Floats]] = {}
        trained: list[tuple[int, TrainedModel]] = []
        for model in range(min(_TRIALS, len(self.splits))):
            job = fitting.make_job(task, self.splits, model, self.seed, "model")
            visit = _Visit(
                self.goal, answers, model, None if axis is not None else (0 if may_stop else final_epoch), epochs, prune
            )
            self.n_models += 1
            try:
                learned = learner.trace(task, job, visit)
            except ArithmeticError:
                learned = None
            if learned is None:
                break
            trained.append((visit.nearest, learned))
        setting, epoch = TriedSetting(dict(changes), (), math.inf), 0
        if len(trained) == min(_TRIALS, len(self.splits)):
            epoch = trained[-1][0]
            final = dict(changes) if axis is None else _settings_after_epoch(changes, axis, epoch, total)
            target, epoch_answers = self.goal.target, answers[epoch]
            setting = TriedSetting(final, epoch_answers, root_mean_square(target, epoch_answers))
            # A model that is not the nearest so far will be no reference, and its answers may be costly.
            if setting.rmse < min((setting_tried.rmse for setting_tried in self.tried), default=math.inf):
                for model, (nearest, learned) in enumerate(trained):
                    if nearest == epoch:
                        self._store(final, learned, model)
        self.tried.append(setting)
        return setting, epoch

    def _store(self, changes: Mapping[str, Any], learned: TrainedModel, model: int) -> None:
        """Put a trial model into the pool, under the key of the reference that it would be."""
        learner = self.training.with_settings(**changes).make_learner(self.request.records)
        task = fitting.make_task(learner, self.request)
        finish_job(task, fitting.make_job(task, self.splits, model, self.seed, "model"), learned)


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
    """Return which setting the epochs of one training are: at a constant rate, each is a training of its own."""
    return "epochs" if config.schedule == "constant" else "stop_after"


def _settings_after_epoch(changes: Mapping[str, Any], axis: str, epoch: int, total: int) -> dict[str, Any]:
    """Return the setting of a training that ends after this epoch."""
    other_settings = {name: value for name, value in changes.items() if name != axis}
    return other_settings if axis == "stop_after" and epoch == total else other_settings | {axis: epoch}


def _search_rates(search: _Search) -> None:
    """Look for a learning rate and a number of epochs: half decades up and down from the given rate, then quarters.

    The given setting is among those that are tried.
    """
    config = _config(search.training)
    axis = None if getattr(config, "privacy", None) is not None else _epoch_axis(config)
    epochs = config.epochs if axis is None else _BUDGET * config.epochs
    runs: dict[float, tuple[float, int]] = {}

    def distance(position: float) -> float:
        """Return the least distance of the training whose rate is so many steps from the given one."""
        if position not in runs and len(search.tried) < MAX_RUNS:
            changes = {"lr": _round_rate(config.learning_rate * 10 ** (_STEP * position)), "epochs": epochs}
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
        search.run({"lr": rate, "epochs": _BUDGET * epochs}, axis, prune=True)


def _round_rate(rate: float) -> float:
    return float(f"{rate:.3g}")


def _search_grid(search: _Search, grid: Mapping[str, Sequence[Any]]) -> None:
    """Try all combinations of the values; of epochs at a constant rate, one training shows them all."""
    axis = None
    if _is_trained_in_epochs(search.training):
        config = _config(search.training)
        is_constant = set(grid.get("schedule", (config.schedule,))) == {"constant"}
        is_private = getattr(config, "privacy", None) is not None or "privacy" in grid
        if "epochs" in grid and "stop_after" not in grid and is_constant and not is_private:
            axis = "epochs"
        elif "stop_after" in grid and not is_private and None not in grid["stop_after"]:
            axis = "stop_after"
    names = [name for name in grid if name != axis]
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(*(grid[n] for n in names))]
    for changes in combinations:  # whatever does not fit is said before anything is trained
        for value in grid[axis] if axis else (None,):
            search.training.with_settings(**changes, **({axis: value} if axis else {}))
    for changes in combinations:
        full_training = changes | ({axis: max(grid[axis])} if axis else {})
        search.run(full_training, axis, grid[axis] if axis else None)


# Parameters that say how closely an estimator follows its training records, in the order in which they are tried.
_COUNTS = (
    "max_depth", "depth", "max_leaf_nodes", "num_leaves", "min_samples_leaf", "min_child_samples", "min_data_in_leaf",
    "n_estimators", "iterations", "n_neighbors",
)  # fmt: skip
_STRENGTHS = (
    "learning_rate", "eta", "learning_rate_init", "C", "alpha", "reg_lambda", "l2_regularization", "min_child_weight",
)  # fmt: skip
_UNBOUNDED = {"max_depth": (None, 16, 8, 4, 2), "max_leaf_nodes": (None, 64, 16, 4), "depth": (None, 8, 4, 2)}


def _search_parameters(search: _Search) -> None:
    """Look for an estimator's parameters one after the other: half or twice a number, half decades of a strength."""
    parameters = search.training.estimator.get_params(deep=True)
    order = {name: rank for rank, name in enumerate((*_COUNTS, *_STRENGTHS))}
    tunable = [name for name in parameters if name.rpartition("__")[2] in order]
    current: dict[str, Any] = {}
    nearest = search.run({})[0].rmse
    for name in sorted(tunable, key=lambda each: order[each.rpartition("__")[2]]):
        for ladder in _ladders(name.rpartition("__")[2], parameters[name]):
            for value in ladder:
                if len(search.tried) >= MAX_PARAMETER_RUNS:
                    return
                rmse = search.run(current | {name: value})[0].rmse
                if rmse > _CLEARLY_WORSE * nearest:
                    break
                if rmse < nearest:
                    nearest, current = rmse, current | {name: value}


def _ladders(name: str, value: Any) -> list[list[Any]]:
    """Return the values that are tried up and down from the given one."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if name in _UNBOUNDED and (value is None or (is_number and value <= 0)):
        return [list(_UNBOUNDED[name][1:])]
    if not is_number or not value > 0:
        return []
    if name in _STRENGTHS:
        return [[_round_rate(value * 10 ** (sign * step / 2)) for step in (1, 2, 3)] for sign in (1, -1)]
    higher, lower = [int(value) * 2**step for step in (1, 2, 3)], [int(value) // 2**step for step in (1, 2, 3)]
    minimum = 2 if name in ("max_leaf_nodes", "num_leaves") else 1
    return [higher, [count for count in lower if count >= minimum]]


def count_trials(training: Any) -> tuple[int, int]:
    """Return how many trial models a search trains at most, and their epochs together (models, without any).

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
    sizes = {name: len(values) for name, values in training.match.items()}
    if not _is_trained_in_epochs(training):
        return math.prod(sizes.values()) * n_trials, math.prod(sizes.values()) * n_trials
    config = _config(training)
    longest = max(training.match.get("epochs", (config.epochs,)))
    is_axis = "epochs" in sizes and _epoch_axis(config) == "epochs" and "schedule" not in sizes
    axis = "epochs" if is_axis else "stop_after"
    n_runs = math.prod(size for name, size in sizes.items() if name != axis)
    return n_runs * n_trials, n_runs * n_trials * longest


def longest_training(training: Any) -> int:
    """Return the most epochs that a chosen setting can have; 1 for models that are not trained in epochs."""
    config = _config(training)
    if not _is_trained_in_epochs(training):
        return 1
    if training.match is None:
        return config.stop_after or config.epochs
    if training.match == "auto":
        return _BUDGET * _BUDGET * config.epochs
    return max(training.match.get("epochs", (config.epochs,)))


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
