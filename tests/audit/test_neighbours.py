"""A score is its own: it depends on its recipe, the data and the seed, never on what else runs beside it."""

import dataclasses
import functools

import numpy as np
import pytest
import torch

import divulge as dv
from divulge import completion, margin
from divulge.attacks import Calibrated, LiRA, Need, QuantileRegression, Threshold
from divulge.auditing import pipeline, signals
from divulge.auditing.compare import compare
from divulge.recipes import (
    Recipe,
    augmented_recipes,
    label_recipes,
    partial_recipes,
    recipes,
    weight_recipes,
    white_box_recipes,
)
from divulge.signals import MRAD, GradientMatching, internals
from divulge.signals.versions import ImageVersions, NoisyVersions

pytestmark = pytest.mark.usefixtures("scores_alone")

CLASSES = 3


def records(seed, n, columns=5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    return dv.Records(rng.normal(y[:, None], 2.0, size=(n, columns)), y)


@pytest.fixture(autouse=True, scope="module")
def _versions_are_read_once():
    """They are read from files for every audit, which here would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "collect_environment", functools.cache(pipeline.collect_environment))
        yield


SETS = {"members": records(1, 9), "nonmembers": records(2, 21), "population": records(3, 80)}


def nearest_mean(data, seed):
    """A model of one line: minus the squared distance to each class's mean, which the seed moves a little."""
    jitter = np.random.default_rng(seed).normal(scale=0.1, size=(CLASSES, data.x.shape[1]))
    means = np.stack([data.x[data.y == c].mean(axis=0) for c in range(CLASSES)]) + jitter
    return lambda x: -((x[:, None] - means) ** 2).mean(axis=2)


REFERENCES = dv.references.Custom(nearest_mean, count=4, engine="serial")


def audit(names, target=None, **more):
    arguments = SETS | {"references": REFERENCES, "fpr": (0.1,), "recipes": names} | more
    return dv.audit(nearest_mean(SETS["members"], 0) if target is None else target, **arguments)


def assert_same(result, expected):
    """Candidates' scores and calibration scores, bit for bit."""
    for name in result:
        np.testing.assert_array_equal(
            result.scores[name], expected[name].scores[name], err_msg=f"{name} in {list(result)}"
        )
        np.testing.assert_array_equal(
            result.calibration[name], expected[name].calibration[name], err_msg=f"{name} in {list(result)}"
        )


def assert_own(book, run):
    """Every recipe alone, beside half of the others, and beside all of them in either order."""
    expected = {recipe.name: run([recipe]) for recipe in book}
    for some in (book, book[::-1], book[::2], book[1::2][::-1]):
        assert_same(run(some), expected)


@dataclasses.dataclass(frozen=True)
class Linear:
    """A regressor that needs few records to read features."""

    def fit(self, features, signal):
        design = np.column_stack([np.ones(len(signal)), features])
        return Fitted(np.linalg.lstsq(design, signal, rcond=None)[0])


@dataclasses.dataclass(frozen=True)
class Fitted:
    weights: np.ndarray

    def predict(self, features):
        return np.column_stack([np.ones(len(features)), features]) @ self.weights, np.ones(len(features))


class Careless:
    """A third party's attack, with no more than a score, that writes into what it is given."""

    def score(self, evidence):
        scores = evidence.target - evidence.population.mean()
        for part in ("target", "references", "population", "features", "labels", "trained_on", "population_references"):
            if (array := getattr(evidence, part)) is not None:
                array[...] = 0
        return scores


QUANTILE = QuantileRegression(Linear(), conformal=False)
CUSTOM_RECIPES = (
    Recipe("with features", "hinge", QUANTILE, features=True),
    Recipe("without features", "hinge", QUANTILE),
    Recipe("careless", "hinge", Careless(), "in and out", features=True),
    Recipe("careless offline", "scaled-logit", Careless(), "out"),
    Recipe("every other", "scaled-logit", LiRA("offline"), "in and out"),
)


def test_scores_are_the_same_alone_and_beside_any_other_recipe():
    assert_own((*recipes(), *CUSTOM_RECIPES), lambda some: audit([r if r in CUSTOM_RECIPES else r.name for r in some]))


CHEAP = {
    "mrad": MRAD(detector="gradient-norm", access="black"),
    "mrad-shadow": MRAD(detector="gradient-norm", shadows=2),
    "gradient-matching": GradientMatching(steps=1),
}


def network(data, seed):
    """`nearest_mean`, up to a term that is equal for all classes, as a network: it has gradients."""
    layer = torch.nn.Linear(data.x.shape[1], CLASSES).double()
    jitter = np.random.default_rng(seed).normal(scale=0.1, size=(CLASSES, data.x.shape[1]))
    means = torch.tensor(np.stack([data.x[data.y == c].mean(axis=0) for c in range(CLASSES)]) + jitter)
    layer.load_state_dict({"weight": means, "bias": -(means**2).sum(dim=1) / 2})
    return layer


@pytest.mark.parametrize("imputer", [completion.ConditionalGaussian(), completion.Mean()], ids=["gaussian", "mean"])
def test_scores_from_parts_of_records_are_the_same_alone_and_beside_any_other_recipe(imputer):
    """Also beside one that wants fewer or more completions."""
    book = [dataclasses.replace(r, signal=CHEAP.get(r.name, r.signal)) for r in partial_recipes()]
    three_draws = dataclasses.replace(next(r for r in book if r.name == "partial-rmia"), name="three draws")
    book.append(dataclasses.replace(three_draws, imputed=dataclasses.replace(three_draws.imputed, draws=3)))
    if isinstance(imputer, completion.Mean):  # the draws are what differs between imputers
        book = [r for r in book if r.partial]
    target = network(SETS["members"], 0)
    references = dv.references.Custom(network, count=4, engine="serial")
    known_mask = np.random.default_rng(4).random((30, 5)) < 0.7
    known_mask[:, 0] = True

    def run(selected):
        return audit(
            selected, target, references=references, options=dv.AuditOptions(known=known_mask, imputer=imputer)
        )

    assert_own(book, run)


def test_scores_from_weights_are_the_same_alone_and_beside_any_other_recipe():
    rng = np.random.default_rng(0)
    y = np.arange(110) % 2
    data = dv.Records(rng.normal(size=(110, 12)) + (2 * y - 1)[:, None], y)
    sets = {"members": data[:9], "nonmembers": data[9:30], "population": data[30:]}
    net = margin.train(data.x[:9], 2 * y[:9] - 1, width=20).net
    target = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1, bias=False)).double()
    weights = {"0.weight": net.w, "0.bias": net.b, "2.weight": net.v[None]}
    target.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    assert_own(weight_recipes(), lambda some: audit([r.name for r in some], target, **sets))


