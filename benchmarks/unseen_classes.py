"""Classes the auditor holds no records of: which attack still works, and does its false-positive rate hold?

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/unseen_classes.py --out RUN [--quick]
        [--data satimage location …] [--seeds 3] [--folds 4] [--references] [--weight-decay 5e-4] [--epsilon 4]

Classes (for Adult: occupations) are dealt into folds; each fold is unseen once: no regressor, reference model or
calibration record is of its classes. Everything is measured on the unseen records alone. ``--folds`` as large as the
number of classes drops one class at a time. Models and scores are kept in ``--out``: the same command goes on
where it stopped. ``--references`` trains reference models too (LiRA, RMIA); without it only attacks that need none run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import unseen_models as models
from divulge import Evidence, InputError, evaluation
from divulge.attacks import RMIA, LiRA, QuantileRegression, Transductive
from divulge.attacks.boosting import Booster
from divulge.attacks.regressors import Boosted
from divulge.auditing.selector import mean
from divulge.decisions import fpr, weighted
from divulge.evaluation import transfer
from divulge.signals import classification as signals
from unseen_data import DATA_SETS

LEVEL = 0.01
CONFORMAL = 0.05  # the level of the second table: 1 % of a few hundred non-members is a handful
COMPONENTS = 48
BASELINE = "quantile, hinge"
RATES = ("raw", "conformal", "weighted", "effective", "expected", "holds")


def features(of: models.Case, population: np.ndarray) -> np.ndarray:
    """What a regressor sees: principal components, fitted on the auditor's records."""
    from sklearn.decomposition import PCA

    if of.x.shape[1] <= COMPONENTS:
        return of.x
    fitted = PCA(COMPONENTS, svd_solver="randomized", random_state=of.seed).fit(of.x[population])
    return fitted.transform(of.x)


def attack(of: models.Case, fold: int, references: bool) -> dict[str, np.ndarray]:
    """Scores of the unseen candidates under every attack, and what became of their false-positive rate.

    Half of the population is for calibration: regressors learn from the other half.
    """
    population = models.population(of, (fold,))
    order = np.random.default_rng(of.seed).permutation(population)
    known, held = np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])
    asked = np.flatnonzero(of.fold[: of.candidates.stop] == fold)
    member = asked < of.data.members
    table = features(of, population)
    logits = models.target(of)["logits"].astype(np.float64)
    hinge, gap = signals.hinge(logits, of.y), signals.top_two_gap(logits)

    def evidence(signal: np.ndarray, rows: np.ndarray) -> Evidence:
        return Evidence(
            signal[rows],
            features=table[rows],
            labels=of.y[rows],
            population=signal[known],
            population_features=table[known],
            population_labels=of.y[known],
        )

    quantile = QuantileRegression(Boosted(Booster(rounds=100), folds=3), conformal=False, seed=of.seed)
    scores = quantile.score(evidence(hinge, np.r_[asked, held]))
    found = {
        "member": member,
        "LOSS": signals.negative_loss(logits, of.y)[asked],
        "gap": gap[asked],
        BASELINE: scores[: len(asked)],
        "quantile, gap": quantile.score(evidence(gap, asked)),
        "transductive": Transductive(seed=of.seed).score(evidence(hinge, asked)),
    }
    ranks = [rankdata(found[name]) for name in (BASELINE, "transductive")]
    found["combined"] = ranks[0] + ranks[1]
    if references:
        found |= with_references(of, fold, asked, population, logits)
    raw = quantile.nominal_threshold(CONFORMAL)
    return found | rates(scores[: len(asked)], scores[len(asked) :], member, table[asked], table[held], raw, of.seed)


def with_references(of, fold, asked, population, logits) -> dict[str, np.ndarray]:
    """LiRA and RMIA, on the true class and on the gap."""
    held = models.half_models(of, (fold,))
    trained_on, answers = held["trained_on"], held["logits"].astype(np.float64)

    def evidence(signal) -> Evidence:
        target, references = signal(logits), np.stack([signal(one) for one in answers])
        return Evidence(
            target[asked],
            references=references[:, asked],
            trained_on=trained_on[:, asked],
            population=target[population],
            population_references=references[:, population],
            population_trained_on=trained_on[:, population],
        )

    true_class = evidence(lambda z: signals.confidence(z, of.y))
    return {
        "LiRA": LiRA().score(evidence(lambda z: signals.scaled_logit(z, of.y))),
        "LiRA, gap": LiRA().score(evidence(signals.top_two_gap)),
        "RMIA": RMIA().score(true_class),
        "RMIA, a = 1": RMIA(offline_a=1.0).score(true_class),
        "RMIA, gap": RMIA().score(evidence(lambda z: 1 / (1 + np.exp(-signals.top_two_gap(z))))),
    }


