"""Averages of several attacks: of those that are named, or of those that do best where the truth is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
from scipy import special

from divulge import lazy, seeds
from divulge.attacks import protocol
from divulge.attacks.bavaria import BaVarIA
from divulge.attacks.learned import Learned
from divulge.attacks.lira import LiRA
from divulge.attacks.protocol import Attack, Need, Scored, Scores, adapt, seeded
from divulge.attacks.reference_moments import equal_counts
from divulge.attacks.residual import MIN_RECORDS, Residual
from divulge.attacks.rmia import BASE, RMIA
from divulge.attacks.threshold import Threshold
from divulge.duplicates import keep_together
from divulge.errors import InputError
from divulge.types import Evidence
from divulge.validation import (
    as_list,
    check_choice,
    check_instance,
    check_integer,
    check_number,
    check_string,
    format_value,
    require_callable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scipy import stats

    from divulge.types import Bools, Floats, Ints
else:
    stats = lazy.module("scipy.stats")

Unit: TypeAlias = Literal["scaled logit", "log-probability", "probability"]

# On classes that the population lacks, where there can be no game (docs/annex/attacks.md has the measurements).
_UNSEEN = "rmia-residual"

_UNSEEN_NOTE = (
    f"used {_UNSEEN}: most candidates are of classes that the population lacks, of which the reference models' games "
    "cannot tell"
)
_SOME_UNSEEN_NOTE = (
    f"used {_UNSEEN} for {{count:,}} records of classes that the population lacks, of which the reference models' "
    "games cannot tell"
)
_SINGLE_OPTION_NOTE = "the only option for which there are reference models, features and records enough"


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
        check_string(self.name, "Option.name")
        check_choice(self.unit, "Option.unit", ("scaled logit", "log-probability", "probability"))
        require_callable(self.attack, "Option.attack", "run")


_PLAIN_OPTIONS = (
    Option("rmia", "probability", RMIA()),
    Option("base", "log-probability", BASE()),
    Option("bavaria", "scaled logit", BaVarIA()),
    Option("lira", "scaled logit", LiRA()),
    Option("learned", "scaled logit", Learned()),
    Option("loss", "log-probability", Threshold()),
)
OPTIONS = (
    *_PLAIN_OPTIONS,
    *(Option(f"{option.name}-residual", option.unit, Residual(option.attack)) for option in _PLAIN_OPTIONS),
)
"""Options that are tried in games, in this order; the first is used where no game can be played."""

_LEARNED_FEW = Learned(few=True)
JOINED = (
    Option("learned-few", "scaled logit", _LEARNED_FEW),
    Option("learned-few-residual", "scaled logit", Residual(_LEARNED_FEW)),
)
"""Options that are averaged with the chosen ones without a game: with one reference model none could try them."""
ONLINE_OPTIONS = (
    Option("rmia-online", "probability", RMIA(offline_a=None)),
    Option("learned-online", "scaled logit", Learned("online")),
)
"""What `AutoOnline` averages."""
# The weight of these, all together.
_JOINED_WEIGHT = 1 / 3
# A note names so many attacks; all of them are in `Scored.chosen`.
_MAX_NAMED = 4
# Fewer members or non-members than this, and a game says nothing.
_MIN_SIDE = 50
# A game is judged below this share of false positives, beside the whole curve; and below no fewer of them than this.
_STRICT_FPR, _MIN_FALSE_POSITIVES = 0.02, 5


@dataclass(frozen=True, slots=True, repr=False)
class Auto(Attack):
    """The attacks that do best where the truth is known: on the population, with a reference model as the target.

    Each reference model takes a turn, up to ``games`` of them. Half of the population's records are its candidates,
    and it is known which of them it was trained on. Those of the other half that it was not trained on are its
    population. The models that did not see a candidate are the others and the real target, which saw none of these
    records; so one reference model is enough. Every candidate is given equally many of them, drawn at random: in
    most designs a member of one model has more models left that did not see it, and an attack must not profit from
    that. The merit of an option is the sum of its mean AUC and its mean TPR at an FPR below 2 % (with fewer than 5
    false positives, in a game of fewer than 250 non-members). The score is a mean of scores, each as the normal
    deviates of its ranks: two thirds are those of the options that come within ``margin`` of the best, as a game
    tells options apart no better than that; one third is what is ``joined`` untried. Where two attacks err on
    different records, their mean errs less.
    `Scored.chosen` names them all, a note the best of them.

    Nothing of the candidates enters the choice, so it is one score, and its decisions need no correction for the
    options tried. The games have about half as many models per record as there are, and the population's classes:
    what pays with more models may be missed. Where most records that are scored are of classes that the population
    lacks, games among other classes mislead, as the models that they are played with know those: no game is played,
    and the option "rmia-residual" is used, which was best or nearly so on the data sets that were tried.

    The evidence holds the "scaled-logit" signal.

    Args:
        options: what is tried. One that needs more reference models than there are, or features where there are none,
            is left out, and so is a residual where fewer than 20 records are scored.
        joined: what is averaged with the chosen where games were played, a third of the weight in all; one that needs
            more than there is, is left out.
        margin: how far below the best merit an option may be and still be averaged with it; 0: the best alone.
        most: greatest number of population records in a game.
        games: greatest number of games; the first reference models play the target.
        seed: of the games, and of options that draw.

    Raises:
        divulge.InputError: no options, a setting out of its range.

    Examples:
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> inside, hard = rng.random((4, 600)) < 0.5, rng.normal(size=600)
        >>> signals = 3 * hard + rng.normal(size=(5, 600)) + 2 * np.vstack([np.zeros(600, bool), inside])
        >>> evidence = Evidence([9.0, 0.0], np.zeros((4, 2)), population=signals[0], population_references=signals[1:],
        ...                     population_trained_on=inside)
        >>> Auto().run(evidence).chosen
        'lira + learned + bavaria + learned-few'
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_OUT, Need.POPULATION, Need.FEATURES, Need.LABELS})
    options: tuple[Option, ...] = OPTIONS
    joined: tuple[Option, ...] = JOINED
    margin: float = 0.05
    most: int = 4000
    games: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        options = tuple(as_list(self.options, "Auto.options"))
        if not options:
            raise InputError("Auto.options: at least 1 is needed, got none")
        joined = tuple(as_list(self.joined, "Auto.joined"))
        for name, checked_options in (("options", options), ("joined", joined)):
            for option in checked_options:
                check_instance(option, f"Auto.{name}", Option, "a divulge.attacks.auto.Option")
            object.__setattr__(self, name, checked_options)
        check_number(self.margin, "Auto.margin", above=0, closed=True)
        check_integer(self.most, "Auto.most", minimum=1)
        check_integer(self.games, "Auto.games", minimum=1)
        check_integer(self.seed, "Auto.seed", minimum=0)

    def __repr__(self) -> str:
        option_names, joined_names = (
            ", ".join(option.name for option in option_group) for option_group in (self.options, self.joined)
        )
        return (
            f"Auto(options=({option_names}), joined=({joined_names}), margin={self.margin:g}, "
            f"most={self.most}, games={self.games}, "
            f"seed={self.seed})"
        )

    def run(self, evidence: Evidence) -> Scored:
        """Return the scores and the names of the attacks that they are of.

        Raises:
            divulge.InputError: no references, no population, features that are texts, or what a chosen attack raises.
        """
        protocol.part(
            evidence.references, "Auto", "references", "scaled logits of the candidates under reference models"
        )
        protocol.part(evidence.population, "Auto", "population", "the target's scaled logits of known non-members")
        if evidence.features is not None and evidence.features.dtype == object:
            raise InputError("Auto: evidence.features must be numbers, got texts")
        options = [option for option in self.options if _is_applicable(option, evidence)] or [self.options[0]]
        # The reference models know nothing of classes that the population lacks.
        unseen = _of_unseen_classes(evidence)
        unseen_option = next((option for option in options if option.name == _UNSEEN), None) if unseen.any() else None
        if unseen_option is None:
            return self._run_chosen(options, evidence)
        of_unseen = unseen_option.attack.run(convert_unit(evidence, unseen_option.unit))
        if unseen.mean() > 0.5:
            return replace(of_unseen, notes=(_UNSEEN_NOTE, *of_unseen.notes), chosen=unseen_option.name)
        scored = self._run_chosen(options, evidence)
        scores = np.where(unseen, _deviates(of_unseen.scores), _deviates(scored.scores))
        note = _SOME_UNSEEN_NOTE.format(count=int(unseen.sum()))
        return replace(scored, scores=scores, notes=tuple(dict.fromkeys((note, *scored.notes, *of_unseen.notes))))

    def _run_chosen(self, options: Sequence[Option], evidence: Evidence) -> Scored:
        """Play the games, and return the scores of the options that do best in them."""
        game_list = list(play_games(evidence, self.most, self.games, self.seed)) if len(options) > 1 else []
        outcomes = [_game_merits(options, *game) for game in game_list]
        merits = {o.name: np.mean([outcome[o.name] for outcome in outcomes], axis=0) for o in options if game_list}
        chosen = _nearly_best(options, merits, self.margin) if game_list else options[:1]
        joined = [option for option in self.joined if game_list and _is_applicable(option, evidence)]
        scored = _average_scores(chosen, joined, evidence)
        note = (
            _describe_choice(chosen, joined, merits, len(game_list))
            if len(options) > 1
            else f"used {chosen[0].name}, {_SINGLE_OPTION_NOTE}"
        )
        return replace(scored, notes=(note, *scored.notes))

    def seeded(self, seed: int) -> Auto:
        """Return a copy with another seed, in the options too."""

        def with_seed(options: Sequence[Option]) -> tuple[Option, ...]:
            return tuple(replace(option, attack=seeded(option.attack, seed)) for option in options)

        return replace(self, options=with_seed(self.options), joined=with_seed(self.joined), seed=seed)


