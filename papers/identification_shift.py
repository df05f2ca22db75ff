"""Identification where the calibration is unlike the candidates: by weights, and within strata.

    OMP_NUM_THREADS=1 PYTHONPATH=src python papers/identification_shift.py [--runs 400] [part ...]

The parts are simulated, tofu (answers of fine-tuned models, split by their length) and texts (benchmarks whose members
are older than their non-members). The last two read the folder that DIVULGE_DATA names. Tables are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path

import numpy as np

from divulge import InputError
from divulge.decisions import controls, fdr, weighted
from divulge.decisions.weighted import Strata, Weights
from identification_peers import shown, table

DATA = os.environ.get("DIVULGE_DATA")


def outcome(chosen, members):
    return chosen[members:].sum() / max(chosen.sum(), 1), chosen[:members].mean() if members else np.nan


def decided(kinds, level, members):
    """False discovery proportion and power of each kind of decision; None where it is refused."""
    found = {}
    for name, decide in kinds.items():
        try:
            found[name] = outcome(decide(level).selected, members)
        except InputError:
            found[name] = None
    return found


def summary(found):
    kept = [one for one in found if one is not None]
    if len(kept) < 2:
        return f"refused in {len(found) - len(kept)}"
    false, power = np.transpose(kept)
    description = f"{shown(false)} / {np.mean(power):.3f}"
    return description if len(kept) == len(found) else f"{description}, refused in {len(found) - len(kept)}"


def simulated(runs):
    """Scores rise with a feature that is greater among candidates; members' feature as stated."""
    rows = []
    for said, n, m, members, lift, theirs in (
        ("none", 500, 100, 0, 1.0, 1.0),
        ("like non-members", 500, 100, 50, 1.0, 1.0),
        ("smaller by 2", 500, 100, 50, 1.0, -1.0),
        ("greater by 1", 500, 100, 50, 1.0, 2.0),
        ("like non-members, shift of 2", 500, 100, 50, 2.0, 2.0),
        ("like non-members, shift of 3", 500, 100, 50, 3.0, 3.0),
    ):
        rng, found = np.random.default_rng([members, round(10 * lift)]), {}
        for seed in range(runs):
            there, here = rng.normal(size=n), rng.normal(lift, 1, m)
            here[:members] += theirs - lift
            known, scores = there + rng.normal(size=n), here + rng.normal(size=m)
            scores[:members] += 4
            like = rng.normal(lift, 1, (300, 1))
            cuts = np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
            kinds = by_feature(known, scores, there, here, like, cuts, seed)
            kinds["true weights"] = by_weight(known, scores, Weights(np.exp(lift * there), np.exp(lift * here)), seed)
            for name, one in decided(kinds, 0.1, members).items():
                found.setdefault(name, []).append(one)
        rows.append((said, *map(summary, found.values())))
    table(f"Simulated shift: realised rate / power at level .1, {runs} runs", ("members' feature", *found), rows)


def by_weight(known, scores, weights, seed):
    return lambda level: weighted.select(scores, known, weights, fdr=level, seed=seed)


def by_feature(known, scores, there, here, like, cuts, seed):
    """The kinds of decision that know one feature of every document."""

    def estimated(others):
        weights = weighted.density_ratio(there[:, None], here[:, None], like=others, seed=seed)
        return by_weight(known, scores, weights, seed)

    within = Strata(np.digitize(here, cuts), np.digitize(there, cuts))
    return {
        "`bh`": lambda level: fdr.select(scores, known, fdr=level, method="bh"),
        "strata": lambda level: weighted.select_within_strata(scores, known, within, fdr=level),
        "weights from candidates": estimated(None),
        "weights from a holdout": estimated(like),
    }


def tofu(runs):
    """Non-members split by length: the longer an answer, the likelier it is calibration. Longer ones score lower."""
    import polars as pl

    frame = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on") == "retain90")
    rows = []
    for (model, decay), run in frame.sort("index").group_by("model", "weight_decay", maintain_order=True):
        members, others = (run.filter(pl.col("split") == name) for name in ("retain", "forget"))
        inside, outside = (np.log(part["n_tokens"].to_numpy()) for part in (members, others))
        score = {name: -part["loss"].to_numpy() for name, part in (("in", members), ("out", others))}
        z, found = (outside - outside.mean()) / outside.std(), {}
        for seed in range(max(runs // 4, 2)):
            rng = np.random.default_rng(seed)
            known = rng.random(len(z)) < 1 / (1 + np.exp(-1.5 * z))
            rest = rng.permutation(np.flatnonzero(~known))
            judged, apart = rest[: len(rest) // 2], rest[len(rest) // 2 :]
            mine = rng.choice(len(inside), 25, replace=False)
            here, scores = np.append(inside[mine], outside[judged]), np.append(score["in"][mine], score["out"][judged])
            cuts = np.quantile(outside, [1 / 3, 2 / 3])
            kinds = by_feature(score["out"][known], scores, outside[known], here, outside[apart][:, None], cuts, seed)
            for name, one in decided(kinds, 0.1, len(mine)).items():
                found.setdefault(name, []).append(one)
        rows.append((f"{model}, decay {decay:g}", *map(summary, found.values())))
        facts = run.filter(pl.col("split") == "world_fact")
        weights = weighted.density_ratio(np.log(facts["n_tokens"].to_numpy())[:, None], inside[:, None])
        worth = f"count as {weights.effective:.1f}, {weights.reachable(0.1):.0%} of candidates within reach at .1"
        print(f"  {model}: 117 world facts, weighted by length for answers about authors, {worth}")
    description = f"realised rate / power at level .1, {max(runs // 4, 2)} splits"
    table(f"TOFU, calibration drawn from longer answers: {description}", ("model", *found), rows)


def texts(runs):
    """Whether weights can carry a bound at all: the features are years, length, digits and topics of the words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    with gzip.open(Path(DATA) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        given = [json.loads(line) for line in lines]
    rows = []
    for name in ("gutenberg", "multi_web", "laion_mi"):
        members, others = ([row["text"] for row in given if row["set"] == name and row["member"] == side][:1000]
                           for side in (1, 0))  # fmt: skip
        every = [*others, *members]
        words = TruncatedSVD(8, random_state=0).fit_transform(TfidfVectorizer(max_features=5000).fit_transform(every))
        features = np.column_stack([words, [controls._style_features(text) for text in every]])
        third = len(others) // 3
        known, apart, judged = features[:third], features[third : 2 * third], features[2 * third :]
        for said, like in (("candidates", None), ("a holdout", apart)):
            weights = weighted.density_ratio(known, judged, like=like)
            states = []
            for level in (0.05, 0.1, 0.2):
                try:
                    weighted._require_sufficient_weights(weights, level)
                    states.append("carried")
                except InputError:
                    states.append("refused")
            rows.append((name, said, f"{weights.auc:.2f}", third, f"{weights.effective:.0f}",
                         f"{weights.reachable(0.1):.2f}", *states))  # fmt: skip
    columns = ("set", "weights from", "AUC", "calibration", "counts as", "within reach", "at .05", "at .1", "at .2")
    table("Texts with members of other dates: what weights can carry", columns, rows)


PARTS = {"simulated": simulated, "tofu": tofu, "texts": texts}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part")
    parser.add_argument("--runs", type=int, default=400)
    given = parser.parse_args()
    for name in given.parts or PARTS:
        if name != "simulated" and not DATA:
            print(f"\n{name}: left out, DIVULGE_DATA names no folder")
            continue
        start = time.perf_counter()
        PARTS[name](given.runs)
        print(f"\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
