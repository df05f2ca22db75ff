"""How much a network gives away after each epoch: run python examples/leak_per_epoch.py.

Canaries prove a lower bound on ε; members and non-members show how well a record's use can be told from its loss.
"""

import numpy as np
import torch
from torch import nn

import divulge as dv

rng = np.random.default_rng(0)


def draw(n):
    """Draw images whose labels are partly guesses, which a network can only learn by heart."""
    x = rng.normal(size=(n, 8, 8)).astype("float32")
    return x, np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), x.mean(axis=(1, 2)) > 0)


(x, y), others = draw(300), draw(300)
monitor = dv.canaries.Monitor(200, members=dv.Records(x, y), nonmembers=dv.Records(*others), seed=0)
data = monitor.insert(torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)))
loader = torch.utils.data.DataLoader(data, batch_size=50, shuffle=True)
torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
monitor.check(loader, model, optimizer=optimizer)
for epoch in range(1, 16):
    for batch, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()
    look = monitor.measure(model, step=epoch)
    if epoch % 3 == 0:
        print(
            f"epoch {epoch:2}: ε ≥ {look['divulge/epsilon']:.2f} (all so far: {look['divulge/epsilon_so_far']:.2f}), "
            f"AUC of canaries {look['divulge/auc']:.2f}, of members {look['divulge/members_auc']:.2f} "
            f"(without the model {look['divulge/blind_auc']:.2f})"
        )
print(monitor.finish())