@dataclass(frozen=True, slots=True)
class AutoOnline(Attack):
    """Mean of several online attacks, each as the normal deviates of its ranks.

    Reference models that were trained on random halves of the candidates, as their owner can train them, show how much
    each record moves the answers about it. No game is needed: of the attacks that were tried these two did best nearly
    everywhere, and they err on different records (benchmarks/results/references.md).

    The evidence holds the "scaled-logit" signal.

    Args:
        options: what is averaged; one that needs more reference models than there are is left out.

    Raises:
        divulge.InputError: no options.

    Examples:
        >>> from divulge import Evidence
        >>> rng = np.random.default_rng(0)
        >>> inside = rng.random((9, 200)) < 0.5
        >>> signals = rng.normal(size=200) + rng.normal(size=(9, 200)) + 2 * inside
        >>> evidence = Evidence(signals[0], signals[1:], inside[1:], population=signals[0],
        ...                     population_references=signals[1:], population_trained_on=inside[1:])
        >>> scored = AutoOnline().run(evidence)
        >>> bool(scored.scores[inside[0]].mean() > scored.scores[~inside[0]].mean() + 0.5)
        True
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REFERENCES_IN_AND_OUT, Need.POPULATION})
    options: tuple[Option, ...] = ONLINE_OPTIONS

    def __post_init__(self) -> None:
        options = tuple(as_list(self.options, "AutoOnline.options"))
        if not options:
            raise InputError("AutoOnline.options: at least 1 is needed, got none")
        for option in options:
            check_instance(option, "AutoOnline.options", Option, "a divulge.attacks.auto.Option")
        object.__setattr__(self, "options", options)

    def __repr__(self) -> str:
        return f"AutoOnline(options=({', '.join(option.name for option in self.options)}))"

    def run(self, evidence: Evidence) -> Scored:
        """Return the scores and the names of the attacks that they are of.

        Raises:
            divulge.InputError: no references, no population, or what an attack raises.
        """
        description = "scaled logits of the candidates under reference models"
        protocol.part(evidence.references, "AutoOnline", "references", description)
        options = [option for option in self.options if _is_applicable(option, evidence)] or self.options[:1]
        scored = _average_scores(options, (), evidence)
        return replace(scored, notes=(f"used {scored.chosen}", *scored.notes))

    def seeded(self, seed: int) -> AutoOnline:
        """Return a copy whose options draw with another seed."""
        return replace(self, options=tuple(replace(each, attack=seeded(each.attack, seed)) for each in self.options))


def _is_applicable(option: Option, evidence: Evidence) -> bool:
    assert evidence.references is not None
    has_references = option.attack.least_references <= len(evidence.references)
    has_features = evidence.features is not None and evidence.population_features is not None
    has_records = len(evidence) >= MIN_RECORDS or not isinstance(option.attack, Residual)
    return has_references and has_records and (has_features or Need.FEATURES not in option.attack.needs)


class _CachedRuns:
    """Attacks on one evidence; one whose residual is wanted too is run once."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._results: dict[tuple[Unit, object], Scored] = {}

    def scored(self, attack: Attack, unit: Unit) -> Scored:
        """Return the result of the attack's ``run`` on this evidence."""
        if isinstance(attack, Residual):
            inner = self.scored(adapt(attack.inner), unit)
            return Scored(attack.residuals(inner.scores, self.evidence), inner.notes)
        key = unit, _identity(attack)
        if key not in self._results:
            self._results[key] = attack.run(convert_unit(self.evidence, unit))
        return self._results[key]


