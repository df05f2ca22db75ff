"""How many of the best candidates can be non-members, for every number of them at once: look first, choose afterwards.

A false discovery rate is an average over selections at a level fixed beforehand. Here one event, of probability at
least ``confidence``, makes all bounds true together, so the user may look at the scores and then choose how many
candidates to name. The event is that nowhere too many non-members score above the calibration; `null_paths` has its
probability, whatever the scores are. From there the bounds are arithmetic: of any set, at most those outside the ``r``
best can be non-members, and as many as the band allows among the ``r`` best.

Sources: Song, Jin & Candès, "Everywhere valid bounds on false discovery proportions in conformal inference", arXiv
2605.20726 (the idea of an envelope by the joint law; the curves and the bound of the non-members here are ours);
Genovese & Wasserman, "Exceedance control of the false discovery proportion", 2006; Blanchard, Neuvial &
Roquain, "Post hoc confidence bounds on false positives using reference families", 2020; Gazin, Blanchard & Roquain,
"Transductive conformal inference with adaptive scores", AISTATS 2024 (the joint law of conformal p-values).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.decisions import counts as counting
from divulge.decisions import fdr
from divulge.decisions.counts import Counts
from divulge.decisions.null_paths import bands
from divulge.errors import InputError
from divulge.types import Guarantee
from divulge.validation import check_integer, check_number, check_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from divulge.decisions.methods import StepUp
    from divulge.types import Floats, Ints, Standing

ASSUMES = ("non-member candidates are exchangeable with the calibration records",)
_SUREST = 0.999  # a greater confidence takes more simulated paths than are drawn


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Bounds of the false discovery proportion of the ``k`` best candidates, true for all ``k`` at once.

    ``np.asarray(envelope)`` has the bound of the ``k`` best at ``[k - 1]``, ``[m]``, between 0 and 1. Candidates that
    tie with the ``k``-th best may be counted or not: the bound holds for either.

    Args:
        reached: numbers of best candidates that something is known of, ascending to ``m``, ``[r]``.
        most: non-members among these, at most, ``[r]``.
        confidence: with which all bounds hold together.
        method: how they were made.
        guarantee: what is claimed, and under which assumptions.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> best = envelope(rng.normal(size=500), np.append(rng.normal(3, 1, 200), rng.normal(size=200)))
        >>> best.false(100), best.largest(0.2), best.members
        (8, 208, 167)
    """

    reached: Ints
    most: Ints
    confidence: float
    method: str
    guarantee: Guarantee

    def __len__(self) -> int:
        return int(self.reached[-1])

    def __repr__(self) -> str:
        return f"Envelope({len(self)} candidates, at most {self.nonmembers} of them non-members; {self.guarantee})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        bounds, start = np.empty(len(self)), 0
        min_members = np.append(0, self._spared[:-1])
        # Bounds rise by one for every candidate at most, and are flat where a rank says more.
        for end, max_false, members_before in zip(
            self.reached.tolist(), self.most.tolist(), min_members.tolist(), strict=True
        ):
            number = np.arange(start + 1.0, end + 1.0)
            bounds[start:end] = np.minimum(number - members_before, max_false) / number
            start = end
        return bounds.astype(dtype or np.float64, copy=False)

    def at_most(self, standing: Standing) -> Envelope:
        """The same bounds, whose guarantee stands no better than that of the selection they are shown beside.

        Examples:
            >>> print(envelope(range(99), [120.0] * 30).at_most("void").guarantee.says)
            False
        """
        return replace(self, guarantee=self.guarantee.at_most(standing))

    @property
    def nonmembers(self) -> int:
        """Non-members among all candidates, at most."""
        return int(self.most[-1])

    @property
    def members(self) -> int:
        """Members among all candidates, at least."""
        return len(self) - self.nonmembers

    @property
    def _spared(self) -> Ints:
        """Members among the candidates reached, at least."""
        return np.maximum.accumulate(self.reached - self.most)

    def false(self, k: int) -> int:
        """Non-members among the ``k`` best, at most.

        Raises:
            divulge.InputError: ``k`` below 1, or more than there are.
        """
        check_integer(k, "k", least=1, most=len(self))
        i = int(np.searchsorted(self.reached, k))
        min_members = int(self._spared[i - 1]) if i else 0
        return int(min(self.most[i], k - min_members))

    def bound(self, k: int) -> float:
        """Return the false discovery proportion of the ``k`` best, at most.

        Raises:
            divulge.InputError: ``k`` below 1, or more than there are.
        """
        return self.false(k) / k

    def largest(self, fdp: float) -> int:
        """The largest number of best candidates of which at most this share are non-members; 0 where there is none.

        The share may be chosen after looking at all bounds.

        Raises:
            divulge.InputError: a share outside [0, 1].
        """
        level = check_number(fdp, "fdp", above=0, below=1, closed=True)
        if level >= 1:
            return len(self)
        # Between two ranks bounds rise with every candidate, then are flat: the end is best, or the last that rises.
        sizes_within = self.reached[self.most <= level * self.reached * (1 + 1e-12)]
        rising = np.floor(self._spared / (1 - level) * (1 + 1e-12))
        rising = np.minimum(rising, np.append(self.reached[1:], len(self))).astype(np.int64)
        return int(max(np.max(sizes_within, initial=0), np.max(rising[rising >= self.reached], initial=0)))


