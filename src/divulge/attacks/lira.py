"""LiRA, the likelihood ratio attack: of one query, of several, of a document's tokens, with every model as target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge import seeds
from divulge.attacks import protocol
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt
from divulge.attacks.reference_moments import ColumnMoments, LessOne, means, moments
from divulge.errors import InputError
from divulge.validation import check_choice, check_integer, check_mask, check_matrix, require_callable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Bools, Evidence, Floats, Ints

# Tokens are put into so many levels by how likely they are, each level with its own spread.
_LEVELS = 16
# Variances of tokens below this are rounding.
_SMALLEST = 1e-12


@dataclass(frozen=True, slots=True)
class LiRA(Attack):
    """Likelihood ratio of the target's signal under models trained with and without the record.

    Carlini et al. 2022 (arXiv:2112.03570), algorithm 1 and section IV-E. The signal should be close to
    Gaussian; the scaled logit is made for that.

    **Online**: ``log N(s; μ_in, σ²_in) - log N(s; μ_out, σ²_out)``, computed from the exponents, so
    that it neither over- nor underflows.

    **Offline**: ``z = (s - μ_out) / σ_out``. The test of the paper is one-sided (a member's signal is
    *larger*); the widely copied release computes a two-sided log-density, which also calls records
    members that the target knows exceptionally badly. The paper's ``1 - Pr[Z > z]`` is a monotone
    function of z that is exactly 1 in float64 from z = 8.3 on, so the score is z itself.

    **Variance**. ``"per_record"`` is the record's own, with ``count - 1`` below, and the pooled one for
    records with fewer than two values or values that do not differ. ``"global"`` is one number per side,
    the better choice below some 32 models. The widely copied release takes the standard deviation of
    *all* values, which is mostly the spread *between* records (easy and hard ones), several times too
    wide. Here it is the pooled within-record variance ``Σ (s_ij - mean_j)² / Σ (k_j - 1)``: what varies
    when the same record meets another model, with the degrees of freedom that the means used up.

    **Records with few models**. No side is padded with zeros. One value is a mean; its variance is the
    pooled one. A record without any OUT model is described by the marginal Gaussian of all OUT values
    (offline), or by its own IN mean minus the average difference between the sides (online; the other
    way round without an IN model).

    Args:
        mode: "online" (needs ``trained_on``) or "offline" (uses OUT models only; every reference is one
            when ``trained_on`` is None).
        variance: "global" or "per_record".

    Examples:
        >>> from divulge import Evidence
        >>> LiRA().score(Evidence(target=[3.0, 0.0], references=[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]))
        array([2.828..., 0. ])
    """

    mode: Literal["online", "offline"] = "offline"
    variance: Literal["global", "per_record"] = "global"

    def __post_init__(self) -> None:
        check_choice(self.mode, "LiRA.mode", ("online", "offline"))
        check_choice(self.variance, "LiRA.variance", ("global", "per_record"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``mode`` says."""
        return protocol.references_for_mode(self.mode)

    def score(self, evidence: Evidence) -> Floats:
        """Log-likelihood ratio (online) or one-sided z-score (offline), ``[n]``.

        O(m·n) time in one pass over blocks of columns: float32 memory maps are never loaded whole.

        Raises:
            divulge.InputError: no references; online without ``trained_on``; no OUT (or, online, no IN)
                model for any record.
        """
        references = protocol.part(
            evidence.references, "LiRA", "references", "signals of the candidates under reference models"
        )
        trained_on = evidence.trained_on
        protocol.out_models(trained_on, "LiRA")
        if self.mode == "online":
            protocol.require_members_in_models(trained_on, "LiRA")
        out = moments(references, trained_on, complement=True)
        if self.mode == "offline":
            return _z_score(evidence.target, out, self.variance)
        return _log_ratio(evidence.target, moments(references, trained_on), out, self.variance)


