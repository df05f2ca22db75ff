"""Plans for noise without a bound: bounded equivalents for integer codes, and signs of a Hadamard matrix.

Beyond the reach of integer codes every query sets every row to full confidence in one label or the other, with the
signs of some rows of a Paley Hadamard matrix: the most energy a label can have in an answer. The labels come back by
orthogonal approximate message passing (the rows are orthogonal, so its linear step is a transpose), and a last polish
flips single labels while the fit improves. No decoder can do better per label than one who knows all others, which is
right with probability ``Φ(√Q·R/(2nσ))``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from divulge import seeds
from divulge.errors import InputError
from divulge.labels import metrics
from divulge.labels.oracles import FALSE_ALARM_RATE
from divulge.labels.plans import Certificate, QueryPlan, Reading
from divulge.validation import check_integer

if TYPE_CHECKING:
    from divulge.labels.oracles import OracleSpec
    from divulge.types import Array, Bools, Floats, Ints

_STEP_DEVIATIONS = 9.0  # one integer step in standard deviations: seven of them failed once in three runs
_MAX_ITERATIONS = 300
_MAX_FIT_SIZE = 10_000_000  # answers times rows; beyond, a fit takes long
_MIN_ORDER = 8  # of the matrix; in smaller ones labels hardly differ from an offset
_LEVEL = 1e-6  # of the lean of a loss, below which it is that of float errors
_MIN_QUERY_RATIO = 0.5  # message passing needs half as many queries as binary labels, and some more when they are few


def bounded_equivalent(spec: OracleSpec) -> OracleSpec:
    """Return the oracle with bounded noise whose plans serve this one: half a step is its bound.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> bounded_equivalent(OracleSpec(n=10, noise=0.1, noise_kind="gaussian")).noise
        0.45
    """
    scale = _STEP_DEVIATIONS / 2 if spec.noise_kind == "gaussian" else 13.0
    return replace(spec, noise=scale * spec.noise, noise_kind="bounded")


def plan_signs(spec: OracleSpec, queries: int | None) -> QueryPlan:
    """Return the sign design for noise too large for integer codes.

    Args:
        spec: the oracle; two classes.
        queries: how many to ask; by default enough that not one label in a hundred runs should be wrong.

    Raises:
        divulge.InputError: more than two classes, or an unbounded loss (which never needs this).
    """
    if spec.classes != 2 or spec.class_weight is not None:
        raise InputError("noise: this much stochastic noise is handled for 2 unweighted classes only")
    span = spec.loss().two_sided
    if not math.isfinite(span):
        raise InputError(f"queries: {spec.name} has no bound and needs no extra queries under noise; leave it out")
    float_error = metrics.summation_error(
        1, spec.loss().table(confident_predictions(spec)).max(), "sequential", spec.float_dtype
    )
    if spec.reduction == "sum":
        float_error *= spec.n
    if float_error > spec.sigma / 10:
        raise InputError(
            f"noise: {spec.noise:g} is no more than what {spec.float_dtype} arithmetic adds to an answer "
            f"({float_error:.3g}); signs read labels through larger noise only"
        )
    # Whoever knows all other labels sees one label in each answer as ±step standard deviations, so is right with
    # Φ(step·√queries). By default that is one wrong label in a hundred attacks, and enough answers to fit all rows.
    step = span / spec.rows_per_answer / (2 * spec.sigma)
    if queries is None:
        quantile = NormalDist().inv_cdf(1 - min(0.01 / spec.n, 0.25))
        queries = max(
            math.ceil((quantile / step) ** 2), math.ceil(_MIN_QUERY_RATIO * spec.n + 6 * math.sqrt(spec.n)), 1
        )
    inner = SignPlan(spec, check_integer(queries, "queries", minimum=1), paley_prime(max(spec.n + 1, _MIN_ORDER)))
    accuracy = NormalDist().cdf(step * math.sqrt(queries))
    reason = f"{spec.noise_kind} noise has no bound; no decoder is right more often than {accuracy:.6f} per label"
    return QueryPlan(
        spec, "signs", inner, Certificate(False, 0.0, 0.0, "limit of a decoder that knows the other labels", reason)
    )


def queries_to_prove(spec: OracleSpec) -> int:
    """Return with how many queries of signs hardly one label in a hundred attacks stays unproven; see `plan_signs`.

    Examples:
        >>> from divulge.labels import OracleSpec
        >>> queries_to_prove(OracleSpec(n=8, clip=1e-3, noise=1.0, noise_kind="gaussian"))
        387
    """
    table = spec.loss().table(confident_predictions(spec))
    step = float(table[1, 1] - table[1, 0] - table[0, 1] + table[0, 0]) / 4 / spec.rows_per_answer / spec.sigma
    law = NormalDist()
    deviations = law.inv_cdf(1 - FALSE_ALARM_RATE / (2 * spec.n)) + law.inv_cdf(1 - 0.01 / spec.n)
    return math.ceil((deviations / step) ** 2) + 2 * spec.n  # some more, as the fit takes an answer for each row


def paley_prime(min_order: int) -> int:
    """Return the smallest prime q = 3 mod 4 with q + 1 ≥ ``min_order``."""
    q = min_order - 1
    while q % 4 != 3 or any(q % d == 0 for d in range(3, math.isqrt(q) + 1, 2)):
        q += 1
    return q


@dataclass(frozen=True, slots=True, eq=False)
class SignPlan:
    """Queries with the signs of one row each of Paley's Hadamard matrix of order ``prime + 1``."""

    spec: OracleSpec
    count: int
    prime: int

    def matrix(self, indices: Ints) -> Floats:
        """Return signs ``[q, n]`` of some queries; rows come in a fixed random order and repeat when all are used."""
        q, n = self.prime, self.spec.n
        order = seeds.generator(0, "labels", "paley").permutation(q + 1)
        rows = order[indices % (q + 1)]
        residue = np.full(q, -1.0)
        residue[(np.arange(1, q, dtype=np.int64) ** 2) % q] = 1.0
        residue[0] = 1.0  # the identity on the diagonal of Paley's matrix
        # The first column is constant but in one row, as an offset of the endpoint would be: no label stands there.
        signs = residue[(rows[:, None] - 1 - np.arange(n)) % q]
        signs[rows == 0] = 1.0
        return signs

    def query(self, index: int) -> Array:
        """Return predictions of query ``index``: full confidence everywhere; sign + makes label 1 the costly one."""
        rows = confident_predictions(self.spec)
        return rows[(self.matrix(np.array([index]))[0] > 0).astype(int)]

    def read(self, answers: Floats) -> Reading:
        """Read labels from the answers so far."""
        spec = self.spec
        # A row costs middle + tilt·sign + half·(sign + lean)·label; of a loss that treats labels alike half is left.
        table = spec.loss().table(confident_predictions(self.spec))
        middle, half = float(table.mean()), float(table[1, 1] - table[1, 0] - table[0, 1] + table[0, 0]) / 4
        tilt = float(table[1].sum() - table[0].sum()) / 4
        lean = float(table[:, 1].sum() - table[:, 0].sum()) / 4 / half
        answered = np.flatnonzero(~np.isnan(answers))
        if not answered.size:
            no_rows = np.zeros(spec.n, dtype=bool)
            no_queries = np.zeros(self.count, dtype=bool)
            return Reading(
                np.zeros(spec.n, dtype=np.int64), no_rows, no_rows.copy(), np.full(self.count, np.nan), no_queries
            )
        signs = self.matrix(answered)
        sums = (answers[answered] * spec.rows_per_answer - spec.n * middle - tilt * signs.sum(axis=1)) / half
        sigma = spec.sigma * spec.rows_per_answer / half
        leaning, offset = signs + lean, sums.mean() if abs(lean) > _LEVEL else 0.0
        guess = polish_labels(leaning, sums, message_passing(signs, sums - offset, sigma, self.prime + 1))
        difference = sums - leaning @ guess
        residual = np.full(self.count, np.nan)
        residual[answered] = np.abs(difference) * half / spec.rows_per_answer
        # The squared norm of the noise has mean count·σ² and, of Gaussian noise, a deviation of √(2·count)·σ².
        fits = float(difference @ difference) <= sigma**2 * (len(answered) + 6 * math.sqrt(2 * len(answered)))
        unit = half / spec.rows_per_answer
        proven, certain = (fits & find_evident_labels(spec, signs, sums, guess, unit, times) for times in (1, 2))
        refuted = np.zeros(self.count, dtype=bool)
        allowed = noise_norm_bound(spec, len(answered)) / unit
        refuted[answered] = not fits and min_residual_norm(leaning, sums, guess) > allowed
        return Reading((guess > 0).astype(np.int64), certain & proven, proven, residual, refuted)


