"""What reference models add where nobody names any: `auto` without and with 16 clones, and with models of the owner's.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/default_references.py [--nulls SEEDS]

With --nulls it audits, by default settings, 250 members, 250 non-members and a population of 800 where the target was
fitted on 250 other records, and writes `references_nulls.md`.

500 members, 500 non-members, a population of 1,500 (or as the table says); the target is fitted on the members, in the
cells of nothing to find on 500 other records. Writes `benchmarks/results/references.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import divulge as dv
from divulge.references import Train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PAGE = Path(__file__).parent / "results" / "references.md"
NULLS = PAGE.with_name("references_nulls.md")
N = 500
MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestClassifier(100, random_state=seed),
    "forest leaf 5": lambda seed: RandomForestClassifier(100, min_samples_leaf=5, random_state=seed),
    "boosting": lambda seed: GradientBoostingClassifier(random_state=seed),
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(C=10, max_iter=500)),
    "MLP": lambda seed: make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=100, random_state=seed)),
}
TABLES = ("adult", "bank_marketing", "satimage", "location30")
FEW = ("forest", "boosting", "logistic")
Cell = tuple[str, str, int, bool, int]
CELLS: list[Cell] = [
    *((table, model, 0, False, 1500) for table in TABLES for model in MODELS if table + model != "location30boosting"),
    *(
        (table, model, 1, False, n)
        for model in ("forest", "logistic")
        for n in (100, 300)
        for table in ("adult", "satimage")
    ),
    *((table, model, seed, True, 1500) for seed in range(2) for table in ("adult", "satimage") for model in FEW),
]
COLUMNS = ("loss", "none", "16", "auto-online", "rmia-online")


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table's columns as numbers, and its classes."""
    with np.load(Path(os.environ["DIVULGE_DATA"]) / f"{name}.npz") as arrays:
        y = np.unique(arrays["y"], return_inverse=True)[1]
        if "X_num" in arrays:
            return np.hstack([arrays["X_num"], *(np.eye(int(c.max()) + 1)[c] for c in arrays["X_cat"].T)]), y
        if "X" in arrays:
            return arrays["X"].astype(np.float64), y
        return np.unpackbits(arrays["x_bits"], axis=1)[:, : int(arrays["n_features"])].astype(np.float64), y


def figures(scores: np.ndarray) -> tuple[float, float]:
    """Return the AUC, and the TPR at 1 % of false positives, of scores of members and then non-members."""
    is_member = np.arange(len(scores)) < N
    threshold = np.sort(scores[~is_member])[::-1][int(0.01 * N) - 1]
    return float(roc_auc_score(is_member, scores)), float((scores[is_member] > threshold).mean())


def measure(table: str, model: str, seed: int, is_null: bool, n_population: int) -> dict[str, Any]:
    """Audit one target without references, with clones, and as its owner can."""
    x, y = read(table)
    order = np.random.default_rng(seed).permutation(np.unique(x, axis=0, return_index=True)[1])
    rows = np.split(order[: 3 * N + n_population], [N, 2 * N, 3 * N])
    members, nonmembers, others, population = (dv.Records(x[part], y[part]) for part in rows)
    learned = others if is_null else members
    target = MODELS[model](seed).fit(learned.x, learned.y)
    found: dict[str, Any] = {
        "table": table,
        "model": model,
        "seed": seed,
        "null": is_null,
        "population": n_population,
    }
    runs = {
        "none": (["auto", "loss"], None),
        "16": (["auto"], Train(count=16)),
        "online": (["auto-online", "rmia-online"], Train(count=16)),
    }
    for name, (recipes, references) in runs.items():
        start = time.process_time()
        result = dv.audit(
            target, members=members, nonmembers=nonmembers, population=population, recipes=recipes,
            references=references, seed=seed,
        )  # fmt: skip
        found[f"{name}: CPU s"] = time.process_time() - start
        found[f"{name}: answer"] = result.verdict.answer
        found |= {name if recipe == "auto" else recipe: figures(result.scores[recipe]) for recipe in recipes}
    return found


