"""DP-SGD, with Opacus as the oracle."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import divulge as dv
from divulge.references import Private, Train, network_training, private, stacked

pytest.importorskip("opacus", reason="the oracle comes with the extra dp")


def train_with_opacus(config, data, rows, seed):
    """The product's own path for other networks, forced upon an MLP."""
    module = network_training.build_network(config.make_model, seed).double().train()
    step = private.OpacusClipping(config, module, len(rows), seed)
    steps = -(-len(rows) // config.batch_size)
    for epoch in range(config.epochs):
        for number, batch in enumerate(private.poisson_batches(rows, seed, epoch, steps, config.batch_size)):
            step(data.x[batch], data.y[batch], config.rate((epoch + number / steps) / config.epochs))
    return module


@pytest.mark.parametrize("settings", [{}, {"optimizer": "adam", "schedule": "cosine"}, {"weight_decay": 0.01}])
@pytest.mark.parametrize("noise", [0.0, 1.3])
def test_ghost_norms_equal_opacus_noise_included(records, networks, noise, settings):
    """Seven records a step on average: empty batches occur as well."""
    config = Train(
        networks.mlp, 2, epochs=3, batch_size=7, precision="double", privacy=Private(noise, clip=0.3), **settings
    )
    data = network_training.TrainingData(torch.from_numpy(records.x), torch.from_numpy(records.y))
    rows = np.arange(60)
    ours, opacus_model = private.train_privately(config, data, rows, 1), train_with_opacus(config, data, rows, 1)
    for parameter, opacus_parameter in zip(ours.parameters(), opacus_model.parameters(), strict=True):
        assert (parameter - opacus_parameter).abs().max().item() < 1e-9


def test_norms_are_those_of_every_records_own_gradient(records, networks):
    """Against the definition: one backward pass a record, clipped and summed."""
    config = Train(
        networks.mlp, 2, epochs=1, batch_size=10, lr=1.0, momentum=0.0, precision="double", privacy=Private(0.0, 0.2)
    )
    module = network_training.build_network(networks.mlp, 0).double()
    x, y = torch.from_numpy(records.x[:10]), torch.from_numpy(records.y[:10])
    total = [torch.zeros_like(p) for p in module.parameters()]
    for record, label in zip(x, y, strict=True):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(record[None]), label[None]).backward()
        norm = torch.sqrt(sum(p.grad.square().sum() for p in module.parameters()))
        for part, p in zip(total, module.parameters(), strict=True):
            part += p.grad * min(1.0, 0.2 / (norm.item() + 1e-6))
    expected = [p.detach() - part / 10 for p, part in zip(module.parameters(), total, strict=True)]
    private.GhostClipping(config, module, stacked.mlp_layers(module), 0)(x, y, 1.0)
    for got, want in zip(module.parameters(), expected, strict=True):
        assert (got - want).abs().max().item() < 1e-12


def test_the_noise_has_the_standard_deviation_of_noise_times_clip(networks):
    module = networks.mlp()
    for noise, clip in ((2.0, 0.5), (0.5, 3.0)):
        config = Train(networks.mlp, 2, privacy=Private(noise, clip))
        step = private.GhostClipping(config, module, stacked.mlp_layers(module), 0)
        (released,) = step.release([torch.full((40_000,), 5.0)])
        assert float(released.std()) == pytest.approx(noise * clip, rel=0.03)
        assert float(released.mean()) == pytest.approx(5.0, abs=0.05)
    quiet = private.GhostClipping(Train(networks.mlp, 2, privacy=Private(0.0)), module, stacked.mlp_layers(module), 0)
    totals = [torch.ones(2)]
    assert quiet.release(totals) is totals


def test_private_references_through_the_engines(fit, networks):
    train = Train(networks.mlp, 2, epochs=2, batch_size=20, privacy=Private(1.0))
    references = fit(train)
    assert "DP" not in references.engine
    assert (references.outputs[0] == fit(replace(train, engine="serial")).outputs[0]).all()
    noisier = fit(replace(train, privacy=Private(50.0)))
    assert np.abs(noisier.outputs[0]).max() > np.abs(references.outputs[0]).max()
    with pytest.raises(dv.InputError, match="one network at a time"):
        fit(replace(train, engine="stacked"))


