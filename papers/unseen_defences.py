r"""Unseen classes against defended targets, with what the defence costs: Tables 1 and 2 of Thaker et al. 2025.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks \
        python papers/unseen_defences.py --out RUN [--seeds 1 2 3]
        [--decay 5e-4 5e-3 5e-2] [--epsilon 1 4 16] [--data cifar10 cifar100] [--most 3]

Table 1: CIFAR-100 (20 superclasses), weight decay of the target, with 1, 2 or 5 superclasses dropped at once.
Table 2: CIFAR-10 and CIFAR-100 under DP-SGD (δ = 1e-5), one class dropped. The first ``--most`` folds of each seed
are dropped in turn. Targets have one hidden layer of 128 units and 3,000 members; the weight decay is Adam's.
Intervals are Student's over seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import unseen_models as models
from data_sets import DataSet, cifar10, cifar100
from selector import mean
from unseen_classes import Found
from unseen_regression import ATTACKS, GAIN, accuracy, candidates, measures, say, scored, spread, table

SETS = {"cifar10": cifar10, "cifar100": cifar100}
DROPPED = {1: 20, 2: 10, 5: 4}  # classes dropped at once, and the folds that makes of 20


def dropped_in_turn(case: models.Case, max_folds: int) -> dict[tuple[int, int], Found]:
    """The first ``most`` folds, each unseen once."""
    everyone = candidates(case)

    def attack_fold(fold: int) -> Found:
        return scored(case, models.population(case, fold), everyone[case.fold[everyone] == fold])

    return {
        (case.seed, fold): models.kept(
            case.folder / f"regression-{fold}-of-{case.folds}.npz", lambda fold=fold: attack_fold(fold)
        )
        for fold in range(min(max_folds, case.folds))
    }


def over(values: list[float]) -> str:
    result = mean(np.array(values))
    return f"{result.value:.1f} [{result.low:.1f}, {result.high:.1f}]" if len(values) > 1 else f"{values[0]:.1f}"


def accuracies(cases: list[models.Case]) -> str:
    inside, outside = zip(*(accuracy(case) for case in cases), strict=True)
    return f"train {over(list(inside))} %, test {over(list(outside))} %"


def decay_table(data: DataSet, arguments: argparse.Namespace) -> None:
    print("## Weight decay: CIFAR-100, 1, 2 or 5 of 20 superclasses dropped\n")
    for decay in arguments.decay:
        cells_by_count, cases = {}, []
        for count, folds in DROPPED.items():
            cases = [models.case("cifar100", data, seed, folds, arguments.out, decay) for seed in arguments.seeds]
            cells_by_count[count] = {
                place: cell for case in cases for place, cell in dropped_in_turn(case, arguments.most).items()
            }
            say(f"decay {decay:g}, {count} dropped: done")
        print(f"### Weight decay {decay:g}; target accuracy: {accuracies(cases)}\n")
        columns = [f"{name}, {count} dropped" for name, _, _ in measures() for count in DROPPED]
        rows = {
            key: [
                spread(cells_by_count[count], key, case, digits) for _, case, digits in measures() for count in DROPPED
            ]
            for key in (*ATTACKS, GAIN)
        }
        table("attack", columns, rows)
        print(flush=True)


def privacy_table(sets: dict[str, DataSet], arguments: argparse.Namespace) -> None:
    print("## Differential privacy, one class dropped\n")
    for key, data in sets.items():
        for epsilon in arguments.epsilon:
            folds = len(np.unique(data.y))
            cases = [models.case(key, data, seed, folds, arguments.out, epsilon=epsilon) for seed in arguments.seeds]
            cells = {place: cell for case in cases for place, cell in dropped_in_turn(case, arguments.most).items()}
            print(f"### {data.name}, ε = {epsilon:g}; target accuracy: {accuracies(cases)}\n")
            rows = {
                key: [spread(cells, key, case, digits) for _, case, digits in measures()] for key in (*ATTACKS, GAIN)
            }
            table("attack", [name for name, _, _ in measures()], rows)
            print(flush=True)
            say(f"{data.name}, epsilon {epsilon:g}: done")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--decay", type=float, nargs="*", default=[5e-4, 5e-3, 5e-2])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 4.0, 16.0])
    parser.add_argument("--data", nargs="+", default=list(SETS), choices=list(SETS), help="of Table 2")
    parser.add_argument("--most", type=int, default=3, help="folds asked about, of each seed")
    arguments = parser.parse_args()
    arguments.out = arguments.out or Path(tempfile.mkdtemp())
    if arguments.decay:
        decay_table(cifar100(), arguments)
    if arguments.epsilon:
        privacy_table({key: SETS[key]() for key in arguments.data}, arguments)


if __name__ == "__main__":
    main()
