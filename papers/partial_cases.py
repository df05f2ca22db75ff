"""What `partial.py` runs on: data sets, networks, and the cells of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge import completion
from divulge.demo import fashion_mnist
from divulge.evidence import signals_from_logits
from divulge.targets import TorchTarget

N, AUXILIARY, DRAWS = 800, 4000, 8
NAMES = ("negative-loss", "scaled-logit")


def images(file: str, names, side: int) -> np.ndarray:
    """Losslessly coded images of 32 × 32, in [0, 1], averaged to ``side``."""
    z, parts = np.load(Path(os.environ["DIVULGE_DATA"]) / file), []
    for name in names:
        x = np.cumsum(np.cumsum(z[name], 2, dtype=np.uint8), 3, dtype=np.uint8)
        x[0] += x[1]
        x[2] += x[1]
        parts.append(x.transpose(1, 2, 3, 0))
    x = np.concatenate(parts).reshape(-1, side, 32 // side, side, 32 // side, 3).mean((2, 4)) / 255
    return x.astype(np.float32)


@cache
def cifar():
    """Ten superclasses of CIFAR-100, 16 x 16."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "cifar100_full.npz")
    y = np.r_[z["coarse_train"], z["coarse_test"]].astype(int)
    return images("cifar100_full.npz", ("train_res", "test_res"), 16)[y < 10], y[y < 10]


@cache
def cifar10(side: int = 16):
    """12,000 images of CIFAR-10; the first half are training images."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "cifar10_12k.npz")
    y = np.r_[z["y_train"], z["y_test"]].astype(int)
    return images("cifar10_12k.npz", ("res_train", "res_test"), side), y


def centred(images, y):
    """As networks are commonly fed: mean 0 and deviation 1 in each channel."""
    axes = tuple(range(3))
    return ((images - images.mean(axes)) / images.std(axes)).astype(np.float32), y


@cache
def cifar10_centred():
    """CIFAR-10, 16 x 16, channels standardised."""
    return centred(*cifar10())


@cache
def fashion28_centred():
    """Fashion-MNIST, 28 x 28, standardised."""
    return centred(*fashion28())


@cache
def fashion():
    """Fashion-MNIST, 14 x 14."""
    records = fashion_mnist()
    return records.x.reshape(-1, 14, 2, 14, 2).mean((2, 4)), records.y


@cache
def fashion28():
    """Fashion-MNIST as it is, 28 x 28."""
    records = fashion_mnist()
    return records.x, records.y


@cache
def location():
    """446 places that somebody visited or did not."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "location30.npz")
    x = np.unpackbits(z["x_bits"], axis=1, count=int(z["n_features"]))
    return x.astype(np.float32), z["y"].astype(int)


@cache
def adult():
    """Six standardised numbers and eight one-hot groups, without duplicates."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz")
    numbers, codes = z["X_num"].astype(np.float64), z["X_cat"]
    numbers = (numbers - numbers.mean(0)) / numbers.std(0)
    groups = [np.eye(codes[:, j].max() + 1)[codes[:, j]] for j in range(codes.shape[1])]
    x, first_rows = np.unique(np.hstack([numbers, *groups]).astype(np.float32), axis=0, return_index=True)
    return x, z["y"].astype(int)[first_rows]


@cache
def attributes() -> tuple[str, ...]:
    """Names of Adult's columns: a one-hot column is called attribute=value."""
    z = np.load(Path(os.environ["DIVULGE_DATA"]) / "adult.npz")
    codes = zip(z["cat_names"], z["X_cat"].max(0) + 1, strict=True)
    return (*map(str, z["num_names"]), *(f"{name}={code}" for name, count in codes for code in range(count)))


DATA = {
    "cifar": cifar, "cifar10": cifar10, "fashion": fashion, "fashion28": fashion28,
    "location": location, "adult": adult,
    "cifar10-centred": cifar10_centred, "fashion28-centred": fashion28_centred,
}  # fmt: skip


class Channels(nn.Module):
    """Channels last, as the records are, to channels first."""

    def forward(self, x):
        """One batch."""
        return x.movedim(-1, 1)