def rates(scores, nulls, member, asked, held, raw: float, seed: int) -> dict[str, np.ndarray]:
    """False-positive rates at 5 % of quantile regression: by itself, by conformal rank, and weighted for the shift."""
    outside = scores[~member]
    ratio = weighted.density_ratio(held, asked, seed=seed)
    try:
        corrected = weighted.decide(nulls, scores, CONFORMAL, ratio).selected[~member].mean()
    except InputError:
        corrected = np.nan
    threshold = fpr.threshold(nulls, CONFORMAL)
    seen = transfer.assess(held, asked, threshold.select(nulls), CONFORMAL, seed=seed)
    found = {
        "raw": (outside > raw).mean(),
        "conformal": threshold.select(outside).mean(),
        "weighted": corrected,
        "effective": ratio.effective,
        "expected": seen.expected_fpr.value,
        "holds": float(seen.holds),
    }
    return {f"fpr:{name}": np.array([value]) for name, value in found.items()}


def pooled(values: list[evaluation.Estimate] | list) -> str:
    """Mean over cells, with the interval of independent cells (each has its own, which are combined)."""
    middle = np.mean([one.value for one in values])
    reach = np.sqrt(np.sum([((one.high - one.low) / 2) ** 2 for one in values])) / len(values)
    return f"{middle:+.3f} [{middle - reach:+.3f}, {middle + reach:+.3f}]"


def tpr(scores: np.ndarray, member: np.ndarray) -> float:
    outside = np.sort(scores[~member])[::-1]
    return float((scores[member] > outside[int(LEVEL * len(outside) + 1e-9)]).mean())


def report(name: str, cells: list[dict[str, np.ndarray]]) -> None:
    members, outside = (sum(int((c["member"] == side).sum()) for c in cells) for side in (True, False))
    print(f"\n{name}: {len(cells)} cells (fold and seed); unseen: {members} members, {outside} non-members")
    print(f"{'attack':18}{'AUC':>24}{'TPR at 1 %, %':>24}{'gain over quantile':>26}{'the same, over cells':>26}")
    for attack_name in [key for key in cells[0] if key != "member" and not key.startswith("fpr:")]:
        areas = [evaluation.auc(c[attack_name], c["member"]) for c in cells]
        gains = [evaluation.paired_difference(c[attack_name], c[BASELINE], c["member"]) for c in cells]
        powers = mean(np.array([100 * tpr(c[attack_name], c["member"]) for c in cells]))
        over = mean(np.array([one.value for one in gains]))
        print(
            f"{attack_name:18}{pooled(areas):>24}{powers.value:8.2f} [{powers.low:5.2f}, {powers.high:5.2f}]"
            f"{pooled(gains):>26}{over.value:+10.3f} [{over.low:+.3f}, {over.high:+.3f}]"
        )
    report_rates({key: np.array([c[f"fpr:{key}"][0] for c in cells]) for key in RATES})


def report_rates(found: dict[str, np.ndarray]) -> None:
    refused = int(np.isnan(found["weighted"]).sum())
    shown = ", ".join(f"{key} {_percent(found[key])}" for key in ("raw", "conformal", "weighted", "expected"))
    print(f"FPR on unseen classes at nominal 5 %: {shown}; the weighted rule refused {refused} of {len(found['raw'])}")
    answered = ~np.isnan(found["weighted"])
    if answered.any():
        before, after = (100 * np.abs(found[key][answered] - CONFORMAL).mean() for key in ("conformal", "weighted"))
        print(f"where it answered, mean distance from 5 %: conformal {before:.2f}, weighted {after:.2f} points")
    held = found["holds"] > 0
    for says, rows in (("expected to hold", held), ("not expected to hold", ~held)):
        if rows.any():
            print(f"{says}: {int(rows.sum())} cells, realised conformal FPR {_percent(found['conformal'][rows])}")


def _percent(values: np.ndarray) -> str:
    some = 100 * values[~np.isnan(values)]
    return "–" if not some.size else f"{some.mean():.2f} [{some.min():.2f}, {some.max():.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", nargs="+", default=list(DATA_SETS), choices=list(DATA_SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="of target and reference models")
    parser.add_argument("--epsilon", type=float, help="train them with DP-SGD at this ε (δ = 1e-5)")
    parser.add_argument("--quick", action="store_true", help="satimage, one seed, two folds, no reference models")
    given = parser.parse_args()
    if given.quick:
        given.data, given.seeds, given.folds, given.references = ["satimage"], 1, 2, False
    out = given.out or Path(tempfile.mkdtemp())
    for key in given.data:
        data, cells = DATA_SETS[key](), []
        for seed in range(given.seeds):
            of = models.case(key, data, seed, given.folds, out, given.weight_decay, given.epsilon)
            for fold in range(given.folds):
                kind = "full" if given.references else "plain"
                path = of.folder / f"scores-{kind}-{given.folds}-{fold}.npz"
                cells.append(models.kept(path, lambda of=of, fold=fold: attack(of, fold, given.references)))
                print(f"{data.name}, seed {seed}, fold {fold}: done", file=sys.stderr, flush=True)
        report(data.name, cells)


if __name__ == "__main__":
    main()
