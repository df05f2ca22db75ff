"""Public functions with one argument replaced by a value that nobody should hand in."""

from __future__ import annotations

import random
import zlib

import numpy as np

from fuzz import judge, labelling, models, numbers, surface, values

CALLS = numbers.CALLS | labelling.CALLS | models.CALLS

# What users are handed and never make, and helpers that take what was checked.
RECEIVED = {
    "Estimate",
    "Guarantee",
    "Selection",
    "attacks.Need",
    "attacks.Scored",
    "attacks.regressors.FittedBoosted",
    "attacks.regressors.FittedClasses",
    "canaries.Canaries",
    "canaries.CanaryAudit",
    "canaries.LabelPrivacy",
    "canaries.Proof",
    "completion.FittedImputer",
    "decisions.pooled_scores.BlindAdjustment",
    "decisions.controls.Control",
    "decisions.fdp.Bands",
    "decisions.fdp.Choices",
    "decisions.fdp.Envelope",
    "decisions.fdr.ScoreCounts",
    "decisions.fdr.Rule",
    "decisions.fpr.ConformalThreshold",
    "decisions.unseen_classes.ClassThreshold",
    "decisions.unseen_classes.LeftOutClasses",
    "decisions.fdr.GroupSelection",
    "decisions.planning.CalibrationPlan",
    "evaluation.CanaryPower",
    "evaluation.AttackDifference",
    "evaluation.ErasureTest",
    "evaluation.BaselineComparison",
    "evaluation.NearDuplicates",
    "evaluation.Detectable",
    "evaluation.Exposure",
    "evaluation.rank_exposed",
    "evaluation.ROC",
    "evaluation.Rates",
    "evaluation.SurestRecords",
    "evaluation.Subgroup",
    "evaluation.blind.Blind",
    "evaluation.blind.Duplicates",
    "evaluation.families.Errors",
    "evaluation.families.PrivacyLoss",
    "evaluation.transfer.Linearity",
    "evaluation.transfer.Violation",
    "evaluation.transfer.TransferAssessment",
    "extraction.Completions",
    "targets.Averaged",
    "extraction.Extraction",
    "extraction.MeasuredDocuments",
    "extraction.RateComparison",
    "labels.Capacity",
    "labels.Certificate",
    "labels.Contradiction",
    "labels.Defence",
    "labels.LabelInference",
    "labels.MenuItem",
    "labels.QueryPlan",
    "labels.Simulation",
    "margin.Assumption",
    "margin.read_margin",
    "margin.read_network",
    "margin.ClassNetwork",
    "margin.CohortMatch",
    "margin.Fit",
    "margin.MarginDecision",
    "margin.OddRecord",
    "margin.Optimum",
    "margin.Orthogonality",
    "margin.Stationarity",
    "margin.SubsetFit",
    "margin.Training",
    "reconstruction.Reconstruction",
    "reconstruction.Stretch",
    "references.RecordSource",
    "references.Trained",
    "unlearning.Erasure",
}

# Steps of our own loops, which take what was checked before.
CHECKED = {
    "attacks.auto.convert_unit",
    "signals.regression.negative_squared_loss",
    "targets.adapt_output_model",
    "targets.as_regressor",
    "targets.declared_modality",
    "targets.is_regression_model",
    "targets.is_label_only",
    "targets.is_language_model",
    "attacks.auto.game_merit",
    "attacks.auto.play_games",
    "attacks.regressors.crossfit",
    "attacks.rmia.majority_share",
    "attacks.regressors.fit",
    "attacks.regressors.predict",
    "attacks.rmia.dominated_share",
    "attacks.rmia.break_ties",
    "decisions.fdr.decide",
    "signals.internals.count_passes",
    "signals.internals.describe_reads",
    "signals.internals.require_white_box",
    "signals.tokens.get_signal",
    "decisions.fdp.probability_below",
    "decisions.fdp.simultaneous_bands",
    "decisions.fdr.require_distinct_scores",
    "decisions.fdr.require_enough_calibration",
    "decisions.fdr.step_up",
    "decisions.fdr.is_calibration_too_small",
    "decisions.fdr.selection_warnings",
    "evaluation.blind.adjust_scores",
    "evaluation.blind.baseline_with_features",
    "evaluation.blind.estimate_memory",
    "evaluation.blind.differences",
    "evaluation.blind.measure_label_errors",
    "evaluation.families.largest",
    "targets.FramedTarget",
    "evaluation.families.resolve_family",
    "evaluation.transfer.orthonormal_basis",
    "evaluation.transfer.check_embeddings",
    "evaluation.transfer.fit_mixture",
    "evaluation.transfer.multiaccuracy_violation",
}

# They open the file or run that they are given; the formats have cases of their own.
FILES = {
    "compare",
    "load",
    "labels.Journal",
    "labels.read_scores",
    "labels.write_submissions",
    "targets.CausalLM",
    "targets.OnnxTarget",
    "targets.VisionLanguage",
    "targets.load",
}


def uncovered():
    """Public names without a valid call."""
    return sorted(set(surface.public()) - set(CALLS) - RECEIVED - CHECKED - FILES)


def cases(name):
    """All cases of one function: what is replaced, a word for the value, and the value's maker."""
    for parameter, valid in CALLS[name].arguments.items():
        for word, make in values.ANYTHING.items():
            if parameter in CALLS[name].long and word in values.VAST:
                continue  # work without end is what was asked for
            yield parameter, word, make, "anything"
        if isinstance(valid, np.ndarray):
            for table_name in ("DAMAGED", "BENT", "SAME"):
                for word, change in getattr(values, table_name).items():
                    yield parameter, word, _changed(change, valid), table_name.lower()


def _changed(change, valid):
    return lambda: change(valid.copy())


def run(tally, name, share=1.0, seed=0):
    """Run a share of the cases of one function, drawn by the seed."""
    call, function = CALLS[name], surface.public()[name]
    right = call.use(function(**call.fresh()))
    undefined = judge.undefined(right)
    rng = random.Random(zlib.crc32(f"{seed} {name}".encode()))
    for parameter, word, make, change in cases(name):
        if share < 1 and rng.random() >= share:
            continue
        try:
            value = make()
        except Exception:
            continue  # this form does not exist for such an array
        arguments = call.fresh() | {parameter: value}
        before = {key: part.copy() for key, part in arguments.items() if type(part) is np.ndarray}
        outcome = judge.outcome(
            lambda arguments=arguments: call.use(function(**arguments)),
            *(() if parameter in call.free else _names(name, parameter)),
            right=lambda found, p=parameter, w=word, k=change: _wrong(call, right, found, p, w, k, undefined),
        )
        if changed := [key for key, was in before.items() if not judge.same(was, arguments[key])]:
            outcome = f"the caller's {', '.join(changed)} changed"
        tally.add(f"{name}({parameter} = {word})", outcome)


def _names(name, parameter):
    """What a message about an argument may call it; it may also name one that does not fit it any more."""
    return (parameter, *CALLS[name].arguments, *CALLS[name].says)


def _wrong(call, right, answer, parameter, word, change, undefined):
    if change == "same" and not judge.same(right, answer, call.tolerance):
        return "another answer than to the same array"
    if parameter in call.free:
        return None
    if change == "damaged" or (change == "anything" and word in values.NEVER):
        return "an answer, where there is none"
    if judge.undefined(answer) > undefined:
        return "an answer that is not a number"
    return None


def report(share, seed):
    """A tally a function."""
    tallies = []
    for name in CALLS:
        tally = judge.Tally(name)
        run(tally, name, share, seed)
        tallies.append(tally)
    return tallies
