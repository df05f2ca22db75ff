"""Signals that question the target themselves: what they find, and how many queries that took."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from divulge import seeds
from divulge.recipes import PartialSignal, PreparedSignal
from divulge.references import Custom, splits
from divulge.statistics.duplicate_groups import number_groups
from divulge.targets import GivesLogits, GivesTokens, Metered, adapt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from divulge.auditing.case import PreparedAudit, AuditLog
    from divulge.recipes import Recipe, Signal
    from divulge.targets import GivesLabels
    from divulge.types import Floats, PartialRecords, Records


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
