"""Everything a user can get wrong, found before any work starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from divulge import completion, evaluation, seeds
from divulge import recipes as book
from divulge.attacks import adapt
from divulge.auditing import comparability
from divulge.errors import InputError
from divulge.evidence import Layout, concatenate_records
from divulge.references import FineTune, Train
from divulge.report import in_words
from divulge.request import Duplicates
from divulge.statistics.duplicates import first_of_each_group, groups_are_split_whole, number_digests, number_groups
from divulge.targets import GivesLogits, GivesTokens
from divulge.types import PartialRecords, Records
from divulge.validation import as_list, check_choice, check_integer, check_labels, check_mask, check_number, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.columns import TableEncoder
    from divulge.recipes import Recipe
    from divulge.request import AuditData, AuditOptions
    from divulge.targets import GivesLabels
    from divulge.types import Array, Bools, Ints

    Sets = Mapping[str, Records]

_N_PROBED = 64  # candidates that show what the target's outputs are


@dataclass(frozen=True, slots=True, eq=False)
class AuditInputs:
    """What an audit works on, checked.

    Args:
        candidates: members, then non-members.
        truth: bool ``[n]``, True for members.
        calibration: part of the population that nothing is trained on; it is scored as the candidates are.
        population: the rest: reference models and regressors learn from it.
        recipes: what to run.
        unseen_classes: classes the auditor holds no records of.
        warnings: what had to be mended.
        duplicates: number of records that stood in more than one set.
        groups: a subgroup's name for each candidate, or None.
        known: bool, the candidates' shape, True where a value is known; None where whole records are.
        covariates: columns that the user names, of each candidate; None where none are named.
        duplicate_groups: which candidates are equal, where equal ones count once; None where each counts.
    """

    candidates: Records
    truth: Bools
    calibration: Records
    population: Records
    recipes: tuple[Recipe, ...]
    unseen_classes: tuple[int, ...]
    warnings: tuple[str, ...]
    duplicates: int
    groups: Array | None
    known: Bools | None = None
    covariates: Mapping[str, Array] | None = None
    duplicate_groups: Ints | None = None

    @property
    def layout(self) -> Layout:
        """How many records of each kind there are, and where."""
        return Layout(len(self.candidates), len(self.calibration), len(self.population))

    @property
    def everything(self) -> Records:
        """All records, in the order of the layout."""
        return concatenate_records([self.candidates, self.calibration, self.population])


def check_inputs(subject: AuditData, options: AuditOptions, *, documents: bool = False) -> AuditInputs:
    """`Inputs` from what the user handed in; ``documents`` where the target is a language model.

    Raises:
        divulge.InputError: see `divulge.audit`.
    """
    check_choice(options.duplicates, "duplicates", get_args(Duplicates))
    check_number(options.calibration, "calibration", above=0, below=1)
    seed = check_integer(options.seed, "seed", least=0)
    levels, classes = as_list(options.fpr, "fpr"), as_list(subject.unseen_classes, "unseen_classes")
    if not levels:
        raise InputError("fpr: at least 1 level is needed, got none")
    wanted = _resolve_recipes(options.recipes, options.references, seed, documents=documents)
    members, nonmembers, population = subject.members, subject.nonmembers, subject.population
    if population is None:
        raise InputError(
            "population: additional records known not to be in the training set are needed, for reference models "
            "and calibration"
        )
    for name, given in (("members", members), ("nonmembers", nonmembers), ("population", population)):
        if not isinstance(given, Records):
            raise InputError(
                f"{name}: divulge.Records is needed, got {type(given).__name__}; divulge.Records(x, y) makes them of "
                "arrays, tensors, lists or columns, divulge.from_pairs(dataset) of a torch data set"
            )
    names = None if subject.groups is None else to_numpy(subject.groups, "groups")
    if names is not None and names.shape != (len(members) + len(nonmembers),):
        raise InputError(
            f"groups: {len(members) + len(nonmembers)} names are needed (members, then non-members), got shape "
            f"{names.shape}"
        )
    columns = comparability.check_covariates(subject.covariates, len(members) + len(nonmembers))
    sets = {"members": members, "nonmembers": nonmembers, "population": population}
    if documents:
        check_documents(sets)
    check_record_sets(sets, wanted)
    _check_texts_trainable(wanted, options.references, members)
    masks = _check_known(subject.known, wanted, sets, seed)
    separated = separate_sets(sets, options.duplicates)
    members, nonmembers, population = separated.members, separated.nonmembers, separated.population
    unseen = _check_unseen_classes(classes, members, nonmembers, population, wanted)
    outside = len(nonmembers)
    if separated.groups is not None:
        outside = len(np.unique(separated.groups[len(members) :]))
    for level in levels:
        _check_fpr_level(level, outside, "" if separated.groups is None else "distinct ")
    notes = [*separated.notes, *_unseen_class_warnings(unseen, levels, members, nonmembers), *_id_warnings(sets)]
    named = _with_ids(members, nonmembers)
    # Where copies of candidates are kept in what is learned from, copies of calibration records are, too.
    apart = separated.duplicates == 0 or options.duplicates == "drop"
    learned, held = _split_population(population, options.calibration, seed, apart=apart)
    return AuditInputs(
        candidates=named,
        truth=np.arange(len(named)) < len(members),
        calibration=population[held],
        population=population[learned],
        recipes=wanted,
        unseen_classes=unseen,
        warnings=tuple(notes),
        duplicates=separated.duplicates,
        groups=None if names is None else names.astype(str)[separated.kept],
        known=None if masks is None else masks[separated.kept],
        covariates=None if columns is None else {name: own[separated.kept] for name, own in columns.items()},
        duplicate_groups=separated.groups,
    )


def check_label_recipes(recipes: Sequence[Recipe]) -> None:
    """Pass if all recipes can do with a target that gives labels alone.

    Raises:
        divulge.InputError: one reads logits, or trains models on them.
    """
    usable = [recipe.name for recipe in book.label_recipes()]
    if short := [recipe.name for recipe in recipes if recipe.needs_logits]:
        raise InputError(
            f"target: it gives labels alone, but {', '.join(short)} read logits; what labels are enough for: "
            f"{', '.join(usable)}"
        )


def count_classes(target: GivesLogits | GivesLabels | GivesTokens, given: AuditInputs) -> int:
    """Width of the target's output, 0 for a language model; of labels alone, as far as they show.

    Every label must fit it, and outputs that are not as declared are refused here.
    """
    if isinstance(target, GivesTokens) and not isinstance(target, GivesLogits):
        return 0
    if not isinstance(target, GivesLogits):
        told = [target.labels(given.candidates[:_N_PROBED])]
        told += [records.y for records in (given.candidates, given.population) if records.y is not None]
        return 1 + max(int(labels.max()) for labels in told)
    width = target.logits(given.candidates[:_N_PROBED]).shape[1]
    for records, name in ((given.candidates, "members, nonmembers"), (given.population, "population")):
        if records.y is not None:
            check_labels(records.y, f"{name}: y", classes=width)
    return width


def _resolve_recipes(recipes: Sequence[Any], references: object, seed: int, *, documents: bool) -> tuple[Recipe, ...]:
    recipes = as_list(recipes, "recipes")
    if not recipes:
        raise InputError("recipes: at least 1 name is needed, got none")
    if references is not None and not callable(getattr(references, "fit", None)):
        raise InputError(f"references: divulge.references.Train or Custom is needed, got {type(references).__name__}")
    resolved = tuple(_resolve_recipe(wanted, seed, documents=documents) for wanted in recipes)
    _check_model_type(resolved, references, documents=documents)
    names = [recipe.name for recipe in resolved]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise InputError(f"recipes: each may be named once, got {', '.join(sorted(repeated))} more than once")
    needing = [recipe.name for recipe in resolved if recipe.needs_training]
    if active := [
        recipe.name for recipe in resolved if recipe.references != "none" and not isinstance(recipe.signal, str)
    ]:
        raise InputError(
            f"recipes: {', '.join(active)}: an active signal is measured on the target alone, so its attack can "
            "have no reference models"
        )
    if needing and references is None:
        raise InputError(
            f"references: the recipes {', '.join(needing)} need reference models; give references=divulge.references."
            + ("FineTune(base, count=4, epochs=…)" if documents else "Train(make_model, count=16, epochs=…)")
        )
    _check_reference_count(resolved, getattr(references, "count", None))
    return resolved


def _resolve_recipe(wanted: object, seed: int, *, documents: bool) -> Recipe:
    """The recipe with the run's seed; one handed in as an object keeps the seed its owner gave it."""
    recipe = book.resolve(wanted, documents=documents)
    return book.seeded(recipe, seed) if isinstance(wanted, str) else recipe


