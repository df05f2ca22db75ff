"""What leaves the run directory: single records only on request, one page, SACRO-ML's files in and out."""

import json
import pickle
import runpy
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from divulge.auditing import sacro_export
from divulge.report import (
    BulletList,
    Chart,
    Collapsible,
    Exhibit,
    Gallery,
    Page,
    Paragraph,
    Section,
    Table,
    hide_records,
)
from divulge.results import ClassifierFit
from divulge.targets import sacro_folders

pytestmark = pytest.mark.usefixtures("records_compared_once")

CONVERTER = Path(__file__).parents[2] / "examples" / "convert_to_skops.py"
SECRET = 987654.25


def sets(seed=0):
    x, y = load_wine(return_X_y=True)
    x = x.copy()
    order = np.random.default_rng(seed).permutation(len(x))
    x[:, 12] += SECRET  # values that no number of a report has by itself
    return x, y, order


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit") / "run"
    x, y, order = sets()
    y = np.where(np.arange(len(y)) % 2, y, np.random.default_rng(0).integers(0, 3, len(y)))  # to be learned by heart
    parts = [dv.Records(x[rows], y[rows]) for rows in np.split(order, [60, 120])]
    model = RandomForestClassifier(50, bootstrap=False, max_features=1, random_state=0).fit(parts[0].x, parts[0].y)
    names = dict(zip(("members", "nonmembers", "population"), parts, strict=True))
    audit = dv.audit(model, **names, recipes=["loss"], fpr=(0.1,), out=folder)
    return folder, audit, parts


def rows_of_records(parts):
    return {f"{value:.4g}" for value in parts[0].x[:, 12]}


def test_records_stand_in_the_html_report_and_nowhere_else_by_default(run, divulge, tmp_path):
    folder, _, parts = run
    values = rows_of_records(parts)
    assert any(value in (folder / "report.html").read_text() for value in values)
    for format_name in ("md", "json"):
        rendered = tmp_path / f"out.{format_name}"
        assert divulge("report", folder, "--format", format_name, "--to", rendered)[0] == 0
        assert not any(value in rendered.read_text() for value in values), format_name
    rendered = tmp_path / "out.html"
    assert divulge("report", folder, "--no-show-records", "--to", rendered)[0] == 0
    assert not any(value in rendered.read_text() for value in values)
    assert "Single records are left out here" in rendered.read_text()
    code, _, err = divulge("report", folder, "--no-show-records")
    assert code == 2
    assert "--to: needed with --no-show-records" in err
    code, _, err = divulge("report", folder, "--format", "csv", "--show-records")
    assert code == 2
    assert "csv has one row per record" in err


def test_an_audit_that_may_show_no_records_stores_none(tmp_path):
    x, y, order = sets()
    parts = [dv.Records(x[rows], y[rows]) for rows in np.split(order, [60, 120])]
    model = RandomForestClassifier(5, random_state=0).fit(parts[0].x, parts[0].y)
    names = dict(zip(("members", "nonmembers", "population"), parts, strict=True))
    audit = dv.audit(model, **names, recipes=["loss"], fpr=(0.1,), show_records=False, out=tmp_path / "run")
    assert not audit.exhibits
    assert not any(value in (tmp_path / "run" / "report.html").read_text() for value in rows_of_records(parts))
    assert not dv.load(tmp_path / "run").exhibits


def test_hidden_records_leave_a_sentence_and_everything_else():
    table, secret = Table(["a"], [["1"]]), Table(["id"], [["Jane Doe"]], single_records=True)
    chart = Chart({}, single_records=True)
    gallery = Gallery([Exhibit("Jane Doe", text="Jane Doe, 53")])
    folded = [Collapsible("more", [secret]), Collapsible("other", [Paragraph("kept"), gallery])]
    page = Page("t", "v", "plain", [Section("s", [table, secret, chart, gallery, *folded]), Section("r", [table])])
    hidden = hide_records(page)
    assert "Jane" not in str(hidden)
    assert hidden.sections[1] == page.sections[1]
    blocks = hidden.sections[0].blocks
    assert blocks[0] == table
    assert [block.title for block in blocks if isinstance(block, Collapsible)] == ["other"]
    assert sum("left out" in str(block) for block in blocks if isinstance(block, Paragraph)) == 1


def test_the_one_page_summary_holds_verdict_files_and_lines_to_sign(run, divulge, tmp_path):
    folder, audit, parts = run
    for name in ("html", "md"):
        rendered = tmp_path / f"page.{name}"
        assert divulge("report", folder, "--one-page", "--format", name, "--to", rendered)[0] == 0
        text = rendered.read_text().replace("\N{NO-BREAK SPACE}", " ")
        assert "name and date" in text
        assert "RandomForestClassifier" in text
        assert "min_samples_leaf = 1" in text
        assert "What this does not show" in text
        assert not any(value in text for value in rows_of_records(parts))
        assert "AUC" in text
    assert len((tmp_path / "page.html").read_text()) < 60_000  # no charting library
    code, _, err = divulge("report", folder, "--one-page", "--format", "csv")
    assert code == 2
    assert "'csv' is unknown" in err
    assert audit.verdict.answer == "leak found"


