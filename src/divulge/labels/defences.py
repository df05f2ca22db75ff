"""Defences against label inference, and the upper bounds on what answers leak, on which they rest.

A defence is a setting of the endpoint (noise, decimals, clip, number of queries), a whole remedy, or an item of the
menu of competition hosts. For the bounds on accuracy, labels are drawn evenly among the K classes; the attacker chooses
queries as the answers come in, knows the oracle and, for the bounds on noise, even all other labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import special, stats

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import metrics, single_rows
from divulge.labels.design import design
from divulge.labels.metrics import Evaluated, KnownRange, Linear, Metric
from divulge.labels.oracles import COUNT_METRICS, RATIO_METRICS, Ladder, LocalOracle, OracleSpec, compute_score
from divulge.settings import DefenceSettings, SeasonSettings
from divulge.statistics import mean_estimate
from divulge.types import Estimate, ShortRepr
from divulge.validation import check_instance, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.labels.plans import QueryPlan
    from divulge.types import Array, Floats, Ints


_DEFENCE, _SEASON = DefenceSettings(), SeasonSettings()
_MAX_DECIMALS = 15  # more than that, floats have none
_RECOMMENDED_CLIP = 0.01  # probabilities beyond it win hardly any score, and cost most of the protection

_FORMULAS = {
    "noise": "sigma >= sqrt(Q) s / (2 z), s what one label moves a score, z = quantile(1/2 + (x - 1/K) / (2 - 2/K))",
    "decimals": "Q log2(2 + R 10^d) <= n (log2 K - h(x) - (1 - x) log2(K - 1)), h binary entropy, R range of a score",
    "clip": "R = ln((1-clip)/clip), the rest as it is; noise: as above with s = R/n; rounding: as above",
    "query_cap": "Gaussian: Q <= (2 sigma z / s)^2; rounding: as above; neither: 64 bits per score",
    "epsilon": "epsilon <= ln(x (K - 1) / (1 - x))",
}
_MAX_MEASURED_ROWS = 5_000  # rows of an attack that is run, not only counted
TEAMS = 30
_N_COMPETITIONS = (4, 20)  # fewest and most that are simulated
_N_PREDICTIONS = 2_000_000  # predictions simulated, about
_MAX_SIMULATED_SIZE = 200_000
_CONFIDENCE = 0.95
ShownScores: TypeAlias = "Callable[[OracleSpec, Ints, list[Floats], np.random.Generator], Floats]"

_METRIC_RANGES = {
    "accuracy": 1.0, "f1": 1.0, "auc": 1.0, "balanced_accuracy": 1.0, "macro_f1": 1.0, "map_at_k": 1.0,
    "mcc": 2.0, "quadratic_weighted_kappa": 2.0, "r2": math.inf,
}  # fmt: skip
FLOAT_BITS = 64.0  # a score that is neither rounded nor noisy is one double
_STANDARD_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Remedy:
    """One complete remedy: with it alone, the attacker stays below the accuracy.

    Args:
        spec: the oracle as it would be.
        queries: most queries that it may answer; None: any number.
        flip: chance with which each label is replaced by another one, once and for all, before the first query.
        says: what to do.
        cost: Kendall's τ between the ranking of simulated submissions with it and by exact scores without it; None
            where no submissions can be simulated.
    """

    spec: OracleSpec
    queries: int | None
    flip: float
    says: str
    cost: Estimate | None = None

    def __str__(self) -> str:
        if self.cost is None:
            return f"{self.says} (cost for a ranking: not known)"
        tau = f"Kendall's τ with the exact ranking {self.cost.value:.2f} [{self.cost.low:.2f}, {self.cost.high:.2f}]"
        return f"{self.says} ({tau}{describe_ranking(self.cost)})"

    @property
    def keeps_ranking(self) -> bool:
        """Whether the ranking shown is more than a little like the exact one, or that is not known."""
        return self.cost is None or self.cost.high >= _LITTLE_LEFT


_LITTLE_LEFT = 0.5  # Kendall's τ: of two submissions, the better one stands first in three cases of four


def describe_ranking(cost: Estimate) -> str:
    """Say in words what is left of a ranking, after a colon; nothing where it is much.

    Examples:
        >>> print(describe_ranking(Estimate(-0.7, -0.8, -0.6, 0.95, "")))
        : this turns the ranking round, so that better submissions come out worse, and a leaderboard is useless
    """
    if cost.high < 0:
        return ": this turns the ranking round, so that better submissions come out worse, and a leaderboard is useless"
    if cost.low <= 0:
        return ": places are then as if drawn by lot, and a leaderboard is useless"
    return ": little of the ranking is left" if cost.high < _LITTLE_LEFT else ""


@dataclass(frozen=True, slots=True, repr=False)
class Defence(ShortRepr):
    """Settings and remedies, each of which alone keeps an attacker with this many queries below this accuracy.

    Args:
        queries: what the attacker may ask.
        accuracy: mean accuracy over balanced labels that must not be exceeded.
        noise: standard deviation of Gaussian noise on every answer; None when no noise helps.
        decimals: most decimals an answer may show; None when no rounding is coarse enough.
        clip: smallest clip that suffices beside the noise or rounding the oracle already has; None when none does.
        query_cap: most queries an oracle may answer with the noise and rounding it has now; None when even one
            tells too much.
        epsilon: largest budget of label differential privacy for all answers together.
        formulas: the formula behind each number.
        remedies: what to do, each by itself, what distorts scores least first; what leaves little of a ranking comes
            after what keeps it.
    """

    queries: int
    accuracy: float
    noise: float | None
    decimals: int | None
    clip: float | None
    query_cap: int | None
    epsilon: float
    formulas: Mapping[str, str] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    @property
    def advice(self) -> tuple[str, ...]:
        """The remedies in words, each with its cost for a ranking; each line by itself suffices."""
        return tuple(str(remedy) for remedy in self.remedies)


def defend(
    spec: OracleSpec,
    queries: int = _DEFENCE.queries,
    accuracy: float = _DEFENCE.accuracy,
    *,
    seed: int = _DEFENCE.seed,
) -> Defence:
    """Recommend what keeps an attacker with ``queries`` queries below ``accuracy``.

    With Gaussian noise σ every label swings an answer by at most s (R/n for a mean of losses that differ by R); told
    all other labels, an attacker has Q samples that lie s/σ standard deviations apart, and is right about one of two
    labels with probability ``Φ(√Q·s/(2σ))`` at most. The same bound holds for adaptive queries. Rounding protects by
    counting alone: an answer then takes one of ``2 + R·10^d`` values, so Q answers, adaptive or not, tell ``Q·log2`` of
    that many bits, and accuracy x on n balanced labels takes ``n·(1 - h(x))`` of them. A step beyond R/n alone
    protects nothing: an attacker who can place an answer on a rounding edge reads single labels through it. So
    rounding stands behind clipping, a cap and noise. Noise of unknown shape, of which only a bound is declared,
    protects nothing for certain and is not counted on. A loss without a bound on what one label can do (logits, no
    clip, predictions of any size) is protected by none of these; its remedies change the metric.

    Args:
        spec: the oracle as it is now.
        queries: how many queries an attacker may ask.
        accuracy: what balanced labels may be guessed with, above chance (1/K) and below 1.
        seed: of the submissions simulated for the cost of each remedy.

    Raises:
        divulge.InputError: accuracy outside (1/K, 1), fewer than one query, or an unknown number of scored rows.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> advice = defend(OracleSpec(n=2201), queries=100, accuracy=0.55)
        >>> round(advice.noise, 3)
        0.652
        >>> print(advice.remedies[0].says)
        clip predictions into [0.01, 0.99] and add Gaussian noise of standard deviation 0.0831 to every score
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    DefenceSettings.check(queries=queries, accuracy=accuracy, seed=seed)
    check_number(accuracy, "accuracy", above=1 / spec.classes, below=1.0)
    if spec.scored == "unknown":
        raise InputError("scored: whoever defends an endpoint knows how many rows it scores; give the number")
    remedies = [
        replace(remedy, cost=rank_correlation(spec, defended_scores(remedy.spec, flip=remedy.flip), seed=seed))
        for remedy in _list_remedies(spec, queries, accuracy)
    ]
    return Defence(
        queries,
        accuracy,
        _required_noise(spec, queries, accuracy),
        _allowed_decimals(spec, queries, accuracy),
        _required_clip(spec, queries, accuracy),
        _query_cap(spec, accuracy),
        math.log(accuracy * (spec.classes - 1) / (1 - accuracy)),
        _FORMULAS,
        tuple(sorted(remedies, key=lambda remedy: not remedy.keeps_ranking)),
    )


