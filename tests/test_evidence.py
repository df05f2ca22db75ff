"""Arrays that an attack may read: whose rows they are, what it needs of them, and signals of a classifier's answers."""

import numpy as np
import pytest

from divulge import evidence
from divulge.attacks import Need
from divulge.errors import InputError
from divulge.evidence import Layout, Measurements, Models
from divulge.signals import classification
from divulge.targets import CallableTarget
from divulge.types import Evidence, Records, TokenLogs

LAYOUT = Layout(3, 2, 4)


@pytest.fixture
def measurements():
    offsets = np.arange(10)
    logs = TokenLogs(offsets, -np.arange(1.0, 10.0), None, offsets[:9] % 2 == 0)
    models = {
        Need.REFERENCES_OUT: Models(
            {"loss": np.arange(18.0).reshape(2, 9)}, np.zeros((2, 9), bool), -np.arange(18.0).reshape(2, 9)
        ),
        Need.REFERENCES_BASE: Models({"loss": -np.ones((1, 9))}, np.ones((1, 9), bool)),
    }
    return Measurements(
        {"loss": np.arange(9.0)}, LAYOUT, labels=np.arange(9), features=np.arange(18.0).reshape(9, 2),
        records=np.arange(9)[:, None] + 100, models=models, tokens=logs,
    )  # fmt: skip


def test_an_attack_without_needs_is_given_the_signal_alone(measurements):
    bare = measurements.evidence("loss", frozenset())
    assert bare.target.tolist() == [0, 1, 2, 3, 4]
    rest = (
        bare.population, bare.references, bare.population_references, bare.trained_on, bare.features, bare.labels,
        bare.population_labels, bare.population_features, bare.tokens, bare.population_tokens,
    )  # fmt: skip
    assert all(part is None for part in rest)


@pytest.mark.parametrize("with_population", [False, True])
@pytest.mark.parametrize(
    "need", [Need.REFERENCES_OUT, Need.REFERENCES_BASE, Need.FEATURES, Need.RECORDS, Need.LABELS, Need.TOKENS]
)
def test_every_need_brings_its_part_and_the_populations_goes_with_the_population(measurements, need, with_population):
    needs = frozenset({need} | ({Need.POPULATION} if with_population else set()))
    found = measurements.evidence("loss", needs)
    is_reference = need in (Need.REFERENCES_OUT, Need.REFERENCES_BASE)
    assert (found.references is not None) == (found.trained_on is not None) == is_reference
    assert (found.features is not None) == (need in (Need.FEATURES, Need.RECORDS))
    assert (found.labels is not None) == (need == Need.LABELS)
    assert (found.tokens is not None) == (need == Need.TOKENS)
    assert (found.population is not None) == with_population
    for part, population_part in (
        (found.references, found.population_references), (found.trained_on, found.population_trained_on),
        (found.features, found.population_features), (found.labels, found.population_labels),
        (found.tokens, found.population_tokens),
    ):  # fmt: skip
        assert (population_part is not None) == (part is not None and with_population)
    if need == Need.REFERENCES_BASE:
        assert found.references.tolist() == [[-1.0] * 5]
    if need == Need.REFERENCES_OUT:
        assert found.references.tolist() == [[0, 1, 2, 3, 4], [9, 10, 11, 12, 13]]
    if need == Need.FEATURES:
        assert found.features.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    if need == Need.RECORDS:
        assert found.features.ravel().tolist() == [100, 101, 102, 103, 104]
    if need == Need.TOKENS:
        assert found.tokens.references is None
        assert found.tokens.wrong.tolist() == [True, False, True, False, True]
    if with_population:
        assert found.population.tolist() == [5, 6, 7, 8]


def test_tokens_come_with_those_of_the_chosen_models(measurements):
    found = measurements.evidence("loss", frozenset({Need.TOKENS, Need.REFERENCES_OUT, Need.POPULATION}))
    assert found.tokens.references.tolist() == [[0, -1, -2, -3, -4], [-9, -10, -11, -12, -13]]
    assert found.population_tokens.target.tolist() == [-6, -7, -8, -9]
    without = Measurements({"loss": np.arange(9.0)}, LAYOUT).evidence("loss", frozenset({Need.TOKENS}))
    assert without.tokens is None


