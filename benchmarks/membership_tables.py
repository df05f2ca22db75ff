"""Scores kept by `membership.py` to tables, and to the figures that `divulge list --for` shows.

    PYTHONPATH=src python benchmarks/membership_tables.py FOLDER [--digest | --few] [--add transfer …]

Writes `benchmarks/results/membership.md` and `src/divulge/recipes/measured.json`; with ``--add`` only the rows of these
recipes go into the latter, beside those of the others that it has. With ``--few``, for a folder of `membership.py
--most 4` and many seeds, it writes `benchmarks/results/membership_few.md` alone.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

import divulge as dv
from divulge import recipes, store
from membership import BUDGETS, OUTSIDERS, QUERIES, SEARCHED, SIZES

FOLDER = Path(__file__).parent
TITLES = {
    "fashion": ("Fashion-MNIST", "images"),
    "cifar100": ("CIFAR-100", "images"),
    "location": ("Location-30", "tables"),
    "adult": ("Adult", "tables"),
    "newsgroups": ("20 Newsgroups", "text"),
}
STATISTICS = {"AUC": "auc", "TPR at 1 %": "tpr@fpr=0.01", "TPR at 0.1 %": "tpr@fpr=0.001"}
# Fewer non-members than this, and 0.1 % of them is less than one.
MIN_NONMEMBERS = 1000
PLAIN = ("loss", "lira", "rmia")
HEAD = """# Every recipe by number of reference models

`benchmarks/membership.py` and `benchmarks/membership_tables.py`. MLPs with 128 hidden units, trained on 600
records. Fashion-MNIST is averaged to 14 x 14 pixels, CIFAR-100 (20 superclasses) to 8 x 8; texts are 256 columns of
hashed words. Offline references are trained like the target, on halves of the auditor's records; online ones on
halves of the candidates and calibration records, 950 each. Unseen: a quarter of the classes (Adult: of the
occupations), drawn anew for each seed, of which the auditor and the references have no record; all their
records among the candidates, and up to {outsiders} more non-members of theirs, are judged. Online recipes were
run on known classes alone. Seconds are of one processor core, without training, on all candidates and
calibration records.