def _required_noise(spec: OracleSpec, queries: int, accuracy: float) -> float | None:
    # The answers under two labels may lie 2z standard deviations apart: guessing is right with 1/K, and what their
    # total variation, 2Φ(z) - 1, adds to it is ``1 - 1/K`` of that. Labels out of balance are taken to be told.
    effect, guess = max_label_effect(spec), chance_accuracy(spec)
    variation = (accuracy - imbalance_probability(spec) - guess) / (1 - guess)
    quantile = NormalDist().inv_cdf((1 + variation) / 2) if variation > 0 else 0.0
    return math.sqrt(queries) * effect / (2 * quantile) if math.isfinite(effect) and quantile > 0 else None


def _allowed_decimals(spec: OracleSpec, queries: int, accuracy: float) -> int | None:
    for decimals in range(_MAX_DECIMALS, -1, -1):
        if counting_bound(replace(spec, decimals=decimals), queries) <= accuracy:
            return decimals
    return None


def _required_clip(spec: OracleSpec, queries: int, accuracy: float) -> float | None:
    if spec.name != "log_loss":
        return None

    def limits_accuracy(logit: float) -> bool:
        return max_accuracy(replace(spec, clip=1 / (1 + math.exp(logit))), queries) <= accuracy

    # What one label can do grows with the logit of the clip.
    low, high = 1e-3, 700.0
    if not limits_accuracy(low):
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if limits_accuracy(middle) else (low, middle)
    return 1 / (1 + math.exp(low))


def _query_cap(spec: OracleSpec, accuracy: float) -> int | None:
    low, high = 0, 1
    while high < 2**40 and max_accuracy(spec, high) <= accuracy:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if max_accuracy(spec, middle) <= accuracy else (low, middle)
    return low or None


