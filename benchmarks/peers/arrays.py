"""The arrays that every peer is given: a leak of known size, scores that know nothing, records to train on."""

from __future__ import annotations

from importlib import resources

import numpy as np

RECORDS, TINY = 200, 20


def leak(n, models, population, seed, *, paired=True, size=1.0):
    """Scaled logits: Gaussian around a record's own mean, higher by its own amount where the model has seen it.

    Args:
        n: candidates; half are members.
        models: reference models.
        population: further records, which no model has seen.
        seed: an integer.
        paired: whether every record is in exactly one of each two models; else each model tosses a coin for each.
        size: mean of what having been seen adds; 0 is no leak.
    """
    rng = np.random.default_rng(seed)
    mean, added = rng.normal(2, 2, n), size * rng.exponential(1, n)
    members = rng.permutation(n) < n // 2
    trained_on = rng.random((models, n)) < 0.5
    if paired:
        trained_on[1::2] = ~trained_on[: models - 1 : 2]
    hardness = rng.normal(2, 2, population)
    return {
        "target": rng.normal(mean + added * members),
        "references": rng.normal(mean + added * trained_on),
        "trained_on": trained_on,
        "members": members,
        "population": rng.normal(hardness),
        "population_references": rng.normal(hardness, size=(models, population)),
    }


def _coins(rng, runs, n, share=0.5):
    """Members by independent coins, at least three a side."""
    members = rng.random((runs, n)) < share
    members[:, :3], members[:, 3:6] = True, False
    return rng.permuted(members, axis=1)


def _shuffled(rng, shape):
    """A leak's scores, a fifth of them far up, in another order than the records."""
    return rng.permuted(rng.normal(size=shape) + 3 * (np.arange(shape[1]) % 5 == 0), axis=1)


NULLS = {
    "no leak": (RECORDS, 0.5, lambda rng, shape: rng.normal(size=shape)),
    "rows shuffled": (RECORDS, 0.5, _shuffled),
    "ties: rounded": (RECORDS, 0.5, lambda rng, shape: rng.normal(size=shape).round()),
    "ties: two values": (RECORDS, 0.5, lambda rng, shape: 1.0 * (rng.random(shape) < 0.5)),
    "constant": (RECORDS, 0.5, lambda rng, shape: np.zeros(shape)),
    "20 records": (TINY, 0.5, lambda rng, shape: rng.normal(size=shape)),
    "30 of 1,000 no members": (1000, 0.97, lambda rng, shape: rng.normal(size=shape)),
}


def nulls(runs, seed):
    """Case → scores and members ``[runs, n]``; nothing is to be found in any."""
    cases = {}
    for i, (name, (n, share, draw)) in enumerate(NULLS.items()):
        rng = np.random.default_rng([seed, i])
        cases[f"{name}/scores"], cases[f"{name}/members"] = draw(rng, (runs, n)), _coins(rng, runs, n, share)
    return cases


FEW_MODELS = (1, 2, 4)


def few(runs, seed):
    """Number of reference models → the arrays of `leak`, one more axis in front; no model leaks anything."""
    cases = {}
    for models in FEW_MODELS:
        tables = [leak(RECORDS, models, RECORDS, [seed, models, run], size=0.0) for run in range(runs)]
        cases |= {f"{models}/{name}": np.stack([table[name] for table in tables]) for name in tables[0]}
    return cases


def training(models, seed):
    """1,000 pictures of the Fashion-MNIST subset, each for half of the models."""
    rng = np.random.default_rng(seed)
    with resources.files("divulge").joinpath("data/fashion_mnist_small.npz").open("rb") as file:
        data = np.load(file)
        x, test_x = (np.float32(data[f"x_{name}"].reshape(-1, 784) / 255) for name in ("train", "test"))
        y, test_y = data["y_train"].astype(np.int64), data["y_test"].astype(np.int64)
    trained_on = np.argsort(rng.random((models, 1000)), axis=1) < 500
    trained_on[1::2] = ~trained_on[: models - 1 : 2]
    return {"x": x[:1000], "y": y[:1000], "trained_on": trained_on, "test_x": test_x, "test_y": test_y}
