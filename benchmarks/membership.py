"""Which attack to trust with how many reference models: AUC and TPR at 1 %.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/membership.py [--signals FOLDER]

MLPs with 128 hidden units; as many members as non-members; reference models trained on halves of the population.
`--signals` keeps the models' answers, so that attacks can be run again without training.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.attacks import BASE, RMIA, Auto, BaVarIA, Learned, LiRA, Residual, Threshold
from divulge.evidence import features, of_logits
from divulge.references import Train, splits
from divulge.targets import TorchTarget
from partial_cases import adult, fashion, location

SIGNALS = ("negative-loss", "confidence", "scaled-logit", "hinge")
SETS = {"adult": (adult, 1000, 4000, 60), "location": (location, 800, 2133, 30), "fashion": (fashion, 1500, 4000, 60)}
SEEDS, MODELS = 3, (1, 2, 4, 8)
NONE = {"loss": ("negative-loss", Threshold()), "loss-residual": ("negative-loss", Residual(Threshold()))}
SOME = {
    "lira": ("scaled-logit", LiRA()),
    "bavaria": ("scaled-logit", BaVarIA()),
    "rmia": ("confidence", RMIA()),
    "base": ("negative-loss", BASE()),
    "learned": ("scaled-logit", Learned()),
    "lira-residual": ("scaled-logit", Residual(LiRA())),
    "rmia-residual": ("confidence", Residual(RMIA())),
    "auto": ("scaled-logit", Auto()),
}


def answers(name, seed):
    """Signals of target and references on candidates, calibration and population, and what else attacks read."""
    load, n, population, epochs = SETS[name]
    x, y = load()
    x, classes = x.reshape(len(x), -1).astype(np.float32), int(y.max()) + 1
    order = np.random.default_rng(seed).permutation(len(x))
    rows, scored = order[: 2 * n + population], 2 * n + population // 4
    own, beyond = rows[:n], rows[scored:]

    def make():
        return nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, classes))

    train = Train(make, count=max(MODELS), epochs=epochs, optimizer="adam", batch_size=32)
    everything = dv.Records(x[rows], y[rows])
    target = TorchTarget(train.one(dv.Records(x[own], y[own]), seed=100 + seed, classes=classes), device="cpu")
    inside = splits.offline(len(beyond), train.count, seed, labels=y[beyond]).trained_on
    fitted = train.fit(dv.Records(x[beyond], y[beyond]), inside, seed=seed, classes=classes, observe=[everything])
    return {
        "T": of_logits(target.logits(everything), y[rows], SIGNALS),
        "R": np.stack([of_logits(one, y[rows], SIGNALS) for one in fitted.outputs[0]]),
        "F": features(everything, np.arange(len(rows)) >= scored, seed),
        "inside": inside,
        "y": y[rows],
        "n": n,
        "cand": scored,
    }


def evidence(kept, signal, models):
    """What an attack is given."""
    at, scored = SIGNALS.index(signal), int(kept["cand"])
    target, references = kept["T"][:, at], kept["R"][:models, :, at]
    some = {
        "references": references[:, :scored],
        "trained_on": np.zeros((models, scored), dtype=bool),
        "population_references": references[:, scored:],
        "population_trained_on": kept["inside"][:models],
    }
    return dv.Evidence(
        target[:scored],
        population=target[scored:],
        features=kept["F"][:scored],
        population_features=kept["F"][scored:],
        labels=kept["y"][:scored],
        population_labels=kept["y"][scored:],
        **(some if models else {}),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=Path, default=None)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--models", nargs="*", type=int, default=[0, *MODELS])
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder = given.signals or Path(tempfile.mkdtemp())
    print("| set | references | attack | AUC (mean, range) | TPR at 1 % (mean, range) |\n|---|---:|---|---:|---:|")
    for name in given.sets:
        cells = {}
        for seed in range(SEEDS):
            path = folder / f"{name}{seed}.npz"
            if not path.exists():
                np.savez(path, **answers(name, seed))
            kept = dict(np.load(path))
            n = int(kept["n"])
            member = np.arange(2 * n) < n
            for models in given.models:
                for what, (signal, attack) in (SOME if models else NONE).items():
                    if attack.least_references <= models:
                        scores = attack.seeded(seed).score(evidence(kept, signal, models))[: 2 * n]
                        found = dv.evaluation.auc(scores, member), dv.evaluation.tpr_at_fpr(scores, member, 0.01)
                        cells.setdefault((models, what), []).append([one.value for one in found])
        for (models, what), values in cells.items():
            shown = [f"{v.mean():.3f} [{v.min():.3f}, {v.max():.3f}]" for v in np.array(values).T]
            print(f"| {name} | {models} | {what} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
