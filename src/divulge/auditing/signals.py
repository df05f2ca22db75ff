"""Signals of the audit's records under the target and under reference models, and the scores of recipes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import errors, lazy, seeds
from divulge.attacks import Need, Scored
from divulge.attacks import adapt as adapt_attack
from divulge.duplicates import number_groups
from divulge.errors import InputError
from divulge.evidence import Measurements, Models, average_evidence, reduce_width, regression_features
from divulge.recipes import PartialSignal, PreparedSignal
from divulge.references import Custom, Train, splits
from divulge.signals import internals
from divulge.signals.named import NAMED_SIGNALS, OutputSignal
from divulge.targets import Metered, adapt
from divulge.targets.rights import GivesNotes
from divulge.types import Records
from divulge.validation import check_array, check_instance, check_integer, check_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe, Signal
    from divulge.references import Progress, Trained
    from divulge.signals.versions import Versions
    from divulge.targets import torch_modules
    from divulge.types import Array, Bools, Evidence, Floats, Ints
else:
    torch_modules = lazy.module("divulge.targets.torch_modules")


def compute_signals(audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
    """Compute every signal the recipes need, for each view of the records.

    Signals of a network's inside are computed for the first view alone. Candidates, calibration and population go
    through the same calls, so that their scores stay exchangeable.
    """
    required = list(output_signals(audit.inputs.recipes).values())
    output_only = [signal for signal in required if signal.output != "internals"]
    targets = [
        log.run_timed(
            "target", partial(audit.modality.target_signals, audit, view, output_only if index else required, log)
        )
        if required
        else {}
        for index, view in enumerate(audit.views)
    ]
    if isinstance(audit.target, GivesNotes):
        log.warnings += [f"target: {note}" for note in audit.target.notes(audit.views[0])]
    targets[0] |= measure_active_signals(audit, log)
    reference_signals = train_reference_models(audit, log)
    features, records = compute_features(audit, log), records_to_read(audit)
    return [
        Measurements(
            target=target,
            layout=audit.layout,
            labels=view.labels,
            features=None if features is None else features[: len(view)],
            records=None if records is None else records[: len(view)],
            models={need: views[index] for need, views in reference_signals.items() if index in views},
        )
        for index, (view, target) in enumerate(zip(audit.views, targets, strict=True))
    ]


def compute_features(audit: PreparedAudit, log: AuditLog) -> Floats | None:
    """Compute the features for attacks or the transfer assessment; None if neither reads them."""
    if not (audit.inputs.unseen_classes or any(Need.FEATURES in recipe.needs for recipe in audit.inputs.recipes)):
        return None
    return log.run_timed("features", lambda: record_features(audit.views[0], _is_population(audit), audit.seed))


def _is_population(audit: PreparedAudit) -> Bools:
    """Return True for the records that attacks may learn from."""
    is_population = np.zeros(audit.layout.total, dtype=bool)
    is_population[audit.layout.population_rows] = True
    return is_population


def records_to_read(audit: PreparedAudit) -> Array | None:
    """Return the records themselves, for attacks that read them; None if none does.

    The user's features, and ``y`` where it is a real value, are further columns; of texts, beside their components.
    """
    if not any(Need.RECORDS in recipe.needs for recipe in audit.inputs.recipes):
        return None
    records = audit.views[0]
    further_columns = [] if records.features is None else [records.features]
    if records.y is not None and records.labels is None:
        further_columns.append(records.y)
    if not further_columns:
        return records.x
    if records.x.dtype == object:
        own_columns = regression_features(records, _is_population(audit), audit.seed)
    else:
        own_columns = records.x.reshape(len(records), -1)
    return np.column_stack([own_columns, *further_columns])


def record_features(records: Records, fit_on: Bools, seed: int) -> Floats:
    """Return what attacks may know of how hard a record is.

    These are its own components, the user's features of it where there are some, and its real value if it has one.
    """
    features = regression_features(records, fit_on, seed)
    if records.features is not None:
        features = np.column_stack([features, reduce_width(records.features, fit_on, seeds.derive_seed(seed, "given"))])
    has_real_values = records.y is not None and records.labels is None
    return np.column_stack([features, records.y]) if has_real_values else features


def signal_names(recipes: Sequence[Recipe]) -> dict[str, str]:
    """Return the name of each recipe's signal in the tables.

    Two signals may share a name though they are configured differently; the later one is told by its recipe.
    """
    names: dict[Any, str] = {}
    for recipe in recipes:
        if not isinstance(recipe.signal, str) and _identity(recipe.signal) not in names:
            is_taken = recipe.signal_name in names.values()
            names[_identity(recipe.signal)] = (
                f"{recipe.signal_name} ({recipe.name})" if is_taken else recipe.signal_name
            )
    return {recipe.name: names.get(_identity(recipe.signal), recipe.signal_name) for recipe in recipes}


def _identity(signal: Any) -> Any:
    return signal if isinstance(signal, OutputSignal) else id(signal)


def output_signals(recipes: Sequence[Recipe]) -> dict[str, OutputSignal]:
    """Return the signals computed from outputs of the model, each once, by their names in the tables."""
    names = signal_names(recipes)
    signals_by_name: dict[str, OutputSignal] = {}
    for recipe in recipes:
        if (signal := recipe.output_signal) is not None:
            name = names[recipe.name]
            signals_by_name.setdefault(name, signal if signal.name == name else replace(signal, name=name))
        for name in recipe.beside:
            signals_by_name.setdefault(name, NAMED_SIGNALS[name])
    return signals_by_name


def active_signals(recipes: Sequence[Recipe]) -> dict[str, Any]:
    """Return the signals that query the target themselves, each once, by name."""
    names = signal_names(recipes)
    return {names[r.name]: r.signal for r in recipes if r.output_signal is None}


def measure_active_signals(audit: PreparedAudit, log: AuditLog) -> dict[str, Floats]:
    """Compute the signals that query the target themselves, by name."""
    values: dict[str, Floats] = {}
    for name, signal in active_signals(audit.inputs.recipes).items():
        work = partial(_measure_active_signal, audit, signal)
        values[name], n_queries = log.run_timed(f"signal {name}", work)
        log.queries[name] = audit.calls * n_queries
    return values


def _measure_active_signal(audit: PreparedAudit, signal: Signal) -> tuple[Floats, int]:
    """Return one number per record from a signal that queries the target itself, and the number of queries."""
    records, population = audit.views[0], audit.inputs.population
    if isinstance(signal, PartialSignal):
        assert audit.partial_knowledge is not None
        visible, fitted = audit.partial_knowledge.visible, signal.fit(population, audit.seed)
        count = getattr(signal, "shadows", 0)
        shadow_models = {"shadows": _train_shadow_models(audit, count)} if count else {}
        return fitted.measure(audit.averaged_target, visible, **shadow_models), fitted.queries * len(visible)
    if isinstance(signal, PreparedSignal):
        prepared_signal = signal.prepare(list(population.x), audit.seed)
        return prepared_signal.measure(audit.target, records), getattr(prepared_signal, "queries", 1) * len(records)
    meter = Metered(audit.averaged_target)
    return signal.measure(meter, records), meter.queries


def _train_shadow_models(audit: PreparedAudit, count: int) -> list[Any]:
    """Train models on random halves of the population.

    Reference models leave their outputs behind; these can still be asked, for gradients too.
    """
    population, references = audit.inputs.population, audit.references
    halves = splits.offline(
        len(population),
        max(count, 2),
        seeds.derive_seed(audit.seed, "shadow halves"),
        labels=population.labels,
        groups=number_groups(population.x, population.y),
    ).trained_on
    models = []
    for number, half in enumerate(halves[:count]):
        records, seed = population[half], seeds.derive_seed(audit.seed, "shadow", number)
        if isinstance(references, Custom):
            models.append(adapt(references.train(records, seed), outputs=references.outputs))
        else:
            model = references.train_model(records, seed=seed, classes=audit.n_classes)
            models.append(adapt(model, device=references.device))
    return models


def make_version_views(
    recipes: Sequence[Recipe], records: Records, seed: int, first_place: int
) -> tuple[tuple[Records, ...], dict[str, range]]:
    """Make the further versions that the recipes query, each once; also return the positions of each recipe's.

    The first gets position ``first_place``.

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
    return tuple(views), places


