"""The blind baseline on members and non-members of one kind: it calls them confounded no oftener than it says.

The p-value is exact, so a level of 5 % is met with 19 permutations, and undercut where statistics tie.
"""

import numpy as np

from divulge.evaluation import blind

LEVEL, SPLITS = 0.05, 8
WORDS = np.array(["cat", "dog", "runs", "sits", "1999", "2004"])


def smooth(rng, n):
    return rng.normal(size=(n, 3))


def skewed(rng, n):
    return np.exp(2 * rng.normal(size=(n, 2)))


def copies(rng, n):
    return rng.integers(0, 2, (n, 2)).astype(float)


def rare(rng, n):
    return (rng.random((n, 2)) < 0.03).astype(float)


def texts(rng, n):
    return np.array([" ".join(rng.choice(WORDS, 3)) for _ in range(n)], dtype=object)


TABLES = (smooth, skewed, copies, rare, texts)


def test_sound_splits_are_called_confounded_at_the_stated_rate_at_most():
    """8 splits of each kind with 10, 20 and 40 members of 50. Room for four standard errors, in each kind and over all
    of them: six bounds, of which one fails by chance once in 5,000 seeds."""
    rng = np.random.default_rng(50)
    alarms = np.zeros((len(TABLES), 3 * SPLITS), dtype=bool)
    for row, make_table in enumerate(TABLES):
        for seed in range(alarms.shape[1]):
            x, m = make_table(rng, 50), (10, 20, 40)[seed % 3]
            alarms[row, seed] = blind.baseline(x[:m], x[m:], seed, false_alarm=LEVEL, permutations=19).confounded
    for alarm_rates in (*alarms, alarms.ravel()):
        assert alarm_rates.mean() <= LEVEL + 4 * (LEVEL * (1 - LEVEL) / alarm_rates.size) ** 0.5
