"""Fair coins on labels: what is claimed is true, whatever the proxy, and a leak that is there is found."""

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge.canaries.label_coins import bound_difference, decide_label_privacy

N, DRAWS = 300, 30


def play(rng, epsilon=0.0, weakness=0.0, classes=2, shares=None, n=N, n_holdout=N):
    """Scores, coins, members: the best adversary against randomised response of ``epsilon``, before a proxy that
    mixes the true distribution of labels with an even one."""
    total = n + n_holdout
    base = np.full(classes, 1 / classes) if shares is None else np.asarray(shares)
    nature = np.stack([rng.dirichlet(base * 2 * classes) for _ in range(total)])
    proxy = (1 - weakness) * nature + weakness / classes

    def draw(p):
        return (p.cumsum(axis=1) < rng.random((total, 1))).sum(axis=1).clip(max=classes - 1)

    y, coins, members = draw(nature), rng.random(total) < 0.5, np.arange(total) < n
    shown = np.where(coins, y, draw(proxy))
    keeps = rng.random(total) < np.exp(epsilon) / (np.exp(epsilon) + classes - 1)
    noisy = np.where(keeps, y, (y + rng.integers(1, classes, total)) % classes)
    likelihood = np.where(noisy[:, None] == np.arange(classes), np.exp(epsilon), 1.0)
    model = np.where(members[:, None], nature * likelihood, nature)
    model /= model.sum(axis=1, keepdims=True)
    rows = np.arange(total)
    return np.log(model[rows, shown] + 1e-9) - np.log(proxy[rows, shown] + 1e-9), coins, members