def _make_versions(name: str, versions: Versions, records: Records, seed: int) -> tuple[Records, ...]:
    count = check_integer(versions.count, f"recipes: {name}: versions.count", minimum=1)
    check_memory(
        float(count * records.x.nbytes),
        f"recipes: {name}",
        f"there are {count} further versions of {len(records):,} records; use fewer records or versions",
    )
    with errors.user_code_errors(f"recipes: {name}"):
        versions_made = tuple(versions.generate(records, seed))
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
    names, probe = white_box_names(white_box_recipes), records[:_N_PROBED]
    internals.require_white_box(target, ", ".join(recipe.name for recipe in white_box_recipes))
    internals.measure(target, probe, names)
    with_references = [recipe for recipe in white_box_recipes if recipe.references != "none"]
    if with_references and isinstance(references, Train):
        measure_reference(
            torch_modules.TorchTarget(references.untrained(probe), device="cpu"),
            probe,
            white_box_names(with_references),
        )


# Reference models: offline recipes have models that saw none of the candidates, online recipes models that saw half of
# them, and the transfer attack models that learned from the target's own answers. No set stands in for another, so an
# audit of several trains them all, and every score is what it would be alone.
TRAINED_REFERENCES = (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT, Need.REFERENCES_SUBSTITUTES)

