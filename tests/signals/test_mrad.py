"""MRAD and its parts: gradients on unknown values, queries, detectors, against naive formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge import completion, signals
from divulge.signals import mrad
from divulge.targets import CallableTarget, Metered, TorchTarget

MRAD = signals.MRAD


class Distance:
    """A detector of one's own."""

    def deviation(self, target, x, labels):
        return np.abs(x).sum(axis=1)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    return dv.Records(rng.normal(size=(120, 8)) + y[:, None], y)


@pytest.fixture(scope="module")
def auxiliary():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 300)
    return dv.Records(rng.normal(size=(300, 8)) + y[:, None], y)


@pytest.fixture(scope="module")
def target(records):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    x, y = torch.from_numpy(records.x), torch.from_numpy(records.y)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return TorchTarget(model, device="cpu")


@pytest.fixture(scope="module")
def partial(records):
    return dv.PartialRecords(records.x, records.y, np.arange(8) < 3)


def test_defaults_are_the_published_ones():
    settings = MRAD()
    assert (settings.step, settings.iterations, settings.start) == (1000.0, 1, "zeros")
    assert (settings.directions, settings.epsilon, settings.clip) == (100, 0.01, None)


def test_records_of_another_size_are_refused(target, auxiliary):
    short_records = dv.PartialRecords(np.zeros((4, 3)), np.zeros(4, int), np.array([True, False, False]))
    with pytest.raises(dv.InputError, match="x: 8 values per record are needed, got 3"):
        MRAD(detector="gradient-norm").fit(auxiliary).measure(target, short_records)


@pytest.mark.parametrize("start", ["zeros", completion.Mean(per_class=False)], ids=["zeros", "mean"])
def test_one_step_descends_the_loss_on_unknown_values_alone(target, auxiliary, partial, start):
    settings = MRAD(step=0.5, detector="gradient-norm", start=start)
    zeros = start == "zeros"
    start = np.where(partial.known, partial.x, 0.0) if zeros else start.fit(auxiliary).complete(partial)[0]
    gradient = target.gradients(dv.Records(start, partial.y))
    completed = settings.fit(auxiliary).complete(target, partial)
    np.testing.assert_allclose(completed, np.where(partial.known, partial.x, start - 0.5 * gradient))
    before, after = (target.loss(dv.Records(x, partial.y)).mean() for x in (start, completed))
    assert after < before


@pytest.mark.parametrize("clip", ["range", (-0.1, 0.2)])
def test_clipping_keeps_unknown_values_in_range(target, auxiliary, partial, clip):
    completed = MRAD(clip=clip, iterations=2, detector="gradient-norm").fit(auxiliary).complete(target, partial)
    low, high = (auxiliary.x.min(axis=0), auxiliary.x.max(axis=0)) if clip == "range" else clip
    unknown = ~partial.known
    assert (np.broadcast_to(low, completed.shape)[unknown] <= completed[unknown]).all()
    assert (completed[unknown] <= np.broadcast_to(high, completed.shape)[unknown]).all()
    np.testing.assert_array_equal(completed[partial.known], partial.x[partial.known])


def test_zeroth_order_estimates_come_to_the_gradient(target, auxiliary, partial):
    start = completion.Mean(per_class=False).fit(auxiliary).complete(partial)[0]
    exact = np.where(partial.known, 0, target.gradients(dv.Records(start, partial.y)))
    result = mrad.Gradients("black", directions=400).compute(target, start, partial.y, partial.known, 0)
    # The estimate's relative error is about sqrt(unknown / directions) = 0.11.
    assert np.linalg.norm(result - exact) < 0.3 * np.linalg.norm(exact)
    assert (result[partial.known] == 0).all()


@pytest.mark.parametrize(("iterations", "directions"), [(1, 5), (3, 2)])
def test_black_box_queries_are_counted(target, auxiliary, partial, iterations, directions):
    meter = Metered(target)
    fitted = MRAD(access="black", iterations=iterations, directions=directions, detector="nci").fit(auxiliary)
    fitted = replace(fitted, detector=Distance())
    fitted.measure(meter, partial)
    assert meter.queries == len(partial) * fitted.queries == len(partial) * 2 * iterations * directions