def test_other_networks_are_trained_by_opacus(fit, networks):
    assert np.isfinite(fit(Train(networks.own, 2, epochs=1, batch_size=20, privacy=Private(1.0))).outputs[0]).all()
    with pytest.raises(dv.InputError, match="DP-SGD cannot train this network"):
        fit(Train(networks.cnn, 2, epochs=1, privacy=Private(1.0)))


def test_a_network_trained_by_opacus_carries_none_of_its_hooks(records, networks):
    """What a white-box attack reads later: gradients of single records, in any order, as of an equal plain network."""
    config = Train(networks.own, 2, epochs=1, batch_size=20, precision="double", privacy=Private(1.0))
    x, y = torch.from_numpy(records.x), torch.from_numpy(records.y)
    trained = private.train_privately(config, network_training.TrainingData(x, y), np.arange(60), 1)
    assert stacked.mlp_layers(trained) is None
    plain = network_training.build_network(networks.own, 0).double()
    plain.load_state_dict(trained.state_dict())
    for row in (3, 1, 3):
        got, want = (
            torch.autograd.grad(
                torch.nn.functional.cross_entropy(module(x[[row]]), y[[row]]), list(module.parameters())
            )
            for module in (trained, plain)
        )
        assert all(torch.equal(*pair) for pair in zip(got, want, strict=True))
    assert not any(hasattr(parameter, "grad_sample") for parameter in trained.parameters())
    assert all(parameter.grad is None for parameter in trained.parameters())


def test_sampling_is_poisson():
    """Mean and variance of batch sizes, each within five standard deviations of its own estimate."""
    sizes = np.array([len(b) for b in private.poisson_batches(np.arange(500), 0, 0, 4000, 50)])
    assert abs(sizes.mean() - 50) < 5 * np.sqrt(45 / 4000)
    assert abs(sizes.var() / 45 - 1) < 5 * np.sqrt(2 / 4000)


def test_the_accountant_is_opacus_own():
    from opacus.accountants import RDPAccountant

    opacus_accountant = RDPAccountant()
    for _ in range(120):
        opacus_accountant.step(noise_multiplier=1.1, sample_rate=0.05)
    ours = Private(1.1).epsilon(records=1000, batch_size=50, epochs=6, delta=1e-5)
    assert ours == pytest.approx(opacus_accountant.get_epsilon(1e-5), rel=1e-12)
    assert Private(1.1).epsilon(records=1000, batch_size=50, epochs=6, delta=1e-5, accountant="prv") < ours
    assert Private(0.0).epsilon(records=1000, batch_size=50, epochs=6, delta=1e-5) == float("inf")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Private(-1.0), "noise: must lie in"),
        (lambda: Private(1.0, clip=0.0), "clip: must lie in"),
        (lambda: Private(1.0).epsilon(records=10, batch_size=2, epochs=1, delta=1.0), "delta: must lie in"),
        (lambda: Train(lambda: None, privacy=Private(1.0), stop_at_accuracy=0.9), "not private"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(dv.InputError, match=message):
        call()


def test_divergence_is_noticed(records, networks):
    config = Train(networks.linear, 2, epochs=5, batch_size=10, lr=1e38, privacy=Private(0.0, clip=1e30))
    data = network_training.TrainingData(torch.from_numpy(records.x).float(), torch.from_numpy(records.y))
    with pytest.raises(network_training.DivergedError):
        private.train_privately(config, data, np.arange(100), 0)


@pytest.mark.parametrize(("stop_after", "expected"), [(None, [0.25, 0.5, 0.75, 1.0]), (3, [1 / 3, 2 / 3, 1.0])])
def test_progress_is_the_share_of_the_epochs_that_will_be_trained(records, networks, stop_after, expected):
    config = Train(networks.mlp, 2, epochs=4, batch_size=20, stop_after=stop_after, privacy=Private(1.0))
    data = network_training.TrainingData(torch.from_numpy(records.x).float(), torch.from_numpy(records.y))
    ticks = []
    private.train_privately(config, data, np.arange(40), 1, ticks.append)
    assert ticks == pytest.approx(expected)
