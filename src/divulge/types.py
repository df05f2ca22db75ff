"""The nouns of the house: frozen dataclasses that hold NumPy arrays and nothing else.

Shapes in this module: ``n`` candidates, ``z`` population records, ``m`` reference models.
Every signal and every score is oriented so that *larger means more like a member*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from divulge import checks, ragged
from divulge.ragged import TokenLogs

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
Standing: TypeAlias = Literal["holds", "doubtful", "void"]  # from best to worst
STANDINGS: tuple[Standing, ...] = get_args(Standing)
Tone: TypeAlias = Literal["leak", "clear", "undecided", "unproven", "void", "doubt", "plain"]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """``n`` records, with labels and identifiers where the auditor has them.

    Args:
        x: array ``[n, ...]`` of numbers (rows, images) or of strings (documents).
        y: integer labels ``[n]``, or None.
        ids: one unique identifier per record, or None.

    Raises:
        divulge.InputError: empty ``x``, NaN or infinity in ``x``, labels that are not whole numbers ≥ 0,
            lengths that differ, repeated ids.

    Examples:
        >>> Records([[0.0, 1.0], [2.0, 3.0]], [0, 1])
        Records(n=2, shape=(2,), classes=2)
    """

    x: Array
    y: Ints | None = None
    ids: Array | None = None

    def __init__(self, x: object, y: object = None, ids: object = None) -> None:
        data = checks.records(x, "x")
        n = len(data)
        object.__setattr__(self, "x", data)
        object.__setattr__(self, "y", None if y is None else checks.labels(y, "y", length=n))
        object.__setattr__(self, "ids", None if ids is None else checks.identifiers(ids, "ids", n))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Array | slice) -> Records:
        """The records at ``index`` (a mask, positions or a slice), in that order."""
        y = None if self.y is None else self.y[index]
        return Records(self.x[index], y, None if self.ids is None else self.ids[index])

    def copy(self) -> Records:
        """The same records in arrays of their own, for whoever may write into them."""
        made = object.__new__(Records)
        for name in ("x", "y", "ids"):
            value = getattr(self, name)
            object.__setattr__(made, name, None if value is None else value.copy())
        return made

    def __repr__(self) -> str:
        classes = "unlabelled" if self.y is None else f"classes={len(np.unique(self.y))}"
        return f"Records(n={len(self)}, shape={self.x.shape[1:]}, {classes})"


@dataclass(frozen=True, slots=True, eq=False)
class PartialRecords:
    """Partly known records; unknown values are overwritten and never read.

    Args:
        x: float array ``[n, ...]``; what stands where ``known`` is False is ignored (NaN is welcome there).
        y: integer labels ``[n]``, or None.
        known: bool, the shape of ``x`` or broadcastable to it; True where the value is known.

    Raises:
        divulge.InputError: a mask that does not fit, a record of which nothing is known, NaN in a known value.

    Examples:
        >>> import numpy as np
        >>> PartialRecords(np.array([[1.0, np.nan]]), [0], np.array([True, False])).x
        array([[1., 0.]])
    """

    x: Array
    y: Ints | None
    known: Bools

    def __init__(self, x: object, y: object, known: object) -> None:
        data = checks.array(x, "x", finite=False)
        mask = checks.mask(known, "known", data.shape)
        data = checks.records(np.where(mask, data, 0.0), "x")
        empty = np.flatnonzero(~mask.reshape(len(mask), -1).any(axis=1))
        if empty.size:
            raise checks.InputError(
                f"known: {empty.size} records have no known value at all (first: record {empty[0]}); "
                "at least one value of every record must be known"
            )
        object.__setattr__(self, "x", data)
        object.__setattr__(self, "y", None if y is None else checks.labels(y, "y", length=len(data)))
        object.__setattr__(self, "known", mask)

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What an attack may read: signals of the target and of reference models, as plain arrays.

    Args:
        target: signal of each candidate under the target, ``[n]``.
        references: the same under each of ``m`` reference models, ``[m, n]``.
        trained_on: bool ``[m, n]``, True where reference model ``i`` was trained on candidate ``j``.
        population: signal of records known not to be members, under the target, ``[z]``.
        population_references: the same under the reference models, ``[m, z]``.
        features: what a quantile regressor may condition on, ``[n, d]``.
        population_features: the same for the population, ``[z, d]``.
        labels: class of each candidate, ``[n]``.
        population_labels: class of each population record, ``[z]``.
        population_trained_on: bool ``[m, z]``, True where reference ``i`` was trained on population record ``j``.
        tokens: log-probabilities of each token of each candidate, where the records are documents.
        population_tokens: the same for the population.
        queries: the same of further versions of all these records (flipped, say) or of further signals, each by itself.

    Raises:
        divulge.InputError: an array that is empty, has NaN or infinity, or does not fit the others.

    Examples:
        >>> Evidence(target=[0.1, 0.9], population=[0.2, 0.3, 0.4])
        Evidence(n=2, m=0, z=3)
    """

    target: Floats
    references: Floats | None = None
    trained_on: Bools | None = None
    population: Floats | None = None
    population_references: Floats | None = None
    features: Array | None = None
    population_features: Array | None = None
    labels: Ints | None = None
    population_labels: Ints | None = None
    population_trained_on: Bools | None = None
    tokens: TokenLogs | None = None
    population_tokens: TokenLogs | None = None
    queries: tuple[Evidence, ...] | None = None

    def __init__(
        self,
        target: object,
        references: object = None,
        trained_on: object = None,
        population: object = None,
        population_references: object = None,
        features: object = None,
        population_features: object = None,
        labels: object = None,
        population_labels: object = None,
        population_trained_on: object = None,
        tokens: object = None,
        population_tokens: object = None,
        queries: object = None,
    ) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        signal = checks.vector(target, "target")
        n = len(signal)
        put("target", signal)
        put("references", refs := None if references is None else checks.matrix(references, "references", columns=n))
        m = None if refs is None else len(refs)
        put("trained_on", _mask(trained_on, "trained_on", m, n))
        put("population", pop := None if population is None else checks.vector(population, "population"))
        z = None if pop is None else len(pop)
        put("population_references", _rows(population_references, "population_references", m, z))
        put("population_trained_on", _mask(population_trained_on, "population_trained_on", m, z))
        put("features", _features(features, "features", n))
        put("population_features", _features(population_features, "population_features", z))
        for name, classes, length in (("labels", labels, n), ("population_labels", population_labels, z)):
            put(name, None if classes is None else checks.labels(classes, name, length=length))
        put("tokens", ragged.matching(tokens, "tokens", n))
        put("population_tokens", ragged.matching(population_tokens, "population_tokens", z))
        put("queries", None if queries is None else _versions(queries, self))

    def __len__(self) -> int:
        return len(self.target)

    def __repr__(self) -> str:
        m = 0 if self.references is None else len(self.references)
        z = 0 if self.population is None else len(self.population)
        return f"Evidence(n={len(self)}, m={m}, z={z})"


