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


def decided(deciders, level, members):
    """False discovery proportion and power of each kind of decision; None where it is refused."""
    outcomes = {}
    for name, decide in deciders.items():
        try:
            outcomes[name] = outcome(decide(level).selected, members)
        except InputError:
            outcomes[name] = None
    return outcomes


def summary(outcomes):
    decided_runs = [run_outcome for run_outcome in outcomes if run_outcome is not None]
    if len(decided_runs) < 2:
        return f"refused in {len(outcomes) - len(decided_runs)}"
    false, power = np.transpose(decided_runs)
    description = f"{shown(false)} / {np.mean(power):.3f}"
    return (
        description
        if len(decided_runs) == len(outcomes)
        else f"{description}, refused in {len(outcomes) - len(decided_runs)}"
    )


def simulated(runs):
    """Scores rise with a feature that is greater among candidates; members' feature as stated."""
    rows = []
    for setting_name, n, m, members, lift, member_lift in (
        ("none", 500, 100, 0, 1.0, 1.0),
        ("like non-members", 500, 100, 50, 1.0, 1.0),
        ("smaller by 2", 500, 100, 50, 1.0, -1.0),
        ("greater by 1", 500, 100, 50, 1.0, 2.0),
        ("like non-members, shift of 2", 500, 100, 50, 2.0, 2.0),
        ("like non-members, shift of 3", 500, 100, 50, 3.0, 3.0),
    ):
        rng, outcomes = np.random.default_rng([members, round(10 * lift)]), {}
        for seed in range(runs):
            calibration_feature, candidate_feature = rng.normal(size=n), rng.normal(lift, 1, m)
            candidate_feature[:members] += member_lift - lift
            calibration, scores = calibration_feature + rng.normal(size=n), candidate_feature + rng.normal(size=m)
            scores[:members] += 4
            target_sample = rng.normal(lift, 1, (300, 1))
            cuts = np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
            deciders = by_feature(
                calibration, scores, calibration_feature, candidate_feature, target_sample, cuts, seed
            )
            deciders["true weights"] = by_weight(
                calibration, scores, Weights(np.exp(lift * calibration_feature), np.exp(lift * candidate_feature)), seed
            )
            for name, run_outcome in decided(deciders, 0.1, members).items():
                outcomes.setdefault(name, []).append(run_outcome)
        rows.append((setting_name, *map(summary, outcomes.values())))
    table(f"Simulated shift: realised rate / power at level .1, {runs} runs", ("members' feature", *outcomes), rows)


def by_weight(calibration, scores, weights, seed):
    return lambda level: weighted.select(scores, calibration, weights, fdr=level, seed=seed)


def by_feature(calibration, scores, calibration_feature, candidate_feature, target_sample, cuts, seed):
    """The kinds of decision that know one feature of every document."""

    def estimated(sample):
        weights = weighted.density_ratio(
            calibration_feature[:, None], candidate_feature[:, None], like=sample, seed=seed
        )
        return by_weight(calibration, scores, weights, seed)

    within = Strata(np.digitize(candidate_feature, cuts), np.digitize(calibration_feature, cuts))
    return {
        "`bh`": lambda level: fdr.select(scores, calibration, fdr=level, method="bh"),
        "strata": lambda level: weighted.select_within_strata(scores, calibration, within, fdr=level),
        "weights from candidates": estimated(None),
        "weights from a holdout": estimated(target_sample),
    }


def tofu(runs):
    """Non-members split by length: the longer an answer, the likelier it is calibration. Longer ones score lower."""
    import polars as pl

    frame = pl.read_parquet(Path(DATA) / "tofu_llama2_phi_scores.parquet").filter(pl.col("trained_on") == "retain90")
    rows = []
    for (model, decay), run in frame.sort("index").group_by("model", "weight_decay", maintain_order=True):
        members, nonmembers = (run.filter(pl.col("split") == name) for name in ("retain", "forget"))
        inside, outside = (np.log(part["n_tokens"].to_numpy()) for part in (members, nonmembers))
        score = {name: -part["loss"].to_numpy() for name, part in (("in", members), ("out", nonmembers))}
        z, outcomes = (outside - outside.mean()) / outside.std(), {}
        for seed in range(max(runs // 4, 2)):
            rng = np.random.default_rng(seed)
            is_calibration = rng.random(len(z)) < 1 / (1 + np.exp(-1.5 * z))
            remaining = rng.permutation(np.flatnonzero(~is_calibration))
            candidate_rows, holdout_rows = remaining[: len(remaining) // 2], remaining[len(remaining) // 2 :]
            mine = rng.choice(len(inside), 25, replace=False)
            candidate_feature, scores = (
                np.append(inside[mine], outside[candidate_rows]),
                np.append(score["in"][mine], score["out"][candidate_rows]),
            )
            cuts = np.quantile(outside, [1 / 3, 2 / 3])
            deciders = by_feature(
                score["out"][is_calibration],
                scores,
                outside[is_calibration],
                candidate_feature,
                outside[holdout_rows][:, None],
                cuts,
                seed,
            )
            for name, run_outcome in decided(deciders, 0.1, len(mine)).items():
                outcomes.setdefault(name, []).append(run_outcome)
        rows.append((f"{model}, decay {decay:g}", *map(summary, outcomes.values())))
        facts = run.filter(pl.col("split") == "world_fact")
        weights = weighted.density_ratio(np.log(facts["n_tokens"].to_numpy())[:, None], inside[:, None])
        worth = f"count as {weights.effective:.1f}, {weights.reachable(0.1):.0%} of candidates within reach at .1"
        print(f"  {model}: 117 world facts, weighted by length for answers about authors, {worth}")
    description = f"realised rate / power at level .1, {max(runs // 4, 2)} splits"
    table(f"TOFU, calibration drawn from longer answers: {description}", ("model", *outcomes), rows)


def texts(runs):
    """Whether weights can carry a bound at all: the features are years, length, digits and topics of the words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    with gzip.open(Path(DATA) / "blind_mia_texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows_read = [json.loads(line) for line in lines]
    rows = []
    for name in ("gutenberg", "multi_web", "laion_mi"):
        members, nonmembers = ([row["text"] for row in rows_read if row["set"] == name and row["member"] == side][:1000]
                           for side in (1, 0))  # fmt: skip
        every = [*nonmembers, *members]
        words = TruncatedSVD(8, random_state=0).fit_transform(TfidfVectorizer(max_features=5000).fit_transform(every))
        features = np.column_stack([words, [controls._style_features(text) for text in every]])
        third = len(nonmembers) // 3
        calibration, holdout, candidates = features[:third], features[third : 2 * third], features[2 * third :]
        for source_name, target_sample in (("candidates", None), ("a holdout", holdout)):
            weights = weighted.density_ratio(calibration, candidates, like=target_sample)
            states = []
            for level in (0.05, 0.1, 0.2):
                try:
                    weighted._require_sufficient_weights(weights, level)
                    states.append("carried")
                except InputError:
                    states.append("refused")
            rows.append((name, source_name, f"{weights.auc:.2f}", third, f"{weights.effective:.0f}",
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