KINDS = {
    "a proxy as good as nature": {},
    "a proxy a little too weak": {"weakness": 0.2},
    "a weak proxy": {"weakness": 0.6},
    "a rare class": {"shares": [0.97, 0.03], "weakness": 0.1},
    "many classes": {"classes": 20, "weakness": 0.2},
    "a small holdout": {"weakness": 0.3, "n_holdout": 40},
    "randomised response": {"epsilon": 1.0},
    "randomised response, a proxy a little too weak": {"epsilon": 1.0, "weakness": 0.2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_claimed_is_at_most_the_true_epsilon(kind):
    rng, setting = np.random.default_rng(0), KINDS[kind]
    findings = [decide_label_privacy(*play(rng, **setting)) for _ in range(DRAWS)]
    n_false = sum(finding.bound.low > setting.get("epsilon", 0.0) for finding in findings)
    assert n_false <= stats.binom.ppf(1 - 1e-4, DRAWS, 0.05)  # chance of failing: below 1e-4 each


def test_the_comparison_is_the_exact_conditional_bound():
    rng = np.random.default_rng(1)
    scores, coins, members = rng.normal(size=200), rng.random(200) < 0.5, np.arange(200) < 100
    scores[members] += 1.5 * coins[members]
    best = 0.0
    for share in (
        1,
        1 / 2,
        1 / 4,
        1 / 8,
        1 / 16,
        1 / 32,
    ):  # literally: guess both ends, count, try each ε
        order, k = np.argsort(scores), int(200 * share / 2)
        guessed = np.r_[order[:k], order[-k:]]
        is_right = np.r_[~coins[order[:k]], coins[order[-k:]]]
        a, b = int(is_right[members[guessed]].sum()), int(is_right.sum())
        n_members = int(members[guessed].sum())
        for epsilon in np.arange(0, 6, 0.005):
            tail = stats.nchypergeom_fisher.sf(a - 1, len(guessed), b, n_members, np.exp(epsilon))
            if tail > 0.05 / 6:
                break
            best = max(best, epsilon)
    assert bound_difference(scores, coins, members).low == pytest.approx(best, abs=0.01)
    assert best > 0.5


def records(seed=0, n=400, noise=0.1, classes=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3 * n, 3))
    y = np.where(rng.random(3 * n) < noise, rng.integers(0, classes, 3 * n), (x[:, 0] > 0).astype(int))
    names = ("members", "nonmembers", "population")
    return {name: dv.Records(x[i * n : i * n + n], y[i * n : i * n + n]) for i, name in enumerate(names)}


def fit(sets, name="members", **options):
    return DecisionTreeClassifier(random_state=0, **options).fit(sets[name].x, sets[name].y)


def test_labels_that_a_tree_memorised_leak_and_those_of_a_stump_do_not():
    sets = records(noise=0.5)
    assert dv.canaries.label_privacy(fit(sets), **sets).finding.answer == "labels leak"
    assert dv.canaries.label_privacy(fit(sets, max_depth=1), **sets).epsilon.low == 0


def test_class_shares_as_proxy_are_too_weak():
    sets = records()
    shares = DummyClassifier().fit(sets["population"].x, sets["population"].y)
    found = dv.canaries.label_privacy(fit(sets, max_depth=3), **sets, proxy=shares)
    assert found.finding.answer == "the proxy is too weak"


@pytest.mark.parametrize("side", ["members", "nonmembers"])
def test_nothing_is_claimed_with_a_proxy_that_was_trained_on_one_of_the_sets(side):
    sets = records(noise=0.5)
    proxy = fit(sets, side, min_samples_leaf=3)
    model = fit(sets, "population")  # never saw a label of either
    assert dv.canaries.label_privacy(model, **sets, proxy=proxy).epsilon.low == 0


def test_nothing_is_claimed_of_members_unlike_the_holdout():
    sets = records(noise=0.5)
    sets["members"] = dv.Records(sets["members"].x + 1.0, sets["members"].y)
    assert dv.canaries.label_privacy(fit(sets), **sets).finding.answer == "split is confounded"


def test_copies_across_and_within_the_sets_are_left_out():
    sets = records(noise=0.5)
    x, y = sets["members"].x.copy(), sets["members"].y.copy()
    x[:50], y[:50] = x[50:100], y[50:100]
    x[100:150], y[100:150] = sets["nonmembers"].x[:50], sets["nonmembers"].y[:50]
    found = dv.canaries.label_privacy(fit(sets), **sets | {"members": dv.Records(x, y)})
    assert found.left_out == 50 + 50 + 50 + 50


@pytest.mark.parametrize("n", [12, 29])
def test_tiny_sets_say_too_little(n):
    sets = records(n=n, noise=1.0)
    assert dv.canaries.label_privacy(fit(sets), **sets).finding.answer == "too little data to say"


def test_labels_of_one_class_are_refused():
    sets = {name: dv.Records(each.x, np.zeros(len(each), int)) for name, each in records().items()}
    with pytest.raises(dv.InputError, match="single class"):
        dv.canaries.label_privacy(lambda x: x[:, :2], **sets)


def test_a_run_says_the_same_when_it_is_read_and_no_limit_is_kept(tmp_path):
    sets = records(noise=0.5)
    found = dv.canaries.label_privacy(fit(sets), **sets, out=tmp_path / "run")
    assert dv.load(tmp_path / "run").summary == found.summary()
    assert found.gate("epsilon:0.1").state == "broken"
    assert found.gate("epsilon:9").state == "undecided"
    assert dv.canaries.label_privacy(fit(sets, max_depth=1), **sets).gate("epsilon:9").state == "undecided"


def test_the_model_is_no_proxy_of_itself():
    sets = records()
    model = fit(sets)
    with pytest.raises(dv.InputError, match="proxy"):
        dv.canaries.label_privacy(model, **sets, proxy=model)


def test_records_of_which_none_is_distinct_are_refused():
    sets = {name: dv.Records(np.ones_like(each.x), each.y) for name, each in records().items()}
    with pytest.raises(dv.InputError, match=r"members, nonmembers: .* more than once"):
        dv.canaries.label_privacy(lambda x: x[:, :2], **sets)
