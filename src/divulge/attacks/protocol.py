"""The contract of an attack: the evidence it reads, the scores it returns, and checks that both share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from divulge.errors import InputError
from divulge.validation import check_integer, require_callable

if TYPE_CHECKING:
    from divulge.types import Bools, Evidence, Floats

T = TypeVar("T")


class Need(StrEnum):
    """A part of the evidence that an attack may read, beside the target's signal on the candidates.

    With reference models or features, the population's part of them goes with `POPULATION`.

    Examples:
        >>> Need("population") in {"population"}
        True
    """

    REFERENCES_OUT = "references out"
    """Models trained on no candidate."""
    REFERENCES_IN_AND_OUT = "references in and out"
    """Models each trained on a random half of the candidates."""
    REFERENCES_BASE = "references base"
    """The model that the target was fine-tuned from."""
    REFERENCES_SUBSTITUTES = "references substitutes"
    """Models trained on the population as the target labels it."""
    POPULATION = "population"
    """The target's signal on known non-members."""
    FEATURES = "features"
    """Features of the records."""
    RECORDS = "records"
    """The records themselves, as ``Evidence.features``, in the place of features that were made of them."""
    LABELS = "labels"
    """Classes of the records."""
    TOKENS = "tokens"
    """Log-probabilities of each token of a document under the target and, if there are any, reference models."""
    VOCABULARY = "vocabulary"
    """Where the target's likeliest token is another one, in ``tokens``; a server that shows no more than the
    log-probability of each token cannot say."""
    QUERIES = "queries"
    """The same evidence of further versions of the records, or of further signals of them."""


REFERENCES = frozenset(
    {Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT, Need.REFERENCES_BASE, Need.REFERENCES_SUBSTITUTES}
)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Result of an attack.

    Args:
        scores: one per candidate, ``[n]``, larger = more like a member.
        notes: what the reader of the result must know (fallbacks taken).
        nominal: the attack's nominal threshold for a false-positive rate, where it has one.
        calibration: calibration scores, of known non-members that the attack set aside itself, ``[k]``, where it does.
        chosen: name of the attack that it used, where it chose one of several (see `Auto`).
    """

    scores: Floats
    notes: tuple[str, ...] = ()
    nominal: Callable[[float], float] | None = None
    calibration: Floats | None = None
    chosen: str | None = None


@runtime_checkable
class Scores(Protocol):
    """Minimum that an attack provides; `adapt` completes it to an `Attack`."""

    __slots__ = ()

    def score(self, evidence: Evidence) -> Floats:
        """Scores ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class Attack(Scores, Protocol):
    """Attack: turns signals under several models into one score per candidate; its fields are its settings.

    A sub-class is a frozen dataclass with `score`, or with `run` where there is more to say than scores, and with
    `needs` unless it reads the target's signal alone. One that draws at random has a field ``seed``.

    Examples:
        >>> from divulge import Evidence
        >>> class Negated(Attack):
        ...     def score(self, evidence):
        ...         return -evidence.target
        >>> Negated().run(Evidence([1.0, 2.0])).scores
        array([-1., -2.])
    """

    __slots__ = ()

    @property
    def needs(self) -> frozenset[Need]:
        """All of the evidence that it may read; an audit gives it nothing else."""
        return frozenset()

    @property
    def least_references(self) -> int:
        """The fewest reference models that it can work with; 0 if it reads none."""
        return 1 if self.needs & REFERENCES else 0

    def score(self, evidence: Evidence) -> Floats:
        """Return the scores ``[n]``, larger = more like a member.

        Raises:
            divulge.InputError: as `run`.
        """
        return self.run(evidence).scores

    def run(self, evidence: Evidence) -> Scored:
        """Return the scores, and notes on them."""
        return Scored(self.score(evidence))

    def seeded(self, seed: int) -> Attack:
        """Return the same attack with this seed in it and in the attacks that it is made of, where they draw."""
        return _with_seed(self, seed)


def adapt(attack: Scores) -> Attack:
    """Return ``attack`` as it is, or with what it lacks filled in.

    Of `Attack`, a third party's must have ``score`` alone. Where it does not say what it needs, it is given all that
    its recipe has: reference models and features if the recipe names them, and always population and labels. Without
    ``least_references``, one model will do. A dataclass with a field ``seed`` is seeded by it.

    Raises:
        divulge.InputError: no ``score``.

    Examples:
        >>> class Mine:
        ...     def score(self, evidence):
        ...         return -evidence.target
        >>> sorted(adapt(Mine()).needs)[:2]
        [<Need.FEATURES: 'features'>, <Need.LABELS: 'labels'>]
    """
    if isinstance(attack, Attack):
        return attack
    if not isinstance(attack, Scores):
        raise InputError(f"attack: an object with score(evidence) is needed, got {type(attack).__name__}")
    return _Adapted(attack)


