"""Which records were used? Lists of candidates of unknown membership: false discoveries, power, and lists of nothing.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/which_records.py [--splits 20] [--null 400]

Of each data set a model is trained on a random half of the candidates. Null draws train it on other records, so that
whatever is selected is false. Writes `benchmarks/results/which_records.md`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge.statistics import proportion

FOLDER = Path(__file__).parent
LEVELS = (0.05, 0.1, 0.2)
HEAD = """# Which records were used?

`benchmarks/which_records.py`: a model is trained on a random half of the candidates. The population has twice as many
records, of which half are compared with. FDP and power at a bound of .05, .1 and .2: means over {splits} splits, FDP
with twice its standard error. "auto" is the default, without reference models unless their number is said. Forests have
50 trees without a limit of depth, networks 128 hidden units and 150 rounds of Adam: both fit their training records.
"""


@dataclass(frozen=True)
class Data:
    """Records of which models are trained, and how.

    Args:
        x: ``[n, …]``.
        y: classes or real values, ``[n]``.
        make: an untrained model, by seed.
        candidates: number of candidates.
        references: reference models of a second run; 0: there is none.
    """

    x: Any
    y: np.ndarray
    make: Callable[[int], Any]
    candidates: int = 1000
    references: int = 0


def forest(seed: int) -> Any:
    return RandomForestClassifier(50, random_state=seed)


def network(seed: int) -> Any:
    return make_pipeline(StandardScaler(), MLPClassifier((128,), max_iter=150, random_state=seed))


def word_forest(seed: int) -> Any:
    return make_pipeline(TfidfVectorizer(max_features=2000), forest(seed))


def value_forest(seed: int) -> Any:
    return RandomForestRegressor(50, random_state=seed)


def read_data() -> dict[str, Data]:
    """Return the data sets: three tables, images, texts, and a table of real values."""
    folder = Path(os.environ["DIVULGE_DATA"])
    sets = {}
    with np.load(folder / "location30.npz") as z:
        x = np.unpackbits(z["x_bits"], axis=1, count=int(z["n_features"])).astype(np.float32)
        sets["location30, network"] = Data(x, z["y"].astype(np.int64), network, references=4)
    with np.load(folder / "satimage.npz") as z:
        bands = z["X"].astype(np.float32)
        sets["satimage, forest"] = Data(bands, np.unique(z["y"], return_inverse=True)[1], forest, references=4)
    with np.load(folder / "bank_marketing.npz") as z:
        x = np.column_stack([z["X_num"], z["X_cat"]]).astype(np.float32)
        sets["bank, forest"] = Data(x, z["y"].astype(np.int64), forest)
        ages = np.delete(x, 0, axis=1), x[:, 0].astype(float) + 0.5
    with np.load(folder / "cifar100_small.npz") as z:
        pixels = np.concatenate([z["x_train"], z["x_test"]])[:, ::2, ::2].reshape(-1, 768).astype(np.float32) / 255
        coarse = np.concatenate([z["coarse_train"], z["coarse_test"]]).astype(np.int64)
        sets["CIFAR-100 in 20 classes, network"] = Data(pixels, coarse, network)
    with gzip.open(folder / "20news_bydate_small.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts, labels = (np.array([row[name] for row in rows]) for name in ("text", "label"))
    sets["20 Newsgroups, forest of words"] = Data(texts, np.unique(labels, return_inverse=True)[1], word_forest, 900)
    sets["age in bank, forest of real values"] = Data(*ages, value_forest, references=4)
    return sets


def draw(data: Data, seed: int, *, is_null: bool, n: int) -> tuple[Any, dv.Records, dv.Records, np.ndarray]:
    """Return a model, candidates, population, and which candidates it was trained on: none in a null draw."""
    order = np.random.default_rng(seed).permutation(len(data.x))[: 3 * n + n // 2]
    used, unused, population, others = np.split(order, [n // 2, n, 3 * n])
    trained = others if is_null else used
    model = data.make(seed).fit(data.x[trained], data.y[trained])
    rows = np.random.default_rng(seed + 1).permutation(np.append(used, unused))
    return (
        model,
        dv.Records(data.x[rows], data.y[rows]),
        dv.Records(data.x[population], data.y[population]),
        np.isin(rows, trained),
    )


def find(data: Data, drawn: Any, seed: int, recipe: str, references: int = 0, **options: Any) -> Any:
    """Return the list at a bound of .1."""
    model, candidates, population, _ = drawn
    trainer = dv.references.Train(count=references) if references else None
    return dv.identify(
        target=model, candidates=candidates, population=population, recipes=[recipe], references=trainer, fdr=0.1,
        seed=seed, duplicates="drop", progress=None, **options,
    )  # fmt: skip


def measure(data: Data, n_splits: int, recipe: str, references: int, **options: Any) -> tuple[list[str], float]:
    """Return FDP with twice its standard error and power at each level, and seconds for a list."""
    outcomes, seconds = np.zeros((n_splits, len(LEVELS), 2)), 0.0
    for seed in range(n_splits):
        drawn = draw(data, seed, is_null=False, n=data.candidates)
        start = time.perf_counter()
        found, truth = find(data, drawn, seed, recipe, references, **options), drawn[3]
        seconds += time.perf_counter() - start
        (scores,), (calibration,) = found.scores.values(), found.calibration.values()
        kept = np.isfinite(scores)
        method = "storey" if found.guarantee.standing == "holds" else "bh"  # as the default chooses
        for place, level in enumerate(LEVELS):
            selected = dv.identify(scores[kept], calibration, fdr=level, method=method).selected
            n_true = (selected & truth[kept]).sum()
            outcomes[seed, place] = 1 - n_true / max(1, selected.sum()) if selected.any() else 0, n_true / truth.sum()
    error = 2 * outcomes[..., 0].std(axis=0, ddof=1) / n_splits**0.5
    cells = [f"{fdp:.3f} ± {e:.3f} / {power:.3f}" for (fdp, power), e in zip(outcomes.mean(axis=0), error, strict=True)]
    return cells, seconds / n_splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--null", type=int, default=400)
    arguments = parser.parse_args()
    path = FOLDER / "results" / "which_records.md"
    path.write_text(HEAD.format(splits=arguments.splits))

    def write(*cells: object) -> None:
        with path.open("a") as file:
            file.write(f"| {' | '.join(map(str, cells))} |\n")

    def title(text: str, *columns: str) -> None:
        with path.open("a") as file:
            file.write(f"\n{text}\n\n")
        write(*columns)
        write(*["---"] * len(columns))

    levels = [f"FDP / power at {level:g}" for level in LEVELS]
    sets = read_data()
    title("## False discoveries and power", "data, model", "recipe", *levels, "s per list")
    for name, data in sets.items():
        for recipe, references in [("loss", 0), ("auto", 0), *([("auto", data.references)] if data.references else [])]:
            cells, seconds = measure(data, arguments.splits, recipe, references)
            write(name, recipe + (f", {references} references" if references else ""), *cells, f"{seconds:.1f}")
    title("## A part of each record is known", "data, model", "known", *levels)
    for share in (0.4, 0.6):
        name = "location30, network"
        cells, _ = measure(sets[name], arguments.splits, "auto", 0, known=f"share:{share}")
        write(name, f"{share:.0%}", *cells)
    text = f"## No candidate was used: lists at .1 that are not empty, of {arguments.null} draws of 200 candidates"
    title(text, "data, model", "recipe", "not empty")
    for recipe in ("loss", "auto"):
        name, data = "satimage, forest", sets["satimage, forest"]
        n_found = 0
        for seed in range(arguments.null):
            drawn = draw(data, seed, is_null=True, n=200)
            n_found += find(data, drawn, seed, recipe).count > 0
        write(name, recipe, proportion(n_found, arguments.null))


if __name__ == "__main__":
    main()