def find_evident_labels(spec: OracleSpec, signs: Floats, sums: Floats, guess: Floats, unit: float, times: int) -> Bools:
    """Flag labels whose row moves the answers in their direction by more than noise does, but for one in a million.

    Least squares with a constant fit what each row contributes. That it is the loss that was declared is not used, only
    its sign: a row that is not scored, or weights, smoothing, another clip or an offset of the endpoint prove no wrong
    label. With hardly more answers than rows there is no fit, and no label is evident.

    Args:
        spec: the oracle.
        signs: of the queries, ``[q, n]``.
        sums: answers, less what they are on average, in units ``[q]``.
        guess: labels ±1, ``[n]``.
        unit: what one unit of the sums is of an answer.
        times: how many times as loud as declared the noise may be.

    Returns:
        Bool ``[n]``.
    """
    count, n = signs.shape
    no_rows = np.zeros(n, dtype=bool)
    if count < n + 3 or count * n > _MAX_FIT_SIZE:
        return no_rows
    terms = np.column_stack([np.ones(count), signs])
    values, vectors = np.linalg.eigh(terms.T @ terms)
    if values[0] < 1e-6 * count:
        return no_rows
    # Row i's contribution is the answers' sum with these weights.
    weights = ((vectors / values) @ vectors.T @ terms.T)[1:]
    contributions = weights @ sums
    fit = terms @ (vectors @ ((vectors.T @ (terms.T @ sums)) / values))
    spread = float(np.linalg.norm(sums - fit)) / math.sqrt(count - n - 1)
    # Estimated noise counts when it is larger.
    louder = max(1.0, spread * unit / spec.sigma)
    noise = times * louder * spec.noise / unit
    rate = FALSE_ALARM_RATE / (2 * n)
    norms = np.linalg.norm(weights, axis=1)
    if spec.noise_kind == "gaussian":
        reach = -NormalDist().inv_cdf(rate) * noise * norms
    else:
        # Chernoff's bound on a weighted sum of Laplace draws, at the best of some exponents.
        exponents = np.linspace(0.02, 0.98, 49) / (noise * np.abs(weights).max(axis=1, keepdims=True))
        moments = np.stack([-np.log1p(-((noise * weights * t[:, None]) ** 2)).sum(axis=1) for t in exponents.T], axis=1)
        reach = ((moments - math.log(rate)) / exponents).min(axis=1)
    reach = reach + np.abs(weights).sum(axis=1) * spec.rounding / unit
    return guess * contributions > reach


