"""Train models that forgot, and models that did not, for `erasure.py`.

    python benchmarks/erasure_training.py DATA [--partitions N] [--first N] [--twins N] --out FOLDER

DATA is location, fashion, adult (networks), forest (random forests on Adult) or messages (a small language model).
For each partition of the data one model is trained on all records, ``--twins`` models are trained again without the
records to be forgotten, each with a seed of its own, eight more on other records altogether, and the first model is
treated in the ways that are sold as unlearning. One ``.npz`` for each partition holds their scores: larger is more
like a training record. Each model's scores are kept in FOLDER/models as soon as it is trained, so that a run that was
stopped goes on where it was.

In every third partition the records to be forgotten are not a random draw: they are of some classes more often than the
never-used ones (of messages, the long ones).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from data_sets import DATA_SETS, folder

torch.set_num_threads(1)

FORGOTTEN, RETAINED, NEVER, N_OTHER = 300, 700, 400, 500
REFERENCES = 8
EPOCHS = {"location": 40, "fashion": 60, "adult": 40}
WIDTH = 128


def main() -> None:
    """Train and save scores, partition by partition."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["location", "fashion", "adult", "forest", "messages"])
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="number of the first partition")
    parser.add_argument("--twins", type=int, default=28)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    make = {"messages": Messages, "forest": Forests}.get(arguments.data, Networks)
    for partition in range(arguments.first, arguments.first + arguments.partitions):
        file = arguments.out / f"{arguments.data}-{partition}.npz"
        if not file.exists():
            models = arguments.out / "models" / file.stem
            models.mkdir(parents=True, exist_ok=True)
            arrays = scores_of_all_models(make(arguments.data, partition), arguments.twins, models)
            np.savez_compressed(file, **arrays)
            print(file, flush=True)


def scores_of_all_models(setting, twins: int, folder: Path) -> dict[str, np.ndarray]:
    """Scores ``[models, records]`` and quality ``[models, records]``, and which records are which."""
    rows = np.r_[setting.forgotten, setting.never, setting.kept, setting.other]

    def measure(name, train) -> None:
        """Train a model and keep its scores, unless they are there."""
        file = folder / f"{name}.npz"
        if not file.exists():
            scores, quality = setting.measure(train(), rows)
            np.savez(file.with_suffix(".part.npz"), scores=scores.astype(np.float32), quality=quality)
            file.with_suffix(".part.npz").rename(file)

    @cache
    def before():
        return setting.train(np.r_[setting.forgotten, setting.kept], 0)

    measure("before", before)
    names = ["before"]
    for i in range(twins):
        names.append(f"twin-{i}")
        measure(names[-1], partial(setting.train, setting.kept, 1000 + i))
    for i in range(REFERENCES):
        names.append(f"reference-{i}")
        measure(names[-1], partial(setting.train, setting.reference_rows(i), 2000 + i))
    for name, train in setting.treatments(before).items():
        names.append(name)
        measure(name, train)
    sizes = [len(setting.forgotten), len(setting.never), len(setting.kept), len(setting.other)]
    measured = [np.load(folder / f"{name}.npz") for name in names]
    return {
        "names": np.array(names),
        "scores": np.array([arrays["scores"] for arrays in measured], np.float32),
        "quality": np.array([arrays["quality"] for arrays in measured], np.float32),
        "part": np.repeat(["forgotten", "never", "kept", "other"], sizes),
        "at_random": np.array(setting.at_random),
    }


