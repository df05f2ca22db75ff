"""Signals of candidates, calibration and population, under the target and under reference models."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy, seeds
from divulge.attacks import Need, Scored
from divulge.attacks import adapt as adapt_attack
from divulge.auditing import reference_models
from divulge.errors import InputError
from divulge.evidence import Measurements, average_evidence, query_target, regression_features, signals_from_answers
from divulge.recipes import PartialSignal, PreparedSignal
from divulge.references import Custom, Train, splits
from divulge.signals import internals
from divulge.statistics.duplicates import number_groups
from divulge.targets import GivesLabels, GivesLogits, GivesTokens, Metered, adapt
from divulge.targets.rights import GivesNotes
from divulge.types import Records
from divulge.validation import check_array, check_instance, check_integer, check_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe, Signal
    from divulge.signals.versions import Versions
    from divulge.targets import modules
    from divulge.types import Evidence, Floats, PartialRecords
else:
    modules = lazy.module("divulge.targets.modules")


def compute_signals(case: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """One `Measurements` for each view of the records; candidates and calibration are treated exactly alike."""
    named = [name for r in case.given.recipes if isinstance(r.signal, str) for name in (r.signal, *r.beside)]
    names = tuple(dict.fromkeys(named))
    outputs = tuple(name for name in names if name not in internals.SIGNALS)
    targets = [
        log.timed("target", partial(_target_signals, case, view, outputs if at else names, log))
        for at, view in enumerate(case.views)
    ]
    if isinstance(case.target, GivesNotes):
        log.warnings += [f"target: {note}" for note in case.target.notes(case.views[0])]
    targets[0] |= measure_active_signals(case, log)
    models = reference_models.train_reference_models(case, log)
    seen = compute_features(case, log)
    return [
        Measurements(
            target=target,
            layout=case.layout,
            labels=view.y,
            features=None if seen is None else seen[: len(view)],
            models={kind: views[at] for kind, views in models.items() if at in views},
        )
        for at, (view, target) in enumerate(zip(case.views, targets, strict=True))
    ]


def compute_features(case: PreparedAudit, log: AuditLog) -> Floats | None:
    """Features, where an attack or the assessment of unseen classes reads them; reduced as the population asks."""
    if not (case.given.unseen_classes or any(Need.FEATURES in recipe.needs for recipe in case.given.recipes)):
        return None
    own = np.zeros(case.layout.total, dtype=bool)
    own[case.layout.of_population] = True
    return log.timed("features", lambda: regression_features(case.views[0], own, case.seed))


def _target_signals(case: PreparedAudit, view: Records, names: Sequence[str], log: AuditLog) -> dict[str, Floats]:
    """Signals of one view, by name; what the target calls the records of the first is noted."""
    if not names:
        return {}
    assert isinstance(case.target, GivesLogits | GivesLabels)
    inside = [name for name in names if name in internals.SIGNALS]
    outside = [name for name in names if name not in internals.SIGNALS]
    logits, told = query_target(case.target, view, outside)
    log.told = told if log.told is None else log.told
    signals = signals_from_answers(logits, told, view.y, outside, max(2, case.classes)).T
    seen = internals.measure(case.target, view, inside).T if inside else ()
    return dict(zip([*outside, *inside], [*signals, *seen], strict=True))


def signal_names(recipes: Sequence[Recipe]) -> dict[str, str]:
    """What the signal of each recipe is called in the tables, by recipe.

    Two signals may share a name though they are configured differently; the later one is told by its recipe.
    """
    called: dict[int, str] = {}
    for recipe in recipes:
        if not isinstance(recipe.signal, str) and id(recipe.signal) not in called:
            taken = recipe.signal_name in called.values()
            called[id(recipe.signal)] = f"{recipe.signal_name} ({recipe.name})" if taken else recipe.signal_name
    return {recipe.name: called.get(id(recipe.signal), recipe.signal_name) for recipe in recipes}


def active_signals(recipes: Sequence[Recipe]) -> dict[str, Signal | PartialSignal | PreparedSignal]:
    """The signals that question the target themselves, each once, by what they are called in the tables."""
    called = signal_names(recipes)
    return {called[r.name]: r.signal for r in recipes if not isinstance(r.signal, str)}


def measure_active_signals(case: PreparedAudit, log: AuditLog) -> dict[str, Floats]:
    """Signals that themselves question the target, by name."""
    values: dict[str, Floats] = {}
    for name, signal in active_signals(case.given.recipes).items():
        if isinstance(signal, PartialSignal):
            assert case.partial is not None
            assert isinstance(case.target, GivesLogits)
            known, own = case.partial.seen, case.given.population
            work = partial(_measure_partial, signal, case.target, known, own, case.references, case.classes, case.seed)
        elif isinstance(signal, PreparedSignal):
            assert isinstance(case.target, GivesLogits | GivesTokens)
            work = partial(_measure_prepared, signal, case.target, case.views[0], case.given.population, case.seed)
        else:
            work = partial(_measure_signal, signal, case.target, case.views[0])
        values[name], log.queries[name] = log.timed(f"signal {name}", work)
    return values


def _measure_signal(
    signal: Signal, target: GivesLogits | GivesLabels | GivesTokens, records: Records
) -> tuple[Floats, int]:
    """One number per record, and the queries made."""
    meter = Metered(target)
    return signal.measure(meter, records), meter.queries


def _measure_prepared(
    signal: PreparedSignal, target: GivesLogits | GivesTokens, records: Records, population: Records, seed: int
) -> tuple[Floats, int]:
    """One number per document, with documents of the population at hand, and the queries made."""
    ready = signal.prepare(list(population.x), seed)
    return ready.measure(target, records), getattr(ready, "queries", 1) * len(records)


def _measure_partial(
    signal: PartialSignal,
    target: GivesLogits,
    seen: PartialRecords,
    population: Records,
    references: Any,
    classes: int,
    seed: int,
) -> tuple[Floats, int]:
    """One number a partly known record, and the queries made.

    Args:
        signal: what is measured; it learns from the population first.
        target: the model under audit.
        seen: what is known of the records.
        population: the auditor's own records.
        references: how shadow models are trained, where the signal compares with some.
        classes: size of the label set.
        seed: of what is drawn and trained.
    """
    fitted = signal.fit(population, seed)
    count = getattr(signal, "shadows", 0)
    compared = {"shadows": _train_shadow_models(references, population, count, classes, seed)} if count else {}
    return fitted.measure(target, seen, **compared), fitted.queries * len(seen)


def _train_shadow_models(
    references: Any, population: Records, count: int, classes: int, seed: int
) -> list[GivesLogits]:
    """Targets trained on random halves of the population.

    Reference models leave their outputs behind; these can still be asked, for gradients too.
    """
    halves = splits.offline(
        len(population),
        max(count, 2),
        seeds.derive_seed(seed, "shadow halves"),
        labels=population.y,
        groups=number_groups(population.x, population.y),
    ).trained_on
    return [
        _train_shadow_model(references, population[half], classes, seeds.derive_seed(seed, "shadow", at))
        for at, half in enumerate(halves[:count])
    ]


def _train_shadow_model(references: Any, records: Records, classes: int, seed: int) -> GivesLogits:
    if isinstance(references, Custom):
        return adapt(references.train(records, seed), outputs=references.outputs)
    return adapt(references.one(records, seed=seed, classes=classes), device=references.device)


@dataclass(frozen=True, slots=True, eq=False)
class VersionViews:
    """Further versions of all records, each once, and where each recipe's are."""

    views: tuple[Records, ...] = ()
    places: Mapping[str, range] = field(default_factory=dict)


