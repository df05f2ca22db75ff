"""How often is each answer of an erasure check wrong, with score arrays and with real trainings?

    python benchmarks/erasure_training.py location --out FOLDER     # and fashion, adult, forest, messages
    python benchmarks/erasure.py [FOLDER] [--parts real nulls differences acquittals] [--runs N] > FILE

Score arrays: models that never saw the records, in cells of sizes, numbers of controls and shapes of noise; models
that differ from them by the margin; and how many records and controls an acquittal takes. Real trainings: every model
that was trained again is checked against others drawn at random from the rest, and what is sold as unlearning against
the same.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
from scipy import stats

from divulge.statistics import auc, proportion
from divulge.unlearning.finding import NO_DIFFERENCE, OVERDONE, REMEMBERED, TOO_LITTLE, decide_request

ANSWERS = (REMEMBERED, OVERDONE, NO_DIFFERENCE, TOO_LITTLE)
RULES = {"margin": 0.05, "confidence": 0.95, "fdr": 0.05}
CONTROLS = (1, 2, 4, 8)
PARTS = ("real", "nulls", "differences", "acquittals")
WHY_TOO_LITTLE = {
    "the model before does not show the records": "does not show the records",
    "half of what the model before showed may be left": "may be left",
    "the spread may differ": "may vary more, or less",
    "the interval relative to the others is too wide": "relative to these models, the difference",
    "the interval is too wide": "the difference of AUC may be",
    "single records stand out": "single records",
    "the share may not be 0": "score as before",
    "a single control": "how far trainings differ",
}
TITLES = {
    "location": "Location-30, network (classifier)",
    "fashion": "Fashion-MNIST, network (classifier)",
    "adult": "Adult, network (table)",
    "forest": "Adult, random forest (table)",
    "messages": "SMS messages, transformer of two layers (language model)",
}


def main() -> None:
    """Print the results as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    print("# Erasure checks: how often is each answer wrong?\n")
    print("Written by `benchmarks/erasure.py`; margin ±0.05 of AUC, confidence 95 %.\n")
    if arguments.folder is not None and "real" in arguments.parts:
        real_trainings(arguments.folder)
    simulations = {
        "nulls": simulated_nulls, "differences": simulated_differences, "acquittals": simulated_acquittals,
    }  # fmt: skip
    for part, simulate in simulations.items():
        if part in arguments.parts:
            simulate(arguments.runs)


def real_trainings(folder: Path) -> None:
    """Print twins, treatments and what an AUC of one half would have said, data set by data set."""
    print("## Real trainings\n")
    print(
        "300 records of 1,000 were to be forgotten and 400 were never used (messages: 150 of 500, and 200). Every "
        "model that was trained again without them is checked against others of them, drawn at random, or against 8 "
        'models trained on other records ("references").\n'
    )
    for name, title in TITLES.items():
        files = sorted(folder.glob(f"{name}-*.npz"))
        if files:
            print(f"### {title}\n")
            partitions = [Partition(file) for file in files]
            print_twins(partitions)
            print_treatments(partitions)


class Partition:
    """Scores of all models on one partition of a data set."""

    def __init__(self, file: Path) -> None:
        with np.load(file) as arrays:
            self.names, part = [str(name) for name in arrays["names"]], arrays["part"]
            compared = np.isin(part, ("forgotten", "never"))
            self.scores = arrays["scores"][:, compared].astype(np.float64)
            self.forgotten = part[compared] == "forgotten"
            self.quality = {name: arrays["quality"][:, part == name].mean(axis=1) for name in ("kept", "other")}
            self.at_random = bool(arrays["at_random"])
        self.twins = [i for i, name in enumerate(self.names) if name.startswith("twin")]
        self.references = [i for i, name in enumerate(self.names) if name.startswith("reference")]

    def decide(self, model: int, controls):
        """Return the finding on one model."""
        return decide_request(
            "", self.scores[model], self.scores[list(controls)], self.forgotten, before=self.scores[0],
            at_random=False, is_alike=self.at_random, **RULES,
        ).finding  # fmt: skip

    def auc(self, model: int):
        """Return the AUC of the records to be forgotten."""
        return auc(self.scores[model], self.forgotten)


