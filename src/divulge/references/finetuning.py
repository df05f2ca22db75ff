"""`FineTune` at work: how one fine-tune is named, made, questioned and brought back from the pool."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from divulge import errors, lazy, networks, people, seeds, store
from divulge.errors import InputError
from divulge.references import fitting, keys, next_token
from divulge.references.engines import Placement
from divulge.references.jobs import Inner, Job, Task, Tick, TrainedModel, by_outputs, kept_outputs
from divulge.references.loop import DivergedError
from divulge.targets import adapters, text, token_spans
from divulge.targets.pretrained import fingerprint, tokenizer_digest
from divulge.targets.text import CausalLM
from divulge.types import Array, Floats, Ints, Records
from divulge.validation import check_instance

if TYPE_CHECKING:
    import peft

    from divulge.references.predictions import Trained
    from divulge.references.progress import Progress
    from divulge.references.splits import Splits
    from divulge.references.tuning import Tuning
    from divulge.types import Bools
else:
    peft = lazy.module("peft")

_NORM = 1.0  # gradients are clipped to it, as the usual trainers do
_EXECUTION = ("base", "count", "engine", "device", "workers")
_TRIED = 3  # batches that a trial times, the first of them to warm up


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A `FineTune` whose base is in memory.

    Args:
        config: what was asked for.
    """

    config: Tuning
    base: CausalLM = field(init=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        self._hold(_loaded(self.config))

    def _hold(self, base: CausalLM) -> None:
        longest = text.context(base.model)
        if self.config.length is not None and self.config.length > longest:
            raise InputError(f"length: the base takes at most {longest} tokens, got {self.config.length}")
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "digest", fingerprint(base.model))

    def __getstate__(self) -> dict[str, Any]:
        """For another process: a base that lies in a folder is read there anew, not sent."""
        return {"config": self.config, "digest": self.digest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "config", state["config"])
        self._hold(_loaded(self.config))
        if self.digest != state["digest"]:
            raise InputError(f"base: {self.config.base} was changed while models were trained from it")

    @property
    def count(self) -> int:
        """Number of reference models."""
        return self.config.count

    def brief(self) -> Opened:
        """One model for one epoch, in this process: what a forecast of the time is made from."""
        return _with(self, replace(self.config, count=1, epochs=1, engine="serial"))

    def fit(
        self,
        records: Records,
        splits: Splits | Bools,
        *,
        seed: int,
        observe: Sequence[Records | Array] = (),
        pool: Path | str | None = None,
        out: Path | str | None = None,
        progress: Progress | None = None,
    ) -> Trained:
        """See `FineTune.fit`."""
        config = self.config
        if not config.count:
            raise InputError("count: 0 asks the base alone; at least 1 fine-tuned model is needed here")
        work = fitting.Work(records, splits, tuple(observe), None, 0, pool, out, progress)
        return fitting.fit(Documents(self), work, config.count, seed, Placement(config.engine, config.workers))

    def one(self, records: Records, *, seed: int, progress: Progress | None = None) -> CausalLM:
        """See `FineTune.one`."""
        task = _texts(records)

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

    def asked(self, records: Sequence[str]) -> tuple[Floats, Ints]:
        """How likely the base finds each token of each record, and the number of them in each."""
        texts, counts = people.split_documents(records)
        stats = self.base.tokens(texts, vocabulary=False)
        return stats.logp, np.diff(people.record_offsets(stats.offsets, counts))

    def cut(self, records: Sequence[str]) -> list[int]:
        """The number of tokens of each record that are scored."""
        texts, counts = people.split_documents(records)
        scored = [max(len(ids) - 1, 0) for ids in self.base.encoded(texts)]
        return np.diff(np.append(0, np.cumsum(scored))[np.append(0, np.cumsum(counts))]).tolist()

    def elsewhere(self, target: Any, records: Sequence[str]) -> tuple[int, int] | None:
        """The first record, and scored token in it, that the base ends at another place than ``target`` does.

        None where there is none, or where one of the two does not show where its tokens end.
        """
        own = getattr(target, "tokenizer", None)
        if own is None or tokenizer_digest(own) == tokenizer_digest(self.base.tokenizer):
            return None
        for row, record in enumerate(records):
            pair = [token_spans.ends(model, record) for model in (target, self.base)]
            if None not in pair and pair[0] != pair[1]:
                return row, next((at for at, (one, other) in enumerate(zip(*pair, strict=False)) if one != other), 0)
        return None

    def tokenised(self, records: Sequence[str]) -> list[list[list[int]]]:
        """The stretches of each record, as token ids; one token alone teaches nothing and is left out."""
        longest = self.config.length or int(self.base.length or 0)
        return [
            [
                part
                for ids in self.base.encoded(people.split_record(record))
                for part in next_token.stretches(ids, longest)
            ]
            for record in records
        ]

    def tuned(self, documents: Sequence[Sequence[list[int]]], seed: int, tick: Tick) -> CausalLM:
        """A copy of the base, fine-tuned on the stretches of documents.

        Raises:
            divulge.references.loop.DivergedError: NaN or infinity in the loss.
        """
        stretches = [stretch for document in documents for stretch in document]
        # Dropout and the adapters' first weights are drawn from torch's own generators.
        where = self.base.model.device
        with networks.torch_seed(seeds.derive_seed(seed, "fine-tune"), where), networks.single_thread():
            model = self._copy()
            _train(model, stretches, self.config, seeds.generator(seed, "batches"), tick)
        if self.config.lora is not None:
            model = adapters.merged(model)
        return replace(self.base, model=model.to(self.base.model.dtype).eval(), name=f"{self.base.name}, fine-tuned")

    def _copy(self) -> Any:
        model = copy.deepcopy(self.base.model).float()  # small steps are lost in half precision
        lora = self.config.lora
        if lora is None:
            return model.requires_grad_(True)
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
                warnings.filterwarnings("ignore", "Model has `tie_word_embeddings")  # see `adapters.merged`
                return peft.get_peft_model(model, settings)
        except ValueError as error:
            raise InputError(f"LoRA.modules: {error}") from None


