"""Label privacy from one run: fair coins on the labels of training records, and the same coins on a holdout.

A fair coin shows each record's label, or one that a proxy draws from what it expects of such features. Whoever guesses
the coin from the model's answer is right with odds of at most e^ε if the training kept ε of label privacy and the proxy
draws as nature does (arXiv 2511.14084). A proxy that knows less than the model loses to a model that never saw the
labels, so the same game is played on a holdout, where there is nothing to leak. Two bounds are computed:

- `divulge.evaluation.epsilon_one_run` of the members' coins, which holds if the proxy draws as nature does.
- The log odds ratio of right guesses, members against holdout (exact conditional bound). Label privacy multiplies the
  odds of each guess by at most e^ε. Averages of odds p / (1 - p) so multiplied stay below the average multiplied, as
  e^ε p / (e^ε p + 1 - p) is concave in p. So this holds for any proxy that serves members and holdout alike, if only
  their labels can make the model better on members: one that was taught a teacher's answers on their features is better
  there, though it never saw a label.

What is claimed is the smaller one, which is right if either assumption is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, special, stats

from divulge import lazy, results, seeds, tables
from divulge.auditing.gates import Ruling
from divulge.auditing.inputs import check_inputs
from divulge.auditing.modality import Classifier
from divulge.duplicates import number_groups
from divulge.errors import InputError
from divulge.evaluation import epsilon_one_run, one_run_bound
from divulge.evidence import query_target
from divulge.provenance import collect_environment
from divulge.report import formatting
from divulge.report.page import Bullet, BulletList, Paragraph, Section, Table
from divulge.report.run_kinds import Headline, RunKind
from divulge.report.sections import ADVICE_TITLE
from divulge.results import EpsilonLowerBound, LabelPrivacySummary, StudyControl
from divulge.run_directory import check_out
from divulge.settings import LabelPrivacySettings, ResolvedAuditSettings
from divulge.study import FALSE_ALARM, Study, StudyRun, StudyVerdict, compare_blindly, open_subject, reopen
from divulge.types import AuditData, Estimate, Records
from divulge.validation import check_bool, check_instance, check_mask, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from sklearn import calibration, ensemble

    from divulge.auditing.gates import Limit
    from divulge.run_directory import RunDirectory, RunDraft
    from divulge.settings import Outputs
    from divulge.types import Array, Bools, Floats, Ints, Tone
else:
    calibration = lazy.module("sklearn.calibration")
    ensemble = lazy.module("sklearn.ensemble")

_DEFAULTS = LabelPrivacySettings()
LEAK, WEAK, TOO_LITTLE, CONFOUNDED = (
    "labels leak", "the proxy is too weak", "too little data to say", "split is confounded",
)  # fmt: skip
TONES: Mapping[str, Tone] = {LEAK: "leak", WEAK: "undecided", TOO_LITTLE: "undecided", CONFOUNDED: "undecided"}
MIN_RECORDS = 30
"""Members, and records of the holdout, below which nothing is said."""
_SHARES = (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)  # of the records that are guessed, in the comparison
_MOST = 12.0  # ε that is claimed at most
_LEAST_PROBABILITY = 1e-4  # of a label; a leaf that never saw a class says 0
_TREES, _FOLDS = 60, 5  # of the proxy, and of its calibration
# Of the error of a bound, that of the holdout's. A proxy is mostly a little weaker than a good model; what that adds to
# the members' bound cancels in the comparison, which caps what is claimed. One that is far too weak is found anyway.
_CONTROL_ERROR = 0.02
_ASSUMES = (
    "(1) all three of these: members (the records trained on) and holdout (others) were drawn alike; the proxy (a "
    "model of further records that guesses labels by the features) has seen neither; and the model was not taught by "
    "another model's answers on the members (distillation, self-training). Or (2) the proxy's forecasts are right: of "
    "records with the same features for which it expects a label in 30 of 100 cases, 30 of 100 have it"
)
_ADVERSARY = "Who can do this: anyone who has the features of a record and sees the model's outputs on it."
_HARM = "Who may be harmed: people whose label is confidential, such as a diagnosis or a decision about them."
_ADVICE = Bullet(
    "Let no single label matter.",
    "Larger leaves, stronger penalties and fewer epochs give away less. Labels that are replaced by a random one with "
    "a fixed probability before training (randomised response) keep an ε that can be chosen. Then measure again.",
)


@dataclass(frozen=True, slots=True)
class LabelFinding:
    """What the coins show.

    Args:
        answer: "labels leak", "the proxy is too weak", "too little data to say" or "split is confounded".
        reason: what decided, in sentences.
        bound: what is claimed, 0 unless the answer is "labels leak".
        members: bound from the members' coins alone, which a weak proxy raises.
        holdout: the same bound on records that the model never saw, with more confidence (99.9 % beside 95 %).
        difference: bound from members against holdout.
    """

    answer: str
    reason: str
    bound: Estimate
    members: Estimate
    holdout: Estimate
    difference: Estimate


def bound_difference(
    scores: Floats, is_true: Bools, members: Bools, confidence: float = _DEFAULTS.confidence
) -> Estimate:
    """Return a lower bound on ε from right guesses on members against those on a holdout; 0 if they refute no ε.

    The highest of all scores are guessed to be true labels, as many of the lowest to be drawn ones; thresholds read
    neither coin nor membership. Of the six shares of records that are guessed each has its part of the error.

    Args:
        scores: ``[n]``; larger means more like a true label.
        is_true: bool ``[n]``, the coins.
        members: bool ``[n]``; the others are the holdout.
        confidence: P(bound ≤ true ε) is at least this.

    Examples:
        >>> coins, members = np.arange(400) % 2 == 0, np.arange(400) < 200
        >>> 2 < bound_difference(np.where(members, coins, np.arange(400) % 3 == 0), coins, members).low < 6
        True
    """
    error, ranks, best = (1 - confidence) / len(_SHARES), stats.rankdata(scores), 0.0
    n = len(scores)
    for share in _SHARES:
        half = n * share / 2
        # Mean ranks: records that tie across a threshold are all above it or none is; who ties depends on no coin.
        guesses_true, guesses_drawn = ranks > n - half + 0.5, ranks < half + 0.5
        is_guessed, is_right = guesses_true | guesses_drawn, np.where(guesses_true, is_true, ~is_true)
        n_right, n_guessed = int((is_guessed & is_right).sum()), int(is_guessed.sum())
        n_inside, right_inside = int((is_guessed & members).sum()), int((is_guessed & is_right & members).sum())
        if not n_guessed or right_inside == max(0, n_right + n_inside - n_guessed):
            continue  # no guesses, or as few right ones as there can be

        def refute(epsilon: float, at: tuple[int, ...] = (right_inside, n_guessed, n_right, n_inside)) -> float:
            return float(stats.nchypergeom_fisher.sf(at[0] - 1, *at[1:], np.exp(epsilon))) - error

        if refute(best) < 0:
            best = float(optimize.brentq(refute, best, _MOST)) if refute(_MOST) > 0 else _MOST
    method = f"conditional odds ratio of right guesses, bonferroni over {len(_SHARES)} shares guessed"
    return Estimate(best, best, np.inf, confidence, method)


def decide_label_privacy(
    scores: object,
    is_true: object,
    members: object,
    *,
    confidence: float = _DEFAULTS.confidence,
    seed: int = _DEFAULTS.seed,
    confounded: str = "",
) -> LabelFinding:
    """Decide what fair coins on labels show, beside the same coins on a holdout.

    Args:
        scores: ``[n]``; larger means that the label shown is more like a true one.
        is_true: bool ``[n]``, the coins: whether the label shown is the record's own.
        members: bool ``[n]``; the others are the holdout.
        confidence: of each bound.
        seed: of `divulge.evaluation.epsilon_one_run`.
        confounded: why the sets cannot be compared, where that is known; else empty.

    Raises:
        divulge.InputError: NaN, lengths that differ.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> coins, members = rng.random(800) < 0.5, np.arange(800) < 400
        >>> decide_label_privacy(np.where(members, coins, rng.random(800)), coins, members).answer
        'labels leak'
    """
    values = check_vector(scores, "scores")
    coins = check_mask(is_true, "is_true", (len(values),))
    truth = check_mask(members, "members", (len(values),))
    nothing = Estimate(0.0, 0.0, np.inf, confidence, "nothing claimed")
    n_members, n_holdout = int(truth.sum()), int((~truth).sum())
    if min(n_members, n_holdout) < MIN_RECORDS:
        reason = (
            f"{n_members:,} members and {n_holdout:,} records of the holdout can be used, {MIN_RECORDS} of each are "
            "needed; records whose features occur twice in the sets are left out."
        )
        answer = CONFOUNDED if confounded else TOO_LITTLE
        return LabelFinding(answer, confounded or reason, nothing, nothing, nothing, nothing)
    inside, outside = (
        epsilon_one_run(values[side], coins[side], confidence=level, seed=seed)
        for side, level in ((truth, confidence), (~truth, 1 - (1 - confidence) * _CONTROL_ERROR))
    )
    difference = bound_difference(values, coins, truth, confidence)
    smaller = min(inside, difference, key=lambda bound: bound.low)
    if confounded:
        reason = f"Members and holdout differ in more than membership: {confounded}."
        return LabelFinding(CONFOUNDED, reason, nothing, inside, outside, difference)
    if outside.low > 0:
        reason = (
            f"On a holdout that the model never saw the same coins give ε ≥ {outside.low:.2f}, where nothing can leak: "
            "the model knows far more than the proxy. Nothing is claimed of the training records."
        )
        return LabelFinding(WEAK, reason, nothing, inside, outside, difference)
    if smaller.low > 0:
        odds = math.exp(math.floor(100 * smaller.low) / 100)
        n_right = math.floor(100 * odds / (1 + odds))
        reason = (
            "If at least one of two conditions holds, which those who know the data must confirm, the model gives "
            "labels of training records away (what it was trained to predict of them). Without the model, a guess "
            "between two labels is right in 50 of 100 cases; with it, for some records, in at least "
            f"{n_right} (ε ≥ {formatting.format_lower_bound(smaller.low)}, with "
            f"{formatting.format_percent(confidence)} confidence). How many records these are is not known. The "
            f"conditions: {_ASSUMES}."
        )
        return LabelFinding(LEAK, reason, smaller, inside, outside, difference)
    reason = (
        "These coins prove no leak of labels. That is no sign that labels are private: few records, a proxy that "
        "mostly draws the true label, or a weak adversary may be why."
    )
    return LabelFinding(TOO_LITTLE, reason, nothing, inside, outside, difference)


@dataclass(frozen=True, eq=False, repr=False)
class LabelPrivacy(Study):
    """Result of `divulge.canaries.label_privacy`.

    Args:
        ids: of the records that count, ``[n]``.
        scores: ``[n]``; larger means that the label shown is more like a true one.
        is_true: bool ``[n]``, the coins.
        differs: bool ``[n]``, whether the proxy's draw is another label: of the others nothing can be told.
        members: bool ``[n]``.
        left_out: records whose features occur more than once in the sets.
        proxy: which proxy drew.
        checks: of the split.
        warnings: what the user must know.
        settings: what was asked for.
    """

    ids: Array
    scores: Floats
    is_true: Bools
    differs: Bools
    members: Bools
    left_out: int
    proxy: str
    checks: tuple[StudyControl, ...]
    warnings: tuple[str, ...]
    settings: LabelPrivacySettings

    @cached_property
    def finding(self) -> LabelFinding:
        """The answer, with every bound behind it."""
        return self.decide(self.settings.confidence)

    def decide(self, confidence: float) -> LabelFinding:
        """Return the answer with bounds of another confidence."""
        failed = "; ".join(check.says for check in self.checks if check.passed is False)
        return decide_label_privacy(
            self.scores, self.is_true, self.members, confidence=confidence, seed=self.settings.seed, confounded=failed
        )

    @property
    def verdict(self) -> StudyVerdict:
        """The answer, in a word and in sentences."""
        finding = self.finding
        text = f"{formatting.capitalize(finding.answer)}. {finding.reason}"
        return StudyVerdict(finding.answer, text, TONES[finding.answer])

    @property
    def epsilon(self) -> Estimate:
        """The lower bound that is claimed."""
        return self.finding.bound

    def to_frame(self) -> pl.DataFrame:
        """Return one row per record: id, membership, coin, whether the draw differs, score."""
        values = {"member": self.members, "true": self.is_true, "differs": self.differs, "score": self.scores}
        return tables.from_arrays({"id": self.ids} | values)

    def summary(self) -> LabelPrivacySummary:
        """Return the typed summary for JSON and the report."""
        finding, n = self.finding, int(self.members.sum())
        n_telling = int((self.members & self.differs).sum())
        most = 0.0
        if n_telling:
            most = one_run_bound(canaries=n, guesses=n_telling, wrong=0, confidence=self.settings.confidence).low
        bounds = {"members": finding.members, "holdout": finding.holdout, "members against holdout": finding.difference}
        return LabelPrivacySummary(
            verdict=self.verdict.text,
            tone=self.verdict.tone,
            answer=finding.answer,
            bound=_to_lower_bound(finding.bound),
            bounds={name: _to_lower_bound(bound) for name, bound in bounds.items()},
            most=most,
            members=n,
            holdout=len(self.members) - n,
            telling=n_telling,
            left_out=self.left_out,
            proxy=self.proxy,
            checks=self.checks,
            warnings=self.warnings,
            settings=self.settings,
            environment=collect_environment(),
        )

    def write(self, draft: RunDraft) -> None:
        """Write coins and scores."""
        draft.write_table("coins", self.to_frame())

    def rule(self, limits: Sequence[Limit], confidence: float) -> list[Ruling]:
        """Rule on the ε that is proven. No limit is "kept": such coins bound ε from below only."""
        finding = self.decide(1 - (1 - confidence) / len(limits))
        doubt = "" if finding.answer == LEAK else finding.reason.rstrip(".")
        return [Ruling("labels", "all", limit.metric, limit.limit, finding.bound, doubt) for limit in limits]


def label_privacy(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records,
    proxy: Any = None,
    confidence: float = _DEFAULTS.confidence,
    outputs: Outputs = "logits",
    device: str = "auto",
    seed: int = _DEFAULTS.seed,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> LabelPrivacy:
    """Bound from below the ε of label privacy that a classifier kept of its training records, from one run.

    Records whose features occur more than once in the three sets are left out: their labels hang together.

    Args:
        target: a classifier that gives logits or probabilities, as for `divulge.audit`.
        members: records that it was trained on, with labels.
        nonmembers: the holdout: records drawn like the members, on which neither target nor proxy was trained.
        population: further such records, on which boosted trees are trained as the proxy.
        proxy: a classifier like ``target`` in place of the trees; trained on none of members and nonmembers.
        confidence: of each bound.
        outputs: "logits" or "probabilities": what a network or function returns.
        device: where a torch module runs.
        seed: of coins, draws and proxy, to be chosen before any result is seen.
        out: run directory to write.
        overwrite: replace a finished run in ``out``.

    Returns:
        A `LabelPrivacy`: ``result.finding.answer``, ``result.epsilon``.

    Raises:
        divulge.InputError: a target that is no classifier or gives labels alone, records without labels, the target
            as its own proxy, and what `divulge.audit` refuses.

    References:
        arXiv 2511.14084, without retraining; the control on a holdout is ours.

    Examples:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> import divulge as dv
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(1500, 3)), rng.integers(0, 2, 1500)
        >>> sets = {name: dv.Records(x[i:i + 500], y[i:i + 500]) for name, i in
        ...         (("members", 0), ("nonmembers", 500), ("population", 1000))}
        >>> model = DecisionTreeClassifier(random_state=0).fit(x[:500], y[:500])
        >>> dv.canaries.label_privacy(model, **sets).finding.answer
        'labels leak'
    """
    options = LabelPrivacySettings.check(confidence=confidence, seed=seed)
    audit_options = ResolvedAuditSettings.check(
        fpr=(0.5,),
        duplicates="keep",
        outputs=outputs,
        task="classification",
        device=device,
        seed=seed,
        references=None,
    )
    check_bool(overwrite, "overwrite")
    out_folder = check_out(out, overwrite=overwrite)
    for name, records in (("members", members), ("nonmembers", nonmembers), ("population", population)):
        if check_instance(records, name, Records).y is None:
            raise InputError(f"{name}: labels (y) are needed, there are none")
    if proxy is target:
        raise InputError("proxy: must be another model than the target")
    data = AuditData(members=members, nonmembers=nonmembers, population=population)
    target_log_p, truth, candidates, others, notes = _predict(target, data, audit_options, "target")
    n, y = len(truth), np.r_[np.asarray(candidates.y), np.asarray(others.y)].astype(np.int64)
    features = np.concatenate([candidates.x, others.x]).reshape(len(y), -1)
    if features.dtype == object:
        raise InputError("members: rows of numbers, or of a table, are needed")
    groups = number_groups(features)
    is_unique = (np.bincount(groups) == 1)[groups[:n]]
    if not is_unique.any():
        raise InputError(
            f"members, nonmembers: the features of all {n:,} records occur more than once in the three sets, and the "
            "labels of such records hang together; distinct records are needed"
        )
    if proxy is None:
        proxy_log_p = _train_proxy(features[n:], y[n:], features[:n], target_log_p.shape[1], options.seed)
    else:
        proxy_log_p = _predict_by_proxy(proxy, data, audit_options, y[:n], target_log_p.shape[1])
    rng, rows = seeds.generator(options.seed, "label privacy", "coins"), np.arange(n)
    is_true = rng.random(n) < 0.5
    cumulative = np.exp(proxy_log_p).cumsum(axis=1)
    drawn = (cumulative < rng.random((n, 1)) * cumulative[:, -1:]).sum(axis=1)
    shown = np.where(is_true, y[:n], drawn)
    scores = target_log_p[rows, shown] - proxy_log_p[rows, shown]
    truth, kept = truth[is_unique], np.flatnonzero(is_unique)
    result = LabelPrivacy(
        ids=np.asarray(candidates.ids)[kept],
        scores=scores[kept],
        is_true=is_true[kept],
        differs=(drawn != y[:n])[kept],
        members=truth,
        left_out=n - len(kept),
        proxy="boosted trees on the population" if proxy is None else "given",
        checks=_check_split(features[kept], y[kept], truth, proxy_log_p[rows, y[:n]][kept], options.seed),
        warnings=notes,
        settings=options,
    )
    if out_folder is not None:
        result.save(out_folder, overwrite=overwrite)
    return result


def _predict(
    model: Any, data: AuditData, options: ResolvedAuditSettings, name: str
) -> tuple[Floats, Bools, Records, Records, tuple[str, ...]]:
    """Return log probabilities of candidates ``[n, classes]``, who is a member, candidates, population, and notes."""
    subject = open_subject(model, data, outputs=options.outputs, device=options.device, task=options.task)
    if not isinstance(subject.modality, Classifier):
        raise InputError(f"{name}: a classifier of records is needed, this is {subject.modality.name}")
    recipes = subject.modality.default_recipes(subject.target, None)
    options = options.model_copy(update={"recipes": recipes})
    checked = check_inputs(subject.data, options, subject.modality, subject.target)
    logits, _ = query_target(subject.target, checked.candidates, ())
    if logits is None:
        raise InputError(f"{name}: logits or probabilities are needed, it gives labels alone")
    log_p = np.log(np.maximum(special.softmax(np.asarray(logits, np.float64), axis=1), _LEAST_PROBABILITY))
    population = Records.concatenate([checked.population, checked.calibration])
    return log_p, checked.truth, checked.candidates, population, tuple(subject.notes)


def _predict_by_proxy(proxy: Any, data: AuditData, options: ResolvedAuditSettings, y: Ints, classes: int) -> Floats:
    """Return log probabilities of the proxy in the target's order of classes, ``[n, classes]``."""
    log_p, _, candidates, _, _ = _predict(proxy, data, options, "proxy")
    # The records of a class show its number in either order; a class without a candidate is never drawn.
    pairs = np.unique(np.stack([y, np.asarray(candidates.y, np.int64)]), axis=1)
    ordered = np.full((len(y), classes), np.log(_LEAST_PROBABILITY))
    ordered[:, pairs[0]] = log_p[:, pairs[1]]
    return ordered