def make_version_views(recipes: Sequence[Recipe], records: Records, seed: int, first: int) -> VersionViews:
    """What the recipes ask about; ``first`` is the place of the first of them.

    Raises:
        divulge.InputError: records that a recipe's versions cannot be made of, versions that do not fit the records,
            more than memory holds.
    """
    made: list[tuple[Versions, range]] = []
    views: list[Records] = []
    places = {}
    for recipe in recipes:
        if recipe.versions is None:
            continue
        at = next((at for known, at in made if known == recipe.versions), None)
        if at is None:
            more = _make_versions(recipe.name, recipe.versions, records, seed)
            at = range(first + len(views), first + len(views) + len(more))
            made.append((recipe.versions, at))
            views += more
        places[recipe.name] = at
    return VersionViews(tuple(views), places)


def _make_versions(name: str, versions: Versions, records: Records, seed: int) -> tuple[Records, ...]:
    count = check_integer(versions.count, f"recipes: {name}: versions.count", least=1)
    check_memory(
        float(count * records.x.nbytes),
        f"recipes: {name}",
        f"there are {count} further versions of {len(records):,} records; use fewer records or versions",
    )
    with errors.user_code_errors(f"recipes: {name}"):
        more = tuple(versions.of(records, seed))
    for one in more:
        check_instance(one, f"recipes: {name}: a version", Records, "divulge.Records")
        if one.x.shape != records.x.shape:
            raise InputError(f"recipes: {name}: versions of shape {records.x.shape} are needed, got {one.x.shape}")
    if len(more) != count:
        raise InputError(f"recipes: {name}: {count} further versions are needed, got {len(more)}")
    return tuple(one if one.table is not None else records.with_values(one.x) for one in more)


