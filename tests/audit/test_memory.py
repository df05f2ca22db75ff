"""How much memory an audit is said to need, counted by hand, and what the refusal names."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from divulge import InputError, validation
from divulge.attacks import Need
from divulge.auditing import prepared
from divulge.auditing.language_modality import LanguageModel
from divulge.auditing.modality import Classifier
from divulge.evaluation import blind
from divulge.evidence import Layout

ROWS = Layout(60, 20, 20)


def recipe(signal, *needs, beside=()):
    return SimpleNamespace(signal_name=signal, beside=beside, needs=frozenset(needs))


def audit_of(x, classes, recipes, count=None, versions=None, layout=ROWS):
    return SimpleNamespace(
        views=[SimpleNamespace(x=x, labels=None)],
        layout=layout,
        modality=Classifier() if classes else LanguageModel(),
        n_classes=classes,
        inputs=SimpleNamespace(recipes=recipes),
        references=None if count is None else SimpleNamespace(count=count),
        version_views=versions or {},
    )


OUT, IN_AND_OUT = Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT
NUMBERS, TEXTS = np.zeros((100, 7)), np.array(["a" * 40] * 100, dtype=object)


@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        (audit_of(NUMBERS, 5, [recipe("loss")]), 100 * 5 * 24 + 16 * 700),
        (audit_of(NUMBERS, 5, [recipe("loss")], count=4), 100 * 5 * 24 + 16 * 700),  # no recipe reads them
        (audit_of(NUMBERS, 5, [recipe("loss", OUT)], count=4), 100 * 5 * 24 + 16 * 700 + 4 * 100 * 5),
        (audit_of(NUMBERS, 5, [recipe("loss", OUT), recipe("loss", OUT)], count=4), 12000 + 11200 + 4 * 100 * 5),
        (
            audit_of(NUMBERS, 5, [recipe("loss", OUT), recipe("margin", IN_AND_OUT)], count=4),
            12000 + 11200 + 8 * 100 * 9,
        ),
        (audit_of(NUMBERS, 5, [recipe("loss", OUT, beside=("label",))], count=4), 12000 + 11200 + 4 * 100 * 9),
        (
            audit_of(NUMBERS, 5, [recipe("loss", OUT)], count=4, versions={"a": range(1, 3)}),
            12000 + 11200 + 4 * 100 * 3 * 5,
        ),
        (audit_of(TEXTS, 0, [recipe("loss")]), 4000 // 4 * 56),
        (audit_of(TEXTS, 0, [recipe("loss", OUT)], count=4), 1000 * (56 + 4 * 4) + 4 * 100 * 5),
    ],
)
def test_what_an_audit_holds_is_counted_beside_what_its_controls_do(audit, expected):
    plain, known = (audit_of(NUMBERS, 5, []), 23_200) if audit.n_classes else (audit_of(TEXTS, 0, []), 56_000)
    needed, needed_by_plain = (prepared.estimate_memory(each, on_disk=False) for each in (audit, plain))
    assert needed - needed_by_plain == expected - known


def test_memory_of_the_controls_is_forecast_within_a_factor_of_one_and_a_half():
    n = 3000
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 10)), rng.integers(0, 2, n)
    blind.baseline(x[:50], x[50:100])  # loads libraries
    tracemalloc.start()
    errors = blind.measure_label_errors(x, y)
    blind.baseline(x[::2], x[1::2], y_members=y[::2], y_nonmembers=y[1::2], label_errors=errors)
    blind.adjust_scores({"score": x[:, 0]}, x, y, label_errors=errors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 1.5 < blind.estimate_memory(n, x[:1], 2) < 1.5 * peak


def test_signals_beyond_what_is_kept_in_memory_are_mapped_from_disk():
    audit = audit_of(np.zeros((10, 1)), 0, [recipe("loss", OUT)], count=10**5, layout=Layout(10**5, 10, 10))
    assert prepared.estimate_memory(audit, on_disk=True) < 2.2 * 2**30 < prepared.estimate_memory(audit, on_disk=False)


@pytest.mark.parametrize(
    ("classes", "count", "on_disk", "message"),
    [
        (0, None, False, "they are 100 records; use fewer records$"),
        (5, None, False, "they are 100 records, of 5 classes; use fewer records$"),
        (5, 1234, False, "the answers of 1,234 reference models; set out=, or use fewer records or models$"),
        (5, 1234, True, "of 5 classes and the answers of 1,234 reference models; use fewer records$"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_is_too_much_and_what_would_help(monkeypatch, classes, count, on_disk, message):

    monkeypatch.setattr(validation, "available_memory", lambda: 1)
    with pytest.raises(InputError, match=message):
        prepared.check_memory_fits(audit_of(NUMBERS, classes, [recipe("loss", OUT)], count=count), on_disk=on_disk)
