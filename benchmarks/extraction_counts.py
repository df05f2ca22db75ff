"""How often members are called given back by a model that saw none: documents that share passages or suffixes.

Each cell draws two sets, counts what a model completes anyway, and asks whether the interval of the difference lies
above 0, once with each passage counted once (as earlier releases did) and once as `divulge extract` does. The
blind baseline is left out, so the shares are larger than those of whole runs.

    python benchmarks/extraction_counts.py [--runs 200] > benchmarks/results/extraction_counts.md
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

import numpy as np

import divulge.extraction.result as result
from divulge import statistics

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "guarantees"))
from test_extraction_counts import forms, is_extracted, templates


def main() -> None:
    """Print one line per cell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="of each cell")
    runs = parser.parse_args().runs
    result.rate_difference = functools.cache(statistics.rate_difference)
    compare_hits = result._compare_hits

    def by_passage(hits, sides, shared, level):
        (k, m), (j, n) = ((int(side_hits.sum()), len(side_hits)) for side_hits in hits)
        return result.rate_difference(k, m, j, n, level)

    cells = {
        "forms, 60 + 60, 20 forms": (forms, (60, 20), (60, 20)),
        "forms, 300 + 60, 90 forms": (forms, (300, 90), (60, 90)),
        "forms, 60 + 300, 90 forms": (forms, (60, 90), (300, 90)),
        "forms, 20 + 200, 12 forms": (forms, (20, 12), (200, 12)),
        "forms, 1,000 + 100, 300 forms": (forms, (1000, 300), (100, 300)),
        "forms, 60 + 60, none repeats": (forms, (60, 10**6), (60, 10**6)),
        "templates, 10 of 10 documents a side": (templates, (10, 10), (10, 10)),
        "templates, 12 of 5": (templates, (12, 5), (12, 5)),
        "templates, 30 of 3": (templates, (30, 3), (30, 3)),
        "templates, 60 of 2": (templates, (60, 2), (60, 2)),
    }
    print(f"# Members called given back by a model that saw none, of {runs} runs\n")
    print("| cell | each passage once | as counted now |\n|---|---:|---:|")
    for name, (draw, members, nonmembers) in cells.items():
        counts = []
        for compare in (by_passage, compare_hits):
            result._compare_hits = compare
            n_false = 0
            for seed in range(runs):
                rng = np.random.default_rng(seed)
                sets = draw(rng, *members), draw(rng, *nonmembers)
                n_false += is_extracted(sets, lambda prompt, suffix: min(prompt, suffix) < 10**6)
            counts.append(n_false)
        print(f"| {name} | {counts[0]} | {counts[1]} |", flush=True)


if __name__ == "__main__":
    main()
