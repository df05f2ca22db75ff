"""What hints of a model's structure say of what its answers give away: models with and without each, and their AUC.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/structure.py

Trains every model of `benchmarks/defences.py` again (draw 0), looks at its structure and at the outputs of its members,
and takes the AUC of `auto` from `benchmarks/results/defences.md`. Writes `benchmarks/results/structure.md`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone

from defences import draw, models, read_rows, read_tables
from divulge.inspection import inspect_model, inspect_outputs

PAGE = Path(__file__).parent / "results" / "structure.md"
HEAD = """# Hints of a model's structure, and what its answers give away

`benchmarks/structure.py`: {n} models of `benchmarks/defences.py` (five tables, six kinds of models, their settings,
one draw), each with the AUC of `auto` with 4 reference models from `benchmarks/results/defences.md`. For each hint:
models that have it and models that do not, their median AUC and its range, and the probability that a model with the
hint has the higher AUC of the two. A hint that all or none have says nothing. Stored records are given away by the
file, whatever the AUC.

| hint | models | with it | AUC | without | AUC | with it higher |
|---|---|---|---|---|---|---|
"""


def measure() -> list[tuple[str, str, float, set[str]]]:
    """Return table, kind of model, AUC and names of the hints of each model."""
    rows = [[cell.strip() for cell in row.split("|")] for row in read_rows()[0]]
    auc = {tuple(cells[1:4]): float(cells[4].split()[0]) for cells in rows}
    cases = []
    for table, x, y in read_tables(Path(os.environ["DIVULGE_DATA"])):
        members = draw(table, x, y, 0)["members"]
        for model_type, (estimator, settings) in models(regression=table == "diabetes").items():
            for setting in [{}, *settings]:
                model = clone(estimator)
                last_step = model.steps[-1][1] if hasattr(model, "steps") else model
                last_step.set_params(**setting)
                model.fit(members.x, members.y)
                name = ", ".join(f"{key} = {value}" for key, value in setting.items()) or "as it is"
                hints = inspect_model(model, training_records=len(members)).hints + inspect_outputs(model, members)
                cases.append((table, model_type, auc[table, model_type, name], {hint.name for hint in hints}))
    return cases


def format_spread(values: list[float]) -> str:
    """Return median and range."""
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "–"


def format_row(hint: str, group: str, cases: list[tuple[str, str, float, set[str]]]) -> str:
    """Return a row of the page."""
    having = [auc for _, _, auc, hints in cases if hint in hints]
    lacking = [auc for _, _, auc, hints in cases if hint not in hints]
    pairs = [(a > b) + 0.5 * (a == b) for a in having for b in lacking]
    higher = f"{np.mean(pairs):.2f}" if pairs else "–"
    cells = [hint, group, str(len(having)), format_spread(having), str(len(lacking)), format_spread(lacking), higher]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    warnings.simplefilter("ignore")
    cases = measure()
    names = sorted({hint for *_, hints in cases for hint in hints})
    lines = []
    for hint in names:
        lines.append(format_row(hint, "all", cases))
        trees = [case for case in cases if case[1] in ("forest", "boosting")]
        if any(hint in hints for *_, hints in trees):
            lines.append(format_row(hint, "forests, boosting", trees))
    lines.append("")
    lines += ["| table | model | AUC | hints |", "|---|---|---|---|"]
    lines += [
        f"| {table} | {model_type} | {auc:.3f} | {', '.join(sorted(hints))} |"
        for table, model_type, auc, hints in cases
    ]
    PAGE.write_text(HEAD.format(n=len(cases)) + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
