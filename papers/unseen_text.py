"""A GPT-2-shaped classifier of newsgroups as the target, two of twenty groups unseen (Thaker et al. 2025, §4.2).

    DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/unseen_text.py --out RUN [--seeds 1]
        [--references 4] [--reference-folds 1]

Target: transformers' GPT2ForSequenceClassification from a small configuration, random weights (no pretrained ones
and no GPT-2 vocabulary are needed: words are hashed), trained with AdamW at 1e-3, weight decay 5e-4, batches of 32
and a tenth of its steps as warm-up, as the source does at full size. Groups are dealt into ten folds of two; each
fold is unseen once. The attack's network is the source's: the mean of word embeddings into an MLP 256-128, with a
Gaussian head. Reference models (LiRA, RMIA) are of the target's kind, on halves of what the auditor holds, for the
first folds alone. Without them, intervals are Student's over the ten folds; with them, the folds are too few for that,
and ranks within folds are pooled: the AUC's own interval, that of the difference from LOSS, and that of the TPR.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import unseen_models as models
from data_sets import DataSet, newsgroups
from divulge import Evidence, networks, references, regressors, seeds
from divulge.attacks import RMIA, LiRA, QuantileRegression, Transductive
from divulge.attacks.regressors import Boosted, Booster
from divulge.regressors import bodies
from divulge.signals import classification as signals
from selector import mean
from unseen_classes import Found, auc, tpr
from unseen_regression import compare, say, table

FOLDS = 10
WORDS, ROWS, WIDTH = 64, 8192, 64  # of a document, of the vocabulary, of the network
EPOCHS, BATCH, RATE, DECAY = 3, 32, 1e-3, 5e-4
WARM = 0.1  # of all steps: 500 of the about 5,300 that the source's sizes make
MEMBERS, POPULATION, OUTSIDERS = 1600, 2000, 2500
SECONDS: dict[str, list[float]] = {"classifier": [], "regressor": []}  # of a core, for each one that this run trained


def data() -> DataSet:
    result = newsgroups()
    return replace(result, members=MEMBERS, population=POPULATION, outsiders=OUTSIDERS)


def classifier(classes: int) -> torch.nn.Module:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=ROWS,
        n_positions=WORDS,
        n_embd=WIDTH,
        n_layer=2,
        n_head=2,
        activation_function="gelu_pytorch_tanh",
        num_labels=classes,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2ForSequenceClassification(config)


def trained(words: np.ndarray, y: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    """Logits ``[n, K]`` on every document of a classifier that learnt from ``rows``."""
    start = time.process_time()
    with networks.single_thread(), networks.torch_seed(seed, torch.device("cpu")):
        model = classifier(int(y.max()) + 1)
        update = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
        steps = EPOCHS * -(-len(rows) // BATCH)
        rate = torch.optim.lr_scheduler.LambdaLR(update, lambda step: min(1.0, (step + 1) / (WARM * steps)))
        x, labels = torch.from_numpy(words), torch.from_numpy(y)
        for epoch in range(EPOCHS):
            model.train()
            for batch in networks.epoch_batches(rows, seed, epoch, BATCH):
                update.zero_grad(set_to_none=True)
                model(input_ids=x[batch], labels=labels[batch]).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                update.step()
                rate.step()
        SECONDS["classifier"].append(time.process_time() - start)
        model.eval()
        with torch.inference_mode():
            return np.concatenate([model(input_ids=part).logits.numpy() for part in x.split(256)])


def target(of: models.Case, words: np.ndarray) -> np.ndarray:
    rows, seed = np.arange(of.data.members), seeds.derive_seed(of.seed, "text", "target")
    made = models.kept(of.folder / "gpt2.npz", lambda: {"logits": trained(words, of.y, rows, seed)})
    return made["logits"].astype(np.float64)


def others(of: models.Case, words: np.ndarray, fold: int, count: int) -> Found:
    """Reference models on halves of the population without ``fold``."""

    def make() -> Found:
        rows = models.population(of, fold)
        halves = references.splits.offline(len(rows), count, of.seed, labels=of.y[rows]).trained_on
        inside = np.zeros((count, len(of.x)), dtype=bool)
        inside[:, rows] = halves
        draws = [seeds.derive_seed(of.seed, "text", "reference", fold, number) for number in range(count)]
        logits = [trained(words, of.y, np.flatnonzero(one), draw) for one, draw in zip(inside, draws, strict=True)]
        return {"logits": np.stack(logits), "inside": inside}

    return models.kept(of.folder / f"gpt2-references-{fold}-{count}.npz", make)


def attack(of: models.Case, words: np.ndarray, fold: int) -> Found:
    """Attacks without reference models, on the candidates of ``fold``."""
    logits, population = target(of, words), models.population(of, fold)
    asked = np.arange(of.candidates.stop)
    asked = asked[of.fold[asked] == fold]
    network = regressors.Network(bodies.TextBag(WORDS, ROWS), epochs=15)
    trees = Boosted(Booster(rounds=100), folds=3)

    def evidence(signal: np.ndarray, seen: np.ndarray) -> Evidence:
        return Evidence(
            signal[asked],
            features=seen[asked],
            population=signal[population],
            population_features=seen[population],
        )

    def quantile(regressor: object, signal: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return QuantileRegression(regressor, conformal=False, seed=of.seed).score(evidence(signal, seen))

    hinge, gap = signals.hinge(logits, of.y), signals.top_two_gap(logits)
    start = time.process_time()
    by_network = {
        f"quantile, network, {name}": quantile(network, signal, of.raw)
        for name, signal in (("gap", gap), ("hinge", hinge))
    }
    SECONDS["regressor"].append((time.process_time() - start) / 2)
    return {
        "member": asked < of.data.members,
        "asked": asked,
        "LOSS": signals.negative_loss(logits, of.y)[asked],
        "gap": gap[asked],
        **by_network,
        "quantile, trees, hinge": quantile(trees, hinge, of.x),
        "transductive": Transductive(seed=of.seed).score(Evidence(hinge[asked], features=of.x[asked])),
    }


def with_references(of: models.Case, words: np.ndarray, fold: int, asked: np.ndarray, count: int) -> Found:
    logits, population = target(of, words), models.population(of, fold)
    held = others(of, words, fold, count)

    def evidence(signal, compared: np.ndarray) -> Evidence:
        own, theirs = signal(logits), np.stack([signal(one) for one in held["logits"].astype(np.float64)])
        return Evidence(
            own[asked],
            references=theirs[:, asked],
            trained_on=held["inside"][:, asked],
            population=own[compared],
            population_references=theirs[:, compared],
            population_trained_on=held["inside"][:, compared],
        )

    def confidence(z: np.ndarray) -> np.ndarray:
        return signals.confidence(z, of.y)

    everything = np.arange(len(of.x))[of.held]
    return {
        "LiRA": LiRA().score(evidence(lambda z: signals.scaled_logit(z, of.y), population)),
        "RMIA": RMIA().score(evidence(confidence, population)),
        "RMIA, unseen in Z": RMIA(ranking="published").score(evidence(confidence, everything)),
    }


def shown(cells: list[Found], key: str, measure, digits: int) -> str:
    result = mean(np.array([measure(c[key], c["member"]) for c in cells]))
    return f"{result.value:.{digits}f} [{result.low:.{digits}f}, {result.high:.{digits}f}]"


def report(head: str, cells: list[Found]) -> None:
    sizes = [sum(int((c["member"] == side).sum()) for c in cells) for side in (True, False)]
    print(f"### {head}: {sizes[0]} members and {sizes[1]} non-members asked about\n")
    keys = [key for key in cells[0] if key not in ("member", "asked")]
    table("attack", ["AUC", "TPR at FPR 1 %, %"], {k: [shown(cells, k, auc, 3), shown(cells, k, tpr, 2)] for k in keys})
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--references", type=int, default=4, help="models of each fold; 0: none")
    parser.add_argument("--reference-folds", type=int, default=1, help="folds that have them")
    given = parser.parse_args()
    out, documents = given.out or Path(tempfile.mkdtemp()), data()
    cells, compared = [], []
    for seed in given.seeds:
        of = models.case("newsgroups-gpt2", documents, seed, FOLDS, out)
        words = bodies.TextBag(WORDS, ROWS).prepare(of.raw)
        right = target(of, words).argmax(axis=1) == of.y
        inside, outside = right[:MEMBERS].mean(), right[MEMBERS : of.candidates.stop].mean()
        print(f"Seed {seed}: target accuracy {inside:.1%} on its members, {outside:.1%} on non-members\n", flush=True)
        for fold in range(FOLDS):
            path = of.folder / f"gpt2-scores-{fold}.npz"
            cells.append(models.kept(path, lambda of=of, words=words, fold=fold: attack(of, words, fold)))
            say(f"seed {seed}, fold {fold}: done")
            if given.references and fold < given.reference_folds:
                result = with_references(of, words, fold, cells[-1]["asked"], given.references)
                compared.append(cells[-1] | result)
                say(f"seed {seed}, fold {fold}: reference models done")
    report(f"Every fold ({len(cells)} cells)", cells)
    if compared:
        print(f"### With {given.references} reference models ({len(compared)} cells)\n")
        compare(compared)
    for name, each in SECONDS.items():
        if each:
            print(f"Trained in this run: {len(each)} of the kind {name}, {np.mean(each):.0f} s of a core each.")


if __name__ == "__main__":
    main()
