"""The audit from end to end, on a model that certainly leaks and on one that leaks nothing."""

import functools
import json

import numpy as np
import polars as pl
import pytest

import divulge as dv
from divulge import results, validation
from divulge.auditing import checks, load, prepared
from divulge.auditing.compare import compare
from divulge.recipes import Recipe, recipes
from divulge.report.formatting import format_estimate
from score_audits import with_no_findings

LABEL_FREE = {recipe.name for recipe in recipes() if not recipe.needs_labels}


def test_orientation_every_recipe_finds_members_of_a_model_that_overfits(run):
    assert set(run) == {recipe.name for recipe in recipes()}
    assert [name for name in run if run[name].auc.value <= 0.55] == []


def test_recipes_without_reference_models_need_none(case, run):
    names = [recipe.name for recipe in recipes() if recipe.references == "none" and recipe.name != "quantile-gap"]
    result = case.audit(recipes=names, references=None, fpr=(0.05,))
    for name in names:
        assert result[name].auc.value == pytest.approx(run[name].auc.value, abs=0.03)


def test_learning_from_too_few_reference_models_is_refused_before_any_is_trained(case):
    references = dv.references.Train(lambda: pytest.fail("trained"), count=2)
    with pytest.raises(dv.InputError, match="at least 3 reference models, got count=2"):
        case.audit(recipes=("learned",), references=references)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ({"effect": "unsur"}, "'unsure'"),
        ({"effect": "none", "figures": {"share": 0.5}}, r"figures\['share'\]"),
        ({"effect": "none", "measured": {"share": 0.5}}, "TextSplit"),
    ],
)
def test_a_finding_that_no_run_can_hold_is_refused_when_it_is_made(found, named):
    with pytest.raises(dv.InputError, match=f"check 'own': .*{named}"):
        results.CheckFinding("own", sentence="Something was found.", **found)


@pytest.mark.parametrize(("answer", "error"), [("a sentence", dv.InputError), (1 / 7, dv.InputError), (0, ValueError)])
def test_what_a_check_does_wrong_is_named_with_the_check(case, monkeypatch, answer, error):
    class Own(checks.Check):
        name = "own check"

        def measure(self, audit):
            return answer or int("no number")

    monkeypatch.setattr(checks, "CHECKS", (Own(),))
    with pytest.raises(error) as raised:
        case.audit(recipes=("loss",), fpr=(0.05,))
    assert "own check" in "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])


@pytest.mark.parametrize("given", [{"name": "own"}, {"measure": lambda self, audit: None}])
def test_a_check_without_name_or_measure_cannot_be_made(given):
    with pytest.raises(TypeError, match="abstract"):
        type("Own", (checks.Check,), given)()


def test_ids_of_one_set_alone_are_mentioned(case):
    members = dv.Records(case.members.x, case.members.y, np.arange(200))
    result = case.audit(recipes=("loss",), members=members, fpr=(0.05,))
    assert any("only members have ids" in note for note in result.warnings)


def test_a_leak_is_the_verdict_and_its_numbers_are_estimates(run):
    summary = run.summary()
    assert summary.verdict.tone == "leak"
    estimate = run["loss"].tpr_at_fpr(0.05)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert "clopper-pearson" in estimate.method
    assert run["loss"].auc.method.startswith("delong")
    assert run["loss"].epsilon().low > 0


def test_a_model_trained_on_other_data_is_not_cleared_where_it_is_right_by_chance_alone(honest):
    verdict = honest.verdict
    assert verdict.answer == "too little data to say"
    assert verdict.plain.startswith("No answer: the model is right on ")


def test_a_model_trained_on_other_data_leaks_nothing_and_the_power_is_stated(honest):
    """Judged by its scores: labels that are mostly noise leave it right little more often than a constant answer."""
    honest = with_no_findings(honest)
    summary = honest.summary()
    assert summary.verdict.tone == "clear", summary.verdict
    assert summary.verdict.answer == "no leak found"
    assert "would have noticed, 8 times in 10, a leak" in summary.verdict.text
    assert f"an AUC of {summary.smallest_detectable.auc:.3f}" in " ".join(honest.verdict.evidence)
    assert 0.5 < summary.smallest_detectable.auc < 0.7
    for name in honest:
        assert honest[name].auc.low < 0.5 < honest[name].auc.high, (name, honest[name].auc)
        assert honest[name].epsilon().low == 0


