"""Summaries: what is written is what is read, and nothing else is."""

import json
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import labels, margin, provenance, results, store
from divulge import reconstruction as weight_reconstruction
from divulge.auditing.weights import WeightsExamination
from divulge.canaries.canary_audit import CanaryAudit
from divulge.canaries.proof import prove
from divulge.decisions import fdr, fpr
from divulge.identification import from_tables, redecide
from divulge.identification.decision import Policy
from divulge.identification.score_tables import Columns, Score
from divulge.labels.inference import summarise
from divulge.run_directory import RunDirectory
from score_audits import scored, sizes


@pytest.fixture(scope="module")
def identified(tmp_path_factory):
    """Run directory and summary of an identification with every optional part."""
    folder, rng = tmp_path_factory.mktemp("identified"), np.random.default_rng(0)
    scores = np.append(rng.normal(3, 1, 60), rng.normal(size=90))
    pl.DataFrame({"loss": scores, "member": np.arange(150) < 60}).write_parquet(folder / "judged.parquet")
    for name in ("known", "apart"):
        pl.DataFrame({"loss": rng.normal(size=120)}).write_parquet(folder / f"{name}.parquet")
    candidates, known_members, holdout = ([folder / f"{name}.parquet"] for name in ("judged", "known", "apart"))
    plan = from_tables.DecisionPlan(Columns((Score("loss"),), truth="member"), Policy(0.2))
    return folder / "run", from_tables.run(candidates, known_members, folder / "run", plan, holdout=holdout)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Run directory and summary of an audit, with classes that are unseen and a confounded split."""
    rng, members = np.random.default_rng(1), sizes(60, 60)
    labels = np.arange(120) % 3
    scores = {"loss": rng.normal(size=120) + members, "lira": rng.normal(size=120)}
    audit = scored(scores, members, confounded=True, labels=labels, unseen=(2,))
    folder = tmp_path_factory.mktemp("audited") / "run"
    with RunDirectory(folder).writing("audit", "key") as draft:
        audit.save(draft)
    return folder, audit.summary()


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A folder with the summary of an attack on labels, and that summary."""
    folder, y = tmp_path_factory.mktemp("labelled"), np.arange(40) % 2
    plan = labels.design(labels.OracleSpec(n=40, noise=1e-4))
    simulation = labels.simulate(plan.spec, y, plan)
    summary = summarise(plan, simulation.inference, simulation.truth)
    store.write_json(folder / "summary.json", results.to_json_values(summary))
    return folder, summary


def test_an_attack_on_labels_is_counted(labelled):
    _, summary = labelled
    assert summary.labels == tuple(int(i % 2) for i in range(40))
    assert (summary.right, summary.accuracy, summary.certain_and_wrong, summary.scored) == (40, 1.0, 0, 40)
    assert summary.complete
    assert summary.queries == summary.plan.queries >= summary.limit.queries


@pytest.fixture(scope="module")
def weighed(tmp_path_factory):
    """A folder with the summary of what `divulge weights` found, and that summary."""
    folder, rng = tmp_path_factory.mktemp("weighed"), np.random.default_rng(2)
    scores, calibration = np.append(rng.normal(4, 1, 5), rng.normal(size=15)), rng.normal(size=99)
    decisions = {"FPR": fpr.decide(calibration, scores, 0.05), "FDR": fdr.select(scores, calibration, fdr=0.2)}
    names = np.array([f"r{i}" for i in range(20)])
    examination = WeightsExamination(
        names, scores, scores, None, 0.1, 1.0, decisions, "kkt-nnls", None, leaks=False, accuracy={}
    )
    store.write_json(folder / "summary.json", results.to_json_values(examination.summary()))
    return folder, examination.summary()


@pytest.fixture(scope="module")
def reconstruction(tmp_path_factory):
    """A folder with the summary of what `divulge reconstruct` found, and that summary."""
    folder = tmp_path_factory.mktemp("reconstruction")
    net = margin.solve([[-2.0], [-0.5], [0.5], [2.0]], [-1, 1, 1, -1]).net
    summary = weight_reconstruction.summarise(weight_reconstruction.univariate(net, margin=1.0))
    store.write_json(folder / "summary.json", results.to_json_values(summary))
    return folder, summary


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tested") / "run"
    rng = np.random.default_rng(0)
    included = rng.random(100) < 0.5
    scores = rng.normal(size=100) + included
    proof = prove(scores, included, claim=dv.Claim(1.0, 1e-5), seed=0)
    accuracy = dv.Estimate(0.9, 0.8, 0.95, 0.95, "clopper-pearson")
    audit = CanaryAudit(scores, included, proof, "loss", "mislabelled", 500, training_accuracy=accuracy, seed=0)
    audit.save(folder)
    return folder, audit.summary()


