"""Section 4.3 of Thaker et al. 2025: with plain SGD an L2 penalty is weight decay."""

import torch


def trained(kind, decay, penalty, decoupled_decay=0.0):
    """Weights after ten steps on a small regression, the L2 penalty in the loss and the decay in the optimiser."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(20, n, dtype=torch.float64, generator=generator) for n in (3, 1))
    weights = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    optimizer = kind([weights], lr=0.1, weight_decay=decay)
    for _ in range(10):
        loss = (x @ weights - y).square().mean() + penalty / 2 * weights.square().sum()
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            weights -= 0.1 * decoupled_decay * weights  # decay by itself, before the step, as in AdamW
        optimizer.step()
    return weights.detach()


def test_with_plain_sgd_a_penalty_is_decay():
    penalised = trained(torch.optim.SGD, 0.0, 0.3)
    torch.testing.assert_close(penalised, trained(torch.optim.SGD, 0.3, 0.0))
    torch.testing.assert_close(penalised, trained(torch.optim.SGD, 0.0, 0.0, decoupled_decay=0.3))
    assert not torch.allclose(penalised, trained(torch.optim.SGD, 0.0, 0.0))


def test_with_adam_it_is_not():
    """Its `weight_decay` is the penalty, divided by the root of the mean square as any gradient is."""
    penalised = trained(torch.optim.Adam, 0.0, 0.3)
    torch.testing.assert_close(penalised, trained(torch.optim.Adam, 0.3, 0.0))
    assert not torch.allclose(penalised, trained(torch.optim.AdamW, 0.3, 0.0), atol=1e-3)
    torch.testing.assert_close(
        trained(torch.optim.AdamW, 0.3, 0.0), trained(torch.optim.Adam, 0.0, 0.0, decoupled_decay=0.3)
    )
