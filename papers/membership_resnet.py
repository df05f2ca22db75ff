"""Do small references help against a larger target that somebody else trained?

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/membership_resnet.py [--seeds 3]

Target: ResNet-20 (270,000 weights), trained on all 50,000 training images of CIFAR-10 with flips and crops
(`models/resnet20_cifar10.safetensors`). Members: 1,000 of its images; non-members and the auditor's records: 1,000 and
2,000 test images. References: four networks of two convolutions (19,000 weights) on 16 x 16 pixels, each trained on
half of the auditor's images for ten passes with flips, on the labels or (distilled) on the target's own probabilities.
The target is one and the same, so seeds differ in records and references alone.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

import divulge as dv
from data_sets import cifar10_images, folder
from divulge import references
from membership_tables import clipped, over_seeds, short, signed
from unseen_images import DEVIATION, MEAN, ResNet20

RECIPES = (
    "loss",
    "transductive",
    "lira",
    "bavaria",
    "rmia",
    "base",
    "learned",
    "lira-residual",
    "rmia-residual",
    "auto",
)
STATISTICS = ("auc", "tpr@fpr=0.01")


class Small(nn.Module):
    """Two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(48 * 16, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images ``[n, 3, 32, 32]``."""
        return self.body(x)


def trainer(teach: Callable[[dv.Records], torch.Tensor]) -> Callable[[dv.Records, int], nn.Module]:
    """Trains a small network on what ``teach`` says of the records: probabilities ``[n, 10]``."""

    def train(records: dv.Records, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        x, expected, net = torch.from_numpy(records.x), teach(records), Small()
        optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
        for _ in range(10):
            for rows in torch.randperm(len(x)).split(64):
                batch = x[rows].flip(3) if torch.rand(()) < 0.5 else x[rows]
                optimizer.zero_grad()
                functional.cross_entropy(net(batch), expected[rows]).backward()
                optimizer.step()
        return net.eval()

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    logging.disable()
    torch.set_num_threads(1)

    target = ResNet20().eval()
    target.load_state_dict(load_file(folder() / "models" / "resnet20_cifar10.safetensors"))
    images, y = cifar10_images()
    x = np.ascontiguousarray(((images - np.float32(MEAN)) / np.float32(DEVIATION)).transpose(0, 3, 1, 2))

    def labels(records: dv.Records) -> torch.Tensor:
        return functional.one_hot(torch.from_numpy(records.y), 10).float()

    @torch.inference_mode()
    def answers(records: dv.Records) -> torch.Tensor:
        return torch.cat([target(part).softmax(1) for part in torch.from_numpy(records.x).split(250)]).clone()

    estimates_found: dict[tuple[str, str], list[list[dv.Estimate]]] = {}
    began = time.process_time()
    for seed in range(arguments.seeds):
        rng = np.random.default_rng(seed)
        inside, outside = rng.permutation(6000)[:1000], 6000 + rng.permutation(6000)[:3000]
        sets = [dv.Records(x[rows], y[rows]) for rows in (inside, outside[:1000], outside[1000:])]
        for teaching, teach in (("on labels", labels), ("distilled", answers)):
            result = dv.audit(
                target,
                members=sets[0],
                nonmembers=sets[1],
                population=sets[2],
                references=references.Custom(trainer(teach), count=4, engine="serial"),
                recipes=RECIPES,
                seed=seed,
                device="cpu",
            )
            member = np.asarray(result.members)
            for recipe in RECIPES:
                scores, loss = result.scores[recipe], result.scores["loss"]
                estimates = [dv.evaluation.measure(scores, member, s) for s in STATISTICS]
                beyond = [dv.evaluation.paired_difference(scores, loss, member, s) for s in STATISTICS]
                estimates_found.setdefault((teaching, recipe), []).append([*estimates, *beyond])
    print(f"{arguments.seeds} seeds, {time.process_time() - began:.0f} s of one core.\n")
    print("| references | recipe | AUC | TPR at 1 % | AUC minus LOSS's | TPR at 1 % minus LOSS's |")
    print("|---|---|---|---|---|---|")
    for (teaching, recipe), runs in estimates_found.items():
        columns = [over_seeds(column) for column in zip(*runs, strict=True)]
        beyond = ("", "") if recipe == "loss" else map(signed, columns[2:])
        cells = *(short(clipped(column)) for column in columns[:2]), *beyond
        print(f"| {teaching} | {recipe} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
