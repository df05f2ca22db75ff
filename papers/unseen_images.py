"""A ResNet that strangers trained as the target, ConvNeXt, ResNet and ViT as regressors (Thaker et al. 2025, §4.1).

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/unseen_images.py --out RUN
        [--networks convnext-tiny resnet-18] [--passes 2] [--records 600]

Target: ResNet-20, trained on all 50,000 training images of CIFAR-10 (`models/resnet20_cifar10.safetensors`; Idelbayev,
BSD-2-Clause). Members are 6,000 of these, non-members 3,000 test images; the auditor holds the other 3,000 test images
without the unseen class. Every class is unseen once. Boosted trees on principal components are asked about each
class; networks of transformers' own architectures, with random weights (no pretrained ones are needed), about one
class, after a few passes over some images of 32 x 32 at the source's rate, batch size and head, nothing held out.
Of their last layers, section 5.1's figures are printed: the density ratio of all candidates' embeddings over the
training images', and its linear fit. The intervals are over the ten classes: Student's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import unseen_models as models
from data_sets import cifar10_images, folder
from divulge import Evidence, networks, regressors
from divulge.attacks import QuantileRegression, Transductive
from divulge.attacks.regressors import Boosted, Booster
from divulge.evaluation import transfer
from divulge.regressors import bodies
from divulge.signals import classification as signals
from selector import mean
from unseen_classes import COMPONENTS, Found, auc, tpr
from unseen_regression import say, table

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASS_ASKED = 3  # the class that the networks are asked about


class Block(nn.Module):
    """Two convolutions and a shortcut that skips every second pixel and pads channels with zeros."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.stride, self.padding = stride, (outside - inside) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[n, inside, h, w]`` to ``[n, outside, h / stride, w / stride]``."""
        short = x[:, :, :: self.stride, :: self.stride]
        short = functional.pad(short, (0, 0, 0, 0, self.padding, self.padding))
        return functional.relu(self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x))))) + short)


class ResNet20(nn.Module):
    """ResNet-20 for images of 32 x 32 (He et al. 2016), parameters named as in the stored file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of images ``[n, 3, 32, 32]``."""
        x = functional.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean(dim=(2, 3)))


def answers(images: np.ndarray) -> np.ndarray:
    """The target's logits on images ``[n, 32, 32, 3]`` in [0, 1]."""
    from safetensors.torch import load_file

    net = ResNet20().eval()
    net.load_state_dict(load_file(folder() / "models" / "resnet20_cifar10.safetensors"))
    x = torch.from_numpy((images - np.float32(MEAN)) / np.float32(DEVIATION)).permute(0, 3, 1, 2)
    with networks.single_thread(), torch.inference_mode():
        return torch.cat([net(part) for part in x.split(250)]).numpy()


def scores(
    signal: np.ndarray, features: np.ndarray, regressor: object, candidates: np.ndarray, training_rows: np.ndarray
):
    evidence = Evidence(
        signal[candidates],
        features=features[candidates],
        population=signal[training_rows],
        population_features=features[training_rows],
    )
    return QuantileRegression(regressor, conformal=False, seed=0).score(evidence)


