"""One row a submission: against scikit-learn's own metrics, and against all labellings tried one by one."""

import itertools
import math
import warnings

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

import divulge as dv
from divulge import cli, labels

COARSE = {
    "auc": lambda y, p: sklearn_metrics.roc_auc_score(y, p),
    "f1": lambda y, p: sklearn_metrics.f1_score(y, p > 0.5, zero_division=0.0),
    "accuracy": lambda y, p: sklearn_metrics.accuracy_score(y, p > 0.5),
    "balanced_accuracy": sklearn_metrics.balanced_accuracy_score,
    "macro_f1": lambda y, p: sklearn_metrics.f1_score(y, p, average="macro", zero_division=0.0),
    "mcc": sklearn_metrics.matthews_corrcoef,
    "quadratic_weighted_kappa": lambda y, p: sklearn_metrics.cohen_kappa_score(y, p, weights="quadratic"),
    "r2": sklearn_metrics.r2_score,
}


def draw_labels(n, share, seed=1):
    y = (np.random.default_rng(seed).random(n) < share).astype(int)
    y[:2] = 0, 1
    return y


def endpoint(metric, y, decimals):
    def answer(predictions):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return round(float(COARSE[metric](y, np.asarray(predictions))), decimals)

    return answer


@pytest.mark.parametrize(
    ("metric", "n", "decimals"),
    [
        ("auc", 100, 4), ("auc", 60, 2), ("f1", 70, 2), ("f1", 30, 1), ("mcc", 60, 1), ("accuracy", 60, 2),
        ("accuracy", 11, 1), ("r2", 100, 2), ("r2", 200, 1),
    ],
)  # fmt: skip
def test_coarse_scores_give_every_label_away(metric, n, decimals):
    spec = labels.OracleSpec(metric, n=n, decimals=decimals)
    plan = labels.design(spec)
    assert plan.count <= n + 1
    for share in (0.05, 0.5, 0.95):
        y = draw_labels(n, share)
        inference = labels.infer(endpoint(metric, y, decimals), plan)
        assert inference.contradiction is None
        assert (inference.labels == y).all()
        assert inference.determined.all(), share
        # What no control query would show is not called proven, and said.
        assert inference.proven.all() or "no query would show" in inference.caveat
        assert inference.proven.all() or metric not in ("auc", "accuracy", "r2")


@pytest.mark.parametrize("metric", [name for name in COARSE if name != "r2"])
@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_a_label_is_determined_exactly_if_all_labellings_that_explain_the_answers_share_it(metric, decimals):
    n, n_plans = 7, 0
    spec = labels.OracleSpec(metric, n=n, decimals=decimals)
    try:
        plan = labels.design(spec)
    except dv.InputError:
        return
    every = np.array(list(itertools.product([0, 1], repeat=n)))
    every = every[1:-1] if metric == "auc" else every
    scores = {}
    for y in every[:: 5 if plan.method == "one row a query" else 40]:
        asked = []
        true = labels.LocalOracle(spec, y)

        def answer(predictions, asked=asked, true=true):
            asked.append((predictions, true(predictions)))
            return asked[-1][1]

        inference = labels.infer(answer, plan, control=False)
        assert inference.contradiction is None
        explains = np.ones(len(every), dtype=bool)
        for predictions, shown in asked:
            key = predictions.tobytes()
            if key not in scores:
                scores[key] = np.array([labels.LocalOracle(spec, z).exact(predictions) for z in every])
            explains &= np.abs(scores[key] - shown) <= spec.rounding + 1e-12
        shared = (every[explains] == y).all(axis=0)
        assert not (inference.determined & ~shared).any()
        assert (inference.labels == y)[inference.determined].all()
        if plan.method == "one row a query":
            n_plans += 1
            assert (inference.determined == shared).all()
    assert n_plans or plan.method != "one row a query"


