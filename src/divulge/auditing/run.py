"""The audit itself, from target to result."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import checks, store
from divulge.attacks import QuantileRegression
from divulge.auditing import active, exhibits, shift
from divulge.auditing import settings as describe
from divulge.auditing.inputs import Duplicates, Inputs, check, label_set
from divulge.auditing.partial import WHOLE, Partial, evidences, prepare
from divulge.auditing.result import KIND, Audit
from divulge.dossier import Dossier, Draft, environment
from divulge.evidence import Measurements, features, of_logits
from divulge.recipes import PartialSignal
from divulge.references.progress import silent
from divulge.targets import adapt
from divulge.types import Records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.recipes import Recipe
    from divulge.references import Progress
    from divulge.targets import GivesLogits
    from divulge.types import Bools, Evidence, Floats

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
    known: Any = None,
    imputer: Any = None,
    calibration: float = 0.25,
    duplicates: Duplicates = "error",
    outputs: str = "logits",
    device: str = "auto",
    seed: int = 0,
    out: str | Path | Draft | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    pool: str | Path | None = None,
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
        known: which values of a record the adversary knows: bool, of one record's shape or with one mask for each
            member, then each non-member; or words such as "share:0.4" (`divulge.completion.mask`). Unknown
            values are never read, except to refuse duplicates across the sets and to tell whether two runs are of
            the same candidates. None: whole records.
        imputer: completes them from the population: of `divulge.completion`, or a function; None for the
            class-conditional Gaussian.
        calibration: share of the population set aside.
        duplicates: what to do about records that stand in several sets: "error", "drop" or "keep".
        outputs: "logits" or "probabilities": what ``target`` returns, if it is a module or callable.
        device: where a torch module runs: "auto", "cpu", "cuda", "mps".
        seed: of every random draw.
        out: run directory to write, or the draft of a run that this audit belongs to; nothing is written when None.
        overwrite: replace a finished run in ``out`` (finished reference models are kept and reused).
        progress: called with (done, total, note) while reference models are trained.
        pool: where finished reference models are kept and found; ``out/pool`` when None.
        plan: the plan the arguments came from, to be kept in the run directory.

    Returns:
        An `Audit`: ``result["lira"].auc``, ``result["lira"].tpr_at_fpr(0.01)``, ``result.report(path)``.

    Raises:
        divulge.InputError: anything that does not fit, before work starts: NaN or infinity, shapes, labels
            out of range or missing, duplicates across the sets, an unknown recipe, an unseen class that the
            population holds or the candidates lack, too few non-members for ``fpr``, logits that are
            probabilities, a directory in use, a mask that does not fit or knows nothing of some record.

    Examples:
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
    whole = check(
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
        known=known,
        seed=seed,
    )
    given, seen = prepare(whole, imputer, seed)
    adapted = adapt(target, outputs=outputs, device=device)
    classes = label_set(adapted, given)
    run = _Run(
        given,
        adapted,
        classes,
        references,
        seed,
        tuple(fpr),
        progress or silent,
        seen,
        None if pool is None else Path(pool),
    )
    settings = describe.settings(whole, references, fpr, calibration, duplicates, outputs, device, seed)
    settings["target"] = describe.target(adapted)
    if known is not None:
        settings["partial"] = dict(WHOLE) if seen is None else seen.about() | {"known": store.digest(seen.seen.known)}
    if out is None:
        return run.result(settings, None)
    if isinstance(out, Draft):
        return run.keep(settings, plan, out)
    with Dossier(Path(out)).writing(KIND, store.digest(settings), overwrite=overwrite) as draft:
        return run.keep(settings, plan, draft)


@dataclass(slots=True)
class _Run:
    """One audit in progress: the order of work, its clock and its meters."""

    given: Inputs
    target: GivesLogits
    classes: int
    references: Any
    seed: int
    fpr: tuple[float, ...]
    progress: Progress
    partial: Partial | None = None
    pool: Path | None = None
    timings: dict[str, float] = field(default_factory=dict)
    queries: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    engine: str = ""

    def keep(self, settings: Mapping[str, Any], plan: Mapping[str, Any] | None, draft: Draft) -> Audit:
        """The result, with all of it written into ``draft``."""
        self.pool = self.pool or draft.home / "pool"
        result = self.result(settings, draft.home)
        draft.write_plan(plan or settings)
        result.save(draft)
        return result

    def result(self, settings: Mapping[str, Any], path: Path | None) -> Audit:
        given = self.given
        views = self._measure()
        scores, nulls = {}, {}
        for recipe in given.recipes:
            both = self._timed(f"attack {recipe.name}", partial(self._score, recipe, views))
            scores[recipe.name], nulls[recipe.name] = both[: len(given.candidates)], both[len(given.candidates) :]
        checked = self._timed("blind baseline", self._blind)
        carried = self._timed("transfer", partial(self._transfer, nulls, views[0], max(self.fpr)))
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
            "partial": settings.get("partial"),
        }
        return Audit(
            scores=scores,
            nulls=nulls,
            signals={name: values[: len(given.candidates)] for name, values in views[0].target.items()},
            ids=np.asarray(given.candidates.ids),
            members=given.members,
            labels=given.candidates.y,
            null_labels=given.calibration.y,
            unseen_classes=given.unseen_classes,
            fpr=self.fpr,
            about=about,
            exhibits=exhibits.choose(given.candidates, given.members, scores),
            groups=given.groups,
            path=path,
        )

    def _measure(self) -> list[Measurements]:
        """Signals of candidates, calibration and population: the first two are treated exactly alike.

        One `Measurements` for each view of the records: a single one, unless unknown values were completed
        several times.
        """
        given = self.given
        views = (given.everything,) if self.partial is None else self.partial.views
        names = tuple(dict.fromkeys(r.signal for r in given.recipes if isinstance(r.signal, str)))
        targets = [self._timed("target", partial(self._asked, view, names)) for view in views]
        targets[0] |= self._active(views[0])
        references, trained_on = self._reference_signals(views, names)
        inside = np.arange(len(views[0])) >= len(views[0]) - len(given.population)
        conditions = self._conditions(views[0], inside)
        return [
            Measurements(
                target=target,
                candidates=len(given.candidates) + len(given.calibration),
                labels=view.y,
                features=None if conditions is None else conditions[: len(view)],
                references=None if references is None else references[at],
                trained_on=None if trained_on is None else trained_on[:, : len(view)],
            )
            for at, (view, target) in enumerate(zip(views, targets, strict=True))
        ]

    def _conditions(self, view: Records, inside: Bools) -> Floats | None:
        """Features, where an attack or the assessment of unseen classes reads them."""
        if not (self.given.unseen_classes or any(recipe.features for recipe in self.given.recipes)):
            return None
        return self._timed("features", lambda: features(view, inside, self.seed))

    def _asked(self, view: Records, names: Sequence[str]) -> dict[str, Floats]:
        """Classification signals of one view, by name."""
        if not names:
            return {}
        return dict(zip(names, of_logits(self.target.logits(view), view.y, names).T, strict=True))

    def _active(self, records: Records) -> dict[str, Floats]:
        """Signals that themselves question the target, by name."""
        found: dict[str, Floats] = {}
        for signal in {r.signal_name: r.signal for r in self.given.recipes if not isinstance(r.signal, str)}.values():
            if isinstance(signal, PartialSignal):
                assert self.partial is not None
                seen, own = self.partial.seen, self.given.population
                work = partial(
                    active.completed, signal, self.target, seen, own, self.references, self.classes, self.seed
                )
            else:
                work = partial(active.asked, signal, self.target, records)
            found[signal.name], self.queries[signal.name] = self._timed(f"signal {signal.name}", work)
        return found

    def _reference_signals(
        self, views: Sequence[Records], names: Sequence[str]
    ) -> tuple[list[Mapping[str, Floats]] | None, Bools | None]:
        needed = {recipe.references for recipe in self.given.recipes} - {"none"}
        if not needed:
            return None, None
        records, rows = views[0], self._splits(views[0], online="in and out" in needed).trained_on
        if self.partial is not None:
            records, rows = self.partial.training(self.given.population, rows)
        trained = self._timed(
            "reference models",
            lambda: self.references.fit(
                records,
                rows,
                seed=self.seed,
                classes=self.classes,
                observe=views,
                signal=lambda logits, labels: of_logits(logits, labels, names),
                pool=self.pool,
                out=self._sheets(len(records) * len(names)),
                progress=self.progress,
            ),
        )
        self.engine = trained.engine
        self.warnings += trained.warnings
        signals: list[Mapping[str, Floats]] = [
            {name: outputs[:, :, k] for k, name in enumerate(names)} for outputs in trained.outputs
        ]
        finished = trained.trained_on
        return signals, finished if self.partial is None else self.partial.trained_on(finished)

    def _sheets(self, columns: int) -> Path | None:
        """Where reference signals too many for memory are mapped from disk; attacks read them in blocks."""
        large = self.references.count * columns * 4 > MOST_BYTES
        return self.pool / ".signals" if large and self.pool is not None else None

    def _splits(self, records: Records, *, online: bool) -> Any:
        from divulge.references import splits

        outside = np.arange(len(records)) < len(records) - len(self.given.population)
        held = None if online else outside
        return splits.offline(len(records), self.references.count, self.seed, candidates=held, labels=records.y)

    def _score(self, recipe: Recipe, views: Sequence[Measurements]) -> Floats:
        scores = [self._attack(recipe, evidence) for evidence in evidences(recipe, views)]
        found: Floats = np.asarray(np.mean(scores, axis=0), dtype=np.float64)
        if found.shape != (views[0].candidates,) or not np.isfinite(found).all():
            raise checks.InputError(
                f"recipes: {recipe.name} returned {found.shape} scores, {int((~np.isfinite(found)).sum())} of them not "
                f"finite, where {views[0].candidates} are needed"
            )
        return found

    def _attack(self, recipe: Recipe, evidence: Evidence) -> Floats:
        if not isinstance(recipe.attack, QuantileRegression):
            return recipe.attack.score(evidence)
        scored = recipe.attack.score_with_nulls(evidence)
        self.warnings += [f"{recipe.name}: {note}" for note in scored.notes]
        return scored.scores

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
            "reads": recipe.reads,
            "attack": repr(recipe.attack),
            "references": self._met(recipe),
            "summary": recipe.summary,
            "queries": self._queries(recipe),
            "raw_thresholds": self._raw_thresholds(recipe),
            "completed_by": None if self.partial is None else self.partial.completer(recipe),
        }

    def _raw_thresholds(self, recipe: Recipe) -> dict[str, float]:
        """Thresholds a quantile regressor would set by itself, by level; none for other attacks."""
        if not isinstance(recipe.attack, QuantileRegression):
            return {}
        return {f"{level:g}": recipe.attack.nominal_threshold(level) for level in self.fpr}

    def _met(self, recipe: Recipe) -> str:
        """The reference models a recipe really had: one online recipe makes those of all the run online."""
        online = any(other.references == "in and out" for other in self.given.recipes)
        return "in and out" if online and recipe.references == "out" else recipe.references

    def _queries(self, recipe: Recipe) -> int:
        """Records the target is asked about for this recipe."""
        if recipe.signal_name in self.queries:
            return self.queries[recipe.signal_name]
        held = len(self.given.candidates) + len(self.given.calibration)
        draws = 1 if recipe.imputed is None else recipe.imputed.draws
        return draws * held if draws > 1 else held + len(self.given.population)

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
