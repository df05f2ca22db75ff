"""The likelihood ratio attack, and the same attack with every model as the target once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from divulge import checks
from divulge.attacks import needs
from divulge.attacks.protocol import Need, Scored
from divulge.attacks.reference_moments import ColumnMoments, LessOne, means, moments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from divulge.types import Bools, Evidence, Floats


@dataclass(frozen=True, slots=True)
class LiRA:
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

    least_references: ClassVar[int] = 1

    mode: Literal["online", "offline"] = "offline"
    variance: Literal["global", "per_record"] = "global"

    def __post_init__(self) -> None:
        checks.choice(self.mode, "LiRA.mode", ("online", "offline"))
        checks.choice(self.variance, "LiRA.variance", ("global", "per_record"))

    @property
    def needs(self) -> frozenset[Need]:
        """Reference models, of the kind that ``mode`` says."""
        return needs.of_mode(self.mode)

    def score(self, evidence: Evidence) -> Floats:
        """Log-likelihood ratio (online) or one-sided z-score (offline), ``[n]``.

        O(m·n) time in one pass over blocks of columns: float32 memory maps are never loaded whole.

        Raises:
            divulge.InputError: no references; online without ``trained_on``; no OUT (or, online, no IN)
                model for any record.
        """
        references = needs.part(
            evidence.references, "LiRA", "references", "signals of the candidates under reference models"
        )
        trained_on = self._trained_on(evidence.trained_on)
        out = moments(references, trained_on, complement=True)
        if self.mode == "offline":
            return _z_score(evidence.target, out, self.variance)
        return _log_ratio(evidence.target, moments(references, trained_on), out, self.variance)

    def run(self, evidence: Evidence) -> Scored:
        """`score`, as an audit takes it."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> LiRA:
        """The same: it makes no random draws."""
        return self

    def _trained_on(self, trained_on: Bools | None) -> Bools | None:
        needs.out_models(trained_on, "LiRA")
        if self.mode == "online":
            needs.in_models(trained_on, "LiRA")
        return trained_on


def leave_one_out(
    signals: object,
    trained_on: object,
    *,
    mode: Literal["online", "offline"] = "offline",
    variance: Literal["global", "per_record"] = "global",
) -> Floats:
    """LiRA with each of ``m`` models as the target once and the other ``m - 1`` as its references.

    One pool of models then gives ``m`` attacks instead of one, and ``trained_on`` is the truth they are
    evaluated against. The moments of the ``m - 1`` others are those of all models minus one value, so the
    cost is O(m·n) and not O(m²·n).

    Args:
        signals: signal of each record under each model, ``[m, n]``.
        trained_on: bool ``[m, n]``.
        mode: as in `LiRA`.
        variance: as in `LiRA`.

    Returns:
        float64 ``[m, n]``: row ``i`` equals ``LiRA(mode, variance).score`` with model ``i`` as the target.

    Raises:
        divulge.InputError: fewer than two models, or some model whose removal leaves no OUT (or, online,
            no IN) value at all.

    Examples:
        >>> leave_one_out([[3.0], [0.0], [1.0], [2.0]], [[True], [False], [False], [False]])[0]
        array([2.])
    """
    attack = LiRA(mode, variance)
    checked = checks.matrix(signals, "signals")
    m, n = checked.shape
    if m < 2:
        raise checks.InputError(f"signals: at least 2 models are needed, got {m}")
    inside = checks.mask(trained_on, "trained_on", (m, n))
    scores = np.empty((m, n))
    for i, (without_in, without_out) in enumerate(_without_each(checked, inside, attack)):
        target = checked[i].astype(np.float64, copy=False)
        if without_in is None:
            scores[i] = _z_score(target, without_out, variance)
        else:
            scores[i] = _log_ratio(target, without_in, without_out, variance)
    return scores


def _without_each(signals: Floats, inside: Bools, attack: LiRA) -> Iterator[tuple[ColumnMoments | None, ColumnMoments]]:
    out = LessOne(moments(signals, inside, complement=True))
    into = LessOne(moments(signals, inside)) if attack.mode == "online" else None
    for i, (values, held) in enumerate(zip(signals, inside, strict=True)):
        without_out = out(values, ~held)
        without_in = None if into is None else into(values, held)
        for side, name in ((without_out, "OUT"), (without_in, "IN")):
            if side is not None and not side.count.any():
                raise checks.InputError(f"trained_on: without model {i}, no record has an {name} model left")
        yield without_in, without_out


def _z_score(target: Floats, out: ColumnMoments, variance: str) -> Floats:
    spread = np.sqrt(out.variance() if variance == "per_record" else np.float64(out.pooled_variance))
    scores = target - out.mean
    scores /= spread
    alone = out.count == 0
    if alone.any():
        scores[alone] = (target[alone] - out.grand_mean) / np.sqrt(out.total_variance)
    return scores


def _log_ratio(target: Floats, into: ColumnMoments, out: ColumnMoments, variance: str) -> Floats:
    if variance == "per_record":
        var_in, var_out = into.variance(), out.variance()
    else:
        var_in, var_out = np.float64(into.pooled_variance), np.float64(out.pooled_variance)
    mean_in, mean_out = means(into, out)
    far_in = _squared(target - mean_in) / var_in
    far_out = _squared(target - mean_out) / var_out
    return 0.5 * (far_out - far_in + np.log(var_out / var_in))


def _squared(values: Floats) -> Floats:
    return values * values
