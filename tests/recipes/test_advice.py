"""What can run in which circumstances, in which order, and what is not understood."""

import json

import pytest

import divulge as dv
from divulge.recipes import Circumstances, DataSet, Performance, advise, everything, label_recipes, measured

SETS = [DataSet("A", "images", 10, 10, "MLP", 3), DataSet("B", "text", 10, 10, "MLP", 3)]


def performance(recipe, references, *tprs, unseen=False):
    """One figure a data set."""
    return [
        Performance(recipe, data, unseen, references, estimate(0.5), estimate(tpr), None, 0.0)
        for data, tpr in zip(SETS, tprs, strict=False)
    ]


def estimate(value):
    return dv.Estimate(value, value, value, 0.95, "exact")


def names(words, figures=()):
    return [advice.recipe.name for advice in advise(words, figures)]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("labels only, 2 references", Circumstances("labels", 2)),
        ("2 reference models and Labels  only", Circumstances("labels", 2)),
        ("weights; unseen classes; 1 reference", Circumstances("weights", 1, unseen=True)),
        ("text, no references,", Circumstances(kind="text")),
        ("images, images, known classes", Circumstances(kind="images")),
    ],
)
def test_words_mean_one_thing(words, meant):
    assert Circumstances.parse(words) == meant
    assert Circumstances.parse(str(meant)) == meant


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "for: a text is needed"),
        (" , ", "for: '' is not understood"),
        ("2 refs", r"for: '2 refs' is not understood; understood are 'labels only', .*'tables' or 'text'"),
        ("-1 references", "'-1 references' is not understood"),
        ("labels, weights", "two things about what the target gives"),
        ("images and text", "two things about the kind of records"),
        ("2 references, 3 references", "two things about the number of references"),
        ("2000000 references", "references: must be at most 1000000, got 2000000"),
        ("x" * 10_000, "not understood"),
        (3, "a text or a Circumstances"),
    ],
)
def test_what_is_not_understood_is_an_error_that_says_what_is(words, message):
    with pytest.raises(dv.InputError, match=message) as error:
        advise(words)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("figures", [3, ["loss"]])
def test_figures_are_figures(figures):
    with pytest.raises(dv.InputError, match="figures: "):
        advise("logits", figures)


def test_only_what_can_run_is_named():
    assert set(names("labels only, 64 references")) == {recipe.name for recipe in label_recipes()}
    assert all(advice.recipe.references == "none" for advice in advise("logits"))
    assert "learned" not in names("2 references")
    assert {"learned", "boundary", "lira-online"} <= set(names("3 references"))
    assert "margin-abs" not in names("logits")
    assert "margin-abs" in names("weights")
    assert {"weight-gradient", "learned-white-box"} <= set(names("weights, 1 reference"))
    assert "learned-white-box" not in names("weights")
    assert "learned-white-box" not in names("logits, 8 references")
    assert "boundary" not in names("labels only, text")
    assert "lira-augmented" in names("images, 2 references")
    assert not any(
        "augmented" in name for data_type in ("tables", "text") for name in names(f"{data_type}, 2 references")
    )
    assert set(names("probabilities, 9 references")) == set(names("logits, 9 references"))


def test_the_order_is_that_of_the_share_of_the_best_on_each_data_set():
    """Each data set counts alike, however large its rates: .5 + 1 beats 1 + .4, though .09 is below .13."""
    figures = [
        *performance("loss", 0, 0.05, 0.04),
        *performance("gap", 0, 0.1, 0.016),
        *performance("entropy", 0, 0, 0),
    ]
    assert names("logits", figures)[:3] == ["loss", "gap", "entropy"]
    assert names("logits, images", figures)[:3] == ["gap", "loss", "entropy"]
    silent = [advice.recipe.name for advice in advise("logits", figures) if not advice.figures]
    assert names("logits", figures)[3:] == silent


def test_figures_are_those_of_the_largest_number_measured_that_there_is():
    figures = [f for count in (1, 4, 8) for f in performance("lira", count, count / 10, unseen=count == 8)]

    def counts(words):
        suggested = next(advice for advice in advise(words, figures) if advice.recipe.name == "lira")
        return [figure.references for figure in suggested.figures]

    assert counts("3 references") == [1]
    assert counts("100 references") == [4]
    assert counts("9 references, unseen classes") == [8]
    assert counts("7 references, unseen classes") == []
    assert counts("3 references, text") == []


def test_the_figures_that_come_with_divulge_are_of_recipes_there_are():
    recipe_names = {recipe.name for recipe in everything()}
    assert {measurement.recipe for measurement in measured()} <= recipe_names
    for measurement in measured():
        for estimated in (measurement.auc, measurement.tpr, measurement.strict):
            assert estimated is None or 0 <= estimated.low <= estimated.value <= estimated.high <= 1
        assert measurement.data.kind in ("images", "tables", "text")
        assert measurement.seconds >= 0


@pytest.mark.parametrize("width", [60, 80])
def test_a_terminal_shows_it_without_breaking_a_figure(divulge, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    for words in ("labels only, 2 references", "64 references, unseen classes", "weights, tables"):
        code, output, _ = divulge("list", "--for", words)
        assert code == 0
        assert max(map(len, output.splitlines())) <= width
        assert "TPR at 1 %" in output


def test_json_holds_every_figure(divulge):
    code, output, _ = divulge("list", "--for", "2 references", "--json")
    content = json.loads(output)
    assert code == 0
    assert content["for"] == "logits, 2 references, known classes"
    assert [entry["name"] for entry in content["recipes"]] == names("2 references", None)
    assert all(figure["references"] in (0, 2) for entry in content["recipes"] for figure in entry["measured"])


def test_a_slip_ends_with_one_line(divulge):
    code, output, errors = divulge("list", "--for", "labels only, two references")
    assert code == 2
    assert not output
    assert errors.startswith("divulge: for: 'two references' is not understood; understood are 'labels only'")
    assert errors.count("\n") == 1
