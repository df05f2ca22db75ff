"""Inputs of an audit: aligned with the target, checked before any work starts, and completed where unknown."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import columns, completion, errors, evaluation, lazy, people, seeds, statistics, targets, user_code
from divulge import recipes as book
from divulge.attacks import Need, adapt
from divulge.attacks.protocol import check_installed
from divulge.auditing.prepared import AuditInputs, PartialKnowledge
from divulge.columns import TableEncoder
from divulge.duplicates import first_of_each_group, groups_are_split_whole, match_records, number_groups, number_pairs
from divulge.errors import InputError
from divulge.evidence import Layout, concatenate_records
from divulge.recipes import Imputed
from divulge.report import formatting
from divulge.results import PartialKnowledgeSettings
from divulge.settings import AuditSettings, Duplicates
from divulge.targets import FramedTarget
from divulge.targets.rights import class_name
from divulge.types import SEPARATOR, AuditData, PartialRecords, Records, check_features
from divulge.validation import (
    as_list,
    check_choice,
    check_integer,
    check_mask,
    check_number,
    check_row_labels,
    check_vector,
    format_value,
    is_missing,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.modality import Modality
    from divulge.recipes import Recipe
    from divulge.settings import ResolvedAuditSettings, UnknownClasses
    from divulge.types import Array, Bools, Ints

    Sets = Mapping[str, Records]
    from scipy import stats

    from divulge.evidence import Layout
    from divulge.types import Floats
else:
    stats = lazy.module("scipy.stats")


def check_inputs(subject: AuditData, options: ResolvedAuditSettings, modality: Modality, target: Any) -> AuditInputs:
    """Check the user's data and options against what the target's modality takes.

    Raises:
        divulge.InputError: see `divulge.audit`.
    """
    seed, levels, classes = options.seed, options.fpr, as_list(subject.unseen_classes, "unseen_classes")
    recipes = resolve_recipes(options.recipes, options.references, seed, modality, target, subject.members)
    members, nonmembers, population = subject.members, subject.nonmembers, subject.population
    if population is None:
        raise InputError(
            "population: additional records known not to be in the training set are needed, for reference models "
            "and calibration"
        )
    for name, records in (("members", members), ("nonmembers", nonmembers), ("population", population)):
        if not isinstance(records, Records):
            raise InputError(
                f"{name}: divulge.Records is needed, got {type(records).__name__}; divulge.Records(x, y) makes them of "
                "arrays, tensors, lists or columns, divulge.from_pairs(dataset) of a torch data set"
            )
    _check_row_order(members, nonmembers, subject)
    groups = None if subject.groups is None else to_numpy(subject.groups, "groups")
    if groups is not None and groups.shape != (len(members) + len(nonmembers),):
        raise InputError(
            f"groups: {len(members) + len(nonmembers)} names are needed (members, then non-members), got shape "
            f"{groups.shape}"
        )
    covariates = check_covariates(subject.covariates, len(members) + len(nonmembers))
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    if subject.known is not None and modality.labels == "real values":
        raise InputError(
            f"known: the target is {modality.name}: partly known records are completed for classifiers alone"
        )
    modality.check_records(sets)
    check_record_sets(sets, recipes, modality)
    if options.references is not None:
        modality.check_references(options.references, recipes, members)
    masks = _check_known(subject.known, recipes, sets, seed)
    separated = separate_sets(sets, options.duplicates)
    members, nonmembers, population = separated.members, separated.nonmembers, separated.population
    unseen = _check_unseen_classes(classes, members, nonmembers, population, recipes)
    n_nonmembers = len(nonmembers)
    if separated.groups is not None:
        n_nonmembers = len(np.unique(separated.groups[len(members) :]))
    for level in levels:
        _check_fpr_level(level, n_nonmembers, "" if separated.groups is None else "distinct ")
    notes = [*separated.notes, *_unseen_class_warnings(unseen, levels, members, nonmembers), *_id_warnings(sets)]
    notes += _missing_class_warnings(members, nonmembers, population, unseen)
    notes += _similar_name_warnings(sets)
    if population.features is not None and not (
        unseen or any(r.needs & {Need.FEATURES, Need.RECORDS} for r in recipes)
    ):
        notes.append("features: none of the recipes learns from features, so they change no score")
    candidates = _with_ids(members, nonmembers, separated.kept_mask, len(subject.members))
    # Where copies of candidates that were dealt out one by one are kept in what is learned from, copies of calibration
    # records are, too.
    keep_equal_together = separated.duplicates == 0 or options.duplicates == "drop" or separated.groups is not None
    population_rows, calibration_rows = split_population(
        population, options.calibration, seed, keep_equal_together=keep_equal_together
    )
    _check_population_size(recipes, len(population_rows), len(population))
    return AuditInputs(
        candidates=candidates,
        truth=np.arange(len(candidates)) < len(members),
        calibration=population[calibration_rows],
        population=population[population_rows],
        recipes=recipes,
        unseen_classes=unseen,
        warnings=tuple(notes),
        duplicates=separated.duplicates,
        groups=None if groups is None else _name_groups(groups)[separated.kept_mask],
        known=None if masks is None else masks[separated.kept_mask],
        covariates=None
        if covariates is None
        else {name: values[separated.kept_mask] for name, values in covariates.items()},
        duplicate_groups=separated.groups,
        copied=separated.copied,
    )


def _check_row_order(members: Records, nonmembers: Records, subject: AuditData) -> None:
    """Check that groups and covariates that are columns of pandas have the rows of members and then non-members."""
    if members.table is None or nonmembers.table is None or not members.table.implementation.is_pandas_like():
        return
    rows = members.table.to_native().index.append(nonmembers.table.to_native().index).to_series()
    covariates = subject.covariates if isinstance(subject.covariates, Mapping) else {"": subject.covariates}
    named = {f"covariates{name and f': {name}'}": values for name, values in covariates.items()}
    for name, values in ({"groups": subject.groups} | named).items():
        check_row_labels({"members and nonmembers": rows, name: values})


def _check_population_size(recipes: Sequence[Recipe], n_learned: int, n_population: int) -> None:
    """Check that the population's part for learning is enough for every attack that says how many it needs."""
    for recipe in recipes:
        attack = recipe.attack
        while not hasattr(attack, "least_population") and hasattr(attack, "inner"):
            attack = attack.inner
        least = getattr(attack, "least_population", 0)
        if n_learned < least:
            raise InputError(
                f"population: {recipe.name} learns from at least {least} records beyond those set aside for "
                f"calibration, got {n_learned} of {n_population}"
            )


_FEATURE_SETS = ("members", "nonmembers", "population")


