"""Generators of synthetic tables, for tests and benchmarks: they are no part of the product.

Each takes a pandas table, a number of rows and a seed, and returns a table of the same columns.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


def is_number(column):
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def encode(table):
    return np.column_stack(
        [column.fillna(column.median()) if is_number(column) else pd.factorize(column.astype(str), sort=True)[0]
         for _, column in table.items()]
    ).astype(float)  # fmt: skip


def copy_with_noise(table, n, seed, share=0.1):
    """Rows of the table with Gaussian noise of ``share`` standard deviations, in the table's own digits."""
    rng = np.random.default_rng(seed)
    copied = table.iloc[rng.integers(0, len(table), n)].reset_index(drop=True)
    for name, column in table.items():
        if is_number(column):
            noisy = copied[name] + rng.normal(size=n) * share * column.std()
            digits = next(
                d for d in range(12) if np.allclose(column.dropna(), column.dropna().round(d), rtol=0, atol=1e-9)
            )
            copied[name] = noisy.round(digits)
        else:
            others = table[name].sample(n, replace=True, random_state=seed).to_numpy()
            copied[name] = np.where(rng.random(n) < share / 2, others, copied[name])
    return copied


def trees(table, n, seed, leaf=5, smooth=0.0):
    """Sequential trees with donors from leaves, as synthpop's CART at its defaults (``leaf=5``)."""
    rng = np.random.default_rng(seed)
    codes = encode(table)
    rows = rng.integers(0, len(table), n)
    released, released_codes = {table.columns[0]: table.iloc[rows, 0].to_numpy()}, codes[rows, :1]
    for j, name in enumerate(table.columns[1:], start=1):
        column = table[name]
        kind = DecisionTreeRegressor if is_number(column) or column.nunique() > 30 else DecisionTreeClassifier
        tree = kind(min_samples_leaf=leaf, random_state=seed).fit(codes[:, :j], codes[:, j])
        leaves, theirs = tree.apply(codes[:, :j]), tree.apply(released_codes)
        donors = np.empty(n, dtype=int)
        for value in np.unique(theirs):
            mask = theirs == value
            donors[mask] = rng.choice(np.flatnonzero(leaves == value), mask.sum())
        values = column.to_numpy()[donors]
        if smooth and is_number(column):
            values = values + rng.normal(size=n) * smooth * column.std()
        released[name] = values
        released_codes = np.column_stack([released_codes, codes[donors, j]])
    return pd.DataFrame(released)


def copula(table, n, seed):
    """Gaussian copula with empirical quantiles, which are interpolated."""
    rng = np.random.default_rng(seed)
    codes = encode(table)
    jittered = codes + rng.random(codes.shape) * 1e-9
    normal = stats.norm.ppf((stats.rankdata(jittered, axis=0) - 0.5) / len(codes))
    drawn = stats.norm.cdf(rng.multivariate_normal(np.zeros(codes.shape[1]), np.corrcoef(normal.T), n))
    released = {}
    for j, (name, column) in enumerate(table.items()):
        if is_number(column):
            values = np.quantile(column.dropna(), drawn[:, j])
            released[name] = values.round(0) if (column.dropna() % 1 == 0).all() else values
        else:
            ordered = np.sort(column.astype(str).to_numpy())
            released[name] = ordered[np.minimum((drawn[:, j] * len(ordered)).astype(int), len(ordered) - 1)]
    return pd.DataFrame(released)


def chain(table, n, seed, bins=10, epsilon=None, edges=None):
    """A chain of columns by counts of neighbouring bins; with ``epsilon`` each count has Laplace noise.

    ``edges`` (name → edges of bins) come from elsewhere where the chain is to be private; a record counts in one cell
    of each of the ``d - 1`` tables, so the noise has scale ``2 (d - 1) / epsilon`` for tables with a record replaced.
    """
    rng = np.random.default_rng(seed)
    edges = edges or make_edges(table, bins)
    binned = bin_table(table, edges)
    names = list(table.columns)
    counts = {name: len(edges[name]) if isinstance(edges[name], list) else len(edges[name]) - 1 for name in names}
    drawn = {}
    for before, name in zip([None, *names], names, strict=False):
        if before is None:
            continue
        joint = np.zeros((counts[before], counts[name]))
        np.add.at(joint, (binned[before], binned[name]), 1)
        if epsilon is not None:
            joint = np.maximum(joint + rng.laplace(0, 2 * (len(names) - 1) / epsilon, joint.shape), 0)
        joint += 1e-9
        if before not in drawn:
            drawn[before] = rng.choice(counts[before], n, p=joint.sum(1) / joint.sum())
        conditional = joint / joint.sum(1, keepdims=True)
        drawn[name] = np.array([rng.choice(counts[name], p=conditional[code]) for code in drawn[before]])
    released = {}
    for name in names:
        if isinstance(edges[name], list):
            released[name] = np.array(edges[name], dtype=object)[drawn[name]]
        else:
            low, high = edges[name][drawn[name]], edges[name][drawn[name] + 1]
            values = low + rng.random(n) * (high - low)
            released[name] = values.round(0) if (table[name].dropna() % 1 == 0).all() else values
    return pd.DataFrame(released)


def make_edges(table, bins=10):
    return {
        name: np.linspace(column.min(), column.max() + 1e-9, bins + 1)
        if is_number(column)
        else sorted(column.astype(str).unique())
        for name, column in table.items()
    }


def bin_table(table, edges):
    binned = {}
    for name, edge in edges.items():
        if isinstance(edge, list):
            places = {value: code for code, value in enumerate(edge)}
            binned[name] = np.array([places.get(str(value), 0) for value in table[name]])
        else:
            values = table[name].fillna(table[name].median())
            binned[name] = np.clip(np.searchsorted(edge, values, "right") - 1, 0, len(edge) - 2)
    return binned


GENERATORS = {
    "copy + noise .1": lambda t, n, s: copy_with_noise(t, n, s, 0.1),
    "copy + noise .5": lambda t, n, s: copy_with_noise(t, n, s, 0.5),
    "trees, leaf 1": lambda t, n, s: trees(t, n, s, leaf=1),
    "trees, leaf 5": lambda t, n, s: trees(t, n, s, leaf=5),
    "trees, leaf 5, smoothed": lambda t, n, s: trees(t, n, s, leaf=5, smooth=0.1),
    "copula": copula,
    "chain, 10 bins": chain,
}
