"""What synthetic tables give away, by generator, and how often an innocent one is accused.

    PYTHONPATH=src:tests DIVULGE_DATA=FOLDER python benchmarks/synthetic.py PART [--csv FOLDER] [--draws 20] [--first 0]

Parts: leaks, null, persons, honest, private, holdout, lists, texts, speed, peers. Tables are adult and
bank marketing of DIVULGE_DATA, and every CSV file in ``--csv``. Each prints a table. ``peers`` needs anonymeter,
SDMetrics and Synth-MIA.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

import divulge as dv
import synthetic_generators as generators

SIZES = {"housing": 200, "insurance": 300}
QUIET = {"attributes": (), "duplicates": "drop"}
GENERATORS = generators.GENERATORS
HONEST = {
    "bootstrap": lambda table, n, seed: table.sample(n, replace=True, random_state=seed),
    "independent columns": lambda table, n, seed: pd.DataFrame(
        {name: column.sample(n, replace=True, random_state=seed + i).to_numpy()
         for i, (name, column) in enumerate(table.items())}
    ),
}  # fmt: skip
"""Generators of the population's own values."""


def read_tables(folder: Path | None) -> dict[str, pd.DataFrame]:
    """Return name → table, those in ``folder`` first."""
    tables = {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))} if folder else {}
    if data := os.environ.get("DIVULGE_DATA"):
        for name in ("adult", "bank_marketing"):
            arrays = np.load(Path(data) / f"{name}.npz", allow_pickle=False)
            table = pd.DataFrame(arrays["X_num"].astype(float), columns=arrays["num_names"])
            for i, column in enumerate(arrays["cat_names"]):
                table[column] = arrays[f"cat_{column}"][arrays["X_cat"][:, i]]
            tables[name] = table.drop_duplicates(ignore_index=True)
    return tables


def draw(table: pd.DataFrame, sizes: list[int], seed: int) -> list[pd.DataFrame]:
    """Draw disjoint sets of rows; where the table is too small, the sets shrink alike."""
    share = min(1.0, len(table) / sum(sizes))
    ends = np.cumsum([0, *(int(share * size) for size in sizes)])
    order = np.random.default_rng(1000 + seed).permutation(len(table))
    return [table.iloc[order[start:end]].reset_index(drop=True) for start, end in pairwise(ends)]


def audit(released, members, nonmembers, population, seed, **options):
    return dv.synthetic.audit(
        released, members=members, nonmembers=nonmembers, population=population, seed=seed, **(QUIET | options)
    )


def leaks(tables, options):
    """Print the AUC of every score for each generator and table: means over draws."""
    names = [*dv.synthetic.SCORES, "auto"]
    print("| generator | table |", " | ".join(names), "| TPR at 1 % | leak found |")
    print("|---|---|" + "---|" * (len(names) + 2))
    for generator, make in GENERATORS.items():
        for name, table in tables.items():
            n, results = SIZES.get(name, 500), []
            for seed in range(options.first, options.first + options.draws):
                members, nonmembers, population = draw(table, [n, n, 2 * n], seed)
                results.append(audit(make(members, n, seed), members, nonmembers, population, seed))
            means = [np.mean([r[s].auc.value if s in r.scores else 0.5 for r in results]) for s in names]
            rate = np.mean([r["auto"].tpr(0.01).value for r in results])
            found = sum(r.verdict.answer == "leak found" for r in results)
            cells = " | ".join(f"{mean:.3f}" for mean in means)
            print(f"| {generator} | {name} | {cells} | {rate:.2f} | {found} of {len(results)} |", flush=True)


def repeat_persons(table: pd.DataFrame, spread: pd.Series, name: str, seed: int, rows: int = 5) -> pd.DataFrame:
    """Return several near-equal rows of each person."""
    rng = np.random.default_rng(seed)
    repeated = table.loc[np.repeat(table.index, rows)].reset_index(drop=True)
    for column in spread.index:
        repeated[column] = (repeated[column] + 0.02 * spread[column] * rng.normal(size=len(repeated))).round(3)
    repeated["person"] = np.repeat([f"{name}-{i}" for i in range(len(table))], rows)
    return repeated


