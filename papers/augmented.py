"""What several queries a record add: LiRA and RMIA on images as they are, mirrored and shifted; on tables with noise.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks python papers/augmented.py

Fashion-MNIST at 14 x 14: small convolutional networks that fit 1,000 members, trained on the images as they are or each
time mirrored and shifted at random. Adult: MLPs that fit 1,000 members. As many non-members; a population of 2,000;
reference models trained on halves of it; three seeds. Writes `papers/results/augmented.md`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import divulge as dv
from divulge.attacks import RMIA, Averaged, LiRA, MajorityRMIA
from divulge.evidence import signals_from_logits
from divulge.references import splits
from divulge.signals.versions import ImageVersions, NoisyVersions
from divulge.targets import TorchTarget
from membership_tables import clipped, over_seeds, short, signed
from partial_cases import adult, fashion

SEEDS, MODELS, POPULATION = 3, (1, 2, 4), 2000
STATISTICS = ("auc", "tpr@fpr=0.01")
PAGE = Path(__file__).parent / "results" / "augmented.md"
HEAD = """# Several queries a record

`papers/augmented.py`. Fashion-MNIST at 14 x 14: a convolutional layer of 16 channels and 64 hidden units, 40 passes
over 1,000 members as they are, or 80 over the same mirrored with probability one half and shifted by up to a pixel each
time. Adult: 128 hidden units, 60 passes. 1,000 members and 1,000 non-members; reference models trained as the target
is, on halves of 2,000 other records. Images are asked for as they are; also mirrored (2 queries); also moved by a pixel
each way, mirrored or not (18). Rows of Adult are asked for with 8 noisy copies (9).

Intervals: Student's over three seeds, each with its own target, members and references, and never shorter than the
records alone allow, as in `membership.md`. Differences from one query are paired on the same records."""
SIGNALS = ("scaled-logit", "confidence")


class Convolutions(nn.Sequential):
    """A layer of 3 x 3, and a hidden one."""

    def __init__(self, shape, classes):
        width = 16 * (shape[0] // 2) * (shape[1] // 2)
        convolved = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        super().__init__(
            nn.Unflatten(1, (1, shape[0])), *convolved, nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, classes)
        )


def perceptron(shape, classes):
    """128 hidden units."""
    return nn.Sequential(nn.Linear(shape[0], 128), nn.ReLU(), nn.Linear(128, classes))


def mirrored_and_shifted(x, generator):
    """Each image mirrored with probability one half, and all of a batch moved by up to one pixel."""
    flip = torch.rand(len(x), generator=generator) < 0.5
    x = torch.where(flip[:, None, None], x.flip(2), x)
    down, right = torch.randint(-1, 2, (2,), generator=generator).tolist()
    return torch.roll(x, (down, right), (1, 2))


def trained(make, x, y, classes, seed, epochs, *, moved):
    torch.manual_seed(seed)
    generator, model = torch.Generator().manual_seed(seed), make(x.shape[1:], classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(32):
            batch = mirrored_and_shifted(x[rows], generator) if moved else x[rows]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), y[rows]).backward()
            optimizer.step()
    return TorchTarget(model.eval(), device="cpu")


def evidences(load, make, n, epochs, versions, seed, *, moved):
    """One for each signal, with queries, of candidates and population."""
    x, y = load()
    x, classes = x.astype(np.float32), int(y.max()) + 1
    rows = np.random.default_rng(seed).permutation(len(x))[: 2 * n + POPULATION]
    x, y = x[rows], y[rows].astype(np.int64)
    everything = dv.Records(x, y)
    record_versions = (everything, *versions.generate(everything, seed))
    inside = splits.offline(POPULATION, max(MODELS), seed, labels=y[2 * n :]).trained_on
    parts = [np.arange(n), *(2 * n + np.flatnonzero(row) for row in inside)]
    signal_rows = []
    for model, part in enumerate(parts):
        target = trained(make, x[part], y[part], classes, 1000 * seed + model, epochs, moved=moved)
        signal_rows.append([signals_from_logits(target.logits(version), y, SIGNALS) for version in record_versions])
        if not model:
            right = (target.logits(everything).argmax(axis=1) == y).astype(float)
            print(f"accuracy: members {right[:n].mean():.3f}, others {right[n : 2 * n].mean():.3f}", flush=True)
    table = np.array(signal_rows)  # models, versions, records, signals
    evidence_by_name = {}
    for i, name in enumerate(SIGNALS):
        version_evidence = [
            dv.Evidence(
                values[0, : 2 * n],
                values[1:, : 2 * n],
                population=values[0, 2 * n :],
                population_references=values[1:, 2 * n :],
                population_trained_on=inside,
            )
            for values in table[..., i].swapaxes(0, 1)
        ]
        evidence_by_name[name] = version_evidence
    return evidence_by_name, np.arange(2 * n) < n


def fewer(evidence, models):
    """The same with fewer reference models."""
    names = ("references", "population_references", "population_trained_on")
    return replace(evidence, **{name: getattr(evidence, name)[:models] for name in names})


CASES = {
    "Fashion-MNIST, trained as they are": (fashion, Convolutions, 1000, 40, ImageVersions(), False),
    "Fashion-MNIST, trained mirrored and shifted": (fashion, Convolutions, 1000, 80, ImageVersions(), True),
    "Adult": (adult, perceptron, 1000, 60, NoisyVersions(), False),
}
ATTACKS = {"lira": ("scaled-logit", LiRA(), Averaged(LiRA())), "rmia": ("confidence", RMIA(), MajorityRMIA())}

Scores = dict[tuple[int, str, int], np.ndarray]


def attacked(evidence_by_name, versions) -> Scores:
    """Scores by number of reference models, attack and number of queries."""
    scores: Scores = {}
    for models in MODELS:
        for name, (signal, inner, outer) in ATTACKS.items():
            original, *further = (fewer(evidence, models) for evidence in evidence_by_name[signal])
            scores[models, name, 1] = inner.score(original)
            if isinstance(versions, ImageVersions):
                scores[models, name, 2] = outer.score(replace(original, queries=[further[8]]))
            scores[models, name, 1 + len(further)] = outer.score(replace(original, queries=further))
    return scores


def rows(case: str, runs: list[Scores], member: np.ndarray) -> list[str]:
    """A line for each attack, with its paired differences from one query."""
    lines = []
    for models, name, queries in runs[0]:
        own_scores, single_query = [run[models, name, queries] for run in runs], [run[models, name, 1] for run in runs]
        cells = [
            short(clipped(over_seeds([dv.evaluation.measure(scores, member, statistic) for scores in own_scores])))
            for statistic in STATISTICS
        ]
        differences = [
            over_seeds(
                [
                    dv.evaluation.paired_difference(*pair, member, each)
                    for pair in zip(own_scores, single_query, strict=True)
                ]
            )
            for each in STATISTICS
        ]
        cells += [signed(each) if queries > 1 else "" for each in differences]
        lines.append(f"| {case} | {models} | {name} | {queries} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    lines = [HEAD, "", "| target | references | attack | queries | AUC | TPR at 1 % | AUC minus one query's | TPR |"]
    lines.append("|---|---:|---|---:|---|---|---|---|")
    for case, (load, make, n, epochs, versions, moved) in CASES.items():
        runs = []
        for seed in range(SEEDS):
            evidence_by_name, member = evidences(load, make, n, epochs, versions, seed, moved=moved)
            runs.append(attacked(evidence_by_name, versions))
        table_rows = rows(case, runs, member)
        print(*table_rows, sep="\n", flush=True)
        lines += table_rows
    PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
