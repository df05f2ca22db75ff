"""Agreement of reference models with the target: attacks that compare with others tend to understate a leak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import Need
from divulge.auditing.checks.check import Check
from divulge.auditing.language_modality import mean_of_tokens
from divulge.errors import InputError
from divulge.evaluation import agreement
from divulge.references.clones import CloneTraining
from divulge.report.formatting import as_sentence, format_estimate
from divulge.report.sections import REFERENCES_TITLE
from divulge.results import CheckFinding, ReferenceAgreement, ReferenceComparison
from divulge.statistics import proportion

if TYPE_CHECKING:
    from divulge.auditing.checks.check import ScoredAudit
    from divulge.auditing.prepared import PreparedAudit
    from divulge.evidence import Measurements, Models

_PREFERRED_SIGNALS = ("scaled-logit", "negative-loss")  # of which answers are compared, where a recipe reads them


class ReferenceAnswers(Check):
    """Compare the answers of each kind of reference models with the target's.

    Calibration records tell: neither the target nor these models were trained on them, and nothing was chosen by them.
    """

    name = "agreement of references"

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return how well they match, and warn where they do not; where that cannot be computed, the reason."""
        compared = self.compare(audit)
        paragraphs = [*(report.text for report in compared.agreement), *map(as_sentence, compared.uncompared)]
        if not paragraphs:
            return None
        first, *others = paragraphs
        return CheckFinding(self.name, "none", first, tuple(others), section=REFERENCES_TITLE, measured=compared)

    def compare(self, audit: ScoredAudit) -> ReferenceComparison:
        """Compare the answers of each kind, and warn."""
        measured, warnings = audit.measurements[0], audit.log.warnings
        reports, uncompared = list[ReferenceAgreement](), list[str]()
        for need in (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT):
            if need not in measured.models:
                continue
            try:
                report = _compare_answers(audit.prepared, measured, measured.models[need], need)
            except InputError as error:
                message = f"{need}: how well the reference models answer like the target cannot be said: {error}"
                uncompared.append(message)
                warnings.append(message)
                continue
            reports.append(report)
            if report.differs:
                warnings.append(report.text)
        if Need.REFERENCES_SUBSTITUTES in measured.models:
            substitutes = measured.models[Need.REFERENCES_SUBSTITUTES]
            uncompared.append(_describe_substitutes(audit.prepared, measured, substitutes))
        return ReferenceComparison(tuple(reports), tuple(uncompared))


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
        return f"{text}: {report.models} reference models do not show that they were trained otherwise."
    return (
        f"{text}: they were trained otherwise than the target, or on other numbers of records ({numbers}), and attacks "
        f"that compare with them tend to understate a leak; {advice}."
    )