def test_selections_hold_their_false_positive_rate_and_can_be_made_by_fdr(run):
    fpr_selection = run["loss"].selection(fpr=0.05)
    assert fpr_selection.guarantee.kind.startswith("marginal")
    assert fpr_selection.selected[~run.members].mean() < 0.12  # 200 non-members: P(X > 24) at 5 % is below 1e-4
    fdr_selection = run["loss"].selection(fdr=0.2, method="bh")
    same = dv.decisions.fdr.select(run["loss"].scores, run["loss"].calibration, fdr=0.2, method="bh")
    assert (fdr_selection.selected == same.selected).all()
    assert (fdr_selection.guarantee.kind, fdr_selection.guarantee.level) == (same.guarantee.kind, 0.2)
    with pytest.raises(dv.InputError, match="exactly one"):
        run["loss"].selection()
    with pytest.raises(dv.InputError, match="known non-members are needed"):
        run["loss"].selection(fpr=0.001)


def test_the_run_directory_gives_back_every_number(run):
    reloaded = load(run.path)
    stored = json.loads((run.path / "summary.json").read_text())
    assert stored == results.to_json_values(reloaded.summary())
    assert reloaded.summary() == run.summary()


def test_the_report_shows_the_numbers_of_the_summary(run):
    html = (run.path / "report.html").read_text()
    for recipe in run.summary().recipes.values():
        assert format_estimate(recipe.auc) in html


def test_scores_stand_in_a_table_with_ids_truth_labels_and_signals(run):
    table = pl.read_parquet(run.path / "scores.parquet")
    assert table.columns[:3] == ["id", "member", "label"]
    assert {"signal:negative-loss", "signal:scaled-logit", *run} <= set(table.columns)
    assert table["id"].n_unique() == len(table) == 400
    np.testing.assert_array_equal(table["member"].to_numpy(), np.arange(400) < 200)


def test_the_dossier_names_versions_digests_queries_and_engine(run):
    about = json.loads((run.path / "summary.json").read_text())["about"]
    assert about["environment"]["packages"]["numpy"] == np.__version__
    assert set(about["settings"]["data"]) == {"candidates", "calibration", "population", "features"}
    assert about["recipes"]["lira"]["queries"] == 900
    assert about["engine"]


def test_same_seed_same_numbers_and_row_order_changes_nothing(case):
    recipes_without_training = ("loss", "quantile-trees")
    expected = case.audit(recipes=recipes_without_training, seed=3)
    repeated = case.audit(recipes=recipes_without_training, seed=3)
    order = np.random.default_rng(0).permutation(200)
    shuffled = case.audit(recipes=("loss",), seed=3, members=case.members[order], nonmembers=case.nonmembers[order])
    for name in expected:
        np.testing.assert_array_equal(expected[name].scores, repeated[name].scores)
    for name in shuffled:
        np.testing.assert_array_equal(
            shuffled[name].scores, np.r_[expected[name].scores[:200][order], expected[name].scores[200:][order]]
        )
        # Fewer recipes: intervals that hold together are shorter, the estimate is the same.
        assert shuffled[name].auc.value == expected[name].auc.value
        assert shuffled[name].auc.low > expected[name].auc.low


def test_unseen_class_is_never_in_the_auditors_hands_and_is_judged_alone(case):
    population = case.population[case.population.y != 3]
    result = case.audit(recipes=("loss", "lira"), population=population, unseen_classes=(3,))
    summary = result.summary()
    unseen = summary.recipes["lira"].unseen
    assert unseen.members + unseen.nonmembers == int((np.r_[case.members.y, case.nonmembers.y] == 3).sum())
    assert result["lira"].unseen.auc.value != result["lira"].auc.value
    assert np.isfinite(result["lira"].scores).all()
    assert "unseen class 3" in summary.verdict.text


