"""Which attack to use: every reference model plays the target once, and its members are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np

from divulge import checks, lazy, seeds
from divulge.attacks import needs
from divulge.attacks.base import BASE
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.learned import Learned
from divulge.attacks.lira import LiRA
from divulge.attacks.protocol import Attack, Need, Scored, adapt, seeded
from divulge.attacks.reference_moments import equal_counts
from divulge.attacks.residual import Residual
from divulge.attacks.rmia import RMIA
from divulge.attacks.threshold import Threshold
from divulge.types import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scipy import stats

    from divulge.types import Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

Unit: TypeAlias = Literal["scaled logit", "log-probability", "probability"]

# Fewer members or non-members than this, and a game says nothing.
_LEAST = 50
# On classes that the population lacks, where there can be no game (docs/attacks.md has the measurements).
_UNSEEN = "rmia-residual"
# A game is played at this share of false positives, beside the whole curve; and at no fewer of them than this.
_STRICT, _FEWEST = 0.02, 5


_SAID_UNSEEN = (
    f"used {_UNSEEN}: most candidates are of classes that the population lacks, of which the reference models' games "
    "cannot tell"
)


@dataclass(frozen=True, slots=True)
class Option:
    """An attack that `Auto` may choose, and what it takes the scaled logit as.

    Args:
        name: what it is called in the notes.
        unit: "scaled logit", "log-probability" or "probability".
        attack: what turns it into a score.

    Raises:
        divulge.InputError: an unknown unit.

    Examples:
        >>> Option("loss", "log-probability", Threshold()).name
        'loss'
    """

    name: str
    unit: Unit
    attack: Attack

    def __post_init__(self) -> None:
        checks.text(self.name, "Option.name")
        checks.choice(self.unit, "Option.unit", ("scaled logit", "log-probability", "probability"))
        checks.able(self.attack, "Option.attack", "run")


_PLAIN = (
    Option("rmia", "probability", RMIA()),
    Option("base", "log-probability", BASE()),
    Option("bavaria", "scaled logit", BaVarIA()),
    Option("lira", "scaled logit", LiRA()),
    Option("learned", "scaled logit", Learned()),
    Option("loss", "log-probability", Threshold()),
)
OPTIONS = (*_PLAIN, *(Option(f"{one.name}-residual", one.unit, Residual(one.attack)) for one in _PLAIN))
"""What is tried, from the first to the last; the first is used where nothing can be tried."""


@dataclass(frozen=True, slots=True, repr=False)
class Auto:
    """The attack that does best where the truth is known: on the population, with a reference model as the target.

    Each reference model takes a turn, up to ``games`` of them. Half of the population's records are its candidates:
    some it was trained on, and which is known. The other half, as far as it was not trained on them, is its
    population. The models that did not see a candidate are the others and the real target, which saw none of these
    records; so one reference model is enough. Every candidate is given equally many of them, drawn at random: in
    most designs a member of one model has more models left that did not see it, and an attack must not profit from
    that. The option with the largest sum of mean AUC and mean TPR at 2 % (or at 5 false positives, in a game of fewer
    than 250 non-members) is used, and a note says which, and by how much it led.

    Nothing of the candidates enters the choice, so the score is one attack's and its decisions need no correction for
    the options tried. The games have about half as many models per record as there are, and the population's classes:
    what pays with more models may be missed. Where most records that are scored are of classes that the population
    lacks, games among other classes mislead, as the models that they are played with know those: no game is played,
    and the option "rmia-residual" is used, which was best or nearly so on the data sets that were tried.

    The evidence holds the "scaled-logit" signal.

    Args:
        options: what is tried. One that needs more reference models than there are, or features where there are none,
            is left out.
        most: greatest number of population records in a game.
        games: greatest number of games; the first reference models play the target.
        seed: of the games, and of options that draw.

    Raises:
        divulge.InputError: no options, a setting out of its range.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> inside, hard = rng.random((4, 600)) < 0.5, rng.normal(size=600)
        >>> signals = 3 * hard + rng.normal(size=(5, 600)) + 2 * np.vstack([np.zeros(600, bool), inside])
        >>> evidence = Evidence([9.0, 0.0], np.zeros((4, 2)), population=signals[0], population_references=signals[1:],
        ...                     population_trained_on=inside)
        >>> Auto().run(evidence).chosen
        'lira'
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_OUT, Need.POPULATION, Need.FEATURES, Need.LABELS})
    least_references: ClassVar[int] = 1

    options: tuple[Option, ...] = OPTIONS
    most: int = 4000
    games: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        options = tuple(checks.listed(self.options, "Auto.options"))
        if not options:
            raise checks.InputError("Auto.options: at least 1 is needed, got none")
        for option in options:
            checks.instance(option, "Auto.options", Option, "a divulge.attacks.auto.Option")
        object.__setattr__(self, "options", options)
        checks.integer(self.most, "Auto.most", least=1)
        checks.integer(self.games, "Auto.games", least=1)
        checks.integer(self.seed, "Auto.seed", least=0)

    def __repr__(self) -> str:
        names = ", ".join(option.name for option in self.options)
        return f"Auto(options=({names}), most={self.most}, games={self.games}, seed={self.seed})"

    def score(self, evidence: Evidence) -> Floats:
        """The chosen attack's scores, ``[n]``.

        Raises:
            divulge.InputError: no references, no population, or what the chosen attack raises.
        """
        return self.run(evidence).scores

    def run(self, evidence: Evidence) -> Scored:
        """The chosen attack's scores, and which it is.

        Raises:
            divulge.InputError: as `score`.
        """
        needs.part(evidence.references, "Auto", "references", "scaled logits of the candidates under reference models")
        needs.part(evidence.population, "Auto", "population", "the target's scaled logits of known non-members")
        options = [option for option in self.options if _fits(option, evidence)] or [self.options[0]]
        if _unseen(evidence) and (sure := next((option for option in options if option.name == _UNSEEN), None)):
            scored = sure.attack.run(_in_unit(evidence, sure.unit))
            return replace(scored, notes=(_SAID_UNSEEN, *scored.notes), chosen=sure.name)
        played = list(_games(evidence, self)) if len(options) > 1 else []
        outcomes = [_outcome(options, *game) for game in played]
        merits = {option.name: [outcome[option.name] for outcome in outcomes] for option in options}
        chosen = max(options, key=lambda option: sum(map(sum, merits[option.name]))) if played else options[0]
        scored = chosen.attack.run(_in_unit(evidence, chosen.unit))
        return replace(scored, notes=(_said(chosen, merits, len(played)), *scored.notes), chosen=chosen.name)

    def seeded(self, seed: int) -> Auto:
        """The same with another seed, in the options too."""
        options = tuple(replace(option, attack=seeded(option.attack, seed)) for option in self.options)
        return replace(self, options=options, seed=seed)