def _game_merits(options: Sequence[Option], game: Evidence, member: Bools) -> dict[str, tuple[float, float]]:
    """Return the merit of every option in a game."""
    ran = _CachedRuns(game)
    return {option.name: game_merit(ran.scored(option.attack, option.unit).scores, member) for option in options}


def _nearly_best(options: Sequence[Option], merits: Mapping[str, Floats], margin: float) -> list[Option]:
    """Return the options whose merit is within the margin of the largest, the best first."""
    sums = {name: float(np.sum(merit)) for name, merit in merits.items()}
    best = max(sums.values())
    return sorted((o for o in options if sums[o.name] >= best - margin), key=lambda o: -sums[o.name])


def _average_scores(chosen: Sequence[Option], joined: Sequence[Option], evidence: Evidence) -> Scored:
    """Return the scores of one option, or the mean of several as normal deviates, with a share of what is joined."""
    ran, everyone = _CachedRuns(evidence), [*chosen, *joined]
    parts = [ran.scored(option.attack, option.unit) for option in everyone]
    name = " + ".join(option.name for option in everyone)
    if len(parts) == 1:
        return replace(parts[0], chosen=name)
    deviates = [_deviates(part.scores) for part in parts]
    scores = np.mean(deviates[: len(chosen)], axis=0)
    if joined:
        scores = (1 - _JOINED_WEIGHT) * scores + _JOINED_WEIGHT * np.mean(deviates[len(chosen) :], axis=0)
    return Scored(scores, tuple(dict.fromkeys(note for part in parts for note in part.notes)), chosen=name)


