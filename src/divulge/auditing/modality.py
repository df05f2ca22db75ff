"""Modalities: outputs of a type of model, the records and recipes that fit it, and the computation of its signals.

`Modality` serves any model whose outputs are arrays with a row for each record. Classifiers and regression models
follow here, language models have a module of their own (`divulge.auditing.language_modality`); a target
of the user's own class declares one as its attribute ``modality``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import errors
from divulge import recipes as book
from divulge.auditing import plausibility, signals
from divulge.auditing.plausibility import SampleFit
from divulge.duplicates import first_of_each_group
from divulge.errors import InputError
from divulge.evidence import query_target, signals_from_answers, signals_from_logits
from divulge.recipes.recipe import CLASSIFIER_OUTPUTS
from divulge.references import FineTune, Train
from divulge.signals import internals
from divulge.signals.named import NAMED_SIGNALS, OutputSignal
from divulge.targets import as_regressor, declared_modality, is_label_only, is_regression_model
from divulge.targets.estimators import settle_frames
from divulge.targets.outputs import as_predictions
from divulge.targets.rights import check_outputs, class_name
from divulge.types import Records
from divulge.validation import check_array, check_choice, check_labels, check_string, check_strings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.auditing.prepared import AuditInputs, AuditLog, PreparedAudit
    from divulge.evidence import Measurements
    from divulge.recipes import Recipe
    from divulge.targets import Task
    from divulge.types import AuditData, Floats, Ints

_N_PROBED = 64  # candidates that show what the target's outputs are
_LEAST_SPREAD, _LARGEST_SPREAD = 1e-140, 1e140
"""Spread of real values for which squares of errors are ordinary floats, with room for the statistics of squares."""


@dataclass(frozen=True, slots=True)
class Modality:
    """A kind of model, as an audit sees it.

    Args:
        name: what messages call such a model: "a regression model".
        outputs: methods of a target that take `divulge.Records` and return an array with a row for each record.
        labels: what ``y`` of the records holds: "classes", or "real values" (given as float64, whole ones too).
        recipes: recipes that an audit of such a model may name.

    Raises:
        divulge.InputError: a name or output that is no text, other labels.

    Examples:
        >>> Modality("a regression model", ("predictions",)).outputs
        ('predictions',)
    """

    name: str
    outputs: tuple[str, ...]
    labels: Literal["classes", "real values"] = "real values"
    recipes: tuple[Recipe, ...] = ()

    def __post_init__(self) -> None:
        check_string(self.name, "Modality.name")
        object.__setattr__(self, "outputs", check_strings(self.outputs, "Modality.outputs"))
        check_choice(self.labels, "Modality.labels", ("classes", "real values"))

    @property
    def references(self) -> str:
        """Code that trains suitable reference models, for messages."""
        return "Custom(train, count=16)"

    def known_recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes that messages recommend."""
        return self.recipes

    def resolve_recipe(self, requested: object) -> Recipe:
        """Return the recipe that a name, a `divulge.recipes.Recipe` or "module:Class" means.

        Raises:
            divulge.InputError: an unknown name, an import that fails, another type.
        """
        recipes_by_name = {recipe.name: recipe for recipe in self.recipes}
        if isinstance(requested, str) and ":" not in requested:
            return recipes_by_name[check_choice(requested, "recipes", recipes_by_name)]
        return book.resolve(requested)

    def default_recipes(self, target: Any, references: Any) -> tuple[str, ...]:
        """Return the names of the recipes of an audit that names none: all that can run."""
        return tuple(r.name for r in self.recipes if references is not None or not r.needs_training)

    def auto_recipe(self, target: Any, references: Any, records: Any = None) -> Recipe:
        """Return the recipe "auto" for a target, references, which may be None, and the members.

        Raises:
            divulge.InputError: models of this kind have none.
        """
        return self.resolve_recipe(book.Auto.name)

    def check_recipes(self, recipes: Sequence[Recipe]) -> None:
        """Check that a model of this kind gives what the recipes' signals are computed from.

        Raises:
            divulge.InputError: a signal of another output, versions or completions of records, substitutes.
        """
        if unsuitable := [r.name for r in recipes if r.output is not None and r.output not in self.outputs]:
            raise InputError(
                f"recipes: {', '.join(unsuitable)} read other signals than those of {self.name}, the target"
            )

    def check_target(self, target: Any, recipes: Sequence[Recipe]) -> None:
        """Check that this very target gives what the recipes read.

        Raises:
            divulge.InputError: it does not.
        """
        for recipe in recipes:
            if recipe.output is not None and not callable(getattr(target, recipe.output, None)):
                raise InputError(f"target: it has no method {recipe.output}(records), which {recipe.name} reads")

    def check_references(self, references: Any, recipes: Sequence[Recipe], members: Records) -> None:
        """Check that the settings of the reference models make models of this kind.

        Raises:
            divulge.InputError: they make others.
        """
        if isinstance(references, Train | FineTune):
            raise InputError(
                f"references: the target is {self.name}: divulge.references.Custom is needed, got "
                f"{type(references).__name__}"
            )

    def prepare_data(self, data: AuditData) -> AuditData:
        """Return the data with ``y`` as this kind of model reads it.

        Raises:
            divulge.InputError: ``y`` holds real values where classes are needed, or names where real values are.
        """
        sets = {name: getattr(data, name) for name in ("members", "nonmembers", "population")}
        for name, records in sets.items():
            if not isinstance(records, Records):
                continue  # refused later, with the name of the argument
            if self.labels == "real values":
                sets[name] = records.with_real_values()
                y = sets[name].y
                half_spread = 0.0 if y is None else float(np.max(y) / 2 - np.min(y) / 2)  # a whole one may overflow
                if half_spread and not _LEAST_SPREAD <= 2 * half_spread <= _LARGEST_SPREAD:
                    raise InputError(
                        f"{name}: y: values must spread over {_LEAST_SPREAD:g} to {_LARGEST_SPREAD:g}, so that squares "
                        f"of errors are ordinary numbers, got {2 * half_spread:.3g}; give values and predictions in "
                        "another unit"
                    )
                continue
            sets[name] = labelled = records.with_class_labels()
            if labelled.y is not None and labelled.labels is None:
                raise InputError(
                    f"{name}: y: the target is {self.name}: whole-number labels are needed, or names of classes, got "
                    f"real values (first: {labelled.y[labelled.y % 1 != 0][0]:g})"
                )
        return replace(data, **sets)

    def check_records(self, sets: Mapping[str, Records]) -> None:
        """Check that the records of all sets are such as this kind of model takes.

        Raises:
            divulge.InputError: they are not.
        """

    def probe_target(self, target: Any, inputs: AuditInputs) -> int:
        """Check the target's answers on a few candidates, before any work; return the number of classes, 0 without any.

        Raises:
            divulge.InputError: as `measure_outputs`.
        """
        measure_outputs(target, inputs.candidates[:_N_PROBED], list(signals.output_signals(inputs.recipes).values()))
        return 0

    def count_reference_answers(self, audit: PreparedAudit, n_models: int) -> int:
        """Return how many answers of reference models take as long as the target's; 0 where they hardly count."""
        return 0

    def relative_size(self, records: Records, sample: Records) -> float:
        """Return how much longer an answer about one of ``records`` takes than about one of ``sample``."""
        return 1.0

    def open_references(self, references: Any, recipes: Sequence[Recipe]) -> Any:
        """Return the references ready for use, such as with their base model in memory."""
        return references

    def query(self, target: Any, records: Records) -> None:
        """Ask the target for its outputs once, so that the time can be measured."""
        for output in self.outputs:
            getattr(target, output)(records)

    def measure_fit(self, target: Any, members: Records) -> SampleFit | None:
        """Return how the target's answers about some members fit their labels; None where that says nothing."""
        return None

    def matched_answer(self, target: Any) -> str:
        """Return what of target and reference models is compared where settings are matched, in words."""
        return self.outputs[0]

    def measure_answers(self, target: Any, records: Records) -> Floats:
        """Return what settings of reference models are matched by, one number per record ``[n]``."""
        return np.asarray(getattr(target, self.outputs[0])(records), dtype=np.float64).reshape(len(records), -1)[:, 0]

    def estimate_memory(self, audit: PreparedAudit, n_models: int) -> int:
        """Estimate the bytes held at once for outputs of the target and of ``n_models`` reference models."""
        return 0

    def compute_signals(self, audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
        """Compute every signal that the recipes need, for each view of the records."""
        return signals.compute_signals(audit, log)

    def target_signals(
        self, audit: PreparedAudit, records: Records, required: Sequence[OutputSignal], log: AuditLog
    ) -> dict[str, Floats]:
        """Compute signals of the target by name; each output is asked for once."""
        return measure_outputs(audit.averaged_target, records, required)

    def reference_options(self, audit: PreparedAudit, required: Sequence[OutputSignal]) -> dict[str, Any]:
        """Return the arguments with which ``references.fit`` keeps these signals of every model, in this order."""
        return {"measure": partial(_stack_outputs, signals=tuple(required))}


def measure_outputs(target: Any, records: Records, required: Sequence[OutputSignal]) -> dict[str, Floats]:
    """Compute signals of a target or reference model by name; each output is asked for once.

    Raises:
        divulge.InputError: an output that the model does not give, answers that are not one finite row per record, a
            signal that is not one number per record.
    """
    answers: dict[str, Any] = {}
    for output in dict.fromkeys(signal.output for signal in required):
        name = f"{class_name(target)}.{output}"
        if not callable(getattr(target, output, None)):
            raise InputError(f"{name}: the model gives no such output")
        answers[output] = check_array(getattr(target, output)(records), name)
        if answers[output].shape[:1] != (len(records),):
            raise InputError(f"{name}: {len(records)} rows are needed, got shape {answers[output].shape}")
    values = {}
    for signal in required:
        with errors.user_code_errors(f"signal: {signal.name}"):
            value = signal.compute(answers[signal.output], records.y)
        value = check_array(value, f"signal: {signal.name}")
        if value.shape != (len(records),):
            raise InputError(f"signal: {signal.name}: shape ({len(records)},) is needed, got {value.shape}")
        values[signal.name] = value.astype(np.float64)
    return values


def _stack_outputs(target: Any, records: Records, signals: Sequence[OutputSignal]) -> Floats:
    """Compute signals of a reference model, ``[n, len(signals)]``."""
    return np.stack(list(measure_outputs(target, records, signals).values()), axis=1)


@dataclass(frozen=True, slots=True)
class Classifier(Modality):
    """Models that give logits of classes, or predicted labels alone."""

    name: str = "a classifier"
    outputs: tuple[str, ...] = CLASSIFIER_OUTPUTS
    labels: Literal["classes", "real values"] = "classes"

    @property
    def references(self) -> str:
        """Code that trains suitable reference models, for messages."""
        return "Train(make_model, count=16, epochs=…), or of an estimator Train(count=16), its clones"

    def resolve_recipe(self, requested: object) -> Recipe:
        """Return the recipe for classifiers that ``requested`` means."""
        return book.resolve(requested)

    def default_recipes(self, target: Any, references: Any) -> tuple[str, ...]:
        """Return "auto" and, where the target shows them, the loss to compare with and what reads no label.

        The largest probability stands alone: in a mean with attacks that read labels it would count half, and where
        the labels are not those of the training it is all that shows a leak.
        """
        return ("auto",) if is_label_only(target) else ("auto", "loss", "max-probability")

    def auto_recipe(self, target: Any, references: Any, records: Any = None) -> Recipe:
        """Return the attacks that do best with or without reference models, of logits or of labels alone."""
        return book.Auto().recipe_in(labels_only=is_label_only(target), has_references=references is not None)

    def known_recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes for whole records."""
        return book.recipes()

    def check_target(self, target: Any, recipes: Sequence[Recipe]) -> None:
        """Check that all recipes can use a target that gives labels alone, if this one does.

        Raises:
            divulge.InputError: one reads logits, or trains models on them.
        """
        if not is_label_only(target):
            return
        if unusable := [recipe.name for recipe in recipes if recipe.needs_logits]:
            usable = [recipe.name for recipe in book.label_recipes()]
            raise InputError(
                f"target: it gives labels alone, but {', '.join(unusable)} read logits; what labels are enough for: "
                f"{', '.join(usable)}"
            )

    def check_references(self, references: Any, recipes: Sequence[Recipe], members: Records) -> None:
        """Check that references are classifiers, and that texts are not to be learned by networks.

        Raises:
            divulge.InputError: fine-tunes of language models; networks, which take numbers, on texts.
        """
        if isinstance(references, FineTune):
            raise InputError(
                "references: the target is a classifier: divulge.references.Train or Custom is needed, got FineTune"
            )
        has_texts = members.x.dtype == object
        if isinstance(references, Train) and has_texts and any(recipe.needs_training for recipe in recipes):
            raise InputError(
                "references: Train makes networks, which learn from numbers, and the records are texts; give "
                "references=divulge.references.Custom(train), whose function may train any classifier of texts"
            )

    def check_records(self, sets: Mapping[str, Records]) -> None:
        """Check that labels are of several classes."""
        labels = [records.labels for records in sets.values() if records.labels is not None]
        if labels and len(classes := np.unique(np.concatenate(labels))) < 2:
            raise InputError(
                f"records: all labels are {classes[0]}; with a single class, a classifier's output carries no "
                "information"
            )

    def probe_target(self, target: Any, inputs: AuditInputs) -> int:
        """Return the width of the logits; of a target that gives labels alone, as far as its answers show.

        Every label must fit it, and outputs that are not as declared are refused here.
        """
        labelled = {"members, nonmembers": inputs.candidates.labels, "population": inputs.population.labels}
        if is_label_only(target):
            label_sets = [target.labels(inputs.candidates[:_N_PROBED]), *labelled.values()]
            return 1 + max(int(labels.max()) for labels in label_sets if labels is not None)
        width = target.logits(inputs.candidates[:_N_PROBED]).shape[1]
        for name, labels in labelled.items():
            if labels is None:
                continue
            try:
                check_labels(labels, f"{name}: y", classes=width)
            except InputError as error:
                if width > 2:
                    raise
                raise InputError(
                    f"{error}; if the target predicts a real value, say task='regression', in a plan "
                    'task = "regression"'
                ) from None
        return width

    def matched_answer(self, target: Any) -> str:
        """Return what is compared: scaled logits of the true class, or whether the label is right."""
        return "correct labels" if is_label_only(target) else "scaled logits of the true class"

    def measure_answers(self, target: Any, records: Records) -> Floats:
        """Return scaled logits of the true class, or 1 where a target of labels alone is right, ``[n]``."""
        name = "correctness" if is_label_only(target) else "scaled-logit"
        logits, predicted = query_target(target, records, (name,))
        classes = 2 if records.labels is None else max(2, 1 + int(max(records.labels.max(), predicted.max())))
        return signals_from_answers(logits, predicted, records.labels, (name,), classes)[:, 0]

    def query(self, target: Any, records: Records) -> None:
        """Ask the target for its logits, or its labels, once."""
        query_target(target, records, ())

    def measure_fit(self, target: Any, members: Records) -> SampleFit | None:
        """Return the target's accuracy beside that of the most frequent class."""
        if members.labels is None:
            return None
        _, predicted = query_target(target, members, ())
        share = float(np.unique(members.labels, return_counts=True)[1].max()) / len(members)
        return SampleFit(len(members), "accuracy", float((predicted == members.labels).mean()), share)

    def compute_signals(self, audit: PreparedAudit, log: AuditLog) -> list[Measurements]:
        """Compute every signal that the recipes need, and record which labels the target predicts."""
        measured = signals.compute_signals(audit, log)
        if log.predicted_labels is None:  # no signal has queried the target for its outputs
            candidates = audit.views[0][: audit.layout.candidates]
            _record_answers(audit, *query_target(audit.averaged_target, candidates, ()), log)
        return measured

    def target_signals(
        self, audit: PreparedAudit, records: Records, required: Sequence[OutputSignal], log: AuditLog
    ) -> dict[str, Floats]:
        """Compute signals of the target from one query, and record its predicted labels of the first view."""
        output_only = [signal for signal in required if signal.output != "internals"]
        inside = [signal.name for signal in required if signal.output == "internals"]
        logits, predicted = query_target(audit.averaged_target, records, output_only)
        if log.predicted_labels is None:  # the first view, with the records as they are
            check_outputs(audit.target, logits, records.labels)
            _record_answers(audit, logits, predicted, log)
        values = signals_from_answers(logits, predicted, records.labels, output_only, max(2, audit.n_classes)).T
        white_box = internals.measure(audit.target, records, inside).T if inside else ()
        return dict(zip([*(s.name for s in output_only), *inside], [*values, *white_box], strict=True))

    def reference_options(self, audit: PreparedAudit, required: Sequence[OutputSignal]) -> dict[str, Any]:
        """Return the arguments with which ``references.fit`` keeps these signals, those of the inside last."""
        output_names = tuple(_name_if_known(signal) for signal in required if signal.output != "internals")
        inside = tuple(signal.name for signal in required if signal.output == "internals")
        options: dict[str, Any] = {
            "classes": audit.n_classes,
            "signal": lambda logits, labels: signals_from_logits(logits, labels, output_names),
        }
        # References of the user's own may return outputs alone: their inside is read only where a recipe needs it.
        return options | ({"inside": partial(signals.measure_reference, names=inside)} if inside else {})


def _record_answers(audit: PreparedAudit, logits: Floats | None, predicted: Ints, log: AuditLog) -> None:
    """Record the classes that the target predicts, and how well its logits fit the members."""
    log.predicted_labels = predicted
    inputs = audit.inputs
    if logits is None or inputs.candidates.labels is None:
        return
    is_member = inputs.truth
    if inputs.duplicate_groups is not None:
        is_member = is_member & first_of_each_group(inputs.duplicate_groups, is_member)
    members = np.flatnonzero(is_member)
    log.fit = plausibility.measure_class_fit(logits[members], inputs.candidates.labels[members], audit.seed)


def _name_if_known(signal: OutputSignal) -> str | OutputSignal:
    """Return the name of one of our signals, by which a pool knows models again; otherwise the signal itself."""
    return signal.name if NAMED_SIGNALS.get(signal.name) is signal else signal


_N_OUTPUTS_PROBED = 2  # records that show how many outputs a network or function has


@dataclass(frozen=True, slots=True)
class RegressionModel(Modality):
    """Models that predict one real value of each record."""

    name: str = "a regression model"
    outputs: tuple[str, ...] = ("predictions",)

    @property
    def references(self) -> str:
        """Code that trains suitable reference models, for messages."""
        return "Train(count=16) where the target is an estimator, or Custom(train, count=16)"

    def known_recipes(self) -> tuple[Recipe, ...]:
        """Return the recipes for regression models."""
        return book.regression_recipes()

    def resolve_recipe(self, requested: object) -> Recipe:
        """Return the recipe for regression models that ``requested`` means."""
        return book.resolve_regression(requested)

    def default_recipes(self, target: Any, references: Any) -> tuple[str, ...]:
        """Return "auto", and the loss to compare with."""
        return ("auto", "loss")

    def auto_recipe(self, target: Any, references: Any, records: Any = None) -> Recipe:
        """Return the attacks that do best with or without reference models."""
        return book.on_errors(book.Auto().recipe_in(has_references=references is not None))

    def measure_fit(self, target: Any, members: Records) -> SampleFit | None:
        """Return the target's mean absolute error beside that of the median of the values."""
        if members.y is None:
            return None
        errors = np.abs(as_predictions(target.predictions(members), len(members)) - members.y)
        spread = np.abs(members.y - np.median(members.y))
        return SampleFit(len(members), "error", float(errors.mean()), float(spread.mean()))

    def matched_answer(self, target: Any) -> str:
        """Return what is compared: predictions."""
        return "predictions"

    def target_signals(
        self, audit: PreparedAudit, records: Records, required: Sequence[OutputSignal], log: AuditLog
    ) -> dict[str, Floats]:
        """Compute signals of the target by name, and how well it predicts, from one query."""
        predictions = as_predictions(audit.averaged_target.predictions(records), len(records))
        if log.fit is None and records.y is not None:
            rows = audit.layout.candidate_rows
            log.fit = plausibility.measure_regression_fit(records.y[rows], predictions[rows], audit.inputs.truth)
        return measure_outputs(_Answered(predictions), records, required)


@dataclass(frozen=True, slots=True, eq=False)
class _Answered:
    """Predictions that were made, as a target that makes them."""

    values: Floats

    def predictions(self, records: Records) -> Floats:
        """Return the predictions, which are of these records."""
        return self.values


def resolve_task(target: Any, data: AuditData, task: Task) -> Any:
    """Return the target as a classifier or as a regression model, as ``task`` says or, for "auto", data and outputs.

    A network or function of one output, whose records have real values in ``y``, is a regression model. Where all of
    ``y`` are whole numbers, it may be either, and is taken for a classifier. An estimator is given data frames of the
    library that it can read (`divulge.targets.estimators.settle_frames`).

    Raises:
        divulge.InputError: a model that is not of this task.
    """
    if declared_modality(target) is not None:
        return target
    if isinstance(data.population, Records):
        target = settle_frames(target, data.population)
    if task == "regression":
        return as_regressor(target)
    if task == "classification":
        if is_regression_model(target):
            raise InputError(
                'target: task = "classification" needs a model that gives classes, and this one predicts real values'
            )
        return target
    if not callable(getattr(target, "raw_outputs", None)) or not _has_real_values(data):
        return target
    probe = data.members[:_N_OUTPUTS_PROBED]
    outputs = np.asarray(target.raw_outputs(probe))
    return as_regressor(target) if outputs.size == len(probe) == len(outputs) else target


def _has_real_values(data: AuditData) -> bool:
    sets = (data.members, data.nonmembers, data.population)
    if not all(isinstance(each, Records) for each in sets):
        return False  # refused later, with the name of the argument
    return any(each is not None and each.y is not None and each.labels is None for each in sets)
