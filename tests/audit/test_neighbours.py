"""A score is its own: it depends on its recipe, the data and the seed, never on what else runs beside it."""

import dataclasses
import functools
from itertools import combinations

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


# Few members, so that no blind baseline is computed: it is not what is asked about here.
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


def assert_same(found, alone):
    """Candidates' scores and calibration scores, bit for bit."""
    for name in found:
        np.testing.assert_array_equal(found.scores[name], alone[name].scores[name], err_msg=f"{name} in {list(found)}")
        np.testing.assert_array_equal(
            found.calibration[name], alone[name].calibration[name], err_msg=f"{name} in {list(found)}"
        )


def assert_own(book, run):
    """Every recipe alone, beside every other (in both orders by turns), and all together forwards and backwards."""
    alone = {recipe.name: run([recipe]) for recipe in book}
    for i, (first, second) in enumerate(combinations(book, 2)):
        assert_same(run([first, second] if i % 2 else [second, first]), alone)
    assert_same(run(book), alone)
    assert_same(run(book[::-1]), alone)


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
OWN = (
    Recipe("with features", "hinge", QUANTILE, features=True),
    Recipe("without features", "hinge", QUANTILE),
    Recipe("careless", "hinge", Careless(), "in and out", features=True),
    Recipe("careless offline", "scaled-logit", Careless(), "out"),
    Recipe("every other", "scaled-logit", LiRA("offline"), "in and out"),
)


def test_scores_are_the_same_alone_and_beside_any_other_recipe():
    assert_own((*recipes(), *OWN), lambda some: audit([r if r in OWN else r.name for r in some]))


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


@pytest.mark.parametrize("imputer", [completion.ConditionalGaussian(), completion.KNN(3)], ids=["gaussian", "knn"])
def test_scores_from_parts_of_records_are_the_same_alone_and_beside_any_other_recipe(imputer):
    """Also beside one that wants fewer or more completions."""
    book = [dataclasses.replace(r, signal=CHEAP.get(r.name, r.signal)) for r in partial_recipes()]
    few = dataclasses.replace(next(r for r in book if r.name == "partial-rmia"), name="three draws")
    book.append(dataclasses.replace(few, imputed=dataclasses.replace(few.imputed, draws=3)))
    if isinstance(imputer, completion.KNN):  # the draws are what differs between imputers
        book = [r for r in book if r.partial]
    target = network(SETS["members"], 0)
    references = dv.references.Custom(network, count=4, engine="serial")
    known = np.random.default_rng(4).random((30, 5)) < 0.7
    known[:, 0] = True

    def run(some):
        return audit(some, target, references=references, known=known, imputer=imputer)

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
    few = next(recipe for recipe in white_box_recipes() if recipe.beside)
    book = [*white_box_recipes(), plain["learned-few"], plain["lira"], plain["loss"], *augmented_recipes()[:1]]
    book[-1] = dataclasses.replace(book[-1], versions=NoisyVersions(2))
    book += [dataclasses.replace(few, name="with gradients", beside=tuple(internals.SIGNALS))]
    book += [dataclasses.replace(few, name="in another order", beside=tuple(internals.SIGNALS)[::-1])]
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
    assert_own((*book, OWN[0], *recipes()[4:5]), audit)


def test_scores_from_labels_are_the_same_alone_and_beside_any_other_recipe():
    assert_own((*label_recipes(), OWN[3]), audit)


def test_one_recipe_under_two_names_scores_twice_alike():
    twins = [dataclasses.replace(r, name=f"{r.name} again") for r in recipes()]
    result = audit([*recipes(), *twins])
    for recipe in recipes():
        np.testing.assert_array_equal(result.scores[recipe.name], result.scores[f"{recipe.name} again"])


def test_signals_of_one_name_that_differ_are_not_taken_for_one_another():
    def named(steps):
        return Recipe(f"{steps} steps", GradientMatching(steps=steps), Threshold())

    target, known = network(SETS["members"], 0), np.arange(5) < 3
    alone = {f"{steps} steps": audit([named(steps)], target, known=known) for steps in (0, 4)}
    result = audit([named(0), named(4)], target, known=known)
    assert_same(result, alone)
    assert set(result.signals) == {"gradient-matching", "gradient-matching (4 steps)"}
    assert not np.array_equal(*result.scores.values())