@pytest.mark.parametrize("metric", ["auc", "f1", "balanced_accuracy", "mcc", "quadratic_weighted_kappa", "accuracy"])
@pytest.mark.parametrize("n", [3, 6])
def test_what_is_certified_gives_no_two_labellings_the_same_answers(metric, n):
    every = np.array(list(itertools.product([0, 1], repeat=n)))
    every = every if metric in ("f1", "accuracy") else every[1:-1]
    for options in ({"decimals": 0}, {"decimals": 1}, {"decimals": 2}, {"noise": 0.04}, {"noise": 0.1}, {"noise": 0.2}):
        spec = labels.OracleSpec(metric, n=n, **options)
        try:
            plan = labels.design(spec)
        except dv.InputError:
            continue
        if plan.method != "one row a query" or not plan.certificate.certified:
            continue
        exact = np.array([[labels.LocalOracle(spec, y).exact(q) for q in plan.queries] for y in every])
        if "noise" in options:
            away = np.abs(exact[:, None] - exact[None]).max(axis=2)
            assert away[~np.eye(len(every), dtype=bool)].min() > 2 * spec.noise
        else:
            assert len({tuple(np.round(row, spec.decimals)) for row in exact}) == len(every)


@pytest.mark.parametrize(("metric", "n"), [("auc", 21), ("f1", 21)])
def test_below_the_error_that_capacity_names_one_row_is_read_through_the_worst_noise(metric, n):
    limit = labels.capacity(labels.OracleSpec(metric, n=n)).threshold
    assert limit > 0
    spec = labels.OracleSpec(metric, n=n, noise=limit * 0.99)
    plan = labels.design(spec)
    assert plan.certificate.certified
    for share, seed in itertools.product((0.0, 0.3, 0.6, 1.0), range(2)):
        y = draw_labels(n, share, seed)
        assert labels.simulate(spec, y, plan, seed=seed).accuracy == 1.0
    open_plan = labels.design(labels.OracleSpec(metric, n=n, noise=limit * 1.01))
    assert not open_plan.certificate.certified
    assert "no all-clear" in str(open_plan.certificate) or "follows from the answers" in str(open_plan.certificate)


def test_capacity_of_auc_agrees_with_design():
    bound = labels.capacity(labels.OracleSpec("auc", n=200, decimals=4))
    assert bound.threshold == pytest.approx(1 / (2 * 199))
    assert labels.capacity(labels.OracleSpec("f1", n=200, decimals=4)).threshold == pytest.approx(1 / 201)
    assert math.isnan(labels.capacity(labels.OracleSpec("r2", n=200, decimals=4)).threshold)


@pytest.mark.parametrize(
    ("metric", "n", "decimals"), [("auc", 40, 1), ("f1", 40, 1), ("mcc", 40, 1)]
)  # fmt: skip
def test_endpoints_that_are_not_as_declared_have_no_wrong_label_proven(metric, n, decimals):
    plan = labels.design(labels.OracleSpec(metric, n=n, decimals=decimals))
    assert plan.method == "one row a query"
    score = COARSE[metric]
    for seed, share in enumerate((0.1, 0.7)):
        rng = np.random.default_rng(seed)
        y = draw_labels(n, share, seed)
        dropped = np.arange(n) != rng.integers(2, n)

        def gains(best=[-9.0], y=y):  # noqa: B006 (the rule's memory)
            best[0] = -9.0

            def answer(p):
                value = float(score(y, np.asarray(p)))
                best[0] = value if value >= best[0] + 0.001 else best[0]
                return round(best[0], decimals)

            return answer

        rules = [
            lambda p, y=y: math.floor(10**decimals * score(y, np.asarray(p))) / 10**decimals,
            lambda p, y=y, dropped=dropped: round(float(score(y[dropped], np.asarray(p)[dropped])), decimals),
            lambda p, y=y, rng=rng: round(float(score(y, np.asarray(p))) + rng.normal(0, 10.0**-decimals), decimals),
            lambda p, y=y, rng=rng: round(float(score(y, np.asarray(p)[rng.permutation(len(y))])), decimals),
            gains(),
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for rule in rules:
                inference = labels.infer(rule, plan)
                assert not (inference.proven & (inference.labels != y)).any()


def test_a_row_that_stays_open_is_no_all_clear():
    y = draw_labels(200, 0.5)
    spec = labels.OracleSpec("auc", n=200, decimals=1)
    plan = labels.design(spec)
    assert "only where at most 9 rows are 1" in str(plan.certificate)
    few = np.arange(200) < 30
    spec = labels.OracleSpec("f1", n=200, decimals=1)
    inference = labels.infer(endpoint("f1", (np.arange(200) < 37).astype(int), 1), labels.design(spec))
    assert 0 < inference.determined.sum() < 200
    assert "no all-clear" in inference.caveat
    assert labels.infer(endpoint("f1", few.astype(int), 1), labels.design(spec)).determined.all()
    assert not (inference.determined & (inference.labels != (np.arange(200) < 37).astype(int))).any()
    assert not labels.infer(endpoint("auc", y, 1), plan).determined.any()


@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "mae", "map_at_k", "mcc", "r2", "balanced_accuracy"])
def test_no_refusal_says_that_nothing_leaks_yet(metric):
    with pytest.raises(dv.InputError) as error:
        labels.design(labels.OracleSpec(metric, n=400, noise=60.0, clip=0.01))
    assert "no code known here" in str(error.value)
    assert "this is no all-clear" in str(error.value)
    assert "leaks once" not in str(error.value)