def _identity(attack: Attack) -> object:
    """Return a key that two attacks share only if they give the same scores."""
    try:
        hash(attack)
    except TypeError:  # a third party's, with an array among its settings
        return id(attack)
    return attack


def convert_unit(evidence: Evidence, unit: Unit) -> Evidence:
    """Return evidence of scaled logits as evidence of log-probabilities or probabilities, or as it is."""
    if unit == "scaled logit":
        return evidence

    def convert(logits: Floats | None) -> Floats | None:
        if logits is None:
            return None
        logarithm = -np.logaddexp(0.0, -logits.astype(np.float64))
        return logarithm if unit == "log-probability" else np.exp(logarithm)

    names = ("target", "references", "population", "population_references")
    return replace(evidence, **{name: convert(getattr(evidence, name)) for name in names})


def _describe_choice(
    chosen: Sequence[Option], joined: Sequence[Option], merits: Mapping[str, Floats], played: int
) -> str:
    names, joined_names = (_join_names([option.name for option in group]) for group in (chosen, joined))
    if not played:
        return f"nothing to choose by: used {names} (too few population records whose models are known)"
    order = sorted(merits, key=lambda name: -float(np.sum(merits[name])))
    figures = "; ".join(f"{name} {merits[name][0]:.3f} / {merits[name][1]:.3f}" for name in order[:4])
    return (
        f"chose {names} of {len(merits)} options on the reference models alone"
        f"{f', and added {joined_names}' * bool(joined)}"
        f": AUC / TPR at a low FPR over {played} games: {figures}"
    )


def _join_names(names: Sequence[str]) -> str:
    """Return the first of the names, and how many there are beyond them."""
    n_more = len(names) - _MAX_NAMED
    return " + ".join(names[:_MAX_NAMED]) + f" and {n_more} more" * (n_more > 0)


def play_games(evidence: Evidence, max_records: int, count: int, seed: int) -> Iterator[tuple[Evidence, Bools]]:
    """Yield games with the first ``count`` reference models as targets: evidence, and which candidates are members.

    There is none where it is not known what they were trained on, or with too few members or non-members.

    Args:
        evidence: scaled logits of the population under target and references, with features and labels if there are.
        max_records: greatest number of population records in a game.
        count: greatest number of games.
        seed: of the records drawn.
    """
    signals, inside = evidence.population_references, evidence.population_trained_on
    if signals is None or inside is None or evidence.population is None:
        return
    for model in range(min(len(signals), count)):
        rng = seeds.generator(seed, "auto", model)
        rows = rng.permutation(inside.shape[1])[:max_records]
        is_candidate = np.arange(len(rows)) % 2 == 0
        if evidence.population_features is not None and evidence.population_features.dtype != object:
            is_candidate = keep_together(is_candidate, evidence.population_features[rows])
        candidate_rows, population_rows = np.sort(rows[is_candidate]), np.sort(rows[~is_candidate])
        population_rows = population_rows[~inside[model, population_rows]]
        out = np.vstack([np.delete(~inside, model, axis=0), np.ones(inside.shape[1], bool)])
        out_models, has_enough_models = equal_counts(out[:, candidate_rows], inside[model, candidate_rows], rng)
        candidate_rows, out_models = candidate_rows[has_enough_models], out_models[:, has_enough_models]
        member = inside[model, candidate_rows]
        if min(member.sum(), (~member).sum(), len(population_rows)) < _MIN_SIDE:
            continue
        other_signals = np.vstack([np.delete(signals, model, axis=0), evidence.population])
        yield (
            _game_evidence(evidence, signals[model], other_signals, out, (candidate_rows, population_rows), out_models),
            member,
        )


