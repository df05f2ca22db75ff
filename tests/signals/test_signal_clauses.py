"""Clauses of signals: rounds that a budget allows, copies and flips, what is read before a document, and refusals."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.signals import internals, regression, tokens, versions
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness
from divulge.signals.recall import PreparedReCaLL, ReCaLL
from divulge.targets import CallableTarget, TokenStatistics
from divulge.types import Records


@pytest.mark.parametrize("queries", [2, 5])
def test_noise_is_asked_about_in_growing_steps_and_the_record_counts(queries):
    asked = []

    def answer(x):
        asked.append(x.copy())
        return np.stack([-x[:, 0], x[:, 0]], axis=1)

    records = Records(np.array([[-1.0, 0.0], [2.0, 1.0], [3.0, 1.0]]), [0, 1, 0])
    shares = NoiseRobustness(queries=queries, scale=0.5).measure(CallableTarget(answer), records)
    assert len(asked) == queries
    # the second column has two values, which are flipped and never moved
    assert set(np.unique(np.concatenate(asked)[:, 1].round(12))) <= {0.0, 1.0}
    right = np.mean([(x[:, 0] > 0) == [False, True, False] for x in asked], axis=0)
    assert shares == pytest.approx(right)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: BoundaryDistance(queries=15), "BoundaryDistance.queries"), (lambda: BoundaryDistance(seed=-1), "seed"),
        (lambda: NoiseRobustness(queries=1), "NoiseRobustness.queries"), (lambda: NoiseRobustness(scale=0.0), "scale"),
        (lambda: NoiseRobustness(flips=1.1), "flips"), (lambda: NoiseRobustness(flips=-0.1), "flips"),
        (lambda: ReCaLL(0), "shots"), (lambda: versions.ImageVersions(flip=False, shift=0), "neither flips nor shifts"),
        (lambda: versions.ImageVersions(shift=101), "shift"), (lambda: versions.NoisyVersions(count=0), "count"),
        (lambda: versions.NoisyVersions(count=1001), "count"), (lambda: versions.NoisyVersions(scale=0.0), "scale"),
        (lambda: versions.OwnVersions(len, 1001), "count"),
    ],
)  # fmt: skip
def test_settings_out_of_their_range_are_named(make, name):
    with pytest.raises(InputError, match=name):
        make()
    assert (BoundaryDistance(queries=16).queries, NoiseRobustness(queries=2, flips=0.0).flips) == (16, 0.0)
    assert (NoiseRobustness(flips=1.0).flips, ReCaLL(1).shots, versions.NoisyVersions(count=1000).count) == (
        1.0,
        1,
        1000,
    )
    assert versions.ImageVersions(flip=True, shift=0).count == 1
    assert versions.ImageVersions(flip=False, shift=1).count == 8
    assert versions.ImageVersions(flip=True, shift=2).count == 49


def test_a_target_that_shows_nothing_and_texts_are_refused():
    with pytest.raises(InputError, match="target: object gives neither labels nor logits"):
        NoiseRobustness().measure(object(), Records([[0.0], [1.0]]))
    with pytest.raises(InputError, match="records: a label-only signal moves numbers, got texts"):
        NoiseRobustness().measure(object(), Records(np.array(["a"], object)))


# ReCaLL


class Letters:
    """A language model of letters, in which a token costs one nat, and half a nat more for each that stands before."""

    def __init__(self, length, start=()):
        self.length, self.start, self.asked = length, start, []

    def encode(self, texts):
        return [tuple(map(ord, text)) for text in texts]

    def decode(self, tokens):
        return "".join(map(chr, tokens))

    def continuations(self, prefixes, suffixes, *, decoding=None):
        self.asked.append((prefixes, suffixes))
        cost = [-(1 + 0.5 * len(before)) * len(after) for before, after in zip(prefixes, suffixes, strict=True)]
        return SimpleNamespace(log_p=np.array(cost), lengths=np.array([len(after) for after in suffixes]))

    def greedy(self, prefixes, tokens):
        return []

    def key(self):
        return {}


@pytest.mark.parametrize("start", [(), (1,)])
def test_recall_compares_the_same_tokens_with_and_without_the_population(start):
    target = Letters(10 + len(start), start)
    values = PreparedReCaLL(("abc", "de")).measure(target, Records(np.array(["xyz", "u", "", "vwvwvwvwvw"], object)))
    (conditional, suffixes), (plain, same) = target.asked
    head = 0 if start else 1
    assert suffixes == same
    texts = ["xyz", "u", "vwvwv"] if start else ["xyz", "vwvwv"]  # 10 tokens less 5 of the population
    assert ["".join(map(chr, after)) for after in suffixes] == [text[head:] for text in texts]
    assert [len(before) for before in plain] == [len(start) + head] * len(texts)
    assert [len(before) for before in conditional] == [len(start) + 5 + head] * len(texts)
    ratio = (1 + 0.5 * (len(start) + 5 + head)) / (1 + 0.5 * (len(start) + head))
    assert np.isnan(values).tolist() == ([False, False, True, False] if start else [False, True, True, False])
    assert values[~np.isnan(values)] == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("before", "room", "expected"),
    [(("abc", "de"), 5, "abcde"), (("abc", "de"), 4, "de"), (("abc", "de"), 2, "de"), (("abc", "de"), 1, "e"),
     (("ab", "", "c"), 3, "abc")],
)  # fmt: skip
def test_whole_documents_of_the_population_are_read_or_the_end_of_the_last(before, room, expected):
    found = PreparedReCaLL(before)._prefix_tokens(Letters(99), room)
    assert "".join(map(chr, found)) == expected


# Inside a network, regression, tokens, versions


def test_angles_are_of_weights_less_their_mean():
    rng = np.random.default_rng(1)
    fed, weights, labels = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), rng.integers(0, 4, 6)
    centred = weights - weights.mean(axis=0)
    expected = [
        h @ centred[label] / np.linalg.norm(h) / np.linalg.norm(centred[label])
        for h, label in zip(fed, labels, strict=True)
    ]
    assert internals.feature_angle(fed, weights, labels) == pytest.approx(expected)
    single = internals.feature_angle(fed, weights[:1], labels % 2)
    sign = np.where(labels % 2 == 1, 1, -1)
    assert single == pytest.approx(sign * (fed @ weights[0]) / np.linalg.norm(fed, axis=1) / np.linalg.norm(weights[0]))
    assert internals.feature_angle(np.zeros((1, 3)), weights, np.array([0])).tolist() == [0.0]
    with pytest.raises(InputError, match="labels"):
        internals.feature_angle(fed, weights[:2], np.full(6, 2))


@pytest.mark.parametrize(
    ("names", "passes", "reads"),
    [
        ((), 0, "outputs"),
        (("feature-angle",), 1, "outputs, and last hidden layer with its weights"),
        (("weight-gradient",), 1, "outputs, gradients"),
        (("weight-gradient", "last-layer-gradient"), 1, "outputs, gradients"),
        (("last-layer-gradient", "feature-angle"), 2, "outputs, gradients, and last hidden layer with its weights"),
    ],
)  # fmt: skip
def test_gradients_and_the_hidden_layer_take_a_pass_each(names, passes, reads):
    assert (internals.count_passes(names), internals.describe_reads(names)) == (passes, reads)


def test_squared_errors_do_not_overflow_and_are_of_one_value_a_record():
    losses = regression.negative_squared_loss(np.array([[1.0], [1e300], [-1e300]]), np.array([3.0, -1e300, 1e300]))
    assert losses.tolist() == pytest.approx([-4.0, -1e300, -1e300])
    with pytest.raises(InputError, match=r"predictions: one real value per record is needed, got shape \(2, 2\)"):
        regression.negative_squared_loss(np.ones((2, 2)), np.ones(2))


@pytest.mark.parametrize("k", [0.1, 0.2, 0.5, 0.67, 1.0])
def test_the_least_likely_share_of_tokens_has_one_at_least(k):
    rng = np.random.default_rng(2)
    lengths = np.array([1, 10, 0, 3, 5])
    offsets = np.append(0, np.cumsum(lengths))
    logp = -rng.random(19)
    stats = TokenStatistics(offsets, np.full(5, 9), logp=logp)
    expected = []
    for start, stop in itertools.pairwise(offsets):
        lowest = sorted(logp[start:stop])[: max(1, int((stop - start) * k + 1e-9))]
        expected.append(np.mean(lowest) if lowest else np.nan)
    assert tokens.min_k(stats, k) == pytest.approx(expected, nan_ok=True)
    for bad in (0, -0.1, 1.1):
        with pytest.raises(InputError, match=r"^k: "):
            tokens.min_k(stats, bad)


def test_likelihoods_in_other_units_and_beside_another_model():
    stats = TokenStatistics(np.array([0, 2, 3]), np.array([4, 5]), logp=np.array([-1.0, -3.0, 0.0]))
    assert tokens.token_probability(stats) == pytest.approx([np.exp(-2), 1.0])
    assert tokens.scaled_likelihood(stats) == pytest.approx([-2 - np.log(1 - np.exp(-2)), -np.log(1e-12)], rel=1e-3)
    assert tokens.zlib(stats) == pytest.approx([-2 / 4, 0.0])
    other = TokenStatistics(np.array([0, 2, 3]), np.array([4, 5]), logp=np.array([-2.0, -4.0, -1.0]))
    assert tokens.reference_difference(stats, other) == pytest.approx([1.0, 1.0])
    assert tokens.lowercase(stats, other)[0] == pytest.approx(-3 / -2)
    assert sorted(tokens.all_signals(stats)) == ["log_likelihood", "min_k", "zlib"]
    shorter = TokenStatistics(np.array([0, 2, 2]), np.array([4, 5]), logp=np.array([-2.0, -4.0]))
    with pytest.raises(InputError, match="reference: document 1 has 0 tokens, not 1; a model with the same tokenizer"):
        tokens.reference_difference(stats, shorter)
    one = TokenStatistics(np.array([0, 2]), np.array([4]), logp=np.array([-2.0, -4.0]))
    with pytest.raises(InputError, match="lowered: 2 documents are needed, got 1"):
        tokens.lowercase(stats, one)
    with pytest.raises(InputError, match=r"alpha: one of 0\.5, 1, 2, inf is needed, got 3"):
        tokens.max_renyi(stats, alpha=3)
    with pytest.raises(InputError, match="token statistics: entropy needs the whole distribution"):
        tokens.min_k_plus(stats)


@pytest.mark.parametrize(("side", "fits"), [(2, False), (3, True)])
def test_a_shift_must_be_smaller_than_the_image(side, fits):
    records = Records(np.arange(2.0 * side * 5).reshape(2, side, 5))
    if fits:
        assert len(versions.ImageVersions(shift=2).generate(records)) == 49
        return
    with pytest.raises(InputError, match=r"ImageVersions\.shift: 2 does not fit images of shape \(2, 5\)"):
        versions.ImageVersions(shift=2).generate(records)
