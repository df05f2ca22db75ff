"""Which of these records were used? Candidates of unknown membership, asked of a model rather than of finished scores.

Candidates are scored as an audit scores its records, in the same calls as records of the population that no attack
learns from. Nothing learns which records are candidates: known members say how well a list finds them, and no more.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from divulge import chats, columns, identification, provenance, seeds, statistics
from divulge.auditing import pipeline
from divulge.auditing.inputs import split_population
from divulge.auditing.prepared import AuditLog, name_model
from divulge.decisions import fdp
from divulge.decisions.controls import Control
from divulge.decisions.fdr import required_calibration
from divulge.decisions.methods import AdaDetect, Auto, resolve_method
from divulge.duplicates import groups_are_split_whole, match_records, number_pairs
from divulge.errors import InputError
from divulge.evaluation import blind
from divulge.identification import from_tables
from divulge.identification.decision import BLIND_RECORDS, CLASSES, LEVEL, METHODS, UNSEEN_CLASSES, Policy
from divulge.identification.finished_run import RUN_TYPE
from divulge.identification.from_arrays import format_rows, select
from divulge.identification.score_adjustment import ScoreSets
from divulge.identification.score_tables import Columns, Score
from divulge.references.progress import check_progress, show_progress
from divulge.report.formatting import class_name, format_count, format_estimate
from divulge.run_directory import RunDirectory, RunDraft, check_out
from divulge.settings import ResolvedAuditSettings, SearchSettings
from divulge.types import AuditData, Records, Selection
from divulge.validation import as_list, check_instance, check_path, to_numpy

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from divulge.auditing.prepared import Forecast, PreparedAudit
    from divulge.references.progress import ProgressSetting
    from divulge.settings import Duplicates, Outputs, UnknownClasses
    from divulge.targets import Task
    from divulge.types import Array, Bools, Estimate, Floats, Ints

_DEFAULTS = SearchSettings()
_OPTIONS = ResolvedAuditSettings()
_LACKS = "it holds no record of the"  # a warning of an audit, where classes are not named as unseen


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class CandidateSelection(Selection):
    """The candidates that were used, and the scores that say so.

    Args:
        ids: of the candidates, ``[n]``: the user's, or the numbers of their rows.
        scores: recipe → scores of the candidates ``[n]``, larger = more member-like; NaN of those that were left out.
        calibration: recipe → scores of the population's records that were set aside, ``[k]``.
        known_members: recipe → AUC of known members against these; empty where none are known.
        power: share of the known members that score as high as the list does; None without any, or without a list.
        by_class: unseen class → the list of its candidates, which are on no other; empty if all are decided together.
        is_counted: bool ``[n]``, one of each candidates that are equal, of those that the list is about.
    """

    ids: Array
    scores: Mapping[str, Floats]
    calibration: Mapping[str, Floats]
    known_members: Mapping[str, Estimate] = field(default_factory=dict)
    power: Estimate | None = None
    by_class: Mapping[str, Selection] = field(default_factory=dict)
    is_counted: Array | None = None

    def envelope(self, confidence: float = 0.95) -> fdp.Envelope:
        """Bound the non-members among the best candidates by the first recipe, for every number of them at once.

        Equal candidates count once, and those of lists by class are left out. The bounds stand as the guarantee does.
        """
        scores, calibration = (next(iter(side.values())) for side in (self.scores, self.calibration))
        counted = np.isfinite(scores) if self.is_counted is None else self.is_counted
        bounds = fdp.envelope(calibration, scores[counted], confidence=confidence)
        return replace(bounds, guarantee=bounds.guarantee.capped_at(self.guarantee.standing))


def identify(candidates: object, calibration: object = None, *, target: Any = None, **options: Any) -> Selection:
    """Select candidates that were used for training, with the false discovery rate bounded by ``fdr``.

    Of scores: ``identify(candidates, calibration, fdr=0.05, …)``, see `divulge.identification.identify`. Of records and
    a model: ``identify(candidates=Records, target=model, population=Records, …)``, see `identify_records`.

    Raises:
        divulge.InputError: as these.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> identify(rng.normal(3, 1, 100), rng.normal(size=500), fdr=0.1).count > 50
        True
    """
    if target is None:
        if isinstance(candidates, Records) or "population" in options:
            raise InputError("target: the model that is asked about the candidates is needed, as they are records")
        return identification.identify(candidates, calibration, **options)
    if isinstance(calibration, int | float):  # a share
        options["calibration"] = calibration
    elif calibration is not None:
        raise InputError(
            "calibration: a target is asked about records; give the records that it was not trained on as population"
        )
    return identify_records(target, candidates, **options)


def identify_records(
    target: Any,
    candidates: Any,
    *,
    population: Any = None,
    members: Any = None,
    holdout: Any = None,
    recipes: Sequence[Any] = _DEFAULTS.recipes,
    references: Any = _OPTIONS.references,
    unseen_classes: Sequence[int | str] = (),
    known: Any = None,
    features: Any = None,
    imputer: Any = None,
    calibration: float = _DEFAULTS.calibration,
    duplicates: Duplicates = _OPTIONS.duplicates,
    outputs: Outputs = _OPTIONS.outputs,
    task: Task = _OPTIONS.task,
    unknown_classes: UnknownClasses = _OPTIONS.unknown_classes,
    device: str = _OPTIONS.device,
    calls: int = _OPTIONS.calls,
    fdr: float = _DEFAULTS.fdr,
    method: Any = _DEFAULTS.method,
    eta: float = _DEFAULTS.eta,
    lam: float = _DEFAULTS.lam,
    by: str | None = _DEFAULTS.by,
    seed: int = _DEFAULTS.seed,
    show_records: bool = _DEFAULTS.show_records,
    progress: ProgressSetting = "auto",
    pool: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> CandidateSelection:
    """Select the records that a model was trained on, of which nobody says whether they were.

    Candidates and a part of the population (``calibration``) are scored in the same calls; what attacks learn from,
    they learn from the rest. A score is compared with those of that part, and the false discovery rate is bounded as
    for finished scores, if candidates that were not used are like the population. Whether a classifier without the
    model can tell the two sets apart is tested, and raises doubt.

    Args:
        target: as for `divulge.audit`.
        candidates: the records in question. Equal ones count once.
        population: records of the same kind that the target was not trained on.
        members: records that it is known to be trained on. How many of them would be on the list, and how far they
            score above the population, is said; of one recipe they improve the estimate of ``usage``. What is selected
            never depends on their membership.
        holdout: further records that it was not trained on: whether they score as the population does is tested.
        recipes: as for `divulge.audit`; of several, one score is learned.
        references: as for `divulge.audit`; they are trained on the population's rest alone, or by online recipes on
            random halves of all records.
        unseen_classes: classes of candidates of which the population holds no records; see ``by``.
        known: which values of a candidate are known, as for `divulge.audit`: a mask of one record's shape or with one
            mask for each candidate, or words such as "share:0.4".
        features: as for `divulge.audit`; a mapping has a key for each set of records.
        imputer: as for `divulge.audit`.
        calibration: share of the population that scores are compared with.
        duplicates: what to do about records that stand in several sets: "error" or "drop".
        outputs: as for `divulge.audit`.
        task: as for `divulge.audit`.
        unknown_classes: as for `divulge.audit`.
        device: as for `divulge.audit`.
        calls: as for `divulge.audit`.
        fdr: bound on the expected share of records that were not used among those selected.
        method: as for `divulge.identification.identify`.
        eta: likewise.
        lam: likewise.
        by: "class" gives each unseen class a list of its own, for which nothing is promised, beside that of the other
            classes, whose bound holds; None: one list of all, which promises nothing where a class is unseen.
        seed: of every random draw.
        show_records: whether the highest candidates may be stored and shown in the report.
        progress: as for `divulge.audit`.
        pool: as for `divulge.audit`.
        out: run directory to write, as `divulge identify` writes it; nothing is written when None.
        overwrite: replace a finished run in ``out``.

    Raises:
        divulge.InputError: as `divulge.audit`; records that stand in several sets; too few of the population for the
            level; an unseen class that the population holds or the candidates lack.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(900, 5)), rng.integers(0, 2, 900)
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> target = KNeighborsClassifier(2).fit(x[:100], y[:100])
        >>> found = identify_records(
        ...     target, Records(x[:200], y[:200]), population=Records(x[200:600], y[200:600]),
        ...     holdout=Records(x[600:], y[600:]), recipes=["loss"], fdr=0.2,
        ... )
        >>> print(found.guarantee)
        FDR ≤ 0.2, assuming non-member candidates are exchangeable with the calibration records
    """
    question = _check_question(
        {"candidates": candidates, "population": population, "members": members, "holdout": holdout},
        unseen_classes,
        known,
        features,
        SearchSettings.check(
            recipes=recipes, calibration=calibration, fdr=fdr, method=method, eta=eta, lam=lam, by=by, seed=seed,
            show_records=show_records,
        ),
        _check_options(
            recipes=recipes, references=references, imputer=imputer, duplicates=duplicates, outputs=outputs,
            task=task, unknown_classes=unknown_classes, device=device, calls=calls, seed=seed,
        ),
    )  # fmt: skip
    settings, policy, rows, classes = question.settings, question.policy, question.rows, question.classes
    pool_folder = None if pool is None else check_path(pool, "pool")
    out_folder = check_out(out, overwrite=overwrite)
    writing = contextlib.nullcontext() if out_folder is None else _open_run(out_folder, overwrite=overwrite)
    with writing as draft:
        if draft is not None and pool_folder is None:
            pool_folder = draft.home / "pool"  # reference models that were finished outlive an interruption
        scored = _score_sets(target, question, progress, pool_folder)
        kept, scores = scored.candidate_rows, scored.scores
        is_seen_class = classes[kept] == ""
        compared = _compare_records(scored, is_seen_class, settings.seed)
        lists = _divide_candidates(classes[kept], (compared, *question.doubts), by)
        selections = {
            name: select(
                _as_score_sets(scores, mask), policy.method, settings.fdr, seed=settings.seed,
                further_controls=controls, scored_together=True,
            )
            for name, (mask, controls) in lists.items()
        }  # fmt: skip
        known_members, power, members_note = _assess_members(scores, selections[""].threshold)
        n_compared, n_left_out = len(scored.population), len(rows["candidates"]) - len(kept)
        recipe_names = ", ".join(scores["candidates"])
        notes = (
            f"candidates were scored by {recipe_names} of {name_model(scored.prepared.target)}; they are compared with "
            f"{n_compared:,} of {len(population):,} records of the population",
            *members_note,
            *question.notes,
            *(note for note in scored.notes if not (len(unseen_classes) and _LACKS in note)),
            *([f"{format_count(n_left_out, 'candidate')} left out, and not selected"] if n_left_out else []),
            *([] if selections[""].count else [f"{recipe_names} lists nothing; other recipes may see more"]),
        )

        def spread(values: Array, mask: Bools, left_out: Any) -> Array:
            """Return values of the distinct candidates of a list as values of all candidates."""
            filled = np.full(len(candidates), left_out, dtype=np.asarray(values).dtype)
            filled[kept[mask]] = values
            return filled[question.first_copies]

        answers = {
            name: replace(
                selection,
                selected=spread(selection.selected, lists[name][0], False),
                p_values=spread(selection.p_values, lists[name][0], 1.0),
                warnings=(*selection.warnings, *notes),
            )
            for name, selection in selections.items()
        }
        all_kept = np.ones(len(kept), dtype=bool)
        answer = CandidateSelection(
            **{field.name: getattr(answers[""], field.name) for field in fields(Selection)},
            ids=np.arange(len(candidates)) if candidates.ids is None else candidates.ids,
            scores={name: spread(values, all_kept, np.nan) for name, values in scores["candidates"].items()},
            calibration=scores["population"],
            known_members=known_members,
            power=power,
            by_class={name: answer for name, answer in answers.items() if name},
            is_counted=np.isin(np.arange(len(candidates)), kept[lists[""][0]]),
        )
        if draft is not None:
            tables = {name: pl.DataFrame(parts).with_row_index("id") for name, parts in scores.items()}
            tables["candidates"] = tables["candidates"].with_columns(id=pl.Series(answer.ids[kept].astype(str)))
            if settings.show_records:
                shown = pl.Series(_describe_records(candidates[kept]))
                tables["candidates"] = tables["candidates"].with_columns(record=shown)
                tables["population"] = tables["population"].with_columns(record=pl.lit(""))
            _write_run(draft, tables, lists, policy, settings, notes)
    return answer


def forecast_identification(target: Any, candidates: Any, **options: Any) -> Forecast:
    """Forecast `identify_records`; everything is checked as there, and ten records are scored.

    Args:
        target: as for `identify_records`.
        candidates: as for `identify_records`.
        options: its other arguments that decide what is scored.

    Raises:
        divulge.InputError: as `identify_records`, before work starts.
    """
    sets = {name: options.pop(name, None) for name in ("population", "members", "holdout")}
    rules = {name: options.pop(name) for name in SearchSettings.model_fields if name in options}
    shared = {name: rules[name] for name in ("recipes", "seed") if name in rules}
    options.pop("pool", None)
    question = _check_question(
        {"candidates": candidates} | sets,
        options.pop("unseen_classes", ()),
        options.pop("known", None),
        options.pop("features", None),
        SearchSettings.check(**rules),
        _check_options(**options | shared),
    )
    with _translate_errors():
        return pipeline.forecast(target, question.subject, question.options, asks_members=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """What is asked, after everything that needs no model has been checked.

    Args:
        settings: of the search.
        policy: level and method.
        options: of the audit that stands behind it.
        sets: name → records, of those that are given.
        rows: set → its rows that are used; of the population also those that are ``learned`` from and ``compared``.
        first_copies: row of the first copy of each candidate.
        classes: each candidate's class where it is unseen, else an empty text.
        doubts: about classes that nobody named as unseen.
        notes: what was left out.
        subject: what is audited.
    """

    settings: SearchSettings
    policy: Policy
    options: ResolvedAuditSettings
    sets: Mapping[str, Records]
    rows: Mapping[str, Ints]
    first_copies: Ints
    classes: Array
    doubts: tuple[Any, ...]
    notes: tuple[str, ...]
    subject: AuditData


def _check_options(**options: Any) -> ResolvedAuditSettings:
    """Check options of the audit: no threshold is asked for, so it sets aside as little as it can of the records."""
    return ResolvedAuditSettings.check(**options, fpr=(0.5,), calibration=1e-9)


def _check_question(
    given: Mapping[str, Any],
    unseen_classes: Sequence[int | str],
    known: Any,
    features: Any,
    settings: SearchSettings,
    options: ResolvedAuditSettings,
) -> _Question:
    policy = _choose_policy(settings)
    sets = _check_sets(given)
    rows, first_copies, notes = _separate_sets(sets, options.duplicates)
    candidates, population = sets["candidates"], sets["population"]
    classes, doubts = _find_unseen_classes(candidates, population, as_list(unseen_classes, "unseen_classes"))
    rows |= _split_off_calibration(population, rows["population"], settings)
    subject = _make_audit_data(sets, rows, known, features, settings.seed)
    return _Question(settings, policy, options, sets, rows, first_copies, classes, doubts, notes, subject)


def _open_run(out: Path, *, overwrite: bool) -> contextlib.AbstractContextManager[RunDraft]:
    return RunDirectory(out).writing(RUN_TYPE, "records", overwrite=overwrite)


def _make_audit_data(
    sets: Mapping[str, Records], rows: Mapping[str, Ints], known: Any, features: Any, seed: int
) -> AuditData:
    """Return the sets in the places of an audit's, with ids that count through all of them.

    An audit compares members with known non-members. Here all that is in question stands in the place of the one and
    all that is known to be unused in that of the other; nothing that follows from this difference is computed.
    """
    parts_by_place = {
        "members": [(name, rows[name]) for name in ("candidates", "members") if name in sets],
        "nonmembers": [
            ("population", rows["compared"]),
            *([("holdout", rows["holdout"])] if "holdout" in sets else []),
        ],
        "population": [("population", rows["learned"])],
    }
    numbered = {name: sets[name].with_ids(numbers) for name, numbers in _number_records(sets).items()}
    joined = {
        place: Records.concatenate([numbered[name][part_rows] for name, part_rows in parts])
        for place, parts in parts_by_place.items()
    }
    return AuditData(
        members=joined["members"],
        nonmembers=joined["nonmembers"],
        population=joined["population"],
        known=_extend_mask(known, sets["candidates"], parts_by_place, seed),
        features=_divide_features(features, parts_by_place),
    )


def _number_records(sets: Mapping[str, Records]) -> dict[str, Ints]:
    """Return numbers for the records of each set that count through all sets."""
    ends = np.cumsum([len(records) for records in sets.values()])
    return dict(zip(sets, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredSets:
    """What the target says of all sets.

    Args:
        prepared: the audit that stands behind it.
        candidate_rows: rows of the candidates that were scored, in the order of their scores.
        candidates: these records, as the target was asked about them.
        population: the records that they are compared with.
        scores: set → recipe → scores.
        notes: of the audit, in the words of this page.
    """

    prepared: PreparedAudit
    candidate_rows: Ints
    candidates: Records
    population: Records
    scores: Mapping[str, Mapping[str, Floats]]
    notes: tuple[str, ...]


def _score_sets(target: Any, question: _Question, progress: ProgressSetting, pool: Path | None) -> _ScoredSets:
    """Score all sets in the same calls."""
    with _translate_errors(), show_progress(check_progress(progress), "reference models") as report:
        prepared, _ = pipeline.prepare_audit(target, question.subject, question.options, report, pool)
        log = AuditLog()
        prepared, _, results = pipeline.score_records(prepared, log)
    inputs, scored_rows = prepared.inputs, prepared.layout.scored_rows
    scored_ids = np.concatenate(
        [np.asarray(part.ids, dtype=np.int64) for part in (inputs.candidates, inputs.calibration)]
    )
    places = {
        name: np.flatnonzero(np.isin(scored_ids, numbers)) for name, numbers in _number_records(question.sets).items()
    }
    records = prepared.views[0][scored_rows]
    return _ScoredSets(
        prepared,
        scored_ids[places["candidates"]],  # the candidates are the first set, so that their numbers are their rows
        records[places["candidates"]],
        records[places["population"]],
        {
            name: {recipe: result.scores[scored_rows][own_places] for recipe, result in results.items()}
            for name, own_places in places.items()
        },
        tuple(_translate(note) for note in (*inputs.warnings, *log.warnings)),
    )


def _choose_policy(settings: SearchSettings) -> Policy:
    """Return level and method, which must suit the number of recipes."""
    method = resolve_method(settings.method, METHODS, eta=settings.eta, lam=settings.lam)
    n_recipes = len(settings.recipes)
    if not isinstance(method, Auto) and isinstance(method, AdaDetect) != (n_recipes > 1):
        raise InputError(
            f"method: {method.name!r} does not go with {n_recipes} recipes; 'adadetect' learns one score from several, "
            "and all others decide on that of one"
        )
    return Policy(settings.fdr, method)


def _check_sets(sets: Mapping[str, Any]) -> dict[str, Records]:
    """Return the sets that there are; candidates and population must be among them, and no id in two."""
    for name in ("candidates", "population"):
        if sets[name] is None:
            raise InputError(f"{name}: records are needed, of the kind that the target was trained on")
    checked = {
        name: check_instance(records, name, Records, "divulge.Records")
        for name, records in sets.items()
        if records is not None
    }
    for (name, records), (other, other_records) in itertools.combinations(checked.items(), 2):
        shared = set(np.ravel(records.ids).tolist()) & set(np.ravel(other_records.ids).tolist()) - {None}
        if shared:
            raise InputError(
                f"{name}, {other}: {len(shared)} ids occur in both sets (first: {min(shared)!r}); a record can be in "
                "only one of them: leave it out of one, or name no column of ids"
            )
    return checked


def _separate_sets(sets: Mapping[str, Records], policy: Duplicates) -> tuple[dict[str, Ints], Ints, tuple[str, ...]]:
    """Return the rows of each set that are used, the row of the first copy of each candidate, and what was left out.

    Of equal records of a set one is used. Where records were dealt out to the sets one by one, whether copies met in
    one set is chance, and more frequent in a larger set: "drop" then leaves out all that repeat.

    Raises:
        divulge.InputError: a record in several sets, and the policy is not "drop"; nothing is left.
    """
    if policy == "keep":
        raise InputError("duplicates: 'error' or 'drop' are possible here, as a record cannot be used and not used")
    parts = list(sets.values())
    matches = match_records(sets, labelled=any(part.y is not None and part.labels is None for part in parts))
    values = np.concatenate(matches.groups)
    has_y = all(part.y is not None for part in parts)
    copies = number_pairs(values, np.concatenate([part.y for part in parts])) if has_y else values
    origin = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    n_sets = np.bincount(np.unique(np.column_stack([values, origin]), axis=0)[:, 0])
    is_shared = n_sets[values] > 1
    notes = list(matches.notes)
    if is_shared.any():
        counts = [f"{int(is_shared[origin == place].sum())} of the {name}" for place, name in enumerate(sets)]
        found = f"records that stand in several sets: {', '.join(counts)}"
        if policy == "error":
            first = np.flatnonzero(is_shared[origin == 1] if is_shared[origin == 1].any() else is_shared[origin == 0])
            raise InputError(
                f"population: {found} ({'population' if is_shared[origin == 1].any() else 'candidates'}: "
                f"{format_rows(first)}); none can be used and not used: remove them, or set "
                "duplicates to 'drop' (--drop-overlap)"
            )
        dealt_singly = not groups_are_split_whole(copies, origin)
        if dealt_singly:
            is_shared |= np.bincount(values)[values] > 1
        notes.append(f"{found}; they were left out{', and with them all that repeat' if dealt_singly else ''}")
    _, first_rows, numbers = np.unique(
        np.column_stack([copies, origin]), axis=0, return_index=True, return_inverse=True
    )
    is_used = np.zeros(len(values), dtype=bool)
    is_used[first_rows] = True
    is_used &= ~is_shared
    rows = {name: np.flatnonzero(is_used[origin == place]) for place, name in enumerate(sets)}
    rows["population"] = np.flatnonzero(~is_shared[origin == 1])  # copies stay together where it is divided
    if empty := next((name for name, at in rows.items() if not len(at)), ""):
        raise InputError(f"{empty}: every record stands in another set, too; nothing is left")
    if n_copies := int((~is_used & ~is_shared)[origin == 0].sum()):
        notes.append(
            f"{format_count(n_copies, 'candidate')} equal to another: each record counts once, and its copies are "
            "selected with it"
        )
    return rows, first_rows[np.ravel(numbers)[origin == 0]], tuple(notes)


def _find_unseen_classes(
    candidates: Records, population: Records, unseen: Sequence[Any]
) -> tuple[Array, tuple[Control, ...]]:
    """Return each candidate's class where it is unseen, else an empty text; also doubts about classes nobody named.

    Raises:
        divulge.InputError: an unseen class that the population holds, or that no candidate is of; no labels.
    """
    if candidates.labels is None or population.labels is None:
        if unseen:
            raise InputError(f"unseen_classes: {tuple(unseen)} needs labelled records, but there are no labels")
        return np.full(len(candidates), ""), ()
    own, known = (
        np.array([class_name(number, names) for number in labels.tolist()])
        for labels, names in (
            (candidates.labels, candidates.class_names),
            (population.labels, population.class_names),
        )
    )
    for name in map(str, unseen):
        if name in known:
            count = int((known == name).sum())
            raise InputError(
                f"unseen_classes: the population holds {count} records of class {name}, so the class is not unseen"
            )
        if name not in own:
            raise InputError(f"unseen_classes: no candidate is of class {name}")
    is_unseen = np.isin(own, list(map(str, unseen)))
    if is_unseen.all():
        raise InputError("unseen_classes: all candidates are of unseen classes; there is nothing to compare them with")
    _, codes = np.unique(np.concatenate([own, known]), return_inverse=True)
    missing = statistics.find_missing_classes(codes[: len(own)][~is_unseen], codes[len(own) :])
    names = sorted({own[np.flatnonzero(codes[: len(own)] == code)[0]] for code in missing.tolist()})
    doubts = [
        Control(CLASSES, 0.0, LEVEL, f"the population holds no record of class {', '.join(names)}, which is no chance")
    ]
    return np.where(is_unseen, own, ""), tuple(doubts if names else ())


def _split_off_calibration(population: Records, rows: Ints, settings: SearchSettings) -> dict[str, Ints]:
    """Return the rows of the population that attacks learn from, and those that candidates are compared with.

    Raises:
        divulge.InputError: too few for the level.
    """
    learned, compared = split_population(
        population[rows], settings.calibration, settings.seed, keep_equal_together=True
    )
    several = len(settings.recipes) > 1  # one score is learned with half of them
    required = required_calibration(1, settings.fdr, 1) * (2 if several else 1)
    if len(compared) < required:
        raise InputError(
            f"population: at fdr={settings.fdr:g} scores are compared with those of at least {required} records, got "
            f"{len(compared)} of {len(population)} (calibration={settings.calibration:g})"
        )
    return {"learned": rows[learned], "compared": rows[compared]}


def _compare_records(scored: _ScoredSets, is_seen_class: Bools, seed: int) -> Control:
    """Test whether records alone tell candidates from the population: members may differ from it, so it only doubts."""
    candidates, population = scored.candidates[is_seen_class], scored.population
    learned = scored.prepared.inputs.population
    if (n_least := min(len(candidates), len(population))) < 2 * blind.FOLDS:
        untested = f"{n_least} records of a kind are too few to test whether candidates are like the population"
        return Control(BLIND_RECORDS, 0.0, LEVEL, f"{untested}; {2 * blind.FOLDS} are needed")
    split = blind.baseline(
        candidates.x, population.x, seed, y_members=candidates.y, y_nonmembers=population.y,
        other_records=(learned.x, learned.y), false_alarm=LEVEL,
    )  # fmt: skip
    observed = f"records alone tell candidates from the population with AUC {split.auc} (1/2 expected)"
    return Control(BLIND_RECORDS, split.p_value, LEVEL, observed, split.auc)


def _divide_candidates(
    classes: Array, controls: tuple[Control, ...], by: str | None
) -> dict[str, tuple[Bools, tuple[Control, ...]]]:
    """Return the candidates of each list, and its controls: the list of all but unseen classes has no name."""

    def make_void_control(names: Sequence[str]) -> Control:
        none = f"no record that scores are compared with is of class {', '.join(names)}"
        return Control(UNSEEN_CLASSES, 0.0, LEVEL, none, conclusive=True)

    names = sorted(set(classes.tolist()) - {""})
    if by is None or not names:
        return {"": (np.ones(len(classes), dtype=bool), (*controls, *([make_void_control(names)] if names else [])))}
    lists = {"": (classes == "", controls)}
    return lists | {name: (classes == name, (*controls, make_void_control([name]))) for name in names}


def _as_score_sets(scores: Mapping[str, Mapping[str, Floats]], mask: Bools) -> ScoreSets:
    """Return the scores of the candidates of a list and of all other sets, ``[rows]`` or ``[rows, recipes]``."""

    def join(name: str) -> Floats:
        values = [value[mask] if name == "candidates" else value for value in scores[name].values()]
        return values[0] if len(values) == 1 else np.column_stack(values)

    several = len(scores["candidates"]) > 1
    return ScoreSets(
        join("candidates"),
        join("population"),
        join("holdout") if "holdout" in scores else None,
        join("members") if "members" in scores and not several else None,
    )


def _assess_members(
    scores: Mapping[str, Mapping[str, Floats]], threshold: float
) -> tuple[dict[str, Estimate], Estimate | None, tuple[str, ...]]:
    """Return how far known members score above the population, and the share of them that a list would hold."""
    if "members" not in scores:
        return {}, None, ()
    areas = {}
    for recipe, values in scores["members"].items():
        both = np.append(values, scores["population"][recipe])
        areas[recipe] = statistics.auc(both, np.arange(len(both)) < len(values))
    first = next(iter(scores["members"].values()))
    listed = ", ".join(f"{format_estimate(area)} by {recipe}" for recipe, area in areas.items())
    note = f"AUC of {len(first):,} known members against the population: {listed}"
    if len(areas) > 1:
        return areas, None, (note,)
    power = statistics.proportion(int((first >= threshold).sum()), len(first))
    found = f"{format_estimate(power)} of them score as high as the list does: about this share of those used is on it"
    return areas, power, (f"{note}; {found}",)


def _write_run(
    draft: RunDraft,
    tables: Mapping[str, pl.DataFrame],
    lists: Mapping[str, tuple[Bools, tuple[Control, ...]]],
    policy: Policy,
    settings: SearchSettings,
    notes: tuple[str, ...],
) -> None:
    """Write the scores as tables and the decision made from them with its page; each unseen class in a run inside."""
    others = {name: table for name, table in tables.items() if name != "candidates"}
    recipes = [name for name in tables["candidates"].columns if name not in ("id", "record")]
    score_columns = Columns(
        tuple(Score(name) for name in recipes), id="id", text="record" if settings.show_records else None
    )
    plan = from_tables.DecisionPlan(score_columns, policy, seed=settings.seed, show_records=settings.show_records)
    with contextlib.ExitStack() as stack:
        for number, (name, (mask, controls)) in enumerate(lists.items()):
            part = stack.enter_context(draft.part(f"class-{number}", RUN_TYPE, "records")) if name else draft
            folder = part.path / "scores"
            folder.mkdir()
            files = {}
            for set_name, table in {"candidates": tables["candidates"].filter(mask), **others}.items():
                files[set_name] = folder / f"{set_name}.parquet"
                table.write_parquet(files[set_name])
            own = (f"this list is of candidates of class {name}",) if name else ()
            from_tables.run(
                [files["candidates"]],
                [files["population"]],
                part,
                plan,
                holdout=[files["holdout"]] if "holdout" in files else [],
                members=[files["members"]] if "members" in files and len(recipes) == 1 else [],
                asked=from_tables.AskedModel(
                    controls, (*own, *notes), tuple(provenance.list_declared_files("candidates"))
                ),
            )


_MAX_VALUES = 64  # numbers of a record that a list shows


def _describe_records(records: Records) -> list[str]:
    """Return each record as text: equal texts are equal records."""
    if records.table is not None:
        return [
            f"{columns.describe_row(records.table, row)}\nclass or value: {label}"
            for row, label in enumerate(_list_labels(records))
        ]
    if records.x.dtype == object:
        return [chats.show_text(str(text)) for text in records.x]
    rows = records.x.reshape(len(records), -1)
    if rows.shape[1] > _MAX_VALUES:
        return [
            f"{records.x.shape[1:]} values, digest {digest.hex()[:16]}, {label}"
            for digest, label in zip(records.digests(), _list_labels(records), strict=True)
        ]
    return [
        f"{', '.join(f'{value:.17g}' for value in row)}; {label}"
        for row, label in zip(rows.tolist(), _list_labels(records), strict=True)
    ]


def _list_labels(records: Records) -> list[Any]:
    """Return the name of each record's class, or its value; empty texts without any."""
    if records.y is None:
        return [""] * len(records)
    if records.labels is None:
        return records.y.tolist()
    return [class_name(label, records.class_names) for label in records.labels.tolist()]