def test_scores_from_inside_networks_are_the_same_alone_and_beside_any_other_recipe():
    plain = {recipe.name: recipe for recipe in recipes()}
    few_recipe = next(recipe for recipe in white_box_recipes() if recipe.beside)
    book = [*white_box_recipes(), plain["learned-few"], plain["lira"], plain["loss"], *augmented_recipes()[:1]]
    book[-1] = dataclasses.replace(book[-1], versions=NoisyVersions(2))
    book += [dataclasses.replace(few_recipe, name="with gradients", beside=tuple(internals.SIGNALS))]
    book += [dataclasses.replace(few_recipe, name="in another order", beside=tuple(internals.SIGNALS)[::-1])]
    book += [Recipe("inside alone", "weight-gradient", Calibrated(), "out")]
    references = dv.references.Custom(network, count=4, engine="serial")
    assert_own(book, lambda some: audit(some, network(SETS["members"], 0), references=references))


def test_scores_on_versions_are_the_same_alone_and_beside_any_other_recipe():
    plain = {recipe.name: recipe for recipe in augmented_recipes()}
    shaped = ImageVersions(flip=False, shape=(5, 1))
    with pytest.raises(dv.InputError, match=r"ImageVersions.shift: 1 does not fit images"):
        audit([dataclasses.replace(plain["lira-augmented"], versions=shaped)])
    mirrored = ImageVersions(shift=0, shape=(1, 5))
    book = [dataclasses.replace(recipe, versions=mirrored) for recipe in plain.values()]
    book += [dataclasses.replace(book[0], name="noisy", versions=NoisyVersions(2))]
    book += [dataclasses.replace(book[2], name="noisy too", versions=NoisyVersions(2))]
    assert_own((*book, CUSTOM_RECIPES[0], *recipes()[4:5]), audit)


