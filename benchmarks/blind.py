"""What becomes of honest models whose split is shifted or full of duplicates, and of leaks, over whole audits.

OMP_NUM_THREADS=1 PYTHONPATH=src:tests DIVULGE_DATA=… python benchmarks/blind.py PART… [--runs 100] [--most 60000]
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn import ensemble
from sklearn.datasets import load_digits

import divulge as dv
from divulge import evaluation
from divulge.evaluation import blind

ANSWERS = ("leak found", "no leak found", "too little data to say", "split is confounded")
POPULATION = 400
CHECKED = 5000  # in larger cells two answers are compared with those of the whole audit
HEADER = f"| {' | '.join(ANSWERS)} |"
RULE = "|---" * len(ANSWERS) + "|"


def audited(x, y, population, model, seed, **kwargs):
    """The answer of an audit: ``x`` and ``y`` are pairs of members' and non-members' values."""
    sets = [dv.Records(*side) for side in zip(x, y, strict=True)]
    return dv.audit(
        model, members=sets[0], nonmembers=sets[1], population=dv.Records(*population), recipes=["loss"],
        fpr=(0.01 if len(sets[1]) >= evaluation.min_nonmembers(0.01) else 0.05,), seed=seed, **kwargs,
    ).verdict.answer  # fmt: skip


def first_answer(x, y, population, model, seed):
    """The same answer, sooner where the split is confounded: an audit says so before it looks at any score."""
    baseline_model = blind.baseline(x[0], x[1], seed, y_members=y[0], y_nonmembers=y[1], other_records=population)
    return "split is confounded" if baseline_model.confounded else audited(x, y, population, model, seed)


def count_answers(answers):
    counter = Counter(answers)
    return " | ".join(str(counter[answer]) for answer in ANSWERS)


def linear(x):
    """An honest model that reads the first column, the shifted one."""
    return np.column_stack([2 * x[:, 0], np.zeros(len(x))])


def wiggly(x):
    """An honest model whose answers are no smooth function of the records."""
    hidden = np.tanh(2 * x @ np.random.default_rng(1).normal(size=(x.shape[1], 60)))
    return np.column_stack([2 * x[:, 0] + hidden @ np.random.default_rng(2).normal(size=60) / 4, np.zeros(len(x))])


def draw_records(rng, n):
    return rng.normal(size=(n, 10)), (rng.random(n) < 0.1).astype(int)


def shift(runs, max_records):
    """A model trained on nothing; one of ten columns of the "members" is shifted by so many standard deviations."""
    print(f"\n| model | a side | shift {HEADER}\n|---|---|---{RULE}")
    cells = [
        (n, s) for n, size in ((500, 0.3), (2000, 0.16), (5000, 0.1), (20000, 0.06), (60000, 0.04)) for s in (0, size)
    ]
    for model in (linear, wiggly):
        for n, moved in cells:
            if n > max_records:
                continue
            answers = []
            for seed in range(runs):
                rng = np.random.default_rng([seed, n])
                (x, a), (z, b), population = draw_records(rng, n), draw_records(rng, n), draw_records(rng, POPULATION)
                x[:, 0] += moved
                answers.append(first_answer((x, z), (a, b), population, model, seed))
                if n > CHECKED and seed < 2:
                    assert answers[-1] == audited((x, z), (a, b), population, model, seed)
            print(f"| {model.__name__} | {n:,} | {moved:g} | {count_answers(answers)} |", flush=True)


def leak(runs, max_records):
    """No shift; the model answers its training records with a little more confidence."""
    print(f"\n| model | a side | raised by {HEADER}\n|---|---|---{RULE}")
    for model in (linear, wiggly):
        for n, raised in ((60, 1.2), (100, 0.9), (200, 0.7), (500, 0.45), (2000, 0.22), (5000, 0.14), (20000, 0.07)):
            if n > max_records:
                continue
            answers = []
            for seed in range(runs):
                rng = np.random.default_rng([seed, n])
                (x, a), (z, b), population = draw_records(rng, n), draw_records(rng, n), draw_records(rng, POPULATION)
                label_of = dict(zip(x[:, 9], a, strict=True))

                def remembers(records, label_of=label_of, model=model, raised=raised):
                    labels_known = np.array([label_of.get(value, -1) for value in records[:, 9]])
                    return model(records) + raised * (labels_known[:, None] == [0, 1])

                answers.append(audited((x, z), (a, b), population, remembers, seed))
            print(f"| {model.__name__} | {n:,} | {raised:g} | {count_answers(answers)} |", flush=True)


def tables():
    """Real tables with duplicates, and one whose records have 1 to 8 copies."""
    folder = Path(os.environ["DIVULGE_DATA"])
    z = np.load(folder / "adult.npz")
    names = list(z["num_names"])
    columns = [
        names.index(name)
        for name in names
        if name in ("age", "education_num", "education-num", "hours_per_week", "hours-per-week")
    ]
    yield (
        "adult, 3 columns and sex",
        np.column_stack([z["X_num"][:, columns], z["X_cat"][:, -2]]).astype(float),
        z["y"].astype(int),
    )
    z = np.load(folder / "titanic2201.npz")
    yield "titanic", z["X"].astype(float), z["y"].astype(int)
    rng = np.random.default_rng(0)
    columns_drawn = rng.normal(size=(5300, 11))
    rows = np.repeat(np.arange(5300), np.where(rng.random(5300) < 0.19, rng.integers(2, 4, 5300), 1))
    yield (
        "18 % have copies, as wine",
        columns_drawn[rows],
        (columns_drawn[rows, 0] + columns_drawn[rows, 1] > 0).astype(int),
    )


def copies(runs, max_records):
    """A model that saw no candidate; a table full of duplicates is divided at random, 1,500 + 1,500 and 2,000 + 300."""
    print(f"\n| table | duplicates | members / non-members {HEADER}\n|---|---|---{RULE}")
    for name, x, y in tables():
        weights = np.random.default_rng(3).normal(size=x.shape[1]) / (x.std(0) + 1e-9)

        def model(records, weights=weights, x=x):
            z = (records - x.mean(0)) @ weights
            return np.column_stack([np.sin(z) - z / 2, np.zeros(len(records))])

        for policy in ("drop", "keep"):
            for m, n in ((1500, 1500), (2000, 300)):
                if name == "titanic":
                    m, n = (900, 900) if m == n else (1500, 300)
                answers = []
                for seed in range(runs):
                    rows = np.random.default_rng([seed, m]).permutation(len(x))
                    inside, outside, population_rows = rows[:m], rows[m : m + n], rows[m + n :][:1500]
                    try:
                        answers.append(
                            audited(
                                (x[inside], x[outside]),
                                (y[inside], y[outside]),
                                (x[population_rows], y[population_rows]),
                                model,
                                seed,
                                duplicates=policy,
                            )
                        )
                    except dv.InputError:
                        answers.append("refused")
                refused = answers.count("refused")
                print(
                    f"| {name} | {policy} | {m:,} / {n:,} | {count_answers(answers)} |"
                    + f" refused: {refused}" * bool(refused),
                    flush=True,
                )


def digits_of_annotators(rng):
    """A forest on other digits; of the non-members every tenth label is wrong."""
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(1750)
    rows, training_rows = order[500:], order[:500]
    model = ensemble.RandomForestClassifier(60, random_state=0).fit(x[training_rows], y[training_rows])
    wrong = rows[450:900][rng.random(450) < 0.1]
    y[wrong] += rng.integers(1, 10, len(wrong))
    return model, x[rows], y[rows] % 10, 450


def interactions(rng):
    """A forest on other records; the label depends on three columns together, 12 % of the non-members' are wrong."""
    x = rng.normal(size=(3000, 6))
    y = ((x[:, 0] * x[:, 1] > 0) ^ (x[:, 2] > 0)).astype(int)
    model = ensemble.RandomForestClassifier(60, random_state=0).fit(x[:1200], y[:1200])
    y[1700:2200] ^= rng.random(500) < 0.12
    return model, x[1200:], y[1200:], 500


