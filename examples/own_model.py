"""Audit a torch model of your own: run python examples/own_model.py."""

import numpy as np
import torch
from torch import nn

import divulge as dv


def make_model():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))


def records(rng, n):
    """Your data goes here: rows and whole-number labels."""
    x = rng.normal(size=(n, 20)).astype(np.float32)
    y = (x[:, 0] > 0) * 2 + (x[:, 1] + rng.normal(size=n) > 0)
    return dv.Records(x, y.astype(np.int64))


def main():
    rng = np.random.default_rng(0)
    members, nonmembers, population = records(rng, 300), records(rng, 300), records(rng, 1200)

    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.from_numpy(members.x), torch.from_numpy(members.y)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    result = dv.audit(
        model,
        members=members,
        nonmembers=nonmembers,
        population=population,
        recipes=("loss", "lira", "rmia"),
        references=dv.references.Train(make_model, count=8, epochs=40),
    )
    print(result.verdict.text)
    for name in result:
        print(f"{name:6} AUC {result[name].auc}   TPR at FPR 1 % {result[name].tpr_at_fpr(0.01)}")


if __name__ == "__main__":
    main()