def null(tables, options, *, persons=False, source="others"):
    """Print how often a release that was made from other rows is said to leak, and how often each control fires."""
    counts: dict[str, dict[str, int]] = {}
    kinds = ["trees, leaf 5", "copy + noise .1", "copula", "trees, leaf 1"]
    if source == "population":
        kinds = ["bootstrap", "independent columns", "copula", "trees, leaf 5"]
    for i in range(options.first, options.first + options.draws):
        name = list(tables)[i % len(tables)]
        kind, n = kinds[i // len(tables) % len(kinds)], 120 if persons else 200
        make = (GENERATORS | HONEST)[kind]
        members, nonmembers, population, others = draw(tables[name], [n, n, 2 * n, n], i)
        extra = {}
        if persons:
            spread = tables[name].std(numeric_only=True)
            sets = (members, nonmembers, population, others)
            members, nonmembers, population, others = (
                repeat_persons(part, spread, str(k), 10 * i + k) for k, part in enumerate(sets)
            )
            others, extra = others.drop(columns="person"), {"person": "person"}
        learned = population if source == "population" else others
        result = audit(make(learned, len(members), i), members, nonmembers, population, i, **extra)
        row = counts.setdefault(name, {})
        fired = [f"{control.name} fires" for control in result.controls if control.state == "fails"]
        fired += ["values proven"] * any(proof.proven for proof in result.proofs)
        for key in ("draws", result.verdict.answer, *fired):
            row[key] = row.get(key, 0) + 1
        print(i, name, kind, result.verdict.answer, result.verdict.code, *fired, sep="; ", flush=True)
    print_counts(counts)


def persons(tables, options):
    """Print the same with five near-equal rows of each person."""
    null(tables, options, persons=True)


def honest(tables, options):
    """Print the same of generators that saw the population alone."""
    null(tables, options, source="population")


def private(tables, options):
    """Print how often a chain with ε = 1 is said to leak, and the bounds on ε."""
    counts: dict[str, dict[str, int]] = {}
    for i in range(options.first, options.first + options.draws):
        name = list(tables)[i % len(tables)]
        n = SIZES.get(name, 500)
        members, nonmembers, population = draw(tables[name], [n, n, 2 * n], i)
        edges = generators.make_edges(population)
        released = generators.chain(members, n, i, epsilon=1.0, edges=edges)
        result = audit(released, members, nonmembers, population, i, at_random=True)
        row = counts.setdefault(name, {})
        too_high = ["bound above 1"] if result.epsilon.low > 1 else []
        for key in ("draws", result.verdict.answer, *too_high):
            row[key] = row.get(key, 0) + 1
    print_counts(counts)


def holdout(tables, options):
    """Print how often the control fires where the generator saw the non-members, too, and where it did not."""
    counts: dict[str, dict[str, int]] = {}
    for generator in ("trees, leaf 5", "copy + noise .1", "trees, leaf 1"):
        for i in range(options.first, options.first + options.draws):
            name = list(tables)[i % len(tables)]
            n = SIZES.get(name, 500)
            members, nonmembers, population = draw(tables[name], [n, n, 2 * n], i)
            both = pd.concat([members, nonmembers], ignore_index=True)
            for label, seen in (("saw it", both), ("did not", members)):
                result = audit(GENERATORS[generator](seen, len(seen), i), members, nonmembers, population, i)
                row = counts.setdefault(f"{generator}, {label}", {})
                fired = ["control fires"] if result.controls[1].state == "fails" else []
                for key in ("draws", result.verdict.answer, *fired):
                    row[key] = row.get(key, 0) + 1
    print_counts(counts)


def lists(tables, options):
    """Print false discoveries and power of the list at FDR .1."""
    print("| table, generator | mean FDP | power | draws |\n|---|---|---|---|")
    for generator in ("trees, leaf 5", "trees, leaf 1", "copy + noise .1", "chain, 10 bins"):
        for name, table in tables.items():
            n, shares = SIZES.get(name, 500), []
            for i in range(options.first, options.first + options.draws):
                members, nonmembers, population = draw(table, [n, n, 2 * n], i)
                result = audit(GENERATORS[generator](members, n, i), members, nonmembers, population, i)
                chosen = result.selection(fdr=0.1).selected
                wrong = (chosen & ~result.members).sum() / max(1, chosen.sum())
                shares.append((wrong, chosen[result.members & result.is_counted].mean()))
            fdp, power = np.mean(shares, axis=0)
            print(f"| {name}, {generator} | {fdp:.3f} | {power:.2f} | {len(shares)} |", flush=True)


def texts(tables, options):
    """Print AUCs of scores of texts: notes copied in part, and none (SMS messages)."""
    messages = pd.read_json(Path(os.environ["DIVULGE_DATA"]) / "sms_spam.jsonl.gz", lines=True)
    words = messages["text"].drop_duplicates()
    words = words[words.str.split().str.len() >= 8].to_numpy()
    for label in ("saw the members", "saw others"):
        for i in range(options.first, options.first + options.draws):
            order = np.random.default_rng(i).permutation(len(words))
            members, nonmembers, population, others = (words[order[k : k + 150]].tolist() for k in (0, 150, 300, 450))
            rng = np.random.default_rng(i)
            released = [recombine(rng, members if label == "saw the members" else others) for _ in range(150)]
            population += words[order[600:750]].tolist()
            result = audit(released, members, nonmembers, population, i)
            aucs = " ".join(f"{name} {result[name].auc.value:.3f}" for name in result)
            print(label, result.verdict.answer, aucs, sep="; ", flush=True)


def recombine(rng, documents: list[str]) -> str:
    """Return halves of two documents, one after the other."""
    one, other = (documents[i].split() for i in rng.integers(0, len(documents), 2))
    return " ".join([*one[: len(one) // 2], *other[len(other) // 2 :]])


def speed(tables, options):
    """Print seconds and memory of one audit of a release of 20,000 rows beside 20,000 candidates."""
    rng = np.random.default_rng(0)
    n = 20_000

    def make(rows):
        table = pd.DataFrame(rng.normal(size=(rows, 8)).round(3), columns=[f"x{i}" for i in range(8)])
        for i in range(4):
            table[f"c{i}"] = rng.choice(list("abcdefgh"), rows)
        return table

    members, nonmembers, population, released = make(n // 2), make(n // 2), make(n), make(n)
    start = time.perf_counter()
    result = dv.synthetic.audit(released, members=members, nonmembers=nonmembers, population=population)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{seconds:.1f} s, {peak:.2f} GiB, {result.verdict.answer}")


def peers(tables, options):
    """Print what anonymeter, SDMetrics and Synth-MIA say of the same tables; the three have to be installed."""
    sys.path.remove(str(Path(__file__).parent))  # whose coverage.py hides the package of that name
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
    from sdmetrics.single_table import DCROverfittingProtection, NewRowSynthesis

    print("| generator | table | auto | copied values: members, others | singling out, linkability | anonymeter: "
          "singling out, linkability, inference | SDMetrics: DCR, new rows | Synth-MIA: DCR, best |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for generator in ("trees, leaf 5", "trees, leaf 1", "copy + noise .1", "copula", "chain, 10 bins"):
        for name, table in tables.items():
            n, table = SIZES.get(name, 500), spell_plainly(table.dropna(ignore_index=True))
            members, nonmembers, population = draw(table, [n, n, 2 * n], options.first)
            released = GENERATORS[generator](members, n, options.first)
            result = audit(released, members, nonmembers, population, options.first)
            copied = next((proof for proof in result.proofs if proof.name == "values"), result.proofs[0])
            columns, is_number = list(table), {c: generators.is_number(table[c]) for c in table}
            types = {c: {"sdtype": "numerical" if is_number[c] else "categorical"} for c in columns}
            metadata = {"tables": {"t": {"columns": types}}}
            parts = [part.assign(**{c: part[c].str[1:].astype(int) for c in columns if not is_number[c]})
                     for part in (members, released, nonmembers)]  # fmt: skip
            dcr = DCROverfittingProtection.compute(*parts, metadata, "t")
            new = NewRowSynthesis.compute(*parts[:2], metadata=metadata, table_name="t")
            single = SinglingOutEvaluator(members, released, n_attacks=200, n_cols=3, control=nonmembers)
            single.evaluate(mode="multivariate")
            half = len(columns) // 2
            link = LinkabilityEvaluator(
                members, released, aux_cols=(columns[:half], columns[half:]), n_attacks=n, control=nonmembers
            ).evaluate()
            infer = InferenceEvaluator(
                members, released, columns[:-1], columns[-1], is_number[columns[-1]], n_attacks=n, control=nonmembers
            ).evaluate()
            theirs = " ".join(f"{each.risk().value:.2f}" for each in (single, link, infer))
            ours = " ".join(f"{risk.difference.value:.2f}" for risk in result.risks[:2])
            best, by, their_dcr = run_synth_mia(members, nonmembers, released, population)
            area = result["auto"].auc.value
            print(f"| {generator} | {name} | {area:.3f} | {copied.members}, {copied.nonmembers} | {ours} | {theirs} | "
                  f"{dcr:.2f} {new:.2f} | {their_dcr:.3f} {best:.3f} ({by}) |", flush=True)  # fmt: skip


def spell_plainly(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with names and categories that are identifiers, as SDMetrics makes a query of them."""
    columns = {
        f"c{i}": column if generators.is_number(column) else "v" + pd.Series(pd.factorize(column)[0]).astype(str)
        for i, (_, column) in enumerate(table.items())
    }
    return pd.DataFrame(columns)


def run_synth_mia(members, nonmembers, released, population) -> tuple[float, str, float]:
    """Return the largest AUC of Synth-MIA's attacks that run, which it is, and that of DCR."""
    from synth_mia import attackers

    tables = [members, nonmembers, released, population]
    coded = pd.get_dummies(pd.concat(tables, keys=range(4))).astype(float)
    scaled = (coded - coded.loc[3].mean()) / coded.loc[3].std().replace(0, 1)
    arrays = [scaled.loc[i].to_numpy() for i in range(4)]
    areas = {}
    for name in (
        "DCR",
        "DCRDiff",
        "DPI",
        "MC",
        "LocalNeighborhood",
        "DensityEstimate",
        "DOMIAS",
        "GenLRA",
        "Classifier",
    ):
        try:
            truth, scores = getattr(attackers, name)().attack(*arrays)
            areas[name] = dv.evaluation.auc(np.nan_to_num(scores), np.asarray(truth, bool)).value
        except Exception as error:
            print(f"{name}: {type(error).__name__}", file=sys.stderr)
    best = max(areas, key=areas.get)
    return areas[best], best, areas["DCR"]


def print_counts(counts: dict[str, dict[str, int]]) -> None:
    keys = list(dict.fromkeys(key for row in counts.values() for key in row))
    print("| |", " | ".join(keys), "|\n|---|" + "---|" * len(keys))
    for name, row in counts.items():
        print(f"| {name} |", " | ".join(str(row.get(key, 0)) for key in keys), "|", flush=True)


def main() -> None:
    parts = {
        part.__name__: part for part in (leaks, null, persons, honest, private, holdout, lists, texts, speed, peers)
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    parts[options.part](read_tables(options.csv), options)


if __name__ == "__main__":
    main()