def measured_values(rng):
    """A forest on other records; the non-members' values were measured with 1.4 times the noise."""
    x = rng.normal(size=(2600, 6))
    y = np.sin(2 * x[:, 0]) * x[:, 1] * 2 + x[:, 2] ** 2
    y += rng.normal(size=2600) * np.where((np.arange(2600) >= 1600) & (np.arange(2600) < 2000), 0.7, 0.5)
    model = ensemble.RandomForestRegressor(60, random_state=0).fit(x[:1200], y[:1200])
    return model, x[1200:], y[1200:], 400


def labels(runs, max_records):
    """A model that saw no candidate; the labels of the non-members are less sure than those of the members."""
    print(f"\n| labels {HEADER}\n|---{RULE}")
    for draw in (digits_of_annotators, interactions, measured_values):
        answers = []
        for seed in range(runs):
            model, x, y, n = draw(np.random.default_rng(seed))
            sides = (x[:n], x[n : 2 * n]), (y[:n], y[n : 2 * n])
            answers.append(audited(*sides, (x[2 * n :], y[2 * n :]), model, seed))
        print(f"| {draw.__name__} | {count_answers(answers)} |", flush=True)


PARTS = {"shift": shift, "leak": leak, "copies": copies, "labels": labels}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--most", type=int, default=60_000, help="largest number of records of a kind")
    arguments = parser.parse_args()
    for part in arguments.parts:
        print(f"\n# `benchmarks/blind.py {part} --runs {arguments.runs}`\n\n{PARTS[part].__doc__}", flush=True)
        PARTS[part](arguments.runs, arguments.most)
