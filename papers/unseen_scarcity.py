r"""Few classes, few records of each class, and rates of 0.1 %: Figures 3 and 6 of Thaker et al. 2025 at a small size.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks \
        python papers/unseen_scarcity.py --out RUN [--seeds 1 2 3]
        [--figures 3 6]

Figure 3: CIFAR-100 under its 100 fine labels stands for ImageNet's 1,000; the auditor lacks 1 to 99 of the classes, or
holds k records of every class (`divulge.access.KeepPerClass`). The target has one hidden layer of 128 units and 10,000
members; the auditor holds 10,000 records, and 40,000 non-members are asked about, so that a rate of 0.1 % counts.
Intervals are Student's over seeds.
Figure 6: LiRA and RMIA with 16 reference models, 5 of 20 superclasses unseen in turn, 40,000 non-members in all, under
the first seed's target; the intervals are those of `divulge.evaluation` on ranks within folds.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import unseen_models as models
from data_sets import cifar100, cifar100_fine
from divulge import seeds
from divulge.access import KeepPerClass
from divulge.signals import classification as signals
from divulge.types import Records
from unseen_classes import Found, with_references
from unseen_regression import ATTACKS, GAIN, accuracy, candidates, compare, measures, say, scored, spread, table

DROPPED = (1, 10, 50, 90, 99)
KEPT_COUNTS = (2, 5, 10, 20, 50)
LOW = 0.001
FOLDS = 4

Cells = dict[tuple[int, int], Found]


def missing(case: models.Case, count: int) -> np.ndarray:
    """The classes the auditor lacks; fewer are a part of more."""
    return seeds.generator(case.seed, "unseen", "order").permutation(np.unique(case.y))[:count]


def without(case: models.Case, count: int) -> Found:
    """Every candidate asked about, by an auditor who lacks ``count`` classes."""
    population, gone = models.population(case, None), missing(case, count)
    result = scored(case, population[~np.isin(case.y[population], gone)], candidates(case))
    return result | {"unseen": np.isin(case.y[candidates(case)], gone)}


def few_of_each(case: models.Case, count: int) -> Found:
    population = models.population(case, None)
    is_kept = KeepPerClass(count).mask(Records(case.x[population], case.y[population]), seed=case.seed)
    return scored(case, population[is_kept], candidates(case))


def on(cells: Cells, rows: str) -> Cells:
    """Each cell on the rows that ``rows`` marks."""
    return {
        place: {key: values[cell[rows]] for key, values in cell.items() if key != rows} for place, cell in cells.items()
    }


def show(head: str, columns: dict[str, Cells], keys: tuple[str, ...] = (*ATTACKS, GAIN)) -> None:
    for name, measure, digits in (measures(0.01)[0], measures(LOW)[0], measures()[1]):
        print(f"{head}; {name}:\n")
        table("attack", columns, {k: [spread(cells, k, measure, digits) for cells in columns.values()] for k in keys})
        print(flush=True)


def figure_three(arguments: argparse.Namespace) -> None:
    data = cifar100_fine()
    cases = [models.case("cifar100-fine", data, seed, 2, arguments.out) for seed in arguments.seeds]
    for case in cases:
        print(
            f"Seed {case.seed}: target accuracy {accuracy(case)[0]:.1f} % on its members, "
            f"{accuracy(case)[1]:.1f} % on others"
        )

    def cells(name: str, make) -> Cells:
        results = {
            (case.seed, 0): models.kept(case.folder / f"{name}.npz", lambda case=case: make(case)) for case in cases
        }
        say(f"{name}: done")
        return results

    dropped = {count: cells(f"dropped-{count}", lambda case, count=count: without(case, count)) for count in DROPPED}
    everything = cells("everything", lambda case: scored(case, models.population(case, None), candidates(case)))
    cells_by_count = {
        count: cells(f"kept-{count}", lambda case, count=count: few_of_each(case, count)) for count in KEPT_COUNTS
    }
    print("\n## Classes the auditor lacks, of 100\n")
    show("All candidates", {"none": everything} | {str(count): cells_found for count, cells_found in dropped.items()})
    show(
        "Candidates of the missing classes alone",
        {str(n): on(cells_found, "unseen") for n, cells_found in dropped.items()},
    )
    print("## Records the auditor holds of every class\n")
    show(
        "All candidates",
        {str(count): cells_found for count, cells_found in cells_by_count.items()} | {"all (about 100)": everything},
    )


def shadowed(case: models.Case, fold: int) -> Found:
    """LOSS, quantile regression, LiRA and RMIA on the classes of ``fold``, which no auditor's record has."""
    candidate_rows = candidates(case)
    candidate_rows, population = candidate_rows[case.fold[candidate_rows] == fold], models.population(case, fold)
    logits = models.target(case)["logits"].astype(np.float64)
    scores_by_attack = scored(case, population, candidate_rows) | with_references(
        case, fold, candidate_rows, population, logits, 0
    )
    return scores_by_attack | {"gap": signals.top_two_gap(logits)[candidate_rows]}


def confidence(case: models.Case, fold: int) -> np.ndarray:
    """In per cent: what non-members get on their true label, of unseen and seen classes, from references and target."""
    nonmember_rows = candidates(case)[case.data.members :]
    unseen = case.fold[nonmember_rows] == fold
    answers = [*models.half_models(case, fold)["logits"].astype(np.float64), models.target(case)["logits"]]
    true_confidence = np.array(
        [signals.confidence(logits[nonmember_rows], case.y[nonmember_rows]) for logits in answers]
    )
    return 100 * np.array(
        [true_confidence[part][..., rows].mean() for part in (slice(-1), -1) for rows in (unseen, ~unseen)]
    )


def figure_six(arguments: argparse.Namespace) -> None:
    case = models.case("cifar100-many", replace(cifar100(), outsiders=40_000), arguments.seeds[0], FOLDS, arguments.out)
    cells, sure = [], []
    for fold in range(FOLDS):
        cells.append(models.kept(case.folder / f"shadowed-{fold}.npz", lambda fold=fold: shadowed(case, fold)))
        sure.append(confidence(case, fold))
        say(f"figure 6, fold {fold}: done")
    print("## Reference models at FPR 0.1 %: 5 of 20 superclasses unseen, each once\n")
    compare(cells, (0.01, LOW))
    unseen, seen_mean, own_unseen, own_seen = np.mean(sure, axis=0)
    print(f"Mean confidence in the true label of non-members, %: reference models {unseen:.2f} on unseen classes and")
    print(f"{seen_mean:.2f} on seen ones; the target, which knows all, {own_unseen:.2f} and {own_seen:.2f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--figures", type=int, nargs="+", default=[3, 6], choices=[3, 6])
    arguments = parser.parse_args()
    arguments.out = arguments.out or Path(tempfile.mkdtemp())
    for number in arguments.figures:
        {3: figure_three, 6: figure_six}[number](arguments)


if __name__ == "__main__":
    main()
