"""References as controls: how often is a model that leaks nothing accused, and how often a leak found, by which rule?

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/controls.py draw SETUP --draws 100 --out FOLDER
    PYTHONPATH=src python benchmarks/controls.py table --out FOLDER

A draw has 300 members, 300 non-members and a population of 1,500 records, of which 375 are held out and each of eight
controls is trained on a half of the others. A target is trained on 500 records. All labels have 8 % noise. In one draw
worlds share controls: non-members of another kind cost no training, members of another kind one target.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import time
import warnings
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import data_sets
from divulge.evaluation import auc, blind
from divulge.evaluation.agreement import compare_answers, mean_overlap
from divulge.evaluation.control_models import compare_auc, subtract_explained

SIDE, TRAIN, POPULATION, HELD_OUT, K = 300, 500, 1500, 375, 8
NOISE = 0.08


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features, standardised, and classes of a data set."""
    rng = np.random.default_rng(99)
    if name == "synthetic":
        x = rng.normal(size=(40_000, 10))
        logit = x @ np.r_[1.0, -0.8, 0.6, 0.5, -0.4, np.zeros(5)] + 0.5 * x[:, 0] * x[:, 1]
        return x, (logit + rng.logistic(size=len(x)) > 0).astype(int)
    if name == "five classes":
        y = rng.integers(0, 5, 40_000)
        return rng.normal(size=(40_000, 20)) + 0.9 * np.eye(5, 20)[y], y
    with np.load(data_sets.folder() / {"adult": "adult.npz", "bank": "bank_marketing.npz"}[name]) as z:
        numbers, y = z["X_num"].astype(float), z["y"].astype(int)
    x = np.sign(numbers) * np.log1p(np.abs(numbers))
    return (x - x.mean(0)) / np.maximum(x.std(0), 1e-9), y


SETUPS = {
    "synthetic logistic": ("synthetic", lambda s: LogisticRegression(C=10.0, max_iter=300)),
    "adult boosting": (
        "adult",
        lambda s: LGBMClassifier(n_estimators=30, num_leaves=8, min_child_samples=10, verbosity=-1, n_jobs=1, seed=s),
    ),
    "bank forest": ("bank", lambda s: RandomForestClassifier(40, min_samples_leaf=5, random_state=s)),
    "adult mlp": ("adult", lambda s: MLPClassifier((16,), max_iter=60, learning_rate_init=0.01, random_state=s)),
    "five classes mlp": (
        "five classes",
        lambda s: MLPClassifier((32,), max_iter=40, learning_rate_init=0.01, random_state=s),
    ),
    "bank logistic": ("bank", lambda s: LogisticRegression(C=10.0, max_iter=300)),
    "adult forest": ("adult", lambda s: RandomForestClassifier(random_state=s)),
    "synthetic forest": ("synthetic", lambda s: RandomForestClassifier(40, min_samples_leaf=2, random_state=s)),
    "bank boosting": ("bank", lambda s: LGBMClassifier(verbosity=-1, n_jobs=1, seed=s)),
}