def test_groups_are_tabulated():
    result = honest_audit(groups=["a", "b"] * 60)
    assert set(result.summary().recipes["loss"].groups) == {"a", "b"}


def test_a_third_partys_recipe_and_an_active_signal(case):
    class Margin:
        name = "margin"

        def measure(self, target, records):
            return np.abs(np.diff(np.sort(target.logits(records), axis=1)[:, -2:], axis=1)[:, 0])

    mine = Recipe("mine", Margin(), recipes()[0].attack)
    result = case.audit(recipes=(mine, "gap"))
    np.testing.assert_allclose(result["mine"].scores, result["gap"].scores)
    assert result.about.recipes["mine"].queries == 900


def test_confounded_split_is_said_first(case):
    shifted = dv.Records(case.nonmembers.x + 1.0, case.nonmembers.y)
    summary = case.audit(recipes=("loss",), nonmembers=shifted).summary()
    assert summary.verdict.tone == "void"
    assert summary.verdict.answer == "split is confounded"


def test_records_without_labels_leave_the_label_agnostic_recipes(case):
    bare = {name: dv.Records(getattr(case, name).x) for name in ("members", "nonmembers", "population")}
    result = case.audit(recipes=tuple(LABEL_FREE), **bare)
    assert result["gap"].labels is None
    with pytest.raises(dv.InputError, match=r"loss read the records' labels.*use gap, max-probability, quantile-gap"):
        case.audit(recipes=("loss",), **bare)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipes": ("lirra",)}, "did you mean 'lira'"),
        ({"recipes": ()}, "recipes: at least 1"),
        ({"recipes": ("loss", "loss")}, "loss more than once"),
        ({"recipes": ("lira",), "references": None}, "references: the recipes lira need reference models"),
        ({"population": None}, "population: additional records"),
        ({"fpr": (0.001,)}, "0.001 needs at least 999 non-members, got 200"),
        ({"fpr": (2.0,)}, "fpr: must lie in"),
        ({"fpr": 0.01}, r"fpr: a list is needed, such as \[0.01\], got 0.01"),
        ({"fpr": ()}, "fpr: at least 1"),
        ({"fpr": ("0.01",)}, "fpr: a number is needed, got '0.01'"),
        ({"seed": -1}, "seed: must be at least 0, got -1"),
        ({"unseen_classes": 3}, "unseen_classes: a list is needed"),
        ({"members": (1, 2)}, "members: divulge.Records is needed, got tuple"),
        ({"recipes": ("lira",), "references": 3}, "references: divulge.references.Train or Custom is needed, got int"),
        ({"unseen_classes": (7,)}, "unseen_classes: 7 is not among the candidates' classes"),
        ({"unseen_classes": (3,)}, r"unseen_classes: the population holds \d+ records of class 3"),
        ({"unseen_classes": (0, 1, 2, 3)}, "all classes .* are unseen"),
        ({"options": {"calibration": 0.5}}, "options: divulge.AuditOptions is needed, got {'calibration': 0.5}"),
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
    with pytest.raises(dv.InputError, match="all sets must have the same shape"):
        case.audit(recipes=("loss",), members=dv.Records(case.members.x[:, :5], case.members.y))


def test_duplicates_across_the_sets_are_refused_dropped_or_kept():
    members, nonmembers = plain(60, 1), plain(60, 2)
    mixed = dv.Records(np.r_[nonmembers.x, members.x[:5]], np.r_[nonmembers.y, members.y[:5]])
    with pytest.raises(dv.InputError, match="5 non-members are exact duplicates of members"):
        honest_audit(nonmembers=mixed)
    dropped = honest_audit(nonmembers=mixed, duplicates="drop")
    assert dropped.members.sum() == 55  # all copies are gone, from both sets
    assert (~dropped.members).sum() == 60
    assert any("were dropped" in warning for warning in dropped.warnings)
    result = honest_audit(nonmembers=mixed, duplicates="keep")
    assert len(result.members) == 125
    assert any("biases every number" in warning for warning in result.warnings)