def _list_remedies(spec: OracleSpec, queries: int, accuracy: float) -> tuple[Remedy, ...]:
    if max_accuracy(spec, queries) <= accuracy:
        return (Remedy(spec, queries, 0.0, f"nothing more is needed: {queries} scores reveal no more as it is"),)
    bounded, preparation = _bound_label_effect(spec)
    remedies = []
    if (noise := _required_noise(bounded, queries, accuracy)) is not None:
        # Rounded up to three significant digits, so that the printed value suffices as well.
        step = 10.0 ** (math.floor(math.log10(noise)) - 2)
        sigma = float(f"{math.ceil(noise / step) * step:.3g}")
        says = f"{preparation}add Gaussian noise of standard deviation {sigma:g} to every score"
        remedies.append(Remedy(replace(bounded, noise=sigma, noise_kind="gaussian"), queries, 0.0, says))
    if (decimals := _allowed_decimals(bounded, queries, accuracy)) is not None:
        says = f"{preparation}show at most {decimals} decimals of a score"
        remedies.append(Remedy(replace(bounded, decimals=decimals), queries, 0.0, says))
    if (cap := _query_cap(bounded, accuracy)) is not None:
        says = f"{preparation}answer at most {cap} {'query' if cap == 1 else 'queries'} in total"
        remedies.append(Remedy(bounded, cap, 0.0, says))
    # Whoever sees every label as it is scored is right as often as it was left alone.
    flip = math.ceil((1 - accuracy) * 1e4) / 1e4
    says = (
        f"score against labels each replaced by another one with probability {flip:g}, once and for all before the "
        "first query; then any number of queries may be answered"
    )
    return (*remedies, Remedy(spec, None, flip, says))


def _bound_label_effect(spec: OracleSpec) -> tuple[OracleSpec, str]:
    """Return an oracle that bounds the effect of one label, and the advice that leads there."""
    if spec.name == "log_loss":
        clip = max(spec.epsilon, _RECOMMENDED_CLIP)
        advice = "" if clip == spec.epsilon else f"clip predictions into [{clip:g}, {1 - clip:g}] and "
        return replace(spec, clip=clip), advice
    if math.isfinite(max_label_effect(spec)) or math.isfinite(answer_range(spec)):
        return spec, ""
    reason = f"{spec.name} has no bound on the effect of one label"
    if spec.name in ("mse", "rmse", "rmsle"):
        bounded = replace(spec, metric="squared_euclidean", submission="positive")
        return bounded, f"{reason}: score the mean squared error of predictions clipped into [0, 1], and "
    low, high = _RECOMMENDED_CLIP, 1 - _RECOMMENDED_CLIP
    submission = "rows" if spec.submission == "labels" else spec.submission
    bounded = replace(spec, metric="log_loss", clip=low, submission=submission)
    return bounded, f"{reason}: score the log loss of probabilities clipped into [{low:g}, {high:g}], and "


@dataclass(frozen=True, slots=True)
class MenuItem:
    """One defence: its protection and its cost.

    Args:
        name: "as it is", "private split", "submissions per day", "rounding", "minimum gain" or "ladder".
        setting: what it is set to.
        queries: submissions that an attacker has in a season.
        readable: no attacker determines more labels than this in a season, on average over balanced labels: bits that
            the answers can hold. Single answers may be lucky: a perfect score tells every label.
        read: labels that our own attack gets right beyond guessing; None where no attack of ours is known.
        cost: Kendall's τ between the ranking shown and that by exact scores on all rows; 1: the same. None where the
            metric is known by its range only.
    """

    name: str
    setting: str
    queries: int
    readable: int
    read: int | None
    cost: Estimate | None


def menu(
    spec: OracleSpec,
    *,
    days: int = _SEASON.days,
    per_day: int = _SEASON.per_day,
    public: float = _SEASON.public,
    decimals: int = _SEASON.decimals,
    step: float | None = _SEASON.step,
    seed: int = _SEASON.seed,
) -> tuple[MenuItem, ...]:
    """Measure what the usual defences protect in a season, and what they cost the ranking.

    Args:
        spec: the oracle as it is now, with all rows scored.
        days: length of the season.
        per_day: submissions that a team has a day.
        public: share of the rows that a public leaderboard scores; the final ranking is by the others.
        decimals: to which scores are rounded.
        step: minimum gain, with which a new score is shown only when it beats the team's best by this much, and step
            of the Ladder (Blum and Hardt, 2015), which shows it rounded to steps besides; by default 1 (or the range of
            a score, if that is less) over twice the root of n.
        seed: of simulated labels, submissions and noise.

    Raises:
        divulge.InputError: an argument outside its range, or an oracle with a hidden split already.

    Examples:
        >>> for item in menu(OracleSpec(n=200, clip=1e-15, decimals=5), days=10)[:3]:
        ...     print(item.name, item.queries, item.readable, item.read)
        as it is 50 200 200
        private split 50 60 60
        submissions per day 10 200 150
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    SeasonSettings.check(days=days, per_day=per_day, public=public, decimals=decimals, step=step, seed=seed)
    if spec.scored != "all":
        raise InputError(f"scored: the menu starts from an oracle that scores all rows, got {spec.scored}")
    season = days * per_day
    n_public = round(public * spec.n)
    if not 0 < n_public < spec.n:
        raise InputError(f"public: of {spec.n} rows, {public:g} leaves {n_public} public; both parts need a row")
    if step is None:
        width = answer_range(spec)
        step = min(width, 1.0) / (2 * math.sqrt(spec.n))
    step = check_number(step, "step", above=0.0)

    def item(
        name: str, setting: str, changed_spec: OracleSpec, queries: int, cost: ShownScores, max_labels: int
    ) -> MenuItem:
        correlation = rank_correlation(spec, cost, seed=seed)
        # So many answers can hold no more labels than their values, or the noise as a channel, allow.
        bits = answer_bits(changed_spec)
        if changed_spec.noise:
            bits = min(bits, capacity(replace(changed_spec, decimals=None)).bits_per_query)
        held = math.floor(queries * bits / math.log2(changed_spec.classes) + 1e-9)
        readable = min(max_labels, changed_spec.n, held)
        return MenuItem(name, setting, queries, readable, _count_read_labels(changed_spec, queries, seed), correlation)

    coarse = replace(spec, decimals=decimals if spec.decimals is None else min(decimals, spec.decimals))
    split = replace(spec, scored=n_public) if not isinstance(spec.metric, KnownRange) else spec
    plain = defended_scores(spec)
    return (
        item("as it is", f"{per_day} submissions a day for {days} days", spec, season, plain, spec.n),
        item(
            "private split", f"{n_public} of {spec.n} rows are public", split, season,
            defended_scores(spec, share=public), n_public,
        ),
        item("submissions per day", "1 submission a day", spec, days, plain, spec.n),
        item(
            "rounding", f"{coarse.decimals} decimals", coarse, season, defended_scores(coarse), spec.n,
        ),
        MenuItem(
            "minimum gain",
            f"a new score only {step:.3g} better than the team's best",
            season,
            min(spec.n, _readable_through_gains(spec, step, season)),
            _count_read_through_ladder(spec, step, season, seed, in_steps=False),
            rank_correlation(spec, plain, seed=seed),
        ),
        MenuItem(
            "ladder",
            f"the same, in steps of {step:.3g}",
            season,
            min(spec.n, _readable_through_ladder(spec, step, season)),
            _count_read_through_ladder(spec, step, season, seed, in_steps=True),
            rank_correlation(spec, defended_scores(spec, step=step), seed=seed),
        ),
    )  # fmt: skip


def _readable_through_ladder(spec: OracleSpec, step: float, queries: int) -> int:
    """Return the labels that a Ladder's answers can hold: they only improve, on a grid, so sequences are few."""
    width = answer_range(spec)
    if not math.isfinite(width):
        return spec.n
    levels = math.floor(width / step + 1e-9) + 3
    bits = (math.lgamma(queries + levels + 1) - math.lgamma(queries + 1) - math.lgamma(levels + 1)) / math.log(2)
    return math.floor(bits / math.log2(spec.classes) + 1e-9)