def attach_features(subject: AuditData, seed: int) -> AuditData:
    """Return the data with the user's features beside every record; the model is not given them.

    A function is called once, on the records of all sets in random order: whatever it makes of a batch, it cannot tell
    the sets apart.

    Args:
        subject: the data, with ``features`` as the user passes it; see `divulge.audit`.
        seed: of the order.

    Raises:
        divulge.InputError: none of the forms that `divulge.audit` names; other shapes or names than one row for each
            record and the same columns in every set; partly known records.
        divulge.errors.UserCodeError: the function raised an error.
    """
    sets = {name: getattr(subject, name) for name in _FEATURE_SETS}
    if not all(isinstance(records, Records) for records in sets.values()):
        return subject  # refused later, with the name of the argument
    features = subject.features
    if features is not None:
        if any(records.features is not None for records in sets.values()):
            raise InputError("features: the records have features already; give them once")
        if isinstance(features, str) and ":" in features:
            features = user_code.import_object(features, "features").value
        if isinstance(features, str):
            sets = {name: _split_columns(records, features, name) for name, records in sets.items()}
        elif callable(features):
            sets = _compute_features(sets, _as_function(features), seed)
        else:
            sets = {name: _with_rows(sets[name], values, name) for name, values in _rows_by_set(features).items()}
    # All sets have the same features, or none has any.
    described = {
        name: "none"
        if records.features is None
        else f"{records.features.shape[1]} columns"
        if records.feature_names is None
        else columns.format_names(records.feature_names)
        for name, records in sets.items()
    }
    if len(set(described.values())) > 1:
        listed = ", ".join(f"{name} {text}" for name, text in described.items())
        raise InputError(f"features: every set needs the same ones in the same order, got {listed}")
    if subject.known is not None and sets["members"].features is not None:
        raise InputError(
            "features: of partly known records there are none: what is unknown of a record must not come in beside it"
        )
    return replace(subject, **sets, features=None)


def attach_placeholders(subject: AuditData) -> AuditData:
    """Return the data with a constant beside every record, where features are still to be computed."""
    sets = {name: getattr(subject, name) for name in _FEATURE_SETS}
    constants = {name: np.zeros(len(records)) for name, records in sets.items() if isinstance(records, Records)}
    return attach_features(replace(subject, features=constants), 0)


def _split_columns(records: Records, prefix: str, set_name: str) -> Records:
    """Return the records without the columns whose names begin with ``prefix``, which become their features."""
    if records.table is None:
        raise InputError(
            f"features: {format_value(prefix)} is the beginning of columns' names, and the {set_name} have no columns; "
            "give an array for each set, a function of records, a torch module, or 'module:function'"
        )
    names = [name for name in records.table.columns if prefix and name.startswith(prefix)]
    other_columns = [name for name in records.table.columns if name not in names]
    if not names or not other_columns:
        problem = "no column of a record is left" if names else f"no column begins with {format_value(prefix)}"
        raise InputError(f"features: {set_name}: {problem}, got {columns.format_names(records.table.columns)}")
    return _with_rows(records.without_columns(names), records.table.select(names).to_native(), set_name)


def _as_function(features: Any) -> Any:
    """Return a function of records; a torch module is asked in evaluation mode, some records at a time."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(features, torch.nn.Module):
        return features

    def embed(records: Records) -> Array:
        try:
            outputs = targets.TorchTarget(features).raw_outputs(records)
        except InputError as error:
            raise InputError(f"features: {str(error).removeprefix('target: ')}") from None
        return outputs.reshape(len(outputs), -1)

    return embed


def _compute_features(sets: Sets, function: Any, seed: int) -> dict[str, Records]:
    """Call the user's function once, on all records in random order."""
    _check_same_shape(sets)
    parts = [records if records.ids is None else records.without_ids() for records in sets.values()]
    everything = concatenate_records(parts)
    order = seeds.generator(seed, "features", "order").permutation(len(everything))
    with errors.user_code_errors("features"):
        returned = function(everything[order].copy())
    values, names = check_features(returned, "features: the function's result", len(everything))
    placed = np.empty_like(values)
    placed[order] = values
    ends = np.cumsum([len(part) for part in parts])[:-1]
    rows = dict(zip(sets, np.split(placed, ends), strict=True))
    return {name: records.with_features(rows[name], names) for name, records in sets.items()}


def _rows_by_set(features: Any) -> dict[str, Any]:
    """Return the features of each set, from a mapping or a sequence of three."""
    if isinstance(features, Mapping):
        if set(features) != set(_FEATURE_SETS):
            listed = ", ".join(map(str, features))
            raise InputError(f"features: an array for each of {', '.join(_FEATURE_SETS)} is needed, got {listed}")
        return {name: features[name] for name in _FEATURE_SETS}
    if isinstance(features, list | tuple) and len(features) == len(_FEATURE_SETS):
        return dict(zip(_FEATURE_SETS, features, strict=True))
    raise InputError(
        "features: a mapping of members, nonmembers and population to arrays is needed, the beginning of columns' "
        f"names, a function of records, a torch module, or 'module:function', got {format_value(features)}"
    )


def _with_rows(records: Records, values: Any, set_name: str) -> Records:
    checked, names = check_features(values, f"features: {set_name}", len(records))
    return records.with_features(checked, names)


def resolve_recipes(
    requested: Sequence[Any], references: object, seed: int, modality: Modality, target: Any, records: Any
) -> tuple[Recipe, ...]:
    """Resolve and check the recipes; "auto", and the default, are what suits the target and the references."""
    if references is not None and not callable(getattr(references, "fit", None)):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    is_default = tuple(requested) == AuditSettings.model_fields["recipes"].default
    names = modality.default_recipes(target, references) if is_default else requested
    resolved = tuple(_resolve_recipe(name, references, seed, modality, target, records) for name in names)
    modality.check_recipes(resolved)
    names = [recipe.name for recipe in resolved]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InputError(f"recipes: each may be named once, got {', '.join(sorted(repeated))} more than once")
    trained = [recipe.name for recipe in resolved if recipe.needs_training]
    if active := [recipe.name for recipe in resolved if recipe.references != "none" and recipe.output_signal is None]:
        raise InputError(
            f"recipes: {', '.join(active)}: an active signal is measured on the target alone, so its attack can "
            "have no reference models"
        )
    if trained and references is None:
        raise InputError(
            f"references: the recipes {', '.join(trained)} need reference models; give "
            f"references=divulge.references.{modality.references}; in a plan, [references] with count = 16 (of "
            "networks also make_model, of language models base)"
        )
    count: int | None = getattr(references, "count", None)
    least_counts = {r.name: adapt(r.attack).least_references for r in resolved if r.references != "base"}
    if count is not None and (too_few := [name for name, least in least_counts.items() if least > count]):
        raise InputError(
            f"references: the recipes {', '.join(too_few)} need at least {max(least_counts.values())} reference "
            f"models, got count={count}"
        )
    for recipe in resolved:
        check_installed(recipe.attack)
    return resolved


def _resolve_recipe(
    requested: Any, references: object, seed: int, modality: Modality, target: Any, records: Any
) -> Recipe:
    """Resolve a recipe and seed it; a recipe passed as an object keeps its own seed."""
    if isinstance(requested, book.Recipe):
        return requested
    if requested == book.Auto() or (isinstance(requested, str) and requested == book.Auto.name):
        recipe = modality.auto_recipe(target, references, records)
    else:
        recipe = modality.resolve_recipe(requested)
    return book.seeded(recipe, seed)


