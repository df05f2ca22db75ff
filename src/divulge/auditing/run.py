"""The audit itself, from target to result."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge.attacks import QuantileRegression
from divulge.auditing import exhibits, shift
from divulge.auditing.inputs import Duplicates, Inputs, check
from divulge.auditing.result import KIND, Audit
from divulge.dossier import Dossier, environment
from divulge.evidence import Measurements, features, of_logits
from divulge.targets import Metered, adapt
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.recipes import Recipe
    from divulge.references import Progress
    from divulge.targets import GivesLogits
    from divulge.types import Bools, Floats

# Reference signals beyond this are kept on disk, where there is a run directory.
MOST_BYTES = 1 << 30
DEFAULT_RECIPES = ("loss", "lira", "rmia", "quantile")


def audit(
    target: Any,
    *,
    members: Records,
    nonmembers: Records,
    population: Records | None = None,
    recipes: Sequence[Any] = DEFAULT_RECIPES,
    references: Any = None,
    unseen_classes: Sequence[int] = (),
    fpr: Sequence[float] = (0.01,),
    groups: Sequence[str] | None = None,
    calibration: float = 0.25,
    duplicates: Duplicates = "error",
    outputs: str = "logits",
    device: str = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Audit:
    """How well can an adversary tell ``target``'s training records from others?

    Args:
        target: a torch module, scikit-learn classifier, callable, or anything with ``logits(records)``.
        members: records the target was trained on.
        nonmembers: records of the same kind that it was not trained on.
        population: what the auditor holds besides, surely not trained on; may lack classes. A quarter
            (``calibration``) is set aside: attacks never learn from it, its scores are the null
            distribution of every decision.
        recipes: names (`divulge list` shows them), `divulge.recipes.Recipe` objects or "module:Class".
        references: how reference models are trained (`divulge.references.Train`); needed by some recipes.
        unseen_classes: classes of which the auditor holds no records.
        fpr: false-positive rates to report.
        groups: a subgroup's name for each member, then for each non-member.
        calibration: share of the population set aside.
        duplicates: what to do about records that stand in several sets: "error", "drop" or "keep".
        outputs: "logits" or "probabilities": what ``target`` returns, if it is a module or callable.
        device: where a torch module runs: "auto", "cpu", "cuda", "mps".
        seed: of every random draw.
        out: run directory to write; nothing is written when None.
        overwrite: replace a finished run in ``out`` (finished reference models are kept and reused).
        progress: called with (done, total, note) while reference models are trained.
        plan: the plan the arguments came from, to be kept in the run directory.

    Returns:
        An `Audit`: ``result["lira"].auc``, ``result["lira"].tpr_at_fpr(0.01)``, ``result.report(path)``.

    Raises:
        divulge.InputError: anything that does not fit, before work starts: NaN or infinity, shapes, labels
            out of range or missing, duplicates across the sets, an unknown recipe, an unseen class that the
            population holds or the candidates lack, too few non-members for ``fpr``, logits that are
            probabilities, a directory in use.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def records(n):
    ...     return Records(rng.normal(size=(n, 2)), rng.integers(0, 2, n))
    >>> honest = lambda x: np.stack([x[:, 0], -x[:, 0]], axis=1)
    >>> found = audit(honest, members=records(200), nonmembers=records(200), population=records(200),
    ...               recipes=["loss"])
    >>> found["loss"].auc.low < 0.5 < found["loss"].auc.high
    True
    """
    given = check(
        members=members,
        nonmembers=nonmembers,
        population=population,
        recipes=recipes,
        references=references,
        unseen_classes=unseen_classes,
        fpr=fpr,
        calibration=calibration,
        duplicates=duplicates,
        groups=groups,
        seed=seed,
    )
    adapted = adapt(target, outputs=outputs, device=device)
    classes = _classes(adapted, given)
    run = _Run(given, adapted, classes, references, seed, progress or _silent)
    settings = _settings(given, references, fpr, calibration, duplicates, outputs, device, seed)
    dossier = None
    if out is not None:
        dossier = Dossier(Path(out))
        dossier.begin(KIND, store.digest(settings), overwrite=overwrite)
        dossier.write_plan(plan or settings)
        run.pool = dossier.path / "pool"
    result = run.result(tuple(fpr), settings, dossier)
    if dossier is not None:
        result.save(dossier)
        dossier.finish()
    return result


@dataclass(slots=True)
class _Run:
    """One audit in progress: the order of work, its clock and its meters."""

    given: Inputs
    target: GivesLogits
    classes: int
    references: Any
    seed: int
    progress: Progress
    pool: Path | None = None
    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engine: str = ""

    def result(self, fpr: tuple[float, ...], settings: Mapping[str, Any], dossier: Dossier | None) -> Audit:
        given = self.given
        measured = self._measure()
        scores, nulls = {}, {}
        for recipe in given.recipes:
            both = self._timed(f"attack {recipe.name}", partial(self._score, recipe, measured))
            scores[recipe.name], nulls[recipe.name] = both[: len(given.candidates)], both[len(given.candidates) :]
        checked = self._timed("blind baseline", self._blind)
        carried = self._timed("transfer", partial(self._transfer, nulls, measured, max(fpr)))
        about = {
            "settings": dict(settings),
            "recipes": {recipe.name: self._about(recipe) for recipe in given.recipes},
            "counts": self._counts(),
            "duplicates": given.duplicates,
            "blind_baseline": checked,
            "transfer": carried,
            "warnings": [*given.warnings, *self.warnings],
            "environment": environment(),
            "timings": {name: round(seconds, 3) for name, seconds in self.timings.items()},
            "engine": self.engine,
        }
        return Audit(
            scores=scores,
            nulls=nulls,
            signals={name: values[: len(given.candidates)] for name, values in measured.target.items()},
            ids=np.asarray(given.candidates.ids),
            members=given.members,
            labels=given.candidates.y,
            null_labels=given.calibration.y,
            unseen_classes=given.unseen_classes,
            fpr=fpr,
            about=about,
            exhibits=exhibits.choose(given.candidates, given.members, scores),
            groups=given.groups,
            path=None if dossier is None else dossier.path,
        )

    def _measure(self) -> Measurements:
        """Signals of candidates, calibration and population: the first two are treated exactly alike."""
        given, records = self.given, self.given.everything
        names = tuple(dict.fromkeys(r.signal for r in given.recipes if isinstance(r.signal, str)))
        target: dict[str, Floats] = {}
        if names:
            meter = Metered(self.target)
            logits = self._timed("target", partial(meter.logits, records))
            target = dict(zip(names, of_logits(logits, records.y, names).T, strict=True))
            self.queries |= dict.fromkeys(names, meter.queries)
        for recipe in given.recipes:
            if not isinstance(recipe.signal, str) and recipe.signal_name not in target:
                signal, meter = recipe.signal, Metered(self.target)
                target[signal.name] = self._timed(
                    f"signal {signal.name}", lambda s=signal, m=meter: s.measure(m, records)
                )
                self.queries[signal.name] = meter.queries
        references, trained_on = self._reference_signals(records, names)
        inside = np.arange(len(records)) >= len(records) - len(given.population)
        return Measurements(
            target=target,
            candidates=len(given.candidates) + len(given.calibration),
            labels=records.y,
            features=self._timed("features", lambda: features(records, inside, self.seed)),
            references=references,
            trained_on=trained_on,
        )

    def _reference_signals(
        self, records: Records, names: Sequence[str]
    ) -> tuple[Mapping[str, Floats] | None, Bools | None]:
        needed = {recipe.references for recipe in self.given.recipes} - {"none"}
        if not needed:
            return None, None
        trained = self._timed(
            "reference models",
            lambda: self.references.fit(
                records,
                self._splits(records, online="in and out" in needed),
                seed=self.seed,
                classes=self.classes,
                observe=(records,),
                signal=lambda logits, labels: of_logits(logits, labels, names),
                pool=self.pool,
                out=self._sheets(len(records) * len(names)),
                progress=self.progress,
            ),
        )
        self.engine = trained.engine
        self.warnings += trained.warnings
        return {name: trained.outputs[0][:, :, k] for k, name in enumerate(names)}, trained.trained_on

    def _sheets(self, columns: int) -> Path | None:
        """Where reference signals too many for memory are mapped from disk; attacks read them in blocks."""
        large = self.references.count * columns * 4 > MOST_BYTES
        return self.pool / ".signals" if large and self.pool is not None else None

    def _splits(self, records: Records, *, online: bool) -> Any:
        from divulge.references import splits

        outside = np.arange(len(records)) < len(records) - len(self.given.population)
        held = None if online else outside
        return splits.offline(len(records), self.references.count, self.seed, candidates=held, labels=records.y)

    def _score(self, recipe: Recipe, measured: Measurements) -> Floats:
        evidence, attack = measured.evidence(recipe.signal_name), recipe.attack
        if isinstance(attack, QuantileRegression):
            scored = attack.score_with_nulls(evidence)
            self.warnings += [f"{recipe.name}: {note}" for note in scored.notes]
            found = scored.scores
        else:
            found = np.asarray(attack.score(evidence), dtype=np.float64)
        if found.shape != (measured.candidates,) or not np.isfinite(found).all():
            raise checks.InputError(
                f"recipes: {recipe.name} returned {found.shape} scores, {int((~np.isfinite(found)).sum())} of them not "
                f"finite, where {measured.candidates} are needed"
            )
        return found

    def _transfer(self, nulls: Mapping[str, Floats], measured: Measurements, level: float) -> dict[str, Any] | None:
        """Whether thresholds set on seen classes are expected to hold on the unseen ones; None without any."""
        candidates, held = self.given.candidates, measured.features
        if not self.given.unseen_classes or candidates.y is None or held is None:
            return None
        query = np.flatnonzero(np.isin(candidates.y, self.given.unseen_classes))
        return shift.assess(nulls, held[len(candidates) : measured.candidates], held[query], level, self.seed)

    def _blind(self) -> dict[str, Any] | None:
        """What can be told without the model; None (with a warning) where there are too few records to tell."""
        from divulge.evaluation import blind

        inside, records = self.given.members, self.given.candidates
        y = records.y
        own, others = (None, None) if y is None else (y[inside], y[~inside])
        try:
            found = blind.baseline(records.x[inside], records.x[~inside], self.seed, y_members=own, y_nonmembers=others)
        except checks.InputError as error:
            self.warnings.append(f"no blind baseline, so a confounded split would go unseen: {error}")
            return None
        return asdict(found)

    def _about(self, recipe: Recipe) -> dict[str, Any]:
        return {
            "signal": recipe.signal_name,
            "attack": repr(recipe.attack),
            "references": recipe.references,
            "summary": recipe.summary,
            "queries": self.queries[recipe.signal_name],
        }

    def _counts(self) -> dict[str, int]:
        given = self.given
        return {
            "members": int(given.members.sum()),
            "nonmembers": int((~given.members).sum()),
            "population": len(given.population),
            "calibration": len(given.calibration),
            "classes": self.classes,
        }

    def _timed(self, name: str, work: Any) -> Any:
        began = time.perf_counter()
        found = work()
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - began
        return found


def _silent(done: float, total: int, note: str) -> None:
    """No progress is shown unless the caller asks for it."""


def _classes(target: GivesLogits, given: Inputs) -> int:
    """Width of the target's output, from one record; every label must fit it."""
    width = target.logits(given.candidates[:2]).shape[1]
    for records, name in ((given.candidates, "members, nonmembers"), (given.population, "population")):
        if records.y is not None:
            checks.labels(records.y, f"{name}: y", classes=width)
    return width