class Transformer(nn.Module):
    """Patches of 4 x 4 pixels, two layers of 96 with four heads, the mean over patches."""

    def __init__(self, shape, classes, width=96):
        super().__init__()
        self.cut = nn.Conv2d(shape[-1], width, 4, 4)
        self.place = nn.Parameter(torch.randn(1, shape[0] * shape[1] // 16, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        """One batch, channels last."""
        patches = self.cut(x.movedim(-1, 1)).flatten(2).transpose(1, 2)
        return self.head(self.body(patches + self.place).mean(1))


@dataclass(frozen=True)
class Case:
    """A data set, a network, how it is trained, and what is tried on it."""

    data: str
    network: str = "mlp"
    epochs: int = 150
    lr: float = 3e-3
    dropout: float = 0.0
    weight_decay: float = 0.0
    masks: tuple[str, ...] = ("share",)
    references: int = 10
    models: int = 16
    shares: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.9)
    online: tuple[float, ...] = (0.4,)
    matching: tuple[float, ...] = (0.4, 0.9)
    noise: float | None = None  # of DP-SGD, which clips gradients at 1; None: without

    def make(self, shape, classes):
        """A network for records of this shape."""
        if self.network == "mlp":
            return nn.Sequential(
                nn.Flatten(), nn.Linear(int(np.prod(shape)), 256), nn.ReLU(),
                *([nn.Dropout(self.dropout)] if self.noise is None else []),
                nn.Linear(256, classes),
            )  # fmt: skip
        if self.network == "transformer":
            return Transformer(shape, classes)
        return nn.Sequential(
            Channels(),
            nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(48 * 4 * 4, classes),
        )  # fmt: skip


BLOCK = "block:top-left"
CASES = {
    "cifar-mlp": Case(
        "cifar", epochs=250, masks=("share", BLOCK), shares=(0.1, 0.2, 0.4, 0.6, 0.9, 0.95), online=(0.4, 0.2, 0.9)
    ),
    "fashion-mlp": Case("fashion", masks=("share", BLOCK)),
    "location-mlp": Case("location", epochs=60, lr=2e-3, online=(0.4, 0.9)),
    "adult-mlp": Case("adult", epochs=200, masks=("attributes", "share"), online=(0.4, 0.9)),
    "cifar-regularised": Case("cifar", epochs=100, dropout=0.5, weight_decay=0.5, shares=(0.2, 0.4, 0.9)),
    "cifar-cnn": Case("cifar", "cnn", epochs=60, lr=4e-3, references=6, models=10, shares=(0.2, 0.4, 0.9), matching=()),
}


class Cell:
    """One data set, network and seed."""

    def __init__(self, case: Case, seed: int):
        x, y = DATA[case.data]()
        order = np.random.default_rng(seed).permutation(len(x))
        x, y = x[order], y[order]
        self.case, self.seed, self.classes = case, seed, int(y.max()) + 1
        self.pool, self.auxiliary = dv.Records(x[: 2 * N], y[: 2 * N]), dv.Records(x[2 * N :], y[2 * N :])[:AUXILIARY]
        self.members = np.arange(2 * N) < N
        self.gaussian = completion.ConditionalGaussian().fit(self.auxiliary)

    @cached_property
    def target(self) -> TorchTarget:
        """Trained on the whole records of the members."""
        return TorchTarget(self.train(2).train_model(self.pool[:N], seed=self.seed, classes=self.classes), device="cpu")

    def train(self, count: int):
        """How networks are trained, target and references alike."""
        case, shape = self.case, self.pool.x.shape[1:]
        private = None if case.noise is None else dv.references.Private(noise=case.noise, clip=1.0)
        return dv.references.Train(
            lambda: case.make(shape, self.classes), count=count, epochs=case.epochs, optimizer="adamw",
            lr=case.lr, weight_decay=case.weight_decay, batch_size=100, engine="serial", device="cpu",
            stop_at_accuracy=0.995 if private is None else None, privacy=private,
        )  # fmt: skip

    def rows(self, count: int):
        """Which auxiliary records each offline model is trained on."""
        rng = np.random.default_rng(self.seed + 1)
        size = min(N, len(self.auxiliary) // 2)
        chosen = [rng.choice(len(self.auxiliary), size, replace=False) for _ in range(count)]
        return np.stack([np.isin(np.arange(len(self.auxiliary)), rows) for rows in chosen])

    def known(self, mask: str, share: float) -> np.ndarray:
        """What is known of every record: one mask for all."""
        shape = self.pool.x.shape[1:]
        if mask == "whole":
            return np.ones(shape, dtype=bool)
        if mask.endswith(" each"):
            return completion.mask(f"{mask[:-5]}:{share}:each", shape, seed=self.seed, records=len(self.pool))
        if mask != "attributes":
            return completion.mask(f"{mask}:{share}", shape, seed=self.seed)
        names = list(dict.fromkeys(name.split("=")[0] for name in attributes()))
        known_names = np.random.default_rng(self.seed).permutation(names)[: max(1, round(share * len(names)))]
        return completion.mask(f"columns:{','.join(known_names)}", shape, columns=attributes())

    def partial(self, mask: str, share: float) -> dv.PartialRecords:
        """What is known of the candidates."""
        return dv.PartialRecords(self.pool.x, self.pool.y, self.known(mask, share))

    def asked(self, place) -> list[dv.Records]:
        """What models are asked about: best completion and draws of the candidates, best one of the auxiliary."""
        partial, auxiliary = self.partial(*place), self.auxiliary
        auxiliary_guess = self.gaussian.complete(dv.PartialRecords(auxiliary.x, auxiliary.y, self.known(*place)))[0]
        best = self.gaussian.complete(partial)[0]
        draws = [] if place[0] == "whole" else self.gaussian.sample(partial, DRAWS, self.seed)
        views = [dv.Records(x.astype(np.float32), self.pool.y) for x in (best, *draws)]
        return [dv.Records(auxiliary_guess.astype(np.float32), auxiliary.y), *views]

    def signals(self, x) -> np.ndarray:
        """Both signals of the target, ``[2, n]``."""
        records = dv.Records(np.asarray(x, dtype=np.float32), self.pool.y)
        return signals_from_logits(self.target.logits(records), records.y, NAMES).T