def leave_one_out(
    signals: object,
    trained_on: object,
    *,
    mode: Literal["online", "offline"] = "offline",
    variance: Literal["global", "per_record"] = "global",
    seed: int = 0,
) -> Floats:
    """LiRA with each of ``m`` models as the target once and the other ``m - 1`` as its references.

    One pool of models then gives ``m`` attacks instead of one, and ``trained_on`` is the truth they are
    evaluated against. The moments of the ``m - 1`` others are those of all models minus a few values, so the
    cost is O(m·n) and not O(m²·n).

    **Equal numbers of models.** Taking the target out of the pool takes an IN model from its members and an OUT
    model from the others. Where every record is in half of the models, the usual design, the numbers that are left
    tell membership by themselves: without any signal, the online score has an AUC of .44 with 8 models, and the
    offline score a TPR of .16 at an FPR of .05 with 4. A real target is no part of the pool, so nothing of the
    kind helps or harms an adversary. In each row, members and non-members are therefore given IN and OUT models in
    numbers that are distributed alike: those of a member are matched with those of a non-member at the same
    quantile, and each of the two keeps the smaller number of IN and the smaller number of OUT models, drawn at
    random. Records that were drawn for each model independently lose next to nothing by this, in the balanced
    design each record loses one model.

    **Models in pairs.** A model that was trained on what the target was not trained on, or on the same records, is no
    reference of it: members and non-members would be compared with different models. Where each half of the data trains
    one of two models, a target keeps ``m - 2`` of the others.

    A row is an attack: evaluate rows one by one. Pooled they are comparable only where all models were trained on
    about the same number of records.

    Args:
        signals: signal of each record under each model, ``[m, n]``.
        trained_on: bool ``[m, n]``.
        mode: as in `LiRA`.
        variance: as in `LiRA`.
        seed: of the models that are left out.

    Returns:
        float64 ``[m, n]``: row ``i`` is ``LiRA(mode, variance).score`` with model ``i`` as the target and, of the
        others, equal numbers for its members and its non-members.

    Raises:
        divulge.InputError: fewer than two models, or some model whose removal leaves no OUT (or, online,
            no IN) value at all.

    Examples:
        >>> leave_one_out([[3.0], [0.0], [1.0], [2.0]], [[True], [False], [False], [False]])[0]
        array([2.])
    """
    attack = LiRA(mode, variance)
    check_integer(seed, "seed", minimum=0)
    checked = check_matrix(signals, "signals")
    m, n = checked.shape
    if m < 2:
        raise InputError(f"signals: at least 2 models are needed, got {m}")
    inside = check_mask(trained_on, "trained_on", (m, n))
    scores = np.empty((m, n))
    for i, (without_in, without_out) in enumerate(_moments_without_partners(checked, inside, attack, seed)):
        target = checked[i].astype(np.float64, copy=False)
        if without_in is None:
            scores[i] = _z_score(target, without_out, variance)
        else:
            scores[i] = _log_ratio(target, without_in, without_out, variance)
    return scores


_MIN_ASSOCIATION = 0.9  # correlation of the records of two models beyond which they are a pair
_MIN_RECORDS = 30  # below which models that were drawn independently may be as alike


def _moments_without_partners(
    signals: Floats, inside: Bools, attack: LiRA, seed: int
) -> Iterator[tuple[ColumnMoments | None, ColumnMoments]]:
    """Moments of the models that each model is attacked with, none of which was trained on (nearly) its complement."""
    partners = _find_partners(inside)
    if not partners.any():
        yield from _leave_one_out_moments(signals, inside, attack, seed)
        return
    for i, is_partner in enumerate(partners):
        other_models = np.flatnonzero(~is_partner)
        rows = np.append(i, other_models[other_models != i])
        if len(rows) < 2:
            raise InputError(
                f"trained_on: every other model was trained on what model {i} was not trained on, or on the same "
                "records, so that no record has an OUT model left to be compared with"
            )
        # Model i stands first among those that are left, and of these moments alone the first are its own.
        yield next(_leave_one_out_moments(signals[rows], inside[rows], attack, seed, rows))


def _find_partners(inside: Bools) -> Bools:
    """Return which models were trained on nearly the same records or on nearly all others, ``[m, m]``."""
    m, n = inside.shape
    if n < _MIN_RECORDS:
        return np.zeros((m, m), dtype=bool)
    share = inside.mean(axis=1)
    signs = inside.astype(np.float32)
    covariance = (signs @ signs.T).astype(np.float64) / n - np.outer(share, share)
    spread = np.sqrt(np.maximum(share * (1 - share), 1e-300))
    partners = np.abs(covariance / np.outer(spread, spread)) >= _MIN_ASSOCIATION
    partners &= np.outer((share > 0) & (share < 1), (share > 0) & (share < 1))
    np.fill_diagonal(partners, val=False)
    return partners