Intervals: Student's over the seeds, each with its own target, members and references, and never shorter than
the records alone allow (root of the sum of squares of the seeds' own half-widths, over their number). Simulated
with three seeds and normal values, 20,000 draws, they hold the truth in {held} % of all cases, where seeds vary
by 0, 0.5, 1, 2 and 5 times as much as their records. TPR at 0.1 % is left out where there are fewer than
{least} non-members."""

Scores = dict[str, np.ndarray]


def over_seeds(runs: Sequence[dv.Estimate]) -> dv.Estimate:
    """The mean of independent runs: Student's interval over them, and never shorter than their records allow.

    Each run has its own target, members and references, so the spread over runs holds all that varies. With three runs
    it is sometimes small by chance: the interval is then that of a mean whose runs vary by their records alone.
    """
    values = np.array([run.value for run in runs])
    count = len(values)
    spread = stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / math.sqrt(count) if count > 1 else 0.0
    down = math.sqrt(sum((run.value - run.low) ** 2 for run in runs)) / count
    up = math.sqrt(sum((run.high - run.value) ** 2 for run in runs)) / count
    mean = float(values.mean())
    return dv.Estimate(mean, mean - max(spread, down), mean + max(spread, up), 0.95, "student over runs")


def coverage(draws: int = 20_000) -> dict[float, float]:
    """How often `over_seeds` covers the truth, by the standard deviation of runs in that of their records."""
    rng = np.random.default_rng(0)
    covered = {}
    for ratio in (0.0, 0.5, 1.0, 2.0, 5.0):
        values = ratio * rng.normal(size=(draws, 3)) + rng.normal(size=(draws, 3))
        runs = [[dv.Estimate(v, v - 1.96, v + 1.96, 0.95, "normal") for v in row] for row in values.tolist()]
        covered[ratio] = float(np.mean([(interval := over_seeds(row)).low <= 0 <= interval.high for row in runs]))
    return covered


def loaded(folder: Path, key: str, classes: str) -> list[Scores]:
    """The scores of each seed."""
    return [store.read_arrays(path) for path in sorted(folder.glob(f"{key}-*-{classes}-scores.npz"))]


def measured(runs: Sequence[Scores], name: str) -> list[dv.Estimate | None]:
    """Each statistic over the seeds; None where there are too few non-members."""
    estimates: list[dv.Estimate | None] = []
    for statistic in STATISTICS.values():
        if statistic == "tpr@fpr=0.001" and min((~run["member"]).sum() for run in runs) < MIN_NONMEMBERS:
            estimates.append(None)
            continue
        estimates.append(clipped(over_seeds([dv.evaluation.measure(r[name], r["member"], statistic) for r in runs])))
    return estimates


def clipped(estimate: dv.Estimate) -> dv.Estimate:
    """No rate is below 0 or above 1."""
    return dv.Estimate(
        estimate.value, max(estimate.low, 0.0), min(estimate.high, 1.0), estimate.confidence, estimate.method
    )


def seconds(folder: Path, key: str, runs: Sequence[Scores], name: str) -> float:
    """Of one processor core, for the attack; where it is a signal that asks the target many times, for that too."""
    mean_seconds = np.mean([run[f"{name}/seconds"] for run in runs])
    signals = {recipe.name: f"{recipe.signal_name} seconds" for recipe in recipes.label_recipes()}
    if signal_name := signals.get(name.partition("/")[2]):
        targets = [store.read_arrays(path) for path in sorted(folder.glob(f"{key}-*-target.npz"))]
        mean_seconds += np.mean([float(target.get(signal_name, 0.0)) for target in targets])
    return float(mean_seconds)


def rows(folder: Path) -> list[tuple]:
    """Set, classes, references, recipe, estimates, seconds."""
    table_rows = []
    for key in TITLES:
        for classes in ("known", "unseen"):
            runs = loaded(folder, key, classes)
            for name in (name for name in (runs[0] if runs else ()) if f"{name}/seconds" in runs[0]):
                budget, _, recipe = name.partition("/")
                estimates = measured(runs, name)
                table_rows.append((key, classes, int(budget), recipe, estimates, seconds(folder, key, runs, name)))
    return sorted(table_rows, key=lambda row: (list(TITLES).index(row[0]), row[1], row[2]))


def differences(folder: Path) -> list[tuple]:
    """How far a recipe is above the best of LOSS, LiRA and RMIA, with few references, on the same records."""
    difference_rows = []
    for key in TITLES:
        for classes in ("known", "unseen"):
            runs = loaded(folder, key, classes)
            for budget in (1, 2, 4, 8) if runs else ():
                for recipe in ("auto", "bavaria", "learned-few", "learned"):
                    if f"{budget}/{recipe}" in runs[0]:
                        ends = [ahead(runs, f"{budget}/{recipe}", budget, s) for s in ("auc", "tpr@fpr=0.01")]
                        difference_rows.append((key, classes, budget, recipe, *ends))
    return difference_rows


def ahead(runs: Sequence[Scores], name: str, budget: int, statistic: str) -> tuple[str, dv.Estimate]:
    """The best plain recipe by its mean over the seeds, and the paired difference from it."""

    def plain(recipe_name: str) -> str:
        return f"{0 if recipe_name == 'loss' else budget}/{recipe_name}"

    means = {
        recipe_name: np.mean(
            [dv.evaluation.measure(run[plain(recipe_name)], run["member"], statistic).value for run in runs]
        )
        for recipe_name in PLAIN
    }
    best = max(means, key=lambda recipe_name: means[recipe_name])
    pairs = [dv.evaluation.paired_difference(run[name], run[plain(best)], run["member"], statistic) for run in runs]
    return best, over_seeds(pairs)


def by_queries(folder: Path) -> list[str]:
    """The search for the decision boundary by number of queries, and how far it is above LOSS on the same targets."""
    lines = ["| set | queries at most | asked | AUC | minus LOSS's |", "|---|---:|---:|---|---|"]
    for key in SEARCHED:
        runs = [store.read_arrays(path) for path in sorted(folder.glob(f"{key}-*-boundary.npz"))]
        member = np.arange(SIZES[key].members + SIZES[key].outsiders) < SIZES[key].members
        for queries in QUERIES if runs else ():
            mean_queries = np.mean([run[f"{queries} asked"] for run in runs])
            auc = over_seeds([dv.evaluation.auc(run[str(queries)], member) for run in runs])
            paired = [dv.evaluation.paired_difference(run[str(queries)], run["loss"], member, "auc") for run in runs]
            lines.append(
                f"| {TITLES[key][0]} | {queries:,} | {mean_queries:.0f} | {short(auc)} | {signed(over_seeds(paired))} |"
            )
    return lines


def short(estimate: dv.Estimate | None) -> str:
    """As tables show it."""
    return "" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def choices(folder: Path) -> list[tuple]:
    """What the games of `auto` chose, by set, classes and references: in how many seeds each attack."""
    choice_rows, untried = [], {option.name for option in dv.attacks.auto.JOINED}
    for key in TITLES:
        for classes in ("known", "unseen"):
            for budget in BUDGETS[1:]:
                chosen = [str(run.get(f"{budget}/auto/chosen", "")) for run in loaded(folder, key, classes)]
                choice_counts = Counter(
                    name for choice in chosen for name in choice.split(" + ") if name and name not in untried
                )
                counts_text = ", ".join(f"{name} {n}" for name, n in choice_counts.most_common())
                choice_rows.append((key, classes, budget, counts_text))
    return [row for row in choice_rows if row[-1]]


def markdown(folder: Path, table_rows: list[tuple]) -> str:
    """The page."""
    runs = {key: loaded(folder, key, "known") for key in TITLES}
    finished_sets = [key for key in TITLES if runs[key]]
    coverage_text = ", ".join(f"{100 * share:.1f}" for share in coverage().values())
    lines = [
        HEAD.format(outsiders=f"{OUTSIDERS:,}", least=f"{MIN_NONMEMBERS:,}", held=coverage_text),
        "",
        "| set | members | non-members | unseen: members, non-members | seeds | seconds a reference model |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for key in finished_sets:
        trained = [store.read_arrays(path)["seconds"] for path in sorted(folder.glob(f"{key}-*-out.npz"))]
        hidden = [f"{run['member'].sum()}, {(~run['member']).sum()}" for run in loaded(folder, key, "unseen")]
        size = SIZES[key]
        lines.append(
            f"| {TITLES[key][0]} | {size.members} | {size.outsiders} | {'; '.join(hidden)} | {len(runs[key])} | "
            f"{np.mean(trained):.2f} |"
        )
    lines += ["", "## Against the best of LOSS, LiRA and RMIA", ""]
    lines += ["Paired on the same records; the best is that of the mean over the seeds, chosen with hindsight.", ""]
    lines += [
        "| set | classes | references | recipe | AUC | against | TPR at 1 % | against |",
        "|---|---|---:|---|---|---|---|---|",
    ]
    for key, classes, budget, recipe, (best, auc), (best_by_tpr, tpr) in differences(folder):
        lines.append(
            f"| {TITLES[key][0]} | {classes} | {budget} | {recipe} "
            f"| {signed(auc)} | {best} | {signed(tpr)} | {best_by_tpr} |"
        )
    lines += [
        "",
        "## What auto chose, in how many seeds",
        "",
        "| set | classes | references | chosen |",
        "|---|---|---:|---|",
    ]
    lines += [
        f"| {TITLES[key][0]} | {classes} | {budget} | {counts_text} |"
        for key, classes, budget, counts_text in choices(folder)
    ]
    lines += ["", "## Labels only: distance to the decision boundary", "", *by_queries(folder)]
    for classes in ("known", "unseen"):
        lines += ["", f"## {classes.capitalize()} classes", ""]
        lines += [
            f"| set | references | recipe | {' | '.join(STATISTICS)} | seconds |",
            "|---|---:|---|---|---|---|---:|",
        ]
        for key, row_classes, budget, recipe, estimates, seconds_taken in table_rows:
            if row_classes == classes:
                cells = " | ".join(map(short, estimates))
                lines.append(f"| {TITLES[key][0]} | {budget} | {recipe} | {cells} | {seconds_taken:.2f} |")
    return "\n".join(lines) + "\n"


def signed(estimate: dv.Estimate) -> str:
    """A difference."""
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def figures(folder: Path, table_rows: list[tuple]) -> dict:
    """As `divulge.recipes.measured` reads them."""

    def rounded(estimate: dv.Estimate | None) -> list[float] | None:
        return None if estimate is None else [round(end, 4) for end in (estimate.value, estimate.low, estimate.high)]

    return {
        "version": 1,
        "sets": {
            key: {
                "title": title,
                "kind": data_type,
                "members": SIZES[key].members,
                "nonmembers": SIZES[key].outsiders,
                "target": "MLP, 128 hidden units",
                "seeds": len(loaded(folder, key, "known")),
            }
            for key, (title, data_type) in TITLES.items()
            if loaded(folder, key, "known")
        },
        "rows": [
            [key, classes, budget, recipe, *map(rounded, estimates), round(seconds_taken, 2)]
            for key, classes, budget, recipe, estimates, seconds_taken in table_rows
        ],
    }


def digest(folder: Path, found: list[tuple]) -> str:
    """`auto` with few references beside the best of LOSS, LiRA and RMIA, as the documentation shows it."""
    lines = ["| references | set | `auto`: AUC | TPR at 1 % | AUC minus the best | TPR at 1 % minus the best |"]
    lines.append("|---:|---|---|---|---|---|")
    own = {row[:4]: row[4] for row in found}
    known = [row for row in differences(folder) if row[1] == "known" and row[3] == "auto"]
    for budget in (1, 2, 4):
        ahead = [row for row in known if row[2] == budget]
        for key, *_, (best, auc), (other, tpr) in ahead:
            area, rate, _ = own[key, "known", budget, "auto"]
            cells = short(area), short(rate), f"{signed(auc)} ({best})", f"{signed(tpr)} ({other})"
            lines.append(f"| {budget} | {TITLES[key][0]} | {' | '.join(cells)} |")
        auc, tpr = (averaged([row[at][1] for row in ahead]) for at in (-2, -1))
        lines.append(f"| {budget} | mean of the sets | | | {signed(auc)} | {signed(tpr)} |")
    return "\n".join(lines).replace(" 0.", " .").replace("[0.", "[.").replace("+0.", "+.").replace("-0.", "-.")


FEW_REFERENCES = """# Few reference models, many seeds

`benchmarks/membership.py --most 4 --recipes loss lira rmia bavaria learned-few auto --seeds 3 … {last}`, then
`benchmarks/membership_tables.py FOLDER --few`. Data sets, targets and sizes are those of `membership.md`; these seeds
had no say in how `auto` chooses. Against the best of LOSS, LiRA and RMIA: that is chosen with hindsight, by its mean
over these seeds, for AUC and for TPR apart. Intervals are Student's over the seeds, each with its own records, target,
members and references."""


def student(values: Sequence[float]) -> dv.Estimate:
    """Mean of many runs and Student's interval."""
    mean, half = (
        float(np.mean(values)),
        stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5,
    )
    return dv.Estimate(mean, mean - half, mean + half, 0.95, "student over runs")


def few(folder: Path) -> str:
    """Recipes with few references beside the best plain one, over many seeds."""
    lines = [
        "",
        "| references | set | seeds | recipe | AUC | TPR at 1 % | AUC minus the best | TPR at 1 % minus the best |",
    ]
    lines.append("|---:|---|---:|---|---|---|---|---|")
    most_seeds = 0
    for budget in (1, 2, 4):
        for key, (title, _) in TITLES.items():
            runs = [run for run in loaded(folder, key, "known") if "4/auto" in run]
            most_seeds = max(most_seeds, 2 + len(runs))
            for recipe in ("auto", "bavaria", "learned-few") if runs else ():
                name, cells, gains = f"{budget}/{recipe}", [], []
                for statistic in ("auc", "tpr@fpr=0.01"):

                    def value(run: Scores, recipe_name: str, statistic: str = statistic) -> float:
                        return dv.evaluation.measure(run[recipe_name], run["member"], statistic).value

                    plain = {
                        recipe_name: f"{0 if recipe_name == 'loss' else budget}/{recipe_name}" for recipe_name in PLAIN
                    }
                    best = max(PLAIN, key=lambda recipe_name: np.mean([value(run, plain[recipe_name]) for run in runs]))
                    cells.append(short(clipped(student([value(run, name) for run in runs]))))
                    beyond = student([value(run, name) - value(run, plain[best]) for run in runs])
                    gains.append(f"{signed(beyond)} ({best})")
                lines.append(f"| {budget} | {title} | {len(runs)} | {recipe} | {' | '.join([*cells, *gains])} |")
    return FEW_REFERENCES.format(last=most_seeds) + "\n" + "\n".join(lines) + "\n"


def averaged(sets: Sequence[dv.Estimate]) -> dv.Estimate:
    """The mean over these data sets, and no others: half-widths of independent intervals add by their squares."""
    mean = float(np.mean([estimate.value for estimate in sets]))
    down = math.sqrt(sum((estimate.value - estimate.low) ** 2 for estimate in sets)) / len(sets)
    up = math.sqrt(sum((estimate.high - estimate.value) ** 2 for estimate in sets)) / len(sets)
    return dv.Estimate(mean, mean - down, mean + up, 0.95, "mean over data sets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--digest", action="store_true", help="print the table of the documentation, write nothing")
    parser.add_argument("--few", action="store_true", help="many seeds, few reference models")
    parser.add_argument("--add", nargs="+", metavar="RECIPE", help="replace the figures of these recipes alone")
    arguments = parser.parse_args()
    if arguments.few:
        (FOLDER / "results" / "membership_few.md").write_text(few(arguments.folder))
        return
    table_rows = rows(arguments.folder)
    if arguments.digest:
        print(digest(arguments.folder, table_rows))
        return
    new_figures, figures_file = (
        figures(arguments.folder, table_rows),
        FOLDER.parent / "src/divulge/recipes/measured.json",
    )
    if arguments.add:
        before, order = json.loads(figures_file.read_text()), list(TITLES)
        assert before["sets"] == new_figures["sets"], "other data sets, sizes or seeds than those of the figures there"
        kept_rows = [row for row in before["rows"] if row[3] not in arguments.add]
        added = [row for row in new_figures["rows"] if row[3] in arguments.add]
        new_figures["rows"] = sorted(kept_rows + added, key=lambda row: (order.index(row[0]), row[1], row[2]))
    else:
        (FOLDER / "results" / "membership.md").write_text(markdown(arguments.folder, table_rows))
    head = json.dumps({name: new_figures[name] for name in ("version", "sets")}, indent=1)[:-2]
    body = ",\n".join(f"  {json.dumps(row, separators=(',', ':'))}" for row in new_figures["rows"])
    figures_file.write_text(f'{head},\n "rows": [\n{body}\n ]\n}}\n')


if __name__ == "__main__":
    main()
