"""What `reconstruction.univariate` proves is true of networks whose training set is known, and claimed of no other."""

import numpy as np
import pytest

from divulge import margin, reconstruction

TOLERANCE = 1e-3


def training_sets(count, start=0):
    """Records on [-3, 3], spaced or not, labels smooth or random."""
    for seed in range(start, start + count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 13))
        x = np.sort(rng.uniform(-3, 3, n)) if seed % 2 else 6 * (np.arange(n) + rng.uniform(0.2, 0.8, n)) / n - 3
        waves = rng.integers(1, 4)
        y = rng.choice([-1.0, 1.0], n) if seed % 3 == 0 else np.where(np.sin(waves * x + 6 * rng.random()) > 0, 1, -1)
        if abs(y.sum()) < n:
            yield x, y


@pytest.fixture(scope="module")
def exact():
    return [(x, y, margin.solve(x[:, None], y).net) for x, y in training_sets(30)]


def true(candidates, x):
    """Which candidates are training points."""
    return np.abs(np.subtract.outer(candidates, x)).min(axis=1, initial=np.inf) <= TOLERANCE


def check(reconstructed, x):
    hits = true(reconstructed.candidates, x)
    assert hits.sum() >= reconstructed.guaranteed
    assert hits[reconstructed.needed].all()
    assert all(hits[list(window)].any() for window in reconstructed.windows)
    if len(reconstructed.candidates):
        assert (~hits).mean() <= reconstructed.guarantee.level or not reconstructed.guarantee.holds


@pytest.mark.parametrize("algorithm", [1, 2, "crossings", "both"])
def test_what_is_proven_of_exact_points_is_true(exact, algorithm):
    results = [reconstruction.univariate(net, 1.0, algorithm) for _, _, net in exact]
    for (x, _, _), each in zip(exact, results, strict=True):
        assert each.guarantee.holds
        check(each, x)
    assert sum(each.guaranteed for each in results) >= 10
    assert sum(each.needed.sum() for each in results) >= (0.9 if algorithm in ("crossings", "both") else 0.2) * sum(
        len(each.candidates) for each in results
    )


@pytest.mark.parametrize("noise", [1e-9, 1e-7, 1e-5, 1e-3, 1e-2])
def test_noise_in_the_weights_makes_no_false_proof(exact, noise):
    rng = np.random.default_rng(0)
    n_holding = 0
    for x, _, net in exact:
        w, b, v = (part * (1 + noise * rng.normal(size=part.shape)) for part in (net.w, net.b, net.v))
        reconstructed = reconstruction.univariate(margin.ShallowReLU(w, b, v), 1.0)
        check(reconstructed, x)
        n_holding += reconstructed.guarantee.holds
    # Single precision rounds by 6e-8.
    assert n_holding == len(exact) or noise > 1e-7
    assert n_holding == 0 or noise < 1e-2


def test_single_precision_keeps_the_proof(exact):
    for x, _, net in exact:
        single = margin.ShallowReLU(*(part.astype(np.float32) for part in (net.w, net.b, net.v)))
        reconstructed = reconstruction.univariate(single, 1.0)
        assert reconstructed.guarantee.holds
        check(reconstructed, x)


def test_nothing_is_proven_of_networks_that_are_no_kkt_points():
    """Trained to a finite margin, or not trained at all."""
    rng = np.random.default_rng(1)
    for seed, (x, y) in enumerate(training_sets(3)):
        run = margin.train(x[:, None], y, width=100, target_margin=50.0, seed=seed, max_steps=500)
        nets = [(run.net, 50.0)]
        for width in (3, 10, 100):
            net = margin.ShallowReLU(*(rng.normal(size=shape) for shape in ((width, 1), width, width)))
            nets += [(net, share * float(np.abs(net(x[:, None])).max())) for share in (0.1, 0.5, 1.0)]
        for net, level in nets:
            reconstructed = reconstruction.univariate(net, level)
            assert reconstructed.guaranteed == 0
            assert not reconstructed.needed.any()
            assert not reconstructed.guarantee.holds
            assert "not at a KKT point" in reconstructed.warnings[0]


@pytest.mark.parametrize("gap", [1e-5, 1e-4, 1e-3])
def test_an_exact_point_of_records_nearly_in_one_place_is_not_said_to_be_none(gap):
    """Nothing may be proven of them, but that they are no KKT point is not true, and is not what the reason says."""
    x, y = np.array([-2.3178, -2.2281, -2.2281 + gap, 0.8487]), np.array([1, -1, -1, 1])
    net = margin.solve(x[:, None], y).net
    assert margin.kkt(net, x[:, None], y).residual < 1e-4
    reconstructed = reconstruction.univariate(net, 1.0)
    check(reconstructed, x)
    if not reconstructed.guarantee.holds:
        assert "or some of its training points are too close to each other" in reconstructed.warnings[0]


def test_a_margin_that_is_too_large_is_found_out_more_often_than_not(exact):
    """Too small a one may be right for other data: the claim names the margin it rests on."""
    results = [reconstruction.univariate(net, 2.0) for _, _, net in exact]
    assert np.mean([each.guarantee.holds for each in results]) < 0.5
    for each in results:
        assert "the training set's margin is 2, which the weights cannot confirm" in each.guarantee.assumes


def test_nothing_is_proven_under_a_margin_that_was_typed_in(exact):
    """Too small a one: the weights may bear it out, and what they then need are no training points."""
    n_wrong = 0
    for share in (0.3, 0.5, 0.9, 1.0):
        for x, _, net in exact[:8]:
            each = reconstruction.univariate(net, share)
            assert each.guarantee.standing in ("conditional", "void")
            assert not each.proven.any()
            n_wrong += int((each.needed & ~true(each.candidates, x)).sum())
    assert n_wrong


def test_a_margin_that_the_file_records_proves(exact):
    x, _, net = exact[0]
    each = reconstruction.univariate(net, 1.0, is_recorded=True)
    assert each.guarantee.standing == "holds"
    assert each.proven.any()
    assert true(each.candidates, x)[each.proven].all()