def audit_nothing(table: str, model: str, seed: int, n: int = 250, n_population: int = 800) -> str:
    """Return the answer of an audit by default settings of a target that saw neither members nor non-members."""
    x, y = read(table)
    order = np.random.default_rng(1000 + seed).permutation(np.unique(x, axis=0, return_index=True)[1])
    rows = np.split(order[: 3 * n + n_population], [n, 2 * n, 3 * n])
    members, nonmembers, learned, population = (dv.Records(x[part], y[part]) for part in rows)
    target = MODELS[model](seed).fit(learned.x, learned.y)
    result = dv.audit(target, members=members, nonmembers=nonmembers, population=population, seed=seed, progress=None)
    return result.verdict.answer


def write_nulls(seeds: int) -> str:
    """Return the page of audits in which there is nothing to find."""
    lines = ["# Audits by default where there is nothing to find", "", "| target | audits | leak found | too little |"]
    lines.append("|---|---|---|---|")
    total = Counter[str]()
    for table in TABLES:
        for model in ("forest", "forest leaf 5", "logistic", "boosting"):
            if (table, model) != ("location30", "boosting"):
                answers = Counter(audit_nothing(table, model, seed) for seed in range(seeds))
                total += answers
                counts = f"{seeds} | {answers['leak found']} | {answers['too little data to say']}"
                lines.append(f"| {table}, {model} | {counts} |")
                print(lines[-1], flush=True)
    lines.append(f"| all | {total.total()} | {total['leak found']} | {total['too little data to say']} |")
    return "\n".join(lines) + "\n"


def write_page(cells: Iterable[dict[str, Any]]) -> str:
    """Return the page."""
    cells = list(cells)
    groups = {
        "1,500 records in the population": [c for c in cells if not c["null"] and c["population"] == 1500],
        "a population of 300": [c for c in cells if c["population"] == 300],
        "a population of 100": [c for c in cells if c["population"] == 100],
        "nothing to find": [c for c in cells if c["null"]],
    }
    names = "loss | `auto`, no references | `auto`, 16 clones | `auto-online` | `rmia-online`"
    lines = [
        "# Reference models where nobody names any",
        "",
        (__doc__ or "").strip().split("\n\n")[-1].replace("Writes `benchmarks/results/references.md`.", "").strip(),
        "AUC / TPR at 1 % of false positives.",
        "",
        f"| | cells | {names} |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for title, group in groups.items():
        if group:
            means = (np.mean([cell[column] for cell in group], axis=0) for column in COLUMNS)
            lines.append(f"| {title} | {len(group)} | " + " | ".join(f"{a:.3f} / {t:.3f}" for a, t in means) + " |")
    answers = [(c["none: answer"], c["16: answer"], c["online: answer"]) for c in groups["nothing to find"]]
    false = [sum(each == "leak found" for each in column) for column in zip(*answers, strict=True)]
    if false:
        lines += [
            "",
            f'Where there is nothing to find, "leak found" was said {false[0]} times without references, {false[1]} '
            f"times with clones and {false[2]} times of `auto-online` and `rmia-online`, of {len(answers)} each.",
        ]
    lines += ["", f"| cell | {names} | answer: none, clones, online |", "|---|" + "---|" * (len(COLUMNS) + 1)]
    for cell in cells:
        name = f"{cell['table']}, {cell['model']}, population {cell['population']:,}" + cell["null"] * ", nothing"
        values = " | ".join(f"{auc:.3f} / {tpr:.3f}" for auc, tpr in (cell[column] for column in COLUMNS))
        answer = "; ".join(cell[f"{run}: answer"] for run in ("none", "16", "online"))
        lines.append(f"| {name} | {values} | {answer} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all cells, or those given as JSON, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kept", type=Path, help="a file to which each cell is appended, and where finished ones are")
    parser.add_argument("--nulls", type=int, help="seeds of each target of audits in which there is nothing to find")
    options = parser.parse_args()
    kept = options.kept
    warnings.simplefilter("ignore")
    if options.nulls:
        NULLS.write_text(write_nulls(options.nulls), encoding="utf-8")
        return
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    names = {(c["table"], c["model"], c["seed"], c["null"], c["population"]) for c in done}
    for cell in CELLS:
        if cell not in names:
            done.append(measure(*cell))
            print(done[-1], flush=True)
            if kept:
                with kept.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    PAGE.write_text(write_page(done), encoding="utf-8")


if __name__ == "__main__":
    main()
