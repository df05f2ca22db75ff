"""SACRO-ML and Divulge on the same forests, boosting and support-vector machines, with and without a leak.

    PYTHONPATH=src DIVULGE_DATA=FOLDER python benchmarks/peers/classical.py ours ours.json
    PYTHON_OF_SACROML benchmarks/peers/classical.py sacro sacro.json
    python benchmarks/peers/classical.py table ours.json sacro.json > benchmarks/results/peers_classical.md

`ours` and `sacro` take names of tables too; rows of other tables in the file are kept. Seconds are of the processor.

Either trains the same targets with the same seeds. SACRO-ML runs its worst-case attack as it comes, its LiRA with 16
shadow models, and its structural checks; Divulge runs `auto` with 16 clones and `loss`.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from divulge.results import StoredRecords

N_REFERENCES = 16
N_NULL = 4
MODELS = {
    "forest": lambda: RandomForestClassifier(50, random_state=0),
    "forest, leaves of 5": lambda: RandomForestClassifier(50, min_samples_leaf=5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=50, random_state=0),
    "support vectors": lambda: SVC(probability=True, random_state=0),
}


def tables():
    """Yield name, columns, classes, and sizes of members, non-members and population."""
    yield "wine", *load_wine(return_X_y=True), (60, 60, 58)
    yield "breast cancer", *load_breast_cancer(return_X_y=True), (140, 140, 149)
    arrays = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz", allow_pickle=False)
    x = np.unique(np.column_stack([arrays["X_num"], arrays["X_cat"], arrays["y"]]).astype(float), axis=0)
    yield "adult", x[:, :-1], x[:, -1].astype(int), (300, 300, 600)


def cases():
    """Yield a name, the sets of rows, and a fitted target; of null cases it was trained on other rows."""
    for table, x, y, sizes in tables():
        x = StandardScaler().fit_transform(x)
        for seed in range(1 + N_NULL):
            if seed and table == "wine":  # too small for a further set
                continue
            rows = np.random.default_rng(seed).permutation(len(y))
            parts = np.split(rows[: sum(sizes) + sizes[0]], np.cumsum(sizes))
            for model, make in MODELS.items():
                if seed and model not in ("forest", "boosting"):
                    continue
                part = parts[3] if seed else parts[0]
                target = make().fit(x[part], y[part])
                yield (table, model, seed), [(x[p], y[p]) for p in parts[:3]], target


def processor_seconds():
    """Return the processor time of this process and its finished children."""
    return sum(sum(resource.getrusage(process)[:2]) for process in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def list_files(folder):
    """Return path and size of each file in a folder."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file() and not path.name.startswith("."))
    return [(str(path.relative_to(folder)), path.stat().st_size) for path in paths]


def format_files(files):
    """Return names and sizes; what is kept of reference models, and arrays of scores, are counted together."""
    groups = {"run/pool/": [], "report_arrays_": [], "shadow_models/": []}
    file_texts = []
    for name, size in files:
        if prefix := next((each for each in groups if name.startswith(each)), ""):
            groups[prefix].append(size)
        elif not Path(name).name.startswith("."):
            file_texts.append(f"{name} ({size:,})")
    file_texts += [f"{prefix}…: {len(sizes)} files ({sum(sizes):,})" for prefix, sizes in groups.items() if sizes]
    return ", ".join(file_texts)


def run_ours(names):
    """Yield the results of Divulge."""
    import divulge as dv
    from divulge.references import Train

    for name, parts, target in cases():
        if names and name[0] not in names:
            continue
        sets = dict(zip(("members", "nonmembers", "population"), (dv.Records(*part) for part in parts), strict=True))
        is_first = name == ("wine", "forest", 0)  # of which the files are listed; its seconds include them
        with tempfile.TemporaryDirectory() as folder:
            start = processor_seconds()
            audit = dv.audit(
                target, **sets, recipes=["auto", "loss"], references=Train(count=N_REFERENCES, engine="serial"),
                fpr=[0.05], duplicates="drop", progress=None, out=Path(folder) / "run" if is_first else None,
            )  # fmt: skip
            seconds = processor_seconds() - start
            files = list_files(Path(folder))
        stored = audit.about.measured(StoredRecords)
        yield {
            "files": files,
            "case": name,
            "seconds": seconds,
            "said": audit.verdict.answer,
            "stored": 0 if stored is None else stored.found,
            "attacks": {
                recipe: [audit[recipe].auc.value, audit[recipe].auc.low, audit[recipe].tpr_at_fpr(0.05).value]
                for recipe in audit
            },
        }


