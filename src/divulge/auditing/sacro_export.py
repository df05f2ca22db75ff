"""Export of a finished audit in the files and keys that SACRO-ML 2 writes for output checkers.

``target.yaml`` describes the model, ``attack_results.json`` every attack. Neither holds a record, an array of the model
or a path of the data. Where SACRO-ML's keys mean less than an audit says, the audit's own words and intervals stand
under ``metadata.divulge``.

References:
    Smith et al., SACRO-ML (https://github.com/AI-SDC/SACRO-ML), release 2.0.1: keys and names only.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from divulge import lazy, store
from divulge._version import __version__
from divulge.auditing.summary import summarise_audit
from divulge.errors import InputError
from divulge.results import ClassifierFit, RegressionFit, StoredRecords
from divulge.store import to_json_values

if TYPE_CHECKING:
    from pathlib import Path

    import yaml
    from scipy import stats

    from divulge.auditing.findings import Findings, Outcome
    from divulge.provenance import Provenance
    from divulge.types import Bools, Floats
else:
    stats = lazy.module("scipy.stats")
    yaml = lazy.module("yaml")

TARGET_FILE, RESULTS_FILE = "target.yaml", "attack_results.json"
_ENDS = {"01": 0.1, "02": 0.2, "001": 0.01}  # name → share of the candidates with the highest, or the lowest, scores
_LEVELS = ("0.5", "0.2", "0.1", "0.01", "0.001", "1e-05")  # false-positive rates, in percent
_DATA_KEYS = ("X_train", "y_train", "X_test", "y_test", "X_train_orig", "y_train_orig", "X_test_orig", "y_test_orig",
              "proba_train", "proba_test", "indices_train", "indices_test")  # fmt: skip


def write_egress_files(audit: Findings, folder: Path, origin: Provenance | None = None) -> list[Path]:
    """Write ``target.yaml`` and ``attack_results.json`` of an audit into ``folder``, and return their paths.

    Args:
        audit: the finished audit.
        folder: made if it is not there; the two files are replaced.
        origin: provenance of the run, for the date and the name of the data.

    Raises:
        divulge.InputError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--to: {folder} cannot be written ({error.strerror or error})") from None
    text = yaml.safe_dump(describe_target_file(audit, origin), sort_keys=False, allow_unicode=True)
    store.write_text(folder / TARGET_FILE, text)
    store.write_json(folder / RESULTS_FILE, describe_attacks(audit, origin))
    return [folder / TARGET_FILE, folder / RESULTS_FILE]


def describe_target_file(audit: Findings, origin: Provenance | None = None) -> dict[str, Any]:
    """Return the content of ``target.yaml``: the model's class and parameters, and no path of data or model."""
    about = audit.about
    estimator, classifier = about.estimator, about.measured(ClassifierFit)
    accuracy = None if classifier is None else classifier.accuracy
    sources = {} if origin is None else {source.role: source.name for source in origin.sources}
    gap = None if accuracy is None else accuracy.members.value - accuracy.nonmembers.value
    if (fit := about.measured(RegressionFit)) is not None and fit.r_squared_members and fit.r_squared_nonmembers:
        gap = fit.r_squared_members.value - fit.r_squared_nonmembers.value  # the score of a regressor
    return {
        "dataset_name": sources.get("members", ""),
        "dataset_module_path": "",
        "features": {},
        "n_samples": about.counts.members,
        "generalisation_gap": gap,
        "safemodel": [],
        "model_type": "" if estimator is None else "SklearnModel",
        "model_name": about.settings.target.partition(",")[0] if estimator is None else estimator.name,
        "model_params": {} if estimator is None else dict(estimator.parameters),
        "model_path": "",
        **{f"{name}_path": "" for name in _DATA_KEYS},
    }