def principal(images: np.ndarray, training_rows: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA

    flat = images.reshape(len(images), -1)
    return PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit(flat[training_rows]).transform(flat)


def by_trees(images, y, logits, candidates, training_rows) -> Found:
    columns, trees = principal(images, training_rows), Boosted(Booster(rounds=100), folds=3)
    hinge, gap = signals.hinge(logits, y), signals.top_two_gap(logits)
    return {
        "LOSS": signals.negative_loss(logits, y)[candidates],
        "gap": gap[candidates],
        "quantile, trees, hinge": scores(hinge, columns, trees, candidates, training_rows),
        "quantile, trees, gap": scores(gap, columns, trees, candidates, training_rows),
        "transductive": Transductive().score(Evidence(hinge[candidates], features=columns[candidates])),
    }


def by_network(name: bodies.Architecture, passes: int, images, signal, candidates, training_rows, evaluation) -> Found:
    """z-scores of the candidates ``asked``, and the last layer on training and evaluation images."""
    config = regressors.Network(bodies.Backbone(name, size=32), lr=1e-4, batch_size=16, epochs=passes, held=0)
    fitted = config.fit(images[training_rows], signal[training_rows])
    location, scale = fitted.predict(images[candidates])
    return {
        "scores": (signal[candidates] - location) / scale,
        "seen": fitted.embed(images[training_rows]),
        "query": fitted.embed(images[evaluation]),
    }


def shown(cells: list[Found], key: str, measure, digits: int) -> str:
    values = np.array([measure(c[key], c["member"]) for c in cells])
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    result = mean(values)
    return f"{result.value:.{digits}f} [{result.low:.{digits}f}, {result.high:.{digits}f}]"


def report(cells: list[Found]) -> None:
    columns = {"AUC": (auc, 3), "TPR at FPR 1 %, %": (tpr, 2)}
    keys = [key for key in cells[0] if key != "member"]
    table(
        "attack", columns, {k: [shown(cells, k, measure, digits) for measure, digits in columns.values()] for k in keys}
    )
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--networks", nargs="*", default=["convnext-tiny", "resnet-18"], choices=bodies.ARCHITECTURES)
    parser.add_argument("--records", type=int, default=600, help="images that a network learns from")
    parser.add_argument("--passes", type=int, default=2)
    arguments = parser.parse_args()
    out = arguments.out or Path(tempfile.mkdtemp())
    images, y = cifar10_images()
    logits = models.kept(out / "resnet20.npz", lambda: {"logits": answers(images)})["logits"].astype(np.float64)
    order = 6000 + np.random.default_rng(0).permutation(6000)
    candidates, population = np.r_[np.arange(6000), order[:3000]], order[3000:]
    right = logits.argmax(axis=1) == y
    print(f"Target accuracy: {right[:6000].mean():.1%} on members, {right[6000:].mean():.1%} on non-members\n")
    cells = []
    for label in range(10):
        class_candidates, training_rows = candidates[y[candidates] == label], population[y[population] != label]
        cells.append({"member": class_candidates < 6000} | by_trees(images, y, logits, class_candidates, training_rows))
        say(f"class {label}: done")
    print("## Each class unseen in turn: 600 members and about 300 non-members of each\n")
    report(cells)
    one_class(arguments, out, images, y, logits, candidates, population, cells[CLASS_ASKED])


def one_class(arguments, out: Path, images, y, logits, candidates, population, scores_by_attack: Found) -> None:
    class_candidates, training_rows = (
        candidates[y[candidates] == CLASS_ASKED],
        population[y[population] != CLASS_ASKED][: arguments.records],
    )
    evaluation = np.random.default_rng(1).permutation(candidates)[: arguments.records]
    scores_by_attack, gap, fits = dict(scores_by_attack), signals.top_two_gap(logits), {}
    for name in arguments.networks:
        start = time.process_time()
        path = out / f"resnet20-{name}-{arguments.passes}-{arguments.records}.npz"
        network_output = models.kept(
            path,
            lambda name=name: by_network(
                name, arguments.passes, images, gap, class_candidates, training_rows, evaluation
            ),
        )
        scores_by_attack[f"quantile, {name}, gap"] = network_output["scores"]
        fit = transfer.measure_linearity(network_output["seen"], network_output["query"])
        fits[name] = [f"{v:.3g}" for v in (fit.error, fit.fresh_error, fit.variance, fit.explained)]
        say(f"{name}: done in {time.process_time() - start:.0f} s of a core")
    print(
        f"## Class {CLASS_ASKED} unseen: {arguments.passes} passes over {len(training_rows)} images of other classes\n"
    )
    report([scores_by_attack])
    print(f"Linear fit of the density ratio on the last layer, {len(evaluation)} candidates of all classes:\n")
    table("regressor", ["MSE", "MSE on fresh records", "variance of the ratio", "explained"], fits)


if __name__ == "__main__":
    main()