def _check_unseen_classes(
    classes: Sequence[int], members: Records, nonmembers: Records, population: Records, recipes: Sequence[Recipe]
) -> tuple[int, ...]:
    if not len(classes):
        return ()
    if members.labels is None or nonmembers.labels is None or population.labels is None:
        raise InputError(f"unseen_classes: {tuple(classes)} needs labelled records, but there are no labels")

    def name_classes(numbers: Sequence[int]) -> str:
        return f"[{', '.join(formatting.class_name(number, members.class_names) for number in numbers)}]"

    unseen = tuple(sorted({check_integer(c, "unseen_classes", minimum=0) for c in classes}))
    present = set(np.unique(np.concatenate([members.labels, nonmembers.labels])).tolist())
    if absent := [c for c in unseen if c not in present]:
        raise InputError(
            f"unseen_classes: {formatting.class_name(absent[0], members.class_names)} is not among the candidates' "
            f"classes {name_classes(sorted(present))}; nothing to audit"
        )
    for name, records in (("members", members.labels), ("nonmembers", nonmembers.labels)):
        if not np.isin(records, unseen).any():
            raise InputError(
                f"unseen_classes: no record of {name_classes(unseen)} is among the {name}; auditing them needs members "
                "and non-members"
            )
    if present | set(np.unique(population.labels).tolist()) <= set(unseen):
        raise InputError(
            f"unseen_classes: all classes {name_classes(unseen)} are unseen; the auditor must hold at least one to "
            "learn from"
        )
    population_counts = {c: int((population.labels == c).sum()) for c in unseen}
    if any(population_counts.values()):
        listed = ", ".join(
            f"{count} records of class {formatting.class_name(c, population.class_names)}"
            for c, count in population_counts.items()
            if count
        )
        raise InputError(
            f"unseen_classes: the population holds {listed}, so the class is not unseen; "
            "leave these records out of the population"
        )
    if online := [recipe.name for recipe in recipes if recipe.references == "in and out"]:
        raise InputError(
            f"recipes: {', '.join(online)} train reference models on the candidates, which an auditor who lacks "
            "their classes cannot do; use the offline form"
        )
    return unseen


def _unseen_class_warnings(
    classes: Sequence[int], fpr: Sequence[float], members: Records, nonmembers: Records
) -> list[str]:
    """Return a warning about levels for which the unseen classes have too few records."""
    if not classes or members.labels is None or nonmembers.labels is None:
        return []
    n_members, n_nonmembers = (int(np.isin(labels, classes).sum()) for labels in (members.labels, nonmembers.labels))
    level = min(fpr)
    if n_nonmembers >= (required := evaluation.min_nonmembers(level)):
        return []
    power = evaluation.smallest_detectable(n_members, n_nonmembers, max(fpr))
    named_classes = formatting.format_unseen_classes(classes, members.class_names)
    return [
        f"fpr: {level:g} needs at least {required} non-members of the {named_classes}, got "
        f"{n_nonmembers} (and {n_members} members), so no TPR is reported there at this level; one test alone "
        f"could detect there: {power}; the verdict rests on several, and needs more records"
    ]


def _missing_class_warnings(
    members: Records, nonmembers: Records, population: Records, unseen: Sequence[int]
) -> list[str]:
    """Return a warning about classes of candidates that the population lacks, other than by chance.

    Rare classes of which none happens to be drawn are covered by the calibration; classes that were left out are not.
    """
    if members.labels is None or nonmembers.labels is None or population.labels is None:
        return []
    labels = np.concatenate([members.labels, nonmembers.labels])
    classes = np.setdiff1d(statistics.find_missing_classes(labels, population.labels), unseen).tolist()
    if not len(classes):
        return []
    named_classes, count = formatting.format_classes(classes, members.class_names), int(np.isin(labels, classes).sum())
    return [
        f"population: it holds no record of the {named_classes}, of which {count:,} of the "
        f"{len(labels):,} candidates are: reference models that saw no candidate do not know such records, and none is "
        "among those that decisions are calibrated with. Add some, or name what is missing in unseen_classes, whose "
        "results are shown apart and whose decisions promise nothing"
    ]


def _check_known(known_mask: Any, recipes: Sequence[Recipe], sets: dict[str, Records], seed: int) -> Bools | None:
    """Return the mask of known values of members, then non-members; None if none was given."""
    if known_mask is None:
        if partial_recipes := [recipe.name for recipe in recipes if recipe.needs_known]:
            raise InputError(
                f"known: the recipes {', '.join(partial_recipes)} are for records of which only part is known; say "
                "which part (known=mask), or name recipes for whole records"
            )
        return None
    if isinstance(known_mask, list | tuple) and any(isinstance(each, str) for each in known_mask):
        raise InputError(
            f"known: one mask or text is needed, got a list of {len(known_mask)}; "
            "divulge.auditing.over_shares audits each"
        )
    members, nonmembers = sets["members"], sets["nonmembers"]
    if members.x.dtype == object:
        raise InputError("known: partial knowledge needs numeric records, got text")
    n = len(members) + len(nonmembers)
    if members.encoder is not None and not members.encoder.is_plain:
        # Of a table, a mask is over its columns, of which each is one or more encoded values.
        if text_columns := [column.name for column in members.encoder.columns if column.measure == "text"]:
            raise InputError(
                f"known: partial knowledge needs numbers, categories and dates; column {text_columns[0]!r} holds free "
                "text"
            )
        if isinstance(known_mask, str):
            known_mask = completion.mask(
                known_mask, (len(members.encoder.names),), columns=members.encoder.names, seed=seed, records=n
            )
        masks = check_mask(known_mask, "known", (n, len(members.encoder.names)))
        PartialRecords(np.zeros(masks.shape), None, masks)
        return np.repeat(masks, [column.width for column in members.encoder.columns], axis=1)
    shape = (n, *members.x.shape[1:])
    if isinstance(known_mask, str):
        names = () if members.encoder is None else members.encoder.names
        known_mask = completion.mask(known_mask, shape[1:], columns=names, seed=seed, records=n)
    masks = check_mask(known_mask, "known", shape)
    PartialRecords(np.zeros(shape), None, masks)
    return masks


def _check_fpr_level(fpr: float, nonmembers: int, qualifier: str) -> None:
    check_number(fpr, "fpr", above=0, below=1)
    if nonmembers < (required := evaluation.min_nonmembers(fpr)):
        raise InputError(
            f"fpr: {fpr:g} needs at least {required} {qualifier}non-members, got {nonmembers}; use a larger FPR or "
            "more non-members"
        )


def _id_warnings(sets: dict[str, Records]) -> list[str]:
    """Return a warning if only one of the two sets of candidates has ids."""
    with_ids = [name for name in ("members", "nonmembers") if sets[name].ids is not None]
    if len(with_ids) != 1:
        return []
    return [f"only {with_ids[0]} have ids; the report names candidates by set and row instead"]