def _train_proxy(features: Floats, y: Ints, candidates: Floats, classes: int, seed: int) -> Floats:
    """Train boosted trees on the population; return log probabilities of the candidates ``[n, classes]``."""
    seen, counts = np.unique(y, return_counts=True)
    p = np.zeros((len(candidates), classes))
    if len(seen) == 1:
        p[:, seen] = 1.0
    else:
        random_state = seeds.derive_seed(seed, "label privacy", "proxy") % 2**32
        model = ensemble.HistGradientBoostingClassifier(
            learning_rate=0.1, max_iter=_TREES, max_leaf_nodes=15, random_state=random_state
        )
        if counts.min() >= _FOLDS:  # trees that are surer than they are right would draw labels that nature does not
            model = calibration.CalibratedClassifierCV(model, cv=_FOLDS)
        p[:, seen] = model.fit(features.astype(np.float64), y).predict_proba(candidates.astype(np.float64))
    return np.log(np.maximum(p, _LEAST_PROBABILITY))


def _check_split(features: Array, y: Ints, truth: Bools, own_log_p: Floats, seed: int) -> tuple[StudyControl, ...]:
    """Compare members with the holdout, without the model, and what the proxy thinks of their labels."""
    if min(truth.sum(), (~truth).sum()) < MIN_RECORDS:
        return ()
    blind_check = compare_blindly(
        "blind classifier", features[truth], features[~truth], (y[truth], y[~truth]), seed,
        apart="without the model, members can be told from the holdout ({})",
        alike="members and holdout look alike",
    )  # fmt: skip
    p_value = float(stats.mannwhitneyu(own_log_p[truth], own_log_p[~truth]).pvalue)
    is_alike = p_value > FALSE_ALARM
    says = (
        f"the proxy expects labels of both alike (p = {p_value:.2g})"
        if is_alike
        else f"the proxy knows the labels of one set better (p = {p_value:.2g}); was it trained on them?"
    )
    return blind_check, StudyControl("proxy on both sets", is_alike, says)


