"""How many documents does a fine-tune give back, by how often it was trained on each?

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/extraction.py --out FOLDER [--seeds 0 1 2]

The base of `language.py` is fine-tuned for four epochs on 300 newsgroup articles that it never saw; a tenth of them
stand in the training set four times, a tenth sixteen times, as templates and re-posts do in real collections. Asked
are 25 tokens after a prompt of 25, greedily and by sampling, of the members of each kind and of 400 others. What is
measured is kept in ``--out``, one run directory a seed and kind.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import divulge as dv
import language
from divulge import results
from divulge.references import FineTune
from membership_tables import clipped, over_seeds

EPOCHS, PASSAGE = 4, 25
TIMES = {1: slice(60, 300), 4: slice(30, 60), 16: slice(0, 30)}  # rows of the members by copies
DECODINGS = {
    "temperature 1": dv.targets.Decoding(),
    "top-k 40, temperature 0.7": dv.targets.Decoding(temperature=0.7, top_k=40),
}


def measured(options: argparse.Namespace) -> None:
    """One run directory for each seed, number of copies and decoding."""
    tuning = FineTune(language.base(options.base), 0, EPOCHS, lr=1e-3, engine="serial")
    for seed in options.seeds:
        documents, target = language.case("news", seed, 400), None
        every = np.concatenate([np.repeat(documents.members.x[rows], times) for times, rows in TIMES.items()])
        for times, rows in TIMES.items():
            for i, decoding in enumerate(DECODINGS.values()):
                out = options.out / f"{seed}-{times}-{i}"
                if (out / "summary.json").exists():
                    continue
                target = target or tuning.train_model(dv.Records(every), seed=seed + 1000)
                dv.extraction.measure(
                    target, documents.members[rows], documents.others, prefix=PASSAGE, suffix=PASSAGE,
                    decoding=decoding, reference=tuning.load_base().base, seed=seed, out=out,
                )  # fmt: skip
        print(f"seed {seed} done", flush=True)


def table(options: argparse.Namespace) -> None:
    """Shares over the seeds, by copies and way."""
    print("| copies | members a seed | way | members, % | others, % | difference, points | verdicts |")
    print("|---:|---:|---|---|---|---|---|")
    for times in TIMES:
        for i, name in enumerate(DECODINGS):
            folders = [options.out / f"{seed}-{times}-{i}" for seed in options.seeds]
            runs = [results.read_summary(folder, results.ExtractionSummary) for folder in folders]
            methods = [rate.way for rate in runs[0].rates]
            for row, method in enumerate(methods):
                sampled = method.startswith("likely")
                if sampled or i == 0:
                    rates = [run.rates[row] for run in runs]
                    sides = [[getattr(rate, side) for rate in rates] for side in ("members", "nonmembers")]
                    cells = [percent(clipped(over_seeds(side))) for side in sides]
                    cells.append(percent(over_seeds([rate.difference for rate in rates])))
                    verdicts = ", ".join(run.answer for run in runs)
                    row_name = f"{method}, {name}" if sampled else method
                    sizes = "–".join(map(str, sorted({run.members for run in runs})))
                    print(f"| {times} | {sizes} | {row_name} | {' | '.join(cells)} | {verdicts} |")


def percent(estimate: dv.Estimate) -> str:
    """As tables show it."""
    return f"{100 * estimate.value:z.1f} [{100 * estimate.low:z.1f}, {100 * estimate.high:z.1f}]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--base", default=str(Path(tempfile.gettempdir()) / "divulge-base"))
    chosen = parser.parse_args()
    measured(chosen)
    table(chosen)