def _similar_name_warnings(sets: dict[str, Records]) -> list[str]:
    """Return a warning if names of persons differ in nothing but spaces or case: they count as different persons."""
    has_people = any(SEPARATOR in text for records in sets.values() if records.x.dtype == object for text in records.x)
    if not has_people:
        return []
    ids = [records.ids for records in sets.values() if records.ids is not None]
    names = dict.fromkeys(name for part in ids for name in part.tolist() if isinstance(name, str))
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(" ".join(name.casefold().split()), []).append(name)
    similar = [group for group in by_form.values() if len(group) > 1]
    if not similar:
        return []
    return [
        f"names of persons differ only by spaces or case and count as different persons: {len(similar)} in all, first "
        f"{' and '.join(map(format_value, similar[0]))}"
    ]


def _with_ids(members: Records, nonmembers: Records, kept_mask: Bools, n_members: int) -> Records:
    """Return members, then non-members, with an id each: that of the user, or the row in which the record was given.

    Args:
        members: those that are compared.
        nonmembers: those that are compared.
        kept_mask: bool over all members, then all non-members as they were given: whether the record is compared.
        n_members: how many members were given.
    """
    candidates = concatenate_records([members, nonmembers])
    if candidates.ids is not None:
        return candidates
    names = [
        f"row {row + 1} of members" if row < n_members else f"row {row - n_members + 1} of nonmembers"
        for row in np.flatnonzero(kept_mask).tolist()
    ]
    return candidates.with_ids(np.array(names))


def split_population(population: Records, share: float, seed: int, *, keep_equal_together: bool) -> tuple[Array, Array]:
    """Split the population into rows to learn from and calibration rows; equal records stay together.

    Of equal calibration records one is used: the others are no further observations.
    """
    n = len(population)
    n_calibration = max(1, round(share * n))
    if n - n_calibration < 2:
        raise InputError(
            f"population: at least 2 records are needed beyond those set aside, got {n} of which {n_calibration} are "
            f"set aside (calibration={share:g})"
        )
    order = seeds.generator(seed, "calibration").permutation(n)
    is_calibration = np.zeros(n, dtype=bool)
    is_calibration[order[:n_calibration]] = True
    if not keep_equal_together:
        return np.flatnonzero(~is_calibration), np.flatnonzero(is_calibration)
    groups = number_groups(population.x, population.y)
    if groups[-1] == groups.max() == n - 1:
        return np.flatnonzero(~is_calibration), np.flatnonzero(is_calibration)
    is_first_copy = first_of_each_group(groups, np.zeros(n))
    first_copies = np.flatnonzero(is_first_copy)[groups]
    if not (is_calibration & is_first_copy).any():  # a share so small that only later copies were drawn
        is_calibration[first_copies[order[0]]] = True
    is_calibration_group = (is_calibration & is_first_copy)[first_copies]
    learning_rows = np.flatnonzero(~is_calibration_group)
    calibration_rows = np.flatnonzero(is_calibration_group & is_first_copy)
    if len(learning_rows) < 2 or not len(calibration_rows):
        raise InputError(
            f"population: {int(is_first_copy.sum())} distinct records are too few to learn from some and calibrate "
            "with others"
        )
    return learning_rows, calibration_rows


def check_record_sets(sets: Sets, recipes: Sequence[Recipe], modality: Modality) -> None:
    """Check that members, non-members and population fit together and have what the recipes read.

    Raises:
        divulge.InputError: other shapes, labels or kinds of ids; an id in two sets; labels that are missing, or one.
    """
    _check_same_shape(sets)
    # Ids are strings or integers, of one type in all sets.
    types = {}
    for name, records in sets.items():
        if records.ids is None:
            continue
        id_type = records.ids.dtype.kind
        types[name] = (
            "strings"
            if id_type == "U" or all(isinstance(value, str) for value in records.ids)
            else records.ids.dtype.name
        )
        if types[name] == "object":
            raise InputError(f"{name}: ids must be strings or whole numbers of at most 64 bits")
    if "strings" in types.values() and len(set(types.values())) > 1:
        listed = ", ".join(f"{name} {id_type}" for name, id_type in types.items())
        raise InputError(f"records: ids of all sets must be of the same kind, got {listed}")
    for one_set, other_set in (("members", "nonmembers"), ("members", "population"), ("nonmembers", "population")):
        ids, other_ids = sets[one_set].ids, sets[other_set].ids
        shared = np.array([]) if ids is None or other_ids is None else np.intersect1d(ids, other_ids)
        if shared.size:
            raise InputError(
                f"{one_set}, {other_set}: {len(shared)} ids occur in both sets (first: {shared.tolist()[0]!r}); "
                "a record can be in only one of them"
            )
    recipes_with_labels = [recipe.name for recipe in recipes if recipe.needs_labels]
    if recipes_with_labels and sets["members"].y is None:
        usable = [recipe.name for recipe in modality.known_recipes() if not recipe.needs_labels]
        raise InputError(
            f"recipes: {', '.join(recipes_with_labels)} read the records' labels, but there are none"
            + (f"; without labels use {', '.join(usable)}" if usable else "")
        )
    numeric_recipes = [recipe.name for recipe in recipes if recipe.needs_numbers]
    if numeric_recipes and sets["members"].x.dtype == object:
        raise InputError(
            f"recipes: {', '.join(numeric_recipes)} move records a little, which numbers allow and texts do not; of "
            "texts use correct, correct-calibrated, transfer, or recipes that read the target's outputs"
        )


def _check_same_shape(sets: Sets) -> None:
    shapes = {name: records.x.shape[1:] for name, records in sets.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"records: all sets must have the same shape, got {listed}")
    labelled = {name: records.y is not None for name, records in sets.items()}
    if len(set(labelled.values())) > 1:
        unlabelled = ", ".join(name for name, has_labels in labelled.items() if not has_labels)
        raise InputError(f"records: every set must have labels, or none; {unlabelled} has none")


_MAX_LISTED = 3  # rows that a message shows


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedSets:
    """Record sets without records that appear in several of them.

    Args:
        members: what remains of them.
        nonmembers: likewise.
        population: likewise.
        kept: which candidates (members, then non-members) remain, ``[n]``.
        duplicates: number of records that stood in more than one set.
        notes: what was done about it.
        groups: number of the distinct record that each remaining candidate is, where copies keep together and a group
            is one observation; None where each record is one.
        copied: number of kept candidates whose copy in another set can hide a leak: non-members that equal a member,
            and members that equal a record of the population.
    """

    members: Records
    nonmembers: Records
    population: Records
    kept_mask: Bools
    duplicates: int = 0
    notes: tuple[str, ...] = ()
    groups: Ints | None = None
    copied: int = 0