def test_queries_are_capped_before_the_first(target, auxiliary, partial):
    meter = Metered(target)
    with pytest.raises(
        dv.InputError, match=r"limit: 24000 queries are needed \(200 per record for 120 records\), got 23999"
    ):
        MRAD(access="black", detector="gradient-norm", limit=23999).fit(auxiliary).measure(meter, partial)
    assert meter.queries == 0
    MRAD(access="black", detector="gradient-norm", limit=24000).fit(auxiliary).measure(meter, partial)


@pytest.mark.parametrize(
    ("detector", "access"),
    [("cade", "white"), ("msad", "black"), ("nci", "white"), ("gradient-norm", "white"), ("gradient-norm", "black")],
)
def test_unknown_values_are_never_read(target, auxiliary, partial, detector, access):
    poisoned = dv.PartialRecords(np.where(partial.known, partial.x, np.nan), partial.y, partial.known)
    fitted = MRAD(step=1.0, access=access, detector=detector).fit(auxiliary, seed=3)
    values = fitted.measure(target, partial)
    assert values.shape == (120,)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(fitted.measure(target, poisoned), values)


@pytest.fixture(scope="module")
def overfitted():
    """A network that has learned the random labels of the first 60 of 120 records by heart, and 200 others."""
    rng = np.random.default_rng(5)
    pool = dv.Records(rng.normal(size=(120, 20)), rng.integers(0, 2, 120))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2)).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.from_numpy(pool.x[:60])), torch.from_numpy(pool.y[:60])).backward()
        optimizer.step()
    return TorchTarget(model), pool, dv.Records(rng.normal(size=(200, 20)), rng.integers(0, 2, 200))


def test_members_of_an_overfitted_model_have_small_gradients(overfitted):
    target, pool, auxiliary = overfitted
    partial_pool = dv.PartialRecords(pool.x, pool.y, np.arange(20) < 16)
    for access in ("white", "black"):
        values = (
            MRAD(detector="gradient-norm", access=access, directions=5).fit(auxiliary).measure(target, partial_pool)
        )
        assert dv.evaluation.auc(values, np.arange(120) < 60).low > 0.5


def test_nci_has_the_sign_of_its_definition_and_loses_it_when_records_are_thrown_far(overfitted):
    """Members deviate less as they are; after the unclipped step the length of the layer decides, and non-members' is
    the greater.
    """
    target, pool, auxiliary = overfitted
    members, partial_pool = np.arange(120) < 60, dv.PartialRecords(pool.x, pool.y, np.arange(20) < 16)
    fitted = MRAD(detector="nci").fit(auxiliary)
    full_deviation = -fitted.detector.deviation(target, pool.x, pool.y)
    assert dv.evaluation.auc(full_deviation, members).low > 0.5
    thrown = fitted.complete(target, partial_pool)
    assert dv.evaluation.auc(fitted.measure(target, partial_pool), members).high < 0.5
    assert dv.evaluation.auc(np.abs(target.head(dv.Records(thrown, pool.y))[0]).sum(1), members).high < 0.5


def test_cade_is_the_published_deviation(auxiliary, records):
    fitted = mrad.CADE.fit(auxiliary, 0)
    latent, new = fitted.encoder.outputs(auxiliary.x), fitted.encoder.outputs(records.x)
    for c in range(3):
        class_latent = latent[auxiliary.y == c]
        distances = np.linalg.norm(class_latent - class_latent.mean(axis=0), axis=1)
        mad = 1.4826 * np.median(np.abs(distances - np.median(distances)))
        rows = records.y == c
        expected = np.abs(np.linalg.norm(new[rows] - class_latent.mean(axis=0), axis=1) - np.median(distances)) / mad
        np.testing.assert_allclose(fitted.deviation(None, records.x, records.y)[rows], expected)