def _game_evidence(
    evidence: Evidence,
    target_signals: Floats,
    other_signals: Floats,
    out: Bools,
    rows: tuple[Ints, Ints],
    out_models: Bools,
) -> Evidence:
    candidate_rows, population_rows = rows
    features, labels = evidence.population_features, evidence.population_labels
    return Evidence(
        target_signals[candidate_rows],
        other_signals[:, candidate_rows],
        ~out_models,
        target_signals[population_rows],
        other_signals[:, population_rows],
        features=None if features is None else features[candidate_rows],
        population_features=None if features is None else features[population_rows],
        labels=None if labels is None else labels[candidate_rows],
        population_labels=None if labels is None else labels[population_rows],
        population_trained_on=~out[:, population_rows],
    )


def game_merit(scores: Floats, member: Bools) -> tuple[float, float]:
    """AUC, where ties count half, and TPR at less than a small share of false positives, where they do not count."""
    ranks = stats.rankdata(scores)
    member_ranks, nonmember_ranks = ranks[member], np.sort(ranks[~member])
    auc = (
        (stats.rankdata(ranks)[member].sum() - len(member_ranks) * (len(member_ranks) + 1) / 2)
        / len(member_ranks)
        / len(nonmember_ranks)
    )
    limit = nonmember_ranks[-max(_MIN_FALSE_POSITIVES, int(_STRICT_FPR * len(nonmember_ranks)))]
    return float(auc), float((member_ranks > limit).mean())


class _SeveralAttacks(Attack):
    """What a mean over several attacks needs: all that any of them needs."""

    __slots__ = ()
    attacks: tuple[Scores, ...]

    @property
    def needs(self) -> frozenset[Need]:
        """Union of the needs of the attacks."""
        return frozenset().union(*(adapt(attack).needs for attack in self.attacks))

    @property
    def least_references(self) -> int:
        """Largest of the attacks' least numbers of reference models."""
        return max(adapt(attack).least_references for attack in self.attacks)


@dataclass(frozen=True, slots=True)
class Combined(_SeveralAttacks):
    """The mean rank of each candidate under several attacks on one signal.

    Ranks among the candidates need no common unit and no calibration of either attack; they are the p-values of
    each attack against the candidates themselves, merged by their mean (Vovk & Wang 2020, doi:10.1093/biomet/asaa027,
    bound twice the mean of p-values under any dependence). The result is a score, not a p-value: a decision on it
    is calibrated like any other.

    Args:
        attacks: at least two.

    Examples:
        >>> from divulge import Evidence
        >>> from divulge.attacks import Calibrated, Threshold
        >>> evidence = Evidence([3.0, 2.0, 1.0], references=[[3.0, 0.0, 1.0]])
        >>> Combined((Threshold(), Calibrated())).score(evidence).round(3)
        array([0.75 , 0.833, 0.417])
    """

    attacks: tuple[Scores, ...]

    def __post_init__(self) -> None:
        attacks = tuple(as_list(self.attacks, "Combined.attacks"))
        if len(attacks) < 2:
            raise InputError(f"Combined.attacks: at least 2 are needed, got {len(attacks)}")
        for attack in attacks:
            require_callable(attack, "Combined.attacks", "score")
        object.__setattr__(self, "attacks", attacks)

    def run(self, evidence: Evidence) -> Scored:
        """Return the mean of the ranks, in (0, 1], with the notes of every attack; ties share their mean rank."""
        parts = [adapt(attack).run(evidence) for attack in self.attacks]
        ranks = [stats.rankdata(scored.scores) for scored in parts]
        return Scored(np.mean(ranks, axis=0) / len(evidence), tuple(note for scored in parts for note in scored.notes))


