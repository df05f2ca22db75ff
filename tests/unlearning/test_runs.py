"""Erasure checks in run directories, on the command line, in plans and under a policy."""

import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from divulge import cli, runs
from divulge.report.page import Table
from divulge.unlearning.pipeline import open_audit_models

IDS = [f"{i:04d}" for i in range(700)]


def score_table(shift, seed):
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"id": IDS, "score": rng.normal(size=700) + shift * (np.arange(700) < 300)})


CONTROLS = [score_table(0, seed) for seed in range(1, 9)]


def check(shift, **changes):
    arguments = {"forget": IDS[:300], "never": IDS[300:], "retrained": CONTROLS, "at_random": True, "margin": 0.08}
    return dv.forget(score_table(3, 0), score_table(shift, 22), **arguments | changes)


FORGOTTEN, REMEMBERED = check(0), check(2)


def test_a_run_is_read_back_with_its_answers_decided_again(tmp_path):
    for result in (FORGOTTEN, REMEMBERED):
        folder = tmp_path / str(result is FORGOTTEN)
        result.save(folder)
        assert runs.load_run(folder).summary == result.summary()
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["answer"] == result.verdict.answer
    run_kind = runs.find_kind(folder)
    frame = run_kind.load_records(folder)
    assert len(frame) == 300
    assert frame["remembered"].sum() == REMEMBERED.findings[0].remembered


def test_the_page_says_answer_null_and_limits():
    for result in (FORGOTTEN, REMEMBERED, check(2, forget={"a <b>": IDS[:100], "c": IDS[100:300]})):
        page = result.page()
        assert page.verdict == result.verdict.text
        titles = [section.title for section in page.sections]
        assert "Before, after, and never" in titles
        assert "Scores do not show everything" in " ".join(page.details)
        # Answer, null and limit are the first sentence; the rest of the first sheet is short.
        assert ", compared with 8 retrained models by one score of each record" in page.verdict
        assert len([section for section in page.sections if not section.annex]) <= 5
    assert FORGOTTEN.verdict.tone == "clear"
    assert REMEMBERED.verdict.tone == "leak"


def test_a_listed_record_stands_beside_what_models_gave_it():
    """Its scores before and after, and the mean under the models that never saw it."""
    tables = [block for section in REMEMBERED.page().sections for block in section.blocks if isinstance(block, Table)]
    listed = next(each.rows for each in tables if "never saw it" in each.columns)
    (remembered,) = REMEMBERED.remembered.values()
    assert len(listed) == min(len(remembered), 20) > 0
    scores = [score_table(3, 0)["score"], score_table(2, 22)["score"], np.mean([c["score"] for c in CONTROLS], axis=0)]
    for record, _, *figures in listed:
        assert record in remembered
        assert figures == [f"{each[IDS.index(record)]:.3g}" for each in scores]


def test_a_page_without_controls_or_model_before(tmp_path):
    result = dv.forget(None, score_table(0, 3), forget=IDS[:300], never=IDS[300:])
    result.report(tmp_path / "report.html")
    assert "nothing to compare with" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("result", "policy", "state"),
    [
        (FORGOTTEN, "difference:0.2", "kept"),
        (FORGOTTEN, "difference:0.001", "undecided"),
        (FORGOTTEN, "share:0.5", "kept"),
        (REMEMBERED, "difference:0.1", "broken"),
        (REMEMBERED, "share:0.1", "broken"),
        (REMEMBERED, "difference:0.9", "undecided"),  # within the limit, and still remembered
    ],
)
def test_a_policy(result, policy, state):
    assert [ruling.state for ruling in dv.gate(result, policy)] == [state]


def test_nothing_is_kept_by_fewer_than_two_controls():
    single = check(0, retrained=CONTROLS[:1])
    (ruling,) = dv.gate(single, "difference:0.5")
    assert (ruling.state, "training noise" in ruling.reason) == ("undecided", True)
    (ruling,) = dv.gate(check(0, retrained=()), "difference:0.5")
    assert ruling.state == "undecided"


def test_another_column_may_be_the_id(tmp_path):
    write_tables(tmp_path)
    for file in tmp_path.glob("*.csv"):
        table = pl.read_csv(file, schema_overrides={"id": pl.String}).rename({"id": "person number"})
        table.with_columns(id=pl.int_range(pl.len())).write_csv(file)
    files = ("before", "after", "forget", "never")
    words = [word for name in files for word in (f"--{name}", str(tmp_path / f"{name}.csv"))]
    assert cli.run(["forget", *words, "--retrained", str(tmp_path / "after.csv"), "--id", "person number"]) in (0, 3)


