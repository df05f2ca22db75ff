"""Unseen classes in a whole audit: what is reported, what is refused, and the plan's settings."""

import numpy as np
import pytest

import divulge as dv
from divulge import plan as plans
from divulge.attacks import QuantileRegression
from divulge.recipes import Recipe
from divulge.results import TransferSummary


def records(seed, n, classes=(0, 1, 2)):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n)
    return dv.Records(rng.normal(y[:, None], 1, size=(n, 3)), y)


MEMBERS, OUTSIDE, POPULATION = records(0, 300), records(1, 300), records(2, 600, classes=(0, 1))


def target(x):
    """Logits that are larger for records it has seen, recognised by their first value."""
    is_member = np.isin(x[:, 0], MEMBERS.x[:, 0])
    logits = -((x.mean(axis=1)[:, None] - np.arange(3)) ** 2)
    logits[is_member] *= 1 + np.abs(x[is_member, 1:2])
    return logits


class Diverging:
    """A regressor whose loss became NaN."""

    def fit(self, features, signal):
        return self

    def predict(self, features):
        return np.full(len(features), np.nan), np.full(len(features), np.nan)


def audit(**more):
    arguments = {
        "members": MEMBERS,
        "nonmembers": OUTSIDE,
        "population": POPULATION,
        "unseen_classes": (2,),
        "recipes": ("loss", "quantile-trees", "transductive"),
        "fpr": (0.05,),
    } | more
    return dv.audit(target, **arguments)


@pytest.fixture(scope="module")
def result():
    return audit()


def test_the_report_says_whether_the_rate_is_expected_to_carry_over(result, tmp_path):
    carried = result.summary().about.measured(TransferSummary)
    assert set(carried.recipes) == {"loss", "quantile-trees", "transductive"}
    for recipe in carried.recipes.values():
        assert recipe.text.startswith("The FPR of 0.05 is ")
        assert recipe.holds == ("is expected to hold" in recipe.text)
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Will the false-positive rate carry over to the unseen classes?" in page
    assert "density ratio" in page


def test_without_unseen_classes_nothing_is_said_of_them():
    all_seen = audit(unseen_classes=(), population=records(2, 600), recipes=("loss",))
    assert all_seen.summary().about.measured(TransferSummary) is None


def test_a_class_with_too_few_candidates_says_so_and_states_the_power(result):
    few_nonmembers = OUTSIDE[(OUTSIDE.y != 2) | (np.cumsum(OUTSIDE.y == 2) <= 15)]
    scarce = audit(nonmembers=few_nonmembers, recipes=("loss",))
    (warning,) = [line for line in scarce.warnings if line.startswith("fpr:")]
    assert "needs at least 19 non-members of the unseen class 2, got 15" in warning
    assert "power 80%" in warning
    assert scarce.summary().recipes["loss"].unseen.tpr_at_fpr["0.05"] is None
    assert not [line for line in result.warnings if line.startswith("fpr:")]


def test_a_regressor_that_diverges_is_replaced_and_the_audit_says_so():
    wild = Recipe("wild", "hinge", QuantileRegression(Diverging(), conformal=False))
    assert any("wild: Diverging diverged" in line for line in audit(recipes=(wild,)).warnings)


def test_without_labels_only_what_needs_none_is_offered():
    bare = {name: dv.Records(part.x) for name, part in (("members", MEMBERS), ("nonmembers", OUTSIDE))}
    with pytest.raises(dv.InputError, match="without labels use gap, max-probability, quantile-gap"):
        audit(**bare, population=dv.Records(POPULATION.x), unseen_classes=(), recipes=("loss",))


def test_a_population_that_holds_the_class_is_refused_with_the_count():
    with pytest.raises(dv.InputError, match=r"the population holds \d+ records of class 2"):
        audit(population=records(2, 600))


def test_equal_signals_are_audited_and_show_nothing():
    flat = dv.audit(
        lambda x: np.zeros((len(x), 3)),
        members=MEMBERS,
        nonmembers=OUTSIDE,
        population=POPULATION,
        unseen_classes=(2,),
        recipes=("loss", "quantile-trees", "transductive"),
        fpr=(0.05,),
    )
    for name in flat:
        assert flat[name].unseen.auc.low <= 0.5 <= flat[name].unseen.auc.high


def test_a_plan_takes_away_what_the_auditor_does_not_hold(tmp_path):
    (tmp_path / "unseen_factory.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(3, 3)\n")
    from safetensors.torch import save_file
    from torch import nn

    save_file(nn.Linear(3, 3).state_dict(), tmp_path / "model.safetensors")
    wards = np.array(["north", "south"])
    for name, part in (("members", MEMBERS), ("nonmembers", OUTSIDE), ("population", records(2, 600))):
        np.savez(tmp_path / f"{name}.npz", x=part.x, y=part.y, ward=wards[np.arange(len(part)) % 2])
    text = """
        recipes = ["loss"]
        [target]
        model = "model.safetensors"
        factory = "unseen_factory:make"
        [data]
        members = "members.npz"
        nonmembers = "nonmembers.npz"
        population = "population.npz"
        group = "ward"
        [access]
    """

    def resolved(settings):
        (tmp_path / "plan.toml").write_text(text + settings)
        return plans.resolve(plans.read(tmp_path / "plan.toml"), tmp_path).subject

    dropped = resolved("drop_classes = [2]\nkeep_per_class = 40")
    assert dropped.unseen_classes == (2,)
    assert np.bincount(dropped.population.y).tolist() == [40, 40]
    share = resolved("drop_share = 0.4")
    assert len(share.unseen_classes) == 1
    assert share.unseen_classes[0] not in share.population.y
    assert len(resolved('drop_groups = ["south"]').population) == 300
    with pytest.raises(dv.InputError, match=r"access: DropClasses.classes: \[7\] are not among"):
        resolved("drop_classes = [7]")
    with pytest.raises(dv.InputError, match="did you mean 'drop_classes'"):
        resolved("drop_class = [2]")


def _easy_class_that_the_population_lacks(share):
    """Return an audit of a model of which no record is a member; a third class is easy, and the population has none."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4500, 4))
    is_easy = rng.random(len(x)) < share
    margin = np.where(is_easy, 8.0, x[:, 0])
    y = np.where(is_easy, "cat", np.where(x[:, 1] > 0, "bee", "ape"))
    answers = {row.tobytes(): (value, label) for row, value, label in zip(x, margin, y, strict=True)}
    names = ["ape", "bee", "cat"]

    def logits(rows):
        known = [answers[row.tobytes()] for row in rows]
        return np.array([[value * (name == label) for name in names] for value, label in known])

    parts = [dv.Records(x[rows], y[rows], class_names=names) for rows in np.split(np.arange(4500), 3)]
    population = parts[2][np.asarray(y[3000:] != "cat")]
    return dv.audit(logits, members=parts[0], nonmembers=parts[1], population=population, recipes=["loss"], fpr=(0.02,))


def test_a_class_that_the_population_lacks_voids_decisions_also_where_it_is_not_declared():
    """Too few to shift the scores visibly, and enough to triple the rate of false positives."""
    result = _easy_class_that_the_population_lacks(0.06)
    outcome = result["loss"]
    selection = outcome.selection(fpr=0.02)
    assert outcome.realised_fpr(0.02).value > 0.06
    assert selection.guarantee.standing == "void"
    assert "are of the class cat, of which there are no calibration records" in selection.warnings[0]
    assert any(w.startswith("population: it holds no record of the class cat, of which") for w in result.about.warnings)
    assert outcome.on(result.labels != 2).selection(fpr=0.02).guarantee.holds