def run_sacro(names):
    """Yield the results of SACRO-ML."""
    from sacroml.attacks.likelihood_attack import LIRAAttack
    from sacroml.attacks.structural_attack import StructuralAttack
    from sacroml.attacks.target import Target
    from sacroml.attacks.worst_case_attack import WorstCaseAttack

    logging.disable(logging.CRITICAL)
    for name, parts, fitted in cases():
        if names and name[0] not in names:
            continue
        (x, y), (other_x, other_y), _ = parts
        target = Target(
            model=fitted, dataset_name=name[0], X_train=x, y_train=y, X_test=other_x, y_test=other_y,
            X_train_orig=x, y_train_orig=y, X_test_orig=other_x, y_test_orig=other_y,
        )  # fmt: skip
        for column in range(x.shape[1]):
            target.add_feature(f"x{column}", [column], "float")
        outcome = {"case": name, "attacks": {}, "seconds": {}}
        is_first = name == ("wine", "forest", 0)  # of which the files are listed; its seconds include them
        with tempfile.TemporaryDirectory() as folder:
            for label, attack in (
                ("worst case", WorstCaseAttack(output_dir=folder, write_report=is_first)),
                ("LiRA", LIRAAttack(output_dir=folder, write_report=is_first, n_shadow_models=N_REFERENCES,
                                    report_individual=True)),
                ("structural", StructuralAttack(output_dir=folder, write_report=is_first)),
            ):  # fmt: skip
                start = processor_seconds()
                output = attack.attack(target)
                outcome["seconds"][label] = processor_seconds() - start
                instances = list(output["attack_experiment_logger"]["attack_instance_logger"].values())
                if label == "structural":
                    outcome["risks"] = [key for key, value in instances[0].items() if key.endswith("_risk") and value]
                    continue
                outcome["attacks"][label] = {
                    "AUC": [float(instance["AUC"]) for instance in instances],
                    "p": [float(instance["P_HIGHER_AUC"]) for instance in instances],
                    "TPR at 5 %": None,
                }
                individual = instances[0].get("individual")
                if individual is not None and label == "LiRA":
                    scores = np.asarray(individual["member_prob"])
                    truth = np.arange(len(scores)) < len(x)  # in the order that it makes itself: members first
                    threshold = np.sort(scores[~truth])[::-1][int(0.05 * (~truth).sum())]
                    outcome["attacks"][label]["TPR at 5 %"] = float((scores[truth] > threshold).mean())
            outcome["files"] = list_files(folder)
        yield outcome