def test_signals_kept_on_disk_are_the_same_and_each_kind_of_model_has_its_own(monkeypatch, tmp_path):
    book = [r.name for r in recipes() if r.references != "none"]
    held = audit(book)
    monkeypatch.setattr(signals, "MAX_BYTES_IN_MEMORY", 0)
    kept, sheets = [], signals._signal_folder
    monkeypatch.setattr(signals, "_signal_folder", lambda *given: kept.append(sheets(*given)) or kept[-1])
    assert_same(audit(book, out=tmp_path / "run"), dict.fromkeys(book, held))
    assert [(folder.parent.name, folder.name) for folder in kept] == [
        (".signals", "references-out"),
        (".signals", "references-in-and-out"),
    ]
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
    **dict.fromkeys(("loss", "entropy", "gap"), frozenset()),
    **dict.fromkeys(
        ("calibrated", "lira", "lira-online", "learned-online", "bavaria-online", "base", "base-online"), MODELS
    ),
    **dict.fromkeys(
        ("rmia", "rmia-online", "learned", "learned-few", "bavaria"), MODELS | POPULATION | POPULATION_MODELS
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
    more = {}
    if recipe.inside:
        more = {"target": network(SETS["members"], 0)}
        more |= {"references": dv.references.Custom(network, count=4, engine="serial")}
    seen = seen_by(recipe, beside=[name for name in ("rmia-online", "combined") if name != recipe.name], **more)
    assert parts(seen) == {"target"} | READS[recipe.name]
    for version in seen.queries or ():
        assert parts(version) == {"target"} | READS[recipe.name] - {"queries"}
    if "trained_on" in READS[recipe.name]:
        online = recipe.references == "in and out"
        assert seen.trained_on.any() == online
        if online:
            assert seen.trained_on.sum(axis=0).tolist() == [2] * len(seen)


def test_a_recipe_without_features_is_shown_none_and_an_attack_that_says_nothing_all_that_its_recipe_has():
    assert "features" not in parts(seen_by(OWN[1], beside=("quantile",)))
    everything = Recipe("mine", "hinge", Witness(Need), "out", features=True)
    seen = seen_by(everything)
    of_documents = {"tokens", "population_tokens", "queries"}
    assert parts(seen) == {field.name for field in dataclasses.fields(dv.Evidence)} - of_documents
    assert not seen.trained_on.any()


def rows(data):
    return {tuple(row) for row in data}


def test_offline_models_and_regressors_learn_from_the_population_without_calibration():
    """Told by the records themselves; their first value is the signal."""
    taught = []

    def train(data, seed):
        taught.append(data)
        return nearest_mean(data, seed)

    first = lambda x: np.column_stack([x[:, 0], np.zeros((len(x), 2)) - 1e6])  # noqa: E731
    recipe = Recipe("all", "hinge", Witness(Need), "out", features=True)
    seen = seen_by(recipe, target=first, references=dv.references.Custom(train, count=4, engine="serial"))
    taught_rows = set().union(*(rows(data.x) for data in taught))
    held = rows(seen.features[30:])
    assert len(held) == 20
    assert taught_rows == rows(seen.population_features) == rows(SETS["population"].x) - held
    assert len(seen.population) == len(seen.population_labels) == seen.population_references.shape[1] == 60
    for data, inside in zip(taught, seen.population_trained_on, strict=True):
        assert rows(data.x) == rows(seen.population_features[inside])


def test_features_are_reduced_as_the_population_without_calibration_asks():
    """Principal components have mean zero and no correlation on exactly the records that they were fitted on."""
    wide = {name: records(seed, len(SETS[name]), 60) for seed, name in enumerate(SETS, start=1)}
    recipe = Recipe("all", "hinge", Witness({"features", "population"}), features=True)
    seen = seen_by(recipe, target=nearest_mean(wide["members"], 0), **wide)
    assert seen.population_features.shape == (60, 48)
    np.testing.assert_allclose(seen.population_features.mean(axis=0), 0.0, atol=1e-9)
    spread = np.cov(seen.population_features.T)
    np.testing.assert_allclose(spread - np.diag(np.diag(spread)), 0.0, atol=1e-9)
    assert np.abs(seen.features.mean(axis=0)).max() > 0.1


def test_models_of_both_kinds_are_trained_once_and_taken_from_the_pool_afterwards(tmp_path):
    told = []
    both = ["lira", "lira-online"]
    audit(both, pool=tmp_path, progress=lambda done, total, note: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {total for _, total in told} == {8}
    assert told[-1] == (8.0, 8)
    for names in (["lira"], ["lira-online"], both[::-1]):
        assert audit(names, pool=tmp_path).about.engine == "nothing to train"
    assert len(list(tmp_path.glob("*.safetensors"))) == 8


def test_offline_models_are_those_of_any_other_candidates(tmp_path):
    """They depend on the auditor's population alone, so another audit finds them in the pool."""
    references = dv.references.Train(lambda: torch.nn.Linear(5, CLASSES), count=2, epochs=1, engine="serial")
    more = {"references": references, "pool": tmp_path}
    audit(["lira"], **more)
    kept = sorted(tmp_path.glob("*.safetensors"))
    audit(["rmia"], members=records(7, 12), nonmembers=records(8, 30), **more)
    assert sorted(tmp_path.glob("*.safetensors")) == kept
    assert len(kept) == 2


@pytest.mark.parametrize("training", ["serial", "stacked"])
def test_networks_too_are_the_same_alone_and_beside_the_other_kind(training):
    references = dv.references.Train(
        lambda: torch.nn.Linear(5, CLASSES), count=4, epochs=2, batch_size=16, engine=training
    )
    alone = {name: audit([name], references=references) for name in ("lira", "lira-online")}
    assert_same(audit(["lira", "lira-online"], references=references), alone)
    assert not np.array_equal(alone["lira"].scores["lira"], alone["lira-online"].scores["lira-online"])


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
    with pytest.raises(dv.InputError, match=r"lira \(count: 4 before, 6 after\); lira-online .* compared: loss$"):
        compare(before, after)
    assert {d.recipe for d in compare(before, after, recipes=["loss"])} == {"loss"}
    with pytest.raises(dv.InputError, match="recipes: 'rmia' is unknown"):
        compare(before, after, recipes=["rmia"])
    both = audit([Recipe("lira", "scaled-logit", LiRA(), "in and out")])
    with pytest.raises(dv.InputError, match=r"lira \(references: out before, in and out after\)$"):
        compare(before, both)
