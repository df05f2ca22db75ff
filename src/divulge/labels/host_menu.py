"""The defences that hosts of competitions use: what each protects over a season, and what it costs the ranking."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import accuracy_bounds, ranking
from divulge.labels.capacity import capacity
from divulge.labels.design import design
from divulge.labels.evaluated import KnownRange
from divulge.labels.oracles import Ladder, LocalOracle
from divulge.labels.plans import QueryPlan
from divulge.labels.spec import OracleSpec
from divulge.types import Estimate
from divulge.validation import check_instance, check_integer, check_number

if TYPE_CHECKING:
    from divulge.types import Array, Floats, Ints

_MOST_MEASURED = 5_000  # rows of an attack that is run, not only counted


@dataclass(frozen=True, slots=True)
class MenuItem:
    """One defence: its protection and its cost.

    Args:
        name: "as it is", "private split", "submissions per day", "rounding" or "ladder".
        setting: what it is set to.
        queries: submissions that an attacker has in a season.
        readable: no attacker determines more labels than this in a season: bits that the answers can hold.
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
    days: int = 90,
    per_day: int = 5,
    public: float = 0.3,
    decimals: int = 3,
    step: float | None = None,
    seed: int = 0,
) -> tuple[MenuItem, ...]:
    """What the usual defences protect in a season, and what they cost.

    Args:
        spec: the oracle as it is now, with all rows scored.
        days: length of the season.
        per_day: submissions that a team has a day.
        public: share of the rows that a public leaderboard scores; the final ranking is by the others.
        decimals: to which scores are rounded.
        step: of the Ladder (Blum and Hardt, 2015), which shows a new score only when it beats the team's best by this
            much; by default 1 (or the range of a score, if that is less) over twice the root of n.
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
    check_integer(days, "days", least=1, most=10**6)
    check_integer(per_day, "per_day", least=1, most=10**6)
    check_number(public, "public", above=0.0, below=1.0)
    check_integer(decimals, "decimals", least=0, most=15)
    if spec.scored != "all":
        raise InputError(f"scored: the menu starts from an oracle that scores all rows, got {spec.scored}")
    season = days * per_day
    shown = round(public * spec.n)
    if not 0 < shown < spec.n:
        raise InputError(f"public: of {spec.n} rows, {public:g} leaves {shown} public; both parts need a row")
    if step is None:
        width = accuracy_bounds.spread(spec)
        step = min(width, 1.0) / (2 * math.sqrt(spec.n))
    step = check_number(step, "step", above=0.0)

    def item(name: str, setting: str, now: OracleSpec, queries: int, cost: ranking.Shown, most: int) -> MenuItem:
        found = ranking.rank_correlation(spec, cost, seed=seed)
        bound = min(most, _readable(now, queries))
        return MenuItem(name, setting, queries, bound, _read(now, queries, seed), found)

    coarse = replace(spec, decimals=decimals if spec.decimals is None else min(decimals, spec.decimals))
    split = replace(spec, scored=shown) if not isinstance(spec.metric, KnownRange) else spec
    plain = ranking.defended_scores(spec)
    return (
        item("as it is", f"{per_day} submissions a day for {days} days", spec, season, plain, spec.n),
        item(
            "private split", f"{shown} of {spec.n} rows are public", split, season,
            ranking.defended_scores(spec, share=public), shown,
        ),
        item("submissions per day", "1 submission a day", spec, days, plain, spec.n),
        item(
            "rounding", f"{coarse.decimals} decimals", coarse, season, ranking.defended_scores(coarse), spec.n,
        ),
        MenuItem(
            "ladder",
            f"a new score only {step:.3g} better than the team's best",
            season,
            min(spec.n, _readable_through_ladder(spec, step, season)),
            _read_through_ladder(spec, step, season, seed),
            ranking.rank_correlation(spec, ranking.defended_scores(spec, step=step), seed=seed),
        ),
    )  # fmt: skip


def _readable(spec: OracleSpec, queries: int) -> int:
    """Labels that so many answers can hold, by counting the answers there are (and by the noise's channel)."""
    bits = accuracy_bounds.bits(spec)
    if spec.noise:
        bits = min(bits, capacity(replace(spec, decimals=None)).bits_per_query)
    return min(spec.n, math.floor(queries * bits / math.log2(spec.classes) + 1e-9))


def _readable_through_ladder(spec: OracleSpec, step: float, queries: int) -> int:
    """Labels that a Ladder's answers can hold: they never get worse and lie on a grid, so there are few sequences."""
    width = accuracy_bounds.spread(spec)
    if not math.isfinite(width):
        return spec.n
    levels = math.floor(width / step + 1e-9) + 3
    bits = (math.lgamma(queries + levels + 1) - math.lgamma(queries + 1) - math.lgamma(levels + 1)) / math.log(2)
    return math.floor(bits / math.log2(spec.classes) + 1e-9)


def _read(spec: OracleSpec, queries: int, seed: int) -> int | None:
    """Labels that our plan reads with so many queries of a simulated oracle."""
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
    if spec.n > _MOST_MEASURED:
        # A plan with shared queries tells little before its end; one query after the other tells its share.
        return rows if best.count <= queries else rows * queries // plans[-1].count
    rng = seeds.generator(seed, "labels", "menu")
    y = rng.integers(0, spec.classes, spec.n)
    y[:2] = np.arange(2)[: spec.n]
    scored = None if spec.scored == "all" else rng.permutation(spec.n) < rows
    truth = y if scored is None else np.where(scored, y, -1)
    return max(_run(plan, LocalOracle(spec, y, seed, scored=scored), truth, queries) for plan in (best, plans[-1]))


def _run(plan: QueryPlan, oracle: LocalOracle, truth: Ints, queries: int) -> int:
    """Labels of scored rows that are read right after so many answers, beyond what is read wrong."""
    answers = np.full(plan.count, np.nan)
    for index in range(min(queries, plan.count)):
        question = plan.query_after(index, answers)
        if question is None:
            break
        answers[index] = oracle(question)
    reading = plan.inner.read(answers)
    told = reading.proven if plan.spec.noise_kind == "bounded" else np.ones(len(truth), dtype=bool)
    right = int((told & (reading.labels == truth) & (truth >= 0)).sum())
    if plan.spec.noise_kind == "bounded":
        return right
    # Guesses under noise: those right beyond what guessing gets.
    chance = len(truth) / plan.spec.classes
    return max(0, round((right - chance) / (1 - 1 / plan.spec.classes)))


def _read_through_ladder(spec: OracleSpec, step: float, queries: int, seed: int) -> int | None:
    """Labels read one at a time: a row's prediction turned round shows a better score only if that was right."""
    if spec.classes != 2 or spec.noise or spec.n > _MOST_MEASURED or not (spec.adds_up or spec.name == "accuracy"):
        return None
    if not math.isfinite(accuracy_bounds.spread(spec)):
        return None
    y = seeds.generator(seed, "labels", "menu").integers(0, 2, spec.n)
    local = LocalOracle(replace(spec, decimals=None), y, seed)
    ladder = Ladder((lambda p: 1 - local(p)) if spec.name == "accuracy" else local, step)
    preferences = np.zeros(spec.n)
    best = ladder(_sure(spec, preferences))
    asked = min(queries - 1, spec.n)
    for row in range(asked):
        preferences[row] = 1.0
        answer = ladder(_sure(spec, preferences))
        if answer == best:
            preferences[row] = 0.0
        best = answer
    right = int((preferences[:asked] == y[:asked]).sum())
    return max(0, 2 * right - asked)


def _sure(spec: OracleSpec, preferences: Floats) -> Array:
    """Predictions as sure as can be of label 1 where the preference is 1, of label 0 elsewhere."""
    if spec.name == "accuracy":
        return preferences
    loss = spec.loss()
    return loss.predict(loss.two_sided * (1 - 2 * preferences), np.arange(2))