def test_what_an_attack_writes_changes_nobody_elses_arrays(measurements):
    needs = frozenset({Need.REFERENCES_OUT, Need.LABELS, Need.FEATURES})
    first = measurements.evidence("loss", needs)
    first.target[:], first.references[:], first.features[:] = 7.0, 7.0, 7.0
    second = measurements.evidence("loss", needs)
    assert second.target.tolist() == [0, 1, 2, 3, 4]
    assert not (second.references == 7.0).all()
    assert not (second.features == 7.0).all()


def test_views_are_averaged_as_numbers_or_as_likelihoods():
    views = [Evidence([0.0, 1.0], [[2.0, 4.0]]), Evidence([2.0, 1.0], [[0.0, 4.0]])]
    plain = evidence.average_evidence(views, likelihood=False)
    assert (plain.target.tolist(), plain.references.tolist()) == ([1.0, 1.0], [[1.0, 4.0]])
    likely = evidence.average_evidence(views, likelihood=True)
    assert likely.target == pytest.approx([np.log((1 + np.exp(2)) / 2), 1.0])
    assert likely.references[0] == pytest.approx([np.log((1 + np.exp(2)) / 2), 4.0])
    assert evidence.average_evidence([Evidence([0.0])], likelihood=True).references is None


LOGITS = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 5.0]])


class LabelsOnly:
    """A target that shows the likeliest class and no more."""

    def labels(self, records):
        return LOGITS.argmax(axis=1)


def test_signals_are_columns_in_the_order_of_their_names():
    columns = evidence.signals_from_logits(LOGITS, np.array([0, 1]), ("hinge", "top-two-gap"))
    assert columns.tolist() == [[2.0, 2.0], [-3.0, 3.0]]
    assert evidence.signals_from_logits(LOGITS, None, ("top-two-gap",)).shape == (2, 1)
    assert evidence.signals_from_logits(LOGITS, None, ()).shape == (2, 0)
    with pytest.raises(InputError, match="signal: 'hinge' needs the records' labels; without them use 'top-two-gap'"):
        evidence.signals_from_logits(LOGITS, None, ("hinge",))
    with pytest.raises(InputError, match="signal"):
        evidence.signals_from_logits(LOGITS, None, ("loss",))


def test_signals_of_labels_read_labels_alone_whatever_else_is_there():
    labels, predicted = np.array([0, 1]), np.array([0, 2])
    with_logits = evidence.signals_from_answers(LOGITS, predicted, labels, ("correctness", "hinge"), classes=3)
    assert with_logits.tolist() == [[1.0, 2.0], [0.0, -3.0]]
    without = evidence.signals_from_answers(None, predicted, labels, ("correctness",), classes=3)
    assert without[:, 0].tolist() == with_logits[:, 0].tolist()
    assert evidence.signals_from_answers(LOGITS, predicted, labels, ()).shape == (2, 0)


def test_a_target_is_asked_for_what_its_signals_read():
    records = Records([[0.0], [1.0]], [0, 1])
    logits, predicted = evidence.query_target(CallableTarget(lambda x: LOGITS), records, ("hinge",))
    assert (logits.tolist(), predicted.tolist()) == (LOGITS.tolist(), [0, 2])
    assert evidence.query_target(LabelsOnly(), records, ("correctness",))[0] is None
    for signals in (("hinge",), ("correctness", "hinge")):
        with pytest.raises(InputError, match=f"target: LabelsOnly gives no logits, which {', '.join(signals)} read"):
            evidence.query_target(LabelsOnly(), records, signals)
    with pytest.raises(InputError, match="gives no logits"):
        evidence.query_target(object(), records, ("correctness",))
    assert "correctness" in classification.LABELS_ENOUGH


def test_as_many_rows_of_references_as_of_reference_models_are_needed():
    target, population = np.zeros(3), np.zeros(2)
    for rows, fits in ((4, True), (3, False), (5, False)):
        arguments = {
            "references": np.zeros((4, 3)),
            "population": population,
            "population_references": np.zeros((rows, 2)),
        }
        if fits:
            assert Evidence(target, **arguments).population_references.shape == (4, 2)
        else:
            with pytest.raises(InputError, match=f"population_references: {rows} rows, but references has 4"):
                Evidence(target, **arguments)
