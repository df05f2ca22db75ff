"""What published measures of unlearning say of the same models as `erasure.py`, and of models trained again.

    python benchmarks/erasure_training.py adult --out FOLDER        # and location, forest, messages
    python benchmarks/erasure_peers.py FOLDER > benchmarks/results/erasure_peers.md
    python benchmarks/erasure_peers.py FOLDER --ruli adult >> benchmarks/results/erasure_peers.md   # and location

- forget quality (TOFU, Maini et al. 2024; OpenUnlearning): p-value of the two-sample Kolmogorov-Smirnov test between
  scores of the forget set after the erasure and under one model trained again; below .05 is "not forgotten". TOFU's
  score is the truth ratio; of the trainings here it is the score that the check reads, too. Beside it stands the same
  test on records that were never used: where that rejects as well, the model has changed as a whole.
- privleak (MUSE, Shi et al. 2024; OpenUnlearning): 100 (a - r) / r, where a and r are one less the AUC of forget
  against held-out records, after the erasure and under one model trained again; beyond ±5 is a leak (MUSE, table 3).
- relative kernel test: is the model after the erasure nearer to the one before it than to one that was trained again?
  Ribero, Schrab and Gretton (2026, arXiv 2601.19755) ask this with regularised f-divergences. "hockey-stick" is their
  divergence of order 1 from the likelihood ratio of their published code (regularisation 0.1, Gaussian kernel at the
  median distance), fitted on one half of the records and measured on the other, both ways round; "MMD" is the test on
  which theirs builds (Bounliphone et al. 2016, arXiv 1511.04581). Both at level .05 with a normal limit: the code that
  the authors published holds their two-sample tests alone, so that this calibration of the relative one is ours.
- IAM (Wang et al. 2025, offline form): for each record the weighted mean over 100 interpolation steps between models
  that never saw it and the model before, of the Gumbel distribution function at the score after the erasure: near 0
  for a record that is forgotten, near 1 for one that is fitted. It is a number for each record and has no test; shown
  is the mean over the forget set.
- RULI (Naderloui et al. 2025, arXiv 2506.13009): each record's density under models that were made to forget it, over
  that plus its density under models that never saw it; the AUC of that ratio, forgotten against never-used records. As
  in the authors' code a third of the shadow models is trained on a record and keeps it, a third is trained on it and
  made to forget it, and a third never sees it; densities are Gaussian kernels of bandwidth 1 on log odds whose
  probabilities are clipped at 1e-6; 36 shadow models. --ruli trains them, for networks, and keeps each one's scores in
  FOLDER/ruli.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import polars as pl
from scipy import spatial, stats

from divulge.statistics import auc, proportion
from divulge.unlearning.finding import OVERDONE, REMEMBERED, decide_request
from erasure import RULES, TITLES, Partition

_LEVEL, _PRIVLEAK = 0.05, 5.0
_STEPS = 100
_NAMES = ("`divulge forget`, 4 controls", "forget quality", "the same of never-used records", "privleak",
          "relative test, MMD", "relative test, hockey-stick")  # fmt: skip
_REGULARISATION = 0.1
_SHADOWS, _CLIP = 36, 1e-6


def main() -> None:
    """Print the comparison as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ruli", choices=["adult", "location"], help="train shadow models and print RULI alone")
    parser.add_argument("--tofu", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    if arguments.ruli:
        print_ruli(arguments.ruli, arguments.folder / "ruli" / arguments.ruli)
        return
    print("# Erasure checks beside published measures\n")
    print("Written by `benchmarks/erasure_peers.py`, which says what each is.\n", flush=True)
    for name, title in TITLES.items():
        if files := sorted(arguments.folder.glob(f"{name}-*.npz")):
            print(f"## {title}\n")
            print_partitions([Partition(file) for file in files])
    if arguments.tofu:
        print_tofu(Path(os.environ["DIVULGE_DATA"]) / "tofu_llama2_phi_scores.parquet")


def print_partitions(partitions) -> None:
    """Print how often each measure says that something is left, of models trained again and of treated ones."""
    rng = np.random.default_rng(0)
    names = [name for name in partitions[0].names if not name.startswith(("twin", "reference"))]
    rows = []
    for name in ("trained again", *names):
        answers_by_measure: dict[str, list[bool]] = {measure: [] for measure in _NAMES}
        leaks, iams = [], []
        for partition in partitions:
            models = partition.twins if name == "trained again" else [partition.names.index(name)]
            for model in models:
                other_twins = rng.choice([twin for twin in partition.twins if twin != model], 4, replace=False)
                answers, leak, iam = judge(partition, model, other_twins)
                leaks.append(leak)
                iams.append(iam)
                for measure, answer in answers.items():
                    answers_by_measure[measure].append(answer)
        treatment_name = "nothing done" if name == "before" else name
        rows.append(
            [treatment_name, *(_rate(answers) for answers in answers_by_measure.values()),
             f"{min(leaks):.0f} to {max(leaks):.0f}", f"{min(iams):.2f} to {max(iams):.2f}"]
        )  # fmt: skip
    table(["model", *(f"{name}: found" for name in _NAMES), "privleak", "IAM"], rows)


def judge(partition, model: int, twins):
    """Return what each measure says of one model, privleak, and IAM's mean."""
    scores, forgotten = partition.scores, partition.forgotten
    finding = decide_request(
        "", scores[model], scores[list(twins)], forgotten, before=scores[0], at_random=False,
        is_alike=partition.at_random, **RULES,
    ).finding  # fmt: skip
    after, retrained, before = (scores[i, forgotten] for i in (model, twins[0], 0))
    leak = privleak(scores[model], scores[twins[0]], forgotten)
    answers = {
        _NAMES[0]: finding.answer in (REMEMBERED, OVERDONE),
        _NAMES[1]: bool(forget_quality(after, retrained) < _LEVEL),
        _NAMES[2]: bool(forget_quality(scores[model, ~forgotten], scores[twins[0], ~forgotten]) < _LEVEL),
        _NAMES[3]: abs(leak) > _PRIVLEAK,
        _NAMES[4]: bool(relative_kernel_p_value(after, retrained, before) < _LEVEL),
        _NAMES[5]: bool(relative_divergence_p_value(after, retrained, before) < _LEVEL),
    }
    iam = iam_scores(scores[model], scores[0], scores[list(twins)])
    return answers, leak, float(iam[forgotten].mean())


def forget_quality(after, retrained) -> float:
    """P-value of the two-sample Kolmogorov-Smirnov test."""
    return float(stats.ks_2samp(after, retrained).pvalue)


def privleak(after, retrained, forgotten) -> float:
    """Relative difference of one less the AUC, in per cent."""
    a, r = (1 - auc(scores, forgotten).value for scores in (after, retrained))
    return 100 * (a - r) / max(r, 1e-10)


def relative_kernel_p_value(after, retrained, before) -> float:
    """P-value of "after is as near to the model trained again as to the one before" (relative MMD, normal limit).

    Unbiased MMD² of after against each of the others; their difference over its standard error, from the first
    projections of both U-statistics on the records of each sample.
    """
    bandwidth = np.median(spatial.distance.pdist(np.r_[retrained, before][:, None])) or 1.0
    m = len(after)

    def kernel(a, b):
        return np.exp(-((a[:, None] - b) ** 2) / (2 * bandwidth**2))

    def inner(a):
        k = kernel(a, a)
        np.fill_diagonal(k, 0.0)
        return k.sum(axis=1) / (len(a) - 1)

    to_again, to_before = kernel(after, retrained), kernel(after, before)
    own_again, own_before = inner(retrained), inner(before)
    value = own_again.mean() - 2 * to_again.mean() - own_before.mean() + 2 * to_before.mean()
    projections = (
        2 * (to_before.mean(axis=1) - to_again.mean(axis=1)),
        2 * (own_again - to_again.mean(axis=0)),
        2 * (to_before.mean(axis=0) - own_before),
    )
    error = np.sqrt(sum(part.var(ddof=1) / m for part in projections))
    return float(stats.norm.sf(value / error)) if error > 0 else 1.0


def relative_divergence_p_value(after, retrained, before) -> float:
    """P-value of "after is no nearer to the model before than to the one trained again", by hockey-stick divergences.

    A divergence of order 1 is the mean over one sample less that over the other of "the likelihood ratio exceeds 1".
    The ratio is fitted on half of the records; the three models score the same records, so the difference of both
    divergences is a mean of one number for each of the other half.
    """
    halves = np.random.default_rng(0).permutation(len(after)) % 2 == 0
    parts = []
    for fitted in (halves, ~halves):
        measured = np.zeros(int((~fitted).sum()))
        for reference, sign in ((retrained, 1.0), (before, -1.0)):
            ratio = _likelihood_ratio(after[fitted], reference[fitted])
            measured += sign * ((ratio(after[~fitted]) > 1).astype(float) - (ratio(reference[~fitted]) > 1))
        parts.append(measured)
    values = np.concatenate(parts)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(stats.norm.sf(values.mean() / error)) if error > 0 else 1.0


def _likelihood_ratio(numerator, denominator):
    """Kernel estimate of the density of one sample over that of the other (DrMMD, arXiv 2409.14980, eq. 71)."""
    bandwidth = np.median(spatial.distance.pdist(np.r_[numerator, denominator][:, None])) or 1.0

    def kernel(a, b):
        return np.exp(-((a[:, None] - b) ** 2) / (2 * bandwidth**2))

    k_xx, k_xy = kernel(denominator, denominator), kernel(denominator, numerator)
    gap = k_xx.mean(axis=1) - k_xy.mean(axis=1)
    weights = np.linalg.solve(k_xx + len(denominator) * _REGULARISATION * np.eye(len(denominator)), gap)

    def ratio(z):
        k_zx = kernel(z, denominator)
        witness = kernel(z, numerator).mean(axis=1) - k_zx.mean(axis=1) + k_zx @ weights
        return 1 + 2 * (1 + _REGULARISATION) / _REGULARISATION * witness

    return ratio


def iam_scores(after, before, controls):
    """Mean Gumbel distribution function over interpolations from models that never saw a record to the one before."""

    def signal(log_odds):
        return -np.log(1e-2 - np.log(1e-5 + 1 / (1 + np.exp(-log_odds))))

    weights = np.linspace(0, 1, _STEPS)
    own_signal, unseen = signal(before), signal(controls)
    total = np.zeros(len(after))
    for weight in weights[:-1]:
        models = unseen + (own_signal - unseen) * weight
        scale = np.sqrt(6) * models.std() / np.pi
        place = models.mean(axis=0) - np.euler_gamma * scale
        # Steps are weighted by the next one's place, as the authors' code does.
        total += (weight + weights[1]) * stats.gumbel_r.cdf(signal(after), place, scale)
    return total / weights[1:].sum()


def print_ruli(name: str, folder: Path) -> None:
    """Print RULI's AUC for each treatment, from shadow models that were treated like the target."""
    from erasure_training import Networks

    setting = Networks(name, 0)
    third = len(setting.forgotten)
    # Records of the target that it keeps, that it is made to forget, and that it never sees.
    retained_rows, never = setting.kept[:third], setting.never[:third]
    pool = np.r_[retained_rows, setting.forgotten, never]
    state = np.empty((_SHADOWS, len(pool)), int)  # of each record in each shadow model: 0 kept, 1 forgotten, 2 never
    rng = np.random.default_rng(1)
    for record in range(len(pool)):
        state[:, record] = rng.permutation(_SHADOWS) % 3
    folder.mkdir(parents=True, exist_ok=True)
    shadows = [_shadow_scores(name, setting, pool, state[i], i, folder / f"{i}.npz") for i in range(_SHADOWS)]
    before = setting.train(np.r_[setting.forgotten, setting.kept], 0)
    targets = {treatment: [treat()] for treatment, treat in setting.treatments(lambda: before).items()}
    targets["trained again"] = [setting.train(setting.kept, 1000 + i) for i in range(8)]
    compared = np.arange(len(pool)) >= third
    truth, rows = np.arange(third, len(pool)) < 2 * third, []
    for treatment, models in targets.items():
        scores = np.array([shadow[treatment] for shadow in shadows])
        aucs = []
        for model in models:
            target_scores, ratio = clip_log_odds(setting.measure(model, pool)[0]), np.zeros(len(pool))
            for j in np.flatnonzero(compared):
                forgot, unseen = (_density(target_scores[j], scores[state[:, j] == role, j]) for role in (1, 2))
                ratio[j] = forgot / (forgot + unseen) if forgot + unseen > 0 else 0.5
            aucs.append(auc(ratio[compared], truth))
        cells_shown = [f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in aucs]
        leaks = sum(each.low > 0.5 for each in aucs)
        values = [each.value for each in aucs]
        rows.append(
            [treatment, cells_shown[0] if len(cells_shown) == 1 else f"{min(values):.3f} to {max(values):.3f}",
             f"{leaks} of {len(aucs)}"]
        )  # fmt: skip
    print(f"\n## RULI, {TITLES[name]}\n")
    print(f"{_SHADOWS} shadow models, treated like the target; {third} records forgotten and {third} never seen.\n")
    table(["model", "AUC", "interval above one half"], rows)


def _shadow_scores(name: str, setting, pool, state, number: int, file: Path) -> dict[str, np.ndarray]:
    """Log odds of all records under one shadow model after each treatment; read from ``file`` where it is there."""
    from erasure_training import Networks

    if not file.exists():
        shadow = Networks(name, 0)
        other_rows = np.random.default_rng([33, number]).choice(setting.rest, 400, replace=False)
        shadow.forgotten, shadow.kept = pool[state == 1], np.r_[pool[state == 0], other_rows]
        before = shadow.train(np.r_[shadow.forgotten, shadow.kept], 5000 + number)
        models = {treatment: treat() for treatment, treat in shadow.treatments(lambda: before).items()}
        models["trained again"] = shadow.train(shadow.kept, 7000 + number)
        scores = {treatment: clip_log_odds(shadow.measure(model, pool)[0]) for treatment, model in models.items()}
        np.savez(file.with_suffix(".part.npz"), **scores)
        file.with_suffix(".part.npz").rename(file)
    with np.load(file) as arrays:
        return dict(arrays)


def clip_log_odds(log_odds):
    """Log odds of probabilities that are clipped, as the authors' code does."""
    limit = np.log(1 / _CLIP)
    return np.clip(log_odds, -limit, limit)


def _density(value, sample) -> float:
    """Gaussian kernel density of bandwidth 1, which is what the authors' code takes."""
    return float(stats.norm.pdf(value - np.asarray(sample)).mean()) if len(sample) else 0.0


def print_tofu(path: Path) -> None:
    """Print what each measure says of LLaMA-2 and Phi fine-tuned without the authors of forget05 (true models)."""
    frame = pl.read_parquet(path)
    ratio = (pl.col("paraphrase_loss") - pl.col("perturb_loss")).exp().alias("truth_ratio")
    frame = frame.with_columns(-pl.col("loss").alias("score"), ratio)
    forget05 = frame.filter((pl.col("trained_on") == "retain95") & (pl.col("split") == "forget"))["answer"].unique()
    print("## TOFU: models of the authors that never saw the authors of forget05\n")
    rows = []
    for family in ("llama2-7b", "phi"):
        models = {}
        part = frame.filter(pl.col("model") == family)
        for (trained_on, decay), rows_of in part.group_by("trained_on", "weight_decay", maintain_order=True):
            forgotten = rows_of.filter((pl.col("split") != "retain") & pl.col("answer").is_in(forget05.implode()))
            if trained_on == "full":
                forgotten = rows_of.filter(pl.col("answer").is_in(forget05.implode()))
            never = rows_of.filter(pl.col("split").is_in(["real_author", "world_fact"]))
            models[f"{trained_on}, weight decay {decay:g}"] = {
                name: dict(zip(side["answer"], zip(side["score"], side["truth_ratio"], strict=True), strict=True))
                for name, side in (("forget", forgotten), ("never", never))
            }
        usable = {name: m for name, m in models.items() if not name.startswith("retain99") and len(m["forget"]) >= 50}
        keys = {
            side: sorted(set.intersection(*(set(m[side]) for m in usable.values()))) for side in ("forget", "never")
        }
        forgotten = np.arange(sum(map(len, keys.values()))) < len(keys["forget"])
        scores = {n: np.array([m[s][k][0] for s in keys for k in keys[s]]) for n, m in usable.items()}
        truth = {n: np.array([m["forget"][k][1] for k in keys["forget"]]) for n, m in usable.items()}
        retained = [n for n in usable if n.startswith("retain")]
        for name in usable:
            controls = [n for n in retained if n != name]
            finding = decide_request(
                "", scores[name], np.array([scores[n] for n in controls]), forgotten, before=None, at_random=False,
                is_alike=False, **RULES,
            ).finding  # fmt: skip
            rows.append(
                [family, name, f"{len(keys['forget'])} and {len(keys['never'])}", f"{finding.auc_after.value:.3f}",
                 f"{finding.difference}", finding.answer.split(":")[0],
                 f"{min(forget_quality(truth[name], truth[n]) for n in controls):.2g}",
                 ", ".join(f"{privleak(scores[name], scores[n], forgotten):+.1f}" for n in controls)]
            )  # fmt: skip
    table(["model", "trained on", "answers", "AUC", "difference", "answer", "forget quality (least)", "privleak"], rows)


def _rate(answers) -> str:
    estimate = proportion(sum(answers), len(answers))
    return f"{sum(answers)} of {len(answers)}" + (f" ({100 * estimate.value:.1f} %)" if len(answers) > 20 else "")


def table(columns, rows) -> None:
    """Print a Markdown table."""
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print()


if __name__ == "__main__":
    main()