def _extend_mask(known: Any, candidates: Records, places: Mapping[str, Sequence[tuple[str, Ints]]], seed: int) -> Any:
    """Return a mask with one for each candidate as one for all that is scored, others' drawn from the candidates'."""
    if known is None or isinstance(known, str):
        return known
    mask = to_numpy(known, "known")
    if mask.ndim != candidates.x.ndim:
        return mask  # of one record, or refused later
    if len(mask) != len(candidates):
        raise InputError(f"known: one mask, or one for each of {len(candidates)} candidates is needed, got {len(mask)}")
    (_, own), *others = [*places["members"], *places["nonmembers"]]
    count = sum(len(rows) for _, rows in others)
    drawn = seeds.generator(seed, "known parts of compared records").integers(len(own), size=count)
    return np.concatenate([mask[own], mask[own][drawn]])


def _divide_features(features: Any, places: Mapping[str, Sequence[tuple[str, Ints]]]) -> Any:
    """Return a mapping of the sets of records to features as one of the three sets of an audit."""
    if not isinstance(features, Mapping):
        return features
    names = {name for parts in places.values() for name, _ in parts}
    if set(features) != names:
        raise InputError(
            f"features: an array for each of {', '.join(sorted(names))} is needed, got {', '.join(map(str, features))}"
        )
    arrays = {name: to_numpy(values, f"features: {name}") for name, values in features.items()}
    return {place: np.concatenate([arrays[name][rows] for name, rows in parts]) for place, parts in places.items()}


_WORDS = {"non-members": "population records", "nonmembers": "population", "members": "candidates"}
# What stands in quotation marks is the user's: names of columns, classes, files.
_WORD = re.compile("|".join([r"'[^'\n]*'", r'"[^"\n]*"', *(rf"\b{word}\b" for word in _WORDS)]))


def _translate(text: str) -> str:
    """Return a message of an audit in the words of this page."""
    return _WORD.sub(lambda match: _WORDS.get(match[0], match[0]), text)


@contextlib.contextmanager
def _translate_errors() -> Generator[None]:
    """Raise errors of an audit in the words of this page."""
    try:
        yield
    except InputError as error:
        raise type(error)(_translate(str(error))) from error.__cause__  # the user's own, whose lines are shown
