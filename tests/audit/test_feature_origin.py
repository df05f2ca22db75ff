"""Features that come from the target: refused by their parameters, warned of by what they explain."""

import copy

import numpy as np
import pytest
from scipy import special
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge

import divulge as dv
from divulge.auditing import target_features
from divulge.auditing.checks.feature_origin import is_determined
from divulge.errors import InputError
from divulge.types import AuditData

torch = pytest.importorskip("torch")
nn = torch.nn


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))


def draw(n, seed):
    rng = np.random.default_rng([31, seed])
    x = rng.normal(size=(n, 5)).astype(np.float32)
    return dv.Records(x, (x[:, :3] + rng.normal(size=(n, 3))).argmax(axis=1))


PARTS = {"members": draw(80, 0), "nonmembers": draw(120, 1), "population": draw(400, 2)}


def half(module):
    return copy.deepcopy(module).half()


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.more = inner, nn.Linear(3, 3)

    def forward(self, x):
        return self.more(self.inner(x))


@pytest.mark.parametrize(
    "derive",
    [
        lambda t: t,
        copy.deepcopy,
        nn.Sequential,
        lambda t: t[0],
        lambda t: t[:2],
        half,
        Around,
        lambda t: t.forward,
        lambda t: copy.deepcopy(t).forward,
        lambda t: nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 400), nn.Linear(400, 5), t),
    ],
)
def test_modules_with_parameters_of_the_target_are_refused(derive):
    target = network()
    with pytest.raises(InputError, match=r"^features: .*depend"):
        dv.audit(target, **PARTS, features=derive(target), recipes=["transductive"])
    wrapped = dv.targets.TorchTarget(target)
    with pytest.raises(InputError, match=r"^features: .*depend"):
        dv.audit(wrapped, **PARTS, features=derive(target), recipes=["transductive"])


def test_a_method_of_the_target_is_refused():
    forest = RandomForestClassifier(5, random_state=0).fit(PARTS["members"].x, PARTS["members"].y)
    with pytest.raises(InputError, match="features: the model under audit itself"):
        dv.audit(forest, **PARTS, features=forest.predict_proba, recipes=["transductive"])


def test_other_networks_are_accepted_though_their_biases_are_alike():
    target, other = network(0), network(1)
    for module in (target, other):
        for layer in (module[0], module[2]):
            nn.init.zeros_(layer.bias)
    for features in (other, nn.Sequential(other, nn.BatchNorm1d(3))):
        subject = AuditData(**PARTS, features=features)
        assert target_features.refuse_target_as_features(subject, target) is subject
    tuned = copy.deepcopy(target)  # a fine-tune changes every weight a little
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter.add_(1e-4 * torch.randn_like(parameter))
    subject = AuditData(**PARTS, features=target)
    assert target_features.refuse_target_as_features(subject, tuned) is subject


def warnings_of(target, features, recipes=("transductive",), parts=PARTS, **more):
    result = dv.audit(target, **parts, features=features, recipes=list(recipes), **more)
    return [text for text in result.warnings if "they determine the target's" in text]


def answer(module, records):
    with torch.inference_mode():
        return module(torch.from_numpy(records.x)).numpy()


def loss_of(module, records):
    logits = answer(module, records).astype(np.float64)
    return np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), records.y]


def test_answers_of_the_target_are_warned_of_however_they_are_computed():
    target = network()
    arrays = {name: answer(target, records) for name, records in PARTS.items()}
    for features in (
        arrays,
        lambda records: torch.softmax(torch.from_numpy(answer(target, records)), 1).numpy(),
        lambda records: answer(target[:2], records),
        lambda records: np.argsort(np.argsort(loss_of(target, records))),
    ):
        (text,) = warnings_of(target, features)
        assert "hide a leak" in text
    assert warnings_of(target, arrays, recipes=["loss"]) == []  # nobody reads them


def test_other_features_are_not_warned_of():
    target, other = network(0), network(1)
    wide = {name: np.random.default_rng(k).normal(size=(len(r), 300)) for k, (name, r) in enumerate(PARTS.items())}
    for features in (wide, other, lambda records: answer(target, records) > 0):
        assert warnings_of(target, features) == []


def test_of_a_linear_model_the_records_own_columns_explain_as_much():
    linear = LogisticRegression().fit(PARTS["members"].x, PARTS["members"].y)
    assert warnings_of(linear, lambda records: linear.decision_function(records.x)) == []


def test_predictions_of_a_regression_model_are_warned_of():
    from sklearn.ensemble import GradientBoostingRegressor

    parts = {name: dv.Records(r.x, r.x[:, 0] ** 2 + r.x[:, 1].astype(float)) for name, r in PARTS.items()}
    boosted = GradientBoostingRegressor(random_state=0).fit(parts["members"].x, parts["members"].y)
    (text,) = warnings_of(boosted, lambda r: boosted.predict(r.x)[:, None], recipes=["quantile-trees"], parts=parts)
    assert "predictions" in text
    assert warnings_of(boosted, lambda r: Ridge().fit(parts["members"].x, parts["members"].y).predict(r.x)[:, None],
                       recipes=["quantile-trees"], parts=parts) == []  # fmt: skip


@pytest.mark.parametrize(("n", "columns"), [(60, 5), (200, 60), (1000, 1)])
def test_unrelated_features_determine_nothing(n, columns):
    """Ties, heavy tails, constants and many columns; answers that are alike, saturated or in steps."""
    rng = np.random.default_rng([n, columns])
    is_fitted = np.arange(n) % 2 == 0
    for draw in range(40):
        table = rng.normal(size=(n, columns)) if draw % 2 else rng.integers(0, 3, (n, columns)).astype(float)
        table[:, 0] = 7.0 if draw % 5 == 0 else np.exp(3 * table[:, 0])
        latent = rng.standard_cauchy((n, 2))
        for answers in (latent, np.sign(latent), special.expit(20 * latent), np.zeros((n, 2)), np.floor(latent)):
            assert not is_determined(table, answers, is_fitted)