@pytest.mark.parametrize(
    "policy", ["auc:0.5", "difference", "difference:x", "share:1.5", "share:nan", "share:-0.1", []]
)
def test_a_policy_that_cannot_be_read(policy):
    with pytest.raises(dv.InputError, match="policy: "):
        dv.gate(FORGOTTEN, policy)


def write_tables(folder):
    (folder / "references").mkdir()
    for i, table in enumerate(CONTROLS):
        table.write_csv(folder / "references" / f"{i}.csv")
    score_table(3, 0).write_csv(folder / "before.csv")
    score_table(0, 22).write_csv(folder / "after.csv")
    for name, ids in {"forget": IDS[:300], "one": IDS[:150], "two": IDS[150:300], "never": IDS[300:]}.items():
        pl.DataFrame({"id": ids}).write_csv(folder / f"{name}.csv")


def test_the_command_answers_with_its_exit_code(tmp_path, capsys):
    write_tables(tmp_path)
    base = ["forget", "--before", f"{tmp_path}/before.csv", "--never", f"{tmp_path}/never.csv"]
    base += ["--references", f"{tmp_path}/references", "--margin", "0.08", "--at-random"]
    out = tmp_path / "run"
    words = [*base, "--after", f"{tmp_path}/after.csv", "--forget", f"{tmp_path}/forget.csv", "--out", str(out)]
    assert cli.run(words) == 0
    assert "No difference from a model that never saw them" in capsys.readouterr().out
    assert cli.run(["gate", str(out), "--max", "difference:0.2"]) == 0
    assert cli.run(["gate", str(out), "--max", "difference:0.001"]) == 3
    assert cli.run(["gate", str(out), "--max", "auc:0.6"]) == 2
    assert "the metrics of an erasure check are difference, share" in capsys.readouterr().err
    assert cli.run(["report", str(out), "--format", "csv"]) == 0
    assert cli.run([*base, "--after", f"{tmp_path}/before.csv", "--forget", f"{tmp_path}/forget.csv"]) == 1
    capsys.readouterr()
    two = ["--forget", f"{tmp_path}/one.csv", "--forget", f"{tmp_path}/two.csv", "--json"]
    assert cli.run([*base, "--after", f"{tmp_path}/before.csv", *two]) == 1
    assert [one["request"] for one in json.loads(capsys.readouterr().out)["findings"]] == ["one", "two"]
    shards = tmp_path / "after"
    shards.mkdir()
    full_table = pl.read_csv(tmp_path / "after.csv", schema_overrides={"id": pl.String})
    full_table[:7].write_parquet(shards / "0.parquet")
    full_table[7:].write_csv(shards / "1.csv", separator=";")
    pl.read_csv(tmp_path / "forget.csv", infer_schema=False).write_ndjson(tmp_path / "forget.jsonl")
    answers = []
    for after, forget in (("after.csv", "forget.csv"), ("after", "forget.jsonl")):
        capsys.readouterr()
        cli.run([*base, "--after", f"{tmp_path}/{after}", "--forget", f"{tmp_path}/{forget}", "--json"])
        printed = capsys.readouterr()
        assert not printed.err
        answers.append(json.loads(printed.out))
    assert answers[0]["findings"] == answers[1]["findings"]
    words = ["forget", "--after", f"{tmp_path}/after.csv", "--forget", f"{tmp_path}/forget.csv"]
    assert cli.run([*words, "--never", f"{tmp_path}/never.csv"]) == 3
    assert cli.run(words) == 2
    assert "--never" in capsys.readouterr().err