def envelope(calibration: object, candidates: object, *, confidence: float = 0.95, seed: int = 0) -> Envelope:
    """Bounds of the false discovery proportion of the ``k`` best candidates, for all ``k`` at once.

    With probability at least ``confidence`` over calibration and candidates, none of the bounds fails. They need no
    continuous scores (ties count against the candidates), no bound on the share of members and nothing about how
    members score. The number of non-members is bounded in the same event, at no cost in confidence, and all other
    bounds use it.

    Args:
        calibration: scores ``[n]`` of known non-members; larger means more like a member.
        candidates: scores ``[m]``.
        confidence: of all bounds together; at most 0.999.
        seed: of the simulated orders of non-members and calibration; bounds of one ``n``, ``m``, confidence and seed
            rest on the same ones.

    Raises:
        divulge.InputError: empty, NaN or infinity, a confidence outside (0, 0.999].

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> bounds = np.asarray(envelope(rng.normal(size=500), rng.normal(2, 1, 100)))
        >>> bounds[[9, 49, 99]].round(2)
        array([0.2 , 0.08, 0.16])
    """
    empty_counts = Counts.empty(calibration)
    return of(empty_counts.add(check_vector(candidates, "candidates")), confidence=confidence, seed=seed)


def of(counts: Counts, *, confidence: float = 0.95, seed: int = 0) -> Envelope:
    """`envelope`, from the numbers of candidates above each calibration score alone.

    Raises:
        divulge.InputError: no candidates, a confidence outside (0, 0.999].

    Examples:
        >>> of(Counts.empty(range(99)).add([120.0] * 30)).false(30)
        0
    """
    counting.nonempty(counts)
    if check_number(confidence, "confidence", above=0, below=1) > _SUREST:
        raise InputError(f"confidence: at most {_SUREST} can be simulated, got {confidence:g}")
    check_integer(seed, "seed", least=0)
    n, m = len(counts.calibration), counts.total
    band_table = bands(n, m, float(confidence), int(seed))
    reached = counts.above[n - band_table.ranks]
    # The band for the true number of non-members holds. It says how many there can be, and no band for more says less.
    nonmembers = np.minimum(band_table.sizes, m - np.max(reached - band_table.most, axis=1))
    i = int(np.argmax(nonmembers > np.append(band_table.sizes[1:], -1)))
    reached, max_false = np.append(reached, m), np.append(band_table.most[i], nonmembers[i])
    # Of equal numbers reached the first rank says most; and a wider set cannot hold fewer.
    max_false = np.minimum(np.minimum.accumulate(np.minimum(max_false, reached)[::-1])[::-1], nonmembers[i])
    reached, first_index = np.unique(reached, return_index=True)
    origin = "counted exactly" if band_table.counted else "simulated, with an allowance for that"
    method = f"simultaneous band of {len(band_table.ranks)} calibration ranks; its confidence is {origin}"
    guarantee = Guarantee("chance that any of these bounds fails", round(1 - confidence, 12), ASSUMES)
    return Envelope(reached, max_false[first_index], float(confidence), method, guarantee)


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Every selection of best candidates that p-values tell apart, with both kinds of bound.

    Args:
        best: number of candidates in each, ascending to ``m``, ``[r]``.
        bounds: false discovery proportion at most, in all of them at once, ``[r]``.
        q_values: the least level at which the method selects that many, ``[r]``; 1 where no level below 1 does.
    """

    best: Ints
    bounds: Floats
    q_values: Floats


def choices(counts: Counts, *, method: StepUp | str = "storey", confidence: float = 0.95, seed: int = 0) -> Choices:
    """What can be chosen, from the numbers of candidates above each calibration score alone: for tables and sliders.

    Args:
        counts: candidates above each calibration score.
        method: of the q-values, see `divulge.decisions.fdr.decide`.
        confidence: of the bounds.
        seed: of the bounds, see `envelope`.

    Raises:
        divulge.InputError: no candidates, a confidence outside (0, 0.999], a method that does not apply.

    Examples:
        >>> made = choices(Counts.empty(range(99)).add([98.5, 120.0, 121.0, 7.0]), method="bh")
        >>> made.best.tolist(), made.q_values.round(3).tolist()
        ([3, 4], [0.013, 0.93])
    """
    envelope = of(counts, confidence=confidence, seed=seed)
    q_values = fdr.decide(counts, fdr=1 - 1e-9, method=method).q_values
    best, first_index = np.unique(counts.reached, return_index=True)
    best, first_index = best[best > 0], first_index[best > 0]
    return Choices(best, np.asarray(envelope)[best - 1], q_values[first_index])
