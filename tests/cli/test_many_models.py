"""Several models: limits in plans, audits of several plans, a table of runs, a folder of models."""

import contextlib
import csv
import io
import itertools
import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import divulge as dv
from divulge import cli, viewing
from divulge.auditing.gates import Ruling, Rulings, limits_section
from divulge.auditing.junit import render_junit
from run_directories import WRITERS, write_audit

pytestmark = pytest.mark.usefixtures("records_compared_once")

PLAN = """
folder = ".."
recipes = ["loss"]
fpr = [0.1]
{gate}
[target]
model = "{model}"

[data]
members = "members.npz"
nonmembers = "nonmembers.npz"
population = "population.npz"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with records, a model that memorised its members and one that did not, and a plan for each."""
    folder = tmp_path_factory.mktemp("project")
    rng = np.random.default_rng(0)
    sets = {}
    for name in ("members", "nonmembers", "population"):
        x = rng.normal(size=(300, 3))
        sets[name] = x, np.where(rng.random(300) < 0.3, rng.integers(0, 2, 300), x[:, 0] > 0).astype(int)
        np.savez(folder / f"{name}.npz", x=sets[name][0], y=sets[name][1])
    (folder / "plans").mkdir()
    for name, depth in {"deep": None, "stump": 1}.items():
        model = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(*sets["members"])
        skops.io.dump(model, folder / f"{name}.skops")
    gate = '[gate]\nmax = ["auc:0.6", "exposed:290"]\nby = "none"\n'
    (folder / "plans" / "deep.toml").write_text(PLAN.format(model="deep.skops", gate=gate))
    (folder / "plans" / "stump.toml").write_text(PLAN.format(model="stump.skops", gate=gate))
    (folder / "plans" / "absent.toml").write_text(PLAN.format(model="absent.skops", gate=""))
    (folder / "plans" / "odd.toml").write_text(PLAN.format(model="deep.skops", gate='[gate]\nmax = ["acc:0.6"]\n'))
    return folder


@pytest.fixture(scope="module")
def audited(project, tmp_path_factory, records_compared_once):
    """All four plans, audited by one command."""
    runs, out, err = tmp_path_factory.mktemp("audited") / "runs", io.StringIO(), io.StringIO()
    plans = sorted(str(path.relative_to(project)) for path in (project / "plans").glob("*.toml"))
    with contextlib.chdir(project), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(["audit", *plans, "--out", str(runs)])
    return runs, (code, out.getvalue(), err.getvalue())


def test_plans_that_fail_stop_no_other_and_the_exit_code_says_that_some_did(audited):
    runs, (code, out, err) = audited
    assert code == 2
    assert "plans/odd.toml: gate.max: 'acc' is unknown" in err
    assert "absent.skops" in err
    assert sorted(path.name for path in runs.iterdir()) == ["deep", "stump"]
    assert "2 of 4 plans were audited" in out
    assert dv.load(runs / "deep").verdict.answer == "leak found"


def test_a_run_among_several_is_that_of_its_plan_alone(audited, project, divulge, tmp_path):
    runs, _ = audited
    assert divulge("audit", project / "plans" / "stump.toml", "--out", tmp_path / "alone")[0] == 0
    for name in ("scores.parquet", "calibration.parquet"):
        assert pl.read_parquet(runs / "stump" / name).equals(pl.read_parquet(tmp_path / "alone" / name))
    assert json.loads((runs / "stump" / "limits.json").read_text()) == {"max": ["auc:0.6", "exposed:290"], "by": "none"}


def test_plans_of_one_name_are_told_apart_by_their_folders_or_refused(project, divulge, tmp_path, monkeypatch):
    monkeypatch.chdir(project)
    (project / "others").mkdir(exist_ok=True)
    shutil.copy(project / "plans" / "stump.toml", project / "others" / "stump.toml")
    code, _, _ = divulge("audit", "plans/stump.toml", "others/stump.toml", "--out", tmp_path)
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others-stump", "plans-stump"]
    code, _, err = divulge("audit", "plans/stump.toml", "plans/stump.toml", "--out", tmp_path)
    assert code == 2
    assert "would write the same run" in err