def seeded(attack: Any, seed: int) -> Any:
    """Return ``attack`` with this seed if it makes random draws; anything with ``score`` is taken."""
    check_integer(seed, "seed", minimum=0)
    require_callable(attack, "attack", "score")
    return attack.seeded(seed) if isinstance(attack, Attack) else _with_seed(attack, seed)


def _with_seed(attack: Any, seed: int) -> Any:
    if not dataclasses.is_dataclass(attack) or isinstance(attack, type):
        return attack
    changes = {}
    for field in dataclasses.fields(attack):
        value = getattr(attack, field.name)
        if field.name == "seed" and field.init:
            changes["seed"] = seed
        elif isinstance(value, tuple) and value and all(isinstance(inner, Scores) for inner in value):
            changes[field.name] = tuple(seeded(inner, seed) for inner in value)
        elif isinstance(value, Scores):
            changes[field.name] = seeded(value, seed)
    return dataclasses.replace(attack, **changes) if changes else attack


def check_installed(part: Any) -> None:
    """Check that whatever an attack, and the attacks and regressors that it is made of, computes with is installed.

    Raises:
        divulge.MissingExtraError: a library that comes with an extra is not.
        divulge.InputError: files that a regressor starts from are not there.

    Examples:
        >>> check_installed(object())
    """
    if callable(check := getattr(part, "check_installed", None)):
        check()
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            check_installed(each)


@dataclass(frozen=True, slots=True)
class _Adapted(Attack):
    """A third party's attack that is no `Attack`, with what it does not say filled in."""

    attack: Any

    @property
    def needs(self) -> frozenset[Need]:
        stated = getattr(self.attack, "needs", None)
        return frozenset(Need) if stated is None else frozenset(stated)

    @property
    def least_references(self) -> int:
        return getattr(self.attack, "least_references", 1 if self.needs & REFERENCES else 0)

    def run(self, evidence: Evidence) -> Scored:
        if hasattr(self.attack, "run"):
            return self.attack.run(evidence)
        return Scored(self.attack.score(evidence))


def references_for_mode(mode: Literal["offline", "online"], *beside: Need) -> frozenset[Need]:
    """Return the need for reference models of the kind that ``mode`` says; offline also what is named beside it.

    Examples:
        >>> sorted(references_for_mode("offline", Need.POPULATION))
        [<Need.POPULATION: 'population'>, <Need.REFERENCES_OUT: 'references out'>]
        >>> set(references_for_mode("online", Need.POPULATION))
        {<Need.REFERENCES_IN_AND_OUT: 'references in and out'>}
    """
    return frozenset({Need.REFERENCES_IN_AND_OUT} if mode == "online" else {Need.REFERENCES_OUT, *beside})


def part(value: T | None, attack: str, name: str, description: str) -> T:
    """Return ``value``, the part ``name`` of the evidence, if it is there.

    Raises:
        divulge.InputError: it is missing.

    Examples:
        >>> part(None, "LiRA", "references", "candidates under reference models")
        Traceback (most recent call last):
        divulge.errors.InputError: LiRA: evidence.references is needed (candidates under reference models)
    """
    if value is None:
        raise InputError(f"{attack}: evidence.{name} is needed ({description})")
    return value


def out_models(trained_on: Bools | None, attack: str) -> None:
    """Check that at least one candidate was left out of at least one reference model.

    Raises:
        divulge.InputError: every reference model was trained on every candidate.
    """
    if trained_on is not None and trained_on.all():
        raise InputError(
            f"{attack}: evidence.trained_on says that every reference model was trained on every candidate; "
            "at least one model that was not is needed"
        )


def require_members_in_models(trained_on: Bools | None, attack: str) -> Bools:
    """Return ``trained_on``; at least one reference model must have been trained on at least one candidate.

    Raises:
        divulge.InputError: it is missing, or says otherwise.
    """
    membership = part(trained_on, f"{attack}(mode='online')", "trained_on", "which models saw which candidate")
    if not membership.any():
        raise InputError(
            f"{attack}(mode='online'): evidence.trained_on says that no reference model was trained on any "
            "candidate; use mode='offline'"
        )
    return membership


def log_probabilities(target: Floats, references: Floats, attack: str, signal: str = "negative-loss") -> None:
    """Check that all signals are logarithms of probabilities, as those called ``signal`` are.

    Raises:
        divulge.InputError: a positive value.
    """
    for values, name in ((target, "target"), (references, "references")):
        if values.max() > 0:
            raise InputError(
                f"{attack}: evidence.{name} must hold log-probabilities, at most 0, got {values.max():g}; "
                f"use the {signal!r} signal"
            )


def record_versions(evidence: Evidence, attack: str) -> Sequence[Evidence]:
    """Return the evidence of every version of the records: as they are, then ``queries``.

    Raises:
        divulge.InputError: no further versions.
    """
    further_versions = part(evidence.queries, attack, "queries", "the same evidence of further versions of the records")
    return (evidence, *further_versions)
