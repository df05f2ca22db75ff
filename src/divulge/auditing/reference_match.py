"""Reference models beside the target: settings chosen so that they answer alike, and a report of how well they do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import seeds
from divulge.attacks import Need
from divulge.auditing import signals
from divulge.auditing.language_modality import LanguageModel
from divulge.duplicates import number_groups
from divulge.errors import InputError
from divulge.evaluation import agreement
from divulge.references import fitting, matching, splits
from divulge.references.matching import MatchGoal
from divulge.results import MatchedReferences, TriedSetting

if TYPE_CHECKING:
    from divulge.auditing.prepared import AuditLog, PreparedAudit
    from divulge.types import Bools, Records

_HELD_OUT_SHARE, _MIN_HELD_OUT, _MAX_HELD_OUT = 0.2, 20, 1000  # records of the population that are held out
NO_TRAINING = "nothing to train"
"""What a fit of references names as its engine where the pool has all of them."""


def choose_held_out(population: Records, seed: int) -> Bools:
    """Choose the population records on which settings are matched; equal records are on one side.

    Raises:
        divulge.InputError: too few records.
    """
    groups = number_groups(population.x, population.y)
    n_groups = int(groups.max()) + 1
    count = min(max(_MIN_HELD_OUT, round(_HELD_OUT_SHARE * n_groups)), _MAX_HELD_OUT)
    if n_groups < 3 * _MIN_HELD_OUT:
        raise InputError(
            f"match: at least {3 * _MIN_HELD_OUT} distinct population records beyond those for calibration are needed, "
            f"got {n_groups}"
        )
    order = seeds.generator(seed, "held out").permutation(n_groups)
    return np.isin(groups, order[:count])


def match_references(audit: PreparedAudit, log: AuditLog) -> PreparedAudit:
    """Return the audit with reference models whose settings are chosen, where they are to be.

    The choice reads the target's answers on held-out records of the population, and models that were trained on others
    of the population: no candidate and no calibration record.

    Raises:
        divulge.InputError: what training raises.
    """
    if audit.held_out is None or getattr(audit.references, "match", None) is None:
        return audit
    held_out = audit.inputs.population[audit.held_out]
    measure = audit.modality.measure_answers
    goal = MatchGoal(held_out, measure(audit.target, held_out), measure)
    rows = splits.Splits(signals.training_data(audit, Need.REFERENCES_OUT)[1])
    work = partial(matching.match_settings, audit.references, _request(audit), rows, audit.seed, goal)
    match = log.run_timed("matching of references", work)
    tried = []
    for setting in match.tried:
        rmse, score = agreement.distance_between(goal.target, setting.answers) if setting.answers else (None, None)
        name = _describe_setting(audit.references, setting.changes)
        tried.append(TriedSetting(name, len(setting.answers), rmse, score, setting.failure or None))
    log.matched = MatchedReferences(
        tried[0].setting, len(held_out), audit.modality.matched_answer(audit.target), match.n_models, tuple(tried)
    )
    return replace(audit, references=match.training)


def _request(audit: PreparedAudit) -> fitting.TrainingRequest:
    """Return what reference models that saw no candidate are trained on and asked, as they will be afterwards."""
    records, rows = signals.training_data(audit, Need.REFERENCES_OUT)
    recipes = [recipe for recipe in audit.inputs.recipes if Need.REFERENCES_OUT in recipe.needs]
    if isinstance(audit.modality, LanguageModel):
        observe = (audit.views[0],) if recipes else ()
        return fitting.TrainingRequest(records, rows, observe, None, 0, audit.pool, None, None)
    if recipes:
        required_signals = signals.reference_signals(audit, recipes)
        observe = tuple(audit.views[place] for place in signals.observed_views(audit, recipes))
        options = dict(audit.modality.reference_options(audit, required_signals))
    else:
        observe, options = (), dict(audit.modality.reference_options(audit, []))
    return fitting.TrainingRequest(
        records,
        rows,
        observe,
        options.get("signal"),
        options.get("classes"),
        audit.pool,
        None,
        None,
        options.get("inside"),
        options.get("measure"),
    )


def _describe_setting(references: Any, changes: Mapping[str, Any]) -> str:
    """Describe a setting by what it changes; of trainings in epochs always by rate and epochs."""
    config = getattr(references, "config", references)
    epoch_settings: dict[str, Any] = {}
    if hasattr(config, "learning_rate") and hasattr(config, "epochs"):
        epoch_settings = {"lr": config.learning_rate, "epochs": config.epochs}
    values = epoch_settings | {name: _describe_value(references, name, value) for name, value in changes.items()}
    if values.get("stop_after") == "None":  # the training as a whole, as where nothing is said of its end
        del values["stop_after"]
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "as given"


def _describe_value(references: Any, name: str, value: Any) -> str:
    """Describe a value of a setting; where others of its grid print alike, with its place among them."""
    text = _format_setting_value(value)
    match = getattr(references, "match", None)
    grid = match if isinstance(match, Mapping) else {}
    alike = [each for each in grid.get(name, ()) if _format_setting_value(each) == text]
    place = next((place for place, each in enumerate(alike, start=1) if each is value), None)
    return text if len(alike) < 2 or place is None else f"{text} ({place} of {len(alike)})"


def _format_setting_value(value: Any) -> str:
    """Format a value in one line, without the addresses of objects, which differ between runs."""
    if (name := getattr(value, "__qualname__", None)) is not None:
        return name.rpartition("<locals>.")[2]
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(value).split()))


def describe_engines(log: AuditLog) -> str:
    """Describe what trained the reference models, trial models of a search for settings included.

    Trial models of the chosen setting are references afterwards, for which nothing may be left to train.
    """
    engines = list(dict.fromkeys(log.engines))
    if log.matched is None:
        return "; ".join(engines)
    trials = f"{log.matched.models:,} trial models of the matching: serial, on one thread"
    return "; ".join([trials, *("all others from the pool" if each == NO_TRAINING else each for each in engines)])