def describe_attacks(audit: Findings, origin: Provenance | None = None) -> dict[str, Any]:
    """Return the content of ``attack_results.json``: an entry for each recipe, under its name and an identifier."""
    entries, about, summary = {}, audit.about, summarise_audit(audit)
    estimator, stored = about.estimator, about.measured(StoredRecords)
    parameters = {} if estimator is None else dict(estimator.parameters)
    for name in audit:
        outcome, recipe, numbers = audit[name].distinct, about.recipes[name], summary.recipes[name]
        digest = store.hash_values(name, str(about.settings), outcome.scores, outcome.members)
        # Where the AUC of a blind guess would lie, three standard deviations about one half.
        n, m = int(outcome.members.sum()), int((~outcome.members).sum())
        reach = 3 * math.sqrt((n + m + 1) / (12 * n * m))
        entry = {
            "log_id": str(uuid.uuid5(uuid.NAMESPACE_URL, digest)),
            "log_time": "" if origin is None else dt.datetime.fromisoformat(origin.date).strftime("%d/%m/%Y %H:%M:%S"),
            "metadata": {
                "sacroml_version": None,
                "divulge_version": __version__,
                "attack_name": f"Divulge {name}",
                "attack_params": {
                    "signal": recipe.signal,
                    "attack": recipe.attack,
                    "references": about.settings.references,
                    "seed": about.settings.seed,
                    "threshold": f"conformal, at a false-positive rate of {max(audit.fpr):g}",
                },
                "global_metrics": {"null_auc_3sd_range": f"{max(0.5 - reach, 0):.4f} -> {min(0.5 + reach, 1):.4f}"},
                "target_model": about.settings.target.partition(",")[0] if estimator is None else estimator.name,
                "target_model_params": parameters,
                "target_train_params": {},
                "divulge": {
                    "answer": summary.verdict.answer,
                    "verdict": summary.verdict.text,
                    "AUC": to_json_values(numbers.auc),
                    "TPR at FPR": to_json_values(numbers.tpr_at_fpr),
                    "epsilon, lower bound": to_json_values(numbers.epsilon),
                    "stored records": None if stored is None else stored.sentence,
                    "warnings": list(about.warnings),
                },
            },
            "attack_experiment_logger": {
                "attack_instance_logger": {
                    "instance_0": membership_metrics(outcome, _called_members(outcome, audit.fpr))
                }
            },
        }
        entries[f"{entry['metadata']['attack_name']}_{entry['log_id']}"] = entry
    return entries


def _called_members(outcome: Outcome, fpr: tuple[float, ...]) -> Bools:
    """Return who is called a member at the largest false-positive rate of the audit; nobody with too few records."""
    try:
        return outcome.selection(fpr=max(fpr)).selected
    except InputError:
        return np.zeros(len(outcome.scores), dtype=bool)


def membership_metrics(outcome: Outcome, is_called: Bools) -> dict[str, float]:
    """Return SACRO-ML's metrics of one attack by its names.

    Args:
        outcome: scores and truth.
        is_called: bool ``[n]``, who is called a member: the basis of TPR, FPR, TNR, PPV, NPV, ACC, F1score.

    Returns:
        ``AUC`` and ``P_HIGHER_AUC`` (one-sided Mann-Whitney), ``TPR@p%`` at a false-positive rate of at most p %, and
        for the tenth, fifth and hundredth of candidates with the highest and lowest scores the shares of members
        (``FMAX``, ``FMIN``), their difference (``FDIF``) and −log of its p-value (``PDIF``, normal approximation).
    """
    scores, truth = outcome.scores, outcome.members
    tp, fp, fn, tn = (
        float(((is_called == predicted) & (truth == actual)).sum())
        for predicted in (True, False)
        for actual in (True, False)
    )
    metrics = {
        "TPR": _ratio(tp, tp + fn),
        "FPR": _ratio(fp, fp + tn),
        "FAR": _ratio(fp, fp + tp),
        "TNR": _ratio(tn, tn + fp),
        "PPV": _ratio(tp, tp + fp),
        "NPV": _ratio(tn, tn + fn),
        "FNR": _ratio(fn, tp + fn),
        "ACC": _ratio(tp + tn, len(scores)),
        "F1score": _ratio(2 * tp, 2 * tp + fp + fn),
    }
    metrics["Advantage"] = abs(metrics["TPR"] - metrics["FPR"])
    test = stats.mannwhitneyu(scores[truth], scores[~truth], alternative="greater")
    metrics["AUC"] = float(test.statistic) / (int(truth.sum()) * int((~truth).sum()))
    metrics["P_HIGHER_AUC"] = float(test.pvalue)
    for name, share in _ENDS.items():
        count, order = math.ceil(len(scores) * share), np.argsort(scores, kind="stable")
        highest, lowest = float(truth[order[-count:]].mean()), float(truth[order[:count]].mean())
        p = float(truth.mean())  # without a leak both ends are `count` draws of this share
        z = (highest - lowest) / math.sqrt(2 * p * (1 - p) / count)
        log_p = float(special.log_ndtr(-z))
        metrics |= {
            f"FMAX{name}": highest,
            f"FMIN{name}": lowest,
            f"FDIF{name}": highest - lowest,
            f"PDIF{name}": -log_p,
        }
    metrics["pred_prob_var"] = float(scores.var())
    metrics |= {f"TPR@{level}%": _rate_at(scores, truth, float(level) / 100) for level in _LEVELS}
    return metrics | {"n_pos_test_examples": float(truth.sum()), "n_neg_test_examples": float((~truth).sum())}


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def _rate_at(scores: Floats, truth: Bools, level: float) -> float:
    """Return the share of members above the lowest threshold that at most ``level`` of the non-members exceed."""
    nonmember_scores = np.sort(scores[~truth])[::-1]
    allowed = math.floor(level * len(nonmember_scores) + 1e-12)
    return float((scores[truth] > nonmember_scores[allowed]).mean()) if allowed < len(nonmember_scores) else 1.0
