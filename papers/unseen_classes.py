"""Classes the auditor holds no records of: which attack still works, and does its false-positive rate hold?

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/unseen_classes.py --out RUN [--quick]
        [--data satimage location …] [--seeds 1 2 3] [--folds 4 | --known] [--keep 0] [--references]
        [--networks] [--body resnet-18] [--weight-decay 5e-4] [--epsilon 4]

Classes (for Adult: occupations) are dealt into folds; each fold is unseen once: no regressor, reference model or
calibration record is of its classes. Everything is measured on the unseen records alone. ``--folds`` sweeps over
the number of classes dropped at once (as many folds as classes: one at a time), ``--keep k`` over the number of
records of each such class the auditor still holds, ``--known`` drops nothing and asks about every candidate.
``--references`` trains reference models too (LiRA, RMIA), ``--networks`` neural quantile regressors (on images and
texts where the records are such); ``--body`` names the network for images. Models and scores are kept in ``--out``:
the same command goes on where it stopped.

Intervals are Student's over seeds: each seed has its own target, its own members and its own folds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

import unseen_models as models
from data_sets import DATA_SETS
from divulge import Evidence, InputError, evaluation, regressors
from divulge.attacks import RMIA, LiRA, QuantileRegression, Transductive
from divulge.attacks.regressors import Boosted, Booster, PerClass
from divulge.decisions import fpr, weighted
from divulge.evaluation import transfer
from divulge.regressors import bodies
from divulge.signals import classification as signals
from selector import mean

LEVEL = 0.01
CONFORMAL = 0.05  # the level of the second table: 1 % of a few hundred non-members is a handful
COMPONENTS = 48
BASELINE = "quantile, hinge"
RATES = ("raw", "conformal", "weighted", "effective", "expected", "holds")

Found = dict[str, np.ndarray]


def features(case: models.Case, population: np.ndarray) -> np.ndarray:
    """What a regressor sees: principal components, fitted on the auditor's records."""
    from sklearn.decomposition import PCA

    if case.x.shape[1] <= COMPONENTS:
        return case.x
    fitted = PCA(COMPONENTS, svd_solver="randomized", random_state=case.seed).fit(case.x[population])
    return fitted.transform(case.x)


def attack(case: models.Case, fold: int | None, arguments: argparse.Namespace) -> Found:
    """Scores of the asked candidates under every attack, and what became of their false-positive rate.

    Half of the population is for calibration: regressors learn from the other half.
    """
    population = models.population(case, fold, arguments.keep)
    order = np.random.default_rng(case.seed).permutation(population)
    training_rows, calibration = np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])
    everyone = np.arange(case.candidates.stop)
    candidates = everyone if fold is None else everyone[case.fold[everyone] == fold]
    member = candidates < case.data.members
    table = features(case, population)
    target = models.target(case)
    logits = target["logits"].astype(np.float64)
    hinge, gap = signals.hinge(logits, case.y), signals.top_two_gap(logits)

    def evidence(signal: np.ndarray, rows: np.ndarray, table_given: np.ndarray = table) -> Evidence:
        return Evidence(
            signal[rows],
            features=table_given[rows],
            labels=case.y[rows],
            population=signal[training_rows],
            population_features=table_given[training_rows],
            population_labels=case.y[training_rows],
        )

    def regression(regressor: object) -> QuantileRegression:
        return QuantileRegression(regressor, conformal=False, seed=case.seed)

    boosted = Boosted(Booster(rounds=100), folds=3)
    quantile = regression(boosted)
    scores = quantile.score(evidence(hinge, np.r_[candidates, calibration]))
    scores_by_attack = {
        "member": member,
        "LOSS": signals.negative_loss(logits, case.y)[candidates],
        "gap": gap[candidates],
        BASELINE: scores[: len(candidates)],
        "quantile, gap": regression(boosted).score(evidence(gap, candidates)),
        "quantile, a class": regression(PerClass()).score(evidence(hinge, candidates)),
        "transductive": Transductive(seed=case.seed).score(evidence(hinge, candidates)),
    }
    ranks = [rankdata(scores_by_attack[name]) for name in (BASELINE, "transductive")]
    scores_by_attack["combined"] = ranks[0] + ranks[1]
    if arguments.networks:
        scores_by_attack["quantile, hidden"] = regression(boosted).score(evidence(hinge, candidates, target["hidden"]))
        for name, network, table_given in networks(case, arguments.body):
            scores_by_attack[name] = regression(network).score(evidence(hinge, candidates, table_given))
    if arguments.references:
        scores_by_attack |= with_references(case, fold, candidates, population, logits, arguments.keep)
    raw = quantile.nominal_threshold(CONFORMAL)
    return scores_by_attack | rates(
        scores[: len(candidates)],
        scores[len(candidates) :],
        member,
        table[candidates],
        table[calibration],
        raw,
        case.seed,
    )


