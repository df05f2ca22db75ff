"""What can be said of a target without reference models: LOSS's TNR beside LiRA's TPR, and LT-IQR beside LiRA's scores.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/without_references.py

MLPs with 128 hidden units on three data sets, stopped after several numbers of epochs: some hardly leak, some fit every
member. LiRA has 16 reference models, trained as the target on as many other records. Two seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from torch import nn

import divulge as dv
from divulge.attacks import LiRA, at_risk
from divulge.evidence import signals_from_logits
from divulge.targets import TorchTarget
from partial_cases import adult, fashion, location

REFERENCES, FPR, K = 16, 0.01, 0.05
STOPS = (2, 5, 10, 20, 40, 80)
CASES = {"Adult": (adult, 1000), "Fashion-MNIST": (fashion, 1000), "Location-30": (location, 800)}


def trained(x, y, classes, seed, everything, labels):
    """Losses of the training records after each epoch, and the answers on all records after each of `STOPS`."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, classes))
    optimizer, generator = torch.optim.Adam(model.parameters()), torch.Generator().manual_seed(seed)
    x, y, traces, signals_by_epoch = torch.from_numpy(x), torch.from_numpy(y), [], {}
    for epoch in range(1, max(STOPS) + 1):
        for rows in torch.randperm(len(x), generator=generator).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            traces.append(nn.functional.cross_entropy(model(x), y, reduction="none").numpy())
        if epoch in STOPS:
            logits = TorchTarget(model, device="cpu").logits(dv.Records(everything))
            signals_by_epoch[epoch] = signals_from_logits(logits, labels, ("scaled-logit", "negative-loss"))
    return np.array(traces), signals_by_epoch


def measured(name, seed):
    """One row for each number of epochs."""
    load, n = CASES[name]
    x, y = load()
    x, y, classes = x.reshape(len(x), -1).astype(np.float32), y.astype(np.int64), int(y.max()) + 1
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(x))
    candidates, population = rows[: 2 * n], rows[2 * n :]
    traces, target_signals = trained(
        x[candidates[:n]], y[candidates[:n]], classes, 100 * seed, x[candidates], y[candidates]
    )
    parts = [rng.choice(population, n, replace=False) for _ in range(REFERENCES)]
    reference_signals = [
        trained(x[part], y[part], classes, 100 * seed + 1 + i, x[candidates], y[candidates])[1]
        for i, part in enumerate(parts)
    ]
    member, lines = np.arange(2 * n) < n, []
    for stop in STOPS:
        scores = LiRA().score(
            dv.Evidence(
                target_signals[stop][:, 0], np.stack([reference[stop][:, 0] for reference in reference_signals])
            )
        )
        threshold = np.sort(scores[~member])[-1 - int(FPR * n)]
        vulnerable = scores[:n] > threshold
        picks = {
            "LT-IQR": at_risk(traces[:stop]),
            "final loss": traces[stop - 1],
            "mean loss": traces[:stop].mean(axis=0),
            "chance": rng.random(n),
        }
        top = int(K * n)
        lines.append(
            {
                "set": name,
                "epochs": stop,
                "LiRA": dv.evaluation.tpr_at_fpr(scores, member, FPR).value,
                "LOSS TPR": dv.evaluation.tpr_at_fpr(target_signals[stop][:, 1], member, FPR).value,
                "LOSS TNR": dv.evaluation.tnr_at_fnr(target_signals[stop][:, 1], member, FPR).value,
                **{
                    pick_name: float(vulnerable[np.argsort(-criterion)[:top]].mean())
                    for pick_name, criterion in picks.items()
                },
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept", type=Path, default=None, help="file to read rows from, or to add those of --set to")
    parser.add_argument("--set", choices=CASES, default=None)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows_kept = json.loads(arguments.kept.read_text()) if arguments.kept and arguments.kept.exists() else []
    if arguments.set:
        arguments.kept.write_text(json.dumps(rows_kept + measured(arguments.set, arguments.seed)))
        return
    lines = rows_kept or [line for name in CASES for seed in range(2) for line in measured(name, seed)]
    names = list(lines[0])
    print("| " + " | ".join(names) + " |\n|---|" + "---:|" * (len(names) - 1))
    for name in CASES:
        for stop in STOPS:
            same = [line for line in lines if (line["set"], line["epochs"]) == (name, stop)]
            means = [f"{np.mean([line[key] for line in same]):.3f}" for key in names[2:]]
            print(f"| {name} | {stop} | " + " | ".join(means) + " |")
    for statistic in ("LOSS TNR", "LOSS TPR"):
        for chosen in (None, *CASES):
            lines_of_set = [line for line in lines if chosen in (None, line["set"])]
            pairs = np.array([(line[statistic], line["LiRA"]) for line in lines_of_set])
            r, rho = stats.pearsonr(*pairs.T).statistic, stats.spearmanr(*pairs.T).statistic
            off = np.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2))
            set_name = chosen or "all"
            print(
                f"{statistic} against LiRA's TPR, {set_name}, {len(lines_of_set)} targets: "
                f"r {r:.2f}, rho {rho:.2f}, RMSE {off:.3f}"
            )


if __name__ == "__main__":
    main()
