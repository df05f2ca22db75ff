"""Audits of records of which only part is known."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import divulge as dv
from divulge import completion, signals
from divulge.auditing import load, over_shares
from divulge.recipes import Imputed, Recipe, partial_recipes, recipes
from divulge.report import formatting
from divulge.results import BlindBaseline

KNOWN_MASK = np.arange(12) < 10
NAMES = tuple(recipe.name for recipe in partial_recipes())


@pytest.fixture(scope="session")
def partial_run(case, tmp_path_factory):
    """Every recipe for partly known records, two of whole ones on the completions, in a run directory."""
    out = tmp_path_factory.mktemp("partial") / "run"
    return case.audit(options=dv.AuditOptions(known=KNOWN_MASK), recipes=(*NAMES, "loss", "gap"), fpr=(0.05,), out=out)


def test_orientation_every_recipe_finds_members_from_part_of_the_record(partial_run):
    """MRAD is what it is: here its interval need not exclude chance."""
    assert [name for name in NAMES if name != "mrad" and partial_run[name].auc.low <= 0.5] == []


def test_mrad_is_run_and_counted(partial_run):
    assert np.isfinite(partial_run["mrad"].scores).all()
    queries = {name: recipe.queries for name, recipe in partial_run.about.recipes.items()}
    # 400 candidates, 125 calibration and 375 population records; 8 completions of the first two.
    assert queries["mrad"] == 525
    assert queries["partial-loss"] == queries["partial-lira-online"] == 900
    assert queries["partial-rmia"] == queries["partial-marginal"] == 8 * 525


def test_what_the_adversary_must_see_is_said():
    read = {recipe.name: recipe.reads for recipe in partial_recipes()}
    assert read["partial-loss"] == "the target's outputs on each candidate"
    assert read["mrad"] == "the target's gradients at each candidate"
    assert signals.MRAD(access="black").reads == "the target's outputs on 200 variations of each candidate"
    assert read["gradient-matching"] == "the target's weights"


def test_ordinary_recipes_are_asked_about_the_best_completion(partial_run):
    np.testing.assert_array_equal(partial_run["loss"].scores, partial_run["partial-loss"].scores)


def test_partial_knowledge_is_a_setting_of_the_recipes_for_whole_records():
    whole_forms, partial_forms = ({recipe.name: recipe for recipe in book()} for book in (recipes, partial_recipes))
    for name in ("loss", "lira", "learned", "lira-online", "learned-online"):
        whole_form, partial_form = whole_forms[name], partial_forms[f"partial-{name}"]
        assert (whole_form.signal, whole_form.attack, whole_form.references) == (
            partial_form.signal,
            partial_form.attack,
            partial_form.references,
        )
        assert partial_form.needs_known
        assert not whole_form.needs_known
    assert all(recipe.imputed == Imputed() for recipe in whole_forms.values())
    assert partial_forms["partial-lira"].imputed == Imputed(8, "signal")


def test_the_report_names_share_imputer_and_queries(partial_run):
    html = (partial_run.path / "report.html").read_text()
    assert "knows 83.3\N{NO-BREAK SPACE}% of the values" in html
    assert "class-conditional Gaussian" in html
    assert "the attack itself, from zeros" in html
    assert load(partial_run.path).about.settings.partial.draws == 8


@pytest.mark.usefixtures("scores_alone")
def test_every_record_may_have_a_mask_of_its_own(case):
    result = case.audit(
        options=dv.AuditOptions(known="values:0.5:each"), recipes=("partial-loss",), fpr=(0.05,), seed=2
    )
    repeat = case.audit(
        options=dv.AuditOptions(known="values:0.5:each"), recipes=("partial-loss",), fpr=(0.05,), seed=2
    )
    masks = completion.mask("values:0.5:each", (12,), seed=2, records=400)
    explicit = case.audit(options=dv.AuditOptions(known=masks), recipes=("partial-loss",), fpr=(0.05,), seed=2)
    for result_again in (repeat, explicit):
        np.testing.assert_array_equal(result.scores["partial-loss"], result_again.scores["partial-loss"])


def test_unknown_values_never_matter(case):
    known_mask = rows = (np.random.default_rng(0).random((400, 12)) < 0.8) | (np.arange(12) == 0)

    def scores(garbage):
        rng = np.random.default_rng(garbage)
        changed = [
            dv.Records(np.where(mask, data.x, rng.normal(size=data.x.shape) * 1e6).astype(np.float32), data.y)
            for data, mask in ((case.members, rows[:200]), (case.nonmembers, rows[200:]))
        ]
        recipes = ("partial-loss", "gap", Recipe("mean", "hinge", dv.attacks.Threshold(), imputed=Imputed(3)))
        result = case.audit(
            options=dv.AuditOptions(known=known_mask),
            recipes=recipes,
            fpr=(0.05,),
            members=changed[0],
            nonmembers=changed[1],
        )
        return result.scores | {"blind": np.array(result.about.measured(BlindBaseline).auc.value)}

    first_scores, second_scores = scores(1), scores(2)
    for name in first_scores:
        np.testing.assert_array_equal(first_scores[name], second_scores[name])


@pytest.mark.usefixtures("scores_alone")
def test_everything_known_falls_back_and_says_so(case):
    result = case.audit(options=dv.AuditOptions(known="share:1"), recipes=("partial-loss", "mrad"), fpr=(0.05,))
    on_whole_records = case.audit(recipes=("loss",), fpr=(0.05,))
    np.testing.assert_array_equal(result["partial-loss"].scores, on_whole_records["loss"].scores)
    np.testing.assert_array_equal(result["mrad"].scores, on_whole_records["loss"].scores)
    assert "every value is known: these are attacks on whole records" in result.warnings[0]


@pytest.mark.usefixtures("scores_alone")
def test_the_imputer_can_be_chosen(case):
    def zero(x, known_mask, labels, auxiliary, rng):
        return np.where(known_mask, x, 0.0)

    chosen = {"mean": completion.Mean(), "zero": zero}
    results = {
        n: case.audit(options=dv.AuditOptions(known=KNOWN_MASK, imputer=i), recipes=("partial-loss",), fpr=(0.05,))
        for n, i in chosen.items()
    }
    assert results["zero"].about.settings.partial.imputer == "zero"
    assert results["mean"].about.settings.partial.imputer == "class mean"
    assert not np.array_equal(results["zero"]["partial-loss"].scores, results["mean"]["partial-loss"].scores)


@pytest.mark.usefixtures("scores_alone")
def test_dropped_duplicates_take_their_masks_with_them(case):
    mixed = dv.Records(np.r_[case.members.x[:5], case.nonmembers.x], np.r_[case.members.y[:5], case.nonmembers.y])
    known_mask = np.random.default_rng(0).random((405, 12)) < 0.8
    known_mask[:, 0] = True
    dropped = case.audit(
        options=dv.AuditOptions(known=known_mask),
        recipes=("partial-loss",),
        fpr=(0.05,),
        nonmembers=mixed,
        duplicates="drop",
        seed=4,
    )
    remaining_mask = np.delete(known_mask, np.r_[0:5, 200:205], axis=0)
    clean = case.audit(
        options=dv.AuditOptions(known=remaining_mask),
        recipes=("partial-loss",),
        fpr=(0.05,),
        members=case.members[np.s_[5:]],
        seed=4,
    )
    np.testing.assert_array_equal(dropped["partial-loss"].scores, clean["partial-loss"].scores)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": dv.AuditOptions(known=None)}, "recipes partial-loss are for records of which only part is known"),
        ({"options": dv.AuditOptions(known=np.ones((3, 12), dtype=bool))}, r"known: shape \(400, 12\) is needed"),
        ({"options": dv.AuditOptions(known=np.ones(12))}, "known: bool values are needed"),
        ({"options": dv.AuditOptions(known=np.zeros(12, dtype=bool))}, "400 records have no known value at all"),
        ({"options": dv.AuditOptions(known="share:2")}, r"a share in \(0, 1\]"),
        ({"options": dv.AuditOptions(known=KNOWN_MASK, imputer="mean")}, "a function or an imputer is needed"),
        (
            {"options": dv.AuditOptions(known=KNOWN_MASK), "recipes": ("partial-lira",), "references": None},
            "partial-lira need reference models",
        ),
        (
            {"options": dv.AuditOptions(known=KNOWN_MASK), "recipes": ("mrad-shadow",), "references": None},
            "mrad-shadow need reference models",
        ),
    ],
)
def test_bad_input_is_named(case, change, message):
    with pytest.raises(dv.InputError, match=message):
        case.audit(**({"recipes": ("partial-loss",), "fpr": (0.05,)} | change))


def test_candidates_among_the_auxiliary_records_are_refused(case):
    """Also when only the known values agree: the rest may have been overwritten."""
    disguised = dv.Records(
        np.r_[case.population.x, np.where(KNOWN_MASK, case.members.x[:40], 0.5).astype(np.float32)],
        np.r_[case.population.y, case.members.y[:40]],
    )
    with pytest.raises(dv.InputError, match="candidates agree with a population record in every known value"):
        case.audit(
            options=dv.AuditOptions(known=KNOWN_MASK), recipes=("partial-loss",), fpr=(0.05,), population=disguised
        )


def test_several_shares_in_one_report(case, tmp_path):
    outcome = over_shares(
        case.target,
        known=["share:0.8", "share:1"],
        out=tmp_path / "run",
        options=dv.AuditOptions(pool=tmp_path / "pool"),
        **case.arguments(recipes=("partial-loss", "partial-learned"), fpr=(0.05,)),
    )
    # All have the same models, which saw no candidate.
    assert len(list((tmp_path / "pool").glob("*.safetensors"))) == case.references.count
    assert not (tmp_path / "run" / "pool").exists()
    assert [result.about.settings.partial.share for result in outcome] == [pytest.approx(10 / 12), 1.0]
    html = (tmp_path / "run" / "report.html").read_text()
    for words in (
        "AUC by known share",
        "TPR at FPR 5\N{NO-BREAK SPACE}% by known share",
        "AUC minus that of the whole record",
    ):
        assert words in html
    for result in outcome:  # with the intervals that each run's own verdict has
        for recipe in ("partial-loss", "partial-learned"):
            assert formatting.format_estimate(result[recipe].auc) in html
            rate = formatting.format_percent_estimate(result[recipe].tpr_at_fpr(0.05))
            assert rate.replace(" %", "\N{NO-BREAK SPACE}%") in html
    in_memory = over_shares(case.target, known=["share:1"], **case.arguments(recipes=("partial-loss",), fpr=(0.05,)))
    assert in_memory[0].path is None
    with pytest.raises(dv.InputError, match="at least 1 mask"):
        over_shares(case.target, known=[], **case.arguments())
    with pytest.raises(dv.InputError, match=r"got a list of 2; divulge\.auditing\.over_shares"):
        dv.audit(case.target, options=dv.AuditOptions(known=["share:0.5", "share:1"]), **case.arguments())


@pytest.mark.usefixtures("scores_alone")
def test_fewer_auxiliary_records_than_columns_is_said(case):
    result = case.audit(
        options=dv.AuditOptions(known=KNOWN_MASK),
        recipes=("partial-loss",),
        fpr=(0.05,),
        population=case.population[:14],
    )
    assert "10 auxiliary records for 12 columns: the covariance is mostly shrinkage" in result.warnings


def test_a_list_in_a_plan_is_one_run(divulge, tmp_path):
    """Images, and every way to say what is known of them, through the command line."""
    rng = np.random.default_rng(0)
    for name in ("members", "nonmembers", "population"):
        np.savez(tmp_path / f"{name}.npz", x=rng.random((60, 4, 4)), y=np.arange(60) % 2)
    (tmp_path / "image_factory.py").write_text(
        "from torch import nn\n\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))\n"
    )
    save_file(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2)).state_dict(), tmp_path / "model.safetensors"
    )
    (tmp_path / "plan.toml").write_text(
        'recipes = ["partial-loss", "partial-rmia"]\nfpr = [0.05]\n'
        'known = ["share:0.4", "block:top-left:0.5", "share:1"]\n'
        '[target]\nmodel = "model.safetensors"\nfactory = "image_factory:make"\n'
        '[data]\nmembers = "members.npz"\nnonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
        '[references]\nmake_model = "image_factory:make"\ncount = 2\nepochs = 2\nengine = "serial"\n'
    )
    code, out, errors = divulge("audit", tmp_path / "plan.toml", "--out", tmp_path / "run", "--json")
    assert code == 0, errors
    content = json.loads(out)
    shares = [
        content[f"known: {words}"]["about"]["settings"]["partial"]["share"]
        for words in ("share:0.4", "block:top-left:0.5", "share:1")
    ]
    assert shares == [6 / 16, 9 / 16, 1.0]


def test_a_plan_names_columns(case, tmp_path):
    import polars as pl

    from divulge import plan

    for name in ("members", "nonmembers", "population"):
        data = getattr(case, name)
        frame = pl.DataFrame(data.x.astype(float), schema=[f"f{i}" for i in range(12)]).with_columns(label=data.y)
        frame.write_parquet(tmp_path / f"{name}.parquet")
    save_file(case.target.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "plan_factory.py").write_text(
        "from torch import nn\n\n\n"
        "def make():\n    return nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4))\n"
    )
    text = (
        'recipes = ["partial-loss"]\nknown = {}\nimputer = "mean"\n'
        '[target]\nmodel = "model.safetensors"\nfactory = "plan_factory:make"\n'
        '[data]\nmembers = "members.parquet"\nnonmembers = "nonmembers.parquet"\npopulation = "population.parquet"\n'
    )
    for words, expected in (('"columns:f0,f3"', 2), ('["share:0.5", "share:1"]', [6, 12])):
        (tmp_path / "plan.toml").write_text(text.format(words))
        known_mask = plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path).subject.known
        assert (known_mask.sum() if isinstance(expected, int) else [mask.sum() for mask in known_mask]) == expected
        assert json.dumps(plan.read(tmp_path / "plan.toml").model_dump())
    (tmp_path / "plan.toml").write_text(text.format('"columns:f99"'))
    with pytest.raises(dv.InputError, match="known: column"):
        plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)


IMPUTERS = {
    "gaussian": completion.ConditionalGaussian,
    "mean": completion.Mean,
}


@pytest.mark.parametrize(
    ("name", "is_partial"), [*((name, True) for name in (None, *IMPUTERS)), (None, False), ("mean", False)]
)
def test_a_plan_fills_in_what_is_unknown_by_the_imputer_it_names(name, is_partial, tmp_path):
    import polars as pl
    import skops.io
    from sklearn.linear_model import LogisticRegression

    from divulge import plan

    rng = np.random.default_rng(0)
    for part in ("members", "nonmembers", "population"):
        pl.DataFrame(rng.normal(size=(30, 3)), schema=["a", "b", "c"]).with_columns(
            label=pl.Series(np.arange(30) % 2)
        ).write_csv(tmp_path / f"{part}.csv")
    x, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    skops.io.dump(LogisticRegression().fit(x, y), tmp_path / "model.skops")
    (tmp_path / "plan.toml").write_text(
        ('recipes = ["partial-loss"]\nknown = "columns:a"\n' if is_partial else 'recipes = ["loss"]\n')
        + (f'imputer = "{name}"\n' if name else "")
        + '[target]\nmodel = "model.skops"\n'
        '[data]\nmembers = "members.csv"\nnonmembers = "nonmembers.csv"\npopulation = "population.csv"\n'
        'label = "label"\n'
    )
    result = plan.resolve(plan.read(tmp_path / "plan.toml"), tmp_path)
    if is_partial:
        assert type(result.options.imputer) is IMPUTERS[name or "gaussian"]
        assert result.subject.known.sum() == 1
    else:
        assert result.options.imputer is None
        assert result.subject.known is None