def test_a_gate_without_limits_holds_a_run_to_those_of_its_plan(audited, divulge, tmp_path):
    runs = shutil.copytree(audited[0], tmp_path / "runs")
    code, out, _ = divulge("gate", runs / "deep", "--json")
    assert code == 1
    answers = json.loads(out)["limits"]
    assert set(answers) == {"auc:0.6", "exposed:290"}
    assert answers["auc:0.6"] == "broken"
    assert dv.gate(runs / "deep").state == "broken"
    assert {ruling.by for ruling in dv.gate(runs / "deep")} == {""}
    assert divulge("gate", runs / "deep", "--max", "auc:0.99")[0] in (0, 3)
    # Limits stand under the digests of the run: a plan that is edited afterwards lowers none.
    plan = runs / "deep" / "plan.toml"
    plan.write_text(plan.read_text().replace("auc:0.6", "auc:0.999"))
    assert dv.gate(runs / "deep").state == "broken"
    (runs / "deep" / "limits.json").write_text('{"max": ["auc:0.999"], "by": "none"}')
    with pytest.raises(dv.InputError, match="limits"):
        dv.gate(runs / "deep")


def test_a_run_whose_plan_has_no_limits_needs_some(tmp_path, divulge):
    write_audit(tmp_path / "run")
    code, _, err = divulge("gate", tmp_path / "run")
    assert code == 2
    assert "--max: METRIC:LIMIT is needed" in err
    WRITERS["erasure"](tmp_path / "erasure")
    assert "only the plan of an audit can hold limits" in divulge("gate", tmp_path / "erasure")[2]


def test_a_gate_has_one_answer_for_each_limit(tmp_path, divulge):
    write_audit(tmp_path / "run", 1, 1.0)
    limits = ("--max", "auc:0.6", "--max", "auc:0.9")
    code, out, _ = divulge("gate", tmp_path / "run", *limits, "--json")
    by_limit = {}
    for ruling in json.loads(out)["rulings"]:
        by_limit.setdefault(ruling["limit"], set()).add(ruling["state"])
    assert {"broken", "undecided"} <= by_limit[0.6]  # surely above it over all, and within a class that is not known
    _, out, _ = divulge("gate", tmp_path / "run", *limits)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    answers = {}
    for policy, metric, limit, *_ in rows:
        answers.setdefault((metric, limit), []).append(policy)
    assert answers["auc", "0.6"] == ["BROKEN"]
    assert answers["auc", "0.9"][0] in ("kept", "undecided")
    assert code == 1


def test_every_row_of_a_gate_has_its_own_state_the_worst_first(tmp_path, divulge):
    """Class 0 alone is given away: over all records the limit is kept."""
    rng = np.random.default_rng(0)
    sets = {
        name: dv.Records(rng.normal(size=(1000, 4)), np.repeat([0, 1, 1, 1, 1], 200))
        for name in ("members", "nonmembers", "population")
    }
    known = {row.tobytes() for row in sets["members"].x[:200]}

    def model(x):
        surer = np.array([row.tobytes() in known for row in x])
        return np.stack([x[:, 0] + 9 * surer, -x[:, 0]], axis=1)

    dv.audit(model, **sets, recipes=["loss"], fpr=(0.1,), out=tmp_path / "run")
    _, out, _ = divulge("gate", tmp_path / "run", "--max", "auc:0.8", "--json")
    states = {ruling["scope"]: ruling["state"] for ruling in json.loads(out)["rulings"]}
    assert (states["all"], states["class 0"]) == ("kept", "broken")
    _, out, _ = divulge("gate", tmp_path / "run", "--max", "auc:0.8")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [(row[0].lower(), row[-1]) for row in rows] == [("broken", "class 0"), ("kept (no references)", "all")]


