"""Signals of the audit's records under the target and under reference models, and the scores of recipes."""

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
    from divulge.targets import torch_modules
    from divulge.types import Evidence, Floats, PartialRecords
else:
    torch_modules = lazy.module("divulge.targets.torch_modules")


def compute_signals(audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """Compute every signal the recipes need, for each view of the records."""
    requested = [name for r in audit.inputs.recipes if isinstance(r.signal, str) for name in (r.signal, *r.beside)]
    names = tuple(dict.fromkeys(requested))
    output_signals = tuple(name for name in names if name not in internals.SIGNALS)
    targets = [
        log.run_timed("target", partial(_target_signals, audit, view, output_signals if index else names, log))
        for index, view in enumerate(audit.views)
    ]
    if isinstance(audit.target, GivesNotes):
        log.warnings += [f"target: {note}" for note in audit.target.notes(audit.views[0])]
    targets[0] |= measure_active_signals(audit, log)
    reference_signals = reference_models.train_reference_models(audit, log)
    features = compute_features(audit, log)
    return [
        Measurements(
            target=target,
            layout=audit.layout,
            labels=view.y,
            features=None if features is None else features[: len(view)],
            models={need: views[index] for need, views in reference_signals.items() if index in views},
        )
        for index, (view, target) in enumerate(zip(audit.views, targets, strict=True))
    ]


def compute_features(audit: PreparedAudit, log: AuditLog) -> Floats | None:
    """Compute the features for attacks or the transfer assessment; None if neither reads them."""
    if not (audit.inputs.unseen_classes or any(Need.FEATURES in recipe.needs for recipe in audit.inputs.recipes)):
        return None
    is_population = np.zeros(audit.layout.total, dtype=bool)
    is_population[audit.layout.population_rows] = True
    return log.run_timed("features", lambda: regression_features(audit.views[0], is_population, audit.seed))


def _target_signals(audit: PreparedAudit, view: Records, names: Sequence[str], log: AuditLog) -> dict[str, Floats]:
    """Compute the target's signals of one view, and record its predicted labels of the first view."""
    if not names:
        return {}
    assert isinstance(audit.target, GivesLogits | GivesLabels)
    white_box = [name for name in names if name in internals.SIGNALS]
    output_signals = [name for name in names if name not in internals.SIGNALS]
    logits, predicted_labels = query_target(audit.target, view, output_signals)
    log.predicted_labels = predicted_labels if log.predicted_labels is None else log.predicted_labels
    values = signals_from_answers(logits, predicted_labels, view.y, output_signals, max(2, audit.n_classes)).T
    white_box_values = internals.measure(audit.target, view, white_box).T if white_box else ()
    return dict(zip([*output_signals, *white_box], [*values, *white_box_values], strict=True))


def signal_names(recipes: Sequence[Recipe]) -> dict[str, str]:
    """Return the name of each recipe's signal in the tables.

    Two signals may share a name though they are configured differently; the later one is told by its recipe.
    """
    names_by_id: dict[int, str] = {}
    for recipe in recipes:
        if not isinstance(recipe.signal, str) and id(recipe.signal) not in names_by_id:
            is_taken = recipe.signal_name in names_by_id.values()
            names_by_id[id(recipe.signal)] = f"{recipe.signal_name} ({recipe.name})" if is_taken else recipe.signal_name
    return {recipe.name: names_by_id.get(id(recipe.signal), recipe.signal_name) for recipe in recipes}


def active_signals(recipes: Sequence[Recipe]) -> dict[str, Signal | PartialSignal | PreparedSignal]:
    """Return the signals that query the target themselves, each once, by name."""
    names = signal_names(recipes)
    return {names[r.name]: r.signal for r in recipes if not isinstance(r.signal, str)}


def measure_active_signals(audit: PreparedAudit, log: AuditLog) -> dict[str, Floats]:
    """Compute the signals that query the target themselves, by name."""
    values: dict[str, Floats] = {}
    for name, signal in active_signals(audit.inputs.recipes).items():
        if isinstance(signal, PartialSignal):
            assert audit.partial_knowledge is not None
            assert isinstance(audit.target, GivesLogits)
            visible, population = audit.partial_knowledge.visible, audit.inputs.population
            work = partial(
                _measure_partial,
                signal,
                audit.target,
                visible,
                population,
                audit.references,
                audit.n_classes,
                audit.seed,
            )
        elif isinstance(signal, PreparedSignal):
            assert isinstance(audit.target, GivesLogits | GivesTokens)
            work = partial(_measure_prepared, signal, audit.target, audit.views[0], audit.inputs.population, audit.seed)
        else:
            work = partial(_measure_signal, signal, audit.target, audit.views[0])
        values[name], log.queries[name] = log.run_timed(f"signal {name}", work)
    return values


def _measure_signal(
    signal: Signal, target: GivesLogits | GivesLabels | GivesTokens, records: Records
) -> tuple[Floats, int]:
    """Return one number per record, and the number of queries."""
    meter = Metered(target)
    return signal.measure(meter, records), meter.queries


def _measure_prepared(
    signal: PreparedSignal, target: GivesLogits | GivesTokens, records: Records, population: Records, seed: int
) -> tuple[Floats, int]:
    """Return one number per document from a signal prepared on the population, and the number of queries."""
    prepared_signal = signal.prepare(list(population.x), seed)
    return prepared_signal.measure(target, records), getattr(prepared_signal, "queries", 1) * len(records)


def _measure_partial(
    signal: PartialSignal,
    target: GivesLogits,
    visible: PartialRecords,
    population: Records,
    references: Any,
    classes: int,
    seed: int,
) -> tuple[Floats, int]:
    """Return one number per partly known record, and the number of queries.

    Args:
        signal: what is measured; it learns from the population first.
        target: the model under audit.
        visible: what is known of the records.
        population: the auditor's own records.
        references: how shadow models are trained, where the signal compares with some.
        classes: size of the label set.
        seed: of what is drawn and trained.
    """
    fitted = signal.fit(population, seed)
    count = getattr(signal, "shadows", 0)
    shadow_models = {"shadows": _train_shadow_models(references, population, count, classes, seed)} if count else {}
    return fitted.measure(target, visible, **shadow_models), fitted.queries * len(visible)


def _train_shadow_models(
    references: Any, population: Records, count: int, classes: int, seed: int
) -> list[GivesLogits]:
    """Train models on random halves of the population.

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
        _train_shadow_model(references, population[half], classes, seeds.derive_seed(seed, "shadow", number))
        for number, half in enumerate(halves[:count])
    ]


def _train_shadow_model(references: Any, records: Records, classes: int, seed: int) -> GivesLogits:
    if isinstance(references, Custom):
        return adapt(references.train(records, seed), outputs=references.outputs)
    return adapt(references.one(records, seed=seed, classes=classes), device=references.device)


@dataclass(frozen=True, slots=True, eq=False)
class VersionViews:
    """Further versions of all records, each once, and the positions of each recipe's versions."""

    views: tuple[Records, ...] = ()
    places: Mapping[str, range] = field(default_factory=dict)


def make_version_views(recipes: Sequence[Recipe], records: Records, seed: int, first_place: int) -> VersionViews:
    """Make the further versions that the recipes query; the first gets position ``first_place``.

    Raises:
        divulge.InputError: records that a recipe's versions cannot be made of, versions that do not fit the records,
            more than memory holds.
    """
    known_versions: list[tuple[Versions, range]] = []
    views: list[Records] = []
    places = {}
    for recipe in recipes:
        if recipe.versions is None:
            continue
        places_of_versions = next(
            (places_of_versions for versions, places_of_versions in known_versions if versions == recipe.versions), None
        )
        if places_of_versions is None:
            new_views = _make_versions(recipe.name, recipe.versions, records, seed)
            places_of_versions = range(first_place + len(views), first_place + len(views) + len(new_views))
            known_versions.append((recipe.versions, places_of_versions))
            views += new_views
        places[recipe.name] = places_of_versions
    return VersionViews(tuple(views), places)


def _make_versions(name: str, versions: Versions, records: Records, seed: int) -> tuple[Records, ...]:
    count = check_integer(versions.count, f"recipes: {name}: versions.count", least=1)
    check_memory(
        float(count * records.x.nbytes),
        f"recipes: {name}",
        f"there are {count} further versions of {len(records):,} records; use fewer records or versions",
    )
    with errors.user_code_errors(f"recipes: {name}"):
        versions_made = tuple(versions.of(records, seed))
    for version in versions_made:
        check_instance(version, f"recipes: {name}: a version", Records, "divulge.Records")
        if version.x.shape != records.x.shape:
            raise InputError(f"recipes: {name}: versions of shape {records.x.shape} are needed, got {version.x.shape}")
    if len(versions_made) != count:
        raise InputError(f"recipes: {name}: {count} further versions are needed, got {len(versions_made)}")
    return tuple(version if version.table is not None else records.with_values(version.x) for version in versions_made)


_N_PROBED = 2  # records that show whether a network can be looked into


def check_white_box(target: Any, references: Any, recipes: Sequence[Recipe], records: Records) -> None:
    """Check that target and reference models give the white-box signals that the recipes need.

    Raises:
        divulge.InputError: the target is no torch module, or its outputs are not those of its last linear layer; the
            same of the network that reference models are made of. (What a function of the user's own returns is
            found out with the first reference model.)
    """
    white_box_recipes = [recipe for recipe in recipes if recipe.inside]
    if not white_box_recipes:
        return
    names, probe = reference_models.white_box_names(white_box_recipes), records[:_N_PROBED]
    internals.require_white_box(target, ", ".join(recipe.name for recipe in white_box_recipes))
    internals.measure(target, probe, names)
    with_references = [recipe for recipe in white_box_recipes if recipe.references != "none"]
    if with_references and isinstance(references, Train):
        reference_models.measure_reference(
            torch_modules.TorchTarget(references.untrained(), device="cpu"),
            probe,
            reference_models.white_box_names(with_references),
        )


def score_recipe(
    recipe: Recipe, signal: str, views: Sequence[Measurements], version_places: Sequence[int] = ()
) -> Scored:
    """Return the recipe's scores of candidates and calibration records, with notes of its attack.

    Args:
        recipe: what is run.
        signal: what its signal is called in the measurements.
        views: measurements of the best completion, then of each draw; where each draw is attacked alone, scores are
            the mean. Then those of further versions.
        version_places: which of them are of versions that the recipe asks about.

    Raises:
        divulge.InputError: an attack that returns anything other than one finite score per record.
    """
    attack = adapt_attack(recipe.attack)
    runs = [attack.run(evidence) for evidence in recipe_evidence(recipe, signal, views, version_places)]
    scores = np.mean([_check_scores(recipe, run, views[0].layout.scored) for run in runs], axis=0)
    notes = dict.fromkeys(note for run in runs for note in run.notes)
    return Scored(scores, tuple(notes), runs[0].nominal, chosen=runs[0].chosen)


def recipe_evidence(
    recipe: Recipe, signal: str, views: Sequence[Measurements], version_places: Sequence[int] = ()
) -> list[Evidence]:
    """Collect the evidence for a recipe's attack: nothing beyond what it needs."""
    imputed = recipe.imputed
    if not imputed.random:
        evidence = views[0].evidence(signal, recipe.needs)
        if Need.QUERIES not in recipe.needs:
            return [evidence]
        versions = [views[place].evidence(signal, recipe.needs) for place in version_places]
        further_signals = [views[0].evidence(name, recipe.needs) for name in recipe.beside]
        return [replace(evidence, queries=(*versions, *further_signals))]
    completions = [view.evidence(signal, recipe.needs) for view in views[1 : 1 + imputed.random]]
    return (
        completions
        if imputed.average == "score"
        else [average_evidence(completions, likelihood=imputed.average == "likelihood")]
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