RUNS = (
    ("tested", results.CanarySummary),
    ("identified", results.IdentificationSummary),
    ("audited", results.AuditSummary),
    ("labelled", results.LabelsSummary),
    ("weighed", results.WeightsSummary),
    ("reconstruction", results.ReconstructionSummary),
)


@pytest.mark.parametrize(("run", "summary_type"), RUNS)
def test_what_is_written_is_what_is_read(run, summary_type, request):
    folder, summary = request.getfixturevalue(run)
    assert results.read_summary(folder, summary_type) == summary
    assert results.to_json_values(summary) == json.loads((folder / "summary.json").read_text())


def changed(value):
    """Something of another type than ``value``."""
    return 3 if isinstance(value, dict) else {"odd": 1}


def places(summary, path=()):
    """Where the fields of a summary stand in its JSON, those of the dataclasses within too."""
    for field in fields(summary):
        value = getattr(summary, field.name)
        yield (*path, field.name)
        inner = value.items() if isinstance(value, dict) else [(None, value)]
        for key, part in inner:
            if is_dataclass(part):
                yield from places(part, (*path, field.name) if key is None else (*path, field.name, key))


def came_later(summary, path=()):
    """The places of fields that a run of before may lack, as they are empty by default."""
    for field in fields(summary):
        value = getattr(summary, field.name)
        if field.default in (None, (), "") or field.default_factory is not MISSING:
            yield (*path, field.name)
        inner = value.items() if isinstance(value, dict) else [(None, value)]
        for key, part in inner:
            if is_dataclass(part):
                yield from came_later(part, (*path, field.name) if key is None else (*path, field.name, key))


@pytest.mark.parametrize("change", ["type", "missing", "unknown"])
@pytest.mark.parametrize(("run", "summary_type"), RUNS)
def test_every_field_is_held_against_its_type(run, summary_type, change, request, tmp_path):
    folder, summary = request.getfixturevalue(run)
    text = (folder / "summary.json").read_text()
    later = set(came_later(summary))  # may be missing, see the next test
    for *above, field_name in places(summary):
        if change == "missing" and (*above, field_name) in later:
            continue
        content = json.loads(text)
        inner = content
        for name in above:
            inner = inner[name]
        if change == "type":
            inner[field_name] = changed(inner[field_name])
        elif change == "missing":
            del inner[field_name]
        else:
            inner[f"{field_name}_"] = 1
        (tmp_path / "summary.json").write_text(json.dumps(content))
        with pytest.raises(dv.InputError, match=r"summary\.json: (damaged at .*|a summary of version)"):
            results.read_summary(tmp_path, summary_type)


def test_arrays_found_before_columns_were_looked_for_are_read():
    old = {"array": "_fit_X", "form": "as they are", "members": 5, "nonmembers": 0, "p_value": 0.01}
    parsed = store.parse_json(old, results.ArrayMatch, Path("old"))
    assert (parsed.columns, parsed.width, parsed.is_partial, parsed.description) == (None, None, False, "as they are")


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"version": 0}', '{"version": "1"}', '{"version": 3}', "null"])
def test_another_version_is_refused_by_name(tmp_path, content):
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(dv.InputError, match="a summary of version 2 is needed"):
        results.read_summary(tmp_path, results.IdentificationSummary)


def test_a_run_of_another_version_is_refused_by_what_reads_it(identified, tmp_path, monkeypatch):
    folder, _ = identified
    monkeypatch.setattr("divulge.results.VERSION", 3)
    with pytest.raises(dv.InputError, match="version 3 is needed, got 2"):
        redecide(folder, fdr=0.3)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_json_cannot_say_is_none(value):
    assert results.to_json_values(dv.Estimate(0.5, 0.25, value, 0.95, "counted"))["high"] is None


def test_the_date_can_be_fixed_so_that_equal_runs_have_equal_bytes(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert provenance.collect_provenance().date == "2023-11-14T22:13:20+00:00"
    for wrong in ("", "-1", "1e9", "٣", "9" * 12):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(dv.InputError, match="SOURCE_DATE_EPOCH"):
            provenance.collect_provenance()