class World:
    """Draws of records of several kinds from one data set, none drawn twice in a draw."""

    def __init__(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
        self.x, self.y, self.rng = x, y, rng
        self.classes = int(y.max()) + 1
        self.order = rng.permutation(len(x))
        self.column = int(np.argmax(np.abs(np.corrcoef(x.T, y == np.bincount(y).argmax())[-1, :-1])))

    def take(self, n: int, kind: str = "base") -> tuple[np.ndarray, np.ndarray]:
        """Draw n records of a kind: base, clean, noisy, moved, mix+0.1, mix-0.2, rule0.3, …."""
        rng = self.rng
        if kind.startswith("mix"):
            top = np.bincount(self.y).argmax()
            share = np.clip((self.y == top).mean() + float(kind[3:]), 0.02, 0.98)
            is_top = self.y[self.order] == top
            n_top = rng.binomial(n, share)
            rows = np.r_[self.order[is_top][:n_top], self.order[~is_top][: n - n_top]]
            rows = rng.permutation(rows)
        else:
            rows = self.order[:n]
        self.order = self.order[~np.isin(self.order, rows)]
        x, y = self.x[rows].copy(), self.y[rows].copy()
        noise = {"clean": 0.0, "noisy": 0.16}.get(kind, NOISE)
        flip = rng.random(len(y)) < noise
        y[flip] = rng.integers(0, self.classes, int(flip.sum()))
        if kind.startswith("rule"):  # labels of a region follow another rule
            share = float(kind[4:] or 0.3)
            swap = (x[:, self.column] > np.median(self.x[:, self.column])) & (rng.random(len(y)) < share)
            y[swap] = (y[swap] + 1) % self.classes
        if kind == "moved":
            x[:, self.column] += 0.5
        return x, y


def answers(model, x: np.ndarray, y: np.ndarray, classes: int) -> np.ndarray:
    """Log-odds of the true class."""
    p = np.full((len(x), classes), 1e-6)
    p[:, model.classes_.astype(int)] = model.predict_proba(x)
    p = np.clip(p / p.sum(1, keepdims=True), 1e-6, 1 - 1e-6)
    own = p[np.arange(len(y)), y]
    return np.log(own) - np.log1p(-own)


def p_above(compared) -> float:
    """One-sided p-value of a comparison with controls."""
    d = compared.difference
    spread = (d.high - d.value) / stats.t.ppf(0.975, compared.freedom)
    return float(stats.t.sf(d.value / spread, compared.freedom)) if spread > 0 else 1.0


def p_plain(scores: np.ndarray, truth: np.ndarray) -> float:
    """One-sided level at which the interval of the AUC alone lies above one half."""
    return min((level for level in LEVELS if auc(scores, truth, 1 - 2 * level).low > 0.5), default=1.0)


LEVELS = (0.001, 0.003, 0.01, 0.025, 0.05, 0.1)
OUTSIDERS = ("base", "noisy", "clean", "moved", "mix+0.2", "mix-0.2", "rule0.3")
MEMBERS = (
    *("clean", "noisy", "moved", "mix+0.05", "mix+0.1", "mix+0.2", "mix-0.05", "mix-0.1", "mix-0.2"),
    *("rule0.07", "rule0.15", "rule0.3"),
)
# target, members, non-members
WORLDS = (
    *(("null", "members", kind) for kind in OUTSIDERS),
    ("null", "members:30", "noisy:30"),
    *((f"{count} members", "members", kind) for count in (150, 300) for kind in ("base", "clean", "mix-0.2")),
    *((f"rest {kind}", "members", other) for kind in ("mix+0.1", "rule0.3", "clean") for other in ("mix-0.2", "noisy")),
    *((f"{size} rows", "members", kind) for size in (200, 1500) for kind in ("noisy", "mix-0.2")),
    *((f"kind {kind}", f"as {kind}", "base") for kind in MEMBERS),
    *(
        (f"kind {kind}", f"as {kind}", other)
        for kind in ("rule0.15", "rule0.3", "mix-0.1")
        for other in ("noisy", "mix-0.2")
    ),
)


def draw(setup: str, seed: int) -> dict[tuple[str, str, str], dict]:
    """Judge all worlds of a draw."""
    data, make = SETUPS[setup]
    rng = np.random.default_rng([11, seed])
    world = World(*TABLES.setdefault(data, table(data)), rng)
    sets = {"members": world.take(SIDE)}
    sets |= {kind: world.take(SIDE, kind) for kind in OUTSIDERS}
    sets |= {f"as {kind}": world.take(SIDE, kind) for kind in MEMBERS}
    n = sum(len(part[1]) for part in sets.values())
    sets |= {"held out": world.take(HELD_OUT), "population": world.take(POPULATION - HELD_OUT)}
    x, y = np.vstack([part[0] for part in sets.values()]), np.concatenate([part[1] for part in sets.values()])
    starts = dict(zip(sets, np.cumsum([0, *(len(part[1]) for part in sets.values())]), strict=False))

    def fit(records: tuple[np.ndarray, np.ndarray], number: int):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return answers(make(seed * 100 + number).fit(*records), x, y, world.classes)

    half = np.zeros((K, POPULATION - HELD_OUT), dtype=bool)
    for i in range(0, K, 2):
        half[i, rng.permutation(half.shape[1])[: half.shape[1] // 2]] = True
        half[i + 1] = ~half[i]
    population = sets["population"]
    controls = np.stack([fit((population[0][rows], population[1][rows]), i) for i, rows in enumerate(half)])
    trained_on = np.hstack([np.zeros((K, n + HELD_OUT), dtype=bool), half])
    overlap = mean_overlap(half)
    targets = {"null": fit(world.take(TRAIN), 20)}
    for count in (150, 300):
        rest = world.take(TRAIN - count)
        part = tuple(np.concatenate([sets["members"][i][:count], rest[i]]) for i in (0, 1))
        targets[f"{count} members"] = fit(part, 30 + count)
    targets |= {f"rest {kind}": fit(world.take(TRAIN, kind), 21) for kind in ("mix+0.1", "rule0.3", "clean")}
    targets |= {f"{size} rows": fit(world.take(size), 22) for size in (200, 1500)}
    targets |= {f"kind {kind}": fit(world.take(TRAIN, kind), 23) for kind in MEMBERS}

    def loss(values: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -values)

    held = np.arange(n, n + HELD_OUT)
    calibrated = np.stack([row - np.delete(controls, j, 0).mean(0) for j, row in enumerate(controls)])
    differs, gaps = {}, {}
    for name, own in targets.items():
        losses = loss(own[held]), loss(controls[:, held])
        agreement = compare_answers(own[held], controls[:, held], overlap=overlap, losses=losses)
        differs[name] = bool(agreement.differs)
        gaps[name], control_gaps = subtract_explained(own, controls, trained_on, y, x, n)
    found, alike = {}, {}
    less = {"overlap": overlap, "subtracts_references": True}
    for name, inside, outside in WORLDS:
        rows = []
        for part in (inside, outside):
            label, _, count = part.partition(":")
            rows.append(starts[label] + np.arange(int(count or SIDE)))
        truth = np.arange(len(rows[0]) + len(rows[1])) < len(rows[0])
        inner, rows = rows[0], np.concatenate(rows)
        own = targets[name]
        relative = own - controls.mean(0)
        found[name, inside, outside] = judged = {
            "plain": p_plain(own[rows], truth),
            "Δ": p_above(compare_auc(own[rows], controls[:, rows], truth, overlap=overlap)),
            "Δ, k = 4": p_above(compare_auc(own[rows], controls[:4, rows], truth, overlap=overlap)),
            "calibrated, plain": p_plain(relative[rows], truth),
            "calibrated": p_above(compare_auc(relative[rows], calibrated[:, rows], truth, **less)),
            "unexplained": p_above(compare_auc(gaps[name][rows], control_gaps[:, rows], truth, **less)),
            "differs": differs[name],
        }
        others = x[n:], y[n:]
        if judged["unexplained"] < 0.0025 and not judged["differs"]:  # else nobody is accused anyway
            if inside not in alike:
                alike[inside] = blind.baseline(x[inner], others[0], y_members=y[inner], y_nonmembers=others[1]).p_value
            judged["population"] = alike[inside]
    return found


VERDICT_LEVEL = 0.003  # about that of one of several intervals of a verdict, on a side


def is_accused(judged: dict) -> bool:
    """Whether the check of an audit would accuse the target."""
    return judged["unexplained"] < 0.0025 and not judged["differs"] and judged.get("population", 1) > 0.1


RULES = {
    **{name: lambda judged, name=name: judged[name] <= 0.025 for name in ("plain", "Δ", "calibrated")},
    "calibrated, .3 %": lambda judged: judged["calibrated, plain"] <= VERDICT_LEVEL,
    "wider": lambda judged: max(judged["calibrated, plain"], judged["calibrated"]) <= VERDICT_LEVEL,
    "confirmed": lambda judged: judged["calibrated, plain"] <= VERDICT_LEVEL and judged["unexplained"] <= 0.025,
    "rule": is_accused,
}


def print_table(folder: Path) -> None:
    """Print for each setup and world how often, in per cent, each rule accuses."""
    for path in sorted(folder.glob("*.pkl")):
        draws = []
        with path.open("rb") as file, contextlib.suppress(EOFError):
            while True:
                draws.append(pickle.load(file))
        print(f"\n{path.stem}, {len(draws)} draws\n\n| target | members | non-members | draws | {' | '.join(RULES)} |")
        print("|---" * (4 + len(RULES)) + "|")
        for world in dict.fromkeys(world for each in draws for world in each):
            judged = [each[world] for each in draws if world in each]
            rates = [np.mean([is_found(each) for each in judged]) for is_found in RULES.values()]
            cells = [str(len(judged)), *(f"{100 * rate:.0f}" for rate in rates)]
            print(f"| {' | '.join((*world, *cells))} |")


TABLES: dict = {}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["draw", "table"])
    parser.add_argument("setup", nargs="?", choices=[*SETUPS])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.part == "draw":
        begun = time.time()
        for seed in range(options.start, options.start + options.draws):
            found = draw(options.setup, seed)
            with (options.out / f"{options.setup.replace(' ', '-')}.pkl").open("ab") as file:
                pickle.dump(found, file)
            print(seed, round(time.time() - begun, 1), flush=True)
    else:
        print_table(options.out)