def _leave_one_out_moments(
    signals: Floats, inside: Bools, attack: LiRA, seed: int, numbers: Ints | None = None
) -> Iterator[tuple[ColumnMoments | None, ColumnMoments]]:
    """Moments of the IN (online) and the OUT models that each model is attacked with.

    ``numbers`` are those of the models, by which an error names them.
    """
    whole_out = moments(signals, inside, complement=True)
    whole_in = moments(signals, inside) if attack.mode == "online" else None
    out, into = LessOne(whole_out), None if whole_in is None else LessOne(whole_in)
    count_in = inside.sum(axis=0)
    # IN models first and OUT models after them, either in random order, and where each model stands in it.
    order = (seeds.generator(seed, "leave one out", "order").random(inside.shape) + ~inside).argsort(axis=0)
    place = order.argsort(axis=0)
    snap = _Snap.from_signals(signals)
    for i, (values, is_member) in enumerate(zip(signals, inside, strict=True)):
        without_out = out(values, ~is_member)
        without_in = None if into is None else into(values, is_member)
        rng = seeds.generator(seed, "leave one out", i)
        if without_in is None:
            excess_out = _excess_counts(without_out.count, is_member, rng)[0]
        else:
            excess_in, excess_out = _excess_counts(without_in.count, is_member, rng)
            before = np.where(is_member, place[i], len(signals))
            without_in = _remove_values(without_in, signals, order, np.zeros_like(count_in), before, excess_in)
            without_in = snap(without_in)
        before = np.where(is_member, len(signals), place[i])
        without_out = snap(_remove_values(without_out, signals, order, count_in, before, excess_out))
        for side, name in ((without_out, "OUT"), (without_in, "IN")):
            if side is not None and not side.count.any():
                raise InputError(
                    f"trained_on: without model {i if numbers is None else numbers[i]}, no record has an {name} model "
                    "left (members and non-members of a model are compared with equal numbers of the others)"
                )
        yield without_in, without_out


@dataclass(frozen=True, slots=True, eq=False)
class _Snap:
    """Moments on a grid far finer than what varies, so that those that are equal on paper are equal.

    What is left after the target's own value was taken away is rounded otherwise than what is left after another's:
    of signals with ties, the last bit would tell members from others.

    Args:
        mean: step between means of each record, ``[n]``; 0 where its signals do not differ.
        squares: step between sums of squares, ``[n]``; likewise.
    """

    mean: Floats
    squares: Floats

    @classmethod
    def from_signals(cls, signals: Floats) -> _Snap:
        """Return the grid for signals ``[m, n]``: 2⁻⁴⁰ of how far a record's signals lie apart."""
        low, high = (np.asarray(extreme, dtype=np.float64) for extreme in (signals.min(axis=0), signals.max(axis=0)))
        span, size = high - low, np.maximum(np.abs(low), np.abs(high))
        mean = np.maximum(np.ldexp(span, -40), np.ldexp(size, -46) * (span > 0))
        return cls(_power_of_two(mean), _power_of_two(np.ldexp(len(signals) * span * span, -40)))

    def __call__(self, side: ColumnMoments) -> ColumnMoments:
        """Return the moments on the grid."""
        return ColumnMoments(
            side.count, _round_to_step(side.mean, self.mean), _round_to_step(side.squares, self.squares)
        )


def _power_of_two(values: Floats) -> Floats:
    """Return the next larger powers of two; 0 for 0."""
    return np.where(values > 0, np.ldexp(1.0, np.frexp(values)[1]), 0.0)


def _round_to_step(values: Floats, step: Floats) -> Floats:
    return np.where(step > 0, np.rint(values / np.where(step > 0, step, 1.0)) * step, values)


