"""A recipe pairs a signal with an attack and gives the pair its name."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from divulge import checks
from divulge.signals import classification

if TYPE_CHECKING:
    from divulge.types import Evidence, Floats, PartialRecords, Records

References: TypeAlias = Literal["none", "out", "in and out"]

# Columns of a score table that are not recipes.
RESERVED = frozenset({"id", "member", "label", "group"})


@runtime_checkable
class Attack(Protocol):
    """Numbers across models into one score a candidate."""

    def score(self, evidence: Evidence) -> Floats:
        """Scores ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class Signal(Protocol):
    """Anything that asks a target about records and ends in one number each (an active attack, say)."""

    @property
    def name(self) -> str:
        """What the signal is called in tables and files."""
        ...

    def measure(self, target: Any, records: Records) -> Floats:
        """One number a record ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class PartialMeasure(Protocol):
    """A `PartialSignal` that has seen its auxiliary records."""

    @property
    def queries(self) -> int:
        """Queries it makes a record."""
        ...

    def measure(self, target: Any, partial: PartialRecords) -> Floats:
        """One number a record ``[n]``, larger = more like a member."""
        ...


@runtime_checkable
class PartialSignal(Protocol):
    """A signal that itself deals with unknown values (`divulge.signals.completion.MRAD`, say)."""

    @property
    def name(self) -> str:
        """What the signal is called in tables and files."""
        ...

    def fit(self, auxiliary: Records, seed: int = 0) -> PartialMeasure:
        """Learn from records that are disjoint from the candidates."""
        ...


@dataclass(frozen=True, slots=True)
class Imputed:
    """How completions of a record, of which only part is known, become one score.

    Args:
        draws: 1 for the single best completion; more for multiple imputation.
        average: over draws: "signal" (of each model), "likelihood" (of each model: the log of the mean of the
            signals' exponentials) or "score" (each draw is attacked alone).

    Raises:
        divulge.InputError: fewer than 1 draw, an unknown average.
    """

    draws: int = 1
    average: Literal["signal", "likelihood", "score"] = "signal"

    def __post_init__(self) -> None:
        checks.integer(self.draws, "draws", least=1)
        checks.choice(self.average, "average", ("signal", "likelihood", "score"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """A signal, an attack on it, and what the pair needs.

    Args:
        name: what it is called.
        signal: the name of a classification signal, a `Signal`, or a `PartialSignal`.
        attack: what turns the signal into a score.
        references: "none"; "out": models trained on the auditor's population only; "in and out": models
            each trained on a random half of population and candidates.
        summary: one line for `divulge list`.
        features: whether the attack reads ``evidence.features`` (they cost a reduction of all records).
        imputed: for recipes made for partly known records: how completions are averaged. Others see the
            single best completion.

    Raises:
        divulge.InputError: an unknown signal, a signal of one's own that is called like one of ours, a name that a
            score table needs for something else.
    """

    name: str
    signal: str | Signal | PartialSignal
    attack: Attack
    references: References = "none"
    summary: str = ""
    imputed: Imputed | None = None
    features: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.signal, str):
            checks.choice(self.signal, "signal", classification.SIGNALS)
        elif self.signal.name in classification.SIGNALS:
            raise checks.InputError(f"signal: {self.signal.name!r} is the name of another signal; choose another")
        if self.name in RESERVED or ":" in self.name:
            raise checks.InputError(f"recipe: {self.name!r} cannot be a recipe's name (nor can one with a colon)")

    @property
    def signal_name(self) -> str:
        """Name of the signal."""
        return self.signal if isinstance(self.signal, str) else self.signal.name

    @property
    def reads(self) -> str:
        """What of the target the adversary must see, in words; a signal that reads more than outputs says so."""
        return getattr(self.signal, "reads", "the target's outputs on each candidate")

    @property
    def needs_labels(self) -> bool:
        """Whether the signal reads the record's label."""
        if isinstance(self.signal, str):
            return self.signal not in classification.LABEL_AGNOSTIC
        return isinstance(self.signal, PartialSignal)

    @property
    def needs_training(self) -> bool:
        """Whether models are trained for it: reference models, or a signal's shadow models."""
        return self.references != "none" or getattr(self.signal, "shadows", 0) > 0

    @property
    def needs_known(self) -> bool:
        """Whether it is made for records of which only part is known."""
        return self.imputed is not None or isinstance(self.signal, PartialSignal)


@cache
def recipes() -> tuple[Recipe, ...]:
    """Every recipe for whole records that comes with Divulge, in the order of the report.

    Examples:
        >>> [recipe.name for recipe in recipes()][:4]
        ['loss', 'entropy', 'gap', 'calibrated']
    """
    from divulge.attacks import RMIA, Calibrated, Combined, Learned, LiRA, QuantileRegression, Threshold, Transductive

    return (
        Recipe("loss", "negative-loss", Threshold(), summary="LOSS: how small the loss is (Yeom et al. 2018)"),
        Recipe("entropy", "modified-entropy", Threshold(), summary="modified entropy (Song & Mittal 2021)"),
        Recipe("gap", "top-two-gap", Threshold(), summary="top-two logit gap; needs no label"),
        Recipe(
            "calibrated",
            "negative-loss",
            Calibrated(),
            "out",
            "loss less its mean under reference models (Watson et al. 2022)",
        ),
        Recipe(
            "lira",
            "scaled-logit",
            LiRA(mode="offline", variance="global"),
            "out",
            "offline likelihood ratio, one-sided (Carlini et al. 2022)",
        ),
        Recipe(
            "lira-online",
            "scaled-logit",
            LiRA(mode="online", variance="global"),
            "in and out",
            "online likelihood ratio (Carlini et al. 2022)",
        ),
        Recipe("rmia", "confidence", RMIA(), "out", "offline relative attack (Zarifzadeh et al. 2024)"),
        Recipe(
            "rmia-online",
            "confidence",
            RMIA(offline_a=None),
            "in and out",
            "online relative attack (Zarifzadeh et al. 2024)",
        ),
        Recipe("learned", "scaled-logit", Learned(), "out", "log-odds learned on the reference models' own records"),
        Recipe(
            "learned-online",
            "scaled-logit",
            Learned("online"),
            "in and out",
            "log-odds learned on models trained on halves of the candidates",
        ),
        Recipe(
            "quantile",
            "hinge",
            QuantileRegression(conformal=False),
            features=True,
            summary="quantile regression on the true-class hinge (Bertran et al. 2023)",
        ),
        Recipe(
            "quantile-gap",
            "top-two-gap",
            QuantileRegression(conformal=False),
            features=True,
            summary="quantile regression on the top-two gap, for unseen classes (Thaker et al. 2025)",
        ),
        Recipe(
            "transductive",
            "hinge",
            Transductive(),
            features=True,
            summary="hinge beyond what the candidates' own features explain, for unseen classes",
        ),
        Recipe(
            "combined",
            "hinge",
            Combined((QuantileRegression(conformal=False), Transductive())),
            features=True,
            summary="mean rank under quantile regression and the transductive attack, for unseen classes",
        ),
    )


@cache
def weight_recipes() -> tuple[Recipe, ...]:
    """The recipes for homogeneous ReLU networks with two classes, whose weights the auditor holds."""
    from divulge.attacks import Threshold
    from divulge.signals.homogeneous import DeepMultipliers
    from divulge.signals.margin import KKTMultipliers, MarginAbs, MarginBand

    return (
        Recipe("margin-abs", MarginAbs(), Threshold(), summary="how large the network's output is"),
        Recipe("margin-band", MarginBand(), Threshold(), summary="how close the output is to the margin"),
        Recipe(
            "kkt-nnls",
            KKTMultipliers(),
            Threshold(),
            summary="the record's multiplier in the best KKT explanation of the weights",
        ),
        Recipe(
            "kkt-nnls-deep",
            DeepMultipliers(),
            Threshold(),
            summary="the same for deep homogeneous networks, of which nothing is proven",
        ),
    )


@cache
def partial_recipes() -> tuple[Recipe, ...]:
    """The recipes for records of which only part is known (``dv.audit(known=…)``)."""
    from divulge.attacks import Learned, LiRA, LogRatio, Threshold
    from divulge.signals.completion import MRAD, GradientMatching

    return (
        Recipe("partial-loss", "negative-loss", Threshold(), summary="LOSS on the completed record", imputed=Imputed()),
        Recipe(
            "partial-lira",
            "scaled-logit",
            LiRA(mode="offline", variance="global"),
            "out",
            "offline LiRA, its signal averaged over completions",
            Imputed(8, "signal"),
        ),
        Recipe(
            "partial-rmia",
            "negative-loss",
            LogRatio(),
            "out",
            "RMIA's log ratio, averaged over completions",
            Imputed(8, "score"),
        ),
        Recipe(
            "partial-marginal",
            "negative-loss",
            LogRatio(),
            "out",
            "ratio of likelihoods marginalised over completions",
            Imputed(8, "likelihood"),
        ),
        Recipe(
            "partial-learned",
            "scaled-logit",
            Learned(),
            "out",
            "log-odds learned on the reference models' own records",
            Imputed(),
        ),
        Recipe(
            "partial-lira-online",
            "scaled-logit",
            LiRA(mode="online", variance="global"),
            "in and out",
            "online LiRA, IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "partial-rmia-online",
            "negative-loss",
            LogRatio(over="all"),
            "in and out",
            "RMIA's log ratio, IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "partial-learned-online",
            "scaled-logit",
            Learned("online"),
            "in and out",
            "log-odds learned on IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "mrad",
            MRAD(),
            Threshold(),
            summary="descend the loss on the unknown values, then detect deviations (MRAD; for comparison)",
        ),
        Recipe("mrad-shadow", MRAD(shadows=2), Threshold(), summary="MRAD's deviation beside two shadow models'"),
        Recipe(
            "gradient-norm",
            MRAD(detector="gradient-norm"),
            Threshold(),
            summary="norm of the loss's gradient on the unknown values (for comparison)",
        ),
        Recipe("gradient-matching", GradientMatching(), Threshold(), summary="match a member's gradient (as DLG does)"),
    )


def everything() -> tuple[Recipe, ...]:
    """All recipes that come with Divulge: for whole records, for partly known ones, for weights."""
    return (*recipes(), *partial_recipes(), *weight_recipes())


def resolve(wanted: object) -> Recipe:
    """The recipe that ``wanted`` means.

    Args:
        wanted: a recipe, the name of one, or a third party's ``"module:Class"`` (a `Recipe`, or a callable
            that returns one).

    Raises:
        divulge.InputError: unknown name (the nearest is suggested), an import that fails, another type.

    Examples:
        >>> resolve("loss").signal
        'negative-loss'
    """
    if isinstance(wanted, Recipe):
        return wanted
    if not isinstance(wanted, str):
        raise checks.InputError(f"recipes: a name or a Recipe is needed, got {type(wanted).__name__}")
    if ":" in wanted:
        return _third_party(wanted)
    known = {recipe.name: recipe for recipe in everything()}
    return known[checks.choice(wanted, "recipes", known)]


def seeded(recipe: Recipe, seed: int) -> Recipe:
    """The recipe with the run's seed in its attack, and in the attacks that one is made of, where they draw."""
    return dataclasses.replace(recipe, attack=_seeded(recipe.attack, seed))


def _seeded(attack: Any, seed: int) -> Any:
    from divulge.attacks import Combined

    if not dataclasses.is_dataclass(attack) or isinstance(attack, type):
        return attack
    if isinstance(attack, Combined):
        return Combined(tuple(_seeded(part, seed) for part in attack.attacks))
    draws = any(field.name == "seed" for field in dataclasses.fields(attack))
    return dataclasses.replace(attack, seed=seed) if draws else attack


def _third_party(name: str) -> Recipe:
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise checks.InputError(f"recipes: {name!r} cannot be imported ({error})") from None
    made = found if isinstance(found, Recipe) else found()
    if not isinstance(made, Recipe):
        raise checks.InputError(f"recipes: {name!r} is a {type(made).__name__}, not a divulge.recipes.Recipe")
    return made