def separate_sets(sets: Mapping[str, Records], policy: Duplicates) -> SeparatedSets:
    """Refuse, drop or keep exact duplicates across the sets, which would make the labels wrong.

    Where a record holds several documents of a person, so are documents that persons of several sets share.

    Raises:
        divulge.InputError: there are some and the policy is "error"; nothing is left without them; "keep", and members
            are in the population more often than non-members, or less often.
    """
    separated = _separate_records(sets, policy)
    record_sets = (separated.members, separated.nonmembers, separated.population)
    if separated.members.x.dtype != object or not (shared := people.find_shared_documents(record_sets)):
        return separated
    holders = [np.array([not shared.isdisjoint(people.split_record(text)) for text in part.x]) for part in record_sets]
    description = (
        f"{formatting.format_count(len(shared), 'document')} in records of several sets ({int(holders[0].sum())} "
        f"members, {int(holders[1].sum())} non-members, {int(holders[2].sum())} of the population)"
    )
    if policy == "error":
        raise InputError(
            f"duplicates: {description}; a document cannot have been used and not used: remove them, or set "
            "duplicates to 'drop', which takes them out of every record, or 'keep'"
        )
    n_shared = separated.duplicates + sum(int(mask.sum()) for mask in holders)
    if policy == "keep":
        learned = {text for record in separated.population.x for text in people.split_record(record)} & set(shared)
        _check_copies_in_population(
            *(
                np.array([not learned.isdisjoint(people.split_record(text)) for text in part.x])
                for part in record_sets[:2]
            )
        )
        n_copied = separated.copied + int(holders[0].sum() + holders[1].sum())
        note = f"{description}; they were kept{_KEPT_COPIES}"
        return replace(separated, duplicates=n_shared, notes=(*separated.notes, note), copied=n_copied)
    (members, has_member), (nonmembers, has_nonmember), (population, has_population) = (
        people.remove_documents(records, shared) for records in record_sets
    )
    if members is None or nonmembers is None or population is None:
        raise InputError(f"duplicates: {description}; nothing is left after dropping them")
    has_any, kept_mask = np.append(has_member, has_nonmember), separated.kept_mask.copy()
    kept_mask[separated.kept_mask] = has_any
    n_empty = int((~has_any).sum() + (~has_population).sum())
    emptied = f", which leaves nothing of {formatting.format_count(n_empty, 'record')}" if n_empty else ""
    note = f"{description}; these documents were taken out of every record{emptied}"
    groups = None if separated.groups is None else separated.groups[has_any]
    return SeparatedSets(members, nonmembers, population, kept_mask, n_shared, (*separated.notes, note), groups)


def _separate_records(sets: Mapping[str, Records], policy: Duplicates) -> SeparatedSets:
    """Refuse, drop or keep equal records across the sets.

    Duplicates within a set are judged by how they fell. Where whole groups of equal records are in one set more often
    than a random deal of records would put them there, they belong together: they stay, and each group counts once.
    Where records were dealt out one by one, the groups that happen to be in one set are more frequent the larger the
    set; "drop" then takes these out as well, or the sets would differ by it.

    Raises:
        divulge.InputError: there are some and the policy is "error"; nothing is left without them.
    """
    members, nonmembers, population = sets["members"], sets["nonmembers"], sets["population"]
    # Two records of different classes and equal values are one that was labelled twice. A real value is measured: two
    # records that differ in it are two.
    has_real_values = members.y is not None and members.labels is None and members.x.dtype != object
    matches = match_records(sets, labelled=has_real_values)
    values = np.concatenate(matches.groups)
    labels = (
        None if any(each.y is None for each in sets.values()) else np.concatenate([each.y for each in sets.values()])
    )
    copies = values if has_real_values or labels is None else number_pairs(values, labels)
    origin = np.repeat([0, 1, 2], [len(members), len(nonmembers), len(population)])
    among_members, among_nonmembers, among_population = (
        np.isin(values, values[origin == number]) for number in range(3)
    )
    candidates = origin < 2
    is_shared_nonmember = among_members[origin == 1]
    is_shared_population = (among_members | among_nonmembers)[origin == 2]
    n_shared = int(is_shared_nonmember.sum() + is_shared_population.sum())
    kept_rows = np.ones(int(candidates.sum()), dtype=bool)
    keep_copies = groups_are_split_whole(copies, origin)
    groups = copies[candidates] if keep_copies else None
    repetitions = (*matches.notes, *_repetition_notes(groups, origin))
    if not n_shared:
        return SeparatedSets(members, nonmembers, population, kept_rows, notes=repetitions, groups=groups)
    findings = []
    duplicates = "duplicates" if matches.are_rounded else "exact duplicates"
    if is_shared_nonmember.any():
        findings.append(f"{int(is_shared_nonmember.sum())} non-members are {duplicates} of members")
    if is_shared_population.any():
        findings.append(f"{int(is_shared_population.sum())} population records are {duplicates} of candidates")
    description = " and ".join(findings) + (" in the digits that both sets have" if matches.are_rounded else "")
    if policy == "error":
        rows, set_name = (
            (is_shared_nonmember, "non-member") if is_shared_nonmember.any() else (is_shared_population, "population")
        )
        listed = ", ".join(map(str, np.flatnonzero(rows)[:_MAX_LISTED])) + ("…" if rows.sum() > _MAX_LISTED else "")
        raise InputError(
            f"duplicates: {description} ({set_name} rows [{listed}], counted from 0); a record cannot be both: "
            "remove them, or set duplicates to 'drop' or 'keep'"
        )
    if policy == "keep":
        is_in_population = among_population[candidates]
        _check_copies_in_population(is_in_population[: len(members)], is_in_population[len(members) :])
        n_copied = int(is_shared_nonmember.sum() + is_in_population[: len(members)].sum())
        notes = (f"{description}; they were kept{_KEPT_COPIES if n_copied else ''}", *repetitions)
        return SeparatedSets(members, nonmembers, population, kept_rows, n_shared, notes, groups, n_copied)
    # Out of every set, or the sets would differ by what was taken out of them.
    kept_rows &= ~among_population[candidates] & ~(among_members & among_nonmembers)[candidates]
    also_dropped = ""
    if not keep_copies:
        repeated = np.bincount(values)[values] > 1
        dealt_copies = repeated & np.append(kept_rows, ~is_shared_population)
        kept_rows, is_shared_population = (
            kept_rows & ~repeated[: len(kept_rows)],
            is_shared_population | repeated[len(kept_rows) :],
        )
        if dealt_copies.any():
            also_dropped = (
                f", and {formatting.format_count(int(dealt_copies.sum()), 'record')} with copies in their own set alone"
            )
    kept_members, kept_nonmembers = kept_rows[: len(members)], kept_rows[len(members) :]
    if not (kept_members.any() and kept_nonmembers.any() and (~is_shared_population).any()):
        raise InputError(f"duplicates: {description}; nothing is left after dropping them")
    note = f"{description}; all copies were dropped from every set{also_dropped}"
    kept_groups = None if groups is None else groups[kept_rows]
    notes = (note, *matches.notes, *_repetition_notes(kept_groups, origin[: len(kept_rows)][kept_rows]))
    return SeparatedSets(
        members[kept_members],
        nonmembers[kept_nonmembers],
        population[~is_shared_population],
        kept_rows,
        n_shared,
        notes,
        kept_groups,
    )


