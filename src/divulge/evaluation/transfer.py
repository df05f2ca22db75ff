"""Will a false-positive rate that was learnt on seen classes hold on one that the auditor has no records of?

Thaker et al. 2025 (arXiv:2506.06488, §5 and App. G) argue that it does when two things are true of the last
layer of the quantile regressor: the density ratio between query and seen records is a linear function of it,
and the regressor's errors are uncorrelated with every linear function of it (multi-accuracy; Kim et al. 2022).
Both can be looked at without a single labelled record of the unseen class. Their own estimate is
`divulge.evaluation.linearity`; this one is ours: it measures the ratio where the regressor's errors are known, on
seen records that no mixture was fitted to, and its linear functions are those of the plane.

Shapes: ``z`` seen records (known non-members), ``n`` query records, ``h`` columns of the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn import decomposition

from divulge import seeds
from divulge.evaluation.linearity import COMPONENTS, basis, both, mixture, violation
from divulge.types import Estimate
from divulge.validation import check_mask, check_number

if TYPE_CHECKING:
    from divulge.types import Array, Floats

# Less than this share of seen records may lie as far out as a query record that counts as outside.
_TAIL = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Evidence for and against a false-positive rate that carries over.

    Attributes:
        level: the nominal rate.
        expected_fpr: the rate on query records if non-members with the same embedding behave the same in both classes:
            the seen records' rate, weighted by the density ratio.
        outside: share of query records further out than all but 1 % of the seen ones.
        effective: effective sample size of the weighted seen records, ``(Σw)² / Σw²``.
        error: mean squared error of the linear fit to the density ratio (whose mean is 1).
        explained: share of the ratio's variance that the fit explains.
        violation: multi-accuracy violation, the largest ``|E[c(x)·(selected - level)]|`` over linear ``c``
            with ``E[c²] = 1``.
        p_value: of a violation as large by chance.
        bound: ``|FPR on query records - level|`` is at most this, by Cauchy-Schwarz over the last three.
        seen: the seen records in the plane of the two components, ``[k, 2]``.
        query: the query records there, ``[n, 2]``.
        ratio: density ratio of each row of ``seen``, ``[k]``.
        linear: the linear fit to it, ``[k]``.
    """

    level: float
    expected_fpr: Estimate
    outside: float
    effective: float
    error: float
    explained: float
    violation: float
    p_value: float
    bound: float
    seen: Floats
    query: Floats
    ratio: Floats
    linear: Floats

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the rate is not expected to hold; empty when there is no evidence against it."""
        messages = []
        if self.effective * self.level < 1:
            messages.append(
                f"the seen records carry the weight of {self.effective:.0f} of the query class, "
                f"and {1 / self.level:.0f} are needed to resolve a rate of {self.level:g}"
            )
        if self.outside > 10 * _TAIL:
            messages.append(f"{self.outside:.0%} of the query records lie where almost no seen record does")
        if self.expected_fpr.low > self.level:
            messages.append(
                f"the rate expected there is {self.expected_fpr.value:.3f} "
                f"[{self.expected_fpr.low:.3f}, {self.expected_fpr.high:.3f}]"
            )
        if self.p_value < 0.01:
            messages.append(
                f"the errors on seen records depend on the embedding (violation {self.violation:.2g}, "
                f"p = {self.p_value:.1g})"
            )
        return tuple(messages)

    @property
    def holds(self) -> bool:
        """Whether the rate is expected to hold on the query records."""
        return not self.reasons

    def __str__(self) -> str:
        if self.holds:
            return (
                f"The FPR of {self.level:g} is expected to hold on this class, because its records lie among the seen "
                f"ones and the rate expected there is {self.expected_fpr.value:.3f} "
                f"[{self.expected_fpr.low:.3f}, {self.expected_fpr.high:.3f}]; this assumes that non-members "
                "with the same embedding behave alike in both."
            )
        return f"The FPR of {self.level:g} is not expected to hold on this class, because {'; '.join(self.reasons)}."


def assess(seen: object, query: object, selected: object, level: float, *, seed: int = 0) -> Transfer:
    """Look at the embeddings of seen and query records, and at where the attack errs on the seen ones.

    Both sets are projected on their two principal components; a Gaussian mixture (its size by BIC) is fitted to
    the query records and to half of the seen ones, and everything else is measured on the other half.

    Args:
        seen: embeddings of known non-members of seen classes, ``[z, h]``, none of which the regressor learnt from.
        query: embeddings of records of the unseen class, members and non-members alike, ``[n, h]``.
        selected: bool ``[z]``, True where the attack calls the seen record a member at nominal ``level``.
        level: the nominal false-positive rate.
        seed: of the halves and the mixtures.

    Raises:
        divulge.InputError: fewer than 50 records on either side, embeddings of different widths, a level
            outside (0, 1).

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> near = assess(rng.normal(size=(4000, 4)), rng.normal(size=(500, 4)), rng.random(4000) < 0.05, 0.05)
        >>> near.holds
        True
        >>> far = assess(rng.normal(size=(4000, 4)), rng.normal(6, 1, size=(500, 4)), rng.random(4000) < 0.05, 0.05)
        >>> far.holds, far.outside
        (False, 1.0)
    """
    rate = check_number(level, "level", above=0, below=1)
    seen_rows, query_rows = both(seen, query)
    selected_mask = check_mask(selected, "selected", (len(seen_rows),))
    plane = _common_plane(seen_rows, query_rows, seed)
    seen_plane, query_plane = plane[: len(seen_rows)], plane[len(seen_rows) :]
    order = seeds.generator(seed, "transfer", "halves").permutation(len(seen_plane))
    mixture_rows, test_rows = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    seen_mixture, query_mixture = mixture(seen_plane[mixture_rows], seed), mixture(query_plane, seed)
    log_seen = seen_mixture.score_samples(seen_plane[test_rows])
    log_ratio = query_mixture.score_samples(seen_plane[test_rows]) - log_seen
    ratio = np.exp(log_ratio - log_ratio.max())
    ratio /= ratio.mean()
    columns = basis(seen_plane[test_rows])
    weights = columns.T @ ratio / len(ratio)
    linear = columns @ weights
    residual = selected_mask[test_rows].astype(np.float64) - rate
    size, p_value = violation(columns, residual, rate)
    error = float(np.mean((ratio - linear) ** 2))
    spread = float(ratio.var())
    return Transfer(
        level=rate,
        expected_fpr=_weighted_rate(ratio, selected_mask[test_rows]),
        outside=float((seen_mixture.score_samples(query_plane) < np.quantile(log_seen, _TAIL)).mean()),
        effective=float(ratio.sum() ** 2 / (ratio**2).sum()),
        error=error,
        explained=1.0 - error / spread if spread > 0 else 1.0,
        violation=size,
        p_value=p_value,
        bound=float(np.linalg.norm(weights) * size + np.sqrt(error * np.mean(residual**2))),
        seen=seen_plane[test_rows],
        query=query_plane,
        ratio=ratio,
        linear=linear,
    )


def _common_plane(seen: Floats, query: Floats, seed: int) -> Floats:
    """Both sets on two principal components, each set counting as much as the other; unit variance, seen first."""
    centre, scale = seen.mean(axis=0), seen.std(axis=0)
    standardised = (np.vstack([seen, query]).astype(np.float64) - centre) / np.where(scale > 0, scale, 1.0)
    rng = seeds.generator(seed, "transfer", "plane")
    size = max(len(seen), len(query))
    rows = np.r_[rng.permutation(len(seen)), len(seen) + rng.permutation(len(query))]
    balanced_rows = np.r_[np.resize(rows[: len(seen)], size), np.resize(rows[len(seen) :], size)]
    width = min(COMPONENTS, standardised.shape[1])
    fitted = decomposition.PCA(width, svd_solver="full").fit(standardised[balanced_rows])
    plane = fitted.transform(standardised)
    plane /= np.maximum(plane[: len(seen)].std(axis=0), 1e-12)
    return plane if width == COMPONENTS else np.column_stack([plane, np.zeros(len(plane))])


def _weighted_rate(weights: Floats, chosen: Array) -> Estimate:
    """Weighted share with Wilson's interval at the effective sample size."""
    z, effective = 1.959963984540054, float(weights.sum() ** 2 / (weights**2).sum())
    share = float(np.average(chosen, weights=weights))
    centre = (share + z * z / (2 * effective)) / (1 + z * z / effective)
    reach = z / (1 + z * z / effective) * np.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    low, high = max(0.0, float(centre - reach)), min(1.0, float(centre + reach))
    return Estimate(share, low, high, 0.95, "wilson at the effective sample size")