def networks(case: models.Case, body: str) -> list[tuple[str, regressors.Network, np.ndarray]]:
    """Neural regressors with both heads, on what the data set is made of."""
    raw_records = case.raw
    if raw_records.dtype == object:
        looks: bodies.Body = bodies.TextBag()
    elif raw_records.ndim > 2:
        looks = bodies.SmallCNN() if body == "small" else bodies.Backbone(body, size=64)
    else:
        looks = bodies.MLP((256, 128))
    return [(f"network, {head}", regressors.Network(looks, head=head), raw_records) for head in ("gaussian", "pinball")]


def with_references(case, fold, candidates, population, logits, keep) -> Found:
    """LiRA and RMIA, on the true class and on the gap, and RMIA with unseen records among those it compares with."""
    half_models = models.half_models(case, fold, keep)
    trained_on, answers = half_models["trained_on"], half_models["logits"].astype(np.float64)

    def evidence(signal, compared=population) -> Evidence:
        target, reference_signals = signal(logits), np.stack([signal(answer) for answer in answers])
        return Evidence(
            target[candidates],
            references=reference_signals[:, candidates],
            trained_on=trained_on[:, candidates],
            population=target[compared],
            population_references=reference_signals[:, compared],
            population_trained_on=trained_on[:, compared],
        )

    def confidence(z: np.ndarray) -> np.ndarray:
        return signals.confidence(z, case.y)

    everything = np.arange(len(case.x))[case.held]
    return {
        "LiRA": LiRA().score(evidence(lambda z: signals.scaled_logit(z, case.y))),
        "LiRA, gap": LiRA().score(evidence(signals.top_two_gap)),
        "RMIA": RMIA().score(evidence(confidence)),
        "RMIA, a = 1": RMIA(offline_a=1.0).score(evidence(confidence)),
        "RMIA, unseen in Z": RMIA(ranking="published").score(evidence(confidence, everything)),
        "RMIA, not in Z": RMIA(ranking="published").score(evidence(confidence)),
        "RMIA, gap": RMIA().score(evidence(lambda z: 1 / (1 + np.exp(-signals.top_two_gap(z))))),
    }


def rates(scores, calibration, member, candidates, calibration_table, raw: float, seed: int) -> Found:
    """False-positive rates at 5 % of quantile regression: by itself, by conformal rank, and weighted for the shift."""
    outside = scores[~member]
    ratio = weighted.density_ratio(calibration_table, candidates, seed=seed)
    try:
        corrected = weighted.decide(calibration, scores, CONFORMAL, ratio).selected[~member].mean()
    except InputError:
        corrected = np.nan
    threshold = fpr.threshold(calibration, CONFORMAL)
    assessment = transfer.assess(calibration_table, candidates, threshold.select(calibration), CONFORMAL, seed=seed)
    rates_by_rule = {
        "raw": (outside > raw).mean(),
        "conformal": threshold.select(outside).mean(),
        "weighted": corrected,
        "effective": ratio.effective,
        "expected": assessment.expected_fpr.value,
        "holds": float(assessment.holds),
    }
    return {f"fpr:{name}": np.array([value]) for name, value in rates_by_rule.items()}


def auc(scores: np.ndarray, member: np.ndarray) -> float:
    return evaluation.auc(scores, member).value


def tpr(scores: np.ndarray, member: np.ndarray, level: float = LEVEL) -> float:
    """In per cent, at the threshold that at most a share ``level`` of the non-members reach."""
    outside = np.sort(scores[~member])[::-1]
    return float(100 * (scores[member] > outside[int(level * len(outside) + 1e-9)]).mean())


def over_seeds(
    cells: dict[tuple[int, int], Found], measure: Callable[[Found], float], digits: int, sign: str = ""
) -> str:
    """The mean over the folds of each seed, then mean and Student's interval over seeds."""
    seeds = sorted({seed for seed, _ in cells})
    each = np.array([np.mean([measure(c) for (s, _), c in cells.items() if s == seed]) for seed in seeds])
    if len(each) == 1:
        return f"{each[0]:{sign}.{digits}f}"
    result = mean(each)
    return f"{result.value:{sign}.{digits}f} [{result.low:{sign}.{digits}f}, {result.high:{sign}.{digits}f}]"


def report(name: str, cells: dict[tuple[int, int], Found]) -> None:
    """Markdown, an attack a row."""
    sets = list(cells.values())
    members, outside = (sum(int((c["member"] == side).sum()) for c in sets) for side in (True, False))
    print(f"\n### {name}: {len(sets)} cells (fold and seed), {members} members and {outside} non-members asked about\n")
    print(
        "| attack | AUC | gain over quantile | TPR at 1 %, % | gain over quantile, points |\n|---|---:|---:|---:|---:|"
    )
    for key in [key for key in sets[0] if key != "member" and not key.startswith("fpr:")]:
        cells_of = {
            "auc": over_seeds(cells, lambda c: auc(c[key], c["member"]), 3),  # noqa: B023 - used at once
            "dauc": over_seeds(cells, lambda c: auc(c[key], c["member"]) - auc(c[BASELINE], c["member"]), 3, "+"),  # noqa: B023
            "tpr": over_seeds(cells, lambda c: tpr(c[key], c["member"]), 2),  # noqa: B023
            "dtpr": over_seeds(cells, lambda c: tpr(c[key], c["member"]) - tpr(c[BASELINE], c["member"]), 2, "+"),  # noqa: B023
        }
        print(f"| {key} | {' | '.join(cells_of.values())} |")
    report_rates({key: np.array([c[f"fpr:{key}"][0] for c in sets]) for key in RATES})


