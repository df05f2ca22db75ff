"""Power of a selection and the calibration that it takes, by simulation before any data are collected.

`divulge.decisions.fdr.required_calibration` says what makes a selection possible. Its power depends on how well the
scores separate. Here the scores of non-members are standard normal and those of members are shifted to reach a given
AUC. Real scores with the same AUC may need more or fewer calibration records, so measure the AUC on a pilot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from divulge import seeds, statistics
from divulge.decisions import fdr as step_up
from divulge.decisions.counts import Counts
from divulge.decisions.methods import check_fdr
from divulge.errors import InputError
from divulge.settings import DecisionSettings
from divulge.types import Estimate
from divulge.validation import check_instance, check_integer, check_nonempty, check_number, check_vector

if TYPE_CHECKING:
    from divulge.decisions.methods import StepUp
    from divulge.types import Floats

_DEFAULTS = DecisionSettings()
_SEARCH_RUNS = 100  # simulations of each size during the search
_FINAL_RUNS = 400  # simulations of the size that is returned
_SIZE_RATIO = 1.1  # ratio of neighbouring sizes in the search


@dataclass(frozen=True, slots=True)
class Setting:
    """Assumptions about the candidates.

    Args:
        candidates: number of candidates.
        members: number of members among them.
        auc: of the scores, members against non-members: above 0.5, below 1.

    Raises:
        divulge.InputError: no candidates, more members than candidates, an AUC outside (0.5, 1).
    """

    candidates: int
    members: int
    auc: float

    def __post_init__(self) -> None:
        check_integer(self.candidates, "candidates", minimum=1, maximum=10**6)
        check_integer(self.members, "members", minimum=1, maximum=self.candidates)
        check_number(self.auc, "auc", above=0.5, below=1)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Counts, Floats]:
        """Draw candidates and ``n`` calibration scores; return their counts and the scores of the members."""
        scores = rng.normal(size=self.candidates)
        scores[: self.members] += math.sqrt(2) * float(special.ndtri(self.auc))
        return Counts.empty(rng.normal(size=n)).add(scores), scores[: self.members]


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """The size of a calibration set.

    Args:
        calibration: number of records needed; None if ``max_calibration`` records do not reach the power.
        power: simulated power with that many records, or with ``max_calibration`` if those are not enough.
        least: number of records below which no method selects anything, as no p-value reaches the level.
    """

    calibration: int | None
    power: Estimate
    least: int


def power(
    n: int, setting: Setting, *, fdr: float = _DEFAULTS.fdr, method: StepUp | str = "storey", seed: int = 0
) -> Estimate:
    """Return the share of members that is selected, on average over 400 simulated draws.

    Args:
        n: number of calibration scores.
        setting: assumptions about the candidates.
        fdr: the level.
        method: see `divulge.decisions.fdr.decide`.
        seed: of the draws.

    Raises:
        divulge.InputError: no calibration, a level outside (0, 1), a method that does not apply.

    Examples:
        >>> print(power(500, Setting(1000, 500, 0.95), fdr=0.1))
        0.8354 [0.8225, 0.8392]
    """
    check_instance(setting, "setting", Setting, "a decisions.planning.Setting")
    check_integer(n, "n", minimum=1, maximum=10**7)
    level = check_fdr(fdr)
    return _simulate_power(n, setting, level, method, _FINAL_RUNS, seed)


def calibration(
    setting: Setting,
    wanted: float,
    *,
    fdr: float = _DEFAULTS.fdr,
    method: StepUp | str = "storey",
    max_calibration: int = 20_000,
    seed: int = 0,
) -> CalibrationPlan:
    """Return the number of calibration records with which the power reaches ``wanted``.

    Sizes in steps of 10 % are simulated 100 times each, with the same candidates; the result is simulated again, 400
    times, with other draws.

    Args:
        setting: assumptions about the candidates.
        wanted: share of members to be selected, on average.
        fdr: the level.
        method: see `divulge.decisions.fdr.decide`.
        max_calibration: the largest size considered.
        seed: of the draws.

    Raises:
        divulge.InputError: a power or a level outside (0, 1), a method that does not apply, ``max_calibration``
            too small for any selection.

    Examples:
        >>> plan = calibration(Setting(200, 100, 0.95), 0.7, fdr=0.1)
        >>> plan.calibration, plan.least
        (29, 9)
    """
    check_instance(setting, "setting", Setting, "a decisions.planning.Setting")
    level = check_fdr(fdr)
    target_power = check_number(wanted, "wanted", above=0, below=1)
    min_calibration = step_up.required_calibration(setting.candidates, level, setting.candidates)
    check_integer(max_calibration, "max_calibration", minimum=min_calibration, maximum=10**7)
    steps = math.ceil(math.log(max_calibration / min_calibration) / math.log(_SIZE_RATIO))
    sizes = np.unique(
        np.minimum(np.ceil(min_calibration * _SIZE_RATIO ** np.arange(steps + 1)).astype(int), max_calibration)
    ).tolist()

    def reaches_power(n: int) -> bool:
        return _simulate_power(n, setting, level, method, _SEARCH_RUNS, seed).value >= target_power

    low, high = -1, len(sizes)
    while high - low > 1:  # The power increases with the size, apart from noise and the grid of p-values.
        middle = (low + high) // 2
        low, high = (low, middle) if reaches_power(sizes[middle]) else (middle, high)
    size = sizes[high] if high < len(sizes) else None
    return CalibrationPlan(
        size, power(size or max_calibration, setting, fdr=level, method=method, seed=seed + 1), min_calibration
    )


def _simulate_power(n: int, setting: Setting, level: float, method: StepUp | str, runs: int, seed: int) -> Estimate:
    shares = np.zeros(runs)
    for run in range(runs):
        counts, members = setting.draw(n, seeds.generator(seed, "planning", run))
        if not step_up.is_calibration_too_small(n, level):
            shares[run] = np.mean(members > step_up.decide(counts, fdr=level, method=method).threshold)
    return mean_power(shares)


def mean_power(shares: object) -> Estimate:
    """Return the mean share with an interval: the probability that any member is selected times the mean share if so.

    The factors have intervals of their own, so that runs in which no member is selected do not give a power of exactly
    0.

    Args:
        shares: of the members selected, one of each run, ``[runs]``, from 0 to 1.

    Raises:
        divulge.InputError: no runs, NaN, or shares outside of [0, 1].
    """
    shares = check_nonempty(check_vector(shares, "shares"), "shares")
    if shares.min() < 0 or shares.max() > 1:
        raise InputError(f"shares: must be between 0 and 1, got {shares.min():g} to {shares.max():g}")
    positive_shares, error = shares[shares > 0], 0.025 / 2  # error on either side of either factor
    probability = statistics.proportion(len(positive_shares), len(shares), 1 - 2 * error)
    low, high = 0.0, 1.0
    if len(positive_shares) >= 2:
        mean = statistics.mean_estimate(positive_shares, 1 - 2 * error)
        low, high = max(mean.low, 0.0), min(mean.high, 1.0)
    method = f"{len(shares)} draws of normal scores with this AUC; interval of Clopper and Pearson times Student's"
    return Estimate(float(shares.mean()), probability.low * float(low), probability.high * float(high), 0.95, method)