def test_the_one_page_summary_prints_on_one_sheet(run, divulge, tmp_path):
    rendered = tmp_path / "page.pdf"
    code, _, err = divulge("report", run[0], "--one-page", "--format", "pdf", "--to", rendered)
    if code == 2 and "a Chromium is needed" in err:
        pytest.skip("no Chromium")
    assert code == 0, err
    assert rendered.read_bytes().count(b"/Type /Page\n") + rendered.read_bytes().count(b"/Type /Page ") <= 1


def test_long_pages_are_cut_to_a_sheet():
    from divulge.report.one_page import one_page

    rows = [[str(i), "x"] for i in range(500)]
    blocks = [Paragraph("word " * 500), Table(["a", "b"], rows), BulletList([])]
    page = Page("t", "v", "plain", [Section("Evidence", blocks[1:]), Section("Warnings", blocks[:1] * 9)])
    short = one_page(page)
    assert len(short.sections[0].blocks[0].rows) == 8
    assert len(short.sections[1].blocks) == 2
    assert all(len(block.text) < 430 for block in short.sections[1].blocks)


class TestSacroExport:
    def test_the_files_have_its_keys_and_no_record(self, run, divulge, tmp_path):
        folder, audit, parts = run
        assert divulge("report", folder, "--format", "sacro", "--to", tmp_path / "egress")[0] == 0
        target = yaml.safe_load((tmp_path / "egress" / "target.yaml").read_text())
        assert target["model_name"] == "RandomForestClassifier"
        assert target["model_params"]["min_samples_leaf"] == 1
        assert target["model_path"] == target["X_train_path"] == ""
        assert target["n_samples"] == 60
        accuracy = audit.about.measured(ClassifierFit).accuracy
        assert target["generalisation_gap"] == accuracy.members.value - accuracy.nonmembers.value
        (name, entry), *other_entries = json.loads((tmp_path / "egress" / "attack_results.json").read_text()).items()
        assert not other_entries
        assert name == f"Divulge loss_{entry['log_id']}"
        metrics = entry["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
        assert metrics["AUC"] == pytest.approx(audit["loss"].auc.value)
        assert entry["metadata"]["divulge"]["answer"] == "leak found"
        text = (tmp_path / "egress" / "attack_results.json").read_text()
        assert not any(value in text for value in rows_of_records(parts))

    def test_its_metrics_are_those_of_their_definitions(self):
        from divulge.auditing.findings import Outcome

        rng = np.random.default_rng(0)
        truth = np.arange(400) < 150
        scores = np.round(rng.normal(size=400) + truth, 1)  # ties
        predicted = scores > 1
        outcome = Outcome("loss", scores, truth, None, np.zeros(0))
        metrics = sacro_export.membership_metrics(outcome, predicted)
        wins = (scores[truth][:, None] > scores[~truth]) + 0.5 * (scores[truth][:, None] == scores[~truth])
        assert metrics["AUC"] == pytest.approx(wins.mean())
        assert metrics["TPR"] == pytest.approx(predicted[truth].mean())
        assert metrics["FPR"] == pytest.approx(predicted[~truth].mean())
        assert metrics["PPV"] == pytest.approx(truth[predicted].mean())
        assert metrics["ACC"] == pytest.approx((predicted == truth).mean())
        for level in ("0.5", "1e-05"):
            rates = [((scores > t)[~truth].mean(), (scores > t)[truth].mean()) for t in np.unique(scores)]
            best = max(tpr for fpr, tpr in rates if fpr <= float(level) / 100)
            assert metrics[f"TPR@{level}%"] == pytest.approx(best)
        order = np.argsort(scores, kind="stable")
        assert metrics["FDIF01"] == pytest.approx(truth[order[-40:]].mean() - truth[order[:40]].mean())
        assert metrics["n_pos_test_examples"] == 150

    def test_other_runs_have_no_such_files(self, divulge, tmp_path):
        from tests.run_directories import write_extraction

        write_extraction(tmp_path / "run")
        code, _, err = divulge("report", tmp_path / "run", "--format", "sacro")
        assert code == 2
        assert "an audit's run is needed" in err


def write_sacro_folder(folder, x, y, train, test):
    """A target folder as SACRO-ML 2.0.1 writes it: everything is pickled."""
    folder.mkdir()
    model = RandomForestClassifier(10, random_state=0).fit(x[train], y[train])
    arrays = {"X_train": x[train], "y_train": y[train], "X_test": x[test], "y_test": y[test]}
    for name, value in {"model": model, **arrays}.items():
        with (folder / f"{name}.pkl").open("wb") as file:
            pickle.dump(value, file)
    features = {i: {"name": f"f{i}", "indices": [i], "encoding": "float"} for i in range(x.shape[1])}
    target = {"dataset_name": "wine", "features": features, "model_type": "SklearnModel", "model_path": "model.pkl"}
    target |= {"model_name": "RandomForestClassifier"} | {f"{name}_path": f"{name}.pkl" for name in arrays}
    (folder / "target.yaml").write_text(yaml.dump(target))


@pytest.fixture
def convert(monkeypatch, capsys):
    """Run the converter as a script, in this process; what it printed."""

    def convert(*arguments):
        monkeypatch.setattr(sys, "argv", [str(CONVERTER), *map(str, arguments)])
        runpy.run_path(str(CONVERTER), run_name="__main__")
        return capsys.readouterr().out

    return convert


class TestSacroFolders:
    def test_a_converted_folder_becomes_a_plan_that_runs(self, divulge, convert, tmp_path):
        x, y, order = sets()
        write_sacro_folder(tmp_path / "target", x, y, order[:80], order[80:])
        code, _, err = divulge("init", tmp_path / "no", "--model", tmp_path / "target")
        assert code == 2
        assert "is a pickle" in err
        assert "convert_to_skops.py" in err
        assert not (tmp_path / "no").exists()
        assert "model.skops" in convert(tmp_path / "target", tmp_path / "safe")
        code, _, err = divulge("init", tmp_path / "plan", "--model", tmp_path / "safe")
        assert code == 0, err
        members = pl.read_parquet(tmp_path / "plan" / "members.parquet")
        assert members.columns[:2] == ["f0", "f1"]
        assert np.array_equal(members.drop("label").to_numpy(), x[order[:80]])
        nonmember_tables = [
            pl.read_parquet(tmp_path / "plan" / f"{name}.parquet") for name in ("nonmembers", "population")
        ]
        rows = np.concatenate([table.drop("label").to_numpy() for table in nonmember_tables])
        assert sorted(map(tuple, rows)) == sorted(map(tuple, x[order[80:]]))
        code, _, err = divulge("audit", tmp_path / "plan" / "plan.toml", "--out", tmp_path / "run", "--no-show-records")
        assert code == 0, err
        assert not dv.load(tmp_path / "run").exhibits
        assert divulge("inspect", tmp_path / "safe")[0] == 0
        code, _, err = divulge("inspect", tmp_path / "target")
        assert code == 2
        assert "is a pickle" in err

    def test_one_pickle_is_converted(self, convert, tmp_path):
        x, y, _ = sets()
        with (tmp_path / "model.pkl").open("wb") as file:
            pickle.dump(RandomForestClassifier(2, random_state=0).fit(x, y), file)
        # No type is asked for that `load` knows.
        assert convert(tmp_path / "model.pkl") == f"wrote {tmp_path / 'model.skops'}\n"
        from divulge.targets import load

        assert load(str(tmp_path / "model.skops")).logits(dv.Records(x[:2])).shape == (2, 3)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: &a [1]\nmodel_path: *a\n", "alias"),
            ("model_path: ../outside.skops\n", "outside"),
            ("model_path: ''\n", "names no model"),
            ("[1, 2]\n", "names no model"),
            ("a: !!python/object/apply:os.system ['touch pwned']\n", "not readable YAML"),
            ("a: [\n", "not readable YAML"),
        ],
    )
    def test_what_a_target_yaml_can_do_wrong_is_refused(self, tmp_path, text, message, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "target.yaml").write_text(text)
        with pytest.raises(dv.InputError, match=message):
            sacro_folders.read_sacro_folder(tmp_path)
        assert not (tmp_path / "pwned").exists()

    def test_arrays_that_do_not_fit_are_refused(self, tmp_path):
        (tmp_path / "target.yaml").write_text("model_path: m.skops\nX_train_path: a.npy\ny_train_path: b.csv\n")
        np.save(tmp_path / "a.npy", np.zeros((3, 2)))
        (tmp_path / "b.csv").write_text("1\n0\n")
        with pytest.raises(dv.InputError, match="does not fit y_train"):
            sacro_folders.read_sacro_folder(tmp_path).tables()
        (tmp_path / "b.csv").write_text("1\n0\n1\n")
        with pytest.raises(dv.InputError, match="names no X_test_path"):
            sacro_folders.read_sacro_folder(tmp_path).tables()
        np.save(tmp_path / "a.npy", np.array([object()], object))
        with pytest.raises(dv.InputError, match="no table of numbers"):
            sacro_folders.read_sacro_folder(tmp_path).read_array("X_train")