def _settings(
    given: Inputs,
    references: Any,
    fpr: Sequence[float],
    calibration: float,
    duplicates: str,
    outputs: str,
    device: str,
    seed: int,
) -> dict[str, Any]:
    """All that determines the run: kept as its plan, and its digest names an interrupted run."""
    return {
        "seed": seed,
        "recipes": [recipe.name for recipe in given.recipes],
        "attacks": {recipe.name: f"{recipe.signal_name}: {recipe.attack!r}" for recipe in given.recipes},
        "references": "none" if references is None else _described(references),
        "unseen_classes": list(given.unseen_classes),
        "fpr": list(fpr),
        "calibration": calibration,
        "duplicates": duplicates,
        "outputs": outputs,
        "device": device,
        "data": {
            "candidates": _digest(given.candidates, given.members),
            "calibration": _digest(given.calibration),
            "population": _digest(given.population),
        },
    }


def _described(references: Any) -> str:
    """A repr that is the same in every process: functions by their name, not their address."""
    options = []
    for option in fields(references):
        value = getattr(references, option.name)
        name = f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else repr(value)
        options.append(f"{option.name}={name}")
    return f"{type(references).__name__}({', '.join(options)})"


def _digest(records: Records, *more: Any) -> str:
    return store.digest(records.x, *(() if records.y is None else (records.y,)), *more)
