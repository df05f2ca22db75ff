"""Train two small models, and write them with the records that an audit needs: ``python train.py [FOLDER]``.

Put your own training in its place. What matters is that records are set aside before it: non-members and population.
"""

import sys
from pathlib import Path

import numpy as np
import skops.io
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
(folder / "data").mkdir(parents=True, exist_ok=True)
(folder / "models").mkdir(exist_ok=True)

x, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(x))
members, nonmembers, population = np.split(order, [600, 1200])
for name, rows in {"members": members, "nonmembers": nonmembers, "population": population}.items():
    np.savez(folder / "data" / f"{name}.npz", x=x[rows], y=y[rows])

models = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.01)),
    "forest": RandomForestClassifier(100, min_samples_leaf=40, random_state=0),
}
for name, model in models.items():
    skops.io.dump(model.fit(x[members], y[members]), folder / "models" / f"{name}.skops")
