"""Non-members or a population that the model was trained on: never "no leak found", never "kept"."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

import divulge as dv

N = 150


def records(seed, n=N, shift=0.0):
    """Labels of which a third are noise, so that a tree remembers what it was trained on."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) + shift
    return dv.Records(x, np.where(rng.random(n) < 0.35, rng.integers(0, 2, n), x[:, 0] > 0).astype(int))


MEMBERS, OTHERS, POPULATION = records(1), records(2), records(3, 2 * N)


def audit(*trained_on, **sets):
    """Audit a tree that was trained on these records."""
    data = dv.Records.concatenate(trained_on)
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(data.x, data.y)
    sets = {"members": MEMBERS, "nonmembers": OTHERS, "population": POPULATION, "recipes": ["loss"]} | sets
    return dv.audit(tree, **sets, seed=0)


def find(result):
    (found,) = [finding for finding in result.about.findings if finding.check == "held-out records"]
    return found


@pytest.fixture(scope="module")
def refitted(tmp_path_factory):
    return audit(MEMBERS, OTHERS, out=tmp_path_factory.mktemp("runs") / "refitted")


def test_a_model_refitted_on_everything_leaks_and_keeps_no_limit(refitted):
    assert refitted.verdict.answer == "leak found"
    assert {ruling.state for ruling in dv.gate(refitted, ["auc:0.6", "tpr@fpr=0.05:0.5"])} == {"undecided"}
    assert "declared non-members" in refitted.verdict.plain
    (share,) = [value for name, value in find(refitted).figures.items() if name.startswith("share")]
    assert share.low > 0.6
    assert share.high == 1


def test_what_was_found_is_warned_of_written_and_read_again(refitted):
    assert any("non-members" in warning for warning in refitted.warnings)
    assert dv.load(refitted.path).verdict == refitted.verdict


def test_sound_sets_change_no_answer_and_say_how_many_trained_ones_would_have_been_seen():
    result = audit(MEMBERS)
    assert find(result).effect == "none"
    assert "%" in find(result).details[0]
    assert result.verdict.answer == "leak found"
    assert "broken" in {ruling.state for ruling in dv.gate(result, "auc:0.55")}


def test_a_population_that_was_trained_on_is_not_cleared():
    result = audit(MEMBERS, POPULATION)
    assert find(result).effect == "not cleared"
    assert "population" in find(result).sentence
    assert not any(ruling.state == "kept" for ruling in dv.gate(result, "auc:0.99"))


def test_sets_that_were_mixed_up_are_not_cleared():
    assert find(audit(OTHERS)).effect == "not cleared"


def test_a_population_of_another_kind_stops_no_audit():
    result = audit(MEMBERS, population=records(3, 2 * N, shift=1.5))
    assert find(result).effect == "not checked"


def test_two_parts_of_the_training_data_of_a_regression_model_are_found_out():
    def values(seed, n=N):
        drawn = records(seed, n)
        return dv.Records(drawn.x, drawn.x[:, 0] + np.random.default_rng(seed + 9).normal(size=n))

    training, population = values(1, 2 * N), values(3, 2 * N)
    model = KNeighborsRegressor(2).fit(training.x, training.y)
    half = {"members": training[:N], "nonmembers": training[N:], "population": population}
    result = dv.audit(model, **half, recipes=["loss"], seed=0)
    assert result.verdict.answer == "leak found"
    assert find(result).effect == "leak"


def with_rare_class(seed, n_rare):
    """A thousand records of two common classes, and a few of a third that looks like them."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(1000 + n_rare, 4)), np.full(1000 + n_rare, 2)
    y[:1000] = x[:1000, 0] + rng.normal(size=1000) > 0
    return dv.Records(x, y)


@pytest.mark.parametrize(
    ("trained_on", "answer"),
    [(("members", "nonmembers"), "too little data to say"), (("members",), "leak found"), ((), "no leak found")],
)
def test_a_rare_class_that_is_remembered_of_both_sets_is_not_cleared(trained_on, answer):
    """The rest of the model is a rule; of the rare class it knows by heart what it was trained on."""
    sets = {
        "members": with_rare_class(0, 12),
        "nonmembers": with_rare_class(1, 12),
        "population": with_rare_class(2, 24),
    }
    known = {row.tobytes() for name in trained_on for row in sets[name].x[sets[name].y == 2]}

    def target(x):
        p = np.c_[0.97 / (1 + np.exp([2 * x[:, 0], -2 * x[:, 0]])).T, np.full(len(x), 0.03)]
        p[[row.tobytes() in known for row in x]] = [0.05, 0.05, 0.9]
        return p

    result = dv.audit(target, **sets, recipes=["loss"], outputs="probabilities", seed=0)
    assert result.verdict.answer == answer
    assert ("non-members of class 2 score like training data" in find(result).sentence) == (len(trained_on) == 2)
    assert (dv.gate(result, "auc:0.6").state == "kept") == (not trained_on)