def confident_predictions(spec: OracleSpec) -> Array:
    """Return two predictions: full confidence in label 1, and in label 0."""
    loss = spec.loss()
    return loss.predict(np.array([-loss.two_sided, loss.two_sided]), np.arange(2))


def message_passing(signs: Floats, sums: Floats, sigma: float, order: int) -> Floats:
    """Estimate the labels ±1 from ``sums = signs @ labels + noise`` (orthogonal approximate message passing).

    Ma and Ping, "Orthogonal AMP" (2017); the prior share of ones is estimated on the way.
    """
    queries, n = signs.shape
    mean, variance, prior = np.zeros(n), 1.0, 0.0
    for _ in range(_MAX_ITERATIONS):
        # Each label seen through noise of its own: that of the answers, and what the rows of the orthogonal matrix that
        # are not asked leave of the other labels' errors.
        pseudo = mean + signs.T @ (sums - signs @ mean) / queries
        noise = max(variance * max(order / queries - 1, 1e-3) + sigma**2 / queries, 1e-9)
        soft = np.tanh(np.clip(pseudo / noise + prior, -30, 30))
        error = max(float(np.mean(1 - soft**2)), 1e-12)
        prior = math.atanh(float(np.clip(soft.mean(), -0.99, 0.99)))
        if error < 1e-9:
            break
        # Extrinsic part: what the labels' being ±1 adds to the pseudo-observation.
        weight = 1 / max(1 / error - 1 / noise, 1e-9)
        fresh = weight * (soft / error - pseudo / noise)
        change = float(np.abs(fresh - mean).max())
        # Damped, as undamped iterations of few rows oscillate.
        mean, variance = 0.3 * mean + 0.7 * fresh, 0.3 * variance + 0.7 * min(weight, 1.0)
        if change < 1e-6:
            break
    return np.where(soft >= 0, 1.0, -1.0)