def test_a_figure_of_a_class_is_named_as_such_on_the_sheet_and_in_junit():
    close, wide = dv.Estimate(0.58, 0.54, 0.62, 0.95, ""), dv.Estimate(0.75, 0.61, 0.86, 0.95, "")
    low = dv.Estimate(0.5, 0.46, 0.54, 0.95, "")
    rulings = Rulings(
        [
            Ruling("rmia", "all", "auc", 0.6, close),
            Ruling("rmia", "class 3", "auc", 0.6, wide, doubt="auc is 0.730 without", by="class"),
            Ruling("loss", "all", "auc", 0.6, low, unjudged=("class 0", "class 3"), unjudged_by=("class",)),
        ]
    )
    (row,) = limits_section(rulings).blocks[0].rows
    failure = ET.fromstring(render_junit(rulings, "run").encode()).find("testsuite/testcase/failure")
    for text in (row[2], failure.text):
        assert "auc of rmia on class 3: auc is 0.730 without" in text, "a figure stands beside the wrong candidates"
    assert "rmia on class 3" in failure.get("message")
    assert "auc of loss on all: judged within no class" in failure.text, "rmia was judged within class 3"
    assert "kept (no class): auc of loss on all" in failure.text


def test_an_audit_without_a_leak_advises_the_gate_of_its_plan_or_else_reference_models(project, divulge, tmp_path):
    (project / "advice").mkdir(exist_ok=True)
    for gate in ('[gate]\nmax = ["auc:0.7"]\n', ""):
        (project / "advice" / "stump.toml").write_text(PLAN.format(model="stump.skops", gate=gate))
        out = divulge("audit", project / "advice" / "stump.toml", "--out", tmp_path / f"run{len(gate)}")[1]
        advice = " ".join(out.split("Next: ")[1].split())
        assert advice.startswith("divulge gate" if gate else "give [references]")
        assert "--max" not in advice


