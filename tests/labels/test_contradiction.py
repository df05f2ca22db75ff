"""Answers of another oracle than declared: found, said in words, and never turned into labels."""

import json
import math
from functools import partial

import numpy as np
import pytest

from divulge import labels
from divulge.labels import inference, plans
from divulge.labels.oracles import QuotaReachedError

BOARD = {"clip": 1e-15, "decimals": 5}


@pytest.fixture
def y():
    return np.random.default_rng(3).integers(0, 2, 198)


@pytest.fixture
def spec():
    return labels.OracleSpec(n=198, **BOARD)


@pytest.fixture
def divulge(divulge):
    """Run `divulge labels` in this process."""
    return partial(divulge, "labels")


def as_options(spec):
    return ["--n", spec.n, "--clip", spec.clip, "--decimals", spec.decimals]


def test_a_board_that_rounds_to_four_decimals_is_found_out_and_no_label_is_written(
    divulge, leaderboard, y, spec, tmp_path
):
    url = leaderboard(y, clip=1e-15, decimals=4)
    out, report = tmp_path / "labels.csv", tmp_path / "r.html"
    code, output, error = divulge("attack", url, *as_options(spec), "--out", out, "--report", report)
    assert code == 4
    assert "the answers contradict the specification" in error
    assert "they look rounded to 4 decimals" in error
    assert "no labels are given" in error
    assert not output
    assert not out.exists()
    page = report.read_text()
    assert "they look rounded to 4 decimals" in page
    assert "labels were read" not in page

    code, output, _ = divulge("attack", url, *as_options(spec), "--json")
    content = json.loads(output)
    assert code == 4
    assert content["labels"] is None
    assert content["proven"] == content["certain"] == 0
    assert "rounded to 4 decimals" in content["contradiction"]


def test_a_simulation_against_another_board_says_that_it_contradicts(leaderboard, y, spec):
    board = labels.HttpOracle(leaderboard(y, clip=1e-6, decimals=5))
    simulation = labels.simulate(spec, y, oracle=board)
    assert "they look clipped at 1e-06, not at 1e-15" in str(simulation.inference.contradiction)


def test_typed_scores_of_another_board_end_with_their_own_exit_code(divulge, y, spec, tmp_path):
    plan = labels.design(spec)
    oracle = labels.LocalOracle(spec, y)
    scores = [198 * oracle(query) for query in (*plan.queries, *plan.controls)]
    (tmp_path / "scores").write_text("\n".join(map(str, scores)))
    code, _, error = divulge("attack", *as_options(spec), "--scores", tmp_path / "scores")
    assert code == 4
    assert "the answers contradict" in error


def test_an_honest_board_is_checked_and_its_labels_are_written(divulge, leaderboard, y, spec, tmp_path):
    out = tmp_path / "labels.csv"
    code, output, _ = divulge("attack", leaderboard(y, **BOARD), *as_options(spec), "--out", out)
    assert code == 0
    assert "the control queries were answered as these labels imply" in output
    table = np.loadtxt(out, delimiter=",", skiprows=1, dtype=int)
    assert (table[:, 1] == y).all()
    assert (table[:, 2:] == 1).all()


def test_rows_that_the_answers_leave_open_have_no_label_in_the_table(leaderboard, y, spec, tmp_path):
    out, plan = tmp_path / "labels.csv", labels.design(spec, "positional")
    read = labels.infer(labels.HttpOracle(leaderboard(y, **BOARD, quota=4)), plan)
    assert not read.complete
    inference.write_labels(out, spec, read)
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    has_label = np.array([label != "" for _, label, _, _ in rows])
    assert 0 < has_label.sum() < 198
    assert all(int(label) == y[int(row)] for row, label, _, _ in rows if label)
    assert all(proven == "0" for *_, proven in rows)  # as no control query was answered


LOOKS = {
    "rounded to 4 decimals": lambda exact: lambda rows: round(exact(rows), 4),
    "rounded to 7 decimals": lambda exact: lambda rows: round(exact(rows), 7),
    "unrounded": lambda exact: exact,
    "truncated to 5 decimals, not rounded": lambda exact: lambda rows: math.floor(exact(rows) * 1e5) / 1e5,
    "like a sum over rows, not a mean": lambda exact: lambda rows: round(198 * exact(rows), 5),
    "negated (larger is better there)": lambda exact: lambda rows: -round(exact(rows), 5),
    "constant (every answer is 0.69315)": lambda _: lambda rows: 0.69315,
}