def test_ids_in_both_sets(case):
    ids = np.arange(200)
    members = dv.Records(case.members.x, case.members.y, ids)
    nonmembers = dv.Records(case.nonmembers.x, case.nonmembers.y, ids)
    with pytest.raises(dv.InputError, match=r"200 ids occur in both sets \(first: 0\)"):
        case.audit(recipes=("loss",), members=members, nonmembers=nonmembers)


@pytest.mark.parametrize(("recipes", "remedy"), [(["loss"], "use fewer records"), (["lira"], "set out=")])
def test_an_audit_that_will_not_fit_says_so_before_it_starts(case, monkeypatch, recipes, remedy):
    monkeypatch.setattr(validation, "available_memory", lambda: 2**10)
    message = r"^members, nonmembers, population: about .* MiB of memory are needed, .* are free; they are 900 records"
    with pytest.raises(dv.InputError, match=message) as error:
        case.audit(recipes=recipes)
    assert remedy in str(error.value)


def test_out_in_use(case, run, tmp_path):
    (tmp_path / "something.txt").write_text("mine")
    with pytest.raises(dv.InputError, match="not empty and holds no run"):
        case.audit(recipes=("loss",), out=tmp_path)
    with pytest.raises(dv.InputError, match="holds a finished run"):
        case.audit(recipes=("loss",), out=run.path)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(dv.InputError, match="cannot be created"):
        case.audit(recipes=("loss",), out=blocked / "run")


def test_damaged_runs_are_named(tmp_path):
    honest_audit(out=tmp_path / "run")
    (tmp_path / "run" / "scores.parquet").write_bytes(b"PAR1 half")
    with pytest.raises(dv.InputError, match=r"scores\.parquet: damaged"):
        load(tmp_path / "run")
    with pytest.raises(dv.InputError, match="not a run directory"):
        load(tmp_path)


def plain(n, seed, y=2, ids=None):
    rng = np.random.default_rng(seed)
    return dv.Records(rng.normal(size=(n, 3)), rng.integers(0, y, n), ids)


def honest_audit(**more):
    """A target without training data, so an audit takes no time."""
    weights = np.random.default_rng(0).normal(size=(3, 3))
    arguments = {"members": plain(60, 1), "nonmembers": plain(60, 2), "population": plain(120, 3), "recipes": ("loss",)}
    return dv.audit(lambda x: x @ weights, **(arguments | {"fpr": (0.1,)} | more))


def test_unseen_classes_need_members_and_nonmembers(tmp_path):
    members = plain(60, 1)
    members = dv.Records(members.x, np.where(np.arange(60) < 20, 2, members.y))
    with pytest.raises(dv.InputError, match=r"no record of \[2\] is among the nonmembers"):
        honest_audit(members=members, unseen_classes=(2,), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unseen_classes_left_empty_by_dropped_duplicates_are_refused_before_work_starts(tmp_path):
    members, nonmembers = plain(60, 1, y=3), plain(60, 2)
    same = members[np.flatnonzero(members.y == 2)[:1]]
    mixed = dv.Records(np.r_[nonmembers.x, same.x], np.r_[nonmembers.y, same.y])
    with pytest.raises(dv.InputError, match=r"no record of \[2\] is among the nonmembers"):
        honest_audit(members=members, nonmembers=mixed, unseen_classes=(2,), duplicates="drop", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_decisions_about_unseen_classes_are_void_where_too_few_classes_stand_for_them():
    """No calibration record is of an unseen class, and two classes are no sample of classes."""
    result = honest_audit(members=plain(60, 1, y=3), nonmembers=plain(60, 2, y=3), unseen_classes=(2,))
    for outcome in (result["loss"], result["loss"].unseen):
        for selection in (outcome.selection(fpr=0.1), outcome.selection(fdr=0.2)):
            assert not selection.guarantee.holds
            assert "unseen class 2" in selection.warnings[0]
    seen_result = result["loss"].on(~np.isin(result.labels, (2,)))
    assert seen_result.selection(fpr=0.1).guarantee.holds


def test_the_power_that_is_stated_is_the_power_of_the_verdict():
    single_recipe, three_recipes = honest_audit(), honest_audit(recipes=("loss", "entropy", "gap"))
    smallest = three_recipes.summary().smallest_detectable
    # AUC, one TPR and ε of three recipes; classes and exposed members have a fifth of the error.
    assert smallest.confidence == pytest.approx(1 - 0.8 * 0.05 / 9)
    assert smallest.auc > single_recipe.summary().smallest_detectable.auc


def test_an_active_signal_stands_beside_recipes_with_references(case):
    class Largest:
        name = "largest"

        def measure(self, target, records):
            return target.logits(records).max(axis=1)

    active = Recipe("active", Largest(), recipes()[0].attack)
    assert set(case.audit(recipes=(active, "calibrated"))) == {"active", "calibrated"}
    with pytest.raises(dv.InputError, match="greedy: an active signal is measured on the target alone"):
        case.audit(recipes=(Recipe("greedy", Largest(), active.attack, "out"),))


def test_reference_models_are_described_as_they_were(run):
    assert run.about.recipes["lira"].references == "out"
    assert run.about.recipes["lira-online"].references == "in and out"
    assert run.about.recipes["loss"].references == "none"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([10**30 + i for i in range(60)], "strings or whole numbers of at most 64 bits"),
        ([f"n{i // 2}" for i in range(60)], "'n0' occurs more than once"),
        ([None, *(f"n{i}" for i in range(59))], "records without identifier: 1"),
        ([1, *(f"n{i}" for i in range(59))], "identifiers of one kind are needed"),
    ],
)
def test_ids_that_cannot_be_kept(ids, message):
    with pytest.raises(dv.InputError, match=message):
        honest_audit(members=plain(60, 1, ids=np.array(ids, dtype=object)))


