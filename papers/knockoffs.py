"""Knockoffs made of paraphrases (KTD, Hu et al. 2025): a baseline for identification whose assumption fails.

    OMP_NUM_THREADS=1 PYTHONPATH=src python papers/knockoffs.py

KTD compares a document's score with that of a paraphrase of it and counts negative differences to bound false
discoveries (knockoff+, Barber & Candès 2015). It assumes that the difference of a non-member is as often negative as
positive. Paraphrases by a language model read less naturally to the examined model than the original does, so the
differences of non-members are positive more often. The script shows it on TOFU, which it reads from the folder that
DIVULGE_DATA names.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import stats

from divulge.decisions.controls import Control
from divulge.validation import check_number, check_vector

if TYPE_CHECKING:
    from divulge.types import Bools


def select_by_knockoffs(originals: object, knockoffs: object, *, fdr: float) -> tuple[Bools, float]:
    """Return the knockoff+ selection: the documents whose difference from their paraphrase reaches a threshold.

    The threshold is the smallest ``t`` with ``(1 + #{W ≤ -t}) / #{W ≥ t} ≤ fdr``.

    Args:
        originals: scores ``[m]`` of the documents, larger = more member-like.
        knockoffs: scores ``[m]`` of their paraphrases.
        fdr: bound on the false discovery rate, valid only if differences of non-members are symmetric.

    Returns:
        Selected, bool ``[m]``, and the threshold on the difference (infinity when nothing is selected).

    Raises:
        divulge.InputError: NaN, infinity, different lengths.

    Examples:
        >>> select_by_knockoffs([3.0, 2.0, 4.0, 0.1, 5.0], [0.0, 0.0, 0.0, 0.2, 0.0], fdr=0.3)
        (array([ True,  True,  True, False,  True]), 2.0)
    """
    check_number(fdr, "fdr", above=0, below=1)
    scores = check_vector(originals, "originals")
    difference = scores - check_vector(knockoffs, "knockoffs", length=len(scores))
    steps = np.unique(np.abs(difference[difference != 0]))
    ordered = np.sort(difference)
    negative = np.searchsorted(ordered, -steps, side="right")
    positive = len(ordered) - np.searchsorted(ordered, steps, side="left")
    reached = np.flatnonzero((1 + negative) <= fdr * positive)
    if not reached.size:
        return np.zeros(len(scores), bool), np.inf
    threshold = float(steps[reached[0]])
    return difference >= threshold, threshold


def symmetry_control(originals: object, knockoffs: object, *, level: float = 0.05) -> Control:
    """Test whether known non-members favour original and paraphrase equally, as knockoffs need.

    An exact sign test and Wilcoxon's signed-rank test, each at half the level.

    Args:
        originals: scores ``[n]`` of known non-members.
        knockoffs: scores ``[n]`` of their paraphrases.
        level: rate of false alarms.

    Raises:
        divulge.InputError: NaN, infinity, different lengths.

    Examples:
        >>> symmetry_control(np.arange(30.0), np.zeros(30)).passed
        False
    """
    check_number(level, "level", above=0, below=1)
    scores = check_vector(originals, "originals")
    difference = scores - check_vector(knockoffs, "knockoffs", length=len(scores))
    difference = difference[difference != 0]
    if not len(difference):
        return Control("symmetry", 1.0, level, "every paraphrase scores exactly as its original", conclusive=True)
    favoured = int((difference > 0).sum())
    p = min(stats.binomtest(favoured, len(difference)).pvalue, stats.wilcoxon(difference, method="approx").pvalue)
    says = f"{favoured} of {len(difference)} known non-members score above their own paraphrase"
    return Control("symmetry", min(2 * float(p), 1.0), level, says, conclusive=True)


def main():
    """Print, for each TOFU run, how often knockoffs select non-members and how often symmetry fails."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    table = pl.read_parquet(Path(os.environ["DIVULGE_DATA"]) / "tofu_llama2_phi_scores.parquet")
    for name, run in table.filter(pl.col("trained_on") == "retain90").group_by(
        "model", "weight_decay", maintain_order=True
    ):
        forget = run.filter(pl.col("split") == "forget")
        pairs = np.column_stack([-forget["loss"].to_numpy(), -forget["paraphrase_loss"].to_numpy()])
        rng, selected, asymmetric = np.random.default_rng(4), [], []
        for _ in range(500):
            shuffled, half = rng.permutation(pairs), len(pairs) // 2
            selected.append(select_by_knockoffs(*shuffled[:half].T, fdr=0.1)[0].any())
            asymmetric.append(not symmetry_control(*shuffled[half:].T).passed)
        favoured = (pairs[:, 0] > pairs[:, 1]).mean()
        print(
            f"{name}: {favoured:.3f} of nulls favour the original; FDR at level 0.1 {np.mean(selected):.3f}; "
            f"symmetry fails in {np.mean(asymmetric):.3f} of runs"
        )


if __name__ == "__main__":
    main()