# Signals of a set of models beyond this are kept on disk, where there is a run directory.
MAX_BYTES_IN_MEMORY = 1 << 30


def train_reference_models(audit: PreparedAudit, log: AuditLog) -> Mapping[Need, Mapping[int, Models]]:
    """Train the reference models each recipe needs and return their signals, by need and view.

    Raises:
        divulge.InputError: as `substitute_labels`, where substitutes are needed; what training raises.
    """
    recipes_by_need = {need: [r for r in audit.inputs.recipes if need in r.needs] for need in TRAINED_REFERENCES}
    needs = [need for need in TRAINED_REFERENCES if recipes_by_need[need]]
    if Need.REFERENCES_SUBSTITUTES in needs:
        substitute_labels(audit, log)  # fails before models of another kind are trained
    return {
        need: _train_models(
            audit, log, need, recipes_by_need[need], progress_of_part(audit.progress, index, len(needs))
        )
        for index, need in enumerate(needs)
    }


def training_data(audit: PreparedAudit, need: Need) -> tuple[Records, Bools]:
    """Return the training records for one need and the mask of each model's rows, bool ``[m, records]``.

    Offline models and substitutes are given the population alone, so that they cannot see a candidate or a calibration
    record. Substitutes learn from all of it, with the target's own answers as labels (`substitute_labels`).
    """
    count, population = audit.references.count, audit.inputs.population
    if need == Need.REFERENCES_SUBSTITUTES:
        return audit.views[0][audit.layout.population_rows], np.ones((count, len(population)), dtype=bool)
    if need == Need.REFERENCES_OUT:
        halves = splits.offline(
            len(population),
            max(count, 2),
            audit.seed,
            labels=population.labels,
            groups=_duplicate_groups(population),
            candidates=audit.held_out,
        ).trained_on
        return population, halves[:count]  # one model is trained on a half, too
    records = audit.views[0]
    rows = splits.online(
        len(records), max(count, 2), audit.seed, labels=records.labels, groups=_duplicate_groups(records)
    ).trained_on[:count]
    return (
        (records, rows) if audit.partial_knowledge is None else audit.partial_knowledge.training_data(population, rows)
    )


def _duplicate_groups(records: Records) -> Ints:
    """Number the distinct records: a model is trained on all copies of one or on none."""
    return number_groups(records.x, records.y)


def substitute_labels(audit: PreparedAudit, log: AuditLog) -> Ints:
    """Return the target's predicted labels of the population, ``[z]``, from the answers already given.

    Raises:
        divulge.InputError: it calls all of them the same.
    """
    assert log.predicted_labels is not None
    labels = log.predicted_labels[audit.layout.population_rows]
    if (labels == labels[0]).all():
        raise InputError(
            f"population: the target calls all {len(labels):,} records class {labels[0]}, so substitutes of it learn "
            "nothing; leave out the recipes that train some, or give records of which it calls some otherwise"
        )
    return labels


