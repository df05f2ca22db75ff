"""Every recipe for whole records by number of reference models, on known and on unseen classes.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/membership.py --out FOLDER
        [--set fashion adult …] [--seeds 0 1 2] [--unseen] [--again auto …] [--recipes transfer …] [--most 4]

Trains what is not in ``--out`` yet, attacks what has no scores yet (``--again``: these recipes once more;
``--recipes``: none but these), and keeps both there; `membership_tables.py` turns the scores into the tables.
``--most``: no more reference models than this, in a folder of their own. ``--unseen`` adds unseen classes: a quarter of
the classes (for Adult: of the occupations), drawn anew for each seed, of which no reference model and no record of the
auditor's is. Seconds are of one processor core, for the attack alone, reference models not included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from data_sets import DATA_SETS, DataSet
from divulge import recipes, references, store
from divulge.attacks import Need
from divulge.evidence import Layout, Measurements, Models, regression_features, signals_from_logits
from divulge.signals import BoundaryDistance, classification
from divulge.targets import Metered, TorchTarget

MODELS = 64
BUDGETS = (0, 1, 2, 4, 8, 16, 64)
SIGNALS = tuple(classification.SIGNALS)
OUT, IN_AND_OUT, TAUGHT = Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT, Need.REFERENCES_SUBSTITUTES


@dataclass(frozen=True)
class Size:
    """Members; non-members; the auditor's records (a fifth of them for calibration); passes over the members."""

    members: int
    outsiders: int
    population: int
    epochs: int


SIZES = {
    "fashion": Size(600, 1000, 1500, 40),
    "cifar100": Size(600, 1000, 1500, 50),
    "location": Size(600, 1000, 1500, 30),
    "adult": Size(600, 1000, 1500, 40),
    "newsgroups": Size(600, 1000, 1500, 12),
}
# Where label-only searches are run, which take longer than all the rest.
SEARCHED = ("fashion", "adult")
# Most queries a record of these searches, beside the recipe's own.
QUERIES = (50, 250, 1000)
# As many non-members of unseen classes as there are, and no more than this.
OUTSIDERS = 400


@cache
def data(key: str) -> DataSet:
    """The data set; images of CIFAR-100 averaged to 8 x 8."""
    loaded = DATA_SETS[key]()
    if key != "cifar100":
        return loaded
    x = loaded.x.reshape(-1, 8, 2, 8, 2, 3).mean(axis=(2, 4)).reshape(len(loaded.x), -1)
    return replace(loaded, x=x.astype(np.float32))