_KEPT_COPIES = ", which biases every number towards no leak"
_LOPSIDED_COPIES = 0.05  # chance that a random deal of records is refused; what remains moves an AUC by little


def _check_copies_in_population(members: Bools, nonmembers: Bools) -> None:
    """Refuse kept copies in the population of one of the two sides alone.

    Reference models, and other attacks that learn from the population, learn these records: they make the target look
    as if it knew the other side better, or this side less well, whatever it was trained on.

    Args:
        members: whether each has a copy in the population.
        nonmembers: likewise.
    """
    table = [[int(side.sum()), int((~side).sum())] for side in (members, nonmembers)]
    if float(stats.fisher_exact(table).pvalue) < _LOPSIDED_COPIES:
        raise InputError(
            f"duplicates: {table[0][0]} of {len(members)} members and {table[1][0]} of {len(nonmembers)} non-members "
            "stand in the population, too: what learns from the population would know the one side better than the "
            "other; take them out of the population, or set duplicates to 'drop'"
        )


def _repetition_notes(groups: Ints | None, origin: Ints) -> tuple[str, ...]:
    """Note how many candidates are copies that are not counted again."""
    if groups is None:
        return ()
    surplus = len(groups) - len(np.unique(np.column_stack([groups, origin[: len(groups)]]), axis=0))
    if not surplus:
        return ()
    copies = formatting.format_count(surplus, "candidate")
    return (f"{copies} repeat another record of the same set; equal records count once in every estimate",)


# Alignment of columns and class labels with the target's own order.
_SETS = ("members", "nonmembers", "population")


@dataclass(frozen=True, slots=True, eq=False)
class AlignedData:
    """Audit data in the target's order of columns and classes.

    Args:
        subject: all records with the same columns, encoded alike, and labels that number the target's classes.
        target: the adapter, which is given frames where the records have columns.
        class_names: of the classes, by their number; None where they have no names.
        notes: what was assumed.
    """

    subject: AuditData
    target: Any
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()


def align_data(subject: AuditData, target: Any, unknown_classes: UnknownClasses) -> AlignedData:
    """Bring the columns and classes of all sets into the target's order.

    Args:
        subject: as the user hands it in.
        target: an adapter; its ``feature_names`` and ``class_names`` are read where it has them.
        unknown_classes: "error" or "drop": what happens to records of a class that the target does not know.

    Raises:
        divulge.InputError: columns that are missing or too many, of other types in two sets, or that the target cannot
            read; a class that the target does not know; names of classes whose order nobody says.
    """
    sets = {name: getattr(subject, name) for name in _SETS}
    if not all(isinstance(records, Records) for records in sets.values()):
        return AlignedData(subject, target)  # refused later, with the name of the argument
    given_order = None if sets["members"].table is None else list(sets["members"].table.columns)
    sets, column_notes = _align_columns(sets, target)
    known_mask = _reorder_mask(subject.known, given_order, sets["members"])
    class_names, class_notes = _class_order(sets, target)
    kept_rows = {name: np.ones(len(records), dtype=bool) for name, records in sets.items()}
    if class_names is not None:
        for name, records in sets.items():
            sets[name], kept_rows[name] = _number_classes(records, class_names, name, unknown_classes)
    elif unknown_classes == "drop":
        sets, kept_rows = _drop_unknown(sets, target)
    else:
        class_notes = [*class_notes, *_check_fitted_classes(sets, target)]
    dropped = {name: int((~mask).sum()) for name, mask in kept_rows.items()}
    notes = [*column_notes, *class_notes]
    if any(dropped.values()):
        listed = ", ".join(f"{count:,} of the {name}" for name, count in dropped.items() if count)
        notes.append(f"records of classes that the target does not know were left out: {listed}")
    candidates = np.concatenate([kept_rows["members"], kept_rows["nonmembers"]])
    unseen = as_list(subject.unseen_classes, "unseen_classes")
    if class_names is not None:
        unseen = [
            class_names.index(check_choice(value, "unseen_classes", class_names)) if isinstance(value, str) else value
            for value in unseen
        ]
    subject = replace(
        subject,
        **sets,
        groups=_select_rows(subject.groups, candidates),
        known=_select_rows(known_mask, candidates),
        covariates=_select_columns(subject.covariates, candidates),
        unseen_classes=tuple(unseen),
    )
    framed_target = target if sets["members"].table is None else FramedTarget(target, sets["population"][:1])
    return AlignedData(subject, framed_target, class_names, tuple(notes))


def _align_columns(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], list[str]]:
    """Order the columns of all sets as the target was fitted, and encode them together."""
    sets, nameless_notes = _drop_nameless(sets, getattr(target, "feature_names", ()))
    fitted_names, members = tuple[str, ...](getattr(target, "feature_names", ())), sets["members"]
    if not fitted_names and members.table is not None:
        fitted_names = columns.find_names(getattr(target, "likely_names", ()), members.table.columns)
    with_columns = [name for name, records in sets.items() if records.table is not None]
    if not with_columns:
        width = members.x[0].size if members.x.dtype != object else 0
        if fitted_names and width == len(fitted_names):
            listed = columns.format_names(fitted_names)
            return dict(sets), [
                f"the records have no column names; their values were taken in the order of the target's: {listed}"
            ]
        return dict(sets), []
    if len(with_columns) < len(sets):
        without_columns = [name for name in sets if name not in with_columns]
        raise InputError(
            f"{', '.join(without_columns)}: {', '.join(with_columns)} have named columns, so all sets must; pass data "
            "frames throughout"
        )
    tables = {name: records.table for name, records in sets.items() if records.table is not None}
    order = fitted_names or tuple(tables["members"].columns)
    for name, table in tables.items():
        columns.match_columns(table, order, name, required_by_model=bool(fitted_names))
    joined = columns.concatenate([table.select(*order) for table in tables.values()])
    encoder = TableEncoder.fit([joined])
    if not encoder.is_plain and not getattr(target, "takes_frames", False):
        unreadable = [column.name for column in encoder.columns if column.measure not in ("number", "boolean")]
        unreadable += [column.name for column in encoder.columns if column.has_missing]
        raise InputError(
            f"target: {class_name(target)} takes numbers, and the columns {columns.format_names(unreadable)} hold "
            "texts, categories, dates or missing values; pass the model with its encoder, as a pipeline or as a "
            "function of a data frame"
        )
    notes = nameless_notes
    if not fitted_names:
        keys = [
            name
            for name, dtype in tables["members"].schema.items()
            if dtype.is_integer()
            and all(
                len(table) >= _MIN_KEYS and (np.diff(table[name].to_numpy()) == 1).all() for table in tables.values()
            )
        ]
        if keys:  # with them no two records are equal
            notes.append(
                f"{columns.format_names(keys)} numbers the records from one to the next: as a part of a record it "
                "hides copies; leave it out, or name it as data.id, unless the model reads it"
            )
        listed = columns.format_names(order)
        notes.append(
            f"the target does not say by which columns it was fitted; it was given them in the order of the members': "
            f"{listed}"
        )
    return {name: records.with_encoder(encoder) for name, records in sets.items()}, notes


