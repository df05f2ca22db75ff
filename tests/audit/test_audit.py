"""The audit from end to end, on a model that certainly leaks and on one that leaks nothing."""

import json

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge.auditing import load
from divulge.recipes import Recipe, recipes

LABEL_FREE = {recipe.name for recipe in recipes() if not recipe.needs_labels}


@pytest.mark.parametrize("recipe", [recipe.name for recipe in recipes()])
def test_orientation_every_recipe_finds_members_of_a_model_that_overfits(run, recipe):
    assert run[recipe].auc.low > 0.5, run[recipe].auc


def test_a_leak_is_the_verdict_and_its_numbers_are_estimates(run):
    summary = run.summary()
    assert summary["verdict"]["tone"] == "leak"
    estimate = run["loss"].tpr_at_fpr(0.05)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert "clopper-pearson" in estimate.method
    assert run["loss"].auc.method.startswith("delong")
    assert run["loss"].epsilon().low > 0


def test_a_model_trained_on_other_data_leaks_nothing_and_the_power_is_stated(honest):
    summary = honest.summary()
    assert summary["verdict"]["tone"] == "clear", summary["verdict"]
    assert "No leak found at this power" in summary["verdict"]["text"]
    assert "would have shown an AUC of" in summary["verdict"]["text"]
    assert 0.5 < summary["smallest_detectable"]["auc"] < 0.7
    for name in honest:
        assert honest[name].auc.low < 0.5 < honest[name].auc.high, (name, honest[name].auc)
        assert honest[name].epsilon().low == 0


def test_selections_hold_their_false_positive_rate_and_can_be_made_by_fdr(run):
    by_fpr = run["loss"].selection(fpr=0.05)
    assert by_fpr.guarantee.kind.startswith("marginal")
    assert by_fpr.selected[~run.members].mean() < 0.12  # 200 non-members: P(X > 24) at 5 % is below 1e-4
    by_fdr = run["loss"].selection(fdr=0.2)
    assert by_fdr.selected.sum() >= 0
    assert "FDR" in by_fdr.guarantee.kind
    with pytest.raises(dv.InputError, match="exactly one"):
        run["loss"].selection()
    with pytest.raises(dv.InputError, match="known non-members are needed"):
        run["loss"].selection(fpr=0.001)


def test_the_run_directory_gives_back_every_number(run):
    again = load(run.path)
    stored = json.loads((run.path / "summary.json").read_text())
    fresh = json.loads(json.dumps(again.summary()))
    assert {key: stored[key] for key in fresh} == fresh
    assert {key: stored[key] for key in ("recipes", "verdict")} == {
        key: json.loads(json.dumps(run.summary()))[key] for key in ("recipes", "verdict")
    }


def test_the_report_shows_the_numbers_of_the_summary(run):
    html = (run.path / "report.html").read_text()
    for recipe in run.summary()["recipes"].values():
        auc = recipe["auc"]
        assert f"{auc['value']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}]" in html


def test_scores_stand_in_a_table_with_ids_truth_labels_and_signals(run):
    table = pl.read_parquet(run.path / "scores.parquet")
    assert table.columns[:3] == ["id", "member", "label"]
    assert {"signal:negative-loss", "signal:scaled-logit", *run} <= set(table.columns)
    assert table["id"].n_unique() == len(table) == 400
    np.testing.assert_array_equal(table["member"].to_numpy(), np.arange(400) < 200)


def test_the_dossier_names_versions_digests_queries_and_engine(run):
    about = json.loads((run.path / "summary.json").read_text())["about"]
    assert about["environment"]["packages"]["numpy"] == np.__version__
    assert set(about["settings"]["data"]) == {"candidates", "calibration", "population"}
    assert about["recipes"]["lira"]["queries"] == 900
    assert about["engine"]


def test_same_seed_same_numbers_and_row_order_changes_nothing(case):
    recipes_without_training = ("loss", "gap", "quantile")
    first = case.audit(recipes=recipes_without_training, seed=3)
    second = case.audit(recipes=recipes_without_training, seed=3)
    order = np.random.default_rng(0).permutation(200)
    shuffled = case.audit(
        recipes=("loss", "gap"), seed=3, members=case.members[order], nonmembers=case.nonmembers[order]
    )
    for name in first:
        np.testing.assert_array_equal(first[name].scores, second[name].scores)
    for name in shuffled:
        np.testing.assert_array_equal(
            shuffled[name].scores, np.r_[first[name].scores[:200][order], first[name].scores[200:][order]]
        )
        assert shuffled[name].auc == first[name].auc


def test_unseen_class_is_never_in_the_auditors_hands_and_is_judged_alone(case):
    population = case.population[case.population.y != 3]
    result = case.audit(recipes=("loss", "lira", "quantile"), population=population, unseen_classes=(3,))
    summary = result.summary()
    unseen = summary["recipes"]["lira"]["unseen"]
    assert unseen["members"] + unseen["nonmembers"] == int((np.r_[case.members.y, case.nonmembers.y] == 3).sum())
    assert result["lira"].unseen.auc.value != result["lira"].auc.value
    assert np.isfinite(result["lira"].scores).all()
    assert "unseen classes [3]" in summary["verdict"]["text"]