class Setting:
    """A partition of a data set into records to be forgotten, kept, never used, held out, and those of references."""

    def split(self, n: int, group: np.ndarray, partition: int, size: int = 1) -> None:
        """Draw the rows; in every third partition the forgotten ones are mostly of the groups in the upper half."""
        rng = np.random.default_rng([31, partition])
        rows = rng.permutation(n)
        self.at_random = partition % 3 != 2
        if not self.at_random:
            weight = np.where(group[rows] > np.median(group), 3.0, 1.0)
            forgotten_groups = rng.choice(n, FORGOTTEN // size, replace=False, p=weight / weight.sum())
            rows = np.r_[rows[forgotten_groups], np.delete(rows, forgotten_groups)]
        edges = np.cumsum([FORGOTTEN // size, RETAINED // size, NEVER // size, N_OTHER // size])
        self.forgotten, self.kept, self.never, self.other, self.rest = np.split(rows, edges)
        self.rng = rng

    def reference_rows(self, number: int) -> np.ndarray:
        """As many records as a retrained model has, of those in no other part."""
        rng = np.random.default_rng([32, number])
        return rng.choice(self.rest, min(len(self.kept), len(self.rest)), replace=False)

    def treat_network(self, before, epochs, **spoiled):
        """What is sold as unlearning, as functions that treat the network ``before()``; ``spoiled`` are wrong data."""
        train, everything = self.train, np.r_[self.forgotten, self.kept]
        return {
            "fine-tuned on the rest": lambda: train(self.kept, 1, model=before(), epochs=epochs),
            "ascent": lambda: train(self.forgotten, 2, model=before(), epochs=1, ascend=True),
            "ascent, 3 epochs": lambda: train(self.forgotten, 2, model=before(), epochs=3, ascend=True),
            "random labels": lambda: train(everything, 3, model=before(), epochs=epochs, **spoiled),
            "pruned by half": lambda: self.prune(before()),
            "pruned by half, fine-tuned": lambda: train(self.kept, 4, model=self.prune(before()), epochs=epochs),
        }


class Networks(Setting):
    """Networks of one hidden layer."""

    def __init__(self, name: str, partition: int) -> None:
        data = DATA_SETS[name]()
        self.x, self.y = torch.tensor(data.x), torch.tensor(data.y)
        self.classes, self.epochs = int(data.y.max()) + 1, EPOCHS[name]
        self.split(len(data.x), data.y, partition)

    def train(self, rows, seed, *, model=None, epochs=None, y=None, ascend=False, rate=1e-3):
        """Adam on batches of 50, from new weights or from a model."""
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(self.x.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, self.classes))
        if model is not None:
            net.load_state_dict(model.state_dict())
        y = self.y[rows] if y is None else y
        x, optimiser = self.x[rows], torch.optim.Adam(net.parameters(), rate)
        for _ in range(self.epochs if epochs is None else epochs):
            for batch in torch.randperm(len(rows)).split(50):
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
                (-loss if ascend else loss).backward()
                optimiser.step()
        return net

    def treatments(self, before):
        """What is sold as unlearning; its random labels are of the forgotten records alone."""
        shuffled = self.y[np.r_[self.forgotten, self.kept]].clone()
        shuffled[: len(self.forgotten)] = torch.tensor(self.rng.integers(0, self.classes, len(self.forgotten)))
        return self.treat_network(before, 10, y=shuffled)

    def prune(self, model):
        """Set the smaller half of the weights of every matrix to 0."""
        net = nn.Sequential(nn.Linear(self.x.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, self.classes))
        net.load_state_dict(model.state_dict())
        with torch.no_grad():
            for p in net.parameters():
                if p.ndim == 2:
                    p[p.abs() < p.abs().quantile(0.5)] = 0
        return net

    def measure(self, model, rows):
        """Log odds of the record's own class, and whether it is predicted."""
        with torch.no_grad():
            log_p = torch.log_softmax(model(self.x[rows]).double(), 1)
        return _log_odds(log_p.numpy(), self.y[rows].numpy())


class Forests(Setting):
    """Random forests on Adult; nothing but training again makes them forget, and leaving out trees does not."""

    def __init__(self, name: str, partition: int) -> None:
        data = DATA_SETS["adult"]()
        self.x, self.y = data.x, data.y
        self.split(len(data.x), data.y, partition)

    def train(self, rows, seed, y=None):
        """A forest of 100 trees."""
        return RandomForestClassifier(100, random_state=seed).fit(self.x[rows], self.y[rows] if y is None else y)

    def treatments(self, before):
        """What is sold as unlearning, as far as forests allow it, as functions."""
        everything = np.r_[self.forgotten, self.kept]
        shuffled = self.y[everything].copy()
        shuffled[: len(self.forgotten)] = self.rng.integers(0, 2, len(self.forgotten))

        def halve(*others):
            forest = self.train(everything, 0)
            forest.estimators_ = forest.estimators_[:50] + [
                tree for other_forest in others for tree in other_forest.estimators_[:50]
            ]
            return forest

        return {
            "random labels": lambda: self.train(everything, 3, shuffled),
            "pruned by half": halve,
            "half of the trees trained again": lambda: halve(self.train(self.kept, 5)),
        }

    def measure(self, model, rows):
        """Log odds of the record's own class, and whether it is predicted."""
        p = np.mean([tree.predict_proba(self.x[rows]) for tree in model.estimators_], axis=0)
        return _log_odds(np.log(np.clip(p, 1e-3, 1)), self.y[rows])


def _log_odds(log_p, y):
    own_log = log_p[np.arange(len(y)), y]
    other_logs = np.where(np.arange(log_p.shape[1]) == y[:, None], -np.inf, log_p)
    return own_log - np.logaddexp.reduce(other_logs, axis=1), log_p.argmax(axis=1) == y


class Messages(Setting):
    """SMS messages: a transformer of two layers over words, fine-tuned from one base."""

    LENGTH, WORDS, SIZE, EPOCHS = 24, 2000, 2, 20

    def __init__(self, name: str, partition: int) -> None:
        with gzip.open(folder() / "sms_spam.jsonl.gz", "rt", encoding="utf8") as lines:
            texts = list(dict.fromkeys(json.loads(line)["text"] for line in lines))
        words = [re.findall(r"\w+|[^\w\s]", text.lower())[: self.LENGTH - 1] for text in texts]
        words = [message for message in words if len(message) > 3]
        common = [word for word, _ in Counter(w for m in words for w in m).most_common(self.WORDS - 3)]
        index = {word: i + 3 for i, word in enumerate(common)}  # 0 padding, 1 start, 2 any other word
        self.tokens = torch.zeros(len(words), self.LENGTH, dtype=torch.long)
        for row, message in enumerate(words):
            self.tokens[row, 0] = 1
            self.tokens[row, 1 : len(message) + 1] = torch.tensor([index.get(word, 2) for word in message])
        self.split(len(words), np.array([len(m) for m in words]), partition, self.SIZE)
        base_rows, self.rest = np.split(self.rest, [1500])
        self.base = self.train(base_rows, 77, model=self.build(77), epochs=4)

    def build(self, seed):
        """A new model."""
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=self.WORDS, n_positions=self.LENGTH, n_embd=64, n_layer=2, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        return GPT2LMHeadModel(config)

    def copy(self, model):
        """A model of the same weights."""
        new = self.build(0)
        new.load_state_dict(model.state_dict())
        return new

    def loss(self, net, tokens):
        """Cross-entropy of every token, ``[n, length - 1]``; 0 for padding."""
        logits = net(tokens).logits[:, :-1]
        target = tokens[:, 1:]
        return nn.functional.cross_entropy(logits.transpose(1, 2), target, ignore_index=0, reduction="none")

    def train(self, rows, seed, *, model=None, epochs=None, tokens=None, ascend=False):
        """Adam on batches of 16, from the base or from a model."""
        net = self.copy(self.base if model is None else model)
        torch.manual_seed(seed)
        tokens, optimiser = self.tokens[rows] if tokens is None else tokens, torch.optim.Adam(net.parameters(), 1e-3)
        for _ in range(self.EPOCHS if epochs is None else epochs):
            for batch in torch.randperm(len(tokens)).split(16):
                optimiser.zero_grad()
                part = tokens[batch]
                loss = self.loss(net, part).sum() / (part[:, 1:] != 0).sum()
                (-loss if ascend else loss).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
        return net

    def treatments(self, before):
        """What is sold as unlearning; in place of random labels, the forgotten documents have random words."""
        tokens = self.tokens[np.r_[self.forgotten, self.kept]].clone()
        part = tokens[: len(self.forgotten), 1:]
        random_words = torch.tensor(self.rng.integers(3, self.WORDS, part.shape))
        tokens[: len(self.forgotten), 1:] = torch.where(part > 0, random_words, part)
        return self.treat_network(before, 5, tokens=tokens)

    def prune(self, model):
        """Set the smaller half of the weights of every matrix to 0."""
        pruned = self.copy(model)
        with torch.no_grad():
            for p in pruned.parameters():
                if p.ndim == 2:
                    p[p.abs() < p.abs().quantile(0.5)] = 0
        return pruned

    def measure(self, model, rows):
        """Mean log-likelihood of a token, twice: as the score, and as the quality that perplexity is made of."""
        with torch.no_grad():
            tokens = self.tokens[rows]
            mean = -self.loss(model, tokens).double().sum(1) / (tokens[:, 1:] != 0).sum(1)
        return mean.numpy(), mean.numpy()


if __name__ == "__main__":
    main()