def write_table(ours, their_cases):
    """Print the page."""
    their_cases = {tuple(row["case"]): row for row in their_cases}
    ours = sorted(ours, key=lambda row: ("wine", "breast cancer", "adult").index(row["case"][0]))
    print(HEAD)
    for our_case in ours:
        table, model, seed = our_case["case"]
        if seed:
            continue
        their_case = their_cases[tuple(our_case["case"])]
        lira, worst = their_case["attacks"]["LiRA"], their_case["attacks"]["worst case"]
        auc, low, rate = our_case["attacks"]["auto"]
        loss = our_case["attacks"]["loss"]
        rate_of_lira = "–" if lira["TPR at 5 %"] is None else f"{lira['TPR at 5 %']:.3f}"
        stored_text = f"{our_case['stored']} records in the file" if our_case["stored"] else our_case["said"]
        print(
            f"| {table} | {model} | {auc:.3f} (≥ {low:.3f}) / {rate:.3f} | {loss[0]:.3f} / {loss[2]:.3f} "
            f"| {stored_text} | {our_case['seconds']:.1f} | {lira['AUC'][0]:.3f} / {rate_of_lira} "
            f"| {np.mean(worst['AUC']):.3f}, "
            f"{sum(p <= 0.05 for p in worst['p'])} of {len(worst['p'])} | {len(their_case['risks'])} | "
            f"{sum(their_case['seconds'].values()):.1f} |"
        )
    for tool, row in (("Divulge", ours[0]), ("SACRO-ML", their_cases[tuple(ours[0]["case"])])):
        print(FILES_HEAD if tool == "Divulge" else "", end="")
        print(f"| {tool} | {format_files(row['files'])} |")
    nulls = [row for row in ours if row["case"][2]]
    null_cases = [their_cases[tuple(null["case"])] for null in nulls]
    print(NULL_HEAD.format(n=len(nulls)))
    ours_found = sum(null["said"] == "leak found" for null in nulls)
    print(f"| Divulge | the verdict | {ours_found} of {len(nulls)} |")
    lira_found = sum(null_case["attacks"]["LiRA"]["p"][0] <= 0.05 for null_case in null_cases)
    print(f"| SACRO-ML | LiRA, p ≤ .05 | {lira_found} of {len(null_cases)} |")
    any_rep = sum(any(p <= 0.05 for p in null_case["attacks"]["worst case"]["p"]) for null_case in null_cases)
    tenth = sum(np.mean(np.array(null_case["attacks"]["worst case"]["p"]) <= 0.05) > 0.1 for null_case in null_cases)
    print(f"| SACRO-ML | worst case, p ≤ .05 in any of 10 repetitions | {any_rep} of {len(null_cases)} |")
    print(f"| SACRO-ML | worst case, in more than 10 % of them, which its report counts against release | {tenth} of "
          f"{len(null_cases)} |")  # fmt: skip
    risks = [len(our_case["risks"]) for our_case in null_cases]
    print(f"| SACRO-ML | structural checks, any risk | {sum(map(bool, risks))} of {len(null_cases)} |")


HEAD = f"""# SACRO-ML 2.0.1 and Divulge on classical models

`benchmarks/peers/classical.py`: the same targets, trained with the same seeds on 60 (wine), 140 (breast cancer) and 300
(adult) members; as many non-members. Divulge: `auto` with {N_REFERENCES} clones trained on 58, 149 and 600 further
records, and `loss` without any. SACRO-ML: LiRA with {N_REFERENCES} shadow models, trained on halves of the candidates
themselves; the worst-case attack as it comes (10 repetitions of a forest on the outputs, each tested on a fifth); its
structural checks. AUC / TPR at 5 % of false positives. Seconds of the processor, everything together, without start
and imports; Divulge's include the checks of the split and the search of the model's arrays; those of the first row
are with all files and pages, of both tools.

| table | model | Divulge `auto` | `loss` | it says | s | SACRO-ML LiRA | worst case: AUC, significant | risks | s |
|---|---|---|---|---|---|---|---|---|---|"""
FILES_HEAD = """
## Files

Of the first row, with their bytes.

| tool | files |
|---|---|
"""
NULL_HEAD = """
## Targets trained on other records

{n} targets (forests and boosting, breast cancer and adult) that saw none of the candidates: what each says.

| tool | statement | leak where there is none |
|---|---|---|"""


def main():
    """Run a tool, or print the page."""
    warnings.simplefilter("ignore")
    mode, *paths = sys.argv[1:]
    if mode == "table":
        write_table(*(json.loads(Path(path).read_text()) for path in paths))
        return
    path, *names = paths
    results = json.loads(Path(path).read_text()) if Path(path).exists() else []
    for result in {"ours": run_ours, "sacro": run_sacro}[mode](names):
        results = [row for row in results if tuple(row["case"]) != tuple(result["case"])]
        results.append(result)
        Path(path).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
