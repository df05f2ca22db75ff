"""Verdicts and gates where covariates, scores less what the records explain, ties and copies come together.

    OMP_NUM_THREADS=1 PYTHONPATH=src:tests python benchmarks/verdict_combinations.py [null] [leak] [--audits 25]

Numbers alone, no model and no blind baseline. Scores fall with a column (correlation .7), named as it is, in
categories, or not at all, and with one of four columns of the records. Counts of answers and of gates;
"against raw evidence": "no leak found" beside a raw AUC whose interval, as wide as the verdict's, excludes 1/2.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from divulge import evaluation
from divulge.auditing.gates import gate
from divulge.auditing.scopes import simultaneous_confidence
from divulge.evaluation import blind
from divulge.evaluation.covariates import column_covariates
from score_audits import scored, with_covariates

ANSWERS = ("leak found", "split is confounded", "too little data to say", "no leak found")
VALUES = {
    "continuous": lambda own: own,
    "rounded": np.round,
    "two-valued": lambda own: (own > 0) * 1.0,
    "constant": lambda own: own * 0,
}
CARRIED = 0.7


@dataclass(frozen=True)
class Cell:
    """One kind of audit; ``longer`` in standard errors, ``named``: how the column is named."""

    m: int
    n: int
    values: str = "continuous"
    recipes: int = 1
    named: str = "no"
    longer: float = 0.0
    copies: bool = False
    leak: float = 0.5

    def __str__(self) -> str:
        copies = ", groups of 1 to 8 copies" if self.copies else ""
        return (
            f"{self.m} / {self.n} | {self.values}, {self.recipes} recipe(s){copies} | {self.named} | "
            f"{self.longer:.1f} | {self.leak:g}"
        )


def audited(cell: Cell, seed: int):
    """One audit of this kind."""
    n = cell.m + cell.n
    rng, inside = np.random.default_rng([seed, cell.m, cell.n, cell.recipes]), np.arange(n) < cell.m
    rows = np.repeat(np.arange(n), rng.integers(1, 9, n)) if cell.copies else np.arange(n)
    column = rng.normal(size=n) + cell.longer * (1 / cell.m + 1 / cell.n) ** 0.5 * inside
    x = rng.normal(size=(n, 4))
    if cell.named == "no, in the records":
        x[:, 1] = column
    leaks = rng.normal(size=(cell.recipes, n)) + 2**0.5 * ndtri(cell.leak) * inside
    values = VALUES[cell.values](CARRIED * column + 0.4 * x[:, 0] + (1 - CARRIED**2) ** 0.5 * leaks)
    members = inside[rows]
    scores = {f"r{i}": each[rows] for i, each in enumerate(values)}
    audit = scored(scores, members, fpr=(0.05,) if cell.n >= 30 else (0.1,))
    audit = replace(audit, duplicate_groups=rows if cell.copies else None)
    audit = replace(audit, unexplained_scores=blind.adjust_scores(audit.scores, x[rows], None, seed))
    if cell.named == "number":
        return with_covariates(audit, column_covariates({"age": column[rows]}), seed=seed)
    if cell.named == "categories":
        words = np.round(column * 1.5).astype(int).astype(str)
        return with_covariates(
            audit, column_covariates({"ward": words[rows], "age": rng.normal(size=n)[rows]}), seed=seed
        )
    return audit


def contradicted(audit) -> bool:
    """Whether a raw AUC shows a leak by itself."""
    raw = [audit[name].distinct for name in audit]
    areas = [evaluation.auc(outcome.scores, outcome.members, simultaneous_confidence(audit)) for outcome in raw]
    return any(area.low > 0.5 or area.high < 0.5 for area in areas)


def null_cells():
    """No leak: sizes, ties, recipes, names of the column, differences in it, copies."""
    for m, n in ((12, 12), (60, 60), (300, 300), (300, 15)):
        for column, longer in (("no", 0.0), ("number", 0.0), ("number", 2.0), ("categories", 0.0), ("categories", 2.0)):
            for values in VALUES if column == "number" else ("continuous", "two-valued"):
                for recipes in (1, 4) if (values, n) == ("continuous", 60) else (4,):
                    yield Cell(m, n, values, recipes, column, longer)
        if m + n <= 120:
            for column in ("no", "number"):
                for values in ("continuous", "two-valued"):
                    yield Cell(m, n, values, 4, column, copies=True)


def leak_cells():
    """A leak, open or hidden by as large a difference in the column as makes the raw AUC 1/2."""
    for m, n, area in ((300, 300, 0.58), (300, 300, 0.61), (60, 60, 0.75), (300, 40, 0.7)):
        masking = -(2**0.5) * ndtri(area) * (1 - CARRIED**2) ** 0.5 / CARRIED / (1 / m + 1 / n) ** 0.5
        for column in ("no", "number", "categories"):
            yield Cell(m, n, named=column, leak=area)
        for column in ("number", "categories", "no, in the records"):
            yield Cell(m, n, named=column, longer=masking, leak=area)
        yield Cell(m, n, "two-valued", named="number", longer=masking, leak=area)
    for column in ("no", "number"):
        yield Cell(60, 60, named=column, copies=True, leak=0.75)


PARTS = {"null": null_cells, "leak": leak_cells}


def main() -> None:
    """Print a row for each cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--audits", type=int, default=25)
    options = parser.parse_args()
    for part in options.parts:
        print(f"\n## `benchmarks/verdict_combinations.py {part} --audits {options.audits}`\n")
        columns = [*ANSWERS, "gate broken", "gate kept", "against raw evidence"]
        print(f"| members / non-members | scores | named | apart (SE) | AUC | {' | '.join(columns)} |")
        print("|---" * (5 + len(columns)) + "|")
        for cell in PARTS[part]():
            limits = ["auc:0.5", "epsilon:0"] if part == "null" else [f"auc:{0.5 + (cell.leak - 0.5) / 2:.3f}"]
            answers, rulings, against = Counter(), Counter(), 0
            for seed in range(options.audits):
                audit = audited(cell, seed)
                answer, states = audit.verdict.answer, {ruling.state for ruling in gate(audit, limits)}
                answers[answer] += 1
                rulings[next(state for state in ("broken", "undecided", "kept") if state in states)] += 1
                against += answer == "no leak found" and contradicted(audit)
            cells = [*(answers[answer] for answer in ANSWERS), rulings["broken"], rulings["kept"], against]
            print(f"| {cell} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