def test_scores_from_labels_are_the_same_alone_and_beside_any_other_recipe():
    assert_own((*label_recipes(), CUSTOM_RECIPES[3]), audit)


def test_one_recipe_under_two_names_scores_twice_alike():
    twins = [dataclasses.replace(r, name=f"{r.name} again") for r in recipes()]
    result = audit([*recipes(), *twins])
    for recipe in recipes():
        np.testing.assert_array_equal(result.scores[recipe.name], result.scores[f"{recipe.name} again"])


def test_signals_of_one_name_that_differ_are_not_taken_for_one_another():
    def make_recipe(steps):
        return Recipe(f"{steps} steps", GradientMatching(steps=steps), Threshold())

    target, known_mask = network(SETS["members"], 0), np.arange(5) < 3
    single_runs = {
        f"{steps} steps": audit([make_recipe(steps)], target, options=dv.AuditOptions(known=known_mask))
        for steps in (0, 4)
    }
    result = audit([make_recipe(0), make_recipe(4)], target, options=dv.AuditOptions(known=known_mask))
    assert_same(result, single_runs)
    assert set(result.signals) == {"gradient-matching", "gradient-matching (4 steps)"}
    assert not np.array_equal(*result.scores.values())


def test_signals_kept_on_disk_are_the_same_and_each_kind_of_model_has_its_own(monkeypatch, tmp_path):
    book = [r.name for r in recipes() if r.references != "none"]
    in_memory = audit(book)
    monkeypatch.setattr(signals, "MAX_BYTES_IN_MEMORY", 0)
    assert_same(audit(book, out=tmp_path / "run"), dict.fromkeys(book, in_memory))
    assert not list((tmp_path / "run").rglob(".signals"))


def test_a_model_whose_outputs_are_enormous_counts_for_every_recipe_or_for_none():
    """3e38 less -3e38 does not fit a float32: a margin would, and a probability would not, call the model diverged."""

    def enormous(data, seed):
        return lambda x: np.where(np.arange(CLASSES) == (x[:, :1] > seed % 2), 3e38, -3e38)

    references = dv.references.Custom(enormous, count=4, engine="serial")
    assert_same(
        audit(["rmia", "lira"], references=references),
        {name: audit([name], references=references) for name in ("rmia", "lira")},
    )


class Witness:
    """Keeps what it was shown."""

    def __init__(self, needs):
        self.needs = frozenset(needs)

    def score(self, evidence):
        self.seen = evidence
        return evidence.target


def seen_by(recipe, **more):
    """The evidence that an attack of the same needs would get."""
    witness = Witness(recipe.attack.needs)
    audit([dataclasses.replace(recipe, attack=witness), *more.pop("beside", ())], **more)
    return witness.seen


def parts(evidence):
    return {f.name for f in dataclasses.fields(evidence) if getattr(evidence, f.name) is not None}


