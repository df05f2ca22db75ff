"""The published JSON schema of each kind of result is that of the summaries that runs and ``--json`` really give."""

import contextlib
import io
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge import cli, labels, margin, results, runs
from divulge import reconstruction as weight_reconstruction
from divulge.auditing.weights import WeightsExamination
from divulge.decisions import fdr, fpr
from divulge.labels.inference import summarise
from run_directories import WRITERS

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


def make_label_privacy(folder):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    sets = {
        name: dv.Records(x[rows], y[rows])
        for name, rows in (("members", slice(200)), ("nonmembers", slice(200, 400)), ("population", slice(400, 600)))
    }
    tree = DecisionTreeClassifier(random_state=0).fit(sets["members"].x, sets["members"].y)
    dv.canaries.label_privacy(tree, **sets, out=folder)
    return json.loads((folder / "summary.json").read_text())


def make_labels(folder):
    y = np.arange(40) % 2
    plan = labels.design(labels.OracleSpec(n=40, noise=1e-4))
    simulation = labels.simulate(plan.spec, y, plan)
    return results.to_json_values(summarise(plan, simulation.inference, simulation.truth))


def make_weights(folder):
    rng = np.random.default_rng(2)
    scores, calibration = np.append(rng.normal(4, 1, 5), rng.normal(size=15)), rng.normal(size=99)
    decisions = {"FPR": fpr.decide(calibration, scores, 0.05), "FDR": fdr.select(scores, calibration, fdr=0.2)}
    names = np.array([f"r{i}" for i in range(20)])
    examination = WeightsExamination(
        names, scores, scores, None, 0.1, 1.0, decisions, "kkt-nnls", None, leaks=False, accuracy={}
    )
    return results.to_json_values(examination.summary())


def make_reconstruction(folder):
    net = margin.solve([[-2.0], [-0.5], [0.5], [2.0]], [-1, 1, 1, -1]).net
    return results.to_json_values(weight_reconstruction.summarise(weight_reconstruction.univariate(net, margin=1.0)))


def make_cohorts(folder):
    rng = np.random.default_rng(0)
    folder.mkdir()
    cohorts = {}
    for name in ("a", "b", "c"):
        x = rng.normal(size=(300, 3))
        y = (rng.random(300) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)
        cohorts[name] = (x, y)
        pl.DataFrame(x, schema=["u", "v", "w"]).with_columns(outcome=pl.Series(y)).write_csv(folder / f"{name}.csv")
    x, y = (np.concatenate([cohorts[name][part] for name in ("a", "c")]) for part in (0, 1))
    fitted = LogisticRegression(C=np.inf).fit(x, y)
    rows = zip(("u", "v", "w", "(Intercept)"), (*fitted.coef_[0], fitted.intercept_[0]), strict=True)
    (folder / "paper.csv").write_text("term,estimate\n" + "".join(f"{name},{value:.3f}\n" for name, value in rows))
    options = [part for name in cohorts for part in ("--cohort", str(folder / f"{name}.csv"))]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.run(["weights", str(folder / "paper.csv"), *options, "--label", "outcome", "--json"]) in (0, 1, 3)
    return json.loads(out.getvalue())


WRITTEN = {"canaries" if name == "canary-audit" else name: write for name, write in WRITERS.items()}
MADE_OTHERWISE = {
    "label-privacy": make_label_privacy,
    "labels": make_labels,
    "weights": make_weights,
    "reconstruction": make_reconstruction,
    "cohorts": make_cohorts,
}


@pytest.fixture(scope="module")
def summaries(tmp_path_factory):
    """Kind → a real summary of it, as JSON; each is made once, when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("summaries"), {}

    def make(kind):
        if kind not in made:
            if (write := WRITTEN.get(kind)) is not None:
                write(folder / kind)
                made[kind] = json.loads((folder / kind / "summary.json").read_text())
            else:
                made[kind] = MADE_OTHERWISE[kind](folder / kind)
        return made[kind]

    make.folder = folder
    return make


def published(kind):
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_summary_has_a_schema():
    named = set(runs.RESULT_TYPES)
    declared = {
        field.default
        for summary_type in results.Summary.__subclasses__()
        if summary_type.__module__.startswith("divulge.")
        for field in fields(summary_type)
        if field.name == "kind"
    }
    assert declared == named, "name the new summary in divulge.runs.RESULT_TYPES, and run python docs/generate.py"
    assert {path.stem for path in SCHEMAS.iterdir()} == named


@pytest.mark.parametrize("kind", runs.RESULT_TYPES)
def test_a_real_summary_is_valid(kind, summaries):
    published(kind).validate(summaries(kind))
    with pytest.raises(dv.InputError, match="kind: 'odd' is unknown"):
        runs.json_schema("odd")


@pytest.mark.parametrize("kind", runs.RESULT_TYPES)
def test_a_key_more_or_less_or_another_version_is_not(kind, summaries):
    validator, text = published(kind), json.dumps(summaries(kind))
    for key in summaries(kind):
        for change in ("missing", "renamed", "type"):
            changed = json.loads(text)
            value = changed.pop(key)
            if change == "renamed":
                changed[f"{key}_"] = value
            elif change == "type":
                changed[key] = 3 if isinstance(value, dict) else {"odd": 1}
            may_be_left_out = change == "missing" and key not in validator.schema["required"]
            assert validator.is_valid(changed) == may_be_left_out, (key, change)
    assert not validator.is_valid(json.loads(text) | {"version": results.VERSION + 1})


@pytest.mark.parametrize("kind", runs.RESULT_TYPES)
def test_without_single_records_it_is_valid_still(kind, summaries):
    if kind in WRITTEN:
        summaries(kind)
        run = summaries.folder / kind
        summary = runs.find_kind(run).load(run).summary
        published(kind).validate(results.to_json_values(summary, show_records=False))