def _drop_nameless(sets: Mapping[str, Records], fitted_names: Sequence[str]) -> tuple[dict[str, Records], list[str]]:
    """Leave out columns without a name, unless the target was fitted on them; also return a note."""
    kept_sets, left_out = dict(sets), set()
    for name, records in sets.items():
        if records.table is not None:
            nameless = {*columns.nameless_columns(records.table.columns)} - {*fitted_names}
            kept_sets[name] = records.without_columns(sorted(nameless)) if nameless else records
            left_out |= nameless
    return kept_sets, [columns.describe_nameless(sorted(left_out), "was left out")] if left_out else []


_MIN_KEYS = 20  # records from which whole numbers that go up one by one are no coincidence


def _reorder_mask(known_mask: Any, given_order: list[str] | None, members: Records) -> Any:
    """Reorder a mask over columns to the new column order; masks given in words name their columns."""
    if known_mask is None or isinstance(known_mask, str) or given_order is None or members.encoder is None:
        return known_mask
    mask = to_numpy(known_mask, "known")
    if not mask.ndim or mask.shape[-1] != len(given_order):
        return known_mask  # refused later
    return mask[..., [given_order.index(name) for name in members.encoder.names]]


def _class_order(sets: Mapping[str, Records], target: Any) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the class names in the order of the target's outputs; None if labels are already numbers."""
    labelled = [records for records in sets.values() if records.labels is not None]
    with_names = [records for records in labelled if records.class_names is not None]
    target_names: tuple[str, ...] | None = getattr(target, "class_names", None)
    if target_names is not None:
        if not with_names and getattr(target, "has_given_names", False):
            return None, []  # the user said how the labels number them
        return target_names, []
    if not with_names:
        return None, []
    given_orders = {records.class_names for records in with_names if records.has_class_order}
    if len(given_orders) > 1:
        raise InputError("class_names: all sets must name the same classes in the same order")
    if given_orders:
        return next(iter(given_orders)), []
    class_names = sorted({name for records in labelled for name in _class_of_each(records)})
    if all(name in ("False", "True") for name in class_names):
        return ("False", "True"), []
    if all(name.lstrip("-").isdecimal() for name in class_names):
        numbers = sorted(int(name) for name in class_names)
        if numbers[0] < 0:
            return tuple(map(str, numbers)), [
                f"the classes {', '.join(map(str, numbers))} were taken for the target's outputs in this order"
            ]
        return tuple(map(str, range(numbers[-1] + 1))), []
    raise InputError(
        f"y: the classes have names, {format_value(class_names)}, and the target does not say which output is whose; "
        "give their order: divulge.Records(x, y, class_names=[…]), or data.classes in a plan"
    )


def _class_of_each(records: Records) -> list[str]:
    """Return the class name of each record."""
    assert records.y is not None
    if records.class_names is None:
        return [str(number) for number in records.y]
    return [records.class_names[number] for number in records.y]


