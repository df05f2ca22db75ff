"""Fine-tuning of a language model: the learner behind `divulge.references.FineTune`, and its training loop."""

from __future__ import annotations

import contextlib
import copy
import math
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from divulge import errors, lazy, networks, people, seeds, store
from divulge.errors import InputError
from divulge.references import fitting, matching, pool
from divulge.references.engines import Placement
from divulge.references.jobs import (
    Execute,
    Job,
    LocalEngine,
    OutputLearner,
    Task,
    Tick,
    TrainedModel,
    Visit,
    output_only_model,
)
from divulge.references.network_training import DivergedError
from divulge.targets import device_memory, folders, language_models, token_statistics
from divulge.targets.language_models import CausalLM
from divulge.targets.pretrained import tokenizer_digest, weights_digest
from divulge.targets.torch_modules import has_device
from divulge.types import Array, Floats, Ints, Records
from divulge.validation import check_instance, format_bytes

if TYPE_CHECKING:
    import peft
    from peft.tuners import tuners_utils

    from divulge.references.hyperparameters import FineTuneSettings
    from divulge.references.jobs import Trained
    from divulge.references.network_training import AfterEpoch
    from divulge.references.progress import Progress
    from divulge.references.record_source import RecordSource
    from divulge.references.splits import Splits
    from divulge.targets.chat_templates import EncodedDocument
    from divulge.types import Bools
else:
    peft = lazy.module("peft")
    tuners_utils = lazy.module("peft.tuners.tuners_utils")


