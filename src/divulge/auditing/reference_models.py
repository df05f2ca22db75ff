"""Reference models of an audit, one set for each way of training them.

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
            len(population), max(count, 2), audit.seed, labels=population.y, groups=_duplicate_groups(population)
        ).trained_on
        return population, halves[:count]  # one model is trained on a half, too
    records = audit.views[0]
    rows = splits.online(
        len(records), max(count, 2), audit.seed, labels=records.y, groups=_duplicate_groups(records)
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
    requested = dict.fromkeys(name for recipe in recipes for name in (recipe.signal_name, *recipe.beside))
    names = tuple(name for name in requested if name not in internals.SIGNALS)
    white_box = white_box_names(recipes)
    view_places = list(range(1 + max(recipe.imputed.random for recipe in recipes)))
    view_places += sorted({place for recipe in recipes for place in audit.version_views.get(recipe.name, ())})
    views = [audit.views[place] for place in view_places]
    records, rows = training_data(audit, need)
    classes = audit.n_classes
    if need == Need.REFERENCES_SUBSTITUTES:
        substitute_classes = substitute_labels(audit, log)
        records = records.with_labels(substitute_classes)
        classes = max(
            classes, 1 + int(substitute_classes.max())
        )  # labels alone show no more classes than were answered
    # Custom references may return outputs alone, so white-box signals are requested only if a recipe reads them.
    extra = {"inside": partial(measure_reference, names=white_box)} if white_box else {}
    try:
        trained: Trained = log.run_timed(
            "reference models",
            lambda: audit.references.fit(
                records,
                rows,
                seed=audit.seed,
                classes=classes,
                observe=tuple(views),
                signal=lambda logits, labels: signals_from_logits(logits, labels, names),
                pool=audit.pool,
                out=_signal_folder(audit, need, sum(map(len, views)) * len(names) + len(views[0]) * len(white_box)),
                progress=progress,
                **extra,
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
            {name: outputs[:, :, k] for k, name in enumerate((*names, *(() if place else white_box)))},
            trained_on[:, : len(view)],
        )
        for place, view, outputs in zip(view_places, views, trained.outputs, strict=True)
    }


def trained_on_mask(audit: PreparedAudit, need: Need, rows: Bools) -> Bools:
    """Return the mask of candidates, calibration and population that each model was trained on."""
    if need != Need.REFERENCES_IN_AND_OUT:
        return np.hstack([np.zeros((len(rows), audit.layout.scored), dtype=bool), rows])
    return rows if audit.partial_knowledge is None else audit.partial_knowledge.trained_on_mask(rows)


def _signal_folder(audit: PreparedAudit, need: Need, columns: int) -> Path | None:
    """Return the folder for reference signals that exceed memory; None if they fit."""
    exceeds_memory = audit.references.count * columns * 4 > MAX_BYTES_IN_MEMORY
    return (
        audit.scratch_folder / need.replace(" ", "-") if exceeds_memory and audit.scratch_folder is not None else None
    )


def progress_of_part(progress: Progress, part: int, n_parts: int) -> Progress:
    """Report the progress of one of several sets of models as progress of all."""

    def watch(done: float, total: int, note: str) -> None:
        progress(part * total + done, n_parts * total, note)

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
