"""What must hold of every recipe: all that the settings allow, of classifiers, partly known records and documents, and
those of regression models; also for the one added next.

Recipes that measure a signal of their own are tested on numbers like any others: here the attack is at stake.
"""

import contextlib
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import rankdata, spearmanr

from divulge import Evidence, InputError, MissingExtraError
from divulge.attacks import Auto, Need, adapt
from divulge.attacks.protocol import REFERENCES, check_installed
from divulge.recipes import ATTACKS, aliases, regression_recipes, resolve
from divulge.types import TokenLogs
from recipes.forms import RECORD_TYPES, combinations, forms

BOOK = {f"{form_type}: {name}": recipe for form_type in RECORD_TYPES for name, recipe in forms(form_type).items()}
BOOK |= {f"regression models: {recipe.name}": recipe for recipe in regression_recipes()}
# Recipes whose attacks are equal and read numbers of one unit are one attack on the same numbers here.
UNITS = {"confidence": "probability", "correctness": "probability", "token_probability": "probability"}
UNITS |= {"negative-loss": "logarithm", "label-loss": "labels", "negative-squared-loss": "errors"}
ATTACKS_APART = {(repr(r.attack), UNITS.get(r.signal_name)): key for key, r in reversed(BOOK.items())}
# It is that of classifiers, on errors as all the others: a network takes longer than they do together.
ATTACKS_APART = {what: key for what, key in ATTACKS_APART.items() if key != "regression models: quantile"}
PROBABILITIES, LOGARITHMS = ("confidence", "correctness", "token_probability"), ("negative-loss", "label-loss")
N, Z, M, TOKENS = 200, 300, 6, 8


@cache
def evidence(key, seed, lift=0.0, shape="continuous"):
    """Return what a recipe's attack needs, and no more; the first half of the candidates are members by ``lift``."""
    rng, needs = np.random.default_rng(seed), adapt(BOOK[key].attack).needs
    hard, easy = rng.normal(size=N), rng.normal(size=Z)
    member = np.arange(N) < N // 2
    is_online = Need.REFERENCES_IN_AND_OUT in needs
    inside = (np.arange(M)[:, None] % 2 == 0) ^ (rng.random(N) < 0.5) if is_online else np.zeros((M, N), bool)
    population_trained_on = rng.random((M, Z)) < 0.5
    signals = {
        "target": hard + lift * member + 0.3 * rng.normal(size=N),
        "population": easy + 0.3 * rng.normal(size=Z),
        "references": hard + lift * inside + 0.3 * rng.normal(size=(M, N)),
        "population_references": easy + lift * population_trained_on + 0.3 * rng.normal(size=(M, Z)),
    }
    signals = in_unit({name: SHAPES[shape](values) for name, values in signals.items()}, BOOK[key].signal_name)
    arguments = {"target": signals["target"]}
    if needs & REFERENCES:
        arguments |= {"references": signals["references"], "trained_on": inside}
    if Need.POPULATION in needs:
        arguments["population"] = signals["population"]
    if needs & REFERENCES and Need.POPULATION in needs:
        arguments |= {
            "population_references": signals["population_references"],
            "population_trained_on": population_trained_on,
        }
    if needs & {Need.FEATURES, Need.RECORDS}:
        arguments["features"] = np.column_stack([hard, rng.normal(size=N)])
        arguments["population_features"] = np.column_stack([easy, rng.normal(size=Z)])
    if Need.LABELS in needs:
        arguments |= {"labels": rng.integers(0, 3, N), "population_labels": rng.integers(0, 3, Z)}
    if Need.TOKENS in needs:
        arguments["tokens"] = token_logs(signals, rng, shape)
    if Need.QUERIES in needs:
        arguments["queries"] = (Evidence(**arguments),)
    return arguments, member


SHAPES = {
    "continuous": lambda values: values,
    "ties": np.round,
    "constant": lambda values: np.full_like(values, 0.5),
}


def in_unit(signals, name):
    """Return scaled logits as values of the signal of that name."""
    if name == "label-loss":  # the target says right or wrong, and no more
        signals = signals | {"target": np.where(signals["target"] > 0, np.inf, -800.0)}
    if name == "negative-squared-loss":  # errors whose likelihoods have these scaled logits
        return {part: -np.exp(-values) for part, values in signals.items()}
    unit = expit if name in PROBABILITIES else log_expit if name in LOGARITHMS else np.array
    return {part: unit(values) for part, values in signals.items()}


def token_logs(parts, rng, shape):
    """Return log-probabilities of each document's tokens, whose means are the signals."""
    noise = 0.0 if shape == "constant" else 0.5
    target, references = (
        np.minimum(np.repeat(values, TOKENS, axis=-1) - 9 + noise * rng.normal(size=values.shape[-1] * TOKENS), 0)
        for values in (parts["target"], parts["references"])
    )
    wrong = (np.arange(N * TOKENS) * 7 % 10) < 8
    return TokenLogs(np.arange(N + 1) * TOKENS, target, references, wrong)


def scores(key, arguments, seed=None):
    attack = adapt(BOOK[key].attack)
    try:
        check_installed(attack)
    except MissingExtraError as error:
        pytest.skip(str(error))
    return (attack if seed is None else attack.seeded(seed)).run(Evidence(**arguments)).scores