def report_classes(cells: dict[tuple[int, int], Found], classes: dict[tuple[int, int], str]) -> None:
    """One class per row, where each fold holds one: means over seeds."""
    chosen = [key for key in ("LOSS", "LiRA", "RMIA", BASELINE, "transductive") if key in next(iter(cells.values()))]
    print("\nTPR at 1 %, % / AUC of each class when it is unseen, mean over seeds:\n")
    print("| unseen | " + " | ".join(chosen) + " |\n|---|" + "---:|" * len(chosen))
    for name in sorted(set(classes.values())):
        cells_of_class = [cells[place] for place in cells if classes[place] == name]
        cells_shown = [
            f"{np.mean([tpr(c[key], c['member']) for c in cells_of_class]):.1f} / "
            f"{np.mean([auc(c[key], c['member']) for c in cells_of_class]):.3f}"
            for key in chosen
        ]
        print(f"| {name} | {' | '.join(cells_shown)} |")


def report_rates(rates_by_rule: Found) -> None:
    refused = int(np.isnan(rates_by_rule["weighted"]).sum())
    rates_text = ", ".join(
        f"{key} {_percent(rates_by_rule[key])}" for key in ("raw", "conformal", "weighted", "expected")
    )
    print(f"\nFPR at nominal 5 %: {rates_text}; the weighted rule refused {refused} of {len(rates_by_rule['raw'])}")
    answered = ~np.isnan(rates_by_rule["weighted"])
    if answered.any():
        before, after = (
            100 * np.abs(rates_by_rule[key][answered] - CONFORMAL).mean() for key in ("conformal", "weighted")
        )
        print(f"where it answered, mean distance from 5 %: conformal {before:.2f}, weighted {after:.2f} points")
    expected_to_hold = rates_by_rule["holds"] > 0
    for says, rows in (("expected to hold", expected_to_hold), ("not expected to hold", ~expected_to_hold)):
        if rows.any():
            print(
                f"{says}: {int(rows.sum())} cells, realised conformal FPR {_percent(rates_by_rule['conformal'][rows])}"
            )


def _percent(values: np.ndarray) -> str:
    percentages = 100 * values[~np.isnan(values)]
    return (
        "–" if not percentages.size else f"{percentages.mean():.2f} [{percentages.min():.2f}, {percentages.max():.2f}]"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", nargs="+", default=list(DATA_SETS), choices=list(DATA_SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="0 is the one the attacks were made on")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--known", action="store_true", help="drop nothing")
    parser.add_argument("--keep", type=int, default=0, help="records of each dropped class the auditor still holds")
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--body", default="small", choices=["small", *bodies.ARCHITECTURES], help="network for images")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="of target and reference models")
    parser.add_argument("--epsilon", type=float, help="train them with DP-SGD at this ε (δ = 1e-5)")
    parser.add_argument("--quick", action="store_true", help="satimage, one seed, two folds, no reference models")
    parsed = parser.parse_args()
    if parsed.quick:
        parsed.data, parsed.seeds, parsed.folds, parsed.references = ["satimage"], [1], 2, False
    return parsed


def main() -> None:
    options = arguments()
    out = options.out or Path(tempfile.mkdtemp())
    chosen = "full" if options.references else "plain"
    chosen += f"-networks-{options.body}" * options.networks + f"-keep-{options.keep}" * (options.keep > 0)
    for key in options.data:
        data, cells, classes = DATA_SETS[key](), {}, {}
        for seed in options.seeds:
            case = models.case(key, data, seed, options.folds, out, options.weight_decay, options.epsilon)
            for fold in [None] if options.known else range(options.folds):
                fold_name = "all" if fold is None else f"{fold}-of-{options.folds}"
                path = case.folder / f"scores-{chosen}-{fold_name}.npz"
                cells[seed, fold] = models.kept(path, lambda case=case, fold=fold: attack(case, fold, options))
                classes[seed, fold] = ", ".join(f"{name:>2}" for name in np.unique(case.group[case.fold == fold]))
                print(f"{data.name}, seed {seed}, fold {fold_name}: done", file=sys.stderr, flush=True)
        report(data.name, cells)
        if not options.known and options.folds == len(np.unique(data.group)):
            report_classes(cells, classes)


if __name__ == "__main__":
    main()