def _excess_counts(count: Floats, member: Bools, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return how far each record's ``count``, and its complement, exceed what a record on the other side has.

    Members and non-members are matched at equal quantiles of ``count``. A record with the larger number of the two
    has the first surplus; one with the smaller has as many more of whatever is not counted, the second surplus.
    """
    matched = count.astype(np.int64)
    counts = matched.copy()
    sides = [np.flatnonzero(member), np.flatnonzero(~member)]
    if not all(len(side) for side in sides):  # nothing to be told from
        return np.zeros_like(counts), np.zeros_like(counts)
    ordered = [side[np.lexsort((rng.random(len(side)), counts[side]))] for side in sides]
    for side, opposite in (ordered, ordered[::-1]):
        quantile = (np.arange(len(side)) + rng.random(len(side))) / len(side)
        matched[side] = counts[opposite[(quantile * len(opposite)).astype(np.int64)]]
    return np.maximum(counts - matched, 0), np.maximum(matched - counts, 0)


def _remove_values(
    side: ColumnMoments, signals: Floats, order: Ints, side_start: Ints, target: Ints, excess: Ints
) -> ColumnMoments:
    """Return the moments without ``excess`` further values of each record.

    Args:
        side: moments without the target.
        signals: of all models, ``[m, n]``.
        order: each record's models in the order in which they go, ``[m, n]``.
        side_start: where this side begins in the order, ``[n]``.
        target: where the target stands in it, or beyond its end where it is on the other side, ``[n]``.
        excess: how many values to take away, ``[n]``.
    """
    columns = np.arange(len(excess))
    for step in range(int(excess.max(initial=0))):
        due = excess > step
        place = side_start + step
        place = np.where(due, place + (target <= place), 0)
        side = LessOne(side)(signals[order[place, columns], columns], due)
    return side


def _z_score(target: Floats, out: ColumnMoments, variance: str) -> Floats:
    spread = np.sqrt(out.variance() if variance == "per_record" else np.float64(out.pooled_variance))
    scores = target - out.mean
    scores /= spread
    has_no_models = out.count == 0
    if has_no_models.any():
        scores[has_no_models] = (target[has_no_models] - out.grand_mean) / np.sqrt(out.total_variance)
    return scores


def _log_ratio(target: Floats, into: ColumnMoments, out: ColumnMoments, variance: str) -> Floats:
    if variance == "per_record":
        var_in, var_out = into.variance(), out.variance()
    else:
        var_in, var_out = np.float64(into.pooled_variance), np.float64(out.pooled_variance)
    mean_in, mean_out = means(into, out)
    in_distance = (target - mean_in) ** 2 / var_in
    out_distance = (target - mean_out) ** 2 / var_out
    return 0.5 * (out_distance - in_distance + np.log(var_out / var_in))


@dataclass(frozen=True, slots=True)
class SequenceLiRA(Attack):
    """Offline LiRA on the tokens of a document, with the correlation between neighbours.

    The sum of a document's log-probabilities does not have the sum of their variances: what one model finds easier
    than another goes on for several tokens (Rossi et al. 2025, arXiv:2506.05126, who model the vector of losses as
    one Gaussian). Here the deviation of each token from the reference models' mean is divided by its spread, and the
    standardised deviations are taken as an autoregression of order one. The score is the test of a common shift of
    all of them, ``1ᵀR⁻¹z / √(1ᵀR⁻¹1)``: a standard normal for a non-member, were the model exact.

    The form of the covariance is ours: the spread of a token is that of all tokens that the reference models find as
    likely on average (few models say little about a single token's), and one correlation holds for all documents.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.types import TokenLogs
        >>> rng = np.random.default_rng(0)
        >>> others = -1 + 0.1 * rng.normal(size=(3, 40))
        >>> others -= others.max() + 1
        >>> own = others.mean(axis=0) + np.repeat([0.3, 0.0], 20)
        >>> scores = SequenceLiRA().score(Evidence(target=[0, 0], tokens=TokenLogs([0, 20, 40], own, others)))
        >>> bool(scores[0] > scores[1] + 5)
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_OUT, Need.TOKENS})
    least_references: ClassVar[int] = 2

    def score(self, evidence: Evidence) -> Floats:
        """Return the test's statistic, ``[n]``.

        Raises:
            divulge.InputError: no tokens, or fewer than 2 reference models.
        """
        logs = protocol.part(evidence.tokens, "SequenceLiRA", "tokens", "log-probabilities of each token")
        reference_logs = protocol.part(
            logs.references, "SequenceLiRA", "tokens.references", "the same under reference models"
        )
        if len(reference_logs) < self.least_references:
            raise InputError(f"SequenceLiRA: at least 2 reference models are needed, got {len(reference_logs)}")
        mean = reference_logs.mean(axis=0, dtype=np.float64)
        # The deviation between models is that of tokens as likely as each; 1 where nothing varies.
        squares = ((reference_logs - mean) ** 2).sum(axis=0) / (len(reference_logs) - 1)
        edges = np.unique(np.quantile(mean, np.linspace(0.0, 1.0, _LEVELS + 1)[1:-1]))
        level = np.searchsorted(edges, mean, side="right")
        count = np.maximum(np.bincount(level, minlength=len(edges) + 1), 1)
        variance = np.bincount(level, weights=squares, minlength=len(edges) + 1) / count
        overall = squares.mean() if squares.mean() > _SMALLEST else 1.0
        spread = np.sqrt(np.where(variance > _SMALLEST, variance, overall))[level]
        inside = np.ones(len(mean) - 1, dtype=bool)
        inside[logs.offsets[1:-1] - 1] = False  # pairs that lie in two documents
        rho = _correlation((reference_logs - mean) / spread, inside)
        standard = (logs.target - mean) / (spread * np.sqrt(1.0 + 1.0 / len(reference_logs)))
        # Of each document, 1ᵀR⁻¹z / √(1ᵀR⁻¹1), where R has ρ to the power of the distance between two tokens.
        # The row sums of R⁻¹ are 1 / (1 + ρ) at both ends and (1 - ρ) / (1 + ρ) between; 1 for a single token.
        weights = np.full(len(standard), (1.0 - rho) / (1.0 + rho))
        weights[logs.offsets[:-1]] = weights[logs.offsets[1:] - 1] = 1.0 / (1.0 + rho)
        weights[logs.offsets[:-1][logs.lengths == 1]] = 1.0
        starts = logs.offsets[:-1]
        return np.add.reduceat(weights * standard, starts) / np.sqrt(np.add.reduceat(weights, starts))