def polish_labels(signs: Floats, sums: Floats, guess: Floats) -> Floats:
    """Flip one label after the other while that brings the sums closer."""
    best = guess.copy()
    # Flipping label i changes ‖miss‖² by 4·(label·(signs_i·miss) + ‖signs_i‖²), so a negative gain brings sums closer.
    miss, squares = sums - signs @ best, (signs**2).sum(axis=0)
    for _ in range(2 * len(best)):
        gain = best * (signs.T @ miss) + squares
        worst = int(gain.argmin())
        if gain[worst] >= 0:
            break
        miss = miss + 2 * best[worst] * signs[:, worst]
        best[worst] = -best[worst]
    return best


def noise_norm_bound(spec: OracleSpec, count: int) -> float:
    """Bound the norm of the noise of ``count`` answers, but for one case in a million, in the answer's unit.

    Gaussian noise: the quantile of χ². Laplace noise, whose squares have no exponential moments: every draw stays
    below T = b·ln(2·10⁶·count) but for half that chance, and Bernstein's inequality bounds the sum of squares cut
    at T² but for the other half (mean 2b², variance at most 20b⁴ each).
    """
    if spec.noise_kind == "gaussian":
        squared_norm = spec.noise**2 * float(stats.chi2.isf(FALSE_ALARM_RATE, count))
    else:
        log_odds = math.log(2 / FALSE_ALARM_RATE)
        squared_cut = (log_odds + math.log(count)) ** 2
        squared_norm = spec.noise**2 * (
            2 * count
            + math.sqrt(40 * count * log_odds + (squared_cut * log_odds / 3) ** 2)
            + squared_cut * log_odds / 3
        )
    return math.sqrt(squared_norm) + math.sqrt(count) * spec.rounding


def min_residual_norm(signs: Floats, sums: Floats, guess: Floats) -> float:
    """Bound ‖sums - signs·labels‖ from below over labels in [-1, 1] (so over all labels ±1), by weak duality.

    For every vector u, ½‖sums - signs·z‖² ≥ u·sums - ½‖u‖² - ‖signsᵀu‖₁ wherever z lies in the box; u is what is left
    at a good z, found by projected gradient steps from ``guess``.

    Examples:
        >>> min_residual_norm(np.eye(2), np.array([3.0, -1.0]), np.ones(2))
        2.0
    """
    z = guess.copy()
    # Rows of a Hadamard matrix, and a constant: no step larger than 1 over their largest squared length overshoots.
    lean = abs(float(signs.max() + signs.min())) / 2
    step = 1 / (math.sqrt(max(signs.shape)) + lean * math.sqrt(signs.size)) ** 2
    best = 0.0
    for _ in range(100):
        residual = sums - signs @ z
        pulled = signs.T @ residual
        best = max(best, float(residual @ sums - 0.5 * (residual @ residual) - np.abs(pulled).sum()))
        z = np.clip(z + step * pulled, -1, 1)
    return math.sqrt(2 * best)
