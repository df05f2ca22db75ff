"""Audits made of score tables alone: what is judged of them costs no model."""

from dataclasses import replace

import numpy as np

from divulge import provenance, results, statistics
from divulge.auditing import Audit
from divulge.auditing.checks.blind_baseline import describe_blind_baseline
from divulge.auditing.checks.covariates import describe_balance
from divulge.auditing.checks.texts import describe_texts
from divulge.evaluation import covariates
from divulge.results import CheckFinding, TextSplit
from divulge.types import Estimate

_ENVIRONMENT = provenance.collect_environment()  # which asks git: not once for each of thousands of audits

# Scores that know nothing of membership, by what they look like.
SCORE_SHAPES = {
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "rounded": lambda rng, shape: rng.normal(size=shape).round(),
    "two-valued, rate .5": lambda rng, shape: (rng.random(shape) < 0.5) * 1.0,
    "two-valued, rate .02": lambda rng, shape: (rng.random(shape) < 0.02) * 1.0,
    "nine of ten zero": lambda rng, shape: np.where(rng.random(shape) < 0.9, 0.0, rng.normal(size=shape)),
    "constant": lambda rng, shape: np.zeros(shape),
}


def scored(scores, members, *, calibration=None, fpr=(0.05,), confounded=False, labels=None, unseen=(), path=None):
    """An audit of which only the scores are known.

    Args:
        scores: recipe → ``[n]``.
        members: bool ``[n]``.
        calibration: recipe → scores of calibration records; 0, 1, …, 98 when None.
        fpr: levels.
        confounded: whether the blind baseline told members from non-members.
        labels: classes ``[n]``.
        unseen: unseen classes.
        path: its run directory.
    """
    members = np.asarray(members)
    recipe = results.RecipeRun("negative-loss", "logits", "Threshold()", "none", None, "", 1, {}, None)
    area = Estimate(0.9, 0.8, 0.95, 0.95, "delong")
    blind = results.BlindBaseline(area, True, 1e-3, 1e-3, len(members), "permutation") if confounded else None
    return Audit(
        scores={name: np.asarray(values, float) for name, values in scores.items()},
        calibration=calibration or dict.fromkeys(scores, np.arange(99.0)),
        ids=np.arange(len(members)),
        members=members,
        labels=labels,
        calibration_labels=None,
        unseen_classes=unseen,
        fpr=fpr,
        signals={},
        about=results.RunMetadata(
            settings=results.RunSettings(
                seed=0,
                recipes=tuple(scores),
                attacks={},
                references="none",
                unseen_classes=unseen,
                fpr=fpr,
                calibration=0.25,
                duplicates="error",
                outputs="logits",
                device="cpu",
                data=results.Digests("", "", ""),
                target="none",
                partial=None,
            ),
            recipes=dict.fromkeys(scores, recipe),
            counts=results.RecordCounts(int(members.sum()), int((~members).sum()), 1, 99, 2),
            duplicates=0,
            warnings=(),
            environment=_ENVIRONMENT,
            timings={},
            engine="",
            findings=(describe_blind_baseline(blind),),
        ),
        path=path,
    )


def with_covariates(audit, covariates_given, *, texts=None, seed=0):
    """The same audit with covariates ``held``, adjusted for them; ``texts`` is its comparison of texts."""
    adjusted = covariates.adjust(
        audit.scores,
        audit.members,
        covariates_given,
        seed=seed,
        groups=audit.duplicate_groups,
        unexplained=audit.unexplained_scores,
    )
    found = [*([] if texts is None else [describe_texts(texts)]), describe_balance(adjusted)]
    return replace(with_findings(audit, *found), covariates=covariates_given, adjustment=adjusted)


def with_findings(audit, *findings):
    """The same audit with these findings in place of others of the same checks."""
    names = {finding.check for finding in findings}
    others = [finding for finding in audit.about.findings if finding.check not in names]
    return replace(audit, about=replace(audit.about, findings=(*others, *findings)))


def with_no_findings(audit):
    """The same audit as if no check had found anything."""
    return replace(audit, about=replace(audit.about, findings=()))


def with_copies(audit, n_copies):
    """The same audit with so many candidates of which a copy stands in another set."""
    return with_findings(audit, CheckFinding("copies across the sets", "none", "", hidden=n_copies))


def compared(members, length, signs=()):
    """What is known of texts of that ``length``: whether it tells the sets apart."""
    p_value = statistics.rank_sum_p_value(length[~members], length[members])
    differences = (*signs, *(("the median length",) if p_value <= 0.01 / 4 else ()))
    return TextSplit(differences, "none", 0, p_value)


def sizes(m, n):
    """``m`` members, then ``n`` non-members."""
    return np.arange(m + n) < m


def null(rng, shape, m, n, recipes, calibration=99):
    """An audit of a model that leaks nothing; all its recipes' scores are of one kind."""
    draws = SCORE_SHAPES[shape](rng, (recipes, m + n + calibration))
    scores = {f"r{i}": row[: m + n] for i, row in enumerate(draws)}
    calibration_scores = {f"r{i}": row[m + n :] for i, row in enumerate(draws)}
    return scored(scores, sizes(m, n), calibration=calibration_scores, fpr=(0.1,))
