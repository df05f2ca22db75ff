"""Scores and membership labels of a finished audit. All statistics are derived on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import evaluation, statistics
from divulge.decisions import controls, unseen_classes
from divulge.decisions import fpr as by_fpr
from divulge.decisions.counts import p_values
from divulge.decisions.fdr import ScoreCounts
from divulge.decisions.methods import BH, PTDI, Adaptive, Auto, Storey, resolve_method
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.identification.decision import Policy, decide
from divulge.report import formatting
from divulge.results import LeftOutClasses
from divulge.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from divulge.decisions.methods import Method
    from divulge.decisions.unseen_classes import Promise
    from divulge.evaluation import ROC
    from divulge.evaluation.covariates import Adjustment, Covariates
    from divulge.results import CheckFinding, HeatStrip, RunMetadata
    from divulge.types import Array, Bools, Estimate, Floats, Ints, Selection

CONFIDENCE = 0.95
"""Probability that all intervals of a verdict hold."""
# How often the control of a sound decision voids its guarantee.
CONTROL_FALSE_ALARM = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Scores of one recipe with the membership labels.

    Args:
        recipe: name of the recipe.
        scores: ``[n]``, larger = more like a member.
        members: bool ``[n]``, the truth.
        labels: class of each candidate ``[n]``, or None.
        calibration: scores of calibration records, known non-members that nothing was trained on, ``[k]``.
        calibration_labels: their classes, or None.
        unseen_classes: classes the auditor holds no records of.
        class_names: of the classes, by their numbers; None where they have no names.
        unexplained: scores less what the records alone explain, ``[n]``, or None.
        is_counted: True for the first of equal records on each side, ``[n]``; None where each record counts.
        confidence: of each interval. That of an audit is such that the intervals of all its recipes hold together.
        findings: of the audit's checks; decisions repeat what keeps the model from being cleared.
    """

    recipe: str
    scores: Floats
    members: Bools
    labels: Ints | None
    calibration: Floats
    calibration_labels: Ints | None = None
    unseen_classes: tuple[int, ...] = ()
    class_names: tuple[str, ...] | None = None
    unexplained: Floats | None = None
    is_counted: Bools | None = None
    confidence: float = CONFIDENCE
    findings: tuple[CheckFinding, ...] = ()

    @property
    def distinct(self) -> Outcome:
        """The outcome with one record per group of equal records on a side, as copies are not independent."""
        return self if self.is_counted is None else replace(self.on(self.is_counted), is_counted=None)

    @property
    def auc(self) -> Estimate:
        """Area under the ROC curve, with DeLong's interval."""
        outcome = self.distinct
        return evaluation.auc(outcome.scores, outcome.members, self.confidence)

    @property
    def advantage(self) -> Estimate:
        """Largest TPR - FPR over all thresholds."""
        outcome = self.distinct
        return evaluation.advantage(outcome.scores, outcome.members, self.confidence)

    @property
    def roc(self) -> ROC:
        """The ROC curve with pointwise bands."""
        outcome = self.distinct
        return evaluation.roc(outcome.scores, outcome.members)

    def tpr_at_fpr(self, fpr: float) -> Estimate:
        """Share of members found where at most ``fpr`` of the non-members are taken for members.

        Raises:
            divulge.InputError: fewer non-members than the level needs.
        """
        outcome = self.distinct
        return evaluation.tpr_at_fpr(outcome.scores, outcome.members, fpr, self.confidence)

    def epsilon(self, delta: float = 0.0) -> Estimate:
        """Empirical lower bound on ε at ``delta``."""
        outcome = self.distinct
        return evaluation.epsilon_lower_bound(outcome.scores, outcome.members, delta=delta, confidence=self.confidence)

    def selection(
        self,
        *,
        fpr: float | None = None,
        fdr: float | None = None,
        method: Method | str = "auto",
        promise: Promise = "average",
    ) -> Selection:
        """Select candidates as members, with a guarantee. Give ``fpr`` or ``fdr``, not both.

        Candidates of unseen classes have a threshold of their own at ``fpr``, calibrated with whole classes, where the
        recipe learnt from none; otherwise, and always at ``fdr``, the guarantee is void.

        Args:
            fpr: bound on the share of non-members called members.
            fdr: bound on the expected share of non-members among those called members.
            method: for ``fdr``: of `divulge.decisions.methods`, or "auto", "bh", "ptdi", "storey", "adaptive".
            promise: for ``fpr``, on unseen classes: on "average" over classes like these, or in 90 % of them ("most");
                see `divulge.decisions.unseen_classes`.

        Raises:
            divulge.InputError: neither or both given, too few calibration records for the level.
        """
        if fpr is not None and fdr is None:
            return self._select_at_fpr(fpr, promise)
        if fdr is not None and fpr is None:
            # By scores alone: whoever decides does not know who is a member, and neither does "auto" when it chooses.
            policy = Policy(fdr, resolve_method(method, (Auto, BH, PTDI, Storey, Adaptive)))
            score_counts = ScoreCounts.from_scores(self.distinct.scores, self.calibration)
            low_scores = controls.low_scores_from_counts(score_counts.counts)
            decision = decide(score_counts.counts, [low_scores], policy, scored_together=True, requires_holdout=False)
            if self.is_counted is not None:  # Equal records count once, and all of them are selected or none.
                p = p_values(self.scores, score_counts.counts.calibration)
                score_counts = replace(score_counts, scores=self.scores, p_values=p)
            is_selected = score_counts.scores > decision.rule.threshold
            selection = score_counts.make_selection(is_selected, fdr=fdr, warnings=decision.notes)
            return self._qualify(selection, self._exchangeability_flaw())
        raise InputError(f"selection: give fpr or fdr, exactly one of them; got fpr={fpr}, fdr={fdr}")

    def selections(self, levels: Sequence[float]) -> dict[float, Selection | None]:
        """Return `selection` at several false-positive rates; None where there are too few calibration records."""
        selections = dict[float, "Selection | None"]()
        for level in levels:
            try:
                selections[level] = self._select_at_fpr(level, "average")
            except InputError:
                selections[level] = None
        return selections

    def _select_at_fpr(self, fpr: float, promise: Promise) -> Selection:
        """Select at a false-positive rate; candidates of uncalibrated classes by the promise about such classes."""
        selection = by_fpr.decide(self.calibration, self.scores, fpr)
        strange, description = self._uncalibrated_candidates()
        if not strange.any():
            return self._qualify(selection, self._exchangeability_flaw())
        check_choice(promise, "promise", unseen_classes.PROMISES)
        if not self._has_class_scores():
            reason = f"what {self.recipe} learnt of other classes it did not learn of these"
            return self._qualify(selection, self._used_population() or f"{description}; {reason}")
        assert self.calibration_labels is not None
        try:
            of_unseen = unseen_classes.decide(
                self.calibration, self.calibration_labels, self.scores[strange], fpr, promise=promise
            )
        except InputError as error:
            return self._qualify(selection, self._used_population() or f"{description}; {error}")
        selected, p = selection.selected.copy(), selection.p_values.copy()
        selected[strange], p[strange] = of_unseen.selected, of_unseen.p_values
        guarantee = of_unseen.guarantee
        if not strange.all():
            kind = f"{selection.guarantee.kind}, on unseen classes {guarantee.kind}"
            guarantee = replace(guarantee, kind=kind, assumes=(*selection.guarantee.assumes, *guarantee.assumes))
        threshold = float(self.scores[selected].min()) if selected.any() else np.inf
        selection = replace(
            selection,
            selected=selected,
            p_values=p,
            threshold=threshold,
            guarantee=guarantee,
            warnings=() if strange.all() else selection.warnings,
        )
        flaw = self._used_population() or self._describe_overrun(selected, strange, fpr)
        if not flaw and not strange.all():
            flaw = self.on(~strange)._describe_score_shift()
        return self._qualify(selection, flaw)

    def _has_class_scores(self) -> bool:
        """Whether scores are of the target alone, so that classes with records can stand for one without."""
        measured = [each.measured for each in self.findings if isinstance(each.measured, LeftOutClasses)]
        return self.calibration_labels is not None and any(self.recipe in each.recipes for each in measured)

    def _describe_overrun(self, selected: Bools, strange: Bools, fpr: float) -> str:
        """Describe how far true non-members of unseen classes exceed the level; empty if they surely do not.

        One class may, and the promise be kept; but nothing is claimed of candidates of which it is known to fail.
        """
        counted = strange & ~self.members & (True if self.is_counted is None else self.is_counted)
        n_called, n = int(selected[counted].sum()), int(counted.sum())
        if not n or evaluation.proportion(n_called, n, 1 - 2 * CONTROL_FALSE_ALARM).low <= fpr:
            return ""
        return f"of {n:,} true non-members of classes without calibration records {n_called:,} are called members"

    def _used_population(self) -> str:
        """Say that the target was probably trained on the population; empty if nothing says so."""
        return next((each.sentence.rstrip(".") for each in self.findings if each.trained_on == "population"), "")

    def _exchangeability_flaw(self) -> str:
        """Explain why calibration records and non-members are not exchangeable; empty if they seem to be."""
        return self._used_population() or self._uncalibrated_candidates()[1] or self._describe_score_shift()

    def _qualify(self, selection: Selection, flaw: str) -> Selection:
        """Void the guarantee of a decision whose assumptions do not hold, and repeat what the audit's checks found."""
        found = [each.sentence.rstrip(".") for each in self.findings if each.is_obstacle]
        if flaw:
            found = [f"the guarantee is void: {flaw}", *(each for each in found if each != flaw)]
            selection = replace(selection, guarantee=selection.guarantee.capped_at("void"))
        return replace(selection, warnings=(*found, *selection.warnings))

    def _uncalibrated_candidates(self) -> tuple[Bools, str]:
        """Return a mask of the candidates of classes without calibration records, and their description; empty if none.

        Nothing has been measured here: it is known that the non-members among them are not exchangeable with
        a calibration that has none of their kind.
        """
        nobody = np.zeros(len(self.scores), dtype=bool)
        if self.labels is None:
            return nobody, ""
        classes = np.unique(self.labels[np.isin(self.labels, self.unseen_classes)]).tolist()
        named_classes = formatting.format_unseen_classes(classes, self.class_names) if classes else ""
        distinct = self.distinct
        if distinct.labels is not None and self.calibration_labels is not None:  # lacking other than by chance
            outside = distinct.labels[~distinct.members]
            missing = statistics.find_missing_classes(outside, self.calibration_labels)
            if len(others := np.setdiff1d(missing, classes)):
                named_classes = " and ".join(
                    filter(None, [named_classes, formatting.format_classes(others.tolist(), self.class_names)])
                )
                classes = [*classes, *others.tolist()]
        if not classes:
            return nobody, ""
        strange = np.isin(self.labels, classes)
        return strange, (
            f"{int(strange.sum()):,} of {len(strange):,} candidates are of the {named_classes}, of which there are no "
            "calibration records"
        )

    def _describe_score_shift(self) -> str:
        """Describe how scores of non-members differ from those of the calibration; empty if they do not.

        Both are known non-members, so a difference is no matter of what members are like: the assumption fails.
        """
        distinct = self.distinct
        outside = distinct.scores[~distinct.members]
        if not len(outside):
            return ""
        control = controls.exchangeability(self.calibration, outside, level=CONTROL_FALSE_ALARM)
        return "" if control.passed else f"calibration and true non-members are not exchangeable ({control})"

    def realised_fpr(self, fpr: float) -> Estimate:
        """Share of non-members called members at nominal ``fpr``."""
        outcome = self.distinct
        return realised_fpr(outcome.scores[~outcome.members], self.calibration, fpr).rate

    def on(self, rows: Bools | Ints) -> Outcome:
        """Return the outcome of the candidates in ``rows`` (a mask or positions); the calibration records stay."""
        labels = None if self.labels is None else self.labels[rows]
        row_values = {
            name: None if values is None else values[rows]
            for name, values in (("unexplained", self.unexplained), ("is_counted", self.is_counted))
        }
        return replace(self, scores=self.scores[rows], members=self.members[rows], labels=labels, **row_values)

    @property
    def unseen(self) -> Outcome:
        """The outcome on the unseen classes alone.

        Raises:
            divulge.InputError: no class was declared unseen.
        """
        if not self.unseen_classes or self.labels is None:
            raise InputError("unseen: the audit declared no unseen classes")
        return self.on(np.isin(self.labels, self.unseen_classes))

    def __repr__(self) -> str:
        return f"Outcome({self.recipe!r}, members={int(self.members.sum())}, nonmembers={int((~self.members).sum())})"


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Scores and metadata of a finished audit; indexing by a recipe's name gives its `Outcome`.

    Args:
        scores: recipe name → ``[n]``.
        calibration: recipe name → ``[k]``, scores of calibration records.
        ids: identifier of each candidate.
        members: bool ``[n]``, the truth.
        labels: ``[n]``, or None.
        calibration_labels: ``[k]``, or None.
        unseen_classes: classes the auditor holds no records of.
        fpr: the levels reported.
        signals: signal name → ``[n]``, under the target.
        about: everything else that was recorded (recipes, queries, environment, checks, timings, …).
        exhibits: the candidates' own values where the report shows them: row → array or text.
        heat: row → the values of a text's tokens.
        groups: subgroup names a candidate, or None.
        covariates: of each candidate, beside membership; None without any.
        adjustment: the comparison of candidates that are alike in these; None where there is nothing to adjust for.
        path: the run directory, or None.
        class_names: of the classes, by their numbers; None where they have no names.
        unexplained_scores: recipe name → scores less what the records alone explain, ``[n]``; empty where that is not
            known.
        duplicate_groups: number of the distinct record that each candidate is, ``[n]``, where equal records count once;
            None where each counts.
    """

    scores: Mapping[str, Floats]
    calibration: Mapping[str, Floats]
    ids: Array
    members: Bools
    labels: Ints | None
    calibration_labels: Ints | None
    unseen_classes: tuple[int, ...]
    fpr: tuple[float, ...]
    signals: Mapping[str, Floats]
    about: RunMetadata
    exhibits: Mapping[int, Array | str] = field(default_factory=dict)
    heat: Mapping[int, HeatStrip] = field(default_factory=dict)
    groups: Array | None = None
    covariates: Covariates | None = None
    adjustment: Adjustment | None = None
    path: Path | None = None
    class_names: tuple[str, ...] | None = None
    unexplained_scores: Mapping[str, Floats] = field(default_factory=dict)
    duplicate_groups: Ints | None = None

    def __getitem__(self, recipe: str) -> Outcome:
        """Return the outcome of the recipe of that name."""
        return self.outcome(recipe)

    def outcome(self, recipe: str) -> Outcome:
        """Return the outcome of a recipe with intervals that hold one by one."""
        name = check_choice(recipe, "recipe", self.scores)
        return Outcome(
            name,
            self.scores[name],
            self.members,
            self.labels,
            self.calibration[name],
            self.calibration_labels,
            self.unseen_classes,
            self.class_names,
            self.unexplained_scores.get(name),
            None if self.duplicate_groups is None else first_of_each_group(self.duplicate_groups, self.members),
            findings=self.about.findings,
        )

    def adjusted(self, recipe: str) -> Outcome:
        """Return the outcome of scores adjusted for the covariates, on which verdict and gate are based.

        The same as ``self[recipe]`` where there is nothing to adjust for.
        """
        outcome = self.outcome(recipe)
        if self.adjustment is None:
            return outcome
        # Equal records of one side take part once, so that each of those that are left counts.
        comparable, unexplained = outcome.on(self.adjustment.is_included), self.adjustment.unexplained.get(recipe)
        if unexplained is None:
            unexplained = comparable.unexplained
        return replace(comparable, scores=self.adjustment.scores[recipe], unexplained=unexplained, is_counted=None)

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read before relying on the numbers."""
        return self.about.warnings

    @property
    def candidates(self) -> str:
        """Digest of the candidates' records and membership labels, in order."""
        return self.about.settings.data.candidates