def _to_lower_bound(bound: Estimate) -> EpsilonLowerBound:
    return EpsilonLowerBound(bound.low, bound.confidence, bound.method)


def facts(summary: LabelPrivacySummary) -> dict[str, str]:
    """Return what was tested, and how."""
    return {
        "members": f"{summary.members:,}; {summary.telling:,} of them tell something",
        "holdout": f"{summary.holdout:,}",
        "left out, as their features occur twice": f"{summary.left_out:,}",
        "proxy": summary.proxy,
        "seed": str(summary.settings.seed),
    }


def _sections(run: StudyRun[LabelPrivacy]) -> list[Section]:
    summary = run.summary
    bounds = {**summary.bounds, "claimed": summary.bound}
    rows = [[name, formatting.format_lower_bound(bound.low), bound.method] for name, bound in bounds.items()]
    checks = [[check.name, check.result, check.says] for check in summary.checks]
    return [
        Section(ADVICE_TITLE, [BulletList([_ADVICE])] if summary.answer == LEAK else []),
        Section(
            "What is proven",
            [
                Table(["coins", "ε ≥", "how"], rows, sortable=False),
                Paragraph(
                    "Each label was kept or, by a fair coin, replaced by one that the proxy drew; ε bounds how well "
                    "the model tells which. A bound of the members alone counts what the model knows better than the "
                    "proxy as a leak, so that nothing is claimed where the holdout's is above 0. Claimed is the "
                    f"smaller of members and members against holdout, if one of two things is so: {_ASSUMES}. "
                    f"The most that so many coins can prove is ε ≥ {formatting.format_lower_bound(summary.most)}."
                ),
            ],
        ),
        Section("Are the sets alike?", [Table(("check", "result", "what it says"), checks, sortable=False)]),
        Section(
            "What this cannot show",
            [Paragraph("That labels are private: coins bound ε from below, and another attack may prove more.")],
        ),
    ]


