"""Clauses of signals: rounds that a budget allows, copies and flips, what is read before a document, and refusals."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from divulge.errors import InputError
from divulge.signals import boundary, internals, recall, regression, tokens, versions
from divulge.signals.boundary import BoundaryDistance, NoiseRobustness
from divulge.signals.recall import PreparedReCaLL, ReCaLL
from divulge.targets import CallableTarget, TokenStatistics
from divulge.types import Records


@pytest.mark.parametrize("budget", [0, 27, 28, 29, 61, 62, 63, 500])
def test_rounds_take_directions_steps_and_halvings_out_of_a_budget(budget):
    expected, left, number = [], budget, 1
    while True:
        directions = int(math.sqrt(16 * 16 * number) + 1e-9)
        left -= directions + 4 + 8
        if left < 0:
            break
        expected.append(directions)
        number += 1
    assert list(boundary._plan_rounds(budget)) == expected


@pytest.mark.parametrize("batch", [1, 4, 1 << 24])
def test_a_search_starts_at_the_nearest_record_of_another_predicted_class(batch, monkeypatch):
    monkeypatch.setattr(boundary, "_BATCH", batch)
    rng = np.random.default_rng(0)
    points, truth = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    predicted = np.where(rng.random(30) < 0.7, truth, rng.integers(0, 3, 30))
    starts, rows = boundary._nearest_other_class(points, predicted, truth)
    assert sorted(rows) == np.flatnonzero(predicted == truth).tolist()
    for start, row in zip(starts, rows, strict=True):
        distances = np.linalg.norm(points - points[row], axis=1)
        distances[predicted == truth[row]] = np.inf
        assert start == distances.argmin()
    for labels in (np.zeros(30, int), None):
        answer = np.zeros(30, int) if labels is not None else 1 - np.minimum(truth, 1)
        other = labels if labels is not None else np.minimum(truth, 1)
        assert [len(part) for part in boundary._nearest_other_class(points, answer, other)] == [0, 0]


def test_halving_finds_the_boundary_from_beyond_it():
    records = Records([[0.0, 0.0], [8.0, 1.0]], [0, 1])
    target = CallableTarget(lambda x: np.stack([3.0 - x[:, 0], x[:, 0] - 3.0], axis=1))
    scaled, predicted, truth = boundary._query_records(target, records)
    assert predicted.tolist() == [0, 1]
    search = boundary._BoundarySearch(scaled, scaled.points[:1], truth[:1])
    found = search.halved(scaled.points[1:]) * scaled.scale
    assert 3.0 < found[0, 0] <= 3.0 + 8 / 256 + 1e-9
    assert search.wrong(scaled.points[1:]).tolist() == [True]
    assert search.distances(scaled.points[1:]) == pytest.approx(np.linalg.norm(scaled.points[1] - scaled.points[0]))
    unlabelled = boundary._query_records(target, Records([[0.0], [8.0]]))
    assert unlabelled[2].tolist() == unlabelled[1].tolist()
    assert scaled.low.tolist() == scaled.points.min(axis=0).tolist()


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


def test_recall_refuses_what_leaves_no_room():
    records = Records(np.array(["xyz"], object))
    for length in (0, 1):
        with pytest.raises(InputError, match="recall: no token of the population can be read before a document"):
            PreparedReCaLL(("abc",)).measure(Letters(length), records)
    with pytest.raises(InputError, match="recall: the model takes 2 tokens, too few for a document beside"):
        PreparedReCaLL(("abc",)).measure(Letters(2), records)
    assert np.isfinite(PreparedReCaLL(("abc",)).measure(Letters(3), records)).all()
    assert np.isfinite(PreparedReCaLL(("abc",)).measure(Letters(3, (1,)), records)).all()
    for target in (object(), Letters):
        with pytest.raises(InputError, match="recall: a language model that runs here is needed"):
            PreparedReCaLL(("abc",)).measure(target, records)
    with pytest.raises(InputError, match=r"population: at least 2 documents are needed \(shots\), got 1"):
        ReCaLL(2).prepare(["a"])
    assert sorted(ReCaLL(2).prepare(["a", "b"]).before) == ["a", "b"]
    assert recall._FLAT == 1e-12


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


@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 7), 1), ((3, 5, 7), 2), ((5, 7, 3), 1), ((1, 5, 7), 2), ((5, 7, 4), 1)]
)
def test_the_height_of_an_image_comes_after_its_channels_or_first(shape, axis):
    assert versions._height_axis(shape) == axis


@pytest.mark.parametrize("shape", [(5,), (3, 5, 3), (5, 7, 2), (1, 3, 5, 7), (2, 5, 7)])
def test_other_shapes_are_no_images(shape):
    with pytest.raises(InputError, match="records: images"):
        versions._height_axis(shape)


@pytest.mark.parametrize(("side", "fits"), [(2, False), (3, True)])
def test_a_shift_must_be_smaller_than_the_image(side, fits):
    records = Records(np.arange(2.0 * side * 5).reshape(2, side, 5))
    if fits:
        assert len(versions.ImageVersions(shift=2).generate(records)) == 49
        return
    with pytest.raises(InputError, match=r"ImageVersions\.shift: 2 does not fit images of shape \(2, 5\)"):
        versions.ImageVersions(shift=2).generate(records)