MODELS, POPULATION = {"references", "trained_on"}, {"population"}
POPULATION_MODELS = {"population_references", "population_trained_on"}
CONDITIONS = {"features", "labels"}
POPULATION_CONDITIONS = {"population_features", "population_labels"}
READS = {
    **dict.fromkeys(("loss", "entropy", "gap", "max-probability"), frozenset()),
    **dict.fromkeys(
        ("calibrated", "lira", "lira-online", "learned-online", "bavaria-online", "base", "base-online"), MODELS
    ),
    **dict.fromkeys(
        ("rmia", "rmia-online", "auto-online", "learned", "learned-few", "bavaria"),
        MODELS | POPULATION | POPULATION_MODELS,
    ),
    "lira-residual": MODELS | CONDITIONS,
    **dict.fromkeys(
        ("rmia-residual", "learned-residual", "auto"),
        MODELS | POPULATION | POPULATION_MODELS | CONDITIONS | POPULATION_CONDITIONS,
    ),
    **dict.fromkeys(
        ("quantile", "quantile-gap", "quantile-trees", "quantile-gap-trees", "combined"),
        CONDITIONS | POPULATION | POPULATION_CONDITIONS,
    ),
    "transductive": CONDITIONS,
    **dict.fromkeys(("correct", "boundary", "noise"), frozenset()),
    **dict.fromkeys(("correct-calibrated", "transfer"), MODELS),
    "boundary-residual": CONDITIONS,
    "weight-gradient": frozenset(),
    "learned-white-box": MODELS | POPULATION | POPULATION_MODELS | {"queries"},
    **dict.fromkeys(("lira-augmented", "lira-online-augmented"), MODELS | {"queries"}),
    **dict.fromkeys(("rmia-augmented", "rmia-online-augmented"), MODELS | POPULATION | POPULATION_MODELS | {"queries"}),
}


@pytest.mark.parametrize(
    "recipe", [*recipes(), *augmented_recipes(), *label_recipes(), *white_box_recipes()], ids=lambda r: r.name
)
def test_an_attack_is_shown_what_it_needs_and_nothing_else(recipe):
    if recipe.versions is not None:
        recipe = dataclasses.replace(recipe, versions=NoisyVersions(2))
    options = {}
    if recipe.inside:
        options = {"target": network(SETS["members"], 0)}
        options |= {"references": dv.references.Custom(network, count=4, engine="serial")}
    evidence = seen_by(recipe, beside=[name for name in ("rmia-online", "combined") if name != recipe.name], **options)
    assert recipe.name in READS, f"say in READS what {recipe.name} may be shown"
    assert parts(evidence) == {"target"} | READS[recipe.name]
    for version in evidence.queries or ():
        assert parts(version) == {"target"} | READS[recipe.name] - {"queries"}
    if "trained_on" in READS[recipe.name]:
        online = recipe.references == "in and out"
        assert evidence.trained_on.any() == online
        if online:
            assert evidence.trained_on.sum(axis=0).tolist() == [2] * len(evidence)


def test_a_recipe_without_features_is_shown_none_and_an_attack_that_says_nothing_all_that_its_recipe_has():
    assert "features" not in parts(seen_by(CUSTOM_RECIPES[1], beside=("quantile",)))
    everything = Recipe("mine", "hinge", Witness(Need), "out", features=True)
    evidence = seen_by(everything)
    document_parts = {"tokens", "population_tokens", "queries"}
    assert parts(evidence) == {field.name for field in dataclasses.fields(dv.Evidence)} - document_parts
    assert not evidence.trained_on.any()


def rows(data):
    return {tuple(row) for row in data}


def test_offline_models_and_regressors_learn_from_the_population_without_calibration():
    """Told by the records themselves; their first value is the signal."""
    taught = []

    def train(data, seed):
        taught.append(data)
        return nearest_mean(data, seed)

    first_column = lambda x: np.column_stack([x[:, 0], np.zeros((len(x), 2)) - 1e6])  # noqa: E731
    recipe = Recipe("all", "hinge", Witness(Need), "out", features=True)
    evidence = seen_by(recipe, target=first_column, references=dv.references.Custom(train, count=4, engine="serial"))
    taught_rows = set().union(*(rows(data.x) for data in taught))
    held_out = rows(evidence.features[30:])
    assert len(held_out) == 20
    assert taught_rows == rows(evidence.population_features) == rows(SETS["population"].x) - held_out
    assert len(evidence.population) == len(evidence.population_labels) == evidence.population_references.shape[1] == 60
    for data, inside in zip(taught, evidence.population_trained_on, strict=True):
        assert rows(data.x) == rows(evidence.population_features[inside])


