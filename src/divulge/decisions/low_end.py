"""The low end of the calibration, which estimates of the share of non-members lean on, compared by itself."""

from __future__ import annotations

import numpy as np
from scipy import stats

from divulge.decisions.controls import Control
from divulge.validation import check_number, check_vector

_FRACTIONS = (10, 40)  # parts of all scores whose lowest one is compared


def control(calibration: object, holdout: object, *, level: float = 0.05) -> Control:
    """Test whether documents declared unseen are as frequent among the lowest scores as the calibration is.

    The least member-like tenth is what "adaptive" and "ptdi" lean on. Odd documents in the calibration, garbage or
    boilerplate, gather there, and no comparison of the bulk shows them. Among the lowest tenth and the lowest fortieth
    of all scores, ties at the edge left out, holdout documents should be as many as a random draw says (Fisher's
    exact test, two-sided by doubling, each at half the level).

    Args:
        calibration: scores ``[n]``.
        holdout: scores ``[h]`` of other known non-members.
        level: rate of false alarms.

    Raises:
        divulge.InputError: empty, NaN or infinity.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> known, other = rng.normal(size=400), rng.normal(size=200)
        >>> control(known, other).state, control(np.append(known, np.full(40, -9.0)), other).state
        ('passed', 'failed')
    """
    check_number(level, "level", above=0, below=1)
    calibration_scores, holdout_scores = check_vector(calibration, "calibration"), check_vector(holdout, "holdout")
    pooled = np.sort(np.append(calibration_scores, holdout_scores))
    p, description = 1.0, "no lowest scores that stand apart from the rest"
    for edge in pooled[[len(pooled) // part for part in _FRACTIONS]]:
        n_low, n_holdout_low = int(np.searchsorted(pooled, edge)), int((holdout_scores < edge).sum())
        distribution = stats.hypergeom(len(pooled), len(holdout_scores), n_low)
        tail = 2 * len(_FRACTIONS) * float(min(distribution.cdf(n_holdout_low), distribution.sf(n_holdout_low - 1)))
        if tail < p:
            expected = n_low * len(holdout_scores) / len(pooled)
            p, description = (
                tail,
                f"{n_holdout_low} of the {n_low} lowest scores are of the declared-unseen holdout, "
                f"{expected:.1f} expected",
            )
    return Control("low end", p, level, description, conclusive=True)
