"""When the residual of an attack pays: share of members, number of candidates, number of features, strange features.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/residual.py [--sets adult] [--seeds 3]

MLPs with 128 hidden units that fit 1,000 members; LiRA with 4 reference models trained on as many other records. The
candidates are drawn anew 20 times for every cell from 1,000 members and 3,000 others of each of the targets.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.attacks import LiRA, Residual
from divulge.evidence import signals_from_logits
from divulge.references import Train
from divulge.targets import TorchTarget
from partial_cases import adult, fashion

SETS = {"adult": adult, "fashion": fashion}
N, N_NONMEMBERS, REFERENCES, DRAWS = 1000, 3000, 4, 20
SHARES, SIZES, WIDTHS = (0.01, 0.1, 0.5, 0.9), (100, 300, 1000, 2000), (2, 10, 50, 200)


def answers(name, seed):
    """Scaled logits of target and references, features and classes of all candidates; and of a target that saw none."""
    x, y = SETS[name]()
    x, classes = x.reshape(len(x), -1).astype(np.float32), int(y.max()) + 1
    order = np.random.default_rng(seed).permutation(len(x))
    rows, beyond = order[: N + N_NONMEMBERS], order[N + N_NONMEMBERS :]
    everything = dv.Records(x[rows], y[rows])

    def make():
        return nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, classes))

    train = Train(make, count=1, epochs=60, optimizer="adam", batch_size=32)
    rng, signal_rows = np.random.default_rng(100 + seed), []
    for model, part in enumerate((order[:N], *(rng.choice(beyond, N, replace=False) for _ in range(REFERENCES + 1)))):
        target = TorchTarget(train.train_model(dv.Records(x[part], y[part]), seed=model, classes=classes), device="cpu")
        signal_rows.append(signals_from_logits(target.logits(everything), y[rows], ("scaled-logit",))[:, 0])
    return np.array(signal_rows[:-1]), signal_rows[-1], x[rows], y[rows]


def drawn(rng, size, share):
    """Rows of so many candidates, of which a share are members."""
    members = max(1, round(share * size))
    return np.r_[
        rng.choice(N, min(N, members), replace=False), N + rng.choice(N_NONMEMBERS, size - members, replace=False)
    ]


def areas(signals, x, y, rows, attack, *, features=None):
    member = rows < N
    table = x[rows] if features is None else features
    evidence = dv.Evidence(signals[0, rows], signals[1:, rows], features=table, labels=y[rows])
    return dv.evaluation.auc(attack.score(evidence), member).value


def line(row_name, pairs):
    plain, residual = np.array(pairs).T
    gain = residual - plain
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(
        f"| {row_name} | {plain.mean():.3f} | {residual.mean():.3f} | {gain.mean():+.3f} ± {2 * error:.3f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.sets:
        signals_by_seed = [answers(name, seed) for seed in range(arguments.seeds)]
        rng = np.random.default_rng(0)
        print(f"\n| {name} | LiRA | its residual | gain |\n|---|---:|---:|---:|")

        def cell(
            row_name, size, share, components=50, signals_by_seed=signals_by_seed, rng=rng, *, null=False, strange=False
        ):
            pairs = []
            for i in range(DRAWS):
                signals, silent, x, y = signals_by_seed[i % len(signals_by_seed)]
                if null:
                    signals = np.vstack([silent, signals[1:]])
                rows = drawn(rng, size, share)
                features = x[rng.permutation(rows)] if strange else None
                residual = Residual(LiRA(), components=components, seed=i)
                pairs.append([areas(signals, x, y, rows, attack, features=features) for attack in (LiRA(), residual)])
            line(row_name, pairs)

        for share in SHARES:
            cell(f"1,000 candidates, {share:.0%} members", 1000, share)
        for size in SIZES:
            cell(f"{size:,} candidates, half members", size, 0.5)
        for width in WIDTHS:
            cell(f"1,000 candidates, {width} components", 1000, 0.5, width)
        cell("1,000 candidates, features of other records", 1000, 0.5, strange=True)
        cell("1,000 candidates, a target that saw none", 1000, 0.5, null=True)


if __name__ == "__main__":
    main()
