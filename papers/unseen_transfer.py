"""Section 5.1 of Thaker et al. 2025 as written, and whether the level carries over as Theorem 5.3 says.

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/unseen_transfer.py --out RUN [--classes 3]
        [--data fashion cifar100 newsgroups location]

A network with a Gaussian head learns the top-two gap of non-members of all classes but one. Its last layer φ gives
embeddings of those training records and of the evaluation records: all candidates ("everything"), or those of the
unseen class alone. Gaussian mixtures on two principal components of φ give the density ratio at the evaluation
records, and a linear layer on φ is fitted to it: its mean squared error, the same on fresh records, and the ratio's
variance beside it.

At a nominal false-positive rate of 5 %, the second table has the multi-accuracy violation on the training records and
the realised rates on non-members, for the Gaussian head and for a linear quantile regression on 16 principal
components of φ, which minimises the pinball loss exactly, as the theorem assumes. The first classes of the order that
seed 1 deals are unseen in turn. Shown is the median over classes, and the range: ratios of densities have heavy tails.

Last, early stopping (§4.1) on Location-30: the hinge under an MLP 256-128 of at most 30 passes, stopped by a held-out
part or learning from all records to the last pass; four folds of one seed, pooled by rank.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import unseen_models as models
from data_sets import DATA_SETS
from divulge import regressors
from divulge.evaluation import transfer
from divulge.regressors import bodies
from divulge.signals import classification as signals
from unseen_classes import Found
from unseen_regression import candidates, compare, say, table

LEVEL = 0.05
WIDTH = 16
SEED = 1


def network(raw: np.ndarray) -> regressors.Network:
    if raw.dtype == object:
        return regressors.Network(bodies.TextBag(rows=8192, dimension=64), epochs=15)
    return regressors.Network(bodies.MLP() if raw.ndim == 2 else bodies.SmallCNN(), epochs=15)


def embedded(case: models.Case, fold: int) -> Found:
    """The network of one unseen class: what it predicts of every record, its last layer, and who is who."""
    population = models.population(case, fold)
    gap = signals.top_two_gap(models.target(case)["logits"].astype(np.float64))
    fitted = network(case.raw).fit(case.raw[population], gap[population], seed=case.seed)
    return {
        "gap": gap,
        "bound": fitted.predict(case.raw)[0] + 1.6448536 * fitted.predict(case.raw)[1],
        "layer": fitted.embed(case.raw).astype(np.float32),
        "held": population,
    }


def refitted(layer: np.ndarray, gap: np.ndarray, population: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Components of the last layer, and the linear quantile on them with the least pinball loss on ``held``."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import QuantileRegressor

    components = PCA(WIDTH, svd_solver="full").fit(layer[population]).transform(layer)
    components /= components[population].std(axis=0) + 1e-12
    fit = QuantileRegressor(quantile=1 - LEVEL, alpha=0, solver="highs").fit(components[population], gap[population])
    return components, fit.predict(components)


def measured(case: models.Case, fold: int) -> Found:
    """The figures of both tables for one unseen class."""
    stored = models.kept(case.folder / f"layer-{fold}-of-{case.folds}.npz", lambda: embedded(case, fold))
    gap, layer, population = stored["gap"], stored["layer"].astype(np.float64), stored["held"]
    candidate_rows = candidates(case)
    unseen = candidate_rows[case.fold[candidate_rows] == fold]
    fit_figures = []
    for query in (candidate_rows, unseen):
        fit = transfer.measure_linearity(layer[population], layer[query])
        fit_figures += [fit.error, fit.fresh_error, fit.variance, fit.explained]
    outside = candidate_rows[candidate_rows >= case.data.members]
    seen_rows, gone = outside[case.fold[outside] != fold], outside[case.fold[outside] == fold]
    components, exact = refitted(layer, gap, population)
    rate_figures = []
    for bound in (stored["bound"], exact):
        above = gap > bound
        size, p_value = transfer.multiaccuracy(components[population], above[population], LEVEL)
        rate_figures += [size, p_value, *(100 * above[rows].mean() for rows in (seen_rows, outside, gone))]
    return {"fit": np.array(fit_figures), "rates": np.array(rate_figures)}


def stopped(case: models.Case, fold: int) -> Found:
    """The hinge of candidates of ``fold``, and its scores by a network that stops early and by one that does not."""
    population, candidate_rows = models.population(case, fold), candidates(case)
    candidate_rows = candidate_rows[case.fold[candidate_rows] == fold]
    hinge = signals.hinge(models.target(case)["logits"].astype(np.float64), case.y)
    scores_by_name = {"member": candidate_rows < case.data.members, "LOSS": hinge[candidate_rows]}
    for name, share in (("stopped early", 0.2), ("30 passes", 0.0)):
        fitted = regressors.Network(bodies.MLP(), held=share).fit(
            case.raw[population], hinge[population], seed=case.seed
        )
        location, scale = fitted.predict(case.raw[candidate_rows])
        scores_by_name[name] = (hinge[candidate_rows] - location) / scale
    return scores_by_name


def stopping(out: Path) -> None:
    case = models.case("location", DATA_SETS["location"](), SEED, 4, out)
    print("\n## Early stopping: Location-30, a quarter of the classes unseen\n")
    compare([models.kept(case.folder / f"stopped-{f}.npz", lambda f=f: stopped(case, f)) for f in range(4)])


def shown(values: np.ndarray) -> str:
    return f"{np.median(values):.3g} [{values.min():.3g}, {values.max():.3g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    sets = ["fashion", "cifar100", "newsgroups", "location"]
    parser.add_argument("--data", nargs="+", default=sets, choices=list(DATA_SETS))
    parser.add_argument("--classes", type=int, default=3, help="how many are unseen in turn")
    arguments = parser.parse_args()
    out = arguments.out or Path(tempfile.mkdtemp())
    fits, rates = {}, {}
    for key in arguments.data:
        data = DATA_SETS[key]()
        case = models.case(key, data, SEED, len(np.unique(data.group)), out)
        measured_folds = []
        for fold in range(arguments.classes):
            measured_folds.append(
                models.kept(case.folder / f"carries-{fold}.npz", lambda case=case, fold=fold: measured(case, fold))
            )
            say(f"{data.name}, class {fold}: done")
        fit_rows, rate_rows = (
            np.array([measured_fold[part] for measured_fold in measured_folds]) for part in ("fit", "rates")
        )
        for name, part in (("everything", fit_rows[:, :4]), ("the unseen class", fit_rows[:, 4:])):
            fits[f"{data.name}, {name}"] = [shown(column) for column in part.T]
        for name, part in (("Gaussian head", rate_rows[:, :5]), ("exact pinball", rate_rows[:, 5:])):
            rates[f"{data.name}, {name}"] = [shown(column) for column in part.T]
    print("## The density ratio and its linear fit on the last layer\n")
    table("evaluated on", ["MSE", "MSE on fresh records", "variance of the ratio", "explained on fresh records"], fits)
    print("\n## Multi-accuracy on the training records, and the realised rate at a nominal 5 %, %\n")
    columns = ["violation", "its p-value", "seen classes", "everything", "the unseen class"]
    table("regressor", columns, rates)
    if "location" in arguments.data:
        stopping(out)


if __name__ == "__main__":
    main()