def test_a_class_that_was_not_judged_is_named_by_gate_by_junit_and_on_the_sheet(project, divulge, tmp_path):
    (project / "classes").mkdir(exist_ok=True)
    gate = '[gate]\nmax = ["auc:0.6"]\nby = "class"\n'
    (project / "classes" / "stump.toml").write_text(PLAN.format(model="stump.skops", gate=gate))
    assert divulge("audit", project / "classes" / "stump.toml", "--out", tmp_path / "run")[0] == 0
    of_all = dv.gate(tmp_path / "run")[0]
    assert (of_all.state, len(of_all.unjudged)) == ("kept", 2)
    (row,) = viewing.list_runs([tmp_path / "run"])
    assert row.gate == of_all.answer == "kept (no class, no references)"
    assert row.gate in " ".join(divulge("table", tmp_path / "run")[1].split())
    code, out, _ = divulge("gate", tmp_path / "run", "--junit", tmp_path / "j.xml")
    assert code == 0
    assert of_all.reason in out
    (text,) = ET.parse(tmp_path / "j.xml").getroot().iter("system-out")
    assert of_all.reason in text.text
    for name in ("md", "html"):
        divulge("report", tmp_path / "run", "--one-page", "--format", name, "--to", tmp_path / f"page.{name}")
        assert of_all.reason in (tmp_path / f"page.{name}").read_text().replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("options", "code", "states"),
    [
        ((), 1, {"auc:0.6": "failure", "exposed:290": "failure"}),
        (("--pass", "undecided"), 1, {"auc:0.6": "failure", "exposed:290": "skipped"}),
        (("--pass", "undecided,broken"), 0, {"auc:0.6": "skipped", "exposed:290": "skipped"}),
        (("--max", "auc:0.999999"), 0, {"auc:0.999999": None}),
    ],
)
def test_junit_says_of_each_limit_what_the_exit_code_says(project, divulge, tmp_path, options, code, states):
    limits = () if "--max" in options else ("--max", "auc:0.6", "--max", "exposed:1")
    write_audit(tmp_path / "run", 1, 1.0)
    if limits:  # one that is broken, and one that these records leave open
        states = {name.replace("290", "1"): tag for name, tag in states.items()}
    found, _, err = divulge("gate", tmp_path / "run", *limits, *options, "--junit", tmp_path / "j.xml")
    (suite,) = ET.parse(tmp_path / "j.xml").getroot().findall("testsuite")
    cases = {case.get("name"): [child for child in case if child.tag != "system-out"] for case in suite}
    assert {name: children[0].tag if children else None for name, children in cases.items()} == states, err
    assert found == code
    tags = [tag for tag in states.values() if tag]
    counts = (len(states), tags.count("failure"), 0, tags.count("skipped"))
    assert tuple(int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")) == counts


def test_junit_of_a_gate_that_cannot_be_held_is_an_error_in_the_place_of_the_last_answer(divulge, tmp_path):
    (tmp_path / "j.xml").write_text("<testsuites/>")
    code, _, err = divulge("gate", tmp_path / "absent", "--max", "auc:0.6", "--junit", tmp_path / "j.xml")
    (error,) = ET.parse(tmp_path / "j.xml").getroot().iter("error")
    assert code == 2
    assert error.get("message") in err


def test_junit_holds_any_name():
    odd = "a<b>&\"'\x1b[2J\x00\ud800￿é\n]]>"
    rulings = Rulings([Ruling(odd, odd, "auc", 0.6, dv.Estimate(0.7, 0.65, 0.8, 0.95, odd), doubt="")])
    suite = ET.fromstring(render_junit(rulings, odd).encode("utf-8")).find("testsuite")
    assert suite.get("name").startswith("divulge gate a<b>&\"'\\x1b[2J\\x00\\ud800\\uffffé")
    assert "a<b>&" in suite.find("testcase/failure").get("message")


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Three nights of one model, an erasure check, a damaged run and an unfinished one."""
    folder = tmp_path_factory.mktemp("nights")
    for night, leak in (("2026-11-27", 3.0), ("2026-11-28", 1.0), ("2026-11-29", 1.0)):
        (folder / night).mkdir()
        write_audit(folder / night / "credit", 3, leak)
    write_audit(folder / "other-20261129-0315", 4)
    WRITERS["erasure"](folder / "erasure")
    return folder


def test_a_table_of_runs_compares_each_with_the_last_version_of_its_model(nights, divulge):
    code, out, err = divulge("table", nights, "--json")
    assert code == 0, err
    rows = json.loads(out)
    assert [row["date"] for row in rows] == sorted((row["date"] for row in rows), reverse=True)
    credit = [row for row in reversed(rows) if row["name"] == "credit"]
    assert [row["previous"] for row in credit] == [None, *(row["run"] for row in credit[:-1])]
    for before, after in itertools.pairwise(credit):
        compared = dv.compare(before["run"], after["run"])
        (change,) = (each.change for each in compared.changes[next(iter(compared.changes))] if each.statistic == "auc")
        assert after["change"]["value"] == pytest.approx(change.value)
        assert (after["change"]["low"], after["change"]["high"]) == pytest.approx((change.low, change.high))
    assert credit[1]["changed"].startswith("Less is given away")
    assert credit[2]["changed"].startswith("No difference could be shown")
    assert {row["name"] for row in rows} == {"credit", "other", "erasure"}
    for row in credit:
        result = dv.load(row["run"])
        assert f"</span> {row['verdict']}</p>" in (Path(row["run"]) / "report.html").read_text(), (
            "the heading of the page"
        )
        assert row["auc"]["low"] == pytest.approx(result["loss"].auc.low)


def test_nights_of_one_plan_alone_are_versions_of_one_model(tmp_path):
    """``--out runs/$(date +%F)`` of a single plan: the folder of each night is the run."""
    for night, leak in (("2026-11-28", 3.0), ("2026-11-29", 1.0)):
        write_audit(tmp_path / "credit" / night, 3, leak)
    nights = [tmp_path / "credit" / night for night in ("2026-11-28", "2026-11-29")]
    for folders in ([tmp_path / "credit"], [tmp_path], nights):
        latest, first = viewing.list_runs(folders)
        assert (latest.name, first.name) == ("credit", "credit")
        assert (latest.previous, first.previous) == (first.run, None)
        assert latest.change.high < 0


def test_a_table_of_runs_as_csv_and_as_text(nights, divulge):
    _, out, _ = divulge("table", nights, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    frame = viewing.tabulate(viewing.list_runs([nights]))
    assert [row["run"] for row in rows] == frame["run"].to_list()
    assert list(rows[0]) == frame.columns
    assert float(rows[0]["auc_low"] or "nan") == pytest.approx(frame["auc_low"][0] or np.nan, nan_ok=True)
    code, out, _ = divulge("table", nights)
    assert code == 0
    assert "Leak found" in out
    assert divulge("table", nights, "--csv", "--json")[0] == 2


def test_other_records_cannot_be_compared_and_the_table_says_so(tmp_path):
    for night, seed in (("2026-11-28", 1), ("2026-11-29", 2)):
        (tmp_path / night).mkdir()
        write_audit(tmp_path / night / "credit", seed)
    latest, _ = viewing.list_runs([tmp_path])
    assert latest.change is None
    assert latest.changed.startswith("cannot be compared: the ids agree, but the records")


def test_no_change_is_measured_from_a_run_that_may_be_of_another_model(tmp_path, divulge):
    rng, sets = np.random.default_rng(0), {}
    for name in ("members", "nonmembers", "population"):
        x = rng.normal(size=(200, 3))
        sets[name] = dv.Records(x, np.where(rng.random(200) < 0.3, rng.integers(0, 2, 200), x[:, 0] > 0).astype(int))
    tree = DecisionTreeClassifier(random_state=0).fit(sets["members"].x, sets["members"].y)

    def other(x):  # classes in another order: right about fewer of its own records than a constant answer
        return np.stack([x[:, 0], -x[:, 0]], axis=1)

    for night, model in (("2026-11-27", other), ("2026-11-28", tree), ("2026-11-29", other), ("2026-11-30", tree)):
        dv.audit(model, **sets, recipes=["loss"], out=tmp_path / "credit" / night)
    rows = {Path(row.run).name: row for row in viewing.list_runs([tmp_path])}
    doubtful, leaking = (tmp_path / "credit" / night for night in ("2026-11-27", "2026-11-28"))
    assert (rows["2026-11-28"].previous, rows["2026-11-28"].change) == (str(doubtful), None)
    assert rows["2026-11-28"].changed.startswith("cannot be told")
    assert rows["2026-11-30"].previous == str(leaking), "the night between is in doubt"
    assert rows["2026-11-30"].change.value == 0
    assert rows["2026-11-30"].change_recipe == "loss"
    heading, sentence, tone = dv.compare(doubtful, leaking).judge("2026-11-28")
    assert (heading, tone) == ("What changed cannot be told, and a leak is found", "leak")
    assert "of the first run, the model is right on" in sentence
    assert "gives away more" not in sentence
    out = " ".join(divulge("table", tmp_path)[1].split())
    assert all(night in out for night in rows), "the name of the model tells no night"


def test_attacks_whose_reference_models_are_clones_of_other_settings_are_left_out_of_a_comparison(tmp_path, divulge):
    rng = np.random.default_rng(0)
    sets = {
        name: dv.Records(rng.normal(size=(n, 3)), rng.integers(0, 2, n))
        for name, n in {"members": 120, "nonmembers": 120, "population": 240}.items()
    }
    members = sets["members"]
    for night, depth in {"2026-11-28": None, "2026-11-29": 2}.items():
        scale, tree = StandardScaler(), DecisionTreeClassifier(max_depth=depth, random_state=0)
        model = make_pipeline(scale, tree).fit(members.x, members.y)
        references = dv.references.Train(count=8)
        dv.audit(model, **sets, recipes=["loss", "lira"], references=references, out=tmp_path / night / "model")
    runs = [tmp_path / night / "model" for night in ("2026-11-28", "2026-11-29")]
    compared = dv.compare(*runs)
    (changes,), (left_out,) = compared.changes.values(), compared.left_out.values()
    assert {change.recipe for change in changes} == {"loss"}
    assert left_out == {"lira": "max_depth"}
    assert changes == dv.compare(*runs, recipes=["loss"]).changes[next(iter(compared.changes))]
    for names in (["lira"], ["loss", "lira"]):
        with pytest.raises(dv.InputError, match=r"trained differently: lira \(max_depth\)") as refused:
            dv.compare(*runs, recipes=names)
        assert len(str(refused.value)) < 200
    code, out, _ = divulge("compare", *runs)
    assert code == 0
    assert "lira (max_depth)" in out
    after, _ = viewing.list_runs([tmp_path])
    assert after.changed.endswith("lira (max_depth)")
    assert after.change == changes[0].change


def test_a_damaged_run_is_listed_and_the_exit_code_says_so(nights, tmp_path, divulge):
    shutil.copytree(nights / "2026-11-29", tmp_path / "runs" / "2026-11-29")
    shutil.copytree(nights / "2026-11-28", tmp_path / "runs" / "2026-11-28")
    shutil.copytree(nights / "erasure", tmp_path / "runs" / "erasure")
    (tmp_path / "runs" / "2026-11-29" / "credit" / "scores.parquet").write_bytes(b"odd")
    (tmp_path / "runs" / "erasure" / "summary.json").write_text("{}")
    code, out, err = divulge("table", tmp_path / "runs")
    assert code == 2
    assert out.count("Cannot be read") == 2
    assert "scores.parquet" in err
    assert divulge("table", tmp_path / "absent")[0] == 2


@pytest.mark.parametrize(
    ("n_copies", "shift", "stored"), [(60, 0, 60), (0, 0, 0), (2, 0, None), (60, 3, None)]
)  # copies beyond chance; none; what chance explains; members that differ from the others anyway
def test_of_a_release_the_table_counts_members_that_stand_in_it(tmp_path, n_copies, shift, stored):
    rng = np.random.default_rng(0)
    members, nonmembers, population, others = (rng.normal(size=(n, 3)).round(3) for n in (120, 120, 240, 100))
    members += shift
    dv.synthetic.audit(
        np.concatenate([members[:n_copies], others]), members=members, nonmembers=nonmembers, population=population,
        attributes=(), out=tmp_path / "release",
    )  # fmt: skip
    (row,) = viewing.list_runs([tmp_path])
    assert (row.stored_records, row.recipe) == (stored, "auto")
    assert 0 < row.auc.value < 1


def test_stored_records_stand_in_the_table_and_in_a_comparison(tmp_path, divulge):
    rng = np.random.default_rng(0)
    sets = {
        name: dv.Records(rng.normal(size=(200, 4)), rng.integers(0, 2, 200))
        for name in ("members", "nonmembers", "population")
    }
    members = sets["members"]
    for night, model in {
        "2026-11-28": DecisionTreeClassifier(max_depth=2, random_state=0),
        "2026-11-29": KNeighborsClassifier(5),
    }.items():
        (tmp_path / night).mkdir()
        dv.audit(model.fit(members.x, members.y), **sets, recipes=["loss"], out=tmp_path / night / "model")
    after, before = viewing.list_runs([tmp_path])
    assert (before.stored_records, after.stored_records) == (0, 200)
    assert after.changed == "Training records stand in the second model"
    code, out, _ = divulge("compare", tmp_path / "2026-11-28" / "model", tmp_path / "2026-11-29" / "model")
    assert code == 0
    assert "stored" in out  # the head of a column, whose words break where paths are long
    assert "200" in out


def test_a_folder_of_models_is_inspected_model_by_model(project, tmp_path, divulge):
    (tmp_path / "models" / "below").mkdir(parents=True)
    x = np.random.default_rng(0).normal(size=(60, 3))
    skops.io.dump(KNeighborsClassifier().fit(x, x[:, 0] > 0), tmp_path / "models" / "near.skops")
    shutil.copy(project / "deep.skops", tmp_path / "models" / "below" / "deep.skops")
    for name, content in {"README.txt": "no model", "config.json": '{"layers": [1, 2]}'}.items():
        (tmp_path / "models" / name).write_text(content)
    code, out, _ = divulge("inspect", tmp_path / "models", "--json")
    assert code == 0
    files = {file["path"]: file["inspection"] for file in json.loads(out)}
    assert set(files) == {"near.skops", "below/deep.skops"}
    _, alone, _ = divulge("inspect", tmp_path / "models" / "near.skops", "--json")
    assert files["near.skops"] == json.loads(alone)
    (tmp_path / "models" / "old.pkl").write_bytes(b"\x80\x04.")
    (tmp_path / "models" / "torn.skops").write_bytes(b"odd")
    code, out, err = divulge("inspect", tmp_path / "models")
    assert code == 2
    assert "near.skops" in out
    assert "old.pkl: a pickle" in err
    assert "torn.skops" in err
    (tmp_path / "nothing").mkdir()
    assert "no model in" in divulge("inspect", tmp_path / "nothing")[2]
    assert "--members: goes with one model" in divulge("inspect", tmp_path / "models", "--members", "m.csv")[2]


def test_candidates_and_exposed_members_are_tables(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    write_audit(tmp_path / "run")
    result = dv.load(tmp_path / "run")
    frame, scores, members = result.records(), result.scores["loss"], result.members
    assert frame["id"].to_list() == result.ids.tolist()
    assert frame["loss score"].to_list() == scores.tolist()
    exposed = result.most_exposed()
    rows = {record: row for row, record in enumerate(result.ids.tolist())}
    for record, label, score, as_high, others in exposed.iter_rows():
        row = rows[record]
        outside = scores[~members & (result.labels == label)]
        assert members[row]
        assert (score, as_high, others) == (scores[row], (outside >= score).sum(), len(outside))
        assert as_high <= others / 20
    shares = (exposed["nonmembers as high"] / exposed["nonmembers"]).to_list()
    assert shares == sorted(shares)
    assert pyarrow.table(exposed).to_pylist() == exposed.to_dicts()
    with pytest.raises(dv.InputError, match="recipe: 'lira' is unknown"):
        result.most_exposed("lira")


def test_tables_of_records_show_the_names_of_classes(divulge, tmp_path):
    rng, names = np.random.default_rng(0), np.array(["ill", "well"])
    sets = {
        name: dv.Records(rng.normal(size=(200, 3)), names[rng.integers(0, 2, 200)])
        for name in ("members", "nonmembers", "population")
    }
    model = DecisionTreeClassifier(random_state=0).fit(sets["members"].x, names[sets["members"].y])
    result = dv.audit(model, **sets, recipes=["loss"], fpr=(0.1,), out=tmp_path / "run")
    true_names = {row.tobytes(): names[y] for part in sets.values() for row, y in zip(part.x, part.y, strict=True)}
    rows = np.concatenate([sets["members"].x, sets["nonmembers"].x])
    for audit in (result, dv.load(tmp_path / "run")):
        records, exposed = audit.records(), audit.most_exposed()
        assert records["label"].to_list() == [true_names[row.tobytes()] for row in rows]
        label_by_id = dict(records.select("id", "label").iter_rows())
        assert exposed["label"].to_list() == [label_by_id[record] for record in exposed["id"].to_list()]
    assert divulge("report", tmp_path / "run", "--format", "csv")[0] == 0
    assert set(pl.read_csv(tmp_path / "run" / "records.csv")["label"]) == set(names)
