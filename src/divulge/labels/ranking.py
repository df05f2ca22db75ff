"""What a defence costs: how far it moves the ranking of simulated submissions (Kendall's τ)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import special, stats

from divulge import seeds
from divulge.errors import InputError
from divulge.labels.evaluated import Evaluated, KnownRange
from divulge.labels.losses import Linear
from divulge.labels.oracles import score
from divulge.labels.spec import COUNTS, RATIOS
from divulge.types import Estimate
from divulge.validation import check_integer

if TYPE_CHECKING:
    from divulge.labels.spec import OracleSpec
    from divulge.types import Array, Floats, Ints

TEAMS = 30
_COMPETITIONS = (4, 20)  # fewest and most that are simulated
_NUMBERS = 2_000_000  # predictions simulated, about
_MOST_ROWS = 200_000
_CONFIDENCE = 0.95

Shown: TypeAlias = "Callable[[OracleSpec, Ints, list[Floats], np.random.Generator], Floats]"


def rank_correlation(spec: OracleSpec, shown: Shown, *, teams: int = TEAMS, seed: int = 0) -> Estimate | None:
    """Kendall's τ-b between the ranking by exact scores on all rows and the ranking that is shown.

    In each simulated competition the labels are drawn evenly. The evidence that a team has of a label is normal with
    unit variance, half of it shared by all teams, and a mean of 0.2 to 1.5, the team's skill.

    Args:
        spec: the oracle as it is; its noise and rounding belong to what is shown, not to the exact scores.
        shown: the scores shown for these labels and teams.
        teams: submissions that are ranked, one a team.
        seed: of everything that is drawn.

    Returns:
        The mean over competitions, with Student's interval; None where no submissions can be made up: nothing is known
        of the metric but its range, or there are too many rows to simulate.
    """
    check_integer(teams, "teams", least=3)
    if isinstance(spec.metric, KnownRange) or spec.n * spec.classes > _MOST_ROWS:
        return None
    few, many = _COMPETITIONS
    competitions = int(np.clip(_NUMBERS // (spec.n * teams * spec.classes), few, many))
    correlations = []
    for number in range(competitions):
        rng = seeds.generator(seed, "labels", "ranking", number)
        y = rng.integers(0, spec.classes, spec.n)
        evidence = draw_evidence(y, spec.classes, teams, rng)
        exact = np.array([_quality(spec, y, one) for one in evidence])
        found = float(stats.kendalltau(exact, shown(spec, y, evidence, rng)).statistic)
        correlations.append(0.0 if math.isnan(found) else found)  # a ranking in which all are tied orders nobody
    mean, spread = float(np.mean(correlations)), float(np.std(correlations, ddof=1)) / math.sqrt(competitions)
    half = spread * float(stats.t.ppf((1 + _CONFIDENCE) / 2, competitions - 1))
    method = f"Student's t over {competitions} simulated competitions of {teams} teams"
    return Estimate(mean, max(mean - half, -1.0), min(mean + half, 1.0), _CONFIDENCE, method)


def draw_evidence(y: Ints, classes: int, teams: int, rng: np.random.Generator) -> list[Floats]:
    """What every team knows of the labels: log-probabilities of the classes, ``[n, K]`` each."""
    shared = rng.normal(size=(len(y), classes))
    evidence = []
    for skill in np.linspace(0.2, 1.5, teams):
        seen = (shared + rng.normal(size=shared.shape)) / math.sqrt(2)
        seen[np.arange(len(y)), y] += skill
        evidence.append(special.log_softmax(skill * seen, axis=1))
    return evidence


def submission(spec: OracleSpec, evidence: Floats) -> Array:
    """What a team submits to this oracle."""
    probabilities = np.exp(evidence)
    metric = spec.metric
    if isinstance(metric, Evaluated):
        if spec.submission == "labels":
            return evidence.argmax(axis=1)
        return probabilities if spec.submission == "rows" else probabilities[:, 1]
    if spec.name in (*COUNTS, *RATIOS):
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


def exact_score(spec: OracleSpec, y: Ints, evidence: Floats) -> float:
    """The score of a team, without noise and rounding; 0 where it overflows or is not defined for these labels."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            value = score(spec, y, submission(spec, evidence))
    except InputError:  # such as AUC where all labels are alike
        return 0.0
    return value if math.isfinite(value) else 0.0


def larger_is_better(spec: OracleSpec) -> bool:
    """Whether better predictions score higher; a function is taken to be a score, not a loss."""
    return spec.name in (*COUNTS, *RATIOS) or isinstance(spec.metric, Evaluated)


def noisy_score(spec: OracleSpec, exact: float, rng: np.random.Generator) -> float:
    """A score with the noise and the rounding of the oracle."""
    draws = {
        "bounded": lambda: rng.uniform(-spec.noise, spec.noise),
        "gaussian": lambda: rng.normal(0, spec.noise),
        "laplace": lambda: rng.laplace(0, spec.noise),
    }
    value = exact + (float(draws[spec.noise_kind]()) if spec.noise else 0.0)
    return value if spec.decimals is None else round(value, spec.decimals)


def defended_scores(defended: OracleSpec, flip: float = 0.0, share: float = 1.0, step: float = 0.0) -> Shown:
    """How an oracle with a defence shows the teams' first submissions.

    Args:
        defended: the oracle as it would be.
        flip: chance with which each label was replaced by another one.
        share: share of the rows that is public.
        step: of a Ladder; 0: none.
    """

    def shown(_: OracleSpec, y: Ints, evidence: list[Floats], rng: np.random.Generator) -> Floats:
        wrong = rng.random(len(y)) < flip
        labels = np.where(wrong, (y + rng.integers(1, defended.classes, len(y))) % defended.classes, y)
        public = rng.permutation(len(y))[: max(2, round(share * len(y)))] if share < 1 else np.arange(len(y))
        scores = [noisy_score(defended, exact_score(defended, labels[public], one[public]), rng) for one in evidence]
        values = np.round(np.array(scores) / step) * step if step else np.array(scores)
        return values if larger_is_better(defended) else -values

    return shown


def _quality(spec: OracleSpec, y: Ints, evidence: Floats) -> float:
    value = exact_score(spec, y, evidence)
    return value if larger_is_better(spec) else -value
