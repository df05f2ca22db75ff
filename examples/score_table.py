"""No model, only scores (larger = more like a member): run python examples/score_table.py."""

import numpy as np

import divulge as dv


def main():
    rng = np.random.default_rng(0)
    candidates = np.r_[rng.normal(2.5, 1, 200), rng.normal(0, 1, 800)]  # the first 200 are members
    members = np.arange(1000) < 200
    known_nonmembers = rng.normal(0, 1, 2000)

    print("AUC             ", dv.evaluation.auc(candidates, members))
    print("TPR at FPR 1 %  ", dv.evaluation.tpr_at_fpr(candidates, members, 0.01))
    print("at most 1 % FPR ", dv.decisions.fpr.decide(known_nonmembers, candidates, 0.01))
    selection = dv.identify(candidates, known_nonmembers, fdr=0.05)
    print("at most 5 % FDR ", selection)
    print("share of members", selection.usage)


if __name__ == "__main__":
    main()