def _versions(value: object, first: Evidence) -> tuple[Evidence, ...]:
    for given in (listed := checks.listed(value, "queries")):
        checks.instance(given, "queries", Evidence, "a divulge.Evidence")
        if repr(given) != repr(first) or given.queries is not None:
            raise checks.InputError(f"queries: {first!r} without queries of its own is needed, got {given!r}")
    return tuple(listed)


def _rows(value: object, name: str, rows: int | None, columns: int | None) -> Floats | None:
    if value is None:
        return None
    matrix = checks.matrix(value, name, columns=columns)
    if rows is not None and len(matrix) != rows:
        raise checks.InputError(f"{name}: {len(matrix)} rows, but references has {rows} reference models")
    return matrix


def _mask(value: object, name: str, rows: int | None, columns: int | None) -> Bools | None:
    return None if value is None else checks.mask(value, name, (rows, columns))


def _features(value: object, name: str, length: int | None) -> Array | None:
    if value is None:
        return None
    features = checks.records(value, name)
    if length is not None and len(features) != length:
        raise checks.InputError(f"{name}: {len(features)} rows, but {length} are needed (one per record)")
    return features.reshape(len(features), -1) if features.ndim == 1 else features


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is claimed, at which level, and under which assumptions.

    Args:
        kind: "marginal FPR", "training-conditional FPR", "FDR", …
        level: the bound that is claimed (0.05: at most five per cent).
        assumes: one sentence per assumption; the report prints them next to the claim.
        standing: "holds" where there is no evidence against the assumptions; "doubtful" where something was seen
            that would break the claim under one reading and not under another; "void" where an assumption
            is known, or was shown, to fail: then nothing is claimed.

    Raises:
        divulge.InputError: another standing.

    Examples:
        >>> claim = Guarantee("FDR", 0.05, ("non-member candidates are exchangeable with the calibration records",))
        >>> print(claim)
        FDR ≤ 0.05, assuming non-member candidates are exchangeable with the calibration records
        >>> print(claim.at_most("doubtful"))
        DOUBTFUL: FDR ≤ 0.05, only if non-member candidates are exchangeable with the calibration records
        >>> claim.at_most("void").holds
        False
        >>> print(Guarantee("FDR", 1.0, ()))
        nothing is proven about the FDR
    """

    kind: str
    level: float
    assumes: tuple[str, ...]
    standing: Standing = "holds"

    def __post_init__(self) -> None:
        checks.choice(self.standing, "standing", STANDINGS)

    @property
    def holds(self) -> bool:
        """False only when void: a doubtful claim may hold."""
        return self.standing != "void"

    @property
    def says(self) -> bool:
        """Whether anything is claimed: not void, and a bound below 1."""
        return self.holds and self.level < 1.0

    def at_most(self, standing: Standing) -> Guarantee:
        """The same claim, standing no better than ``standing``."""
        return replace(self, standing=max(self.standing, standing, key=STANDINGS.index))

    def __str__(self) -> str:
        if self.level >= 1.0:
            return f"nothing is proven about the {self.kind}"
        claim, rests = f"{self.kind} ≤ {self.level:g}", " and ".join(self.assumes)
        if self.standing == "void":
            return f"VOID: {claim} (an assumption fails: {rests})" if rests else f"VOID: {claim}"
        if self.standing == "doubtful":
            return f"DOUBTFUL: {claim}, only if {rests}" if rests else f"DOUBTFUL: {claim}"
        return f"{claim}, assuming {rests}" if rests else claim


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty; the only form in which a number leaves the evaluation.

    Args:
        value: the point estimate.
        low: lower end of the interval.
        high: upper end of the interval.
        confidence: coverage of the interval, 0.95 for 95 %.
        method: how the interval was made ("clopper-pearson", "delong", …).

    Examples:
        >>> print(Estimate(0.5, 0.4, 0.6, 0.95, "delong"))
        0.5000 [0.4000, 0.6000]
    """

    value: float
    low: float
    high: float
    confidence: float
    method: str

    def __str__(self) -> str:
        return f"{self.value:z.4f} [{self.low:z.4f}, {self.high:z.4f}]"


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A yes/no for each candidate, and what is guaranteed of the set.

    Args:
        selected: bool ``[n]``.
        p_values: ``[n]``, conformal p-values against known non-members.
        threshold: smallest score that is selected; infinity when none is.
        usage: estimated share of members among the candidates, with interval.
        guarantee: what is claimed about the selected set.
        warnings: what the user must know before relying on it.
    """

    selected: Bools
    p_values: Floats
    threshold: float
    usage: Estimate | None
    guarantee: Guarantee
    warnings: Sequence[str] = field(default_factory=tuple)

    @property
    def count(self) -> int:
        """Number of selected candidates."""
        return int(self.selected.sum())

    def __repr__(self) -> str:
        return f"Selection({self.count} of {len(self.selected)} selected; {self.guarantee})"
