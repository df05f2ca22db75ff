"""The reference models of an audit: a set for each way of training them, each as if it were the only one.

Offline recipes have models that saw none of the candidates, online recipes models that saw half of them, and the
transfer attack models that learned from the target's own answers. No kind stands in for another, so an audit of several
trains them all, and every score is what it would be alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from divulge.attacks import Need
from divulge.errors import InputError
from divulge.evidence import Models, signals_from_logits
from divulge.references import splits
from divulge.signals import internals
from divulge.statistics.duplicates import number_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.recipes import Recipe
    from divulge.references import Progress, Trained
    from divulge.types import Bools, Floats, Ints, Records

TRAINED_REFERENCES = (Need.REFERENCES_OUT, Need.REFERENCES_IN_AND_OUT, Need.REFERENCES_SUBSTITUTES)

# Signals of a set of models beyond this are kept on disk, where there is a run directory.
MAX_BYTES_IN_MEMORY = 1 << 30


def train_reference_models(case: PreparedAudit, log: AuditLog) -> Mapping[Need, Mapping[int, Models]]:
    """What reference models say of the views of the records, by place, for each kind that some recipe needs.

    Raises:
        divulge.InputError: as `answers`, where substitutes are needed; what training raises.
    """
    needed = {kind: [r for r in case.given.recipes if kind in r.needs] for kind in TRAINED_REFERENCES}
    kinds = [kind for kind in TRAINED_REFERENCES if needed[kind]]
    if Need.REFERENCES_SUBSTITUTES in kinds:
        substitute_labels(case, log)  # before models of another kind are trained in vain
    return {
        kind: _train_models(case, log, kind, needed[kind], progress_of_part(case.progress, at, len(kinds)))
        for at, kind in enumerate(kinds)
    }


def training_data(case: PreparedAudit, kind: Need) -> tuple[Records, Bools]:
    """The records that models of a kind are trained on, and which model on which: bool ``[m, records]``.

    Models of the offline kind and substitutes are handed the population alone: not even by mistake do they see a
    candidate or a calibration record. Substitutes have all of it, as the target was asked about it; `answers` are their
    labels.
    """
    count, population = case.references.count, case.given.population
    if kind == Need.REFERENCES_SUBSTITUTES:
        return case.views[0][case.layout.of_population], np.ones((count, len(population)), dtype=bool)
    if kind == Need.REFERENCES_OUT:
        halves = splits.offline(
            len(population), max(count, 2), case.seed, labels=population.y, groups=_duplicate_groups(population)
        ).trained_on
        return population, halves[:count]  # one model is trained on a half, too
    everything = case.views[0]
    rows = splits.online(
        len(everything), max(count, 2), case.seed, labels=everything.y, groups=_duplicate_groups(everything)
    ).trained_on[:count]
    return (everything, rows) if case.partial is None else case.partial.training(population, rows)


def _duplicate_groups(records: Records) -> Ints:
    """Number the distinct records: a model is trained on all copies of one or on none."""
    return number_groups(records.x, records.y)


def substitute_labels(case: PreparedAudit, log: AuditLog) -> Ints:
    """What the target calls each record of the population, ``[z]``: it has been asked, and is not asked again.

    Raises:
        divulge.InputError: it calls all of them the same.
    """
    assert log.told is not None
    told = log.told[case.layout.of_population]
    if (told == told[0]).all():
        raise InputError(
            f"population: the target calls all {len(told):,} records class {told[0]}, so substitutes of it learn "
            "nothing; leave out the recipes that train some, or give records of which it calls some otherwise"
        )
    return told


def _train_models(
    case: PreparedAudit, log: AuditLog, kind: Need, recipes: Sequence[Recipe], progress: Progress
) -> dict[int, Models]:
    named = dict.fromkeys(name for recipe in recipes for name in (recipe.signal_name, *recipe.beside))
    names = tuple(name for name in named if name not in internals.SIGNALS)
    inside = white_box_names(recipes)
    asked = list(range(1 + max(recipe.imputed.random for recipe in recipes)))
    asked += sorted({at for recipe in recipes for at in case.further.get(recipe.name, ())})
    views = [case.views[at] for at in asked]
    records, rows = training_data(case, kind)
    classes = case.classes
    if kind == Need.REFERENCES_SUBSTITUTES:
        told = substitute_labels(case, log)
        records = records.with_labels(told)
        classes = max(classes, 1 + int(told.max()))  # labels alone show no more classes than were answered
    # Another's own references may know no more than outputs: they are asked for more only where it is read.
    more = {"inside": partial(measure_reference, names=inside)} if inside else {}
    try:
        trained: Trained = log.timed(
            "reference models",
            lambda: case.references.fit(
                records,
                rows,
                seed=case.seed,
                classes=classes,
                observe=tuple(views),
                signal=lambda logits, labels: signals_from_logits(logits, labels, names),
                pool=case.pool,
                out=_signal_folder(case, kind, sum(map(len, views)) * len(names) + len(views[0]) * len(inside)),
                progress=progress,
                **more,
            ),
        )
    except InputError as error:
        if classes == case.classes:
            raise
        raise InputError(
            f"{error}; substitutes of this target need {classes} outputs, as it calls a record of the population class "
            f"{classes - 1}, which is not among the {case.classes} of the records"
        ) from None
    log.engines.append(trained.engine)
    log.warnings += [f"{kind}: {note}" for note in trained.warnings]
    known = trained_on_mask(case, kind, trained.trained_on)
    return {
        at: Models(
            {name: outputs[:, :, k] for k, name in enumerate((*names, *(() if at else inside)))}, known[:, : len(view)]
        )
        for at, view, outputs in zip(asked, views, trained.outputs, strict=True)
    }


def trained_on_mask(case: PreparedAudit, kind: Need, rows: Bools) -> Bools:
    """Which of candidates, calibration and population each finished model was trained on."""
    if kind != Need.REFERENCES_IN_AND_OUT:
        return np.hstack([np.zeros((len(rows), case.layout.scored), dtype=bool), rows])
    return rows if case.partial is None else case.partial.trained_on(rows)


def _signal_folder(case: PreparedAudit, kind: Need, columns: int) -> Path | None:
    """Where reference signals too many for memory are mapped from disk; attacks read them in blocks."""
    large = case.references.count * columns * 4 > MAX_BYTES_IN_MEMORY
    return case.scratch / kind.replace(" ", "-") if large and case.scratch is not None else None


def progress_of_part(progress: Progress, at: int, parts: int) -> Progress:
    """Progress of one of several sets of models, told as progress of all."""

    def watch(done: float, total: int, note: str) -> None:
        progress(at * total + done, parts * total, note)

    return watch


def white_box_names(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """The signals of a network's inside that the recipes read, each once."""
    return tuple(dict.fromkeys(name for recipe in recipes for name in recipe.inside))


def measure_reference(target: Any, records: Records, names: Sequence[str]) -> Floats:
    """`internals.measure`, with errors that say whose they are.

    Raises:
        divulge.InputError: as there.
    """
    try:
        return internals.measure(target, records, names)
    except InputError as error:
        raise InputError(f"references: a reference model as the {error}") from None