def _check_model_type(recipes: Sequence[Recipe], references: object, *, documents: bool) -> None:
    """Signals of classifiers are not a language model's, nor the other way round; their reference models neither."""
    kind = "a language model" if documents else "a classifier"
    if odd := [r.name for r in recipes if isinstance(r.signal, str) and r.of_documents != documents]:
        raise InputError(f"recipes: {', '.join(odd)} read other signals than those of {kind}, the target")
    if references is not None and isinstance(references, FineTune) != documents:
        wanted = "FineTune" if documents else "Train or Custom"
        raise InputError(
            f"references: the target is {kind}: divulge.references.{wanted} is needed, got {type(references).__name__}"
        )


def _check_texts_trainable(recipes: Sequence[Recipe], references: object, members: Records) -> None:
    """Networks learn from numbers; what else a user's own function trains may learn from texts."""
    if isinstance(references, Train) and members.x.dtype == object and any(r.needs_training for r in recipes):
        raise InputError(
            "references: Train makes networks, which learn from numbers, and the records are texts; give "
            "references=divulge.references.Custom(train), whose function may train any classifier of texts"
        )


def _check_reference_count(recipes: Sequence[Recipe], count: int | None) -> None:
    trained = [recipe for recipe in recipes if recipe.references != "base"]
    least = {recipe.name: adapt(recipe.attack).least_references for recipe in trained}
    if count is None or not (short := [name for name, fewest in least.items() if fewest > count]):
        return
    raise InputError(
        f"references: the recipes {', '.join(short)} need at least {max(least.values())} reference models, got "
        f"count={count}"
    )


