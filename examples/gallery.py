"""Sample reports of six kinds, from data that come with Divulge and scikit-learn: `python examples/gallery.py OUT`.

The documentation shows them; each is written as a run directory OUT/NAME, with its page in OUT/NAME/report.html.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier

import divulge as dv
from divulge import demo
from divulge.references import Custom


def audit(out):
    """A forest that names pieces of clothing, trained on 200 images; `divulge audit --demo` audits a network."""
    whole = demo.fashion_mnist()
    images = dv.Records(whole.x.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)), whole.y)  # half as wide and high
    order = np.random.default_rng(0).permutation(len(images))
    members, nonmembers, population = (images[rows] for rows in np.split(order[:800], [200, 400]))

    def train(records, seed):
        pixels = records.x.reshape(len(records), -1)
        forest = RandomForestClassifier(30, random_state=seed).fit(pixels, records.y)
        return lambda x: np.log(forest.predict_proba(x.reshape(len(x), -1)) + 1e-9)

    dv.audit(
        train(members, 0),
        members=members,
        nonmembers=nonmembers,
        population=population,
        recipes=["loss", "calibrated", "rmia"],
        references=Custom(train, count=2),
        out=out,
        progress=False,
    )


def identification(out):
    """A forest that reads digits, and 400 images of which nobody says which ones it was trained on."""
    images, digits = load_digits().images / 16, load_digits().target
    order = np.random.default_rng(0).permutation(len(images))[:1000]
    used, unused, others = (dv.Records(images[rows], digits[rows]) for rows in np.split(order, [200, 400]))
    forest = RandomForestClassifier(100, random_state=0).fit(used.x.reshape(-1, 64), used.y)
    dv.identify(
        candidates=dv.Records(np.concatenate([used.x, unused.x]), np.concatenate([used.y, unused.y])),
        target=lambda x: np.log(forest.predict_proba(x.reshape(-1, 64)) + 1e-9),
        population=others,
        recipes=["loss"],
        fdr=0.1,
        out=out,
    )


def synthetic(out):
    """A table that is called synthetic: every value of it was taken from some patient, and a few rows are copies."""
    data = load_breast_cancer()
    rng = np.random.default_rng(0)
    columns = [f"mean {name}" for name in ("radius", "texture", "smoothness", "concavity")]
    table = pl.DataFrame(data.data, schema=list(data.feature_names)).select(columns)
    order = rng.permutation(len(table))
    members, nonmembers, population = (table[rows] for rows in (order[:150], order[150:300], order[300:]))
    donors = {name: members[name].sample(140, seed=seed) for seed, name in enumerate(columns)}
    released = pl.concat([pl.DataFrame(donors), members[:10]])
    dv.synthetic.audit(released, members=members, nonmembers=nonmembers, population=population, out=out)


def erasure(out):
    """A forest that was to forget 200 images, and was trained again with half of them still among the others."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    forget, never, others = order[:200], order[200:500], order[500:800]

    def train(rows, seed):
        return RandomForestClassifier(20, random_state=seed).fit(x[rows], y[rows])

    dv.forget(
        train(np.concatenate([forget, others]), seed=0),
        train(np.concatenate([forget[:100], others]), seed=1),
        forget=dv.Records(x[forget], y[forget]),
        never=dv.Records(x[never], y[never]),
        retrained=[train(others, seed) for seed in range(2, 8)],
        out=out,
    )


def cohorts(out):
    """Two cohorts of patients, and a linear model that was published with five decimals."""
    data = load_breast_cancer()
    x, y = data.data[:, [1, 4]], data.data[:, 0]  # radius by texture and smoothness
    order = np.random.default_rng(0).permutation(len(x))
    files = {"oslo": order[:120], "rome": order[120:260], "wien": order[260:350]}
    used = np.concatenate([files["oslo"], files["rome"]])
    fitted = np.linalg.lstsq(np.c_[x[used], np.ones(len(used))], y[used], rcond=None)[0].round(5)
    published = dv.margin.Publication(fitted[:2], fitted[2], "linear", decimals=5)
    dv.examine_cohorts(published, {name: (x[rows], y[rows]) for name, rows in files.items()}, out=out)


def settings(out):
    """`divulge defend`: what a forest gives away with larger leaves, and what they cost."""
    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, [1, 4, 8, 9]]  # texture, smoothness, symmetry, fractal dimension
    order = np.random.default_rng(0).permutation(len(x))
    members, nonmembers, population = (dv.Records(x[rows], y[rows]) for rows in np.array_split(order, 3))
    model = RandomForestClassifier(20, random_state=0).fit(members.x, members.y)
    dv.defences.measure_settings(
        model,
        members=members,
        nonmembers=nonmembers,
        population=population,
        settings=[{"min_samples_leaf": 5}, {"min_samples_leaf": 20}],
        recipes=["loss"],
        max_loss=0.1,
        out=out,
    )


SAMPLES = (audit, identification, synthetic, erasure, cohorts, settings)

if __name__ == "__main__":
    for write in SAMPLES:
        folder = Path(sys.argv[1]) / write.__name__
        write(folder)
        print(folder / "report.html")