def _headline(run: StudyRun[LabelPrivacy]) -> Headline:
    finding = run.result.finding
    is_leak = finding.answer == LEAK
    heading = formatting.capitalize(finding.answer) + ", if at least one of two conditions holds" * is_leak
    details = [_ADVERSARY, _HARM] if is_leak else []
    return Headline(run.summary.tone, finding.reason, heading, details, statement=run.summary.verdict)


def _read_run(directory: RunDirectory) -> StudyRun[LabelPrivacy]:
    """Read coins and summary; the answer is decided from the coins again."""
    stored, frame = results.read_summary(directory.path, LabelPrivacySummary), directory.read_table("coins")
    if missing := {"id", "member", "true", "differs", "score"} - set(frame.columns):
        raise InputError(f"{directory.path}: damaged, lacks {', '.join(sorted(missing))}")
    columns, n = {name: tables.to_array(frame[name]) for name in frame.columns}, len(frame)
    try:
        result = LabelPrivacy(
            ids=columns["id"],
            scores=check_vector(columns["score"], "score"),
            is_true=check_mask(columns["true"], "true", (n,)),
            differs=check_mask(columns["differs"], "differs", (n,)),
            members=check_mask(columns["member"], "member", (n,)),
            left_out=stored.left_out,
            proxy=stored.proxy,
            checks=stored.checks,
            warnings=stored.warnings,
            settings=stored.settings,
        )
        return reopen(result, stored)
    except InputError as error:
        raise InputError(f"{directory.path}: damaged, {error}") from None


LABEL_PRIVACY = RunKind(
    name="label-privacy",
    title="Label privacy",
    summary_type=LabelPrivacySummary,
    sections=_sections,
    headline=_headline,
    facts=lambda run: facts(run.summary),
    warnings=lambda run: run.summary.warnings,
    read=_read_run,
    records=lambda folder: LABEL_PRIVACY.load(folder).result.to_frame(),
    noun="label privacy",
    metrics=("epsilon",),
)
LabelPrivacy.run_kind = LABEL_PRIVACY