def test_a_plan_with_a_table_forget(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    for name, n in {"members": 120, "nonmembers": 100, "population": 40}.items():
        x = rng.normal(size=(n, 3))
        np.savez(tmp_path / f"{name}.npz", x=x, y=rng.integers(0, 2, n))
        if name == "members":
            with np.load(tmp_path / "members.npz") as members:
                np.savez(tmp_path / "forget.npz", x=members["x"][:70], y=members["y"][:70])
    (tmp_path / "erasure_models.py").write_text(
        """
import numpy as np

def make(known, seed):
    def logits(x):
        with np.load(__file__.replace("erasure_models.py", "members.npz")) as file:
            rows = {row.tobytes(): label for row, label in zip(file["x"][known:], file["y"][known:])}
        noise = np.random.default_rng(seed).normal(size=(4, 2))
        out = np.sin(np.c_[x, np.ones(len(x))] @ noise * 7)
        for i, row in enumerate(np.asarray(x, np.float64)):
            if row.tobytes() in rows:
                out[i, rows[row.tobytes()]] += 4
        return out
    return logits

before = make(0, 0)
after = make(70, 1)
first, second, third = make(70, 2), make(70, 3), make(70, 4)
"""
    )
    (tmp_path / "plan.toml").write_text(
        """
[target]
model = "erasure_models:before"
[data]
members = "members.npz"
nonmembers = "nonmembers.npz"
population = "population.npz"
[forget]
after = "erasure_models:before"
records = "forget.npz"
retrained = ["erasure_models:first", "erasure_models:second", "erasure_models:third"]
"""
    )
    assert cli.run(["forget", "--plan", str(tmp_path / "plan.toml"), "-v"]) == 1
    output = capsys.readouterr().out
    assert "Still remembered" in output
    assert "retained" in output
    beside = ["--after x.csv", "--forget x.csv", "--retained x.csv", "--never x.csv", "--before x.csv"]
    beside += ["--retrained x.csv", "--references x.csv", "--label y", "--factory module:make", "--classes a"]
    for option in beside:
        assert cli.run(["forget", "--plan", str(tmp_path / "plan.toml"), *option.split()]) == 2, option
        assert f"leave out {option.split()[0]}" in capsys.readouterr().err
    cli.run(["forget", "--plan", str(tmp_path / "plan.toml"), "--margin", "0.3", "--json"])
    assert json.loads(capsys.readouterr().out)["settings"]["margin"] == 0.3


def test_the_members_of_a_plan_may_hold_the_records_of_its_requests(tmp_path, capsys):
    """The plan's members are all training records; those that were to be forgotten are told from the rest by id."""
    rng = np.random.default_rng(0)
    sets = {
        name: pl.DataFrame(rng.normal(size=(60, 2)), schema=["a", "b"]) for name in ("members", "nonmembers", "others")
    }
    for name, table in sets.items():
        sets[name] = table.with_columns(
            label=rng.integers(0, 2, 60), id=pl.Series([f"{name}{i:03}" for i in range(60)])
        )
    sets |= {"forget": sets["members"][:40], "all": sets["members"]}
    for name, table in sets.items():
        table.write_csv(tmp_path / f"{name}.csv")
    for name, rows in {"before": sets["members"], "after": sets["members"][40:]}.items():
        model = RandomForestClassifier(10, random_state=0).fit(
            rows.select("a", "b").to_pandas(), rows["label"].to_numpy()
        )
        skops.io.dump(model, tmp_path / f"{name}.skops")
    plan = (
        '[target]\nmodel = "before.skops"\n[data]\nid = "id"\nmembers = "members.csv"\nnonmembers = "nonmembers.csv"\n'
        'population = "others.csv"\n[forget]\nafter = "after.skops"\nretrained = ["after.skops"]\nrecords = "{}.csv"\n'
    )
    for records, retained in (("forget", 20), ("all", 0)):
        (tmp_path / "plan.toml").write_text(plan.format(records))
        code = cli.run(["forget", "--plan", str(tmp_path / "plan.toml"), "--json"])
        printed = capsys.readouterr()
        assert code in (0, 1, 3), printed.err
        assert ("retained" in {change["records"] for change in json.loads(printed.out)["quality"]}) == bool(retained)


MODELS = """
import numpy as np

with np.load(__file__.replace("answer_models.py", "forget.npz")) as file:
    KNOWN = dict(zip(file["x"][:, 0].tolist(), file["y"].tolist()))

def make(seed, shift):
    def logits(x):
        noise = np.sin(np.c_[x, np.ones(len(x))] @ np.random.default_rng(seed).normal(size=(5, 2)) * 9)
        for row, first in enumerate(np.asarray(x, np.float64)[:, 0].tolist()):
            if first in KNOWN:
                noise[row, KNOWN[first]] += shift
        return noise
    return logits

before = make(0, 6)
remembered, forgotten, overdone = (make(1, shift) for shift in (4, 0, -4))
constant = lambda x: np.zeros((len(x), 2))
c0, c1, c2, c3, c4, c5, c6, c7 = (make(seed, 0) for seed in range(2, 10))
"""


@pytest.mark.parametrize(
    ("after", "answer", "code", "tone"),
    [
        ("remembered", "still remembered", 1, "leak"),
        ("forgotten", "no difference from a model that never saw them", 0, "clear"),
        ("overdone", "overdone: they stand out the other way", 1, "doubt"),
        ("constant", "too little data to say", 3, "undecided"),
    ],
)
def test_a_plan_gives_each_of_the_answers(tmp_path, capsys, monkeypatch, after, answer, code, tone):
    rng = np.random.default_rng(1)
    for name, n in {"members": 260, "nonmembers": 240, "population": 40}.items():
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=(n, 4)), y=np.arange(n) % 2)
    with np.load(tmp_path / "members.npz") as members:
        for name, rows in {"forget": slice(0, 240), "one": slice(0, 120), "two": slice(120, 240)}.items():
            np.savez(tmp_path / f"{name}.npz", x=members["x"][rows], y=members["y"][rows])
    (tmp_path / "answer_models.py").write_text(MODELS)
    monkeypatch.delitem(sys.modules, "answer_models", raising=False)
    retrained = ", ".join(f'"answer_models:c{i}"' for i in range(8))
    sets = "\n".join(f'{name} = "{name}.npz"' for name in ("members", "nonmembers", "population"))
    plan = (
        f'[target]\nmodel = "answer_models:before"\n[data]\n{sets}\n[forget]\nmargin = 0.3\nretrained = [{retrained}]\n'
    )
    requests = ('"forget.npz"', '{ one = "one.npz", two = "two.npz" }')
    for records in requests if after == "remembered" else requests[1:]:
        (tmp_path / "plan.toml").write_text(f'{plan}after = "answer_models:{after}"\nrecords = {records}\n')
        result = cli.run(["forget", "--plan", str(tmp_path / "plan.toml"), "--json"])
        summary = json.loads(capsys.readouterr().out)
        assert (result, summary["answer"], summary["tone"]) == (code, answer, tone)
        assert len(summary["findings"]) == (2 if "one" in records else 1)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Write the files of three audits, two of a forest and one of a network, run them, and return their folder."""
    folder = tmp_path_factory.mktemp("audited")
    rng = np.random.default_rng(3)
    parts = {"members": 120, "nonmembers": 110, "population": 120}
    columns = {name: (rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, 2, n)) for name, n in parts.items()}
    columns["forget"] = tuple(values[:60] for values in columns["members"])
    columns["kept"] = tuple(values[60:] for values in columns["members"])
    for name, (x, y) in columns.items():
        frame = {f"f{j}": x[:, j] for j in range(5)} | {"y": np.where(y == 1, "yes", "no")}
        pl.DataFrame(frame).write_csv(folder / f"{name}.csv")
    for name in ("members", "kept"):
        table = pl.read_csv(folder / f"{name}.csv")
        forest = RandomForestClassifier(8, random_state=0).fit(table.drop("y").to_pandas(), table["y"].to_numpy())
        skops.io.dump(forest, folder / f"{name}.skops")
    (folder / "erasure_net.py").write_text(
        "import torch\n\ndef make():\n    return torch.nn.Linear(5, 2)\n\n"
        "def target():\n    torch.manual_seed(0)\n    return make()\n"
    )
    data = (
        '[data]\nmembers = "members.csv"\nnonmembers = "nonmembers.csv"\npopulation = "population.csv"\nlabel = "y"\n'
    )
    references = "[references]\ncount = 4\n"
    head = 'recipes = ["lira"]\nfpr = [0.05]\nseed = 5\n[target]\nmodel = '
    (folder / "forest.toml").write_text(f'{head}"members.skops"\n{data}{references}')
    network = f'{head}"erasure_net:target"\n{data}classes = ["no", "yes"]\n{references}'
    online = head.replace('"lira"', '"lira-online"')
    (folder / "online.toml").write_text(f'{online}"members.skops"\n{data}[references]\ncount = 8\n')
    (folder / "network.toml").write_text(f'{network}make_model = "erasure_net:make"\nepochs = 2\n')
    for name in ("forest", "network", "online"):
        assert cli.run(["audit", str(folder / f"{name}.toml"), "--out", str(folder / name)]) == 0
    return folder


def forget_words(folder, run, model="members.skops"):
    files = {"before": model, "after": model, "forget": "forget.csv", "never": "nonmembers.csv"}
    options = [word for name, file in files.items() for word in (f"--{name}", str(folder / file))]
    return ["forget", *options, "--references", str(folder / run), "--label", "y", "--json"]


def test_the_reference_models_of_an_audit_never_saw_the_records(audited, capsys):
    assert cli.run(forget_words(audited, "forest")) == 1
    summary = json.loads(capsys.readouterr().out)
    assert (summary["answer"], summary["null"]) == ("still remembered", "reference models")
    assert len(summary["control_names"]) == 4
    from_python = dv.forget(
        *[dv.targets.load(str(audited / "members.skops"))] * 2, references=audited / "forest",
        **{name: dv.datafiles.read_records(audited / file, dv.datafiles.FileLayout(label="y")).records
           for name, file in {"forget": "forget.csv", "never": "nonmembers.csv"}.items()},
    )  # fmt: skip
    np.testing.assert_allclose(from_python.findings[0].controls, summary["findings"][0]["controls"])


def test_models_of_an_online_audit_are_compared_on_the_records_that_they_did_not_see(audited, capsys, tmp_path):
    assert cli.run([*forget_words(audited, "online"), "--out", str(tmp_path / "run")]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert (summary["answer"], len(summary["control_names"])) == ("still remembered", 8)
    assert any("4 or more of 8 models that were not trained on it" in check["says"] for check in summary["checks"])
    loaded = runs.load_run(tmp_path / "run").result
    assert runs.load_run(tmp_path / "run").summary.answer == summary["answer"]
    # Every record is seen by exactly half of the models, and half of the records by each.
    np.testing.assert_array_equal(np.isnan(loaded.controls).sum(axis=0), 4)
    unseen = ~np.isnan(loaded.controls)
    forgotten = np.array([str(part).startswith("[") for part in loaded.part])
    aucs = summary["findings"][0]["controls"]
    for row, is_unseen, auc in zip(loaded.controls, unseen, aucs, strict=True):
        assert dv.evaluation.auc(row[is_unseen], forgotten[is_unseen]).value == pytest.approx(auc)
    # What those models say of the records that they saw is what the model before says of its own: these are left out.
    assert max(aucs) < 0.8 < summary["findings"][0]["auc_before"]["value"]
    assert loaded.to_frame()["never_saw_it"].null_count() == 0
    assert cli.run(forget_words(audited, "online", "kept.skops")) == 3


def test_networks_of_an_audit_are_read_from_its_pool_once_their_code_is_trusted(audited, capsys, monkeypatch):
    monkeypatch.chdir(audited)
    words = forget_words(Path(), "network", "erasure_net:target")
    assert cli.run(words) == 2
    assert "--trust erasure_net:target" in capsys.readouterr().err
    words += ["--trust", "erasure_net:target", "--trust", "erasure_net:make"]
    assert cli.run(words) == 2
    assert "which output is whose" in capsys.readouterr().err
    words += ["--classes", "no", "--classes", "yes"]

    def stored_at():
        return {path.name: path.stat().st_mtime_ns for path in Path("network", "pool").glob("*.safetensors")}

    stored = stored_at()
    assert cli.run(words) == 3
    assert len(json.loads(capsys.readouterr().out)["control_names"]) == 4
    assert stored == {
        path.name: path.stat().st_mtime_ns for path in (audited / "network" / "pool").glob("*.safetensors")
    }
    assert len(stored) == 4


def test_runs_that_cannot_give_reference_models_are_refused_by_name(audited, tmp_path, capsys):
    REMEMBERED.save(tmp_path / "run")
    with pytest.raises(dv.InputError, match="the run of an audit is needed, got one of kind 'erasure'"):
        open_audit_models(tmp_path / "run")
    with pytest.raises(dv.InputError, match=r"references: .*nowhere"):
        open_audit_models(tmp_path / "nowhere")
    assert cli.run([*forget_words(audited, "forest"), "--references", str(audited / "network")]) == 2
    assert "stands alone" in capsys.readouterr().err
    records = dv.Records(np.zeros((4, 2)), [0, 1, 0, 1])
    model = RandomForestClassifier(2).fit(records.x, records.y)
    with pytest.raises(dv.InputError, match="population: the audit whose reference models are used has its own"):
        dv.forget(
            model, model, forget=records[:2], never=records[2:], references=audited / "forest", population=records
        )
    with pytest.raises(dv.InputError, match="references: with tables of scores"):
        check(0, references=audited / "forest")


def test_a_model_of_labels_alone_can_be_read(tmp_path, monkeypatch, capsys):
    (tmp_path / "labels_alone.py").write_text(
        "class Model:\n    def labels(self, records):\n        return records.x[:, 0].astype(int)\n\nmodel = Model()\n"
    )
    monkeypatch.chdir(tmp_path)
    for name, seed in (("forget", 0), ("never", 1)):
        x = np.random.default_rng(seed).normal(1, 0.5, (30, 2))
        np.savez(f"{name}.npz", x=x, y=np.arange(30) % 2)
    files = ("--forget", "forget.npz", "--never", "never.npz")
    assert cli.run(["forget", "--after", "labels_alone:model", *files, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["signal"] == "correctness"