_MAX_GRADIENT_NORM = 1.0  # gradients are clipped to it, as the usual trainers do
# At their defaults they are not named, so that finished models are found that were trained before there was a choice.
_LATER_SETTINGS = (
    "stop_after",
    "precision",
    "quantization",
    "gradient_checkpointing",
    "gradient_accumulation_steps",
)
_EXECUTION = ("base", "count", "engine", "device", "workers", "gpus", "match")
_TRIAL_BATCHES = 3  # batches that a trial times, the first of them to warm up
_TIMED_PLACES = (0.5, 0.17, 0.83)  # of the batches in the order of their length, those that are timed
_TIMED_EPOCHS = 2
_TRAINED = "tokens in training"  # what is counted of a batch, beside those that are only scored
# In single precision: a copy; and where it is trained its gradients, and the two moments of AdamW.
_BYTES_PER_COPIED_WEIGHT, _BYTES_PER_WEIGHT = 4, 16


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What a step of training takes, as measured.

    Args:
        seconds: of a step.
        per_record: steps for each record in an epoch.
        memory: bytes beside the base's weights: copies, gradients, the optimiser's, activations.
        weights: bytes of the base's weights.
        free: bytes that the device can still give, the base being on it; None where it does not say.
        device: where.
    """

    seconds: float
    per_record: float
    memory: int
    weights: int
    free: int | None
    device: str


@dataclass(frozen=True, slots=True, eq=False)
class LoadedFineTune:
    """A `FineTune` whose base is in memory.

    Args:
        config: what was asked for.
    """

    config: FineTuneSettings
    base: CausalLM = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        self._set_base(_load_base(replace(self.config, device="cpu") if self.trains_elsewhere else self.config))

    def _set_base(self, base: CausalLM) -> None:
        longest = language_models.context_length(base.model)
        if self.config.length is not None and self.config.length > longest:
            raise InputError(f"length: the base takes at most {longest} tokens, got {self.config.length}")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "digest", weights_digest(base.model))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the base for another process, which reads it from its folder again."""
        return {"config": self.config, "digest": self.digest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "config", state["config"])
        self._set_base(_load_base(self.config))
        if self.digest != state["digest"]:
            raise InputError(f"base: {self.config.base} was changed while models were trained from it")

    @property
    def count(self) -> int:
        """Number of reference models."""
        return self.config.count

    @property
    def trains_elsewhere(self) -> bool:
        """Whether models are trained on a device that other machines have; here the base is on the CPU then."""
        return self.config.engine == "ray" and not has_device(self.config.device)

    @property
    def match(self) -> Any:
        """Which settings are tried, see `FineTune`."""
        return self.config.match

    def with_settings(self, **changes: Any) -> LoadedFineTune:
        """Return the same loaded base under other settings.

        Raises:
            divulge.InputError: one that there is not, or a value out of its range.
        """
        matching.check_names(changes, type(self.config))
        return _with_settings(self, replace(self.config, **changes))

    def make_learner(self, records: Records) -> DocumentLearner:
        """Return the learner of these settings."""
        return DocumentLearner(self)

    def brief(self) -> LoadedFineTune:
        """Return settings for one model and one epoch in this process, from which the time is forecast."""
        return _with_settings(
            self, replace(self.config, count=1, epochs=1, engine="serial", stop_after=None, match=None)
        )

    def check_memory(self) -> None:
        """Check that what training certainly holds beside the base fits: a copy, gradients, the optimiser's moments.

        Raises:
            divulge.InputError: it does not.
        """
        if self.shares_base or self.trains_elsewhere:
            return
        n_weights = sum(weight.numel() for weight in self.base.model.parameters())
        n_bytes = n_weights * (_BYTES_PER_WEIGHT if self.config.lora is None else _BYTES_PER_COPIED_WEIGHT)
        free = device_memory.free_memory(self.base.device)
        if free is not None and n_bytes > free:
            raise InputError(
                f"references: training all {n_weights / 1e9:.2g} billion weights needs {format_bytes(n_bytes)} "
                f"beside the base, and {self.base.device} has {format_bytes(free)} left; adapters need far less "
                "(lora, with precision='bfloat16' or quantization='4bit' for a large base)"
            )

    def measure_step(self, records: Records) -> TrainingStep:
        """Measure a training step: its seconds on documents of several lengths, its memory on the longest.

        Raises:
            divulge.InputError: not even one document at a time fits into memory.
        """
        config, device = self.config, self.base.device
        stretches = [stretch for document in self.tokenised(_require_texts(records)) for stretch in document]
        stretches.sort(key=len, reverse=True)
        n_steps = -(-len(stretches) // config.batch_size)
        longest, timed = stretches[: config.batch_size], []
        for share in _TIMED_PLACES[:n_steps]:
            start = int(share * n_steps) * config.batch_size
            timed += stretches[start : start + config.batch_size]
        brief = _with_settings(
            self, replace(config, count=1, epochs=_TIMED_EPOCHS, engine="serial", stop_after=None, match=None)
        )
        with networks.single_thread(), device_memory.measure_peak(device) as peak:
            self.brief().learned([longest], 0, lambda share: None)
        epoch_ends: list[float] = []  # the first epoch warms up
        brief.learned([timed], 0, lambda share: epoch_ends.append(time.perf_counter()))
        seconds = (epoch_ends[-1] - epoch_ends[0]) / (len(epoch_ends) - 1) / -(-len(timed) // config.batch_size)
        return TrainingStep(
            seconds,
            n_steps / max(len(records), 1),
            peak.n_bytes,
            device_memory.weights_size(self.base.model),
            device_memory.free_memory(device),
            str(device),
        )

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
        """Fine-tune the models of ``splits``; see `FineTune.fit`."""
        config = self.config
        matching.require_chosen(config.match)
        if not config.count:
            raise InputError("count: 0 asks the base alone; at least 1 fine-tuned model is needed here")
        work = fitting.TrainingRequest(records, splits, tuple(observe), None, 0, pool, out, progress)
        return fitting.fit_references(
            DocumentLearner(self), work, config.count, seed, Placement(config.engine, config.workers, config.gpus)
        )

    def train_model(self, records: Records, *, seed: int, progress: Progress | None = None) -> CausalLM:
        """Fine-tune the base on all ``records``; see `FineTune.one`."""
        task = _require_texts(records)

        def tick(share: float) -> None:
            if progress is not None:
                with errors.user_code_errors("progress"):
                    progress(share, 1, "target")

        try:
            return self.tuned(self.tokenised(task), seeds.derive_seed(seed, "target"), tick)
        except DivergedError:
            raise InputError(
                f"lr: the loss became NaN or infinite at {self.config.learning_rate:g}; lower it"
            ) from None

    def base_log_probabilities(self, records: Sequence[str]) -> tuple[Floats, Ints]:
        """Return the base's log-probability of each token of each record, and the number of tokens in each."""
        texts, counts = people.split_documents(records)
        stats = self.base.tokens(texts, vocabulary=False)
        return stats.logp, np.diff(people.record_offsets(stats.offsets, counts))

    def count_tokens(self, records: Sequence[str]) -> list[int]:
        """Return the number of scored tokens of each record."""
        texts, counts = people.split_documents(records)
        scored = [document.n_scored for document in self.base.encode_documents(texts)]
        return np.diff(np.append(0, np.cumsum(scored))[np.append(0, np.cumsum(counts))]).tolist()

    def find_token_mismatch(self, target: Any, records: Sequence[str]) -> tuple[int, int] | None:
        """Return the first record, and scored token in it, that the base ends at another place than ``target``.

        None where there is none, or where one of the two does not show where its tokens end.
        """
        tokenizer = getattr(target, "tokenizer", None)
        if tokenizer is None or tokenizer_digest(tokenizer) == tokenizer_digest(self.base.tokenizer):
            return None
        for row, record in enumerate(records):
            ends = [token_statistics.token_ends(model, record) for model in (target, self.base)]
            if None not in ends and ends[0] != ends[1]:
                return row, next(
                    (position for position, (end, base_end) in enumerate(zip(*ends, strict=False)) if end != base_end),
                    0,
                )
        return None

    def tokenised(self, records: Sequence[str]) -> list[list[list[int]]]:
        """Return the stretches of each record, as token ids; one token alone teaches nothing and is left out.

        Of documents with answers the loss is that of the answers, and what is beyond the length is cut off, as trainers
        do: such a document may teach nothing.
        """
        return [
            [
                part
                for document in self.base.encode_documents(people.split_record(record))
                for part in _learned_stretches(document, self.max_tokens)
            ]
            for record in records
        ]

    @property
    def max_tokens(self) -> int:
        """Tokens of a stretch that is trained on."""
        return self.config.length or int(self.base.length or 0)

    def count_unlearned(self, records: Sequence[str]) -> int:
        """Return how many records have no answer in what is trained on, as all of it is beyond the length."""
        return sum(not stretches for stretches in self.tokenised(records))

    @property
    def shares_base(self) -> bool:
        """Whether adapters are trained on the base itself, which stays in memory once."""
        model = self.base.model
        return self.config.lora is not None and (
            model.dtype == torch.float32 or self.config.precision == "bfloat16" or getattr(model, "is_quantized", False)
        )

    def tuned(self, documents: Sequence[Sequence[list[int]]], seed: int, tick: Tick) -> CausalLM:
        """Return a copy of the base, fine-tuned on the stretches of documents.

        Raises:
            divulge.references.network_training.DivergedError: NaN or infinity in the loss.
        """
        with self._seeded(seed):
            model = self._prepare(copy.deepcopy(self.base.model))
            self._train(model, documents, seed, tick)
        return self.finished(model)

    def learned(self, documents: Sequence[Sequence[list[int]]], seed: int, tick: Tick) -> CausalLM | AdaptedBase:
        """Return the base, fine-tuned as `tuned`; where it can be shared, adapters that are put on it when asked.

        Raises:
            divulge.references.network_training.DivergedError: NaN or infinity in the loss.
        """
        if not self.shares_base:
            return self.tuned(documents, seed, tick)
        with self._seeded(seed), self._adapters_on_base() as model:
            self._train(model, documents, seed, tick)
            return AdaptedBase(self, _trained_weights(model))

    def traced(
        self,
        documents: Sequence[Sequence[list[int]]],
        seed: int,
        visit: Callable[[int, CausalLM], tuple[bool, bool]],
    ) -> CausalLM | AdaptedBase | None:
        """Fine-tune as `learned`, show the model after each epoch, and return the last state that was to be kept."""
        kept_weights: dict[str, torch.Tensor] = {}

        def after_epoch(epoch: int, model: Any) -> bool:
            with torch.random.fork_rng(devices=[]):  # what is asked of a model must not move its training
                if self.shares_base:
                    with self.merged(model) as target:
                        keep, stop = visit(epoch, target)
                else:
                    keep, stop = visit(epoch, self.finished(copy.deepcopy(model)))
            if keep:
                kept_weights.update(_trained_weights(model))
            return stop

        with self._seeded(seed), self._in_training() as model:
            with contextlib.suppress(DivergedError):  # what was kept before is whole
                self._train(model, documents, seed, lambda share: None, after_epoch)
            if not kept_weights:
                return None
            if self.shares_base:
                return AdaptedBase(self, kept_weights)
        _load_weights(model, kept_weights)
        return self.finished(model)

    def finished(self, model: Any) -> CausalLM:
        """Return a trained model as a target, its adapters merged; the model itself is changed."""
        if self.config.lora is not None:
            model = folders.merge_adapter(model)
        if not getattr(model, "is_quantized", False):
            model = model.to(self.base.model.dtype)
        return replace(self.base, model=model.eval(), name=self._tuned_name)

    @property
    def _tuned_name(self) -> str:
        return f"{self.base.name}, fine-tuned"

    @contextlib.contextmanager
    def wearing(self, weights: Mapping[str, torch.Tensor]) -> Generator[CausalLM]:
        """Put trained adapters on the base inside the block, and give it as a target."""
        # New adapters are drawn at random before they get their weights, which is to move nobody's random numbers.
        with networks.torch_seed(0, self.base.device), self._adapters_on_base() as model:
            _load_weights(model, weights)
            with self.merged(model) as target:
                yield target

    @contextlib.contextmanager
    def merged(self, model: Any) -> Generator[CausalLM]:
        """Give an adapted base as a target inside the block, its adapters merged where `folders.merge_adapter` would.

        Afterwards the base's weights are as they were, to the bit: taking off what was added would round.
        """
        base = model.get_base_model()
        kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        if folders.can_merge(model):
            layers = [layer for layer in base.modules() if isinstance(layer, tuners_utils.BaseTunerLayer)]
            kept = [(layer.get_base_layer().weight, layer.get_base_layer().weight.detach().clone()) for layer in layers]
            model.merge_adapter()
        try:
            yield replace(self.base, model=base.eval(), name=self._tuned_name)
        finally:
            if kept:
                model.unmerge_adapter()
                with torch.no_grad():
                    for weight, before in kept:
                        weight.copy_(before)

    @contextlib.contextmanager
    def _seeded(self, seed: int) -> Generator[None]:
        # Dropout and the adapters' first weights are drawn from torch's own generators.
        with networks.torch_seed(seeds.derive_seed(seed, "fine-tune"), self.base.device), networks.single_thread():
            yield

    @contextlib.contextmanager
    def _in_training(self) -> Generator[Any]:
        """Give the model that is trained: the base with adapters on it, or a copy of the base."""
        if not self.shares_base:
            yield self._prepare(copy.deepcopy(self.base.model))
            return
        with self._adapters_on_base() as model:
            yield model

    @contextlib.contextmanager
    def _adapters_on_base(self) -> Generator[Any]:
        """Put new adapters on the base itself inside the block; afterwards it is as it was."""
        base = self.base.model
        trainable = {name for name, weight in base.named_parameters() if weight.requires_grad}
        model = self._add_adapters(base)
        try:
            yield model
        finally:
            model.unload().eval()
            for name, weight in base.named_parameters():
                weight.requires_grad_(name in trainable)

    def _train(
        self,
        model: Any,
        documents: Sequence[Sequence[list[int]]],
        seed: int,
        tick: Tick,
        after_epoch: AfterEpoch | None = None,
    ) -> None:
        stretches = [stretch for document in documents for stretch in document]
        _train_epochs(model, stretches, self.config, seeds.generator(seed, "batches"), tick, after_epoch)

    def _prepare(self, model: Any) -> Any:
        """Make a copy of the base ready for training: in single precision, as small steps are lost in half."""
        if self.config.precision != "bfloat16" and not getattr(model, "is_quantized", False):
            model = model.float()
        return model.requires_grad_(True) if self.config.lora is None else self._add_adapters(model)

    def _add_adapters(self, model: Any) -> Any:
        lora = self.config.lora
        assert lora is not None
        settings = peft.LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,  # ty: ignore[invalid-argument-type] - a float scales as well
            lora_dropout=lora.dropout,
            target_modules=None if lora.modules is None else list(lora.modules),
            task_type="CAUSAL_LM",
            fan_in_fan_out=model.config.model_type == "gpt2",
        )
        try:
            with warnings.catch_warnings():  # of what peft asks a transformers model, some is deprecated there
                warnings.simplefilter("ignore", FutureWarning)
                warnings.filterwarnings("ignore", "Model has `tie_word_embeddings")  # see `merge_adapter`
                return peft.get_peft_model(model, settings)
        except ValueError as error:
            raise InputError(f"LoRA.modules: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class AdaptedBase:
    """A fine-tune that is its adapters alone; the base wears them while it is asked.

    Args:
        tuning: the base.
        weights: of the adapters, by name.
    """

    tuning: LoadedFineTune
    weights: Mapping[str, torch.Tensor]

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> token_statistics.TokenStatistics:
        """Compute the statistics of each text, see `divulge.targets.CausalLM.tokens`."""
        with self.tuning.wearing(self.weights) as target:
            return target.tokens(texts, vocabulary=vocabulary)


def _trained_weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if weight.requires_grad}


@torch.no_grad()
def _load_weights(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    for name, weight in model.named_parameters():
        if name in weights:
            weight.copy_(weights[name])


@dataclass(frozen=True, slots=True)
class DocumentLearner(OutputLearner):
    """The learner behind `FineTune`: documents in, log-probabilities of tokens out."""

    tuning: LoadedFineTune

    def settings(self) -> dict[str, str]:
        """Return the settings by name, and the base."""
        config = self.tuning.config
        settings = {
            setting.name: repr(getattr(config, setting.name))
            for setting in fields(config)
            if setting.name not in _EXECUTION
            and not (setting.name in _LATER_SETTINGS and getattr(config, setting.name) == setting.default)
        }
        return settings | {"base": f"{self.tuning.base.name} ({self.tuning.digest[:16]})"}

    def width(self, records: Records, classes: int | None) -> int:
        """Return 0: language models have no classes."""
        return 0

    def check(self, task: Task) -> None:
        """Find documents of which nothing can be learned.

        Raises:
            divulge.InputError: no text, or a model without a single document that has two tokens.
        """
        _require_texts(task.records)

    @property
    def timed_by_doing(self) -> bool:
        """False: a few steps tell the time."""
        return False

    @property
    def device(self) -> str:
        """The device that the base is on, or is loaded onto."""
        return self.tuning.config.device

    def trial(
        self, task: Task, jobs: Sequence[Job], *, untimed: bool, execute: Execute | None = None
    ) -> tuple[LocalEngine, float, str]:
        """Estimate the seconds of the jobs one after the other, from a few timed steps."""
        if untimed or self.tuning.base.device.type != "cpu":
            return "serial", 0.0, ""
        config, documents = self.tuning.config, self._training_documents(task)
        steps = sum(
            (config.stop_after or config.epochs) * -(-sum(len(documents[row]) for row in job.rows) // config.batch_size)
            for job in jobs
        )
        trial_documents = [documents[row] for row in jobs[0].rows[: _TRIAL_BATCHES * config.batch_size]]
        began = time.perf_counter()
        self.tuning.brief().learned(trial_documents, 0, lambda share: None)
        return "serial", steps * (time.perf_counter() - began) / _TRIAL_BATCHES, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Return a digest of base, tokenizer, settings, documents, subset, seed and observed documents."""
        base = self.tuning.base
        observed = [pool.digest_records(records, labelled=False) for records in task.observe]
        parts = (
            pool.ARITHMETIC_VERSION,
            torch.__version__,
            self.tuning.digest,
            sorted(map(str, base.reading_key().items())),
        )
        settings = {name: value for name, value in self.settings().items() if name != "base"}
        return store.hash_values(*parts, sorted(settings.items()), task.data, rows, seed, observed)[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Return a function that fine-tunes on the documents of a job; they are tokenised once."""
        documents = self._training_documents(task)

        def learn(job: Job, tick: Tick) -> TrainedModel:
            return _as_trained(self.tuning.learned([documents[row] for row in job.rows], job.seed, tick))

        return learn

    def trace(self, task: Task, job: Job, visit: Visit) -> TrainedModel | None:
        """Fine-tune one model, show it after each epoch, and return the last state that was to be kept."""
        documents = self._training_documents(task)
        job_documents = [documents[row] for row in job.rows]
        tuned = self.tuning.traced(job_documents, job.seed, lambda epoch, model: visit(epoch, _as_trained(model)))
        return None if tuned is None else _as_trained(tuned)

    def _training_documents(self, task: Task) -> list[list[list[int]]]:
        return self.tuning.tokenised(_require_texts(task.records))


def _as_trained(tuned: CausalLM | AdaptedBase) -> TrainedModel:
    """Return a fine-tuned model as engines do: asked for the log-probability of every token."""

    def predict(records: Records) -> Floats:
        return tuned.tokens(people.split_documents(list(records.x))[0], vocabulary=False).logp.astype(np.float32)

    return output_only_model(predict, tuned)


def _with_settings(base_tuning: LoadedFineTune, config: FineTuneSettings) -> LoadedFineTune:
    """Return the same loaded base under other settings."""
    loaded = copy.copy(base_tuning)
    object.__setattr__(loaded, "config", config)
    return loaded


def _load_base(config: FineTuneSettings) -> CausalLM:
    if not isinstance(config.base, str | Path):
        return check_instance(config.base, "base", CausalLM, "a folder, hf:NAME or a targets.CausalLM")
    dtype = "bfloat16" if config.precision == "bfloat16" else "float32"
    return CausalLM.load(
        str(config.base), dtype=dtype, device=config.device, bos=config.bos, quantization=config.quantization
    )


def _require_texts(records: Records) -> list[str]:
    check_instance(records, "records", Records)
    if records.x.dtype != object:
        raise InputError(f"records: documents (strings) are needed, got {records.x.dtype}")
    return list(records.x)


def _train_epochs(
    model: Any,
    stretches: Sequence[list[int]],
    config: FineTuneSettings,
    rng: np.random.Generator,
    tick: Tick,
    after_epoch: AfterEpoch | None = None,
) -> None:
    """Train with AdamW on batches of nearly equal length.

    Raises:
        DivergedError: NaN or infinity in the loss.
    """
    if not stretches:
        raise InputError("records: no document of a reference model has two tokens to learn from")
    steps = -(-len(stretches) // config.batch_size)
    total = steps * config.epochs
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate_factor(config, step, total))
    loss_function = NextTokenLoss.from_model(model, config)
    steps_done, epochs = 0, config.stop_after or config.epochs
    with _gradient_checkpointing(_without_adapters(model), enabled=config.gradient_checkpointing):
        for epoch in range(epochs):
            model.train()
            for batch in batch_stretches(stretches, config.batch_size, rng):
                loss = loss_function.add_gradients(batch, weights)
                norm = torch.nn.utils.clip_grad_norm_(weights, _MAX_GRADIENT_NORM)
                if not torch.isfinite(loss.to(norm.device) + norm):  # the one transfer of a step
                    raise DivergedError
                optimizer.step()
                schedule.step()
                optimizer.zero_grad(set_to_none=True)
                steps_done += 1
            tick(steps_done / (steps * epochs))
            if after_epoch is not None and after_epoch(epoch + 1, model):
                break


@contextlib.contextmanager
def _gradient_checkpointing(model: Any, *, enabled: bool) -> Generator[None]:
    """Compute layers again for their gradients inside the block, where a model can."""
    if not enabled:
        yield
        return
    try:
        names = ("activation_checkpointing", "gradient_checkpointing")  # transformers renames it
        name = next(name for name in names if hasattr(model, f"{name}_enable"))
        getattr(model, f"{name}_enable")({"use_reentrant": False})
    except ValueError as error:
        raise InputError(f"gradient_checkpointing: {error}") from None
    try:
        yield
    finally:
        getattr(model, f"{name}_disable")()


def _rate_factor(config: FineTuneSettings, step: int, total: int) -> float:
    """Return the factor on the learning rate at a step."""
    rising = round(config.warmup * total)
    if step < rising:
        return (step + 1) / (rising + 1)
    share = (step - rising) / max(total - rising, 1)
    if config.schedule == "constant":
        return 1.0
    return 1.0 - share if config.schedule == "linear" else (1.0 + math.cos(math.pi * share)) / 2.0


_JITTER = 5.0  # tokens by which lengths are blurred, so that no two epochs have the same batches
_LOGITS = 1 << 20  # held at a time: on a CPU they stay in its cache


def _learned_stretches(document: EncodedDocument, longest: int) -> list[list[int]]:
    """Return the stretches of a document; token ``t`` of a prompt, which has no loss, is written as ``~t``."""
    if document.in_answer is None:
        return split_stretches(document.ids, longest)
    head = document.head(longest)
    stretch = [i if learned else ~i for i, learned in zip(head.ids, head.in_answer or (), strict=True)]
    return [stretch] if head.n_scored else []


def split_stretches(ids: Sequence[int], longest: int) -> list[list[int]]:
    """Split tokens into stretches; each after the first begins with the last token of the one before."""
    pieces = [list(ids[start : start + longest]) for start in range(0, max(len(ids) - 1, 0), longest - 1)]
    return [stretch for stretch in pieces if len(stretch) > 1]


def batch_stretches(pieces: Sequence[list[int]], size: int, rng: np.random.Generator) -> Iterator[list[list[int]]]:
    """Yield batches of stretches of nearly equal length, so that little is padding, in a new order each time."""
    length = np.array([len(ids) for ids in pieces]) + rng.normal(0, _JITTER, len(pieces))
    order = np.argsort(length, kind="stable")
    starts = rng.permutation(np.arange(0, len(order), size))
    for start in starts:
        yield [pieces[row] for row in order[start : start + size]]


@dataclass(frozen=True, slots=True, eq=False)
class NextTokenLoss:
    """Adds the gradients of a batch: cross-entropy of the next token, averaged over the tokens of the batch.

    The logits of a large vocabulary are most of what a batch takes, so they are made and used up some at a time, where
    the model's output layer can be asked by itself.

    Args:
        model: what is trained; an adapted one too.
        inner: the same model without adapters around it, if its output layer can be asked by itself; else None.
        config: settings of the arithmetic; single precision, all documents of a step at once, if None.
    """

    model: Any
    inner: Any
    config: FineTuneSettings | None = None

    @classmethod
    def from_model(cls, model: Any, config: FineTuneSettings | None = None) -> NextTokenLoss:
        """Return the loss for a model that is not yet in training mode."""
        inner = _without_adapters(model)
        return cls(model, inner if language_models.has_separate_head(inner) else None, config)

    def add_gradients(self, batch: Sequence[Sequence[int]], weights: Sequence[torch.Tensor]) -> torch.Tensor:
        """Add the gradients of a batch to ``weights`` without any, and return its loss.

        The batch goes through the model in `FineTuneSettings.gradient_accumulation_steps` parts, or in more where
        memory runs out; then all of it is done again, with the same random numbers.
        """
        device, width = device_memory.input_device(_without_adapters(self.model)), max(map(len, batch))
        n_parts = 1 if self.config is None else self.config.gradient_accumulation_steps
        n_rows = -(-len(batch) // n_parts)
        if (largest := device_memory.largest_size(_TRAINED, device)) is not None:
            n_rows = max(min(n_rows, largest // width), 1)
        n_tokens = sum(token >= 0 for row in batch for token in row[1:])
        while True:
            states = networks.random_states(device)
            try:
                losses = [self(batch[start : start + n_rows], n_tokens) for start in range(0, len(batch), n_rows)]
                return torch.stack(losses).sum()
            except (RuntimeError, MemoryError) as error:
                if not device_memory.is_out_of_memory(error):
                    raise
                if n_rows == 1:
                    raise InputError(
                        f"memory: {device} has too little to train on a document of {width:,} tokens; a smaller "
                        "length, gradient_checkpointing, precision='bfloat16' or quantization='4bit' needs less"
                    ) from None
            for weight in weights:
                weight.grad = None
            device_memory.remember_halved(n_rows * width, _TRAINED, device)
            networks.restore_random_states(states, device)
            n_rows //= 2

    def __call__(self, batch: Sequence[Sequence[int]], n_tokens: int | None = None) -> torch.Tensor:
        """Add the gradients of some documents and give their loss, without waiting for the device.

        Padding stands on the right, ``~t`` has no loss.

        Args:
            batch: documents.
            n_tokens: tokens that the loss is averaged over; those of the documents when None.
        """
        width, device = max(map(len, batch)), device_memory.input_device(_without_adapters(self.model))
        ids = torch.tensor([[*row, *[~0] * (width - len(row))] for row in batch])
        attention_mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
        positions = ids[:, 1:] >= 0
        ids = torch.where(ids < 0, ~ids, ids)
        targets = ids[:, 1:][positions]
        share = 1.0 if n_tokens is None else len(targets) / n_tokens
        inputs: dict[str, Any] = {
            "input_ids": networks.move(ids, device),
            "attention_mask": networks.move(attention_mask, device),
            "use_cache": False,
        }
        in_half = self.config is not None and self.config.precision != "single"
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=in_half):
            if self.inner is None:
                logits = self.model(**inputs).logits[:, :-1]
                logits = logits[positions.to(logits.device)].float()
                loss = functional.cross_entropy(logits, targets.to(logits.device)) * share
                loss.backward()
                return loss.detach()
            hidden = self.inner.base_model(**inputs).last_hidden_state[:, :-1]
            return self._backward_in_parts(hidden[positions.to(hidden.device)], targets, share)

    def _backward_in_parts(self, hidden: torch.Tensor, targets: torch.Tensor, share: float) -> torch.Tensor:
        head = self.inner.get_output_embeddings()
        hidden_leaf, losses = hidden.detach().requires_grad_(), []
        n_logits = _LOGITS if hidden.device.type == "cpu" else language_models.logits_per_block(hidden.device)
        size = max(n_logits // head.weight.shape[0], 1)
        for rows, block_targets in zip(hidden_leaf.split(size), targets.split(size), strict=True):
            logits = language_models.apply_head(self.inner, rows).float()
            block_targets = block_targets.to(logits.device)
            loss = functional.cross_entropy(logits, block_targets, reduction="sum") / len(targets) * share
            loss.backward()
            losses.append(loss.detach())
        if hidden.requires_grad:  # adapters may sit in the output layer alone
            hidden.backward(hidden_leaf.grad)
        return torch.stack(losses).sum()


def _without_adapters(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "get_base_model") else model
