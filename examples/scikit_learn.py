"""Audit a scikit-learn classifier; no torch needed: run python examples/scikit_learn.py."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import divulge as dv


def main():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    members, nonmembers, population = np.split(order, [500, 1000])

    model = RandomForestClassifier(100, random_state=0).fit(x[members], y[members])
    result = dv.audit(
        model,
        members=dv.Records(x[members], y[members]),
        nonmembers=dv.Records(x[nonmembers], y[nonmembers]),
        population=dv.Records(x[population], y[population]),
        recipes=("loss", "quantile-trees"),
    )
    print(result.verdict.text)
    for name in result:
        print(f"{name:9} AUC {result[name].auc}   TPR at FPR 1 % {result[name].tpr_at_fpr(0.01)}")
    print(result["loss"].selection(fpr=0.05))


if __name__ == "__main__":
    main()