@pytest.mark.parametrize("looks", LOOKS)
def test_usual_slips_are_named(looks, y, spec):
    inference = labels.infer(LOOKS[looks](labels.LocalOracle(spec, y).exact), labels.design(spec))
    assert looks in inference.contradiction.looks
    assert not (inference.proven | inference.certain).any()
    assert "contradict" in repr(inference)


@pytest.mark.parametrize("clip", [1e-2, 1e-6, "float32", "float64"])
def test_another_clip_is_named(clip, y):
    spec = labels.OracleSpec(n=198, clip=1e-15, noise=1e-6)
    clipped_spec = labels.OracleSpec(n=198, clip=clip, noise=1e-6)
    inference = labels.infer(labels.LocalOracle(clipped_spec, y), labels.design(spec))
    if clip == "float64":
        assert inference.contradiction is None  # the plan asks for nothing that this clip would touch
        assert (inference.labels == y).all()
    else:
        assert inference.contradiction.looks == f"clipped at {clipped_spec.epsilon:.3g}, not at 1e-15"


def test_a_server_that_answers_the_same_query_differently_is_said_to_be_noisy(y):
    spec = labels.OracleSpec(n=198)
    draws = np.random.default_rng(0)
    exact = labels.LocalOracle(spec, y).exact
    inference = labels.infer(lambda rows: exact(rows) + draws.normal(0, 1e-9), labels.design(spec))
    assert inference.contradiction.looks.startswith("noisy (the same query was answered")
    assert "declared noise: none" in inference.contradiction.looks


def test_repeated_answers_of_a_limited_server_are_said(y, spec):
    oracle = labels.LocalOracle(spec, y)
    queries_asked = []

    def limited(rows):
        if len(queries_asked) < 4:
            queries_asked.append(oracle(rows))
        return queries_asked[-1]

    inference = labels.infer(limited, labels.design(spec))
    assert "repeated (" in inference.contradiction.looks


def test_without_its_control_query_a_noisy_answer_may_be_read_as_other_labels(y):
    # One query holds all ten labels; an answer a few steps off is that of other labels, and nothing tells.
    spec, truth = labels.OracleSpec(n=10), y[:10]
    plan = labels.design(spec)
    exact = labels.LocalOracle(spec, truth).exact
    other_truth = 1 - truth
    # This server scores everything against other labels, but the control query.
    control_query = plan.queries[0]

    def server(rows):
        return labels.LocalOracle(spec, other_truth if np.array_equal(rows, control_query) else truth).exact(rows)

    trusting, checking = (labels.infer(server, plan, control=with_control) for with_control in (False, True))
    assert trusting.determined.all()
    assert not trusting.proven.any()
    assert checking.contradiction.found.startswith("a control query was answered")
    assert not checking.proven.any()
    assert labels.infer(exact, plan).checked


def test_a_used_up_quota_leaves_the_labels_unchecked(y, spec):
    plan = labels.design(spec)
    oracle = labels.LocalOracle(spec, y)
    quota = iter(range(plan.count))

    def limited(rows):
        if next(quota, None) is None:
            raise QuotaReachedError
        return oracle(rows)

    inference = labels.infer(limited, plan)
    assert inference.complete
    assert inference.determined.all()
    assert not inference.proven.any()


def test_the_answer_to_the_control_query_is_kept_and_not_asked_again(y, spec, tmp_path):
    plan = labels.design(spec)
    labels.infer(labels.LocalOracle(spec, y), plan, journal=labels.Journal(tmp_path / "j", plan))

    def closed(_):
        raise QuotaReachedError

    inference = labels.infer(closed, plan, journal=labels.Journal(tmp_path / "j", plan))
    assert inference.checked
    assert (inference.labels == y).all()


def test_a_control_answer_that_is_no_number_is_named(spec, y):
    plan, oracle = labels.design(spec), labels.LocalOracle(spec, y)
    answers = iter([*(oracle(query) for query in plan.queries), math.nan])
    with pytest.raises(labels.inference.InputError, match="control query 0 was answered with nan"):
        labels.infer(lambda _: next(answers), plan)


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_what_no_answers_can_tell_is_not_claimed_to_be_found(metric):
    # 1 minus the accuracy is the accuracy for the opposite labels: the same answers, honestly.
    spec = labels.OracleSpec(metric=metric, n=30)
    y = np.random.default_rng(0).integers(0, 2, 30)
    oracle = labels.LocalOracle(spec, y)
    inference = labels.infer(lambda rows: 1 - oracle(rows), labels.design(spec))
    assert inference.contradiction is None
    assert (inference.labels == 1 - y).all()


