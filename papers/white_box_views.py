r"""The learned score with what is seen inside the networks: norms of gradients, the angle of the last hidden layer.

    nice DIVULGE_DATA=… OMP_NUM_THREADS=1 PYTHONPATH=src:benchmarks \
        python papers/white_box_views.py FOLDER [--set fashion …]

Targets, references and records as in `membership.py`, but seeds 3, 4 and 5: which signal `learned-white-box` reads was
chosen by seeds 0, 1 and 2 of Fashion-MNIST, Adult and Location-30. Keeps scores in FOLDER, and writes
`papers/results/white_box.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy import stats

import divulge as dv
from divulge import references, store
from divulge.attacks import Auto, Learned
from divulge.evidence import regression_features, signals_from_logits
from divulge.signals import internals
from membership import MODELS, SIZES, Case
from membership_tables import TITLES, averaged, clipped, over_seeds, short, signed

SEEDS, BUDGETS = (3, 4, 5), (1, 2, 4, 8)
OUTPUTS, INSIDE = ("scaled-logit", "negative-loss"), tuple(internals.SIGNALS)
CENTRED = "centred-logit"
EXTRA_SIGNALS = {
    "angle": ("feature-angle",),
    "centred": (CENTRED,),
    "gradients": ("last-layer-gradient", "weight-gradient"),
    "all three": INSIDE,
}
STATISTICS = ("auc", "tpr@fpr=0.01")
PAGE = Path(__file__).parent / "results" / "white_box.md"
HEAD = """# Inside the networks: norms of gradients and angles of the last hidden layer

`papers/white_box_views.py`. Data, targets and references are those of `membership.md` (MLPs with 128 hidden units
that fit 600 members; 1,000 non-members; references trained on halves of 1,200 other records), known classes, with seeds
3, 4 and 5. Intervals are Student's over the seeds, and never shorter than the records alone allow; differences are
paired on the same records.

`learned-few` reads outputs alone. "Angle" is `learned-white-box`: also the cosine between what the last layer is fed
and its weights for the record's class, and its mean over the models that were not trained on the record. "Gradients":
instead the log-norms of the loss's gradient in the last layer's parameters and in all, and their means. "Centred" looks
inside nothing: the logit of the record's class less the mean of all logits, which but for biases is the angle's
numerator.

That the angle is read and the norms are not was chosen by seeds 0, 1 and 2 of Fashion-MNIST, Adult and Location-30. A
record's feature norm, its margin in feature space and its distance to class means were tried there too, and gained
less. CIFAR-100 and 20 Newsgroups had no say, nor had any record drawn here."""

Scores = dict[str, np.ndarray]


def output_signals(logits: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is asked of outputs, ``[n, 3]``."""
    centred = logits[np.arange(len(y)), y] - logits.mean(axis=1)
    return np.column_stack([signals_from_logits(logits, y, OUTPUTS), centred])