# How often, over all thresholds of an audit together, one that kept its rate is said to have broken it.
FPR_FALSE_ALARM = 0.05


@dataclass(frozen=True, slots=True)
class RealisedFpr:
    """Realised and nominal false-positive rate of a conformal threshold.

    Args:
        nominal: the level asked for.
        rate: share of true non-members called members, with its exact interval.
        p_value: P(so many or more of the non-members lie above the threshold), if they are exchangeable with the
            calibration records; the scatter of the threshold itself is in it.
        tests: how many thresholds the audit judges; the false alarm is divided among them.
    """

    nominal: float
    rate: Estimate
    p_value: float
    tests: int = 1

    @property
    def broken(self) -> bool:
        """Whether the rate is higher than the draw of one calibration set explains."""
        return self.p_value < FPR_FALSE_ALARM / self.tests

    @property
    def judged(self) -> str:
        """Sentence comparing the two rates.

        Examples:
            >>> from divulge.evaluation import proportion
            >>> RealisedFpr(0.05, proportion(14, 100), 0.02).judged
            'higher than asked for: the luck of one calibration does not explain it (p = 0.02)'
        """
        if self.broken:
            return f"higher than asked for: the luck of one calibration does not explain it (p = {self.p_value:.2g})"
        if self.rate.low > self.nominal:
            return f"above, as in one of {1 / self.p_value:,.0f} calibrations"
        if self.rate.high < self.nominal:
            return "below"
        return "agrees"


def realised_fpr(nonmembers: Floats, calibration: Floats, level: float, tests: int = 1) -> RealisedFpr:
    """Return the realised FPR, on non-members ``[n]``, of the threshold at ``level`` of calibration scores.

    Raises:
        divulge.InputError: too few calibration records for the level, no non-members.
    """
    threshold = by_fpr.threshold(calibration, level)
    n_above, n_nonmembers = int(threshold.select(nonmembers).sum()), len(nonmembers)
    # Of exchangeable records the number above the r-th largest of k is beta-binomial; ties only lower it.
    tail = _beta_binomial_pmf(
        np.arange(n_above, n_nonmembers + 1), n_nonmembers, threshold.rank, threshold.calibration + 1 - threshold.rank
    )
    return RealisedFpr(level, statistics.proportion(n_above, n_nonmembers), min(float(tail.sum()), 1.0), tests)


def _beta_binomial_pmf(k: Ints, n: int, a: float, b: float) -> Floats:
    """Beta-binomial probability of ``k`` of ``n``; ten times faster than that of scipy.stats."""
    log = special.betaln(k + a, n - k + b) - special.betaln(a, b) - special.betaln(n - k + 1, k + 1)
    return np.exp(log) / (n + 1)
