"""The transfer attack: substitutes of the target, trained on its own answers."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import divulge as dv
from divulge.attacks import Calibrated, Need, Substitute, Threshold
from divulge.recipes import Recipe, advise
from divulge.targets import Metered

pytestmark = pytest.mark.usefixtures("scores_alone")


def records(seed, n, columns=6):
    rng = np.random.default_rng(seed)
    return dv.Records(rng.normal(size=(n, columns)), rng.integers(0, 3, n))


SETS = {"members": records(1, 60), "nonmembers": records(2, 60), "population": records(3, 120)}
CANDIDATES = dv.Records(*(np.concatenate([getattr(SETS[k], p) for k in ("members", "nonmembers")]) for p in "xy"))


class Nearest:
    """The class of the nearest training record; it counts what it is asked."""

    def __init__(self, data=SETS["members"]):
        self.data, self.asked = data, 0

    def labels(self, records):
        self.asked += len(records)
        return self.data.y[((records.x[:, None] - self.data.x) ** 2).sum(axis=2).argmin(axis=1)]


def soft(data, seed):
    """Less near the records of a class, less sure of it; the seed moves the records a little."""
    moved = data.x + np.random.default_rng(seed).normal(scale=0.1, size=data.x.shape)

    def logits(x):
        distances = ((x[:, None] - moved) ** 2).sum(axis=2)
        return -np.stack([distances[:, data.y == c].min(axis=1, initial=50.0) for c in range(3)], axis=1)

    return logits


REFERENCES = dv.references.Custom(soft, count=2, engine="serial")


def audit(target, names=("transfer",), **more):
    options = {"recipes": names, "fpr": (0.05,), "references": REFERENCES}
    return dv.audit(target, **(SETS | options | more))


def test_scores_are_the_definition_and_the_target_is_asked_once_a_record():
    """The naive form: relabel, train, one record after the other; a record told wrong has a loss of 800."""
    lessons = []

    def train(data, seed):
        lessons.append((data, seed))
        return soft(data, seed)

    target = Nearest()
    result = audit(target, ("correct", "transfer"), references=dataclasses.replace(REFERENCES, train=train))
    assert 240 + 64 <= target.asked <= 240 + 64 + 64  # 64 show what the labels are, up to 64 whether they repeat
    answers, substitutes = target.labels(CANDIDATES), [soft(data, seed) for data, seed in lessons]
    expected = []
    for x, y, answer in zip(CANDIDATES.x, CANDIDATES.y, answers, strict=True):
        losses = []
        for substitute in substitutes:
            z = substitute(x[None])[0]
            losses.append(math.log(sum(math.exp(logit) for logit in z)) - z[y])
        expected.append(-sum(losses) / len(losses) if answer == y else -800.0)
    np.testing.assert_allclose(result.scores["transfer"], expected, rtol=1e-5)
    population_rows = {tuple(x) for x in SETS["population"].x}
    for data, _ in lessons:
        assert len(data) == 90
        assert {tuple(x) for x in data.x} <= population_rows
        np.testing.assert_array_equal(data.y, target.labels(data))
    assert result.about.recipes["transfer"].queries == 240
    assert result.about.recipes["transfer"].references == "substitutes"
    assert result.about.recipes["transfer"].reads.endswith("each candidate and its label of each population record")


def test_a_target_that_repeats_its_records_is_caught_and_one_that_saw_none_of_them_is_not():
    """AUC beyond .5 ± .2 of 60 against 60 has probability 2e-4."""
    assert audit(Nearest())["transfer"].auc.low > 0.7
    honest = audit(Nearest(records(9, 60)))
    assert abs(honest["transfer"].auc.value - 0.5) < 0.2
    assert honest.verdict.tone != "leak"


def test_substitutes_that_know_nothing_say_what_right_and_wrong_say():
    """The target is right on all members and on a third of the others; the substitutes say the same of every record."""
    flat = dv.references.Custom(lambda data, seed: lambda x: np.zeros((len(x), 3)), count=2, engine="serial")
    result = audit(Nearest(), ("correct", "transfer"), references=flat)
    assert result["transfer"].auc.value == result["correct"].auc.value
    rng = np.random.default_rng(0)
    blind = dv.references.Custom(lambda data, seed: lambda x: rng.normal(size=(len(x), 3)), count=4, engine="serial")
    saw_none = audit(Nearest(records(9, 60)), references=blind)
    assert saw_none.verdict.tone != "leak"


def test_what_the_target_answers_is_in_the_pool_s_key(tmp_path):
    names = ("correct-calibrated", "transfer")
    expected = audit(Nearest(), names, options=dv.AuditOptions(pool=tmp_path))
    assert len(list(tmp_path.glob("*.safetensors"))) == 4  # two of each kind
    repeat = audit(Nearest(), names, options=dv.AuditOptions(pool=tmp_path))
    assert repeat.about.engine == "nothing to train"
    single_recipe = audit(Nearest(), options=dv.AuditOptions(pool=tmp_path))
    assert single_recipe.about.engine == "nothing to train"
    for result in (repeat, single_recipe):
        np.testing.assert_array_equal(result.scores["transfer"], expected.scores["transfer"])
    audit(Nearest(records(9, 60)), names, options=dv.AuditOptions(pool=tmp_path))
    assert len(list(tmp_path.glob("*.safetensors"))) == 6  # other answers, other substitutes; the others are the same


def test_logits_are_not_read():
    """A target that gives logits is asked for them, and nothing but its most likely class is used."""

    class Logits:
        def __init__(self, scale):
            self.scale = scale

        def logits(self, records):
            return np.eye(3)[Nearest().labels(records)] * self.scale

    scores = audit(Nearest()).scores["transfer"]
    for scale in (1.0, 50.0):
        np.testing.assert_array_equal(audit(Logits(scale)).scores["transfer"], scores)


def test_an_answer_may_be_a_class_that_no_record_has():
    class Fourth(Nearest):
        def labels(self, records):
            return np.where(records.x[:, 0] > 1.0, 3, super().labels(records))

    network = dv.references.Train(lambda: torch.nn.Linear(6, 4), count=1, epochs=1, engine="serial")
    hidden = {k: data[data.x[:, 0] <= 1.0] if k != "population" else data for k, data in SETS.items()}
    assert np.isfinite(audit(Fourth(), references=network, **hidden).scores["transfer"]).all()

    references = dv.references.Train(lambda: torch.nn.Linear(6, 3), count=1, epochs=1, engine="serial")
    message = (
        r"make_model: 4 outputs are needed .*; substitutes of this target need 4 outputs, as it calls .* class 3, which"
    )
    with pytest.raises(dv.InputError, match=message):
        audit(Fourth(), references=references, **hidden)
    with pytest.raises(dv.InputError, match=r"got shape \(2,\)$"):
        audit(Nearest(), references=dataclasses.replace(references, make_model=lambda: torch.nn.Linear(6, 2)))


def test_images_tables_and_texts():
    rng = np.random.default_rng(0)

    def images(n):
        return dv.Records(rng.normal(size=(n, 1, 4, 4)).astype(np.float32), rng.integers(0, 3, n))

    def texts(n):
        words = np.array(["alpha", "beta", "gamma", "delta"])
        return dv.Records([" ".join(row) for row in rng.choice(words, (n, 9))], rng.integers(0, 2, n))

    class Mean:
        def labels(self, records):
            return (records.x.mean(axis=(1, 2, 3)) > 0).astype(int)

    class Words:
        def labels(self, records):
            return np.array([text.count("alpha") % 2 for text in records.x])

    network = dv.references.Train(
        lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)), count=2, epochs=1, engine="serial"
    )
    pictures = {"members": images(30), "nonmembers": images(30), "population": images(60)}
    assert len(audit(Mean(), references=network, **pictures)["transfer"].scores) == 60
    documents = {"members": texts(30), "nonmembers": texts(30), "population": texts(60)}
    pipeline = dv.references.Custom(
        lambda data, seed: make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(data.x, data.y),
        count=2,
        engine="serial",
    )
    assert len(audit(Words(), references=pipeline, **documents)["transfer"].scores) == 60
    with pytest.raises(dv.InputError, match="references: Train makes networks, which learn from numbers"):
        audit(Words(), references=network, **documents)


def test_of_partly_known_records_the_target_is_asked_about_completions():
    result = audit(Nearest(), options=dv.AuditOptions(known="share:0.7"))
    assert result["transfer"].scores.shape == (120,)
    all_known = audit(Nearest(), options=dv.AuditOptions(known=np.ones(6, bool)))
    np.testing.assert_array_equal(all_known.scores["transfer"], audit(Nearest()).scores["transfer"])


class Single(Nearest):
    def labels(self, records):
        super().labels(records)
        return np.full(len(records), 2)


class Losses:
    def loss(self, records):
        return np.zeros(len(records))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": Losses()}, "target: Losses is neither .* nor an object with a method logits.* or labels"),
        ({"target": Single()}, "population: the target calls all 90 records class 2, so substitutes of it learn noth"),
        ({"target": Metered(Nearest(), 200)}, "limit: 64 of 200 allowed queries are used and 240 more are requested"),
        ({"population": None}, "population: additional records"),
        ({"references": None}, "references: the recipes transfer need reference models"),
        ({k: dv.Records(data.x) for k, data in SETS.items()}, "recipes: transfer read the records' labels, but there"),
    ],
    ids=["no labels", "one class", "metered out", "no population", "no references", "unlabelled"],
)
def test_what_it_cannot_do_without(change, message):
    with pytest.raises(dv.InputError, match=message):
        audit(change.pop("target", Nearest()), **change)


def test_a_target_with_one_answer_is_refused_before_any_model_is_trained():
    """Offline models of other recipes come first, and would be trained in vain."""
    trained = []
    references = dataclasses.replace(REFERENCES, train=lambda data, seed: trained.append(seed))
    with pytest.raises(dv.InputError, match="the target calls all 90 records class 2"):
        audit(Single(), ("correct-calibrated", "transfer"), references=references)
    assert not trained


def test_a_meter_lets_through_what_is_needed():
    meter = Metered(Nearest(), 240 + 64)
    audit(meter)
    assert meter.queries == 240 + 64


def test_recipes_of_one_s_own():
    recipe = Recipe("mine", "correctness", Calibrated(), "substitutes")
    assert recipe.needs == {Need.REFERENCES_SUBSTITUTES}
    assert np.abs(audit(Nearest(), [recipe]).scores["mine"]).max() <= 1
    with pytest.raises(dv.InputError, match="reads models trained on the target's labels, but references='out'"):
        Recipe("mine", "label-loss", Substitute(), "out")
    with pytest.raises(dv.InputError, match="reads models trained on candidates, but references='substitutes'"):
        Recipe("mine", "negative-loss", dv.attacks.BASE("online"), "substitutes")
    with pytest.raises(dv.InputError, match="a language model gives none"):
        Recipe("mine", "log_likelihood", Threshold(), "substitutes")


def test_the_attack_refuses_what_is_no_evidence_for_it():
    with pytest.raises(dv.InputError, match=r"Substitute: evidence.references is needed"):
        Substitute().score(dv.Evidence([0.0]))
    with pytest.raises(dv.InputError, match="log-probabilities, at most 0, got 1; use the 'label-loss' signal"):
        Substitute().score(dv.Evidence([1.0], [[0.0]]))


def test_it_is_named_where_it_can_run():
    names = {
        words: [advice.recipe.name for advice in advise(words)] for words in ("labels only", "labels only, 1 reference")
    }
    assert "transfer" not in names["labels only"]
    assert "transfer" in names["labels only, 1 reference"]
    assert "transfer" in [advice.recipe.name for advice in advise("labels only, 4 references, text")]


CODE = """
import numpy as np
import torch

class Guesses:
    def labels(self, records):
        return (records.x[:, 0] > 0).astype(int)

def make():
    return Guesses()

def network():
    return torch.nn.Linear(6, 3)
"""


def test_a_plan_may_name_it(divulge, tmp_path):
    for name, data in SETS.items():
        np.savez(tmp_path / f"{name}.npz", x=data.x.astype(np.float32), y=data.y)
    (tmp_path / "guessing.py").write_text(CODE)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'recipes = ["transfer"]\nfpr = [0.05]\ncalibration = 0.25\n'
        '[target]\nmodel = "guessing:make"\n[data]\nmembers = "members.npz"\n'
        'nonmembers = "nonmembers.npz"\npopulation = "population.npz"\n'
        '[references]\nmake_model = "guessing:network"\ncount = 2\nepochs = 1\n'
    )
    code, output, errors = divulge("check", plan)
    assert code == 0, errors
    assert "2 reference models of 90 records on average" in " ".join(output.split())
    code, output, errors = divulge("audit", plan, "--out", tmp_path / "run")
    assert code == 0, errors
    assert "transfer" in output
    code, output, _ = divulge("list", "--for", "labels only, 2 references", "--json")
    assert code == 0
    assert '"transfer"' in output