def evidences(case: Case) -> tuple[dict[str, dv.Evidence], dict[str, np.ndarray]]:
    """One for each signal with the references of the largest budget; and signals of the target on the candidates."""
    records, size = case.records, case.size
    free, candidates = case.held(unseen=False)[size.population // 5 :], case.candidates
    rows = np.r_[candidates, free]
    used_records, labels = records[rows], case.data.y[rows]
    inside = references.splits.offline(len(free), MODELS, case.seed, labels=case.data.y[free]).trained_on
    inside = inside[: max(BUDGETS)]
    look = partial(internals.measure, names=INSIDE)
    fitted = replace(case.settings(), count=len(inside)).fit(
        records[free], inside, seed=case.seed, classes=int(case.data.y.max()) + 1, observe=[used_records],
        signal=output_signals, inside=look,
    )  # fmt: skip
    target_values = np.hstack(
        [output_signals(case.target.logits(used_records), labels), look(case.target, used_records)]
    )
    features = regression_features(
        dv.Records(case.data.raw[rows], labels), np.arange(len(rows)) >= len(candidates), case.seed
    )
    evidence_by_signal = {}
    for i, name in enumerate((*OUTPUTS, CENTRED, *INSIDE)):
        values, reference_values = target_values[:, i], fitted.outputs[0][:, :, i]
        evidence_by_signal[name] = dv.Evidence(
            values[: len(candidates)],
            reference_values[:, : len(candidates)],
            population=values[len(candidates) :],
            population_references=reference_values[:, len(candidates) :],
            population_trained_on=inside,
            features=features[: len(candidates)],
            population_features=features[len(candidates) :],
            labels=labels[: len(candidates)],
            population_labels=labels[len(candidates) :],
        )
    return evidence_by_signal, {name: evidence.target for name, evidence in evidence_by_signal.items()}


def fewer(evidence: dv.Evidence, models: int) -> dv.Evidence:
    """The same with fewer reference models."""
    names = ("references", "population_references", "population_trained_on")
    return replace(evidence, **{name: getattr(evidence, name)[:models] for name in names})


def attacked(case: Case) -> Scores:
    """Scores of the candidates, members first, kept."""
    path = case.out / f"{case.key}-{case.seed}-inside.npz"
    if not path.exists():
        evidence_by_signal, plain = evidences(case)
        scores = {f"0/{name}": values for name, values in plain.items()}
        for models in BUDGETS:
            at_budget = fewer(evidence_by_signal["scaled-logit"], models)
            scores[f"{models}/few"] = Learned(few=True, seed=case.seed).score(at_budget)
            for name, extra_names in EXTRA_SIGNALS.items():
                with_extras = replace(
                    at_budget, queries=[fewer(evidence_by_signal[extra_name], models) for extra_name in extra_names]
                )
                scores[f"{models}/{name}"] = Learned(few=True, beside=True, seed=case.seed).score(with_extras)
            scores[f"{models}/auto"] = Auto(seed=case.seed).score(at_budget)
        store.write_arrays(path, scores)
        print(path.stem, flush=True)
    return store.read_arrays(path)


def values(runs: Sequence[Scores], name: str, member: np.ndarray) -> list[str]:
    """AUC and TPR at 1 %."""
    return [
        short(clipped(over_seeds([dv.evaluation.measure(r[name], member, each) for r in runs]))) for each in STATISTICS
    ]


def apart(runs: Sequence[Scores], recipe: str, base_recipe: str, member: np.ndarray) -> list[dv.Estimate]:
    """How far the first is above the second, in both."""
    return [
        over_seeds([dv.evaluation.paired_difference(run[recipe], run[base_recipe], member, each) for run in runs])
        for each in STATISTICS
    ]


def pooled(runs_by_set: dict[str, list[Scores]], recipe: str, base_recipe: str, members: Scores) -> str:
    """Mean difference over sets, seeds and numbers of references; each run is a set's seed."""
    means = []
    for key, runs in runs_by_set.items():
        for run in runs:
            estimates = [
                [dv.evaluation.measure(run[f"{models}/{name}"], members[key], each).value for each in STATISTICS]
                for models in BUDGETS
                for name in (recipe, base_recipe)
            ]
            means.append(-np.diff(np.reshape(estimates, (len(BUDGETS), 2, 2)), axis=1).mean(axis=(0, 1)))
    half = stats.t.ppf(0.975, len(means) - 1) * np.std(means, axis=0, ddof=1) / np.sqrt(len(means))
    return "; ".join(f"{value:+.4f} ± {wide:.4f}" for value, wide in zip(np.mean(means, axis=0), half, strict=True))


def page(runs_by_set: dict[str, list[Scores]]) -> str:
    """The results."""
    lines = [HEAD, "", "## With reference models", ""]
    lines += ["| set | references | recipe | AUC | TPR at 1 % |", "|---|---:|---|---|---|"]
    members = {key: np.arange(SIZES[key].members + SIZES[key].outsiders) < SIZES[key].members for key in runs_by_set}
    for key, runs in runs_by_set.items():
        for models in BUDGETS:
            for name, recipe_name in (("few", "learned-few"), ("angle", "learned-white-box"), ("auto", "auto")):
                cells = values(runs, f"{models}/{name}", members[key])
                lines.append(f"| {TITLES[key][0]} | {models} | {recipe_name} | {' | '.join(cells)} |")
    lines += ["", "## Differences, AUC; TPR at 1 %", ""]
    lines.append(
        "| set | references | angle - few | centred - few | gradients - few | all three - few | angle - auto |"
    )
    lines.append("|---|---:|---|---|---|---|---|")
    pairs = (*((name, "few") for name in EXTRA_SIGNALS), ("angle", "auto"))
    for models in BUDGETS:
        table = {
            key: [apart(runs, f"{models}/{a}", f"{models}/{b}", members[key]) for a, b in pairs]
            for key, runs in runs_by_set.items()
        }
        for key, cells in table.items():
            cells_shown = " | ".join("; ".join(map(signed, cell)) for cell in cells)
            lines.append(f"| {TITLES[key][0]} | {models} | {cells_shown} |")
        means = [[averaged([table[key][i][k] for key in table]) for k in (0, 1)] for i in range(len(pairs))]
        lines.append(f"| mean of the sets | {models} | {' | '.join('; '.join(map(signed, cell)) for cell in means)} |")
    lines += ["", "Means over sets and numbers of references, ± Student's over the runs (AUC; TPR at 1 %):", ""]
    lines += [f"- {a} - {b}: {pooled(runs_by_set, a, b, members)}" for a, b in pairs]
    lines += ["", "## Alone, without reference models", ""]
    lines += ["| set | signal | AUC | TPR at 1 % | AUC minus LOSS's | TPR |", "|---|---|---|---|---|---|"]
    for key, runs in runs_by_set.items():
        for name in ("negative-loss", *INSIDE):
            cells = values(runs, f"0/{name}", members[key])
            if name != "negative-loss":
                cells += [signed(estimate) for estimate in apart(runs, f"0/{name}", "0/negative-loss", members[key])]
            else:
                cells += ["", ""]
            lines.append(f"| {TITLES[key][0]} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", nargs="*", default=list(SIZES), choices=SIZES)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    runs_by_set = {key: [attacked(Case(key, seed, arguments.folder)) for seed in SEEDS] for key in arguments.set}
    PAGE.write_text(page(runs_by_set))


if __name__ == "__main__":
    main()
