"""Plans, certificates and the reading of answers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from divulge import labels
from divulge.errors import InputError, UserCodeError
from divulge.labels import inference
from divulge.labels.oracles import LocalOracle, OracleSpec, QuotaReachedError
from divulge.labels.plans import Certificate, QueryPlan, Reading

SPEC = OracleSpec(n=12, clip=1e-3, noise=0.01)
PLAN = labels.design(SPEC)
Y = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0])


def answers_of(plan, y=Y, spec=None):
    oracle = LocalOracle(spec or plan.spec, y)
    return np.array([oracle.exact(query) for query in plan.queries])


def test_queries_are_a_sequence():
    queries = PLAN.queries
    assert len(queries) == PLAN.count == len(list(queries))
    np.testing.assert_array_equal(queries[-1], queries[PLAN.count - 1])
    np.testing.assert_array_equal(queries[-PLAN.count], queries[0])
    assert len(queries[1:3]) == len(list(queries)[1:3])
    for index in (PLAN.count, -PLAN.count - 1):
        with pytest.raises(IndexError, match=f"the plan has {PLAN.count} queries, there is no number {index}"):
            queries[index]
    assert PLAN.labels_per_query == 12 / PLAN.count
    np.testing.assert_array_equal(PLAN.query_after(1, np.zeros(PLAN.count)), queries[1])
    other = labels.design(replace(SPEC, noise=0.02))
    assert PLAN.key != other.key
    assert PLAN.key == labels.design(SPEC).key
    assert len(PLAN.key) == 16
    assert repr(PLAN) == f"QueryPlan({PLAN.method}, {PLAN.count} queries for 12 labels; {PLAN.certificate})"
    assert str(Certificate(True, 0.5, 0.25, "how")) == "certified: separation 0.5 > 0.25 (how)"
    assert str(Certificate(False, 0.5, 0.25, "how", "why")) == "not certified: why"


# --- certificates


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"noise_kind": "laplace"}, "laplace noise has no bound"),
        ({"class_weight": (1.0, 2.0)}, "only plain sums over all rows are certified"),
        ({"metric": "rmse"}, "only plain sums over all rows are certified"),
        ({"scored": 1}, "only plain sums over all rows are certified"),
    ],
)
def test_other_oracles_are_not_certified(options, reason):
    spec = OracleSpec(**{"n": 2, "noise": 0.01} | options)
    predictions = np.array([0.2, 0.4]) if "metric" in options else np.array([[0.5, 0.5], [0.9, 0.1]])
    found = labels.certify(spec, predictions)
    assert (found.certified, found.separation, found.method, found.why) == (False, 0.0, "none", reason)
    assert found.needed == pytest.approx(2 * spec.tolerance)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_prediction_is_certified_if_its_sums_lie_further_apart_than_twice_the_noise(reduction):
    spec = OracleSpec("mae", n=2, noise=0.0, reduction=reduction)
    scale = 2 if reduction == "mean" else 1
    rows = np.array([0.0, 0.25])  # losses 0 or 1, and 1/4 or 3/4
    for noise, certified in ((0.25 / scale - 1e-9, True), (0.25 / scale, False), (0.3 / scale, False)):
        found = labels.certify(replace(spec, noise=noise), rows)
        assert found.certified is certified
        assert found.separation == pytest.approx(0.5 / scale, abs=1e-12)
        assert found.needed == pytest.approx(2 * noise)
        assert certified or found.why == f"two answers are {found.separation:.3g} apart; noise bridges {2 * noise:.3g}"
    same = labels.certify(spec, np.array([0.0, 0.0]))
    assert (same.certified, same.separation, same.why) == (False, 0.0, "two labellings give the same answers")
    many = labels.certify(replace(spec, n=31), np.zeros(31))
    assert many.why == "31 rows are too many to enumerate and their losses are not superincreasing"


def test_of_several_predictions_the_best_and_of_a_plan_its_own_certificate_is_told():
    spec = OracleSpec("mae", n=2, noise=0.01)
    found = labels.certify(spec, np.array([[0.0, 0.0], [0.0, 0.25], [0.0, 0.3]]))
    assert found.certified
    assert found.separation == pytest.approx(0.25)
    assert labels.certify(SPEC, PLAN) is PLAN.certificate
    with pytest.raises(InputError, match="predictions: the plan was made for another oracle"):
        labels.certify(replace(SPEC, noise=0.02), PLAN)
    with pytest.raises(InputError, match="some label has an infinite loss"):
        labels.certify(OracleSpec(n=2, clip=None), np.array([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(InputError, match="predictions"):
        labels.certify(spec, np.zeros((0, 2)))


# --- asking and reading


class Store(dict):
    """A journal in memory."""

    def answers(self):
        return dict(self)

    def keep(self, index, answer):
        self[index] = answer


class Asked:
    """An oracle that counts, and stops at its quota."""

    def __init__(self, quota=99, change=lambda index, answer: answer, spec=SPEC):
        self.oracle, self.quota, self.change, self.queries = LocalOracle(spec, Y), quota, change, []

    def __call__(self, predictions):
        if len(self.queries) == self.quota:
            raise QuotaReachedError
        self.queries.append(predictions)
        return self.change(len(self.queries) - 1, self.oracle.exact(predictions))


def test_every_query_is_asked_once_and_the_control_queries_last():
    asked, store, progress = Asked(), Store(), []
    found = labels.infer(asked, PLAN, journal=store, progress=lambda done, total: progress.append((done, total)))
    assert len(asked.queries) == PLAN.count + len(PLAN.controls)
    np.testing.assert_array_equal(asked.queries[PLAN.count :], PLAN.controls)
    assert progress == [(index + 1, PLAN.count) for index in range(PLAN.count)]
    assert sorted(store) == list(range(PLAN.count + len(PLAN.controls)))
    assert found.checked
    assert found.complete
    assert found.queries == PLAN.count
    assert found.labels.tolist() == Y.tolist()
    again = Asked(quota=0)
    assert labels.infer(again, PLAN, journal=store).checked
    assert again.queries == []
    plain = Asked()
    assert not labels.infer(plain, PLAN, control=False).checked
    assert len(plain.queries) == PLAN.count


def test_a_used_up_quota_leaves_the_rest_open():
    for quota in range(PLAN.count + 1):
        store, progress = Store(), []
        found = labels.infer(Asked(quota), PLAN, journal=store, progress=lambda *told, to=progress: to.append(told))
        assert found.queries == quota == len(store) == len(progress)
        assert not found.checked
        assert found.complete == (quota == PLAN.count)
        assert found.contradiction is None
        rest = labels.infer(Asked(), PLAN, journal=store)
        assert rest.checked


def test_a_journal_with_gaps_is_filled():
    exact = answers_of(PLAN)
    store = Store({1: float(exact[1])})
    asked = Asked()
    assert labels.infer(asked, PLAN, journal=store).labels.tolist() == Y.tolist()
    assert len(asked.queries) == PLAN.count - 1 + len(PLAN.controls)
    with pytest.raises(InputError, match=f"query 1 of {PLAN.count} was answered with nan"):
        labels.infer(asked, PLAN, journal=Store({1: math.nan}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"oracle": 3}, "oracle"), ({"plan": SPEC}, "plan: "), ({"journal": {}}, "journal"),
        ({"progress": 3}, "progress"), ({"control": 1}, "control"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        labels.infer(**{"oracle": Asked(), "plan": PLAN} | options)


def test_errors_of_an_oracle_and_of_progress_are_their_own():
    with pytest.raises(UserCodeError, match="oracle"):
        labels.infer(lambda _: 1 / 0, PLAN)
    with pytest.raises(UserCodeError, match="progress"):
        labels.infer(Asked(), PLAN, progress=lambda done, total: 1 / 0)


def test_a_wrong_control_answer_withdraws_all_labels():
    change = lambda index, answer: answer + (0.5 if index == PLAN.count else 0.0)  # noqa: E731
    found = labels.infer(Asked(change=change), PLAN)
    assert "a control query was answered" in str(found.contradiction)
    assert not (found.proven | found.certain | np.array(found.checked)).any()
    assert repr(found) == f"LabelInference({found.contradiction})"


def test_answers_that_contradict_are_explained_only_where_more_may_be_asked():
    asked = Asked(change=lambda index, answer: -answer)
    explained = labels.infer(asked, PLAN)
    assert "negated" in explained.contradiction.looks
    assert len(asked.queries) > PLAN.count
    asked = Asked(change=lambda index, answer: -answer)
    found = labels.infer(asked, PLAN, control=False)
    assert found.contradiction is not None
    assert len(asked.queries) == PLAN.count


def reading_of(refuted, count=3):
    return Reading(np.zeros(2, int), np.ones(2, bool), np.ones(2, bool), np.zeros(count), np.array(refuted))


def test_answers_with_more_decimals_than_declared_come_before_those_that_fit_no_labels():
    spec = OracleSpec(n=2, decimals=2)
    plan = QueryPlan(spec, "x", labels.design(spec).inner, PLAN.certificate)
    none = inference.find_contradiction(plan, np.array([0.25, math.nan, 0.5]), reading_of([False] * 3))
    assert none is None
    found = inference.find_contradiction(plan, np.array([0.25, 0.1234, math.nan]), reading_of([True] * 3))
    assert found.found == "1 of 2 answers have more than the 2 decimals declared"
    assert (found.queries, found.looks) == ((1,), "rounded to 4 decimals")
    found = inference.find_contradiction(plan, np.array([0.123456789012345, 0.25, 0.5]), reading_of([False] * 3))
    assert (found.queries, found.looks) == ((0,), "unrounded")
    found = inference.find_contradiction(plan, np.array([0.25, 0.25, 0.25]), reading_of([True, False, True]))
    assert found.found == "2 of 3 answers fit no labels"
    assert (found.queries, found.looks) == ((0, 2), "constant (every answer is 0.25)")


def test_labels_are_told_in_words():
    contradiction = inference.Contradiction("x")
    assert str(contradiction) == (
        "the answers contradict the specification: x; check metric, clip, decimals, noise, number of rows, submission "
        "(rows, or positive: one column) and scored (a number of rows, or unknown, where not all count)"
    )
    exact = answers_of(PLAN)
    whole = labels.read(PLAN, np.r_[exact, [LocalOracle(SPEC, Y).exact(query) for query in PLAN.controls]])
    assert (
        repr(whole) == f"LabelInference(12 labels from {PLAN.count} queries, {whole.certain.sum()} certain, 12 proven)"
    )


def test_a_simulation_counts_right_labels_and_wrong_ones_that_were_called_certain():
    found = labels.simulate(SPEC, Y)
    assert (found.accuracy, found.certain_and_wrong, found.queries) == (1.0, 0, PLAN.count)
    assert found.truth.tolist() == Y.tolist()
    mask = np.arange(12) % 3 > 0
    split = labels.simulate(replace(SPEC, scored=8), Y, scored=mask)
    assert split.truth.tolist() == np.where(mask, Y, -1).tolist()
    assert split.accuracy == 1.0
    lying = LocalOracle(SPEC, 1 - Y)
    wrong = labels.simulate(SPEC, Y, labels.design(SPEC, guard=True), oracle=lying)
    assert wrong.accuracy == 0.0
    assert wrong.certain_and_wrong == 12
    with pytest.raises(InputError, match="plan: made for another oracle"):
        labels.simulate(SPEC, Y, labels.design(replace(SPEC, noise=0.02)))
    with pytest.raises(InputError, match="the specification says 8 rows, the mask has 12"):
        labels.simulate(replace(SPEC, scored=8), Y, scored=np.ones(12, bool))
    for y in (Y[:-1], Y + 1):
        with pytest.raises(InputError, match="y: "):
            labels.simulate(SPEC, y)


def test_progress_is_told_at_25_places_at_most():
    spec = OracleSpec(n=200, clip=1e-3, noise=0.01)
    plan = labels.design(spec, "positional")
    y = np.arange(200) % 2
    found = labels.read(plan, answers_of(plan, y))
    assert plan.count > 25
    places, shares = inference.recovery_curve(plan, found)
    assert (len(places), places[0], places[-1]) == (25, 0, plan.count)
    assert places == [round(place) for place in np.linspace(0, plan.count, 25)]
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    partial = answers_of(plan, y)
    partial[5:] = np.nan
    places, shares = inference.recovery_curve(plan, labels.read(plan, partial), 1 - y)
    assert places == [0, 1, 2, 3, 4, 5]
    assert shares == [0.0] * 6


def test_the_summary_of_a_split_counts_its_scored_rows():
    spec = replace(SPEC, scored="unknown", noise=1e-4)
    mask = np.arange(12) % 3 > 0
    plan = labels.design(spec)
    found = labels.infer(LocalOracle(spec, Y, scored=mask), plan)
    told = inference.summarise(plan, found, np.where(mask, Y, -1))
    assert (told.scored, told.right, told.accuracy) == (8, 12, 1.0)
    assert told.defence.queries == plan.count
    assert told.limit.queries == labels.capacity(spec).queries
    assert told.plan.queries == plan.count
    assert told.contradiction is None
    assert told.oracle.metric == "log_loss"