@pytest.mark.parametrize(("metric", "n", "decimals"), [("log_loss", 40, 0), ("squared_euclidean", 80, 1)])
def test_a_loss_across_an_edge_of_the_rounding_is_read(metric, n, decimals):
    spec = labels.OracleSpec(metric, n=n, decimals=decimals, clip=1e-15)
    plan = labels.design(spec)
    assert plan.method == "one row a query"
    for share in (0.1, 0.5, 0.9):
        y = draw_labels(n, share)
        inference = labels.infer(labels.LocalOracle(spec, y), plan)
        assert inference.determined.all()
        assert (inference.labels == y).all()
        # Control queries are answered alike whatever single labels are, also where rows are left out.
        assert not inference.proven.any()
        assert "no query would show" in inference.caveat


def test_rows_that_are_left_out_and_hide_one_another_prove_no_label():
    """Of two unscored rows one makes up for the other in all control queries of these draws."""
    spec, n_proven = labels.OracleSpec("auc", n=400, decimals=2), 0
    plan = labels.design(spec)
    for seed in (1, 3, 16):
        rng = np.random.default_rng(seed)
        y = rng.permutation(400) < 30
        is_scored = np.ones(400, dtype=bool)
        is_scored[[rng.choice(np.flatnonzero(y)), rng.choice(np.flatnonzero(~y))]] = False
        ask = endpoint("auc", y[is_scored].astype(int), 2)
        inference = labels.infer(lambda p, ask=ask, scored=is_scored: ask(np.asarray(p)[scored]), plan)
        assert not (inference.proven & ((inference.labels != y) | ~is_scored)).any()
        n_proven += int(inference.proven.sum())
    assert n_proven > 0, "nothing was proven, so that this shows nothing"


def test_the_menu_reads_auc_with_as_many_submissions_as_rows(capsys):
    items = {item.name: item for item in labels.menu(labels.OracleSpec("auc", n=100, decimals=4))}
    assert items["as it is"].read == items["rounding"].read == 100
    assert items["submissions per day"].read == 90
    assert items["private split"].read is None
    assert cli.run(["labels", "defend", "--n", "100", "--metric", "auc", "--decimals", "4"]) == 0
    assert "no attack of ours is known there, which is no all-clear" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("step", "leaks"), [(0.008, True), (0.012, False)])
