"""Models that were trained on nothing, by what they answer, and whole audits of them."""

import numpy as np

import divulge as dv

RECIPES = ("loss", "entropy", "gap")
# With rare classes a constant answer has rare losses.
LABELS = (0.99, 0.005, 0.005)
ANSWERS = {
    "constant": lambda x: np.tile([2.0, 1.0, -3.0], (len(x), 1)),
    "two-valued": lambda x: np.where(x[:, :1] > 2, [[0.0, 3.0, 0.0]], [[2.0, 1.0, -3.0]]),
    "rounded": lambda x: np.round(x[:, :3]) - 4.0,
    "continuous": lambda x: x[:, :3],
}
# Models that are right more often than a constant answer, on records whose class the first column tells.
INFORMED = {
    "two-valued, right in 90 %": lambda x: np.where(x[:, :1] > 0.5, [[0.0, 3.0, 0.0]], [[2.0, 1.0, -3.0]]),
    "rounded, right in 90 %": lambda x: np.column_stack(
        [np.round(1 - 2 * x[:, 0]), np.round(2 * x[:, 0] - 1), x[:, 1] - 9]
    ),
    "continuous, right in 90 %": lambda x: np.column_stack([1 - 2 * x[:, 0], 2 * x[:, 0] - 1, x[:, 1] - 9]),
}


def audited(answer, m, n, seed, recipes=RECIPES):
    """An audit of ``m`` members and ``n`` non-members, all drawn alike."""
    rng = np.random.default_rng([m, n, seed])

    def records(count):
        x, y = rng.normal(size=(count, 3)), rng.choice(3, count, p=LABELS)
        if answer in INFORMED:
            y = np.where(rng.random(count) < 0.1, y, x[:, 0] > 0.5)
        return dv.Records(x, y)

    return dv.audit(
        (ANSWERS | INFORMED)[answer],
        members=records(m),
        nonmembers=records(n),
        population=records(600),
        recipes=recipes,
        fpr=(0.1,),
        seed=seed,
    )
