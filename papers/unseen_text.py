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


def target(case: models.Case, words: np.ndarray) -> np.ndarray:
    rows, seed = np.arange(case.data.members), seeds.derive_seed(case.seed, "text", "target")
    stored = models.kept(case.folder / "gpt2.npz", lambda: {"logits": trained(words, case.y, rows, seed)})
    return stored["logits"].astype(np.float64)


def others(case: models.Case, words: np.ndarray, fold: int, count: int) -> Found:
    """Reference models on halves of the population without ``fold``."""

    def make() -> Found:
        rows = models.population(case, fold)
        halves = references.splits.offline(len(rows), count, case.seed, labels=case.y[rows]).trained_on
        inside = np.zeros((count, len(case.x)), dtype=bool)
        inside[:, rows] = halves
        draws = [seeds.derive_seed(case.seed, "text", "reference", fold, number) for number in range(count)]
        logits = [trained(words, case.y, np.flatnonzero(half), draw) for half, draw in zip(inside, draws, strict=True)]
        return {"logits": np.stack(logits), "inside": inside}

    return models.kept(case.folder / f"gpt2-references-{fold}-{count}.npz", make)


def attack(case: models.Case, words: np.ndarray, fold: int) -> Found:
    """Attacks without reference models, on the candidates of ``fold``."""
    logits, population = target(case, words), models.population(case, fold)
    candidates = np.arange(case.candidates.stop)
    candidates = candidates[case.fold[candidates] == fold]
    network = regressors.Network(bodies.TextBag(WORDS, ROWS), epochs=15)
    trees = Boosted(Booster(rounds=100), folds=3)

    def evidence(signal: np.ndarray, features_given: np.ndarray) -> Evidence:
        return Evidence(
            signal[candidates],
            features=features_given[candidates],
            population=signal[population],
            population_features=features_given[population],
        )

    def quantile(regressor: object, signal: np.ndarray, features_given: np.ndarray) -> np.ndarray:
        return QuantileRegression(regressor, conformal=False, seed=case.seed).score(evidence(signal, features_given))

    hinge, gap = signals.hinge(logits, case.y), signals.top_two_gap(logits)
    start = time.process_time()
    network_scores = {
        f"quantile, network, {name}": quantile(network, signal, case.raw)
        for name, signal in (("gap", gap), ("hinge", hinge))
    }
    SECONDS["regressor"].append((time.process_time() - start) / 2)
    return {
        "member": candidates < case.data.members,
        "asked": candidates,
        "LOSS": signals.negative_loss(logits, case.y)[candidates],
        "gap": gap[candidates],
        **network_scores,
        "quantile, trees, hinge": quantile(trees, hinge, case.x),
        "transductive": Transductive(seed=case.seed).score(Evidence(hinge[candidates], features=case.x[candidates])),
    }


def with_references(case: models.Case, words: np.ndarray, fold: int, candidates: np.ndarray, count: int) -> Found:
    logits, population = target(case, words), models.population(case, fold)
    references = others(case, words, fold, count)

    def evidence(signal, compared: np.ndarray) -> Evidence:
        target_signals, reference_signals = (
            signal(logits),
            np.stack([signal(reference_logits) for reference_logits in references["logits"].astype(np.float64)]),
        )
        return Evidence(
            target_signals[candidates],
            references=reference_signals[:, candidates],
            trained_on=references["inside"][:, candidates],
            population=target_signals[compared],
            population_references=reference_signals[:, compared],
            population_trained_on=references["inside"][:, compared],
        )

    def confidence(z: np.ndarray) -> np.ndarray:
        return signals.confidence(z, case.y)

    everything = np.arange(len(case.x))[case.held]
    return {
        "LiRA": LiRA().score(evidence(lambda z: signals.scaled_logit(z, case.y), population)),
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
    arguments = parser.parse_args()
    out, documents = arguments.out or Path(tempfile.mkdtemp()), data()
    cells, compared = [], []
    for seed in arguments.seeds:
        case = models.case("newsgroups-gpt2", documents, seed, FOLDS, out)
        words = bodies.TextBag(WORDS, ROWS).prepare(case.raw)
        right = target(case, words).argmax(axis=1) == case.y
        inside, outside = right[:MEMBERS].mean(), right[MEMBERS : case.candidates.stop].mean()
        print(f"Seed {seed}: target accuracy {inside:.1%} on its members, {outside:.1%} on non-members\n", flush=True)
        for fold in range(FOLDS):
            path = case.folder / f"gpt2-scores-{fold}.npz"
            cells.append(models.kept(path, lambda case=case, words=words, fold=fold: attack(case, words, fold)))
            say(f"seed {seed}, fold {fold}: done")
            if arguments.references and fold < arguments.reference_folds:
                result = with_references(case, words, fold, cells[-1]["asked"], arguments.references)
                compared.append(cells[-1] | result)
                say(f"seed {seed}, fold {fold}: reference models done")
    report(f"Every fold ({len(cells)} cells)", cells)
    if compared:
        print(f"### With {arguments.references} reference models ({len(compared)} cells)\n")
        compare(compared)
    for name, each in SECONDS.items():
        if each:
            print(f"Trained in this run: {len(each)} of the kind {name}, {np.mean(each):.0f} s of a core each.")


if __name__ == "__main__":
    main()