def test_ids_of_two_kinds():
    texts = np.array([f"n{i}" for i in range(60)], dtype=object)
    with pytest.raises(dv.InputError, match="ids of all sets must be of the same kind"):
        honest_audit(members=plain(60, 1, ids=np.arange(60)), nonmembers=plain(60, 2, ids=texts))
    with pytest.raises(dv.InputError, match=r"60 ids occur in both sets \(first: 'n0'\)"):
        honest_audit(members=plain(60, 1, ids=texts), nonmembers=plain(60, 2, ids=texts))


def test_overwrite_touches_nothing_but_runs(tmp_path):
    (tmp_path / "plan.toml").write_text("mine")
    with pytest.raises(dv.InputError, match="holds no run"):
        honest_audit(out=tmp_path, overwrite=True)
    assert (tmp_path / "plan.toml").read_text() == "mine"


def test_audits_of_other_records_are_neither_compared_nor_shown_as_the_same(tmp_path):
    """Records without ids get the same ids in every audit; what they are is in the digest."""
    original = honest_audit(out=tmp_path / "run")
    other_members = honest_audit(members=plain(60, 7), out=tmp_path / "run" / "other")
    same = honest_audit(seed=5, out=tmp_path / "run" / "same")
    assert list(original.inner()) == ["same"]
    assert compare(original, same)
    with pytest.raises(dv.InputError, match="the records or their membership do not"):
        compare(original, other_members)


def test_a_configuration_is_described_without_addresses():
    def make(width):
        return width

    references = dv.references.Train(functools.partial(make, 3), count=2)
    assert " at 0x" not in prepared.describe_references(references)


def test_logits_whose_first_rows_sum_to_one_are_audited_and_rounded_probabilities_are_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1))
    x[:2] = [[0.1], [0.2]]
    y = rng.integers(0, 2, 400)
    members, nonmembers, population = (
        dv.Records(x[part], y[part]) for part in (slice(100), slice(100, 200), slice(200, 400))
    )
    sets = {"members": members, "nonmembers": nonmembers, "population": population}

    def logits(x):
        return np.round(np.hstack([x, 1 - x]), 1)

    assert len(dv.audit(logits, **sets, recipes=["loss"]).scores) == 1
    batch_sizes = []

    def probabilities(x):
        batch_sizes.append(len(x))
        return logits(1 / (1 + np.exp(-x)))

    with pytest.raises(dv.InputError, match="these are probabilities"):
        dv.audit(probabilities, **sets, recipes=["loss"])
    assert batch_sizes == [64]