def _train_models(
    audit: PreparedAudit, log: AuditLog, need: Need, recipes: Sequence[Recipe], progress: Progress
) -> dict[int, Models]:
    # Signals of the inside come last: they are kept beside the others, for the first view alone.
    required = reference_signals(audit, recipes)
    names = [signal.name for signal in required]
    n_of_outputs = sum(signal.output != "internals" for signal in required)
    view_places = observed_views(audit, recipes)
    views = [audit.views[place] for place in view_places]
    records, rows = training_data(audit, need)
    options = audit.modality.reference_options(audit, required)
    if need == Need.REFERENCES_SUBSTITUTES:
        substitute_classes = substitute_labels(audit, log)
        records = records.with_labels(substitute_classes)
        # Labels alone show no more classes than were answered.
        options["classes"] = max(audit.n_classes, 1 + int(substitute_classes.max()))
    classes = options.get("classes", audit.n_classes)
    n_values = sum(map(len, views)) * n_of_outputs + len(views[0]) * (len(required) - n_of_outputs)
    folder = None
    if audit.scratch_folder is not None and audit.references.count * n_values * 4 > MAX_BYTES_IN_MEMORY:
        folder = audit.scratch_folder / need.replace(" ", "-")
    try:
        trained: Trained = log.run_timed(
            "reference models",
            lambda: audit.references.fit(
                records,
                rows,
                seed=audit.seed,
                observe=tuple(views),
                pool=audit.pool,
                out=folder,
                progress=progress,
                **options,
            ),
        )
    except InputError as error:
        if classes == audit.n_classes:
            raise
        raise InputError(
            f"{error}; substitutes of this target need {classes} outputs, as it calls a record of the population class "
            f"{classes - 1}, which is not among the {audit.n_classes} of the records"
        ) from None
    log.engines.append(trained.engine)
    log.warnings += [f"{need}: {note}" for note in trained.warnings]
    trained_on = trained_on_mask(audit, need, trained.trained_on)
    return {
        place: Models(
            {name: outputs[:, :, k] for k, name in enumerate(names[:n_of_outputs] if place else names)},
            trained_on[:, : len(view)],
        )
        for place, view, outputs in zip(view_places, views, trained.outputs, strict=True)
    }


def reference_signals(audit: PreparedAudit, recipes: Sequence[Recipe]) -> list[OutputSignal]:
    """Return the signals that are kept of each reference model, those of its inside last."""
    return sorted(signals_read(audit, recipes), key=lambda signal: signal.output == "internals")


def observed_views(audit: PreparedAudit, recipes: Sequence[Recipe]) -> list[int]:
    """Return the positions of the views that reference models of these recipes are asked about."""
    places = list(range(1 + max(recipe.imputed.random for recipe in recipes)))
    return places + sorted({place for recipe in recipes for place in audit.version_views.get(recipe.name, ())})


def signals_read(audit: PreparedAudit, recipes: Sequence[Recipe]) -> list[OutputSignal]:
    """Return the signals that these recipes' attacks read of reference models, under their names in the tables."""
    names, required = signal_names(audit.inputs.recipes), output_signals(audit.inputs.recipes)
    return [required[name] for name in dict.fromkeys(n for r in recipes for n in (names[r.name], *r.beside))]


def trained_on_mask(audit: PreparedAudit, need: Need, rows: Bools) -> Bools:
    """Return the mask of candidates, calibration and population that each model was trained on."""
    if need != Need.REFERENCES_IN_AND_OUT:
        return np.hstack([np.zeros((len(rows), audit.layout.scored), dtype=bool), rows])
    return rows if audit.partial_knowledge is None else audit.partial_knowledge.trained_on_mask(rows)


def progress_of_part(progress: Progress, part: int, n_parts: int) -> Progress:
    """Report the progress of one of several sets of models as progress of all."""

    def watch(completed: float, total: int, note: str) -> None:
        progress(part * total + completed, n_parts * total, note)

    return watch


def white_box_names(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """Return the white-box signals that the recipes read, each once."""
    return tuple(dict.fromkeys(name for recipe in recipes for name in recipe.inside))


def measure_reference(target: Any, records: Records, names: Sequence[str]) -> Floats:
    """Compute white-box signals of a reference model; prefix its errors with "references:".

    Raises:
        divulge.InputError: as there.
    """
    try:
        return internals.measure(target, records, names)
    except InputError as error:
        raise InputError(f"references: a reference model as the {error}") from None


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