def test_features_are_reduced_as_the_population_without_calibration_asks():
    """Principal components have mean zero and no correlation on exactly the records that they were fitted on."""
    wide = {name: records(seed, len(SETS[name]), 60) for seed, name in enumerate(SETS, start=1)}
    recipe = Recipe("all", "hinge", Witness({"features", "population"}), features=True)
    evidence = seen_by(recipe, target=nearest_mean(wide["members"], 0), **wide)
    assert evidence.population_features.shape == (60, 48)
    np.testing.assert_allclose(evidence.population_features.mean(axis=0), 0.0, atol=1e-9)
    spread = np.cov(evidence.population_features.T)
    np.testing.assert_allclose(spread - np.diag(np.diag(spread)), 0.0, atol=1e-9)
    assert np.abs(evidence.features.mean(axis=0)).max() > 0.1


def test_models_of_both_kinds_are_trained_once_and_taken_from_the_pool_afterwards(tmp_path):
    progress_calls = []
    names_both = ["lira", "lira-online"]
    audit(
        names_both,
        options=dv.AuditOptions(pool=tmp_path),
        progress=lambda n_done, total, note: progress_calls.append((n_done, total)),
    )
    assert [n_done for n_done, _ in progress_calls] == sorted(n_done for n_done, _ in progress_calls)
    assert {total for _, total in progress_calls} == {8}
    assert progress_calls[-1] == (8.0, 8)
    for names in (["lira"], ["lira-online"], names_both[::-1]):
        assert audit(names, options=dv.AuditOptions(pool=tmp_path)).about.engine == "nothing to train"
    assert len(list(tmp_path.glob("*.safetensors"))) == 8


def test_offline_models_are_those_of_any_other_candidates(tmp_path):
    """They depend on the auditor's population alone, so another audit finds them in the pool."""
    references = dv.references.Train(lambda: torch.nn.Linear(5, CLASSES), count=2, epochs=1, engine="serial")
    options = {"references": references, "options": dv.AuditOptions(pool=tmp_path)}
    audit(["lira"], **options)
    pooled = sorted(tmp_path.glob("*.safetensors"))
    audit(["rmia"], members=records(7, 12), nonmembers=records(8, 30), **options)
    assert sorted(tmp_path.glob("*.safetensors")) == pooled
    assert len(pooled) == 2


@pytest.mark.parametrize("training", ["serial", "stacked"])
def test_networks_too_are_the_same_alone_and_beside_the_other_kind(training):
    references = dv.references.Train(
        lambda: torch.nn.Linear(5, CLASSES), count=4, epochs=2, batch_size=16, engine=training
    )
    single_runs = {name: audit([name], references=references) for name in ("lira", "lira-online")}
    assert_same(audit(["lira", "lira-online"], references=references), single_runs)
    assert not np.array_equal(single_runs["lira"].scores["lira"], single_runs["lira-online"].scores["lira-online"])


def test_what_is_recorded_is_the_models_that_a_recipe_had():
    about = audit(["loss", "lira", "lira-online"]).about.recipes
    assert [about[name].references for name in ("loss", "lira", "lira-online")] == ["none", "out", "in and out"]
    assert about["loss"].training is None
    assert about["lira"].training["count"] == "4"


def test_runs_with_other_reference_models_are_not_compared():
    book = ["loss", "lira", "lira-online"]
    before = audit(book)
    quick = dataclasses.replace(REFERENCES, engine="processes", workers=1)  # how they are made is not what they are
    assert {d.recipe for d in compare(before, audit(["loss", "lira"], references=quick))} == {"loss", "lira"}
    assert {d.recipe for d in compare(before, audit(book, seed=1))} == set(book)
    after = audit(book, references=dataclasses.replace(REFERENCES, count=6))
    assert {d.recipe for d in compare(before, after)} == {"loss"}
    with pytest.raises(dv.InputError, match=r"reference models .* lira.*count"):
        compare(before, after, recipes=["lira"])
    assert {d.recipe for d in compare(before, after, recipes=["loss"])} == {"loss"}
    with pytest.raises(dv.InputError, match="recipes: 'rmia' is unknown"):
        compare(before, after, recipes=["rmia"])
    with_online = audit([Recipe("lira", "scaled-logit", LiRA(), "in and out")])
    with pytest.raises(dv.InputError, match=r"lira \(references\)$"):
        compare(before, with_online)