def _number_classes(
    records: Records, class_names: Sequence[str], set_name: str, unknown_classes: UnknownClasses
) -> tuple[Records, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Encode labels as positions in ``class_names``; also return the mask of kept records."""
    if records.y is None:
        return records, np.ones(len(records), dtype=bool)
    number_of = {class_name: number for number, class_name in enumerate(class_names)}
    names_of_records = _class_of_each(records)
    if set(class_names) == {"False", "True"} and set(names_of_records) <= {"0", "1"}:
        names_of_records = ["True" if class_name == "1" else "False" for class_name in names_of_records]
    is_known = np.array([class_name in number_of for class_name in names_of_records])
    if not is_known.any():
        raise InputError(
            f"{set_name}: y: the target knows none of the classes {format_value(sorted(set(names_of_records)))}; it "
            f"knows {format_value(list(class_names))}"
        )
    if not is_known.all() and unknown_classes == "error":
        unknown_name = next(class_name for class_name in names_of_records if class_name not in number_of)
        raise InputError(
            f"{set_name}: y: the target does not know the class {format_value(unknown_name)} (it knows "
            f"{format_value(list(class_names))}); {int((~is_known).sum())} records have such a class; leave them out, "
            "or set unknown_classes to 'drop' (for dv.audit in dv.AuditOptions)"
        )
    kept_records = records if is_known.all() else records[is_known]
    return kept_records.with_labels(
        [number_of[class_name] for class_name in names_of_records if class_name in number_of], tuple(class_names)
    ), is_known


def _name_groups(groups: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the names of subgroups as texts; "missing" for those that the table does not say."""
    if groups.dtype.kind not in "Of":
        return groups.astype(str)
    return np.array(["missing" if is_missing(group) else str(group) for group in groups.tolist()])


def _check_fitted_classes(sets: Mapping[str, Records], target: Any) -> list[str]:
    """Return a note on records of classes within a target's range that it was not fitted on.

    Raises:
        divulge.InputError: a class above all of those that the target, which numbers its classes, was fitted on.
    """
    known_classes, notes = getattr(target, "known_classes", None), []
    if known_classes is None or not len(known_classes):
        return []
    for name, records in sets.items():
        if records.labels is None:
            continue
        is_known = np.isin(records.labels, known_classes)
        if is_known.all():
            continue
        unknown = sorted(set(records.labels[~is_known].tolist()))
        described = f"(it knows {format_value(list(map(int, known_classes)))}); {int((~is_known).sum())} records"
        if unknown[-1] > max(known_classes):
            raise InputError(
                f"{name}: y: the target does not know the class {unknown[-1]} {described} have such a class; leave "
                "them out, or set unknown_classes to 'drop' (for dv.audit in dv.AuditOptions); if the target predicts "
                "a real value, say task='regression', in a plan task = \"regression\""
            )
        notes.append(
            f"{name}: the target was not fitted on the classes {', '.join(map(str, unknown))} {described} have one and "
            "count as the least likely; unknown_classes set to 'drop' (for dv.audit in dv.AuditOptions) leaves them out"
        )
    return notes


def _drop_unknown(sets: Mapping[str, Records], target: Any) -> tuple[dict[str, Records], dict[str, Any]]:
    """Drop records of classes that the target, which numbers its classes, was not fitted on."""
    known_classes = getattr(target, "known_classes", None)
    kept_rows = {
        name: np.ones(len(records), dtype=bool)
        if known_classes is None or records.y is None
        else np.isin(records.y, known_classes)
        for name, records in sets.items()
    }
    for name, mask in kept_rows.items():
        if not mask.any():
            raise InputError(f"{name}: y: the target was fitted on none of these classes")
    return {
        name: records if kept_rows[name].all() else records[kept_rows[name]] for name, records in sets.items()
    }, kept_rows


def _select_rows(values: Any, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Select the kept candidates from per-candidate values; a single mask is returned unchanged."""
    if rows.all() or values is None or isinstance(values, str):
        return values
    array = to_numpy(values, "groups, known")
    return array[rows] if array.ndim and len(array) == len(rows) else array


def _select_columns(table: Any, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """Select the kept candidates from every column of a table."""
    if rows.all() or table is None:
        return table
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        names = table if isinstance(table, Mapping) else table.columns
        return {str(name): _select_rows(table[name], rows) for name in names}
    return _select_rows(table, rows)


def check_covariates(value: Any, count: int) -> dict[str, Array] | None:
    """Validate the user's covariates and return them by name; columns of an array are numbered.

    Args:
        value: a table or a mapping (name → ``[n]``), an array ``[n]`` or ``[n, k]``, or None.
        count: ``n``, members and then non-members.

    Raises:
        divulge.InputError: another number of rows, no columns, values that are missing, NaN or infinite.
    """
    if value is None:
        return None
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        columns = {str(name): value[name] for name in (value if isinstance(value, Mapping) else value.columns)}
    else:
        array = to_numpy(value, "covariates")
        if array.ndim not in (1, 2):
            raise InputError(f"covariates: an array [n] or [n, k] is needed, got shape {array.shape}")
        matrix = array.reshape(len(array), -1)
        columns = {f"covariate {number + 1}": matrix[:, number] for number in range(matrix.shape[1])}
    if not columns:
        raise InputError("covariates: at least 1 column is needed, got none")
    return {name: _check_covariate(name, values, count) for name, values in columns.items()}


def _check_covariate(name: str, values: Any, count: int) -> Array:
    column = to_numpy(values, f"covariates: {name}")
    if column.shape != (count,):
        raise InputError(
            f"covariates: {name}: {count} values are needed (members, then non-members), got shape {column.shape}"
        )
    if column.dtype.kind == "M" and np.isnat(column).any():
        raise InputError(f"covariates: {name}: a date is missing; fill it in or leave the records out")
    if column.dtype == object:
        column = np.asarray(column.tolist())
    if column.dtype == object:
        bad_value = next((entry for entry in column.tolist() if entry is None), column[0])
        raise InputError(
            f"covariates: {name}: numbers, dates or words are needed, got {format_value(bad_value)}; fill in what is "
            "missing"
        )
    if column.dtype.kind in "biuf":
        check_vector(column.astype(np.float64), f"covariates: {name}")
    return column


# Candidates that IN models are trained on are completed anew this many times; model i gets completion i mod this.
_N_TRAINING_COMPLETIONS = 8
# What is reported where every value is known.
ALL_KNOWN = PartialKnowledgeSettings(1.0, "none", 0, None)
# A coincidence less likely than this is none.
_COINCIDENCE_LEVEL = 1e-4


def complete_inputs(inputs: AuditInputs, imputer: Any, seed: int) -> tuple[AuditInputs, PartialKnowledge | None]:
    """Replace the unknown values of the inputs by completions; also return the `PartialKnowledge`.

    Candidates and calibration records come back completed. Where every value is known there is nothing to
    complete: the recipes become those for whole records, with a warning.

    Args:
        inputs: the inputs, with ``known``.
        imputer: an imputer, a function (see `divulge.completion.CustomImputer`) or None for the
            class-conditional Gaussian.
        seed: of masks and draws.

    Raises:
        divulge.InputError: a record of which nothing is known; candidates among the population.
    """
    known_mask = inputs.known
    if known_mask is None:
        return inputs, None
    if known_mask.all():
        note = "every value is known: these are attacks on whole records, and nothing was completed"
        recipes = []
        for recipe in inputs.recipes:
            completes = recipe.needs_known and not isinstance(recipe.signal, str)  # the signal itself: then the loss
            signal = "negative-loss" if completes else recipe.signal
            recipes.append(replace(recipe, signal=signal, imputed=Imputed(), partial=False))
        return replace(inputs, recipes=tuple(recipes), known=None, warnings=(*inputs.warnings, note)), None
    y = None if inputs.candidates.y is None else inputs.everything.y
    layout = inputs.layout
    # Masks of other records are drawn from those of the candidates, independently of membership.
    masks = np.concatenate(
        [
            known_mask,
            known_mask[seeds.generator(seed, "masks").integers(len(known_mask), size=layout.total - len(known_mask))],
        ]
    )
    masked_records = PartialRecords(inputs.everything.x, y, masks)
    scored = layout.scored_rows
    visible = PartialRecords(masked_records.x[scored], None if y is None else y[scored], masks[scored])
    _check_disjoint(visible, layout, inputs.population.x)
    fitted_imputer = completion.imputer(completion.ConditionalGaussian() if imputer is None else imputer).fit(
        inputs.population
    )
    best_completion = inputs.everything.with_values(
        fitted_imputer.complete(masked_records)[0], template=inputs.population
    )
    partial_knowledge = PartialKnowledge(
        visible,
        fitted_imputer,
        best_completion,
        _sample_completions(
            fitted_imputer,
            visible,
            max(recipe.imputed.random for recipe in inputs.recipes),
            seeds.derive_seed(seed, "asked"),
        ),
        _sample_completions(
            fitted_imputer,
            visible,
            _N_TRAINING_COMPLETIONS if any(recipe.references == "in and out" for recipe in inputs.recipes) else 0,
            seeds.derive_seed(seed, "lessons"),
        ),
        float(known_mask.mean()),
    )
    completed = replace(
        inputs,
        candidates=best_completion[layout.candidate_rows].with_ids(inputs.candidates.ids),
        calibration=best_completion[layout.calibration_rows],
        warnings=(*inputs.warnings, *fitted_imputer.warnings),
    )
    return completed, partial_knowledge


def _sample_completions(
    imputer: completion.FittedImputer, visible: PartialRecords, n_draws: int, seed: int
) -> tuple[Records, ...]:
    if not n_draws:
        return ()
    return tuple(Records(x, visible.y) for x in imputer.sample(visible, n_draws, seed))


def _check_disjoint(visible: PartialRecords, layout: Layout, population: Floats) -> None:
    """Check that the population holds no candidates, which would complete themselves.

    Rows of a table may agree in few known values by coincidence; how often they do shows in the calibration
    records, which are masked alike and surely not in the population.
    """
    agrees = completion.overlap(visible, population)
    candidate_matches, calibration_matches = agrees[layout.candidate_rows], agrees[layout.calibration_rows]
    expected_share = (calibration_matches.sum() + 1) / (len(calibration_matches) + 1)
    if (
        candidate_matches.any()
        and stats.binom.sf(candidate_matches.sum() - 1, len(candidate_matches), expected_share) < _COINCIDENCE_LEVEL
    ):
        raise InputError(
            f"population: {candidate_matches.sum()} of {len(candidate_matches)} candidates agree with a population "
            f"record in every known value (among {len(calibration_matches)} records set aside, "
            f"{calibration_matches.sum()} do); the population must not contain candidates"
        )