def _readable_through_gains(spec: OracleSpec, step: float, queries: int) -> int:
    """Return the labels that the best scores so far can hold, each at least a step better than the one before.

    k times the best changes, at some k of the queries, to one of the values there are: at most ``C(Q, k)·V^k/k!`` ways.
    """
    width = answer_range(spec)
    if not math.isfinite(width):
        return spec.n
    most = min(queries, math.floor(width / step + 1e-9) + 1)
    value_bits, k = answer_bits(spec), np.arange(most + 1)
    ways = special.gammaln(queries + 1) - 2 * special.gammaln(k + 1) - special.gammaln(queries - k + 1)
    bits = special.logsumexp(ways + k * value_bits * math.log(2)) / math.log(2)
    return math.floor(bits / math.log2(spec.classes) + 1e-9)


def _count_read_labels(spec: OracleSpec, queries: int, seed: int) -> int | None:
    """Count the labels that our plan reads with so many queries of a simulated oracle."""
    plans = []
    for method in ("auto", "positional"):
        try:
            plans.append(design(spec, method))
        except InputError:
            continue
    if not plans:
        return None
    best = min(plans, key=lambda plan: plan.count)
    rows = spec.n if isinstance(spec.scored, str) else spec.scored
    if spec.n > _MAX_MEASURED_ROWS:
        # A plan with shared queries tells little before its end; one query after the other tells its share.
        return rows if best.count <= queries else rows * queries // plans[-1].count
    rng = seeds.generator(seed, "labels", "menu")
    y = rng.integers(0, spec.classes, spec.n)
    y[:2] = np.arange(2)[: spec.n]
    scored = rng.permutation(spec.n) < rows
    truth = np.where(scored, y, -1)
    return max(
        _count_right_labels(plan, LocalOracle(spec, y, seed, scored=scored), truth, queries)
        for plan in (best, plans[-1])
    )


def _count_right_labels(plan: QueryPlan, oracle: LocalOracle, truth: Ints, queries: int) -> int:
    """Count labels of scored rows read right after so many answers, beyond chance where they are guesses."""
    answers = np.full(plan.count, np.nan)
    for index in range(min(queries, plan.count)):
        query = plan.query_after(index, answers)
        if query is None:
            break
        answers[index] = oracle(query)
    reading = plan.inner.read(answers)
    is_read = reading.proven if plan.spec.noise_kind == "bounded" else np.ones(len(truth), dtype=bool)
    right = int((is_read & (reading.labels == truth) & (truth >= 0)).sum())
    if plan.spec.noise_kind == "bounded":
        return right
    # Guesses under noise: those right beyond what guessing gets.
    chance = len(truth) / plan.spec.classes
    return max(0, round((right - chance) / (1 - 1 / plan.spec.classes)))


def _count_read_through_ladder(spec: OracleSpec, step: float, queries: int, seed: int, *, in_steps: bool) -> int | None:
    """Count labels read one at a time: flipping a row's prediction improves the score only if it was wrong.

    Args:
        spec: the oracle.
        step: minimum gain.
        queries: how many are asked.
        seed: of the labels.
        in_steps: as the Ladder shows scores; else as they are, to the oracle's decimals.
    """
    is_count = single_rows.depends_on_counts(spec)
    if spec.classes != 2 or spec.noise or spec.n > _MAX_MEASURED_ROWS or not (spec.adds_up or is_count):
        return None
    if not math.isfinite(answer_range(spec)):
        return None
    y = seeds.generator(seed, "labels", "menu").integers(0, 2, spec.n)
    y[:2] = np.arange(2)[: spec.n]
    local = LocalOracle(replace(spec, decimals=None), y, seed)
    score = (lambda p: 1 - local(p)) if is_count else local
    ladder = Ladder(score, step) if in_steps else _MinimumGain(score, step, spec.decimals)
    preferences = np.zeros(spec.n)
    best = ladder(_preferred_predictions(spec, preferences))
    n_rows_asked = min(queries - 1, spec.n)
    for row in range(n_rows_asked):
        preferences[row] = 1.0
        answer = ladder(_preferred_predictions(spec, preferences))
        if answer == best:
            preferences[row] = 0.0
        best = answer
    if not preferences.any():
        return 0  # no row showed
    right = int((preferences[:n_rows_asked] == y[:n_rows_asked]).sum())
    return max(0, 2 * right - n_rows_asked)