@dataclass(frozen=True, slots=True)
class Consensus(_SeveralAttacks):
    """Mean of several attacks' scores, each as the normal deviates of its ranks, as far as the evidence allows them.

    What `divulge.recipes.Auto` is where no game can choose: without reference models, on documents, or where the target
    gives labels alone. An attack that refuses the evidence (too few records, features that are texts) is left out, and
    a note says so; where all do, the score is the signal itself. One that is left has its own score.

    Args:
        attacks: at least one.
        names: what each is called in the notes.
        reason: why these, as the note ends; empty for none.
        for_unseen: name of the attack that alone scores records of classes that the population lacks, where labels say
            which these are, and all records where those are most; empty for none.

    Raises:
        divulge.InputError: no attacks, another number of names, or ``for_unseen`` that is none of them.

    Examples:
        >>> from divulge.attacks import Calibrated, Threshold
        >>> scored = Consensus((Threshold(), Calibrated()), ("loss", "calibrated")).run(Evidence([3.0, 1.0]))
        >>> scored.chosen, scored.scores
        ('loss', array([3., 1.]))
    """

    attacks: tuple[Scores, ...]
    names: tuple[str, ...]
    reason: str = ""
    for_unseen: str = ""

    @property
    def needs(self) -> frozenset[Need]:
        """Union of the needs of the attacks, and labels where these tell unseen classes."""
        return super(Consensus, self).needs | ({Need.LABELS} if self.for_unseen else set())

    def __post_init__(self) -> None:
        attacks = tuple(as_list(self.attacks, "Consensus.attacks"))
        names = tuple(as_list(self.names, "Consensus.names"))
        if not attacks or len(attacks) != len(names):
            raise InputError(
                f"Consensus.attacks: at least 1 with a name each is needed, got {len(attacks)} and {len(names)} names"
            )
        if not isinstance(self.reason, str):
            raise InputError(f"Consensus.reason: a text is needed, got {format_value(self.reason)}")
        for attack, name in zip(attacks, names, strict=True):
            require_callable(attack, "Consensus.attacks", "score")
            check_string(name, "Consensus.names")
        if self.for_unseen:
            check_choice(self.for_unseen, "Consensus.for_unseen", names)
        object.__setattr__(self, "attacks", attacks)
        object.__setattr__(self, "names", names)

    def run(self, evidence: Evidence) -> Scored:
        """Return the mean of normal deviates, or one attack's own scores, and the names of the attacks they are of."""
        parts: dict[str, Scored] = {}
        left_out = []
        for name, attack in zip(self.names, self.attacks, strict=True):
            try:
                parts[name] = adapt(attack).run(evidence)
            except InputError as error:
                left_out.append(f"left out {name}: {error}")
        if not parts:
            parts["the signal itself"] = Threshold().run(evidence)
        names = " + ".join(parts)
        notes = (f"used {names}{f', {self.reason}' * bool(self.reason)}", *left_out)
        notes += tuple(dict.fromkeys(note for part in parts.values() for note in part.notes))
        scores = [part.scores for part in parts.values()]
        mean = scores[0] if len(scores) == 1 else np.mean(list(map(_deviates, scores)), axis=0)
        unseen = _of_unseen_classes(evidence)
        if len(parts) == 1 or self.for_unseen not in parts or not unseen.any():
            return Scored(mean, notes, chosen=names)
        own = parts[self.for_unseen].scores
        used = f"used {self.for_unseen} alone for {{}} of classes that the population lacks, where it does better"
        if unseen.mean() > 0.5:
            return Scored(own, (used.format("all, as most are"), *notes[1:]), chosen=self.for_unseen)
        used = used.format(f"{int(unseen.sum()):,} records")
        return Scored(np.where(unseen, _deviates(own), _deviates(mean)), (notes[0], used, *notes[1:]), chosen=names)


def _of_unseen_classes(evidence: Evidence) -> Bools:
    """Return a mask of the records of classes that the population lacks; of none where labels are unknown."""
    if evidence.labels is None or evidence.population_labels is None:
        return np.zeros(len(evidence), dtype=bool)
    return ~np.isin(evidence.labels, evidence.population_labels)


def _deviates(scores: Floats) -> Floats:
    """Return the normal deviates of the scores' ranks; ties share their mean rank."""
    return special.ndtri((stats.rankdata(scores) - 0.5) / len(scores))