def test_groups_are_tabulated(case):
    result = case.audit(recipes=("loss",), groups=["a", "b"] * 200)
    assert set(result.summary()["recipes"]["loss"]["groups"]) == {"a", "b"}


def test_a_third_partys_recipe_and_an_active_signal(case):
    class Margin:
        name = "margin"

        def measure(self, target, records):
            return np.abs(np.diff(np.sort(target.logits(records), axis=1)[:, -2:], axis=1)[:, 0])

    mine = Recipe("mine", Margin(), recipes()[0].attack)
    result = case.audit(recipes=(mine, "gap"))
    np.testing.assert_allclose(result["mine"].scores, result["gap"].scores)
    assert result.about["recipes"]["mine"]["queries"] == 900


def test_confounded_split_is_said_first(case):
    shifted = dv.Records(case.nonmembers.x + 1.0, case.nonmembers.y)
    summary = case.audit(recipes=("loss",), nonmembers=shifted).summary()
    assert summary["verdict"]["tone"] == "void"
    assert summary["verdict"]["text"].startswith("The split is confounded")


def test_records_without_labels_leave_the_label_agnostic_recipes(case):
    bare = {name: dv.Records(getattr(case, name).x) for name in ("members", "nonmembers", "population")}
    result = case.audit(recipes=tuple(LABEL_FREE), **bare)
    assert result["gap"].labels is None
    with pytest.raises(dv.InputError, match=r"loss read the records' labels.*use gap, quantile-gap"):
        case.audit(recipes=("loss",), **bare)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipes": ("lirra",)}, "did you mean 'lira'"),
        ({"recipes": ()}, "recipes: at least 1"),
        ({"recipes": ("loss", "loss")}, "loss more than once"),
        ({"recipes": ("lira",), "references": None}, "references: the recipes lira need reference models"),
        ({"population": None}, "population: records"),
        ({"fpr": (0.001,)}, "0.001 needs at least 1000 non-members, got 200"),
        ({"fpr": (2.0,)}, "fpr: must lie in"),
        ({"unseen_classes": (7,)}, "unseen_classes: 7 is not among the candidates' classes"),
        ({"unseen_classes": (3,)}, r"unseen_classes: the population holds \d+ records of class 3"),
        ({"unseen_classes": (0, 1, 2, 3)}, "all classes .* are unseen"),
        ({"calibration": 1.5}, "calibration: must lie in"),
        ({"duplicates": "maybe"}, "duplicates: 'maybe' is unknown"),
        ({"groups": ["a"]}, "groups: 400 names are needed"),
        ({"outputs": "probabilities"}, "declared as probabilities"),
    ],
)
def test_bad_input_is_named_before_work_starts(case, change, message):
    with pytest.raises(dv.InputError, match=message):
        case.audit(**({"recipes": ("loss",)} | change))


def test_labels_out_of_the_targets_range(case):
    wrong = dv.Records(case.members.x, case.members.y + 1)
    with pytest.raises(dv.InputError, match=r"labels must be below 4 \(the number of classes\), got 4"):
        case.audit(recipes=("loss",), members=wrong)


def test_shapes_that_differ(case):
    with pytest.raises(dv.InputError, match="all sets must have one shape"):
        case.audit(recipes=("loss",), members=dv.Records(case.members.x[:, :5], case.members.y))


def test_duplicates_across_the_sets_are_refused_dropped_or_kept(case):
    mixed = dv.Records(
        np.concatenate([case.nonmembers.x, case.members.x[:5]]), np.concatenate([case.nonmembers.y, case.members.y[:5]])
    )
    with pytest.raises(dv.InputError, match="5 non-members are exact duplicates of members"):
        case.audit(recipes=("loss",), nonmembers=mixed)
    dropped = case.audit(recipes=("loss",), nonmembers=mixed, duplicates="drop")
    assert len(dropped.members) == 400
    assert any("were dropped" in warning for warning in dropped.warnings)
    kept = case.audit(recipes=("loss",), nonmembers=mixed, duplicates="keep")
    assert len(kept.members) == 405
    assert any("biases every number" in warning for warning in kept.warnings)


def test_ids_in_both_sets(case):
    ids = np.arange(200)
    members = dv.Records(case.members.x, case.members.y, ids)
    nonmembers = dv.Records(case.nonmembers.x, case.nonmembers.y, ids)
    with pytest.raises(dv.InputError, match=r"200 ids stand in both \(first: 0\)"):
        case.audit(recipes=("loss",), members=members, nonmembers=nonmembers)


def test_out_in_use(case, run, tmp_path):
    (tmp_path / "something.txt").write_text("mine")
    with pytest.raises(dv.InputError, match="not empty and holds no run"):
        case.audit(recipes=("loss",), out=tmp_path)
    with pytest.raises(dv.InputError, match="holds a finished run"):
        case.audit(recipes=("loss",), out=run.path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(dv.InputError, match="cannot be made"):
        case.audit(recipes=("loss",), out=blocked / "run")


def test_damaged_runs_are_named(case, tmp_path):
    case.audit(recipes=("loss",), out=tmp_path / "run")
    (tmp_path / "run" / "scores.parquet").write_bytes(b"PAR1 half")
    with pytest.raises(dv.InputError, match=r"scores\.parquet: damaged"):
        load(tmp_path / "run")
    with pytest.raises(dv.InputError, match="not a run directory"):
        load(tmp_path)