def print_twins(partitions) -> None:
    """Models that were trained again: how often each answer is given."""
    rng = np.random.default_rng(0)
    rows, shares, reasons = [], [], Counter()
    for k in (*CONTROLS, "references"):
        counts: Counter = Counter()
        for partition in partitions:
            for twin in partition.twins:
                other_twins = [twin_model for twin_model in partition.twins if twin_model != twin]
                controls = partition.references if k == "references" else rng.choice(other_twins, k, replace=False)
                finding = partition.decide(twin, controls)
                counts[finding.answer] += 1
                if k == 8:
                    shares.append(finding.share.high)
                    if finding.answer == TOO_LITTLE:
                        reasons[
                            next((name for name, part in WHY_TOO_LITTLE.items() if part in finding.reason), "")
                        ] += 1
        rows.append([f"{k} {'models trained again' if k != 'references' else '(8)'}", *_shares(counts)])
    twins = sum(len(partition.twins) for partition in partitions)
    print(f"{twins} models trained again, in {len(partitions)} partitions, answered as:\n")
    _table(["compared with", *ANSWERS], rows)
    naive = [partition.auc(twin) for partition in partitions for twin in partition.twins]
    excluded = sum(estimate.low > 0.5 or estimate.high < 0.5 for estimate in naive)
    print(
        f"Their AUCs lie between {min(e.value for e in naive):.3f} and {max(e.value for e in naive):.3f}; compared "
        f"with one half, {excluded} of {len(naive)} would be called different. Upper end of the share still remembered "
        f"(8 models): median {np.median(shares):.3f}. Why too little with 8: "
        + ("; ".join(f"{name} {count}" for name, count in reasons.most_common()) or "never")
        + ".\n"
    )


def print_treatments(partitions) -> None:
    """What is sold as unlearning, against four and eight models that were trained again."""
    rows = []
    treated = [name for name in partitions[0].names if not name.startswith(("twin", "reference"))]
    for name in treated:
        findings, eight_controls, retained_findings, other_findings = [], [], [], []
        for partition in partitions:
            model = partition.names.index(name)
            findings.append(partition.decide(model, partition.twins[:4]))
            eight_controls.append(partition.decide(model, partition.twins[:8]))
            retained_findings.append(partition.quality["kept"][model] - partition.quality["kept"][0])
            other_findings.append(partition.quality["other"][model] - partition.quality["other"][0])
        rows.append(
            [
                "nothing done" if name == "before" else name,
                _count_answers(findings),
                _count_answers(eight_controls),
                _range([finding.auc_after.value for finding in findings]),
                _range([finding.difference.value for finding in findings]),
                _range([finding.share.value for finding in findings]),
                f"{np.mean(retained_findings):+.3f}",
                f"{np.mean(other_findings):+.3f}",
            ]
        )
    _table(
        [
            "model",
            "answers, 4 trained again",
            "answers, 8",
            "AUC",
            "difference",
            "share",
            "quality, rest",
            "quality, others",
        ],
        rows,
    )
    print("Quality: accuracy (of messages: log-likelihood per token) less that of the model before.\n")


def simulated_nulls(runs: int) -> None:
    """Models that never saw the records, from score arrays."""
    rng = np.random.default_rng(1)
    rows, accused, total = [], 0, 0
    sizes = ((15, 40), (150, 300), (300, 1000), (20, 600))
    cells = [cell for cell in product((2, 4, 8), sizes, SHAPES) if cell[0] > 2 or cell[2] != HALF_SEEN]
    for k, (n_forgotten, n_never), shape in cells:
        forgotten = np.arange(n_forgotten + n_never) < n_forgotten
        counts = Counter(
            decide_request(
                "", *_split(draw(rng, k + 1, forgotten, shape)), forgotten, before=None, at_random=False, is_alike=True,
                **RULES,
            ).finding.answer
            for _ in range(runs)
        )  # fmt: skip
        wrong = counts[REMEMBERED] + counts[OVERDONE]
        accused, total = accused + wrong, total + runs
        if stats.binomtest(wrong, runs, 0.05, alternative="greater").pvalue < 0.05:
            rows.append([f"{k} controls, {n_forgotten} and {n_never} records, {shape}", *_shares(counts)])
    print("## Score arrays: models that never saw the records\n")
    print(
        f"{total} checks in {total // runs} cells (2, 4 or 8 controls; four pairs of sizes; {', '.join(SHAPES)}): "
        f"{_percent(accused, total)} were called still remembered or overdone. Cells in which that is above 5 % with "
        f"p < 0.05 (of so many cells {0.05 * total / runs:.1f} are expected by chance): {len(rows)}.\n"
    )
    if rows:
        _table(["cell", *ANSWERS], rows)


