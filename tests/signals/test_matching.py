"""Gradient matching: per-record weight gradients against one backward pass a record."""

import numpy as np
import pytest
import torch
from torch import nn

import divulge as dv
from divulge import completion, signals
from divulge.targets import CallableTarget, TorchTarget


@pytest.fixture(scope="module")
def target():
    torch.manual_seed(0)
    return TorchTarget(
        nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Dropout(), nn.Linear(9, 3)), device="cpu"
    )


@pytest.fixture(scope="module")
def auxiliary():
    rng = np.random.default_rng(1)
    return dv.Records(rng.normal(size=(200, 6)), rng.integers(0, 3, 200))


@pytest.fixture(scope="module")
def partial():
    rng = np.random.default_rng(2)
    return dv.PartialRecords(rng.normal(size=(40, 6)), rng.integers(0, 3, 40), np.arange(6) < 3)


def naive(target, x, labels):
    """The squared norm of the gradient with respect to all weights, a record at a time."""
    module, norms = target.module.eval(), []
    for record, label in zip(torch.from_numpy(x).float(), torch.from_numpy(labels), strict=True):
        module.zero_grad()
        nn.functional.cross_entropy(module(record[None]), label[None]).backward()
        norms.append(sum(float((p.grad**2).sum()) for p in module.parameters()))
    module.zero_grad()
    return np.array(norms)


def test_the_mismatch_is_the_gradient_in_all_weights(target, auxiliary, partial):
    start = completion.Mean(per_class=False).fit(auxiliary).complete(partial)[0]
    values = signals.GradientMatching(steps=0).fit(auxiliary).measure(target, partial)
    np.testing.assert_allclose(values, -np.log(naive(target, start, partial.y)), rtol=1e-4)


def test_steps_match_better_and_leave_the_target_as_it_was(target, auxiliary, partial):
    target.module.train()
    before = {name: value.clone() for name, value in target.module.state_dict().items()}
    few_steps, many_steps = (
        signals.GradientMatching(steps=steps, rate=0.05).fit(auxiliary).measure(target, partial) for steps in (0, 8)
    )
    assert (many_steps > few_steps).mean() > 0.9
    assert target.module.training
    assert all(torch.equal(value, before[name]) for name, value in target.module.state_dict().items())


def test_a_network_that_gives_probabilities_is_asked_for_the_same(target, auxiliary, partial):
    softmax = TorchTarget(nn.Sequential(target.module, nn.Softmax(dim=1)), outputs="probabilities", device="cpu")
    fitted = signals.GradientMatching(steps=1).fit(auxiliary)
    np.testing.assert_allclose(fitted.measure(softmax, partial), fitted.measure(target, partial), rtol=1e-3)


def test_unknown_values_are_never_read(target, auxiliary, partial):
    poisoned = dv.PartialRecords(np.where(partial.known, partial.x, np.nan), partial.y, partial.known)
    fitted = signals.GradientMatching(steps=2).fit(auxiliary)
    np.testing.assert_array_equal(fitted.measure(target, poisoned), fitted.measure(target, partial))


@pytest.mark.parametrize(
    ("settings", "message"), [({"steps": -1}, "steps: must be"), ({"rate": 0.0}, "rate: must lie")]
)
def test_bad_settings(settings, message):
    with pytest.raises(dv.InputError, match=message):
        signals.GradientMatching(**settings)


def test_what_it_cannot_do_without(target, auxiliary, partial):
    fitted = signals.GradientMatching().fit(auxiliary)
    with pytest.raises(dv.InputError, match="a torch network's weights are needed, CallableTarget shows none"):
        fitted.measure(CallableTarget(lambda x: x[:, :3]), partial)
    with pytest.raises(dv.InputError, match="a loss needs labels"):
        fitted.measure(target, dv.PartialRecords(partial.x, None, partial.known))
