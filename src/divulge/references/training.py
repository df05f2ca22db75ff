"""Reference models: networks and cloned estimators (`Train`), the user's own (`Custom`), fine-tunes (`FineTune`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import errors, lazy, settings, store, targets
from divulge.errors import InputError
from divulge.references import clones, fitting, matching, pool
from divulge.references.engines import EngineName, Placement
from divulge.references.hyperparameters import FineTuneSettings, Hyperparameters
from divulge.references.jobs import (
    Execute,
    InternalSignal,
    Job,
    LocalEngine,
    OutputLearner,
    Predict,
    Signal,
    Task,
    Tick,
    Trained,
    TrainedModel,
    count_classes,
    output_only_model,
)
from divulge.references.progress import Progress
from divulge.references.record_source import RecordSource
from divulge.references.splits import Splits
from divulge.targets.rights import check_outputs
from divulge.types import Array, Bools, Floats, Ints, Records
from divulge.validation import require_callable

if TYPE_CHECKING:
    import torch

    from divulge import networks
    from divulge.references import fine_tuning, network_learner, network_training
    from divulge.targets import CausalLM, torch_modules
else:
    torch_modules = lazy.module("divulge.targets.torch_modules")
    network_training = lazy.module("divulge.references.network_training")
    network_learner = lazy.module("divulge.references.network_learner")
    networks = lazy.module("divulge.networks")
    fine_tuning = lazy.module("divulge.references.fine_tuning")


_TRAINING = settings.TrainingSettings()
_CUSTOM = settings.CustomTrainingSettings()


class _ReferenceTraining(ABC):
    """Training of many models on splits of the records."""

    __slots__ = ()

    @abstractmethod
    def _train(self, request: fitting.TrainingRequest, seed: int) -> Trained:
        """Train the models of a request."""

    def fit(
        self,
        records: Records | RecordSource,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        signal: Signal | None = None,
        classes: int | None = None,
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
        inside: InternalSignal | None = None,
        measure: InternalSignal | None = None,
    ) -> Trained:
        """Train the models of ``splits`` and keep their outputs on the observed records.

        Args:
            records: what the models are trained on, with labels; `divulge.references.scan_records` where they are to be
                read from files where each model is trained.
            splits: bool ``[m, n]``, True where model ``i`` is trained on record ``j``.
            seed: the user's seed; model ``i`` has its own stream, whatever the number of models.
            observe: sets of records each model is queried on while it is in memory.
            signal: reduces logits ``[b, K]`` and labels ``[b]`` to ``[b]`` or ``[b, q]``; None keeps the logits.
            classes: size of the whole label set, classes without records included; None: the largest label plus one.
            pool: folder of finished models; those whose key matches are not trained again.
            out: folder for memory-mapped outputs; None keeps them in memory.
            progress: called with what is done.
            inside: called with each model as a target and the first set of observed records; returns ``[n, w]``, which
                is kept beside what ``signal`` returns.
            measure: called in place of asking for logits, for models of `Custom` that are no classifiers: with each
                model as a target and some observed records; returns what is kept of them, ``[b, w]``.

        On the CPU a process trains networks on one thread: networks of this size gain little from more, and where other
        work runs beside them they lose much. Several cores are used by several processes.

        Raises:
            divulge.InputError: bad input, before any training; a full disk; no model that did not diverge.
        """
        request = fitting.TrainingRequest(
            records, splits, tuple(observe), signal, classes, pool, out, progress, inside, measure
        )
        return self._train(request, seed)


@dataclass(frozen=True, slots=True)
class Train(Hyperparameters, _ReferenceTraining):
    """Train ``count`` networks with cross-entropy, or ``count`` clones of an estimator.

    Args:
        make_model: returns a new ``torch.nn.Module`` with one output (logit) per class; called with the model's seed
            if it takes one, otherwise with nothing. Torch's generators are seeded for the call either way. It may
            return an unfitted estimator in scikit-learn's idiom instead, whose copies are trained without torch; and
            None (the default), in an audit of such an estimator, trains clones of the target with its parameters.
            Of the settings below, estimators have ``count``, ``engine`` and ``workers`` alone.
        count: number of reference models.
        epochs: passes over a model's records.
        optimizer: "sgd" (with momentum), "adam" or "adamw".
        lr: learning rate; None means 0.02 for "sgd", 0.001 for the others.
        momentum: of "sgd".
        weight_decay: as torch's optimisers define it.
        batch_size: records per step; a last batch of one record joins the one before.
        schedule: "constant", "cosine" (to zero), "linear" (to zero), or a function from the share of steps done
            (0 to 1) to a factor on ``lr``.
        stop_at_accuracy: stop a model after the first epoch whose running training accuracy reaches this.
        augment: ``augment(x, generator) -> x`` on each batch tensor, drawing from the ``torch.Generator`` it is given.
        privacy: train with DP-SGD; ``batch_size`` is then the expected size of a Poisson sample.
        precision: "single", "double", or "mixed" (bfloat16 autocast).
        stop_after: epochs after which training stops, of the ``epochs`` that the schedule is made for; None for all.
        engine: "serial" (one after the other), "stacked" (many at once), "processes" (several on this machine),
            "ray" (several machines), or "auto" (a short measured trial chooses).
        device: "auto" (CUDA, else Apple's MPS, else CPU), "cpu", "cuda" or "mps" of the machine that trains: with "ray"
            of its nodes, whatever this one has.
        workers: processes for "processes"; None means one per core.
        gpus: GPUs of each task of "ray", also a part of one; None means 1 where the cluster has any, 0 for estimators.
        match: in an audit, choose the settings whose models answer most like the target on records of the population
            that neither was trained on (`divulge.references.matching`): "auto" tries learning rates and epochs (of an
            estimator that ``make_model`` returns, its usual parameters), a mapping of settings or an estimator's
            parameters to lists tries all combinations of these values. None: the settings as they are.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> Train(lambda: ..., count=4, lr=0.1).learning_rate
        0.1
    """

    count: int = _TRAINING.count
    _: KW_ONLY
    engine: EngineName = _TRAINING.engine
    device: str = "auto"
    workers: int | None = _TRAINING.workers
    gpus: float | None = _TRAINING.gpus
    match: Literal["auto"] | Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        Hyperparameters.__post_init__(self)  # super() needs the class that slots=True replaces
        object.__setattr__(self, "match", matching.check_match(self.match))

    def brief(self) -> Train:
        """Return settings for one model and one epoch in this process, from which the time is forecast."""
        return replace(self, count=1, epochs=1, engine="serial", stop_at_accuracy=None, stop_after=None, match=None)

    @property
    def trains_elsewhere(self) -> bool:
        """Whether models are trained on a device that other machines have, so that no time is measured on this one."""
        return self.engine == "ray" and self.device != "cpu" and not torch_modules.has_device(self.device)

    def with_settings(self, **changes: Any) -> Train:
        """Return the training with other settings.

        Raises:
            divulge.InputError: one that networks do not have, or a value out of its range.
        """
        matching.check_names(changes, Train)
        return replace(self, **changes)

    def make_learner(self, records: Records) -> network_learner.NetworkLearner:
        """Return the learner of these settings for such records."""
        return network_learner.NetworkLearner(network_training.initialize_lazy(self, records.x), self.device)

    def for_target(self, target: Any) -> Any:
        """Return how references are trained for an adapted target: clones, where an estimator is to be trained.

        Raises:
            divulge.InputError: no ``make_model`` and a target that is no estimator; a target with fitted parts;
                settings that only networks have.
        """
        return clones.resolve_training(self, target)

    def untrained(self, records: Records) -> torch.nn.Module:
        """Return a network for such records as ``make_model`` makes it, with the weights of seed 0, before training.

        Raises:
            divulge.InputError: ``make_model`` returns no network with parameters.
        """
        config = network_training.initialize_lazy(self, records.x)
        return network_training.build_network(config.make_model, 0).to(
            dtype=network_training.weights_dtype(self.precision)
        )

    def _train(self, request: fitting.TrainingRequest, seed: int) -> Trained:
        matching.require_chosen(self.match)
        if request.measure is not None:
            raise InputError("references: Train makes classifiers; models of another kind need references.Custom")
        if (estimator := clones.build_estimator(self.network_function())) is not None:
            self.check_network_settings()
            clone_training = clones.CloneTraining(estimator, self.count, self.engine, self.workers)
            return clone_training.fit_request(request, seed)
        first_records = request.records[np.arange(1)] if isinstance(request.records, RecordSource) else request.records
        with networks.single_thread():
            config = network_training.initialize_lazy(self, getattr(first_records, "x", None))
            learner = network_learner.NetworkLearner(config, self.device)
            placement = Placement(self.engine, self.workers, self.gpus)
            return fitting.fit_references(learner, request, self.count, seed, placement)

    def train_model(
        self, records: Records, *, seed: int, classes: int | None = None, progress: Progress | None = None
    ) -> torch.nn.Module:
        """Train a single network on all ``records`` (a target for a demonstration), in evaluation mode, on the CPU.

        Raises:
            divulge.InputError: bad input, or the loss became NaN.
        """
        if progress is not None:
            require_callable(progress, "progress")
        config = network_training.initialize_lazy(self, getattr(records, "x", None))
        learner = network_learner.NetworkLearner(config, self.device)
        return network_learner.train_single(learner, records, seed, count_classes(records, classes), progress)


def train_one(
    make_model: Callable[..., Any],
    records: Records,
    *,
    seed: int,
    classes: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> torch.nn.Module:
    """Train one network on ``records``; ``settings`` are the fields of `Train`.

    Raises:
        divulge.InputError: bad input, or the loss became NaN.
    """
    return Train(make_model, **settings).train_model(records, seed=seed, classes=classes, progress=progress)


@dataclass(frozen=True, slots=True)
class Custom(_ReferenceTraining):
    """The user's own training, of any kind of model.

    Args:
        train: ``train(records, seed) -> target``; the target is anything `divulge.targets.adapt` takes: a network, a
            scikit-learn classifier, a function from ``x[b, ...]`` to ``[b, K]``, an object with ``logits(records)``, or
            one of the user's own modality, as the audited target is. Where that is a regression model: a fitted
            regressor, a network or function of one output, or an object with ``predictions(records)``.
        count: number of reference models.
        version: part of the pool's key. Name, source and captured values of ``train`` are in the key too, but what
            it imports is not: change this when that changes.
        outputs: "logits" or "probabilities": what a network or function returns.
        engine: "serial" (one after the other, with all the threads that ``train`` uses), "processes", "ray", or "auto":
            the first model is trained here and timed, and where the others would take more than 15 seconds, they are
            spread over processes, except for a ``train`` that uses a GPU or cannot be pickled. All but "serial" train
            on one thread, and give the same models bit for bit.
        workers: processes for "processes"; None means one per core.
        gpus: GPUs that ``train`` uses, in each task of "ray"; None means 0.

    Adapters are put on the base itself and taken off again: it is in memory once, for all models and for what asks the
    base alone. (Not where it is in half precision and ``precision`` is another: then models are trained on copies.)
    Where memory runs out the documents of a step go through the model in more parts.

    What the pool keeps of such a model are its outputs on the observed records.

    Raises:
        divulge.InputError: a setting out of its range.
    """

    train: Callable[[Records, int], Any]
    count: int = _CUSTOM.count
    version: str = _CUSTOM.version
    outputs: Literal["logits", "probabilities"] = _CUSTOM.outputs
    engine: Literal["auto", "serial", "processes", "ray"] = _CUSTOM.engine
    workers: int | None = _CUSTOM.workers
    gpus: float | None = _CUSTOM.gpus

    def __post_init__(self) -> None:
        if not callable(self.train):
            raise InputError("train: a function of records and a seed is needed")
        settings.CustomTrainingSettings.check_attributes(self)

    def _train(self, request: fitting.TrainingRequest, seed: int) -> Trained:
        return fitting.fit_references(
            _CustomLearner(self), request, self.count, seed, Placement(self.engine, self.workers, self.gpus)
        )


@dataclass(frozen=True, slots=True)
class _CustomLearner(OutputLearner):
    """The learner behind `Custom`: targets made by ``config.train``."""

    config: Custom

    @property
    def timed_by_doing(self) -> bool:
        """True: nothing is known of the user's function."""
        return True

    def settings(self) -> dict[str, str]:
        """Return the function's name and version."""
        return {"train": getattr(self.config.train, "__qualname__", "?"), "version": self.config.version}

    def width(self, records: Records, classes: int | None) -> int:
        """Return the size of the whole label set."""
        return count_classes(records, classes)

    def check(self, task: Task) -> None:
        """Accept anything: nothing can be known before the user's function has run."""

    def trial(
        self, task: Task, jobs: Sequence[Job], *, untimed: bool, execute: Execute | None = None
    ) -> tuple[LocalEngine, float, str]:
        """Return the serial engine, without a trial."""
        return "serial", 0.0, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Return a digest of the function, its version, data, subset, seed, observed records and signal."""
        observed = [pool.digest_records(records) for records in task.observe]
        training_function = pool.digest_function(self.config.train), self.config.version, self.config.outputs
        stored = [
            pool.digest_function(task.signal),
            *(pool.digest_function(function) for function in (task.inside, task.measure) if function is not None),
        ]
        return store.hash_values(pool.ARITHMETIC_VERSION, training_function, task.data, rows, seed, observed, *stored)[
            :32
        ]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that calls the user's training on the records of a job."""

        def learn(job: Job, tick: Tick) -> TrainedModel:
            with errors.user_code_errors("train"):
                target = self.config.train(task.records[job.rows], job.seed)
            tick(1.0)
            if task.measure is not None:
                model = targets.adapt_output_model(target)
                return output_only_model(partial(task.measure, model), model)
            target_model = adapt_trained_model(target, task.classes, self.config.outputs)
            return output_only_model(checked_predictor(target_model, task.classes), target_model)

        return learn


def adapt_trained_model(target: Any, classes: int, outputs: str) -> targets.GivesLogits:
    """Wrap a model that the user trained as a target.

    Raises:
        divulge.InputError: not a target.
    """
    # A classifier that never saw a class has no output for it: its adapter is told the whole label set.
    is_classifier = hasattr(target, "classes_") and not isinstance(target, targets.GivesLogits)
    return targets.SklearnTarget(target, classes=classes) if is_classifier else targets.adapt(target, outputs=outputs)


def checked_predictor(target: targets.GivesLogits, classes: int) -> Predict:
    """Return a function from records to logits ``[b, classes]``, which raises for outputs of another width."""

    def predict(records: Records) -> Floats:
        logits = target.logits(records)
        if logits.shape != (len(records), classes):
            raise InputError(f"train: outputs of shape ({len(records)}, {classes}) are needed, got {logits.shape}")
        check_outputs(target, logits, records.labels)
        return logits.astype(np.float32)

    return predict


@dataclass(frozen=True, slots=True)
class FineTune(FineTuneSettings):
    """Fine-tune ``count`` copies of a base model on documents, with next-token cross-entropy.

    As the target was made, so should these be: the same base, epochs, learning rate and kind of fine-tuning. The
    optimiser is AdamW; gradients are clipped to norm 1; documents longer than the context are trained on in stretches.

    Args:
        base: folder or ``hf:NAME`` of the model that the target was fine-tuned from, or a `divulge.targets.CausalLM`.
        count: number of reference models; 0 asks the base alone.
        epochs: passes over a model's documents.
        lr: highest learning rate; None means 5e-5, and 2e-4 for LoRA.
        batch_size: documents per step.
        lora: adapters in place of a full fine-tune.
        schedule: "linear" (to zero), "cosine" (to zero) or "constant".
        warmup: share of the steps in which the learning rate rises.
        weight_decay: of AdamW.
        stop_after: epochs after which training stops, of the ``epochs`` that the schedule is made for; None for all.
        length: longest stretch of tokens in training; the base's context when None.
        bos: "tokenizer", "add" or "none", see `divulge.targets.CausalLM`; for a base given as a folder.
        precision: "single"; "mixed" (products in bfloat16); or "bfloat16" (the base too, which needs ``lora``).
        quantization: "4bit" for a base given as a folder whose layers have four bits a weight (needs ``lora``).
        gradient_checkpointing: whether layers are computed again for their gradients, which saves memory.
        gradient_accumulation_steps: parts in which the documents of a step go through the model.
        engine: "serial", "processes" (several on this machine), "ray" (several machines), or "auto" (processes, on a
            CPU and where a short measured trial says that the work is worth their start).
        device: where models are trained, as of `Train`: "auto", "cpu", "cuda" or "mps".
        workers: processes for "processes"; None means one per core.
        gpus: GPUs of each task of "ray", also a part of one; None means 1 where the cluster has any.
        match: in an audit, choose the settings whose models answer most like the target on documents of the population
            that neither was trained on (`divulge.references.matching`): "auto" tries learning rates and epochs, a
            mapping of settings to lists all combinations of these values. None: the settings as they are.

    What the pool keeps of such a model is the log-probability of each token of the observed documents.

    Raises:
        divulge.InputError: a setting out of its range.

    Examples:
        >>> FineTune("base/", count=4, epochs=3).learning_rate
        5e-05
    """

    def load_base(self) -> fine_tuning.LoadedFineTune:
        """Load the base into memory, once for everything that is asked of it.

        Raises:
            divulge.InputError: a base that cannot be loaded, or is no language model.
        """
        return fine_tuning.LoadedFineTune(self)

    def fit(
        self,
        records: Records | RecordSource,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
    ) -> Trained:
        """Fine-tune the models of ``splits`` and keep how likely they find each token of the observed documents.

        Args:
            records: the documents that models are trained on.
            splits: bool ``[m, n]``, True where model ``i`` is trained on document ``j``.
            seed: the user's seed; model ``i`` has its own stream, whatever the number of models.
            observe: sets of documents each model is asked about while it is in memory.
            pool: folder of finished models; those whose key matches are not trained again.
            out: folder for memory-mapped outputs; None keeps them in memory.
            progress: called with what is done.

        Returns:
            `Trained`, whose outputs are float32 ``[m, t]``: one document after the other, tokens in order.

        Raises:
            divulge.InputError: bad input, before any training; a full disk; no model that did not diverge.
        """
        return self.load_base().fit(records, splits, seed=seed, observe=observe, pool=pool, out=out, progress=progress)

    def train_model(self, records: Records, *, seed: int, progress: Progress | None = None) -> CausalLM:
        """Fine-tune the base on all ``records``, as a target for a demonstration.

        Raises:
            divulge.InputError: bad input, or the loss became NaN.
        """
        return self.load_base().train_model(records, seed=seed, progress=progress)