def simulated_differences(runs: int) -> None:
    """Models that differ by the margin or more."""
    rng = np.random.default_rng(2)
    rows = []
    for k, size, shift in product((2, 4, 8), (300, 1000), (0.6, 1.0)):
        forgotten, aucs = np.arange(3 * size) < size, []
        counts: Counter = Counter()
        for _ in range(runs):
            *scores, before = draw(rng, k + 2, forgotten, "trainings that differ")
            scores = np.array(scores)
            clean = auc(scores[0], forgotten).value
            scores[0] += shift * forgotten
            aucs.append(auc(scores[0], forgotten).value - clean)
            answer = decide_request(
                "", *_split(scores), forgotten, before=before + 4 * forgotten, at_random=False, is_alike=True, **RULES
            ).finding.answer
            counts[answer] += 1
        rows.append([f"{np.mean(aucs):.3f}, {k} controls, {size} and {2 * size} records", *_shares(counts)])
    print("## Score arrays: a difference of the margin or more\n")
    _table(["difference of AUC", *ANSWERS], rows)


def simulated_acquittals(runs: int) -> None:
    """How often models that never saw the records are acquitted, by records, controls and spread between trainings."""
    rng = np.random.default_rng(3)
    rows = []
    controls = (2, 4, 8, 16)
    for spread, (n_forgotten, n_never), at_random in product(
        (0.0, 0.1), ((150, 300), (300, 600), (1000, 2000)), (False, True)
    ):
        if at_random and spread:  # a random draw leaves no effect on one kind of records alone
            continue
        forgotten = np.arange(n_forgotten + n_never) < n_forgotten
        cells = []
        for k in controls:
            acquitted = 0
            for _ in range(runs):
                scores = 3 * rng.normal(size=len(forgotten)) + rng.normal(size=(k + 2, len(forgotten)))
                scores += spread * rng.normal(size=(k + 2, 1)) * forgotten
                finding = decide_request(
                    "", scores[0], scores[2:], forgotten, before=scores[1] + 4 * forgotten, at_random=at_random,
                    is_alike=True, **RULES,
                ).finding  # fmt: skip
                acquitted += finding.answer == NO_DIFFERENCE
            cells.append(_percent(acquitted, runs))
        drawing = "drawn at random" if at_random else "of certain people"
        name = f"{n_forgotten:,} and {n_never:,} records, {drawing}"
        rows.append([name, f"{spread * 0.28 / np.sqrt(10):.3f}", *cells])
    print("## Score arrays: how many records and controls an acquittal takes\n")
    print(
        f"{runs} models in each cell that never saw the records, as often as they are called no different. Training "
        "noise is the standard deviation of the AUC that trainings add to that of the records. The model before "
        "shows the records by an AUC of about 0.81.\n"
    )
    _table(["records", "training noise", *(f"{k} controls" for k in controls)], rows)


HALF_SEEN = "models that saw half of the records each"
SHAPES = (
    "normal", "trainings that differ", "another difficulty", "skewed noise", "ties", "models of another scale",
    HALF_SEEN,
)  # fmt: skip


def draw(rng, models: int, forgotten, shape: str):
    """Scores of models that never saw any of the records."""
    n = len(forgotten)
    noise = rng.exponential(size=(models, n)) - 1 if shape == "skewed noise" else rng.normal(size=(models, n))
    spread = 0.3 if shape == "trainings that differ" else 0.05
    difficulty = 3 * rng.normal(size=n) - 1.5 * forgotten * (shape == "another difficulty")
    scale = np.exp(0.3 * rng.normal(size=(models, 1))) if shape == "models of another scale" else 1.0
    scores = difficulty * scale + noise + spread * rng.normal(size=(models, 1)) * forgotten
    if shape == HALF_SEEN:
        scores += 0.1 * rng.normal(size=(models, 1)) * forgotten
        halves = rng.permuted(np.tile(np.arange(n) % 2 == 0, ((models - 1) // 2, 1)), axis=1)
        scores[1:][np.concatenate([[half, ~half] for half in halves])] = np.nan
    return scores.round() if shape == "ties" else scores


def _split(scores):
    return scores[0], scores[1:]


def _count_answers(findings) -> str:
    counts = Counter(finding.answer for finding in findings)
    return "; ".join(f"{answer.split(':')[0]} {count}" for answer, count in counts.items())


def _shares(counts: Counter) -> list[str]:
    total = sum(counts.values())
    return [f"{_percent(counts[answer], total)}" for answer in ANSWERS]


def _percent(count: int, total: int) -> str:
    estimate = proportion(count, total)
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _range(values) -> str:
    return f"{min(values):.2f}" if len(values) == 1 else f"{min(values):.2f} to {max(values):.2f}"


def _table(columns, rows) -> None:
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print()


if __name__ == "__main__":
    main()
