"""Steps of the search for settings, the deal of splits and the words of progress, each clause in both readings."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import InputError
from divulge.references import matching, splits
from divulge.references.progress import check_progress, describe_progress, ignore_progress, show_progress


class Settings(SimpleNamespace):
    def with_settings(self, **changes):
        return Settings(**{**vars(self), **changes})


class Search:
    """Remembers what is tried; its distances come from a function of the settings."""

    n_records = 1000

    def check(self, changes):
        self.checked.append(dict(changes))

    def __init__(self, training, rmse, epoch=lambda changes: 1, answers=lambda changes: ()):
        self.answers = answers
        self.training, self.rmse, self.epoch, self.tried, self.calls = training, rmse, epoch, [], []
        self.checked = []

    def run(self, changes, axis=None, epochs=None, *, prune=False):
        setting = matching.TriedSetting(dict(changes), self.answers(changes), self.rmse(changes))
        self.tried.append(setting)
        self.calls.append((dict(changes), axis, epochs, prune))
        return setting, self.epoch(changes)


def network(**changes):
    return Settings(**{"learning_rate": 0.1, "epochs": 10, "schedule": "constant", "privacy": None} | changes)


def decades(rate):
    return 2 * math.log10(rate / 0.1)


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        (0.0, [0.0, 1.0, -1.0, 0.5, -0.5]),
        (1.0, [0.0, 1.0, -1.0, 2.0, 1.5, 0.5]),
        (-1.0, [0.0, 1.0, -1.0, -2.0, -0.5, -1.5]),
        (3.0, [0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 3.5, 2.5]),
        (9.0, [0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),  # eight and no more
    ],
)
def test_rates_are_tried_by_half_decades_and_then_quarters(best, expected):
    search = Search(network(), lambda changes: abs(decades(changes["lr"]) - best))
    matching._search_rates(search)
    assert [round(decades(changes["lr"]), 1) for changes, *_ in search.calls] == pytest.approx(expected, abs=0.1)
    assert {(axis, prune, changes["epochs"]) for changes, axis, _, prune in search.calls} == {("epochs", True, 20)}


def test_another_training_of_twice_as_long_follows_where_the_last_epoch_was_the_nearest():
    for last, is_longer in ((20, True), (19, False)):
        search = Search(network(), lambda changes: abs(decades(changes["lr"])), lambda changes, last=last: last)
        matching._search_rates(search)
        assert len(search.calls) == 5 + is_longer
        if is_longer:
            assert search.calls[-1] == ({"lr": 0.1, "epochs": 40}, "epochs", None, True)


def test_where_the_rate_falls_the_given_training_is_tried_first_and_a_private_one_whole():
    search = Search(network(schedule="linear"), lambda changes: abs(decades(changes.get("lr", 0.1))))
    matching._search_rates(search)
    assert search.calls[0] == ({}, "stop_after", None, False)
    assert search.calls[1] == ({"lr": 0.1, "epochs": 20}, "stop_after", None, True)
    private = Search(network(privacy=object()), lambda changes: abs(decades(changes["lr"])), lambda changes: 10)
    matching._search_rates(private)
    assert [call[1:] for call in private.calls] == [(None, None, True)] * 5
    assert {changes["epochs"] for changes, *_ in private.calls} == {10}


@pytest.mark.parametrize(
    ("changes", "grid", "axis", "full"),
    [
        ({}, {"lr": (1, 2)}, None, [{"lr": 1}, {"lr": 2}]),
        ({}, {"lr": (1, 2), "epochs": (3, 7, 5)}, "epochs", [{"lr": 1, "epochs": 7}, {"lr": 2, "epochs": 7}]),
        ({"schedule": "linear"}, {"epochs": (3, 7)}, None, [{"epochs": 3}, {"epochs": 7}]),
        ({}, {"epochs": (3,), "schedule": ("constant",)}, "epochs", [{"schedule": "constant", "epochs": 3}]),
        (
            {},
            {"epochs": (3,), "schedule": ("constant", "linear")},
            None,
            [{"epochs": 3, "schedule": "constant"}, {"epochs": 3, "schedule": "linear"}],
        ),
        ({"privacy": object()}, {"epochs": (3, 7)}, None, [{"epochs": 3}, {"epochs": 7}]),
        ({}, {"epochs": (3,), "privacy": (None,)}, None, [{"epochs": 3, "privacy": None}]),
        ({}, {"epochs": (3, 7), "stop_after": (2, 3)}, "stop_after", [{"epochs": e, "stop_after": 3} for e in (3, 7)]),
        ({}, {"stop_after": (2, None)}, None, [{"stop_after": 2}, {"stop_after": None}]),
        ({"privacy": object()}, {"stop_after": (2, 4)}, None, [{"stop_after": 2}, {"stop_after": 4}]),
        # Warm-up is a share of all steps: the second epoch of six is not the model of two epochs.
        ({"warmup": 0.5}, {"epochs": (2, 6)}, None, [{"epochs": 2}, {"epochs": 6}]),
        (
            {},
            {"epochs": (2, 6), "warmup": (0, 0.5)},
            None,
            [{"epochs": e, "warmup": w} for e in (2, 6) for w in (0, 0.5)],
        ),
        ({"warmup": 0.5}, {"epochs": (6,), "warmup": (0.0,)}, "epochs", [{"epochs": 6, "warmup": 0.0}]),
        ({"warmup": 0.5}, {"stop_after": (2, 6)}, "stop_after", [{"stop_after": 6}]),
        # A given end, or an accuracy at which training stops, may come before the epochs of the grid.
        ({"stop_after": 3}, {"epochs": (4, 8)}, None, [{"epochs": 4}, {"epochs": 8}]),
        ({"stop_at_accuracy": 0.9}, {"epochs": (4, 8)}, None, [{"epochs": 4}, {"epochs": 8}]),
        ({"stop_at_accuracy": 0.9}, {"stop_after": (4, 8)}, None, [{"stop_after": 4}, {"stop_after": 8}]),
        (
            {},
            {"stop_after": (4,), "stop_at_accuracy": (None, 0.9)},
            None,
            [{"stop_after": 4, "stop_at_accuracy": a} for a in (None, 0.9)],
        ),
    ],
)
def test_epochs_of_a_grid_are_moments_of_one_training_where_nothing_else_changes_with_them(changes, grid, axis, full):
    search = Search(network(**changes), lambda changes: 1.0)
    matching._search_grid(search, grid)
    assert [call[0] for call in search.calls] == full
    assert {call[1] for call in search.calls} == {axis}
    assert {call[2] for call in search.calls} == {grid[axis] if axis else None}
    assert not any(call[3] for call in search.calls)
    combinations = itertools.product(*([(name, value) for value in grid[name]] for name in grid))
    assert search.checked == [dict(each) for each in combinations]


@pytest.mark.parametrize(
    ("axis", "epoch", "expected"),
    [
        ("epochs", 3, {"lr": 1, "epochs": 3}),
        ("epochs", 9, {"lr": 1, "epochs": 9}),
        ("stop_after", 3, {"lr": 1, "epochs": 9, "stop_after": 3}),
        ("stop_after", 9, {"lr": 1, "epochs": 9}),  # that is the whole training
    ],
)
def test_the_setting_of_a_training_that_ends_early(axis, epoch, expected):
    assert matching._settings_after_epoch({"lr": 1, "epochs": 9}, axis, epoch, 9) == expected


def test_the_whole_training_has_no_end_where_one_was_given():
    changes = {"epochs": 9, "stop_after": 9}
    assert matching._settings_after_epoch(changes, "stop_after", 9, 9) == {"epochs": 9, "stop_after": None}


@pytest.mark.parametrize("changes", [{"schedule": "linear"}, {"warmup": 0.1}, {"schedule": lambda share: 1.0}])
def test_a_given_end_holds_for_the_given_setting_alone(changes):
    search = Search(network(stop_after=3, **changes), lambda changes: abs(decades(changes.get("lr", 0.1))))
    matching._search_rates(search)
    assert search.calls[0] == ({}, "stop_after", None, False)
    assert search.calls[1] == ({"lr": 0.1, "epochs": 20, "stop_after": None}, "stop_after", None, True)
    constant = Search(network(stop_after=3), lambda changes: abs(decades(changes["lr"])), lambda changes: 20)
    matching._search_rates(constant)
    assert constant.calls[0] == ({"lr": 0.1, "epochs": 20, "stop_after": None}, "epochs", None, True)
    assert constant.calls[-1] == ({"lr": 0.1, "epochs": 40, "stop_after": None}, "epochs", None, True)


def test_parameters_are_climbed_while_they_are_not_clearly_worse():
    """Depth 3 of 12: halved twice it fits best; a step is given up once it is over 1.05 times as far."""
    distances = {12: 1.0, 24: 1.04, 48: 1.06, 96: 0.0, 6: 0.9, 3: 0.5, 1: 0.6}
    estimator = SimpleNamespace(get_params=lambda deep: {"step__max_depth": 12, "verbose": 3, "warm_start": True})
    search = Search(Settings(estimator=estimator), lambda changes: distances[changes.get("step__max_depth", 12)])
    matching._search_parameters(search)
    assert [call[0].get("step__max_depth") for call in search.calls] == [None, 24, 48, 6, 3, 1]


@pytest.mark.parametrize(
    ("parameters", "reached", "expected"),
    [
        # Trees of depth 5 whatever the limit above: 24 does as 12, and 48 would; of those below, 6 does and 3 does not.
        ({"max_depth": 12}, lambda limit: min(limit, 5), [12, 24, 6, 3, 1]),
        ({"max_depth": None}, lambda limit: min(limit or 99, 5), [None, 16, 8, 4, 2]),
        ({"a__num_leaves": 31}, lambda limit: min(limit, 40), [31, 62, 124, 15, 7, 3]),
        ({"num_leaves": 31}, lambda limit: min(limit, 4), [31, 62, 15, 7, 3]),
        # Leaves that have ten records anyway.
        ({"min_samples_leaf": 8}, lambda limit: max(limit, 10), [8, 16, 32, 64, 4]),
        ({"min_child_weight": 1.0}, lambda limit: max(limit, 2.0), [1.0, 3.16, 10.0, 31.6, 0.316]),
        # What is no limit of trees may have its effect further on.
        ({"C": 1.0}, lambda strength: 0.0, [1.0, 3.16, 10.0, 31.6, 0.316, 0.1, 0.0316]),
        ({"n_estimators": 8}, lambda count: 0.0, [8, 16, 32, 64, 4, 2, 1]),
    ],
)
def test_limits_that_are_not_reached_are_not_loosened_further(parameters, reached, expected):
    ((name, given),) = parameters.items()
    search = Search(
        Settings(estimator=SimpleNamespace(get_params=lambda deep: parameters)),
        lambda changes: 1.0,
        answers=lambda changes: [np.full(3, float(model + reached(changes.get(name, given)))) for model in range(2)],
    )
    matching._search_parameters(search)
    assert [call[0].get(name, given) for call in search.calls] == pytest.approx(expected)


def test_models_that_could_not_be_trained_do_not_answer_alike():
    search = Search(
        Settings(estimator=SimpleNamespace(get_params=lambda deep: {"max_depth": 12})), lambda changes: math.inf
    )
    matching._search_parameters(search)
    assert len(search.calls) == 1 + 3 + 3


def test_parameters_are_tried_in_their_order_and_at_most_24_times():
    estimator = SimpleNamespace(
        get_params=lambda deep: {"C": 1.0, "n_estimators": 100, "alpha": 2.0, "max_depth": 8, "learning_rate": 0.1,
                                 "min_samples_leaf": 8}
    )  # fmt: skip
    search = Search(Settings(estimator=estimator), lambda changes: 1.0)
    matching._search_parameters(search)
    names = [name for name, _ in itertools.groupby(next(iter(call[0]), "") for call in search.calls)]
    assert names == ["", "max_depth", "min_samples_leaf", "n_estimators", "learning_rate"]
    assert len(search.tried) == matching.MAX_PARAMETER_RUNS == 24


# --- asking a trial model after its epochs


def visit(distances, only=None, epochs=None, prune=False, model=0, answers=None, asked=None):
    """Visit epochs 1, 2, …, whose answers are off by ``distances``."""
    current = iter(distances)

    def measure(target, held_out):
        if asked is not None:
            asked.append(target)
        return np.array([distances[target - 1]])

    goal = matching.MatchGoal(None, np.zeros(1), measure)
    told = matching._Visit(goal, {} if answers is None else answers, model, only, epochs, prune)
    returned = [told(epoch, SimpleNamespace(target=epoch)) for epoch, _ in enumerate(current, start=1)]
    return told, returned


def test_each_epoch_is_the_nearest_if_it_is_nearer_than_all_before():
    told, returned = visit([5.0, 3.0, 3.0, 4.0, 1.0])
    assert [is_nearest for is_nearest, _ in returned] == [True, True, False, False, True]
    assert told.nearest == 5
    assert told.scores == {1: 5.0, 2: 3.0, 3: 3.0, 4: 4.0, 5: 1.0}


def test_a_training_is_stopped_long_after_its_nearest_epoch_if_that_is_asked_and_it_is_clearly_worse():
    worse = [1.0, 1.2, 1.2, 1.2, 1.2]
    assert [stops for _, stops in visit(worse, prune=True)[1]] == [False, False, False, True, True]  # 2·1 + 2
    assert not any(stops for _, stops in visit(worse)[1])
    assert not any(stops for _, stops in visit([1.0, 1.05, 1.05, 1.05, 1.05], prune=True)[1])
    assert [stops for _, stops in visit([2.0, 1.0] + [1.2] * 5, prune=True)[1]] == [False] * 5 + [True] * 2


def test_epochs_that_may_not_be_chosen_are_not_asked():
    asked = []
    told, returned = visit([1.0, 5.0, 4.0, 3.0], epochs=(2, 3), asked=asked)
    assert asked == [2, 3]
    assert returned == [(False, False), (True, False), (True, False), (False, False)]
    assert told.nearest == 3


def test_a_finished_model_is_asked_alone_or_the_last_of_those_that_stop_by_themselves():
    asked = []
    answers = {}
    told, returned = visit([1.0, 5.0, 4.0], only=3, asked=asked, answers=answers)
    assert asked == [3]
    assert returned == [(False, False), (False, False), (True, False)]
    assert told.nearest == 3
    assert [row.tolist() for row in answers[3]] == [[4.0]]
    answers = {0: [np.array([9.0])]}
    told, returned = visit([1.0, 5.0, 4.0], only=0, model=1, answers=answers)
    assert returned == [(True, False)] * 3
    assert [row.tolist() for row in answers[0]] == [[9.0], [4.0]]


def test_a_model_whose_answers_are_no_numbers_or_that_outlasts_the_one_before_is_stopped():
    assert visit([1.0, math.nan, 1.0])[1][1] == (False, True)
    assert visit([1.0, math.inf], only=2)[1][1] == (False, True)
    answers = {1: [np.array([3.0])]}
    told, returned = visit([4.0, 1.0], model=1, answers=answers)
    assert returned == [(True, False), (False, True)]
    assert told.scores == {1: pytest.approx(math.sqrt((9 + 16) / 2))}


@pytest.mark.parametrize(
    ("stop_after", "epochs", "fits"), [(None, 3, True), (3, 3, True), (2, 3, True), (4, 3, False)]
)  # fmt: skip
def test_a_training_stops_after_an_epoch_that_it_has(stop_after, epochs, fits):
    if fits:
        matching.check_stop(stop_after, epochs)
    else:
        with pytest.raises(InputError, match="must be at most epochs = 3, got 4"):
            matching.check_stop(stop_after, epochs)


def test_two_hundred_combinations_can_be_tried_and_no_more():
    assert len(matching.check_match({"lr": list(range(100)), "epochs": [1, 2]})["lr"]) == 100
    with pytest.raises(InputError, match="at most 200 combinations of values can be tried, got 201"):
        matching.check_match({"lr": list(range(201))})
    for wrong in ({}, {1: [2]}, 3, "all"):
        with pytest.raises(InputError, match="match"):
            matching.check_match(wrong)
    with pytest.raises(InputError, match="lr: at least 1 value is needed"):
        matching.check_match({"lr": []})


# --- splits


@pytest.mark.parametrize(("k", "of"), [(1, 2), (1, 3), (2, 3), (3, 4)])
def test_equal_records_follow_the_first_usable_one_of_their_group(k, of):
    rng = np.random.default_rng([k, of])
    groups, candidates = rng.integers(0, 9, 40), rng.random(40) < 0.3
    dealt = splits.offline(40, 2 * of, 5, k=k, of=of, candidates=candidates, groups=groups).trained_on
    usable = np.flatnonzero(~candidates)
    for group in np.unique(groups[usable]):
        rows = [row for row in usable if groups[row] == group]
        assert (dealt[:, rows] == dealt[:, rows[:1]]).all()
    assert not dealt[:, candidates].any()
    assert (dealt[:of, usable].sum(axis=0) == k).all()


def test_as_many_distinct_records_as_models_in_a_block_are_enough():
    groups = np.array([0, 0, 1, 2, 2])
    assert splits.offline(5, 3, 0, of=3, groups=groups).trained_on.sum() == 5
    with pytest.raises(InputError, match="at least 3 distinct ones outside the candidates are needed, got 2"):
        splits.offline(5, 3, 0, of=3, groups=groups, candidates=groups == 1)
    with pytest.raises(InputError, match="at least 4 outside the candidates are needed, got 3"):
        splits.offline(3, 4, 0, of=4)


def test_a_split_is_described_by_its_smallest_and_largest_model():
    split = splits.Splits(np.array([[True, False, True], [True, True, True]]))
    assert repr(split) == "Splits(models=2, records=3, members=2..3)"
    assert split.members(0).tolist() == [0, 2]
    assert len(split) == 2
    with pytest.raises(InputError, match="model 1 has no record"):
        splits.Splits(np.array([[True], [False]]))


# --- words of progress


@pytest.mark.parametrize(
    ("completed", "seconds", "before", "expected"),
    [
        (5, 120.0, 1, "5 of 16 models, 2.0 a minute, 6 min left"),  # 11 at 30 s
        (1, 10.0, 1, "1 of 16 models"),
        (0.5, 10.0, 1, "0 of 16 models"),
        (2, 0.0, 0, "2 of 16 models"),
        (16, 60.0, 0, "16 of 16 models"),
        (15, 1345.0, 0, "15 of 16 models, 0.7 a minute, 90 s left"),
        (15, 1350.0, 0, "15 of 16 models, 0.7 a minute, 2 min left"),
        (2.999_999_999_9, 30.0, 0, "3 of 16 models, 6.0 a minute, 2 min left"),
    ],
)
def test_the_pace_is_that_of_new_models_alone(completed, seconds, before, expected):
    assert describe_progress(completed, 16, seconds, before) == expected


def test_progress_is_a_function_a_bar_or_none():
    assert [check_progress(each) for each in (None, False, True, "auto", ignore_progress)] == [
        None,
        None,
        "auto",
        "auto",
        ignore_progress,
    ]
    with pytest.raises(InputError, match="progress"):
        check_progress("bar")
    told = []
    with show_progress(lambda *words: told.append(words), "title") as progress:
        progress(1.0, 2, "")
    assert told == [(1.0, 2, "")]
    with show_progress(None, "title") as progress:
        assert progress is ignore_progress