def _unseen(evidence: Evidence) -> bool:
    """Whether most records that are scored are of classes that the population, and so the reference models, lack."""
    if evidence.labels is None or evidence.population_labels is None:
        return False
    return float(np.isin(evidence.labels, evidence.population_labels).mean()) < 0.5


def _fits(option: Option, evidence: Evidence) -> bool:
    assert evidence.references is not None
    enough = option.attack.least_references <= len(evidence.references)
    seen = evidence.features is not None and evidence.population_features is not None
    return enough and (seen or Need.FEATURES not in option.attack.needs)


def _games(evidence: Evidence, auto: Auto) -> Iterator[tuple[Evidence, Bools]]:
    """Every reference model as the target: its evidence, in scaled logits, and which candidates are its members."""
    signals, inside = evidence.population_references, evidence.population_trained_on
    if signals is None or inside is None or evidence.population is None:
        return
    for model in range(min(len(signals), auto.games)):
        rng = seeds.generator(auto.seed, "auto", model)
        rows = rng.permutation(inside.shape[1])[: auto.most]
        asked, known = np.sort(rows[::2]), np.sort(rows[1::2])
        known = known[~inside[model, known]]
        out = np.vstack([np.delete(~inside, model, axis=0), np.ones(inside.shape[1], bool)])
        drawn, full = equal_counts(out[:, asked], inside[model, asked], rng)
        asked, drawn = asked[full], drawn[:, full]
        member = inside[model, asked]
        if min(member.sum(), (~member).sum(), len(known)) < _LEAST:
            continue
        others = np.vstack([np.delete(signals, model, axis=0), evidence.population])
        yield _game(evidence, signals[model], others, out, (asked, known), drawn), member