def test_msad_sums_the_two_nearest_squared_distances(auxiliary, records):
    fitted = mrad.MSAD.fit(auxiliary, 0)

    def direction(latent):
        shifted = latent / np.linalg.norm(latent, axis=1, keepdims=True) - fitted.centre
        return shifted / np.linalg.norm(shifted, axis=1, keepdims=True)

    reference_directions, new = (
        direction(fitted.encoder.outputs(auxiliary.x)),
        direction(fitted.encoder.outputs(records.x)),
    )
    squared = ((new[:, None] - reference_directions[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(
        fitted.deviation(None, records.x, records.y), np.sort(squared, axis=1)[:, :2].sum(axis=1), atol=1e-9
    )


def test_nci_reads_the_last_hidden_layer(target, auxiliary, records):
    hidden, output_layer = target.module[:2], target.module[2]
    with torch.no_grad():
        h = hidden(torch.from_numpy(records.x)).numpy()
        mu = hidden(torch.from_numpy(auxiliary.x)).numpy().mean(axis=0)
    w = output_layer.weight.detach().numpy()[target.labels(records)]
    expected = ((h - mu) * w).sum(axis=1) / np.linalg.norm(h - mu, axis=1) + 0.001 * np.abs(h).sum(axis=1)
    deviation = mrad.NCI.fit(auxiliary, 0).deviation(target, records.x, records.y)
    np.testing.assert_allclose(-deviation, expected, atol=1e-6)


def test_classes_lie_together_in_the_contrastive_latent(auxiliary, records):
    encoder = mrad.Contrastive().fit(auxiliary, 0)
    latent = encoder.outputs(records.x)
    centroids = np.stack([encoder.outputs(auxiliary.x[auxiliary.y == c]).mean(axis=0) for c in range(3)])
    nearest = ((latent[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == records.y).mean() > 0.7
    short = mrad.Contrastive(steps=5)
    np.testing.assert_array_equal(
        short.fit(auxiliary, 0).outputs(records.x), short.fit(auxiliary, 0).outputs(records.x)
    )


def test_the_shadow_ratio_is_the_shadows_mean_deviation_over_the_targets(target, auxiliary, partial):
    """δ_s / δ and not its inverse, with shadows that differ from the target and from each other."""
    networks = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        networks.append(TorchTarget(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).double()))
    zeros = dv.Records(np.where(partial.known, partial.x, 0.0), partial.y)
    first_shadow, second_shadow, target_norm = (
        np.linalg.norm(network.gradients(zeros)[:, ~partial.known[0]], axis=1) for network in (*networks, target)
    )
    values = MRAD(detector="gradient-norm").fit(auxiliary).measure(target, partial, shadows=networks)
    np.testing.assert_allclose(values, (first_shadow + second_shadow) / 2 / target_norm)


def test_rights_that_a_target_does_not_give(auxiliary, partial):
    black_box = CallableTarget(lambda x: x[:, :3])
    with pytest.raises(dv.InputError, match="'white' needs a target that gives gradients, CallableTarget does not"):
        MRAD(detector="gradient-norm").fit(auxiliary).measure(black_box, partial)
    with pytest.raises(dv.InputError, match="detector: 'nci' looks at a torch network"):
        MRAD(access="black", detector="nci").fit(auxiliary).measure(black_box, partial)
    with pytest.raises(dv.InputError, match="a loss needs labels"):
        MRAD(detector="gradient-norm").fit(auxiliary).measure(
            black_box, dv.PartialRecords(partial.x, None, partial.known)
        )


def test_signals_are_named_after_what_they_do():
    names = [
        MRAD(**options).name for options in ({}, {"clip": (0, 1)}, {"shadows": 3}, {"clip": "range", "shadows": 1})
    ]
    assert names == [
        "mrad-cade-white",
        "mrad-cade-white-clipped",
        "mrad-cade-white-shadow-ratio",
        "mrad-cade-white-clipped-shadow-ratio",
    ]
    assert MRAD(access="black", detector="msad").name == "mrad-msad-black"