def _check_unseen_classes(
    classes: Sequence[int], members: Records, nonmembers: Records, population: Records, recipes: Sequence[Recipe]
) -> tuple[int, ...]:
    if not len(classes):
        return ()
    if members.y is None or nonmembers.y is None or population.y is None:
        raise InputError(f"unseen_classes: {tuple(classes)} needs labelled records, but there are no labels")
    wanted = tuple(sorted({check_integer(c, "unseen_classes", least=0) for c in classes}))
    present = set(np.unique(np.concatenate([members.y, nonmembers.y])).tolist())
    if absent := [c for c in wanted if c not in present]:
        raise InputError(
            f"unseen_classes: {absent[0]} is not among the candidates' classes {sorted(present)}; nothing to audit"
        )
    for name, records in (("members", members.y), ("nonmembers", nonmembers.y)):
        if not np.isin(records, wanted).any():
            raise InputError(
                f"unseen_classes: no record of {list(wanted)} is among the {name}; auditing them needs members and "
                "non-members"
            )
    if present | set(np.unique(population.y).tolist()) <= set(wanted):
        raise InputError(
            f"unseen_classes: all classes {list(wanted)} are unseen; the auditor must hold at least one to learn from"
        )
    held = {c: int((population.y == c).sum()) for c in wanted}
    if any(held.values()):
        listed = ", ".join(
            f"{count} records of class {in_words.class_name(c, population.class_names)}"
            for c, count in held.items()
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
    return wanted


def _unseen_class_warnings(
    classes: Sequence[int], fpr: Sequence[float], members: Records, nonmembers: Records
) -> list[str]:
    """What cannot be said of the unseen classes, and what could have been seen there all the same."""
    if not classes or members.y is None or nonmembers.y is None:
        return []
    inside, outside = (int(np.isin(labels, classes).sum()) for labels in (members.y, nonmembers.y))
    level = min(fpr)
    if outside >= (least := evaluation.min_nonmembers(level)):
        return []
    power = evaluation.smallest_detectable(inside, outside, max(fpr))
    return [
        f"fpr: {level:g} needs at least {least} non-members of the {in_words.classes(classes)}, got {outside} (and "
        f"{inside} members), so no TPR is reported there at this level; what a single test can detect there: {power}"
    ]


def _check_known(known: Any, recipes: Sequence[Recipe], sets: dict[str, Records], seed: int) -> Bools | None:
    """Which values of members, then non-members, are known; None where nothing was said of it."""
    if known is None:
        if needing := [recipe.name for recipe in recipes if recipe.needs_known]:
            raise InputError(
                f"known: the recipes {', '.join(needing)} are for records of which only part is known; say which part "
                "(known=mask), or name recipes for whole records"
            )
        return None
    members, nonmembers = sets["members"], sets["nonmembers"]
    if members.x.dtype == object:
        raise InputError("known: partial knowledge needs numeric records, got text")
    n = len(members) + len(nonmembers)
    if members.encoder is not None and not members.encoder.is_plain:
        return _check_known_columns(known, members.encoder, n, seed)
    shape = (n, *members.x.shape[1:])
    if isinstance(known, str):
        names = () if members.encoder is None else members.encoder.names
        known = completion.mask(known, shape[1:], columns=names, seed=seed)
    masks = check_mask(known, "known", shape)
    PartialRecords(np.zeros(shape), None, masks)
    return masks


def _check_known_columns(known: Any, encoder: TableEncoder, n: int, seed: int) -> Bools:
    """Which values of the encoding are known, where the user says which columns of a table are."""
    if free := [column.name for column in encoder.columns if column.measure == "text"]:
        raise InputError(
            f"known: partial knowledge needs numbers, categories and dates; column {free[0]!r} holds free text"
        )
    if isinstance(known, str):
        known = completion.mask(known, (len(encoder.names),), columns=encoder.names, seed=seed)
    masks = check_mask(known, "known", (n, len(encoder.names)))
    PartialRecords(np.zeros(masks.shape), None, masks)
    return np.repeat(masks, [column.width for column in encoder.columns], axis=1)


def _check_fpr_level(fpr: float, nonmembers: int, what: str) -> None:
    check_number(fpr, "fpr", above=0, below=1)
    if nonmembers < (least := evaluation.min_nonmembers(fpr)):
        raise InputError(
            f"fpr: {fpr:g} needs at least {least} {what}non-members, got {nonmembers}; use a larger level or more "
            "non-members"
        )


def _id_warnings(sets: dict[str, Records]) -> list[str]:
    """A warning where only one of the two sets of candidates has ids: such ids are not used."""
    with_ids = [name for name in ("members", "nonmembers") if sets[name].ids is not None]
    if len(with_ids) != 1:
        return []
    return [f"only {with_ids[0]} have ids; the report names candidates by set and row instead"]


def _with_ids(members: Records, nonmembers: Records) -> Records:
    """Members, then non-members, with an id each."""
    both = concatenate_records([members, nonmembers])
    if both.ids is not None:
        return both
    names = [f"member-{i}" for i in range(len(members))] + [f"nonmember-{i}" for i in range(len(nonmembers))]
    return both.with_ids(np.array(names))


def _split_population(population: Records, share: float, seed: int, *, apart: bool) -> tuple[Array, Array]:
    """Rows to learn from and rows to calibrate with; equal records keep together where they are to stay ``apart``.

    Of equal calibration records one is used: the others are no further observations.
    """
    n = len(population)
    held = max(1, round(share * n))
    if n - held < 2:
        raise InputError(
            f"population: at least 2 records are needed beyond those set aside, got {n} of which {held} are set aside "
            f"(calibration={share:g})"
        )
    order = seeds.generator(seed, "calibration").permutation(n)
    calibrates = np.zeros(n, dtype=bool)
    calibrates[order[:held]] = True
    if not apart:
        return np.flatnonzero(~calibrates), np.flatnonzero(calibrates)
    groups = number_groups(population.x, population.y)
    if groups[-1] == groups.max() == n - 1:
        return np.flatnonzero(~calibrates), np.flatnonzero(calibrates)
    first = first_of_each_group(groups, np.zeros(n))
    together = (calibrates & first)[np.flatnonzero(first)[groups]]
    learned, kept = np.flatnonzero(~together), np.flatnonzero(together & first)
    if len(learned) < 2 or not len(kept):
        raise InputError(
            f"population: {int(first.sum())} distinct records are too few to learn from some and calibrate with others"
        )
    return learned, kept


def check_record_sets(sets: Sets, recipes: Sequence[Recipe]) -> None:
    """Raise where members, non-members and population do not go together, or lack what the recipes read.

    Raises:
        divulge.InputError: other shapes, labels or kinds of ids; an id in two sets; labels that are missing, or one.
    """
    _check_same_shape(sets)
    _check_id_types(sets)
    _check_distinct_ids(sets)
    _check_labels_present(sets, recipes)
    _check_numeric(sets, recipes)
    _check_several_classes(sets)


def check_documents(sets: Sets) -> None:
    """Raise where records are no documents, or empty ones.

    Raises:
        divulge.InputError: numbers in place of texts; a text without a visible character.
    """
    for name, records in sets.items():
        if records.x.dtype != object:
            texts = [] if records.encoder is None else [
                column.name for column in records.encoder.columns if column.measure in ("text", "category")
            ]  # fmt: skip
            instead = f"; name the column of the documents as data.text (it may be {texts[0]!r})" if texts else ""
            raise InputError(
                f"{name}: the target is a language model, so documents (strings) are needed, got "
                f"{records.x.dtype}{instead}"
            )
        empty = [row for row, text in enumerate(records.x) if not text.strip()]
        if empty:
            raise InputError(f"{name}: {len(empty)} documents are empty (first: row {empty[0]}); leave them out")


def _check_same_shape(sets: Sets) -> None:
    shapes = {name: records.x.shape[1:] for name, records in sets.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"records: all sets must have the same shape, got {listed}")
    labelled = {name: records.y is not None for name, records in sets.items()}
    if len(set(labelled.values())) > 1:
        without = ", ".join(name for name, has in labelled.items() if not has)
        raise InputError(f"records: every set must have labels, or none; {without} has none")


def _check_id_types(sets: Sets) -> None:
    """Ids go into a Parquet file and are compared between the sets."""
    kinds = {}
    for name, records in sets.items():
        if records.ids is None:
            continue
        kind = records.ids.dtype.kind
        kinds[name] = (
            "strings" if kind == "U" or all(isinstance(one, str) for one in records.ids) else records.ids.dtype.name
        )
        if kinds[name] == "object":
            raise InputError(f"{name}: ids must be strings or whole numbers of at most 64 bits")
    if "strings" in kinds.values() and len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise InputError(f"records: ids of all sets must be of the same kind, got {listed}")


def _check_distinct_ids(sets: Sets) -> None:
    for first, second in (("members", "nonmembers"), ("members", "population"), ("nonmembers", "population")):
        ids, others = sets[first].ids, sets[second].ids
        shared = np.array([]) if ids is None or others is None else np.intersect1d(ids, others)
        if shared.size:
            raise InputError(
                f"{first}, {second}: {len(shared)} ids occur in both sets (first: {shared.tolist()[0]!r}); "
                "a record can be in only one of them"
            )


def _check_labels_present(sets: Sets, recipes: Sequence[Recipe]) -> None:
    needing = [recipe.name for recipe in recipes if recipe.needs_labels]
    if needing and sets["members"].y is None:
        usable = [recipe.name for recipe in book.recipes() if not recipe.needs_labels]
        raise InputError(
            f"recipes: {', '.join(needing)} read the records' labels, but there are none; "
            f"without labels use {', '.join(usable)}"
        )


def _check_numeric(sets: Sets, recipes: Sequence[Recipe]) -> None:
    needing = [recipe.name for recipe in recipes if recipe.needs_numbers]
    if needing and sets["members"].x.dtype == object:
        raise InputError(
            f"recipes: {', '.join(needing)} move records a little, which numbers allow and texts do not; of texts use "
            "correct, correct-calibrated, transfer, or recipes that read the target's outputs"
        )


def _check_several_classes(sets: Sets) -> None:
    labels = [records.y for records in sets.values() if records.y is not None]
    if labels and len(classes := np.unique(np.concatenate(labels))) < 2:
        raise InputError(
            f"records: all labels are {classes[0]}; with a single class, a classifier's output carries no information"
        )


_MAX_LISTED = 3  # rows that a message shows


@dataclass(frozen=True, slots=True, eq=False)
class SeparatedSets:
    """The sets without what stood in several of them.

    Args:
        members: what remains of them.
        nonmembers: likewise.
        population: likewise.
        kept: which candidates (members, then non-members) remain, ``[n]``.
        duplicates: number of records that stood in more than one set.
        notes: what was done about it.
        groups: number of the distinct record that each remaining candidate is, where copies keep together and a group
            is one observation; None where each record is one.
    """

    members: Records
    nonmembers: Records
    population: Records
    kept: Bools
    duplicates: int = 0
    notes: tuple[str, ...] = ()
    groups: Ints | None = None


def separate_sets(sets: Mapping[str, Records], policy: Duplicates) -> SeparatedSets:
    """Exact duplicates across the sets make the truth untrue: refuse, drop or (knowingly) keep them.

    Duplicates within a set are judged by how they fell. Where whole groups of equal records are in one set more often
    than a random deal of records would put them there, they belong together: they stay, and each group counts once.
    Where records were dealt out one by one, the groups that happen to be in one set are more frequent the larger the
    set; "drop" then takes these out as well, or the sets would differ by it.

    Raises:
        divulge.InputError: there are some and the policy is "error"; nothing is left without them.
    """
    members, nonmembers, population = sets["members"], sets["nonmembers"], sets["population"]
    everything = concatenate_records([members, nonmembers, population])
    digests = everything.digests()
    values, copies = number_digests(digests), number_digests(digests, everything.y)
    origin = np.repeat([0, 1, 2], [len(members), len(nonmembers), len(population)])
    among_members, among_nonmembers, among_population = (np.isin(values, values[origin == at]) for at in range(3))
    candidates = origin < 2
    outside = among_members[origin == 1]
    held = (among_members | among_nonmembers)[origin == 2]
    count = int(outside.sum() + held.sum())
    kept = np.ones(int(candidates.sum()), dtype=bool)
    together = groups_are_split_whole(copies, origin)
    groups = copies[candidates] if together else None
    if not count:
        return SeparatedSets(
            members, nonmembers, population, kept, notes=_repetition_notes(groups, origin), groups=groups
        )
    counts = []
    if outside.any():
        counts.append(f"{int(outside.sum())} non-members are exact duplicates of members")
    if held.any():
        counts.append(f"{int(held.sum())} population records are exact duplicates of candidates")
    where = " and ".join(counts)
    if policy == "error":
        rows, whose = (outside, "non-member") if outside.any() else (held, "population")
        shown = ", ".join(map(str, np.flatnonzero(rows)[:_MAX_LISTED])) + ("…" if rows.sum() > _MAX_LISTED else "")
        raise InputError(
            f"duplicates: {where} ({whose} rows [{shown}]); a record cannot be both: remove them, or pass "
            "duplicates='drop' or 'keep'"
        )
    if policy == "keep":
        note = f"{where}; they were kept, which biases every number towards no leak"
        return SeparatedSets(
            members, nonmembers, population, kept, count, (note, *_repetition_notes(groups, origin)), groups
        )
    # Out of every set, or the sets would differ by what was taken out of them.
    kept &= ~among_population[candidates] & ~(among_members & among_nonmembers)[candidates]
    further = ""
    if not together:
        repeated = np.bincount(values)[values] > 1
        dealt = repeated & np.append(kept, ~held)
        kept, held = kept & ~repeated[: len(kept)], held | repeated[len(kept) :]
        if dealt.any():
            further = f", and {in_words.several(int(dealt.sum()), 'record')} with copies in their own set alone"
    inside, others = kept[: len(members)], kept[len(members) :]
    if not (inside.any() and others.any() and (~held).any()):
        raise InputError(f"duplicates: {where}; nothing is left after dropping them")
    note = f"{where}; all copies were dropped from every set{further}"
    left = None if groups is None else groups[kept]
    notes = (note, *_repetition_notes(left, origin[: len(kept)][kept]))
    return SeparatedSets(members[inside], nonmembers[others], population[~held], kept, count, notes, left)


def _repetition_notes(groups: Ints | None, origin: Ints) -> tuple[str, ...]:
    """Say how many candidates are copies that do not count again."""
    if groups is None:
        return ()
    surplus = len(groups) - len(np.unique(np.column_stack([groups, origin[: len(groups)]]), axis=0))
    if not surplus:
        return ()
    copies = in_words.several(surplus, "candidate")
    return (f"{copies} repeat another record of the same set; equal records count once in every estimate",)
