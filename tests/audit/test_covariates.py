"""Covariates of an audit: from arrays, tables, plans and the command line, into the run directory and back."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import divulge as dv
from divulge import plan as plans
from divulge.auditing import load
from divulge.cli import app
from divulge.results import TextSplit
from divulge.tables import from_arrays, write_csv


def records(rng, n, shift=0.0):
    """How sure a model is of a record, and its class; an age that moves the former is not among the features."""
    age, y = rng.normal(size=n) + shift, rng.integers(0, 2, n)
    return dv.Records(np.column_stack([rng.normal(size=n) + age, y]), y), age


def model(x):
    sure = x[:, 0] * (2 * x[:, 1] - 1)
    return np.stack([-sure, sure], axis=1)


def audited(rng, shift, covariates=None, **options):
    (members, older), (nonmembers, younger), (population, _) = (
        records(rng, 400, shift),
        records(rng, 400),
        records(rng, 400),
    )
    if covariates is None:
        covariates = {"age": np.r_[older, younger]}
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    return dv.audit(
        model, **sets, recipes=["loss"], options=dv.AuditOptions(covariates=covariates), fpr=(0.05,), **options
    )


def test_a_difference_that_a_covariate_makes_is_not_blamed_on_the_model(tmp_path):
    result = audited(np.random.default_rng(0), 0.4, out=tmp_path / "run")
    summary = result.summary()
    assert result["loss"].auc.low > 0.5
    assert result.adjusted("loss").auc.low < 0.5
    assert result.verdict.answer == "split is confounded"
    adjusted = summary.adjusted
    assert adjusted.adjusted_for == ("age",)
    assert adjusted.explained["loss"] > 0.3
    assert adjusted.members + adjusted.nonmembers == result.adjustment.is_included.sum() < 800
    assert summary.recipes["loss"].auc.value == result["loss"].auc.value
    assert adjusted.recipes["loss"].auc.value == result.adjusted("loss").auc.value
    reloaded = load(tmp_path / "run")
    assert reloaded.summary() == summary
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"{result.adjustment.is_included.sum():,} of 800 records took part" in page
    assert "without adjustment" in page


def test_a_verdict_is_computed_anew_from_scores_and_covariates(tmp_path):
    """Whoever forges the summary changes nothing: a run without its covariates is not read."""
    result = audited(np.random.default_rng(1), 0.0, out=tmp_path / "run")
    reloaded = load(tmp_path / "run")
    assert np.array_equal(reloaded.adjustment.scores["loss"], result.adjustment.scores["loss"])
    assert reloaded.covariates.names == ("column:age",)
    (tmp_path / "run" / "covariates.parquet").unlink()
    with pytest.raises(dv.InputError, match=r"covariates\.parquet"):
        load(tmp_path / "run")


def test_arrays_and_tables_are_columns_too():
    values = np.random.default_rng(2).normal(size=(800, 2))
    result = audited(np.random.default_rng(3), 0.0, covariates=values)
    assert result.covariates.sources == ("covariate 1", "covariate 2")
    frame = pl.DataFrame({"age": values[:, 0], "ward": np.where(values[:, 1] > 0, "a", "b")})
    result = audited(np.random.default_rng(3), 0.0, covariates=frame)
    assert result.covariates.sources == ("age", "ward")


@pytest.mark.parametrize(
    "form", [dict, pl.DataFrame, pd.DataFrame, lambda columns: np.column_stack(list(columns.values()))]
)
def test_columns_of_every_form_lose_the_rows_that_repeat(form):
    """Covariates stay beside their records where copies are dropped."""
    values = np.random.default_rng(2).normal(size=(800, 2))
    (members, _), (nonmembers, _), (population, _) = (records(np.random.default_rng(seed), 400) for seed in range(3))
    x = np.concatenate([members.x, nonmembers.x])
    x[400:410], y = x[:10], np.concatenate([members.y, nonmembers.y])
    y[400:410] = y[:10]
    result = dv.audit(
        model, members=dv.Records(x[:400], y[:400]), nonmembers=dv.Records(x[400:], y[400:]), population=population,
        recipes=["loss"], fpr=(0.05,), duplicates="drop",
        options=dv.AuditOptions(covariates=form({"age": values[:, 0], "ward": values[:, 1]})),
    )  # fmt: skip
    kept_rows = np.r_[np.arange(10, 400), np.arange(410, 800)]
    assert result.covariates.sources in (("age", "ward"), ("covariate 1", "covariate 2"))
    np.testing.assert_allclose(result.covariates.values, values[kept_rows])


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (np.zeros(799), "covariates: covariate 1: 800 values are needed"),
        ({}, "covariates: at least 1 column is needed"),
        ({"age": np.full(800, np.nan)}, "covariates: age"),
        ({"day": np.full(800, "NaT", dtype="datetime64[D]")}, "covariates: day: a date is missing"),
        ({"ward": ["a", None] * 400}, "covariates: ward: numbers, dates or words are needed, got None"),
        (np.zeros((2, 2, 2)), r"covariates: an array \[n\] or \[n, k\] is needed"),
    ],
)
def test_what_does_not_fit_is_refused(covariates, message):
    with pytest.raises(dv.InputError, match=message):
        audited(np.random.default_rng(4), 0.0, covariates=covariates)


def test_constant_covariates_change_nothing():
    result = audited(np.random.default_rng(5), 0.0, covariates=np.ones(800))
    assert result.adjustment is None
    assert result.summary().adjusted is None
    assert "Adjusted" not in result.verdict.text


@pytest.fixture
def planned(tmp_path):
    """A plan whose files have an age and a ward beside what the model reads."""
    rng = np.random.default_rng(6)
    for name, shift in (("members", 0.25), ("nonmembers", 0.0), ("population", 0.0)):
        drawn_records, age = records(rng, 400, shift)
        ward = np.where(rng.random(400) < 0.5, "north", "south").astype(object)
        write_csv(
            from_arrays(
                {
                    "a": drawn_records.x[:, 0],
                    "b": drawn_records.x[:, 1],
                    "age": age,
                    "ward": ward,
                    "label": drawn_records.y,
                }
            ),
            tmp_path / f"{name}.csv",
        )
    (tmp_path / "own_model.py").write_text(
        "import numpy as np\n\n\ndef model(x):\n    sure = np.asarray(x)[:, 0] * (2 * np.asarray(x)[:, 1] - 1)\n"
        "    return np.stack([-sure, sure], axis=1)\n"
    )
    files = "\n".join(f'{name} = "{name}.csv"' for name in ("members", "nonmembers", "population"))
    (tmp_path / "plan.toml").write_text(
        f'recipes = ["loss"]\nfpr = [0.05]\n[target]\nmodel = "own_model:model"\n[data]\n{files}\n'
        'columns = ["a", "b"]\ncovariates = ["ward"]\n'
    )
    return tmp_path / "plan.toml"


def test_a_plan_names_covariates(planned):
    ready = plans.resolve(plans.read(planned), planned.parent)
    assert set(ready.subject.covariates) == {"ward"}
    assert ready.subject.members.x.shape == (400, 2)
    out = planned.parent / "run"
    planned.write_text(planned.read_text().replace('["ward"]', '["age"]'))
    result = CliRunner().invoke(app, ["audit", str(planned), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["adjusted"]["adjusted_for"] == ["age"]
    gate_result = CliRunner().invoke(app, ["gate", str(out), "--max", "auc:0.99"])
    assert "adjusted auc" in gate_result.output
    planned.write_text(planned.read_text().replace('["age"]', '["height"]'))
    assert CliRunner().invoke(app, ["check", str(planned)]).exit_code != 0


def test_words_are_no_values_of_a_record_and_numbers_are(planned):
    text = planned.read_text().replace('columns = ["a", "b"]\n', "").replace('["ward"]', '["ward", "age"]')
    planned.write_text(text)
    ready = plans.resolve(plans.read(planned), planned.parent)
    assert ready.subject.members.x.shape == (400, 3)


def test_copies_of_texts_tell_no_sets_apart_and_take_part_once(tmp_path):
    """Thirty texts a side, each five times: as single texts, words of a few of them tell the sets apart."""

    def texts(seed):
        rng = np.random.default_rng(seed)
        documents = [" ".join(f"w{word}" for word in rng.integers(0, 40, 12)) for _ in range(30)]
        return dv.Records(np.repeat(np.array(documents, dtype=object), 5), np.repeat(rng.integers(0, 2, 30), 5))

    sets = {name: texts(seed) for seed, name in enumerate(("members", "nonmembers", "population"))}
    result = dv.audit(
        lambda x: np.array([[len(text) / 5, text.count("1") / 9] for text in x]),
        **sets, recipes=["loss"], fpr=(0.1,), out=tmp_path / "run",
    )  # fmt: skip
    single = dv.evaluation.text_differences(list(sets["members"].x), list(sets["nonmembers"].x))
    assert single
    assert not result.about.measured(TextSplit).signs
    assert result.adjustment.is_included.sum() <= 60
    assert load(tmp_path / "run").verdict == result.verdict
    assert "year" not in result.adjustment.adjusted_for
    with pytest.raises(dv.InputError, match="49 distinct non-members, got 30"):
        dv.audit(lambda x: np.zeros((len(x), 2)), **sets, recipes=["loss"], fpr=(0.02,))