@cache
def plain_scores(key, *given, **shape):
    return scores(key, evidence(key, *given, **shape)[0])


def area(values, member):
    m = int(member.sum())
    return (rankdata(values)[member].sum() - m * (m + 1) / 2) / (m * (len(member) - m))


def permuted(arguments, order):
    """Return the evidence with the candidates in another order."""
    moved = {}
    for name, values in arguments.items():
        if name == "queries":
            version = {part: array for part, array in arguments.items() if part != name}
            moved[name] = (Evidence(**permuted(version, order)),)
        elif name == "tokens":
            rows = (order[:, None] * TOKENS + np.arange(TOKENS)).ravel()
            references = None if values.references is None else values.references[:, rows]
            moved[name] = TokenLogs(values.offsets, values.target[rows], references, values.wrong[rows])
        elif name in ("target", "features", "labels"):
            moved[name] = values[order]
        else:
            moved[name] = values[:, order] if name in ("references", "trained_on") else values
    return moved


@pytest.mark.parametrize("key", ATTACKS_APART.values())
class TestEveryRecipe:
    def test_needs_no_more_than_it_says_and_ranks_members_higher(self, key):
        # As published, a document that gains at every error has the lowest score (tests/attacks/test_documents.py).
        lift = 0.3 if key in ("documents: ez", "documents: ez-out") else 2.0
        (_, member), result = evidence(key, 1, lift=lift), plain_scores(key, 1, lift=lift)
        assert result.shape == (N,)
        assert np.isfinite(result).all()
        assert area(result, member) > 0.6

    def test_without_a_leak_nothing_is_told_apart(self, key):
        """An AUC beyond .5 ± .17 has probability 3e-5 for 100 against 100."""
        arguments, member = evidence(key, 2)
        assert abs(area(scores(key, arguments), member) - 0.5) < 0.17

    def test_depends_on_its_evidence_and_seed_alone(self, key):
        arguments, _ = evidence(key, 3, lift=1.0, shape="ties")
        copies = {name: values.copy() for name, values in arguments.items() if isinstance(values, np.ndarray)}
        expected = scores(key, arguments, seed=5)
        np.random.default_rng(7).random(10)
        np.random.seed(11)  # noqa: NPY002 - a score must not listen to it
        np.testing.assert_array_equal(expected, scores(key, arguments, seed=5))
        assert np.isfinite(expected).all()
        for name, values in copies.items():
            np.testing.assert_array_equal(arguments[name], values)

    def test_candidates_may_come_in_any_order(self, key):
        """Folds are dealt by row, so a residual moves a little; nothing else does."""
        if isinstance(BOOK[key].attack, Auto):
            pytest.skip("made of attacks that are tested here, on games of the population alone")
        arguments, _ = evidence(key, 1, lift=2.0)
        order = np.random.default_rng(0).permutation(N)
        before, after = plain_scores(key, 1, lift=2.0)[order], scores(key, permuted(arguments, order))
        if Need.FEATURES in adapt(BOOK[key].attack).needs:
            assert spearmanr(before, after).statistic > 0.9
        else:
            np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)

    def test_records_that_are_all_alike_have_finite_scores_or_are_refused(self, key):
        arguments, _ = evidence(key, 4, shape="constant")
        with contextlib.suppress(InputError):
            assert np.isfinite(scores(key, arguments)).all()


@pytest.mark.parametrize("part", ["target", "references", "population"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_evidence_without_a_number_is_refused(part, value):
    arguments = {name: values.copy() for name, values in evidence("classifiers: rmia", 1, lift=2.0)[0].items()}
    arguments[part][..., 0] = value
    with pytest.raises(InputError, match=part):
        scores("classifiers: rmia", arguments)


def test_every_name_is_tested_here():
    names = {key.partition(": ")[2] for key in BOOK}
    assert {"lira", "lira-augmented", "partial-lira", "learned-white-box", "windows", "auto"} <= names
    assert BOOK["documents: windows"] == resolve("windows", documents=True)
    assert {"partial-rmia", "entropy", "recall"} <= names
    assert {"regression models: lira", "regression models: rmia", "regression models: auto"} <= set(BOOK)


@pytest.mark.parametrize("record_type", ["classifiers", "documents"])
def test_no_recipe_is_left_out(record_type):
    """Every attack, every value of its settings and every documented name, of whole and partly known records."""
    is_documents = record_type == "documents"
    tested = {
        key.removeprefix(f"{record_type}: "): recipe for key, recipe in BOOK.items() if key.startswith(record_type)
    }
    for name, settings in aliases(documents=is_documents).items():
        assert tested[name] == settings.recipe(documents=is_documents), name
    for attack in ATTACKS:
        if record_type not in attack.record_types():
            continue
        settings = [form for _, _, form in combinations(record_type) if isinstance(form, attack)]
        for setting in attack.settings(record_type):
            assert {getattr(form, setting.name) for form in settings} >= set(setting.choices), (attack, setting.name)
        assert all(form.recipe(documents=is_documents).name in tested for form in settings), attack