_N_PROBED = 2  # records that show whether a network can be looked into


def check_white_box(target: Any, references: Any, recipes: Sequence[Recipe], records: Records) -> None:
    """Pass if whatever the recipes look into can be; an untrained network stands in for the reference models.

    Raises:
        divulge.InputError: the target is no torch module, or its outputs are not those of its last linear layer; the
            same of the network that reference models are made of. (What a function of the user's own returns is
            found out with the first reference model.)
    """
    looking = [recipe for recipe in recipes if recipe.inside]
    if not looking:
        return
    names, some = reference_models.white_box_names(looking), records[:_N_PROBED]
    internals.refuse(target, ", ".join(recipe.name for recipe in looking))
    internals.measure(target, some, names)
    trained = [recipe for recipe in looking if recipe.references != "none"]
    if trained and isinstance(references, Train):
        reference_models.measure_reference(
            modules.TorchTarget(references.untrained(), device="cpu"), some, reference_models.white_box_names(trained)
        )


def score_recipe(recipe: Recipe, signal: str, views: Sequence[Measurements], further: Sequence[int] = ()) -> Scored:
    """The recipe's scores of candidates and calibration records, and what its attack has to say about them.

    Args:
        recipe: what is run.
        signal: what its signal is called in the measurements.
        views: measurements of the best completion, then of each draw; where each draw is attacked alone, scores are
            the mean. Then those of further versions.
        further: which of them are of versions that the recipe asks about.

    Raises:
        divulge.InputError: an attack that returns anything other than one finite score per record.
    """
    attack = adapt_attack(recipe.attack)
    runs = [attack.run(evidence) for evidence in recipe_evidence(recipe, signal, views, further)]
    scores = np.mean([_check_scores(recipe, one, views[0].layout.scored) for one in runs], axis=0)
    notes = dict.fromkeys(note for one in runs for note in one.notes)
    return Scored(scores, tuple(notes), runs[0].nominal, chosen=runs[0].chosen)


def recipe_evidence(
    recipe: Recipe, signal: str, views: Sequence[Measurements], further: Sequence[int] = ()
) -> list[Evidence]:
    """What the recipe's attack looks at, once or several times: no more than it needs."""
    imputed = recipe.imputed
    if not imputed.random:
        first = views[0].evidence(signal, recipe.needs)
        if Need.QUERIES not in recipe.needs:
            return [first]
        versions = [views[at].evidence(signal, recipe.needs) for at in further]
        beside = [views[0].evidence(name, recipe.needs) for name in recipe.beside]
        return [replace(first, queries=(*versions, *beside))]
    drawn = [view.evidence(signal, recipe.needs) for view in views[1 : 1 + imputed.random]]
    return (
        drawn if imputed.average == "score" else [average_evidence(drawn, likelihood=imputed.average == "likelihood")]
    )


def _check_scores(recipe: Recipe, returned: object, length: int) -> Floats:
    if not isinstance(returned, Scored):
        raise InputError(
            f"recipes: {recipe.name}: run() must return divulge.attacks.Scored, got {type(returned).__name__}"
        )
    scores = check_array(returned.scores, f"recipes: {recipe.name}: scores", finite=False)
    if scores.shape != (length,) or not np.isfinite(scores).all():
        raise InputError(
            f"recipes: {recipe.name} returned {scores.shape} scores, {int((~np.isfinite(scores)).sum())} of them not "
            f"finite, where {length} are needed"
        )
    return scores.astype(np.float64)
