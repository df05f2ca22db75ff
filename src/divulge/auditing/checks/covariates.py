"""Covariates: whether members and non-members that are alike in them can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from divulge import tables
from divulge.auditing.checks.check import REDRAW_ADVICE, Check, advise_redraw, confounded_details
from divulge.evaluation import covariates
from divulge.evaluation.covariates import FALSE_ALARM, Adjustment, Covariates
from divulge.report import formatting
from divulge.report.sections import FAIRNESS_TITLE
from divulge.results import CheckFinding
from divulge.validation import check_vector

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from divulge.auditing.checks.check import ScoredAudit
    from divulge.auditing.prepared import PreparedAudit

_NAME = "balance of covariates"
_READABLE_NAMES = {"length": "document length", "year": "years named", "topic": "topic"}


class CovariateBalance(Check):
    """Say whether the sets can be balanced in the covariates, and whether these still tell them apart then."""

    name = _NAME

    def measure(self, audit: ScoredAudit) -> CheckFinding | None:
        """Return what the adjustment of the scores showed; None without covariates."""
        return None if audit.adjustment is None else describe_balance(audit.adjustment)


def describe_balance(adjustment: Adjustment) -> CheckFinding:
    """Return the finding: sets that cannot be balanced make every number void."""
    conclusion = "no difference found among those that took part"
    if adjustment.p_value <= FALSE_ALARM:
        conclusion = "they can, also among those that took part: the split is confounded"
    if not adjustment.overlap:
        conclusion = "hardly any are alike: the split is confounded"
    paragraph = (
        f"Covariates: can members be told from non-members by {describe_covariates(adjustment)}? "
        f"p = {adjustment.p_before:.2g} of all candidates, p = {adjustment.p_value:.2g} of the "
        f"{int(adjustment.is_included.sum()):,} that took part: {conclusion}."
    )
    if not adjustment.confounded:
        return CheckFinding(_NAME, "none", paragraph, section=FAIRNESS_TITLE)
    return CheckFinding(
        _NAME,
        "not comparable",
        describe_confounding(adjustment),
        confounded_details(),
        section=FAIRNESS_TITLE,
        paragraphs=(paragraph,),
    )


def describe_confounding(adjustment: Adjustment) -> str:
    """Explain why members and non-members cannot be compared, and what to do next."""
    advice = advise_redraw(adjustment.adjusted_for) or REDRAW_ADVICE
    if not adjustment.overlap:
        return (
            f"The split is confounded: hardly any members and non-members are alike in "
            f"{describe_covariates(adjustment)}, so none can be compared. {advice}."
        )
    return (
        f"The split is confounded: by {describe_covariates(adjustment)} members can be told from non-members without "
        f"the model, also where the sets were balanced in this respect (p = {adjustment.p_value:.2g}). {advice}."
    )


def describe_covariates(adjustment: Adjustment) -> str:
    """List the covariates that were adjusted for, under readable names."""
    return formatting.join_words([_READABLE_NAMES.get(name, name) for name in adjustment.adjusted_for])


def describe_adjustment(adjustment: Adjustment) -> str:
    """Describe what was adjusted for and how many records took part."""
    n_kept, total = int(adjustment.is_included.sum()), len(adjustment.is_included)
    corrected = [name for name, share in adjustment.explained.items() if share > 0]
    scores = "no score depends on it enough to be corrected for it"
    if corrected:
        scores = f"scores of {formatting.join_words(corrected)} are relative to what it leads one to expect"
    return (
        f"Adjusted for {describe_covariates(adjustment)}: members are compared with non-members that are alike in this "
        f"respect, {n_kept:,} of {total:,} records took part, and {scores}."
    )


def describe_contrary_evidence(adjustment: Adjustment, recipes: Sequence[str]) -> str:
    """Say that recipes tell members from non-members without adjustment, and not when adjusted."""
    return (
        f"by {formatting.join_words(list(dict.fromkeys(recipes)))} members can be told from non-members without "
        f"adjustment, and not when adjusted for {describe_covariates(adjustment)}, so that it cannot be said "
        f"whether the model or a difference between the sets is behind it. {REDRAW_ADVICE}"
    )


def collect_covariates(audit: PreparedAudit) -> Covariates | None:
    """Collect the candidates' covariates: those measured on texts and those the user named; None if none."""
    inputs, parts = audit.inputs, []
    if inputs.candidates.x.dtype == object:
        parts.append(covariates.text_covariates(list(inputs.candidates.x), seed=audit.seed))
    if inputs.covariates is not None:
        parts.append(covariates.column_covariates(inputs.covariates))
    return covariates.join_covariates(parts) if any(part.names for part in parts) else None


def read_covariates(frame: pl.DataFrame, count: int, path: Path) -> Covariates:
    """Convert a stored table of covariates back to `Covariates`.

    Raises:
        divulge.InputError: another number of rows than candidates, values that are no numbers.
    """
    columns = [check_vector(tables.to_array(frame[name]), f"{path}: {name}", length=count) for name in frame.columns]
    return Covariates(tuple(frame.columns), np.column_stack(columns))


def covariates_to_frame(table: Covariates) -> pl.DataFrame:
    """Convert covariates to a table for the run directory; it contains no text."""
    return tables.from_arrays(dict(zip(table.names, table.values.T, strict=True)))
