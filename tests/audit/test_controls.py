"""Reference models as controls of an audit."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import divulge as dv
from divulge.auditing.gates import gate
from divulge.references import Train
from divulge.results import BlindBaseline

CHECK = "reference models as controls"


def draw_records(rng, n, label_noise=0.3):
    x = rng.normal(size=(n, 5))
    return dv.Records(x, (x[:, 0] + x[:, 1] + label_noise * rng.logistic(size=n) > 0).astype(int))


def audit_forest(*, leaks, outsiders=draw_records, count=8, seed=0, **changes):
    rng = np.random.default_rng(seed)
    members, others = draw_records(rng, 250), draw_records(rng, 375)
    x, y = (np.concatenate([getattr(members, part), getattr(others, part)])[:375] for part in ("x", "y"))
    learned = (x, y) if leaks else (others.x, others.y)  # as many records as each reference model
    forest = RandomForestClassifier(20, min_samples_leaf=2, random_state=seed).fit(*learned)
    arguments = {
        "members": members,
        "nonmembers": outsiders(rng, 250),
        "population": draw_records(rng, 1000),
        "recipes": ["loss", "calibrated"],
        "references": Train(count=count, engine="serial"),
        "fpr": (0.1,),
    }
    return dv.audit(forest, **arguments | changes)


def draw_other_labels(rng, n):
    return draw_records(rng, n, label_noise=2.0)


def draw_moved(rng, n):
    records = draw_records(rng, n)
    return dv.Records(records.x + 0.5, records.y)


def finding(audit):
    return next((each for each in audit.about.findings if each.check == CHECK), None)


def test_leak_is_found_although_nonmembers_are_of_another_kind():
    audit = audit_forest(leaks=True, outsiders=draw_moved, seed=5)
    assert audit.about.measured(BlindBaseline).confounded
    assert audit.verdict.answer == "leak found"
    assert all(ruling.state != "kept" for ruling in gate(audit, "auc:0.99"))


@pytest.mark.parametrize("outsiders", [draw_other_labels, draw_moved])
def test_model_that_leaks_nothing_is_not_accused_of_it(outsiders):
    audit = audit_forest(leaks=False, outsiders=outsiders)
    assert audit.verdict.answer != "leak found"
    assert finding(audit).effect == "none"


def test_page_and_summary_show_target_controls_and_difference(tmp_path):
    audit = audit_forest(leaks=True)
    found = finding(audit)
    columns, *rows = found.table
    assert [row[0] for row in rows[:2]] == ["loss", "calibrated"]
    assert all(len(row) == len(columns) for row in rows)
    difference = found.figures["loss: difference from the controls"]
    assert 0 < difference.low < difference.value < audit["loss"].auc.value
    assert audit.summary().about.findings == audit.about.findings
    assert "as controls" in audit.report(tmp_path / "report.html").read_text().lower()


def test_four_controls_inform_and_decide_nothing():
    found = finding(audit_forest(leaks=True, count=4))
    assert found.effect == "none"
    assert "decide nothing" in " ".join(found.details)


def test_members_of_another_kind_than_the_population_are_no_ground_to_accuse():
    rng = np.random.default_rng(3)
    found = finding(audit_forest(leaks=True, population=draw_moved(rng, 1000)))
    assert found.effect == "none"


def test_one_reference_is_no_control():
    assert finding(audit_forest(leaks=True, count=1)) is None


def test_copies_count_once():
    rng = np.random.default_rng(1)
    sets = {"members": draw_records(rng, 60), "nonmembers": draw_records(rng, 60)}
    thrice = {name: dv.Records(np.repeat(each.x, 3, axis=0), np.repeat(each.y, 3)) for name, each in sets.items()}
    once, copied = (
        finding(audit_forest(leaks=False, duplicates="keep", fpr=(0.2,), **each)).figures for each in (sets, thrice)
    )
    assert copied == once


def test_regression_models_have_no_controls():
    """Nothing is known of how often a regression model would be accused; ages and counts are no classes."""
    rng = np.random.default_rng(0)
    sets = {name: rng.normal(size=(n, 3)) for name, n in (("members", 80), ("nonmembers", 80), ("population", 300))}
    records = {name: dv.Records(x, (40 + 10 * x[:, 0]).round().astype(int)) for name, x in sets.items()}
    forest = RandomForestRegressor(5, random_state=0).fit(records["members"].x, records["members"].y)
    references = Train(count=8, engine="serial")
    audit = dv.audit(forest, **records, recipes=["loss", "calibrated"], references=references, fpr=(0.1,))
    assert finding(audit) is None