def test_a_minimum_gain_is_counted_as_a_naive_attacker_reads_through_it(step, leaks, capsys):
    n, y, best = 100, draw_labels(100, 0.4), -1.0
    guess, shown = np.zeros(n), []

    def ask(p):
        nonlocal best
        score = float(np.mean(p == y))
        best = score if score >= best + step else best
        return round(best, 4)

    shown = ask(guess)
    for row in range(n):
        trial = guess.copy()
        trial[row] = 1
        if (answer := ask(trial)) > shown:
            shown, guess = answer, trial
    assert (guess == y).all() == leaks
    spec = labels.OracleSpec("accuracy", n=n, decimals=4)
    item = next(item for item in labels.menu(spec, step=step) if item.name == "minimum gain")
    assert item.read == (n if leaks else 0)
    assert item.readable >= item.read
    command = ["labels", "defend", "--n", "100", "--metric", "accuracy", "--decimals", "4"]
    assert cli.run([*command, "--step", str(step), "--days", "50", "--per-day", "6"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "6 submissions a day for 50 days" in text
    assert ("our attack still reads 100 of 100 labels" in text) == leaks


@pytest.mark.parametrize("metric", ["auc", "f1", "mcc"])
def test_a_minimum_gain_leaks_through_other_metrics_as_well(metric):
    items = {item.name: item for item in labels.menu(labels.OracleSpec(metric, n=40, decimals=5), step=1e-4)}
    assert items["minimum gain"].read == items["ladder"].read == 40


@pytest.mark.parametrize(("queries", "step"), [(3, 0.5), (4, 0.4), (5, 1.0)])
def test_best_scores_hold_no_more_than_is_counted(queries, step):
    """Naively: all sequences of scores with one decimal, and how many different sequences of best scores they give."""
    sequences = set()
    for scores in itertools.product(np.arange(11) / 10, repeat=queries):
        best, shown = -1.0, []
        for score in scores:
            best = score if best < 0 or score >= best + step - 1e-12 else best
            shown.append(best)
        sequences.add(tuple(shown))
    spec = labels.OracleSpec(labels.KnownRange(0, 1), n=1000, decimals=1)
    item = next(item for item in labels.menu(spec, days=queries, per_day=1, step=step) if item.name == "minimum gain")
    assert math.log2(len(sequences)) < item.readable + 1


def log_loss_endpoint(y, form, scored, decimals=4):
    def answer(p):
        p = np.clip(p[:, 1] if form == "column" else p, 1e-15, 1 - 1e-15)
        losses = -np.log(np.where(y == 1, p, 1 - p)) if p.ndim == 1 else -np.log(p[np.arange(len(y)), y])
        return round(float(losses[scored].mean()), decimals)

    return answer


def test_one_column_and_a_hidden_part_are_told_from_the_answers():
    n = 200
    y = draw_labels(n, 0.4)
    spec = labels.OracleSpec(n=n, clip=1e-15, decimals=4)
    plan, everything = labels.design(spec), np.ones(n, dtype=bool)
    assert labels.infer(log_loss_endpoint(y, "rows", everything), plan).proven.all()
    found = str(labels.infer(log_loss_endpoint(y, "column", everything), plan).contradiction)
    assert "--submission positive" in found
    part = np.random.default_rng(5).permutation(n) < 60
    found = str(labels.infer(log_loss_endpoint(y, "rows", part), plan).contradiction)
    assert "--scored" in found
    assert "not all 200 rows are scored" in found
    accuracy = labels.design(labels.OracleSpec("accuracy", n=n, decimals=4))
    found = str(labels.infer(lambda p: round(float(np.mean(p[part] == y[part])), 4), accuracy).contradiction)
    assert "60 or a multiple" in found
    other = str(labels.infer(lambda p: round(float(np.log1p(((p - y) ** 2).sum())), 4), accuracy).contradiction)
    assert "submission (rows, or positive: one column) and scored" in other or "they look" in other


def test_a_rule_that_shows_the_best_score_so_far_is_named_and_no_protection():
    y = draw_labels(200, 0.4)
    best = -1.0

    def answer(p):
        nonlocal best
        score = float(np.mean(p == y))
        best = score if score >= best + 0.001 else best
        return round(best, 4)

    found = labels.infer(answer, labels.design(labels.OracleSpec("accuracy", n=200, decimals=4)))
    assert "best score so far" in str(found.contradiction)
    assert "protects no label that is worth more than the gain" in str(found.contradiction)


@pytest.mark.parametrize(("kind", "noise"), [("gaussian", 0.01), ("laplace", 0.01)])
def test_accuracy_under_noise_is_read_by_signs(kind, noise):
    spec = labels.OracleSpec("accuracy", n=80, decimals=4, noise=noise, noise_kind=kind)
    plan = labels.design(spec, queries=700)
    assert plan.method == "signs"
    for seed in range(2):
        y = draw_labels(80, 0.4, seed)
        inference = labels.infer(labels.LocalOracle(spec, y, seed), plan)
        assert (inference.labels == y).all()
        assert inference.proven.mean() > 0.9
        louder = labels.LocalOracle(labels.OracleSpec("accuracy", n=80, noise=3 * noise, noise_kind=kind), y, seed)
        loud = labels.infer(lambda p, louder=louder: round(louder(p), 4), plan)
        assert not (loud.proven & (loud.labels != y)).any()
    with pytest.raises(dv.InputError, match=r"no code known here reads f1 under .* noise; average m answers"):
        labels.design(labels.OracleSpec("f1", n=80, noise=noise, noise_kind=kind))