def _correlation(standard: Floats, inside: np.ndarray) -> float:
    """Return the correlation of neighbouring tokens' deviations, in [0, 0.99]; 0 without any pair."""
    if not inside.any():
        return 0.0
    products = (standard[:, :-1] * standard[:, 1:])[:, inside].mean()
    return float(np.clip(products / max(float((standard**2).mean()), _SMALLEST), 0.0, 0.99))


@dataclass(frozen=True, slots=True)
class Averaged(Attack):
    """The mean of another attack's scores over all versions of each record.

    With `LiRA` inside, this is the attack of Carlini et al. 2022 (arXiv:2112.03570) with several queries, as its
    authors' code computes it: Gaussians for each version by itself, and the mean of the log-likelihood ratios. Offline
    it is the mean of the one-sided z-scores (see `LiRA` for why they are one-sided).

    Args:
        inner: the attack on one version.

    Raises:
        divulge.InputError: an inner attack without ``score``.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.attacks import LiRA
        >>> flipped = Evidence([1.0, 0.0], references=[[0.0, 0.0], [0.0, 0.0]])
        >>> evidence = Evidence([3.0, 0.0], references=[[0.0, 0.0], [0.0, 0.0]], queries=[flipped])
        >>> Averaged(LiRA()).score(evidence)
        array([2., 0.])
    """

    inner: Scores

    def __post_init__(self) -> None:
        require_callable(self.inner, "Averaged.inner", "score")

    @property
    def needs(self) -> frozenset[Need]:
        """Needs of the inner attack, and further versions of the records."""
        return adapt(self.inner).needs | {Need.QUERIES}

    @property
    def least_references(self) -> int:
        """Reference models that the inner attack needs at least."""
        return adapt(self.inner).least_references

    def run(self, evidence: Evidence) -> Scored:
        """Return the mean scores, with the notes of the inner attack on every version.

        Raises:
            divulge.InputError: no further versions, and what the inner attack raises.
        """
        version_scores = [adapt(self.inner).run(version) for version in protocol.record_versions(evidence, "Averaged")]
        notes = dict.fromkeys(note for scored in version_scores for note in scored.notes)
        return Scored(np.mean([scored.scores for scored in version_scores], axis=0), tuple(notes))