@dataclass(slots=True)
class _MinimumGain:
    """The best score so far, where a new one has to beat it by a step; smaller is better."""

    oracle: Callable[[Array], float]
    step: float
    decimals: int | None
    best: float = math.inf

    def __call__(self, predictions: Array) -> float:
        score = self.oracle(predictions)
        # An endpoint's floats may fall on either side where a gain is just as large as the step.
        if score <= self.best - self.step + 1e-12:
            self.best = score
        return self.best if self.decimals is None else round(self.best, self.decimals)


def _preferred_predictions(spec: OracleSpec, preferences: Floats) -> Array:
    """Return the most confident predictions of label 1 where the preference is 1, and of label 0 elsewhere."""
    if single_rows.depends_on_counts(spec):
        return preferences if spec.name in COUNT_METRICS else preferences.astype(np.int64)
    loss = spec.loss()
    return loss.predict(loss.two_sided * (1 - 2 * preferences), np.arange(2))


def rank_correlation(
    spec: OracleSpec, show_scores: ShownScores, *, teams: int = TEAMS, seed: int = 0
) -> Estimate | None:
    """Return Kendall's τ-b between the ranking by exact scores on all rows and the ranking that is shown.

    In each simulated competition the labels are drawn evenly. The evidence that a team has of a label is normal with
    unit variance, half of it shared by all teams, and a mean of 0.2 to 1.5, the team's skill.

    Args:
        spec: the oracle as it is; its noise and rounding belong to what is shown, not to the exact scores.
        show_scores: the scores shown for these labels and teams.
        teams: submissions that are ranked, one a team.
        seed: of everything that is drawn.

    Returns:
        The mean over competitions, with Student's interval; None where no submissions can be made up: nothing is known
        of the metric but its range, or there are too many rows to simulate.
    """
    check_integer(teams, "teams", minimum=3)
    if isinstance(spec.metric, KnownRange) or spec.n * spec.classes > _MAX_SIMULATED_SIZE:
        return None
    fewest, largest = _N_COMPETITIONS
    competitions = int(np.clip(_N_PREDICTIONS // (spec.n * teams * spec.classes), fewest, largest))
    correlations = []
    for number in range(competitions):
        rng = seeds.generator(seed, "labels", "ranking", number)
        y = rng.integers(0, spec.classes, spec.n)
        evidence = draw_evidence(y, spec.classes, teams, rng)
        scores = np.array([team_score(spec, y, team) for team in evidence])
        exact = scores if is_larger_better(spec) else -scores
        correlation = float(stats.kendalltau(exact, show_scores(spec, y, evidence, rng)).statistic)
        # A ranking in which all teams are tied orders nobody.
        correlations.append(0.0 if math.isnan(correlation) else correlation)
    method = f"Student's t over {competitions} simulated competitions of {teams} teams"
    mean = mean_estimate(correlations, _CONFIDENCE, method)
    return replace(mean, low=max(mean.low, -1.0), high=min(mean.high, 1.0))  # τ lies in [-1, 1]


def draw_evidence(y: Ints, classes: int, teams: int, rng: np.random.Generator) -> list[Floats]:
    """Draw each team's evidence of the labels: log-probabilities of the classes, ``[n, K]`` each."""
    shared = rng.normal(size=(len(y), classes))
    evidence = []
    for skill in np.linspace(0.2, 1.5, teams):
        observed = (shared + rng.normal(size=shared.shape)) / math.sqrt(2)
        observed[np.arange(len(y)), y] += skill
        evidence.append(special.log_softmax(skill * observed, axis=1))
    return evidence


def team_submission(spec: OracleSpec, evidence: Floats) -> Array:
    """Return the predictions that a team submits to this oracle."""
    probabilities = np.exp(evidence)
    metric = spec.metric
    if isinstance(metric, Evaluated):
        if spec.submission == "labels":
            return evidence.argmax(axis=1)
        return probabilities if spec.submission == "rows" else probabilities[:, 1]
    if spec.name in (*COUNT_METRICS, *RATIO_METRICS):
        if spec.name == "map_at_k":
            return np.argsort(-evidence, axis=1)[:, :3]
        if spec.name in ("auc", "r2"):
            return probabilities[:, 1]
        return evidence.argmax(axis=1)
    if spec.name == "softmax_cross_entropy":
        return evidence
    if spec.name == "sigmoid_cross_entropy":
        return evidence[:, 1] - evidence[:, 0]
    if isinstance(metric, Linear):
        return metric.low + probabilities[:, 1] * (metric.high - metric.low)
    return probabilities if spec.loss().shape else probabilities[:, 1]


def team_score(spec: OracleSpec, y: Ints, evidence: Floats) -> float:
    """Return a team's score without noise and rounding; 0 where it overflows or is undefined for these labels."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            value = compute_score(spec, y, team_submission(spec, evidence))
    except InputError:  # such as AUC where all labels are alike
        return 0.0
    return value if math.isfinite(value) else 0.0


def is_larger_better(spec: OracleSpec) -> bool:
    """Return True if better predictions score higher; a function is taken to be a score, not a loss."""
    return spec.name in (*COUNT_METRICS, *RATIO_METRICS) or isinstance(spec.metric, Evaluated)


def noisy_score(spec: OracleSpec, exact: float, rng: np.random.Generator) -> float:
    """Return a score with the noise and the rounding of the oracle."""
    draws = {
        "bounded": lambda: rng.uniform(-spec.noise, spec.noise),
        "gaussian": lambda: rng.normal(0, spec.noise),
        "laplace": lambda: rng.laplace(0, spec.noise),
    }
    value = exact + (float(draws[spec.noise_kind]()) if spec.noise else 0.0)
    return value if spec.decimals is None else round(value, spec.decimals)


def defended_scores(defended: OracleSpec, flip: float = 0.0, share: float = 1.0, step: float = 0.0) -> ShownScores:
    """Return a function that gives the scores a defended oracle shows for the teams' first submissions.

    Args:
        defended: the oracle as it would be.
        flip: chance with which each label was replaced by another one.
        share: share of the rows that is public.
        step: of a Ladder; 0: none.
    """

    def show_scores(_: OracleSpec, y: Ints, evidence: list[Floats], rng: np.random.Generator) -> Floats:
        wrong = rng.random(len(y)) < flip
        labels = np.where(wrong, (y + rng.integers(1, defended.classes, len(y))) % defended.classes, y)
        public = rng.permutation(len(y))[: max(2, round(share * len(y)))] if share < 1 else np.arange(len(y))
        scores = [noisy_score(defended, team_score(defended, labels[public], team[public]), rng) for team in evidence]
        values = np.round(np.array(scores) / step) * step if step else np.array(scores)
        return values if is_larger_better(defended) else -values

    return show_scores


@dataclass(frozen=True, slots=True)
class Capacity:
    """Upper bounds on what one query can leak.

    Args:
        labels_per_query: upper bound, whatever the query; on average over balanced labels, and in the worst case.
        bits_per_query: the same in bits.
        threshold: a single label can be read for certain as long as an answer's error stays below this (of metrics
            that need both classes: where both occur), and may be beyond; NaN where no such limit is known.
        queries: at least this many queries are needed for all n labels.
        binds: what limits: "noise", "rounding", "float arithmetic" or "number of labels".
        span: loss difference R that one label can make; infinity for losses on logits.
    """

    labels_per_query: float
    bits_per_query: float
    threshold: float
    queries: int
    binds: str
    span: float

    def __str__(self) -> str:
        bound = (
            f"at most {self.labels_per_query:.4g} labels per query ({self.binds} limits), "
            f"so at least {self.queries} queries"
        )
        if math.isnan(self.threshold):
            return bound
        return f"{bound}; one label is readable while errors stay below {self.threshold:.3g}"


def capacity(spec: OracleSpec) -> Capacity:
    """Return an upper bound on what one answer of this oracle reveals about the labels.

    It bounds what a plan can be sure to read, whatever the labels and the noise are, and what it reads on average over
    balanced labels (and noise spread evenly within its bound); a lucky answer may tell more, as a perfect score does.
    Bounded noise τ: two answers tell labellings apart for certain only when they lie further than 2τ apart, and the
    mean loss of any prediction varies by at most R: ``log2(1 + R/(2τ))`` bits. Rounding to steps of s alone:
    ``log2(2 + R/s)``, for the range may begin just below an edge between two steps. Gaussian noise: the
    capacity of the channel, ``½ log2(1 + n (R/2)²/(n σ)²)`` with every label swinging the sum by ±R/2; of F1 and AUC,
    which are no sums, ``½ log2(1 + (1/2)²/σ²)``.
    Laplace noise: the same with its standard deviation, plus the 0.11 bit by which its entropy stays below that
    of a Gaussian. Counting metrics: the logarithm of the number of different answers. A loss without a bound: the bits
    of a float.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> capacity(OracleSpec(n=198, clip=1e-15, decimals=5)).queries
        10
    """
    check_instance(spec, "spec", OracleSpec, "a labels.OracleSpec")
    if spec.name not in ("accuracy", "f1", "auc") and not spec.adds_up:
        return _range_capacity(spec)
    span, units = _loss_range(spec)
    counting = spec.name in ("accuracy", "f1", "auc")
    floor = 0.0 if counting else _smallest_float_error(spec, span)
    grid = 2 * max(spec.rounding, floor)
    per_label = span / units
    if spec.noise_kind != "bounded":
        # F1 and AUC are no sums: labels may move them together, within half their range.
        signal = 0.25 if spec.name in ("f1", "auc") else spec.most_scored * (per_label / 2) ** 2
        bits = 0.5 * math.log2(1 + signal / _noise_deviation(spec) ** 2) + (
            0.11 if spec.noise_kind == "laplace" else 0.0
        )
        binds = "noise"
        if grid and (rounded := math.log2(2 + span * spec.most_scored / units / grid)) < bits:
            bits, binds = rounded, "rounding" if spec.rounding > floor else "float arithmetic"
    else:
        bits = _bounded_noise_bits(spec, span, units, grid)
        parts = {"noise": spec.noise, "rounding": spec.rounding, "float arithmetic": floor}
        binds = max(parts, key=lambda name: parts[name]) if any(parts.values()) else "number of labels"
    # Of a split, every row is also asked whether it is scored at all, by the difference of two answers.
    split = spec.scored != "all"
    each = math.log2(spec.classes + split)
    bits = min(bits, spec.n * each)
    threshold = max(per_label / (4 if split else 2), single_rows.error_limit(spec))
    labels = bits / each
    queries = math.ceil(spec.n / labels - 1e-9) if labels > 0 else 0
    return Capacity(labels, bits, threshold, queries, binds, span)


def _range_capacity(spec: OracleSpec) -> Capacity:
    """Return the capacity that the range of a score, its decimals and its noise alone leave."""
    width = answer_range(spec)
    bits, binds = answer_bits(spec), "rounding" if spec.decimals is not None else "float arithmetic"
    if spec.decimals is not None and isinstance(spec.metric, Evaluated | KnownRange) and math.isfinite(width):
        bits = math.log2(distinct_answers(spec.metric.low, spec.metric.high, spec.decimals))
    if spec.noise and math.isfinite(width):
        if spec.noise_kind == "bounded":
            noisy = math.log2(1 + width / (2 * spec.noise))
        else:
            # The answers vary by half the range at most, and a Gaussian has the most entropy of that variance.
            noisy = 0.5 * math.log2(1 + (width / 2 / _noise_deviation(spec)) ** 2)
            noisy += 0.11 if spec.noise_kind == "laplace" else 0.0
        bits, binds = min((bits, binds), (noisy, "noise"))
    if spec.n * math.log2(spec.classes) <= bits:
        bits, binds = spec.n * math.log2(spec.classes), "number of labels"
    labels = bits / math.log2(spec.classes)
    queries = math.ceil(spec.n / labels - 1e-9) if labels > 0 else 0
    return Capacity(labels, bits, single_rows.error_limit(spec) or math.nan, queries, binds, width)


def _noise_deviation(spec: OracleSpec) -> float:
    """Return the standard deviation of the noise before rounding, which hides less than as much noise would."""
    return replace(spec, decimals=None).sigma


def distinct_answers(low: float, high: float, decimals: int) -> int:
    """Return the number of different scores from ``low`` to ``high`` that can appear at so many decimals.

    Examples:
        >>> distinct_answers(0, 1, 5), distinct_answers(-1, 1, 2), distinct_answers(0, 0.004, 2)
        (100001, 201, 1)
    """
    check_integer(decimals, "decimals", minimum=0, maximum=300)
    low, high = check_number(low, "low"), check_number(high, "high")
    step = Fraction(1, 10**decimals)
    # The nearest multiples of the step; at a tie either of them may be shown.
    lowest_step = math.ceil(Fraction(low) / step - Fraction(1, 2))
    highest_step = math.floor(Fraction(high) / step + Fraction(1, 2))
    return highest_step - lowest_step + 1


def information_bound(n: int, *, low: float, high: float, decimals: int | None, classes: int = 2) -> Capacity:
    """Return the most labels per query that a score of this range and these decimals reveals, whatever the metric.

    Answers that are one of m numbers tell ``log2 m`` bits at most, and a label of K classes holds ``log2 K``. So
    Q queries, adaptive or not, determine no more than ``Q·log2 m / log2 K`` labels on average over balanced labels, nor
    for certain, whatever the labels. Without decimals a score counts as
    one double, 64 bits.

    Examples:
        >>> print(information_bound(2201, low=0, high=1, decimals=5))
        at most 16.61 labels per query (rounding limits), so at least 133 queries
    """
    return capacity(OracleSpec(KnownRange(low, high), n=n, classes=classes, decimals=decimals))


def _loss_range(spec: OracleSpec) -> tuple[float, float]:
    """Return the loss range R, and the divisor that turns a sum over rows into an answer."""
    if spec.name in ("accuracy", "f1"):
        return 1.0, float(spec.most_scored)
    if spec.name == "auc":
        return 1.0, float(spec.n)
    # A weighted mean is divided by the sum of the weights.
    units = spec.most_scored * min(spec.class_weight or (1.0,)) if spec.reduction == "mean" else 1.0
    return spec.loss().largest, float(units)


def _bounded_noise_bits(spec: OracleSpec, span: float, units: float, grid: float) -> float:
    if not math.isfinite(span):
        return float(np.finfo(spec.float_dtype).bits)
    width, n_answers = span * spec.most_scored / units, math.inf
    if spec.name in COUNT_METRICS:
        width, n_answers = 1.0, _count_values(spec)
    if spec.noise:
        n_answers = min(n_answers, 1 + width / (2 * spec.noise))
    if grid:
        # Steps may begin just below an answer; those of a counting metric begin at 0 and end at 1, as its values do.
        aligned = spec.name in COUNT_METRICS and not spec.noise
        n_answers = min(n_answers, (1 if aligned else 2) + width / grid)
    return math.log2(n_answers) if math.isfinite(n_answers) else math.inf


def _count_values(spec: OracleSpec) -> float:
    """Return the most values that a counting metric takes for one submission, over all labels."""
    n = spec.n
    if spec.name == "accuracy":
        return spec.most_scored + 1 if spec.scored != "unknown" else n**2
    if spec.name == "f1":
        # 0, or 2·hits/(p + ones) with p predicted ones: hits from 1 to p, and ones from hits to hits + n - p.
        return 1 + (n + 1) ** 2 // 4
    # 0, 1, or a half-integer over ones·zeros, the same for ones as many as there were zeros.
    half = n // 2
    return 2 + n * half * (half + 1) - half * (half + 1) * (2 * half + 1) // 3 - half


def _smallest_float_error(spec: OracleSpec, span: float) -> float:
    """Return the smallest error of the oracle's floats: half a unit in the last place of an answer of n idle rows."""
    if not math.isfinite(span):
        return 0.0
    idle = float(spec.loss().table(spec.loss().predict(np.zeros(1), np.arange(spec.classes)))[0, 0])
    total = spec.n * max(idle, 1e-12)
    rounding = float(metrics.mean_rounding(spec.n, total, spec.float_dtype))
    return rounding / (spec.n if spec.reduction == "mean" else 1.0)


def max_accuracy(spec: OracleSpec, queries: int) -> float:
    """Return the mean accuracy that no attacker with this many queries exceeds; 1 where no bound is known.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> round(max_accuracy(OracleSpec(n=2201, noise=0.652, noise_kind="gaussian"), 100), 3)
        0.55
        >>> max_accuracy(OracleSpec(n=2201, clip=None, noise=0.652, noise_kind="gaussian"), 100)
        1.0
    """
    bounds = [counting_bound(spec, queries)]
    effect = max_label_effect(spec)
    if spec.noise_kind != "bounded" and spec.noise and math.isfinite(effect):
        bounds.append(
            chance_accuracy(spec)
            + (1 - chance_accuracy(spec)) * total_variation(spec, effect, queries)
            + imbalance_probability(spec)
        )
    return min(1.0, *bounds)


def chance_accuracy(spec: OracleSpec) -> float:
    """Return the accuracy of guessing."""
    return 1 / spec.classes


def total_variation(spec: OracleSpec, distance: float, queries: int) -> float:
    """Return the total variation between all answers under two labels of a row, at most ``distance`` apart each.

    Gaussian noise: 2Φ(√Q·one/(2σ)) - 1 (Dong, Roth, Su, "Gaussian differential privacy", 2022). Laplace noise: at
    most √(1 - ρ^2Q), with ρ = exp(-t)(1 + t), t = one/(2b), the affinity of two answers.
    """
    if spec.noise_kind == "gaussian":
        return 2 * _STANDARD_NORMAL.cdf(math.sqrt(queries) * distance / (2 * spec.noise)) - 1
    t = distance / (2 * spec.noise)
    return math.sqrt(max(-math.expm1(2 * queries * (math.log1p(t) - t)), 0.0))


def max_label_effect(spec: OracleSpec) -> float:
    """Return the largest change of an answer by one label (for F1 and AUC: unless `imbalance_probability`).

    F1 and AUC are ratios over the ones (and zeros) among the other labels, which number a quarter of the rows at
    least but in rare cases.
    """
    m = spec.most_scored
    quarter = (m - 1) / 4
    if spec.name in COUNT_METRICS:
        ratios = {"accuracy": 1 / m, "f1": 2 / max(quarter, 1.0), "auc": 1 / (quarter + 1)}
        return min(ratios[spec.name], 1.0)
    if not spec.adds_up:
        return math.inf  # one label more or less of a rare class may change such a ratio by any amount
    loss_difference = max_loss_difference(spec)
    if spec.reduction == "sum":
        return loss_difference
    # The mean over weighted rows: both its parts move, and the weights may all be the smaller one.
    weights = spec.class_weight or (1.0,)
    return loss_difference * max(weights) / (m * min(weights))


def imbalance_probability(spec: OracleSpec) -> float:
    """Return the probability that labels are less balanced than `max_label_effect` assumes (Hoeffding)."""
    sides = {"f1": 1, "auc": 2}.get(spec.name, 0)
    return sides * math.exp(-(spec.most_scored - 1) / 8)


def max_loss_difference(spec: OracleSpec) -> float:
    """Return the largest difference that two labels of one row make in its loss, over all predictions, or infinity."""
    metric = spec.metric
    if isinstance(metric, Linear):
        ends = np.array([metric.low, metric.high])
        return float(np.abs(np.asarray(metric.loss(ends, 1)) - np.asarray(metric.loss(ends, 0))).max())
    if isinstance(metric, Metric) and metric.name in ("norm_like", "mahalanobis"):
        return metric.parameter
    if spec.name == "log_loss" and spec.epsilon:
        return math.log1p(-spec.epsilon) - math.log(spec.epsilon)
    return {"mae": 1.0, "squared_euclidean": 1.0 if spec.classes == 2 else 2.0}.get(spec.name, math.inf)


def answer_range(spec: OracleSpec) -> float:
    """Return the largest distance of two answers to the same query, over all labels."""
    metric = spec.metric
    if isinstance(metric, Evaluated | KnownRange):
        return metric.high - metric.low
    if spec.name in _METRIC_RANGES:
        return _METRIC_RANGES[spec.name]
    return max_loss_difference(spec) * (spec.most_scored if spec.reduction == "sum" else 1.0)


def answer_bits(spec: OracleSpec) -> float:
    """Return the most bits that one answer can tell: the logarithm of the number of answers there are."""
    if spec.decimals is None or not math.isfinite(answer_range(spec)):
        return FLOAT_BITS
    return min(math.log2(2 + answer_range(spec) * 10.0**spec.decimals), FLOAT_BITS)


def required_bits(spec: OracleSpec, accuracy: float) -> float:
    """Return the bits needed to be this accurate about all rows (Fano)."""
    wrong = 1 - accuracy
    entropy = sum(-p * math.log2(p) for p in (accuracy, wrong) if p > 0)
    return spec.most_scored * (math.log2(spec.classes) - entropy - wrong * math.log2(max(spec.classes - 1, 1)))


def counting_bound(spec: OracleSpec, queries: int) -> float:
    """Return the accuracy for which all answers together carry just enough bits."""
    available_bits = queries * answer_bits(spec)
    low, high = chance_accuracy(spec), 1.0
    if required_bits(spec, high) <= available_bits:
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if required_bits(spec, middle) <= available_bits else (low, middle)
    return high