class Case:
    """A target with its candidates and what the auditor holds: members, others, extra of unseen classes, population."""

    def __init__(self, key: str, seed: int, out: Path, most: int = MODELS):
        self.key, self.seed, self.out, self.size, self.most = key, seed, out, SIZES[key], most

    @cached_property
    def data(self) -> DataSet:
        """Records of this seed, in order."""
        full_set, size = data(self.key), self.size
        rng = np.random.default_rng(self.seed)
        order, used = rng.permutation(len(full_set.x)), size.members + size.outsiders + size.population
        names = np.unique(full_set.group)
        self.dropped = rng.permutation(names)[: -(-len(names) // 4)]
        beyond = order[used:][np.isin(full_set.group[order[used:]], self.dropped)][:OUTSIDERS]
        n_judged = size.members + size.outsiders
        rows = np.r_[order[:n_judged], beyond, order[n_judged:used]]
        self.extra = len(beyond)
        raw = full_set.x if full_set.raw is None or self.key == "cifar100" else full_set.raw
        return replace(full_set, x=full_set.x[rows], y=full_set.y[rows], group=full_set.group[rows], raw=raw[rows])

    @cached_property
    def unseen(self) -> np.ndarray:
        """Which records are of unseen classes."""
        return np.isin(self.data.group, self.dropped)

    def runs(self, recipe: recipes.Recipe) -> bool:
        """Whether the recipe is tried here."""
        return not recipe.needs_numbers or self.key in SEARCHED

    @property
    def candidates(self) -> np.ndarray:
        """Members, then non-members."""
        return np.arange(self.size.members + self.size.outsiders)

    def held(self, unseen: bool) -> np.ndarray:
        """The auditor's records."""
        rows = np.arange(len(self.data.x) - self.size.population, len(self.data.x))
        return rows[~self.unseen[rows]] if unseen else rows

    def asked(self, unseen: bool) -> np.ndarray:
        """The records that are judged."""
        rows = np.arange(len(self.data.x) - self.size.population)
        return rows[self.unseen[rows]] if unseen else self.candidates

    @property
    def records(self) -> dv.Records:
        """As the models read them."""
        return dv.Records(self.data.x, self.data.y)

    def settings(self) -> references.Train:
        """How target and references are trained."""
        width, classes = self.data.x.shape[1], int(self.data.y.max()) + 1

        def make() -> nn.Module:
            return nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, classes))

        return references.Train(
            make, count=self.most, epochs=self.size.epochs, optimizer="adam", lr=2e-3, batch_size=64, engine="stacked",
            device="cpu",
        )  # fmt: skip

    @cached_property
    def target(self) -> TorchTarget:
        """Trained on the members."""
        torch.manual_seed(self.seed)
        member_records = self.records[: self.size.members]
        net = self.settings().train_model(member_records, seed=1000 + self.seed, classes=int(self.data.y.max()) + 1)
        return TorchTarget(net, device="cpu")

    def measured(self) -> dict[str, np.ndarray]:
        """Signals of the target, and of label-only attacks; right answers."""
        path = self.out / f"{self.key}-{self.seed}-target.npz"
        if not path.exists():
            logits = self.target.logits(self.records)
            signal_values = dict(zip(SIGNALS, signals_from_logits(logits, self.data.y, SIGNALS).T, strict=True))
            label_logits = classification.one_hot_logits(logits.argmax(axis=1), logits.shape[1])
            for name in classification.LABELS_ENOUGH:
                signal_values[name] = signals_from_logits(label_logits, self.data.y, (name,))[:, 0]
            judged_rows = np.arange(len(self.data.x) - self.size.population + self.size.population // 5)
            for recipe in recipes.label_recipes():
                if recipe.signal_name not in signal_values and self.runs(recipe):
                    began = time.process_time()
                    signal_values[recipe.signal_name] = np.zeros(len(self.data.x))
                    signal_values[recipe.signal_name][judged_rows] = recipe.signal.measure(
                        self.target, self.records[judged_rows]
                    )
                    signal_values[f"{recipe.signal_name} seconds"] = np.array(time.process_time() - began)
            store.write_arrays(path, signal_values)
        return store.read_arrays(path)

    def references(self, rows: np.ndarray, role: str, *, taught: bool = False) -> Models:
        """Signals of models trained on halves of these records; ``taught``: on all, as the target labels them."""
        path = self.out / f"{self.key}-{self.seed}-{role}.npz"
        if not path.exists():
            lessons, splits = self.records[rows], np.ones((self.most, len(rows)), dtype=bool)
            if taught:
                lessons = dv.Records(lessons.x, self.target.labels(lessons))
            else:
                splits = references.splits.offline(len(rows), self.most, self.seed, labels=lessons.y).trained_on
            began = time.process_time()
            fitted = self.settings().fit(
                lessons, splits, seed=self.seed, classes=int(self.data.y.max()) + 1,
                observe=[self.records], signal=lambda logits, labels: signals_from_logits(logits, labels, SIGNALS),
            )  # fmt: skip
            inside = np.zeros((self.most, len(self.data.x)), bool)
            inside[:, rows] = splits
            seconds = np.array((time.process_time() - began) / self.most)
            store.write_arrays(path, {"signals": fitted.outputs[0], "trained_on": inside, "seconds": seconds})
        stored = store.read_arrays(path)
        return Models(dict(zip(SIGNALS, stored["signals"].transpose(2, 0, 1), strict=True)), stored["trained_on"])

    def evidence(self, unseen: bool, needs: frozenset[Need] = frozenset({OUT, IN_AND_OUT, TAUGHT})) -> Measurements:
        """All that attacks may read, of models these kinds alone; candidates, calibration, population."""
        candidate_rows, population_rows = self.asked(unseen), self.held(unseen)
        calibration, free = np.split(population_rows, [len(population_rows) // 5])
        rows = np.r_[candidate_rows, population_rows]
        target = self.measured()
        models = {}
        if OUT in needs:
            models[OUT] = self.references(free, "unseen" if unseen else "out")
        if TAUGHT in needs:
            models[TAUGHT] = self.references(free, "unseen-taught" if unseen else "taught", taught=True)
        if IN_AND_OUT in needs and not unseen:
            models[IN_AND_OUT] = self.references(np.r_[candidate_rows, calibration], "both")
        raw = self.data.raw
        features = regression_features(dv.Records(raw[rows], self.data.y[rows]), np.isin(rows, free), self.seed)
        return Measurements(
            {name: values[rows] for name, values in target.items() if values.ndim},
            Layout(len(candidate_rows), len(calibration), len(free)),
            labels=self.data.y[rows],
            features=features,
            models={need: _first(stored, rows, self.most) for need, stored in models.items()},
        )


def _first(models: Models, rows: np.ndarray, count: int) -> Models:
    return Models({name: z[:count][:, rows] for name, z in models.signals.items()}, models.trained_on[:count][:, rows])


def tried(case: Case, budget: int) -> Iterator[recipes.Recipe]:
    """The recipes that run on whole records with so many reference models, and on none where they take none."""
    for recipe in (*recipes.recipes(), *recipes.label_recipes()):
        fits = (recipe.references == "none") == (budget == 0) and recipe.attack.least_references <= budget
        if fits and case.runs(recipe):
            yield recipe


def attacked(case: Case, unseen: bool, recipes_again: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Scores of the candidates under every recipe, or only some, at every budget, kept."""
    path = case.out / f"{case.key}-{case.seed}-{'unseen' if unseen else 'known'}-scores.npz"
    scores_done = store.read_arrays(path) if path.exists() else {}
    candidate_rows = case.asked(unseen)
    scores_done["member"] = candidate_rows < case.size.members
    selected = [r for r in (*recipes.recipes(), *recipes.label_recipes()) if r.name in only or not only]
    measurements = case.evidence(unseen, frozenset().union(*(recipe.needs for recipe in selected)))
    everyone = np.arange(measurements.layout.total)
    for budget in (budget for budget in BUDGETS if budget <= case.most):
        budget_evidence = replace(
            measurements,
            models={need: _first(models, everyone, budget) for need, models in measurements.models.items()},
        )
        if not budget:
            budget_evidence = replace(measurements, models={})
        for recipe in (recipe for recipe in tried(case, budget) if recipe in selected):
            name = f"{budget}/{recipe.name}"
            if (name in scores_done and recipe.name not in recipes_again) or (
                recipe.references == "in and out" and unseen
            ):
                continue
            seeded, began = recipes.seeded(recipe, case.seed), time.process_time()
            scored = seeded.attack.run(budget_evidence.evidence(recipe.signal_name, recipe.needs))
            scores_done[f"{name}/seconds"] = np.array(time.process_time() - began)
            scores_done[name] = scored.scores[: len(candidate_rows)]
            if scored.chosen is not None:
                scores_done[f"{name}/chosen"] = np.array(scored.chosen)
            auc = dv.evaluation.auc(scores_done[name], scores_done["member"])
            tpr = dv.evaluation.tpr_at_fpr(scores_done[name], scores_done["member"], 0.01)
            seconds_taken = float(scores_done[f"{name}/seconds"])
            print(
                f"{path.stem} {name}: {auc.value:.3f} {tpr.value:.3f} {seconds_taken:.2f} s",
                *scored.notes[:1],
                flush=True,
            )
        store.write_arrays(path, scores_done)


def searched(case: Case) -> None:
    """Distances of the candidates from the decision boundary by number of queries, and LOSS, kept."""
    path = case.out / f"{case.key}-{case.seed}-boundary.npz"
    if path.exists() or case.key not in SEARCHED:
        return
    records = case.records[case.candidates]
    distances = {"loss": signals_from_logits(case.target.logits(records), records.y, ("negative-loss",))[:, 0]}
    for queries in QUERIES:
        meter = Metered(case.target)
        distances[str(queries)] = BoundaryDistance(queries=queries, seed=case.seed).measure(meter, records)
        distances[f"{queries} asked"] = np.array(meter.queries / len(records))
    store.write_arrays(path, distances)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=list(SIZES), choices=SIZES)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--again", nargs="*", default=[])
    parser.add_argument("--most", type=int, default=MODELS)
    parser.add_argument("--recipes", nargs="*", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for key in arguments.set:
        for seed in arguments.seeds:
            case = Case(key, seed, arguments.out, arguments.most)
            if not arguments.recipes:
                searched(case)
            for unseen in (False, True)[: 1 + arguments.unseen]:
                attacked(case, unseen, tuple(arguments.again), tuple(arguments.recipes))


if __name__ == "__main__":
    main()