def _game(
    evidence: Evidence, own: Floats, others: Floats, out: Bools, rows: tuple[Ints, Ints], drawn: Bools
) -> Evidence:
    asked, known = rows
    features, labels = evidence.population_features, evidence.population_labels
    return Evidence(
        own[asked],
        others[:, asked],
        ~drawn,
        own[known],
        others[:, known],
        features=None if features is None else features[asked],
        population_features=None if features is None else features[known],
        labels=None if labels is None else labels[asked],
        population_labels=None if labels is None else labels[known],
        population_trained_on=~out[:, known],
    )


def _outcome(options: Sequence[Option], game: Evidence, member: Bools) -> dict[str, tuple[float, float]]:
    """The merit of every option in a game; an attack whose residual is tried too is run once."""
    ran: dict[tuple[Unit, object], Floats] = {}

    def scores(attack: Attack, unit: Unit) -> Floats:
        if isinstance(attack, Residual):
            return attack.left(scores(adapt(attack.inner), unit), game)
        key = unit, _identity(attack)
        if key not in ran:
            ran[key] = attack.run(_in_unit(game, unit)).scores
        return ran[key]

    return {option.name: _merit(scores(option.attack, option.unit), member) for option in options}


def _identity(attack: Attack) -> object:
    """What two attacks share that give the same scores."""
    try:
        hash(attack)
    except TypeError:  # a third party's, with an array among its settings
        return id(attack)
    return attack


def _merit(scores: Floats, member: Bools) -> tuple[float, float]:
    """AUC, and TPR at a small share of false positives; ties count half."""
    ranks = stats.rankdata(scores)
    inside, outside = ranks[member], np.sort(ranks[~member])
    area = (stats.rankdata(ranks)[member].sum() - len(inside) * (len(inside) + 1) / 2) / len(inside) / len(outside)
    limit = outside[-max(_FEWEST, int(_STRICT * len(outside)))]
    return float(area), float((inside > limit).mean())


def _in_unit(evidence: Evidence, unit: Unit) -> Evidence:
    if unit == "scaled logit":
        return evidence

    def convert(logits: Floats | None) -> Floats | None:
        if logits is None:
            return None
        logarithm = -np.logaddexp(0.0, -logits.astype(np.float64))
        return logarithm if unit == "log-probability" else np.exp(logarithm)

    names = ("target", "references", "population", "population_references")
    return replace(evidence, **{name: convert(getattr(evidence, name)) for name in names})


def _said(chosen: Option, merits: Mapping[str, list[tuple[float, float]]], games: int) -> str:
    if not games:
        return f"nothing to choose by: used {chosen.name} (too few population records whose models are known)"
    means = {name: np.mean(values, axis=0) for name, values in merits.items()}
    order = sorted(means, key=lambda name: (name != chosen.name, -float(means[name].sum())))
    told = "; ".join(f"{name} {means[name][0]:.3f} / {means[name][1]:.3f}" for name in order[:4])
    return (
        f"chose {chosen.name} of {len(means)} options on the reference models alone: AUC / TPR at a low FPR over "
        f"{games} games: {told}"
    )