@dataclass(frozen=True, slots=True)
class Documents:
    """The learner behind `FineTune`: documents in, log-probabilities of tokens out."""

    opened: Opened

    def settings(self) -> dict[str, str]:
        """The configuration, field by field, and the base."""
        config = self.opened.config
        told = {one.name: repr(getattr(config, one.name)) for one in fields(config) if one.name not in _EXECUTION}
        return told | {"base": f"{self.opened.base.name} ({self.opened.digest[:16]})"}

    def width(self, records: Records, classes: int | None) -> int:
        """No classes."""
        return 0

    def check(self, task: Task) -> None:
        """Find documents of which nothing can be learned.

        Raises:
            divulge.InputError: no text, or a model without a single document that has two tokens.
        """
        _texts(task.records)

    @property
    def timed_by_doing(self) -> bool:
        """A few steps tell."""
        return False

    def trial(self, task: Task, jobs: Sequence[Job], *, alone: bool) -> tuple[Inner, float, str]:
        """How long the jobs take one after the other: a few steps are timed."""
        if alone or self.opened.base.model.device.type != "cpu":
            return "serial", 0.0, ""
        config, documents = self.opened.config, self._lessons(task)
        steps = sum(
            config.epochs * -(-sum(len(documents[row]) for row in job.rows) // config.batch_size) for job in jobs
        )
        few = [documents[row] for row in jobs[0].rows[: _TRIED * config.batch_size]]
        began = time.perf_counter()
        self.opened.brief().tuned(few, 0, lambda share: None)
        return "serial", steps * (time.perf_counter() - began) / _TRIED, ""

    def key(self, task: Task, seed: int, rows: Ints) -> str:
        """Digest of base, tokenizer, settings, documents, subset, seed and what is observed."""
        base = self.opened.base
        observed = [keys.data(records, labelled=False) for records in task.observe]
        asked = {name: value for name, value in base.key().items() if name not in ("model", "weights")}
        parts = (keys.ARITHMETIC, torch.__version__, self.opened.digest, sorted(map(str, asked.items())))
        settings = {name: told for name, told in self.settings().items() if name != "base"}
        return store.hash_values(*parts, sorted(settings.items()), task.data, rows, seed, observed)[:32]

    def learner(self, task: Task) -> Callable[[Job, Tick], TrainedModel]:
        """Fine-tunes on the documents of a job, which are tokenised once."""
        documents = self._lessons(task)

        def learn(job: Job, tick: Tick) -> TrainedModel:
            tuned = self.opened.tuned([documents[row] for row in job.rows], job.seed, tick)

            def predict(records: Records) -> Floats:
                return tuned.tokens(people.split_documents(list(records.x))[0], vocabulary=False).logp.astype(
                    np.float32
                )

            return by_outputs(predict)

        return learn

    def stack(
        self, task: Task, jobs: Sequence[Job], watch: Callable[[Job, float], None]
    ) -> Iterator[tuple[Job, TrainedModel | None]]:
        """Refused: only small networks are stacked."""
        raise InputError("engine: 'stacked' trains small networks alone; use 'serial' or 'processes'")

    def restore(self, task: Task, job: Job, arrays: Mapping[str, Array]) -> Sequence[Floats]:
        """What the pool kept."""
        return kept_outputs(task, arrays)

    def _lessons(self, task: Task) -> list[list[list[int]]]:
        return self.opened.tokenised(_texts(task.records))


def _with(opened: Opened, config: Tuning) -> Opened:
    """The same base under other settings."""
    made = copy.copy(opened)
    object.__setattr__(made, "config", config)
    return made


def _loaded(config: Tuning) -> CausalLM:
    if not isinstance(config.base, str | Path):
        return check_instance(config.base, "base", CausalLM, "a folder, hf:NAME or a targets.CausalLM")
    return CausalLM.load(str(config.base), device=config.device, bos=config.bos)


def _texts(records: Records) -> list[str]:
    check_instance(records, "records", Records)
    if records.x.dtype != object:
        raise InputError(f"records: documents (strings) are needed, got {records.x.dtype}")
    return list(records.x)


def _train(model: Any, stretches: Sequence[list[int]], config: Tuning, rng: np.random.Generator, tick: Tick) -> None:
    """The loop: AdamW on batches of nearly equal length.

    Raises:
        DivergedError: NaN or infinity in the loss.
    """
    if not stretches:
        raise InputError("records: no document of a reference model has two tokens to learn from")
    steps = -(-len(stretches) // config.batch_size)
    total = steps * config.epochs
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=config.learning_rate, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _factor(config, step, total))
    lesson = next_token.Lesson.of(model)
    model.train()
    done = 0
    for _ in range(config.epochs):
        for batch in next_token.batches(stretches, config.batch_size, rng):
            loss = lesson(batch)
            norm = torch.nn.utils.clip_grad_norm_(weights, _NORM)
            if not (math.isfinite(loss) and math.isfinite(norm.item())):
                raise DivergedError
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            done += 1
        tick(done / total)


def _factor(config: Tuning, step: int, total: int) -> float:
    """Of the learning rate, at a step."""
    rising = round(config.warmup * total)
    if step < rising:
        return (step + 1) / (rising + 1)
    share = (step - rising) / max(total - rising, 1)
    if config.schedule == "constant":
        return 1.0
    return 1.0 - share if config.schedule == "linear" else (1.0 + math.cos(math.pi * share)) / 2.0
