"""Reference models beside the target: settings chosen so that they answer alike, and a report of how well they do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds
from divulge.attacks import Need
from divulge.auditing import signals
from divulge.auditing.language_models import LanguageModel, mean_of_tokens
from divulge.duplicates import number_groups
from divulge.errors import InputError
from divulge.evaluation import agreement
from divulge.references import fitting, matching, splits
from divulge.references.clones import CloneTraining
from divulge.references.matching import MatchGoal
from divulge.report.formatting import format_estimate
from divulge.results import MatchedReferences, ReferenceAgreement, TriedSetting
from divulge.statistics import proportion

if TYPE_CHECKING:
    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.evidence import Measurements, Models
    from divulge.types import Bools, Floats, Records

_HELD_OUT_SHARE, _MIN_HELD_OUT, _MAX_HELD_OUT = 0.2, 20, 1000  # records of the population that are held out
NO_TRAINING = "nothing to train"
"""What a fit of references names as its engine where the pool has all of them."""
_PREFERRED_SIGNALS = ("scaled-logit", "negative-loss")  # of which answers are compared, where a recipe reads them


def choose_held_out(population: Records, seed: int) -> Bools:
    """Choose the population records on which settings are matched; equal records are on one side.

    Raises:
        divulge.InputError: too few records.
    """
    groups = number_groups(population.x, population.y)
    n_groups = int(groups.max()) + 1
    count = min(max(_MIN_HELD_OUT, round(_HELD_OUT_SHARE * n_groups)), _MAX_HELD_OUT)
    if n_groups < 3 * _MIN_HELD_OUT:
        raise InputError(
            f"match: at least {3 * _MIN_HELD_OUT} distinct population records beyond those for calibration are needed, "
            f"got {n_groups}"
        )
    order = seeds.generator(seed, "held out").permutation(n_groups)
    return np.isin(groups, order[:count])


def match_references(audit: PreparedAudit, log: AuditLog) -> PreparedAudit:
    """Return the audit with reference models whose settings are chosen, where they are to be.

    The choice reads the target's answers on held-out records of the population, and models that were trained on others
    of the population: no candidate and no calibration record.

    Raises:
        divulge.InputError: what training raises.
    """
    if audit.held_out is None or getattr(audit.references, "match", None) is None:
        return audit
    held_out = audit.inputs.population[audit.held_out]
    measure = partial(_measure_answers, audit.modality)
    goal = MatchGoal(held_out, measure(audit.target, held_out), measure)
    rows = splits.Splits(signals.training_data(audit, Need.REFERENCES_OUT)[1])
    work = partial(matching.match_settings, audit.references, _request(audit), rows, audit.seed, goal)
    match = log.run_timed("matching of references", work)
    tried = []
    for setting in match.tried:
        rmse, score = agreement.distance_between(goal.target, setting.answers) if setting.answers else (None, None)
        name = _describe_setting(audit.references, setting.changes)
        tried.append(TriedSetting(name, len(setting.answers), rmse, score, setting.failure or None))
    log.matched = MatchedReferences(
        tried[0].setting, len(held_out), audit.modality.matched_answer(audit.target), match.n_models, tuple(tried)
    )
    return replace(audit, references=match.training)


def _measure_answers(modality: Any, target: Any, records: Records) -> Floats:
    return modality.measure_answers(target, records)


def _request(audit: PreparedAudit) -> fitting.TrainingRequest:
    """Return what reference models that saw no candidate are trained on and asked, as they will be afterwards."""
    records, rows = signals.training_data(audit, Need.REFERENCES_OUT)
    recipes = [recipe for recipe in audit.inputs.recipes if Need.REFERENCES_OUT in recipe.needs]
    if isinstance(audit.modality, LanguageModel):
        observe = (audit.views[0],) if recipes else ()
        return fitting.TrainingRequest(records, rows, observe, None, 0, audit.pool, None, None)
    if recipes:
        required_signals = signals.reference_signals(audit, recipes)
        observe = tuple(audit.views[place] for place in signals.observed_views(audit, recipes))
        options = dict(audit.modality.reference_options(audit, required_signals))
    else:
        observe, options = (), dict(audit.modality.reference_options(audit, []))
    return fitting.TrainingRequest(
        records,
        rows,
        observe,
        options.get("signal"),
        options.get("classes"),
        audit.pool,
        None,
        None,
        options.get("inside"),
        options.get("measure"),
    )


def _describe_setting(references: Any, changes: Mapping[str, Any]) -> str:
    """Describe a setting by what it changes; of trainings in epochs always by rate and epochs."""
    config = getattr(references, "config", references)
    epoch_settings: dict[str, Any] = {}
    if hasattr(config, "learning_rate") and hasattr(config, "epochs"):
        epoch_settings = {"lr": config.learning_rate, "epochs": config.epochs}
    values = epoch_settings | {name: _describe_value(references, name, value) for name, value in changes.items()}
    if values.get("stop_after") == "None":  # the training as a whole, as where nothing is said of its end
        del values["stop_after"]
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "as given"


def _describe_value(references: Any, name: str, value: Any) -> str:
    """Describe a value of a setting; where others of its grid print alike, with its place among them."""
    text = _format_setting_value(value)
    match = getattr(references, "match", None)
    grid = match if isinstance(match, Mapping) else {}
    alike = [each for each in grid.get(name, ()) if _format_setting_value(each) == text]
    place = next((place for place, each in enumerate(alike, start=1) if each is value), None)
    return text if len(alike) < 2 or place is None else f"{text} ({place} of {len(alike)})"


def _format_setting_value(value: Any) -> str:
    """Format a value in one line, without the addresses of objects, which differ between runs."""
    if (name := getattr(value, "__qualname__", None)) is not None:
        return name.rpartition("<locals>.")[2]
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(value).split()))


def describe_engines(log: AuditLog) -> str:
    """Describe what trained the reference models, trial models of a search for settings included.

    Trial models of the chosen setting are references afterwards, for which nothing may be left to train.
    """
    engines = list(dict.fromkeys(log.engines))
    if log.matched is None:
        return "; ".join(engines)
    trials = f"{log.matched.models:,} trial models of the matching: serial, on one thread"
    return "; ".join([trials, *("all others from the pool" if each == NO_TRAINING else each for each in engines)])


def report_agreement(audit: PreparedAudit, measured: Measurements, log: AuditLog) -> None:
    """Report how well each kind of reference models answers like the target, and warn where they do not.

    Calibration records tell: neither the target nor these models were trained on them, and nothing was chosen by them.
    Where it cannot be computed, the reason is reported.
    """
    for need in (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT):
        if need not in measured.models:
            continue
        try:
            agreement_report = _compare_answers(audit, measured, measured.models[need], need)
        except InputError as error:
            message = f"{need}: how well the reference models answer like the target cannot be said: {error}"
            log.uncompared.append(message)
            log.warnings.append(message)
            continue
        log.agreement.append(agreement_report)
        if agreement_report.differs:
            log.warnings.append(agreement_report.text)
    if Need.REFERENCES_SUBSTITUTES in measured.models:
        log.uncompared.append(_describe_substitutes(audit, measured, measured.models[Need.REFERENCES_SUBSTITUTES]))


def _describe_substitutes(audit: PreparedAudit, measured: Measurements, models: Models) -> str:
    """Describe how often substitutes tell right what the target tells right, and why no more can be said.

    Of the target its label alone is known, and of the substitutes the log-probability of the true one.
    """
    reason = (
        "whether another training like the target's would be nearer cannot be said: it is asked for labels alone, and "
        "the substitutes learned its labels of the auditor's records"
    )
    rows = audit.layout.calibration_rows
    if "label-loss" not in models.signals or "label-loss" not in measured.target or rows.stop == rows.start:
        return f"{Need.REFERENCES_SUBSTITUTES}: {reason}"
    is_right = np.asarray(measured.target["label-loss"][rows]) == 0.0
    likely = np.exp(np.asarray(models.signals["label-loss"][:, rows], dtype=np.float64)).mean(axis=0) > 0.5
    shares = [
        f"of the {chosen.sum():,} that the target labels {manner}, in "
        f"{format_estimate(proportion(int(likely[chosen].sum()), int(chosen.sum())))} of them"
        for chosen, manner in ((is_right, "rightly"), (~is_right, "wrongly"))
        if chosen.any()
    ]
    return (
        f"{Need.REFERENCES_SUBSTITUTES}: on {len(is_right):,} calibration records, which neither they nor the target "
        f"were trained on, they find the true label likelier than not: {'; '.join(shares)}; {reason}"
    )


def _compare_answers(audit: PreparedAudit, measured: Measurements, models: Models, need: Need) -> ReferenceAgreement:
    """Compare answers to the calibration records.

    Raises:
        divulge.InputError: they cannot be compared, with the reason.
    """
    rows = audit.layout.calibration_rows
    is_out = ~models.trained_on[:, rows]
    if rows.stop - rows.start < 2:
        raise InputError(f"at least 2 calibration records are needed, got {rows.stop - rows.start}")
    if not is_out.any(axis=1).all():
        raise InputError("a reference model was trained on every calibration record; more of them are needed")
    base = None
    if measured.tokens is not None and models.tokens is not None:
        offsets = measured.tokens.offsets
        target = mean_of_tokens(measured.tokens.target, offsets)[rows]
        references = np.stack([mean_of_tokens(row, offsets)[rows] for row in models.tokens])
        base_models = measured.models.get(Need.REFERENCES_BASE)
        if base_models is not None and base_models.tokens is not None:
            base = mean_of_tokens(base_models.tokens[0], offsets)[rows]
        measure = "log-likelihood per token" if base is None else "drift of the log-likelihood per token from the base"
        distance = "log-likelihoods per token"
        compared_answers = (target, references) if base is None else (target - base, references - base)
    else:
        name = next((name for name in _PREFERRED_SIGNALS if name in models.signals), next(iter(models.signals), None))
        if name is None or name not in measured.target:
            raise InputError("the recipes read no signal of both")
        # In 32 bits the sum of large answers overflows.
        target = np.asarray(measured.target[name][rows], dtype=np.float64)
        references = np.asarray(models.signals[name][:, rows], dtype=np.float64)
        plural = f"{name}es" if name.endswith("s") else f"{name}s"
        measure, distance, compared_answers = name, plural, (target, references)
        if name in _PREFERRED_SIGNALS:
            losses = [-s if name == "negative-loss" else np.logaddexp(0.0, -s) for s in (target, references)]
            measure, compared_answers = "loss", (losses[0], losses[1])
    compared = agreement.compare_answers(
        target, references, is_out, overlap=agreement.mean_overlap(models.trained_on), losses=compared_answers
    )
    counts = np.maximum(is_out.sum(axis=0), 1)
    mean_shown = (compared_answers[1] * is_out).sum(axis=0) / counts
    target_mean = agreement.mean_estimate(compared_answers[0])
    reference_mean = agreement.mean_estimate(mean_shown[is_out.any(axis=0)])
    report = ReferenceAgreement(
        references=need.removeprefix("references "),
        records=compared.records,
        models=compared.models,
        measure=measure,
        target=target_mean,
        mean=reference_mean,
        distance=distance,
        rmse=compared.rmse,
        spread=compared.spread,
        differs=compared.differs,
        text="",
    )
    advice = 'give its settings, or match="auto"'
    if audit.held_out is not None:
        advice = "of the settings that were tried none comes nearer"
    elif isinstance(audit.references, CloneTraining) and audit.references.has_target_settings:
        advice = "they have its own settings: let each learn from as many records as it did"
    n_learned, n_members = int(np.median(models.trained_on.sum(axis=1))), int(audit.inputs.truth.sum())
    numbers = f"about {n_learned:,} each, beside the {n_members:,} members given"
    return replace(report, text=_describe_agreement(report, numbers, advice))


def _describe_agreement(report: ReferenceAgreement, numbers: str, advice: str) -> str:
    """Describe how well references match, what that means for the results, and what can be done.

    Args:
        report: all but the text.
        numbers: of records that they learned from, in words.
        advice: what can be done where they differ.
    """
    text = (
        f"Reference models ({report.references}) beside the target, on {report.records:,} calibration records that "
        f"neither was trained on: held-out {report.measure} {format_estimate(report.mean)} against the target's "
        f"{format_estimate(report.target)}; RMSE of their {report.distance} {format_estimate(report.rmse)}"
    )
    if report.spread is None:
        return f"{text}. One reference model does not show how far two trainings differ by chance."
    text += f", where one training differs from the mean of its kind by {format_estimate(report.spread)}"
    if not report.differs:
        return f"{text}: no more than trainings alike differ, as far as {report.models} reference models show."
    return (
        f"{text}: they were trained otherwise than the target, or on other numbers of records ({numbers}), and attacks "
        f"that compare with them tend to understate a leak; {advice}."
    )