@pytest.mark.parametrize("queries", [120, 300])
def test_signs_of_another_oracle_are_refuted_and_those_of_this_one_never(queries):
    spec = labels.OracleSpec(n=150, noise=0.3, noise_kind="gaussian")
    plan = labels.design(spec, queries=queries)
    for seed in range(2):
        y = np.random.default_rng(seed).integers(0, 2, 150)
        oracle = labels.LocalOracle(spec, y, seed)
        assert labels.infer(oracle, plan).contradiction is None
        assert labels.infer(lambda rows, ask=oracle: 150 * ask(rows), plan).contradiction is not None
        louder = labels.OracleSpec(n=150, noise=9.0, noise_kind="gaussian")
        inference = labels.infer(labels.LocalOracle(louder, y, seed), plan)
        assert not inference.proven.any()
        assert inference.contradiction is not None or queries < 150


def test_the_implied_answer_is_what_the_oracle_says():
    for options in ({}, {"metric": "mse"}, {"metric": "auc"}, {"classes": 5}, {"class_weight": (1.0, 4.0)}):
        spec = labels.OracleSpec(n=50, **options)
        y = np.arange(50) % spec.classes
        answer, allowed = plans.implied_control_answer(spec, y)
        assert abs(labels.LocalOracle(spec, y)(plans.control_query(spec)) - answer) <= allowed
        assert allowed < 1e-9
        turned = np.roll(y, 1) if spec.classes > 2 else 1 - y
        assert abs(labels.LocalOracle(spec, turned)(plans.control_query(spec)) - answer) > allowed


@pytest.mark.parametrize(
    ("value", "decimals", "fits"),
    [
        (0.12345, 5, True),
        (0.1 + 0.2, 1, True),
        (float(np.float32(12.34567)), 5, True),
        (float(np.float16(0.1234)), 4, False),
        (0.123456, 5, False),
        (123456.75, 2, True),
        (1e20, 3, True),
        (-0.25, 1, False),
        (0.0, 9, True),
    ],
)
def test_decimals_are_counted_as_floats_show_them(value, decimals, fits):
    assert bool(inference.has_decimals(np.array([value]), decimals)[0]) == fits


def test_only_three_equal_answers_or_more_are_called_constant():
    oracle = labels.OracleSpec(n=9)
    assert inference.describe_pattern(np.full(3, 0.7), oracle) == "constant (every answer is 0.7)"
    assert inference.describe_pattern(np.array([0.7, np.nan, 0.7, 0.7]), oracle).startswith("constant")
    assert not inference.describe_pattern(np.full(2, 0.1234567890123), oracle).startswith("constant")
    assert not inference.describe_pattern(np.array([0.7, 0.7, 0.8]), oracle).startswith("constant")


def test_answers_that_are_rounded_up_are_named(y, spec):
    exact = labels.LocalOracle(spec, y).exact
    inference = labels.infer(lambda rows: math.ceil(exact(rows) * 1e5) / 1e5, labels.design(spec))
    assert "rounded up to 5 decimals" in inference.contradiction.looks


@pytest.mark.parametrize(("metric", "is_named"), [("rmse", True), ("mae", False), ("log_loss", False)])
def test_a_missing_root_is_named_where_a_root_is_taken(metric, is_named):
    spec = labels.OracleSpec(metric, n=40, noise=1e-4)
    plan = labels.design(spec)
    truth = np.arange(40) % 2
    answers = np.array([labels.LocalOracle(spec, truth).exact(plan.queries[i]) for i in range(plan.count)])
    assert inference.find_metric_mistake(plan, answers**2) == (
        "like a mean squared error, without the root" if is_named else ""
    )


@pytest.mark.parametrize(
    ("declared", "slip", "message"),
    [
        ("mean", lambda score, n: score * n, "like a sum over rows, not a mean"),
        ("sum", lambda score, n: score / n, "like a mean over rows, not a sum"),
        ("mean", lambda score, n: -score, "negated"),
    ],
)
def test_a_slip_of_the_oracle_is_named(declared, slip, message):
    spec = labels.OracleSpec(n=20, clip=1e-3, noise=1e-9, reduction=declared)
    true = labels.LocalOracle(spec, np.random.default_rng(4).integers(0, 2, 20))
    plan = labels.design(spec)
    result = labels.infer(lambda rows: slip(true.exact(rows), 20), plan)
    assert message in str(result.contradiction)
    assert not result.proven.any()
    answers = np.array([slip(true.exact(plan.queries[i]), 20) for i in range(plan.count)])
    assert message in inference.find_metric_mistake(plan, answers)
