"""The transfer attack beside other attacks on labels alone: tables from scores that `membership.py` kept.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/membership.py --out FOLDER
        --recipes loss correct correct-calibrated transfer boundary
    PYTHONPATH=src:benchmarks python papers/transfer.py FOLDER

Writes `papers/results/transfer.md`. Substitutes are trained like the target, on the auditor's 1,200 records as the
target labels them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import divulge as dv
from divulge import store
from membership import SIGNALS, SIZES
from membership_tables import TITLES, clipped, loaded, over_seeds, short, signed

HEAD = """# The transfer attack

`benchmarks/membership.py` and `papers/transfer.py`: the targets, candidates and intervals of `membership.md`
(MLPs with 128 hidden units trained on 600 records, 1,000 non-members, three seeds). Substitutes are trained like the
target, on 1,200 records of the auditor's as the target labels them; `correct-calibrated` has models trained on halves
of these records with their own labels.

The last three rows of a set are no recipes. They take the transfer attack apart: what the substitutes say of a record
without the target's answer for it; the same of the models of `correct-calibrated`, which know nothing of the target;
and whether the target is right less how probable the substitutes find that (`Calibrated()` on "correctness" with
`references="substitutes"`).
"""
COUNTS = (1, 4, 16)


def seen(folder: Path, key: str) -> list[dict[str, np.ndarray]]:
    """Scores of each seed by name: the recipes', and the parts of the transfer attack."""
    runs = []
    for seed, run in enumerate(loaded(folder, key, "known")):
        member = run["member"]
        rows = {"LOSS (not labels only)": run["0/loss"], "`correct`": run["0/correct"]}
        if "0/boundary" in run:
            rows["`boundary`, 500 queries"] = run["0/boundary"]
        for recipe, model_role in (("correct-calibrated", "reference"), ("transfer", "substitute")):
            for count in COUNTS:
                rows[f"`{recipe}`, {count} {model_role}{'s' * (count > 1)}"] = run[f"{count}/{recipe}"]
        taught, own_signals = (
            store.read_arrays(folder / f"{key}-{seed}-{model_role}.npz")["signals"][: max(COUNTS), : len(member)]
            for model_role in ("taught", "out")
        )
        loss, sure = SIGNALS.index("label-loss"), SIGNALS.index("confidence")
        rows["the substitutes alone, 16"] = taught[:, :, loss].mean(axis=0)
        rows["models taught by their own labels alone, 16"] = own_signals[:, :, loss].mean(axis=0)
        rows["right or wrong, less the substitutes, 16"] = run["0/correct"] - taught[:, :, sure].mean(axis=0)
        runs.append(rows | {"member": member})
    return runs


def table(folder: Path, key: str) -> list[str]:
    """One data set."""
    runs = seen(folder, key)
    lines = [
        f"## {TITLES[key][0]}", "",
        f"{SIZES[key].members} members, {SIZES[key].outsiders:,} others, {len(runs)} seeds.", "",
        "| attack | AUC | TPR at 1 % | AUC minus `correct`'s |", "|---|---|---|---|",
    ]  # fmt: skip
    for name in (name for name in runs[0] if name != "member"):
        auc, tpr = (
            clipped(over_seeds([dv.evaluation.measure(run[name], run["member"], s) for run in runs]))
            for s in ("auc", "tpr@fpr=0.01")
        )
        pairs = [dv.evaluation.paired_difference(run[name], run["`correct`"], run["member"], "auc") for run in runs]
        difference = "" if name == "`correct`" else signed(over_seeds(pairs))
        lines.append(f"| {name} | {short(auc)} | {short(tpr)} | {difference} |")
    is_right = [run["`correct`"] > 0 for run in runs]
    substitute_aucs = [
        dv.evaluation.auc(run["the substitutes alone, 16"][right], run["member"][right])
        for run, right in zip(runs, is_right, strict=True)
    ]
    ahead = [
        dv.evaluation.paired_difference(
            run["`correct-calibrated`, 4 references"], run["`transfer`, 4 substitutes"], run["member"], "auc"
        )
        for run in runs
    ]
    return [
        *lines, "",
        f"The substitutes alone, 16, among the records that the target tells right: "
        f"AUC {short(over_seeds(substitute_aucs))}.",
        f"`correct-calibrated`, 4 references, minus `transfer`, 4 substitutes: AUC {signed(over_seeds(ahead))}.", "",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    finished = [key for key in TITLES if len(loaded(folder, key, "known")) > 1]
    page = "\n".join([HEAD, *(line for key in finished for line in table(folder, key))]).rstrip() + "\n"
    (Path(__file__).parent / "results" / "transfer.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
