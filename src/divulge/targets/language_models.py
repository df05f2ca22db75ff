"""Causal language models of Hugging Face: one forward pass, reduced on the device to statistics per token."""

from __future__ import annotations

import inspect
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge import chats, lazy
from divulge.errors import InputError, missing_extra
from divulge.store import panic_errors
from divulge.targets.chat_templates import EncodedDocument, encode_document
from divulge.targets.token_statistics import PER_TOKEN, Continuations, Decoding, TokenStatistics
from divulge.validation import check_choice, check_instance, check_integer

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

from divulge import networks
from divulge.targets import device_memory, pretrained
from divulge.targets.pretrained import check_token_ids, load_pretrained, tokenizer_digest, weights_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import transformers
    from transformers import cache_utils
else:
    transformers = lazy.module("transformers")
    cache_utils = lazy.module("transformers.cache_utils")

# Logits held at a time, and of them reduced at a time. On a CPU: 28 MiB of float32, below what allocators give
# back to the system each time, and half a MiB, which stays in the cache.
_LOGITS_PER_BLOCK, _LOGITS_PER_BLOCK_CPU = 1 << 25, 7 << 20
_BYTES_PER_LOGIT = 32  # in all, of float32, while statistics are made of it
# Tokens in a batch: more make a GPU faster; a CPU's caches hold few.
_TOKEN_BUDGET, _TOKEN_BUDGET_CPU = 8192, 1024


@dataclass(frozen=True, slots=True, eq=False)
class CausalLM:
    """A causal language model and its tokenizer, asked for token statistics.

    Hidden states go through the output layer in blocks, so logits of all tokens are never held; padding
    stands on the right, where a causal model does not see it, and is never scored. Of documents that know where
    their answers begin (`divulge.from_messages`, `divulge.from_prompts`) the tokens of answers alone are scored.

    Args:
        model: a `transformers` model with a language-modelling head, in evaluation mode on its device.
        tokenizer: its tokenizer.
        name: what to call it; part of the cache key.
        bos: "tokenizer" (what the tokenizer does by itself), "add" or "none". With a BOS the first
            token is scored, without one it cannot be.
        length: longest stretch given to the model; its context when None.
        stride: step between windows of longer documents; half of ``length`` when None.
        truncation: "windows", or "head" to score only the first ``length`` tokens.
        budget: tokens in a batch, padding included; by the model's device when None.

    Raises:
        divulge.InputError: an unknown policy, a length the model cannot take, no BOS where one is asked for.
    """

    model: Any
    tokenizer: Any
    name: str = "model"
    bos: str = "tokenizer"
    length: int | None = None
    stride: int | None = None
    truncation: str = "windows"
    budget: int | None = None
    _split: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice(self.bos, "bos", ("tokenizer", "add", "none"))
        check_choice(self.truncation, "truncation", ("windows", "head"))
        default_budget = _TOKEN_BUDGET_CPU if self.device.type == "cpu" else _TOKEN_BUDGET
        budget = default_budget if self.budget is None else check_integer(self.budget, "budget", minimum=1)
        object.__setattr__(self, "budget", budget)
        max_length = context_length(self.model)
        length = max_length if self.length is None else check_integer(self.length, "length", minimum=2)
        if length > max_length:
            raise InputError(f"length: the model takes at most {max_length} tokens, got {length}")
        object.__setattr__(self, "length", length)
        stride = max(length // 2, 1) if self.stride is None else check_integer(self.stride, "stride", minimum=1)
        if stride >= length:
            raise InputError(f"stride: must be below the length {length}, got {stride}")
        object.__setattr__(self, "stride", stride)
        if self.bos == "add" and self.tokenizer.bos_token_id is None:
            raise InputError("bos: the tokenizer has no BOS token to add")
        self.model.eval()
        object.__setattr__(self, "_split", has_separate_head(self.model))

    @classmethod
    def load(
        cls,
        name: str,
        *,
        dtype: str = "float32",
        device: str = "auto",
        quantization: Literal["4bit"] | None = None,
        **options: Any,
    ) -> CausalLM:
        """Load from ``hf:NAME``, ``hf:NAME@REVISION`` or a local folder; weights are read from safetensors alone.

        Args:
            name: which model.
            dtype: "float32", "bfloat16" or "float16"; logits are cast up in any case.
            device: "auto" (CUDA, else Apple's MPS, else CPU), a torch device, or "map" to spread layers over all.
            quantization: "4bit" to hold the layers' weights in four bits each (needs bitsandbytes).
            **options: the other arguments of `CausalLM`.

        Raises:
            divulge.InputError: unknown dtype, or a model that cannot be loaded.
        """
        model, tokenizer = load_pretrained(
            transformers.AutoModelForCausalLM,
            transformers.AutoTokenizer,
            name,
            dtype,
            device,
            **({} if quantization is None else {"quantization_config": pretrained.quantize(quantization, dtype)}),
        )
        return cls(model, tokenizer, name=name, **options)

    @property
    def device(self) -> torch.device:
        """Where the model takes its tokens."""
        return device_memory.input_device(self.model)

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers: two runs with equal keys may share their results."""
        return {"model": self.name, "weights": weights_digest(self.model), **self.reading_key()}

    def reading_key(self) -> dict[str, Any]:
        """Return what of `key` is known without reading the weights."""
        return {
            "tokenizer": tokenizer_digest(self.tokenizer),
            "bos": self.bos,
            "length": self.length,
            "stride": self.stride,
            "truncation": self.truncation,
            "dtype": str(self.model.dtype),
        }

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Compute the statistics of each text; texts without a scored token keep their row.

        Args:
            texts: the documents.
            vocabulary: False to leave out what needs the whole distribution, which is cheaper.

        Raises:
            divulge.InputError: something that is not a string.
        """
        length, stride = int(self.length or 0), int(self.stride or 0)
        windows_of_texts = [
            window
            for i, document in enumerate(self.encode_documents(texts))
            for window in split_windows(i, document.ids, length, stride, document.in_answer)
        ]
        # Windows are run in the order of their length and put together in that of their documents.
        values: dict[tuple[int, int], np.ndarray] = {}
        window_batches = list(batch_windows(windows_of_texts, self.budget or _TOKEN_BUDGET))
        for batch, rows in zip(
            window_batches,
            self.side_by_side(window_batches, partial(reduce_logits, vocabulary=vocabulary)),
            strict=True,
        ):
            for window, part in zip(batch, rows, strict=True):
                values[window.document, window.start] = part
        pieces: list[list[np.ndarray]] = [[] for _ in texts]
        for window in windows_of_texts:
            pieces[window.document].append(values[window.document, window.start])
        names = PER_TOKEN if vocabulary else PER_TOKEN[:1]
        joined = [np.concatenate(part, axis=1) if part else np.empty((len(names), 0)) for part in pieces]
        rows = [dict(zip(names, part.astype(np.float64), strict=True)) for part in joined]
        return TokenStatistics.from_documents(texts, rows)

    @property
    def start(self) -> tuple[int, ...]:
        """The tokens that stand before every prompt: a BOS, or whatever the policy ``bos`` asks for."""
        return leading_tokens(self.tokenizer, self.bos)

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of each text, without those of `start`."""
        encoded = encode_texts(self.tokenizer, texts)
        for row, text in enumerate(texts):
            if chats.has_answers([text]):
                ids, n_start = tuple(encode_document(self.tokenizer, text, self.bos).ids), len(self.start)
                encoded[row] = ids[n_start:] if ids[:n_start] == self.start else ids
        return encoded

    @panic_errors("tokenizer")
    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)

    def continuations(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], *, decoding: Decoding | None = None
    ) -> Continuations:
        """Return how likely each suffix follows its prefix, see `score_continuations`."""
        return score_continuations(self, prefixes, suffixes, decoding)

    def greedy(self, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
        """Return the greedy continuation of each prefix, see `greedy_continuations`."""
        return greedy_continuations(self, prefixes, tokens)

    def side_by_side(
        self,
        window_batches: Sequence[Sequence[Window]],
        reduce: Callable[..., torch.Tensor],
        shared: SharedPrefix | None = None,
    ) -> Iterator[Sequence[np.ndarray]]:
        """Reduce each batch by ``reduce``; on a CPU each core has a batch of its own, and no two share one."""
        threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        run = partial(self._run, reduce=reduce, shared=shared)
        if min(threads, len(window_batches)) < 2:
            yield from map(run, window_batches)
            return
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                yield from pool.map(run, window_batches)
        finally:
            torch.set_num_threads(threads)  # of what torch calls, some count threads for the whole process

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, a BOS included where there is one; see `encode_documents`."""
        return [document.ids for document in self.encode_documents(texts)]

    def encode_documents(self, texts: Sequence[str]) -> list[EncodedDocument]:
        """Return the token ids of each text, a BOS included where there is one, and which of them are scored.

        Raises:
            divulge.InputError: something that is not a string, a chat that the tokenizer has no template for.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("texts: a sequence of strings is needed")
        documents = [encode_document(self.tokenizer, text, self.bos) for text in texts]
        check_token_ids(self.model, [document.ids for document in documents])
        return (
            [document.head(int(self.length or 0)) for document in documents] if self.truncation == "head" else documents
        )

    @torch.inference_mode()
    def _run(
        self, batch: Sequence[Window], reduce: Callable[..., torch.Tensor], shared: SharedPrefix | None
    ) -> list[np.ndarray]:
        """Run a batch; reduce logits and tokens of each block by ``reduce`` to rows ``[k, t]`` of each window."""
        parts = device_memory.run_in_slices(
            lambda rows: self._run_at_once(batch[rows], reduce, shared),
            len(batch),
            item_size=max(len(window.tokens) for window in batch) + (0 if shared is None else shared.length),
            unit="tokens",
            device=self.device,
            remedy="a smaller length (of the target), dtype='bfloat16' or device='map' needs less",
        )
        return [row for part in parts for row in part]

    def _run_at_once(
        self, batch: Sequence[Window], reduce: Callable[..., torch.Tensor], shared: SharedPrefix | None
    ) -> list[np.ndarray]:
        longest = max(len(window.tokens) for window in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        attention_mask = torch.zeros(len(batch), longest, dtype=torch.long)
        scored = torch.zeros(len(batch), longest - 1, dtype=torch.bool)
        for row, window in enumerate(batch):
            size = len(window.tokens)
            ids[row, :size] = torch.tensor(window.tokens)
            attention_mask[row, :size] = 1
            scored[row, window.skip : size - 1] = True
            if window.is_scored is not None:
                scored[row, : size - 1] &= torch.tensor(window.is_scored[1:])
        inputs: dict[str, Any] = {"use_cache": False}
        if shared is not None:
            attention_mask = torch.cat([attention_mask.new_ones(len(batch), shared.length), attention_mask], dim=1)
            inputs |= shared.repeat(len(batch))
        inputs |= {
            "input_ids": networks.move(ids, self.device),
            "attention_mask": networks.move(attention_mask, self.device),
        }
        scored_tokens = ids[:, 1:][scored]
        if self._split:
            hidden = self.model.base_model(**inputs).last_hidden_state[:, :-1]
            head = partial(apply_head, self.model)
            n_logits = self.model.get_output_embeddings().weight.shape[0]
        else:
            hidden, head = self.model(**inputs).logits[:, :-1], lambda rows: rows
            n_logits = hidden.shape[-1]
        # The layers, and the head, may each be on a device of their own.
        reduced = reduce_in_blocks(hidden[scored.to(hidden.device)], scored_tokens, n_logits, head, reduce)
        return np.split(reduced.cpu().numpy(), np.cumsum(scored.sum(1).numpy())[:-1], axis=1)


def reduce_in_blocks(
    rows: torch.Tensor,
    tokens: torch.Tensor,
    n_logits: int,
    head: Callable[[torch.Tensor], torch.Tensor],
    reduce: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Return ``reduce`` of logits and tokens ``[k, t]``, of as many tokens at a time as memory holds logits of.

    Args:
        rows: last hidden states, or logits, ``[t, h]``.
        tokens: the token that stands there, ``[t]``, on any device.
        n_logits: size of the vocabulary.
        head: from some of the rows to their logits.
        reduce: from logits and tokens to what is kept, ``[k, t]``.
    """
    size = max(logits_per_block(rows.device) // n_logits, 1)

    def reduce_block(block: torch.Tensor, block_tokens: torch.Tensor) -> torch.Tensor:
        logits = head(block)
        return reduce(logits, block_tokens.to(logits.device))

    parts = [
        part
        for block, block_tokens in zip(rows.split(size), tokens.split(size), strict=True)
        for part in device_memory.run_in_slices(
            lambda some, block=block, block_tokens=block_tokens: reduce_block(block[some], block_tokens[some]),
            len(block),
            item_size=n_logits,
            unit="logits",
            device=rows.device,
            remedy="dtype='bfloat16' or device='map' leaves more",
        )
    ]
    return torch.cat(parts, dim=1) if parts else reduce_block(rows, tokens)


def logits_per_block(device: torch.device) -> int:
    """Return how many logits are held at a time on a device: fewer where it has little memory left."""
    if device.type == "cpu":
        return _LOGITS_PER_BLOCK_CPU
    free = device_memory.free_memory(device)
    return _LOGITS_PER_BLOCK if free is None else min(_LOGITS_PER_BLOCK, free // _BYTES_PER_LOGIT)


def context_length(model: Any) -> int:
    """Return the longest input, by whichever name the configuration has for it; 4096 if it names none."""
    config = getattr(model.config, "text_config", model.config)
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    lengths = [getattr(config, name, None) for name in names]
    return next((size for size in lengths if isinstance(size, int) and size > 1), 4096)  # -1: without end (XLNet)


@torch.inference_mode()
def has_separate_head(model: Any) -> bool:
    """Check whether the logits are the output layer on the last hidden state, up to what `finish_logits` knows."""
    head = model.get_output_embeddings()
    base = getattr(model, "base_model", model)
    if head is None or base is model:
        return False
    ids = (torch.arange(2, 6)[None] % head.weight.shape[0]).to(device_memory.input_device(model))
    head_logits = apply_head(model, base(input_ids=ids, use_cache=False).last_hidden_state)
    logits = model(input_ids=ids, use_cache=False).logits.to(head_logits.device)
    return head_logits.shape == logits.shape and bool(torch.allclose(head_logits, logits, rtol=1e-3, atol=1e-3))


def apply_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Return the logits of last hidden states, on the output layer's device."""
    head = model.get_output_embeddings()
    return finish_logits(model, head(hidden.to(device_memory.module_device(head))))


def finish_logits(model: Any, logits: torch.Tensor) -> torch.Tensor:
    """Scale (Cohere, Granite) or cap (Gemma) the logits after the output layer, as some families do."""
    logits = logits * (getattr(model.config, "logit_scale", None) or 1.0)
    logits = logits / (getattr(model.config, "logits_scaling", None) or 1.0)
    cap = getattr(model.config, "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits


_DECODING = "a divulge.targets.Decoding"


@panic_errors("tokenizer")
def leading_tokens(tokenizer: Any, bos: str) -> tuple[int, ...]:
    """Return the tokens that a tokenizer puts before a text under one of the policies of `CausalLM`."""
    if bos == "add":
        return (tokenizer.bos_token_id,)
    if bos == "none":
        return ()
    with_special, without_special = (
        tokenizer("a", add_special_tokens=special)["input_ids"] for special in (True, False)
    )
    starts = range(len(with_special))
    return tuple(
        with_special[
            : next(
                (start for start in starts if with_special[start : start + len(without_special)] == without_special), 0
            )
        ]
    )


@panic_errors("tokenizer")
def encode_texts(tokenizer: Any, texts: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the tokens of each text, without special ones around them.

    Raises:
        divulge.InputError: something that is not a string.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts: a sequence of strings is needed")
    return [tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts]


# Documents are turned into tokens once and cut between two of them: no token of a suffix depends on where the cut is.
def score_continuations(
    target: CausalLM,
    prefixes: Sequence[Sequence[int]],
    suffixes: Sequence[Sequence[int]],
    decoding: Decoding | None = None,
) -> Continuations:
    """Return the log-probability of each token of a suffix after its prefix and the suffix's tokens before it.

    Batches, windows and precision are those of `CausalLM.tokens`: documents of similar length together, padding on the
    right, logits cast up before the softmax.

    Args:
        target: the model.
        prefixes: token ids, at least one each; `CausalLM.start` belongs to them where the model is used with it.
        suffixes: token ids, at least one each, as many as there are prefixes.
        decoding: how tokens are drawn; as the model says when None.

    Raises:
        divulge.InputError: an empty prefix or suffix, more tokens than the model takes, ids that it does not have.
    """
    chosen = Decoding() if decoding is None else check_instance(decoding, "decoding", Decoding, _DECODING)
    if len(prefixes) != len(suffixes):
        raise InputError(f"suffixes: {len(prefixes)} are needed (one per prefix), got {len(suffixes)}")
    for entry, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True)):
        _check_continuation(target, entry, prefix, suffix)
    shared = read_shared_prefix(target.model, prefixes)
    n_shared = 0 if shared is None else shared.length
    windows = [
        Window(entry, 0, (*prefix[n_shared:], *suffix), len(prefix) - 1 - n_shared)
        for entry, (prefix, suffix) in enumerate(zip(prefixes, suffixes, strict=True))
    ]
    window_batches = list(batch_windows(windows, target.budget or 1, before=n_shared))
    rows: list[np.ndarray] = [np.empty((2, 0))] * len(windows)
    for batch, parts in zip(
        window_batches,
        target.side_by_side(window_batches, partial(sampling_log_probabilities, decoding=chosen), shared),
        strict=True,
    ):
        for window, part in zip(batch, parts, strict=True):
            rows[window.document] = part
    joined = np.concatenate(rows, axis=1) if rows else np.empty((2, 0))
    offsets = np.append(0, np.cumsum([part.shape[1] for part in rows], dtype=np.int64))
    return Continuations(offsets, joined[0].astype(np.float64), joined[1] > 0)


_MIN_SHARED_TOKENS = 16  # fewer are sooner read again than remembered


@dataclass(frozen=True, slots=True, eq=False)
class SharedPrefix:
    """Keys and values of tokens that stand before everything that is asked, read once.

    Args:
        length: number of tokens.
        argument: what the model calls its keys and values.
        keys_values: of each layer, ``[1, heads, length, d]`` each.
    """

    length: int
    argument: str
    keys_values: tuple[tuple[torch.Tensor, torch.Tensor], ...]

    def repeat(self, n_rows: int) -> dict[str, Any]:
        """Return the model's argument for a batch; nothing is copied before new keys are put behind."""
        repeated = [tuple(part.expand(n_rows, -1, -1, -1) for part in layer) for layer in self.keys_values]
        return {self.argument: transformers.DynamicCache(repeated)}


@torch.inference_mode()
def read_shared_prefix(model: Any, prefixes: Sequence[Sequence[int]]) -> SharedPrefix | None:
    """Read the tokens that all prefixes begin with, less their last; None where that saves nothing.

    Models that keep anything else than the keys and values of all tokens (a sliding window, a state) read them anew.
    """
    common = list(itertools.takewhile(lambda column: len(set(column)) == 1, zip(*prefixes, strict=False)))
    length = min(len(common), min(map(len, prefixes), default=0) - 1)
    if len(prefixes) < 2 or length < _MIN_SHARED_TOKENS:
        return None
    argument = cache_argument(model)
    ids = torch.tensor([[column[0] for column in common[:length]]]).to(device_memory.input_device(model))
    answer = model.base_model(input_ids=ids, use_cache=True)
    cache = getattr(answer, argument, None)
    cache = getattr(answer, "past_key_values", None) if cache is None else cache
    layers = getattr(cache, "layers", ())
    if type(cache) is not transformers.DynamicCache or any(
        type(layer) is not cache_utils.DynamicLayer or layer.keys.shape[2] != length for layer in layers
    ):
        return None
    return SharedPrefix(length, argument, tuple((layer.keys, layer.values) for layer in layers))


def cache_argument(model: Any) -> str:
    """Return what a model calls its keys and values; transformers renamed them in 5.24."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in inspect.signature(base.forward).parameters else "past_key_values"


def _check_continuation(target: CausalLM, number: int, prefix: Sequence[int], suffix: Sequence[int]) -> None:
    for name, tokens in (("prefixes", prefix), ("suffixes", suffix)):
        if not len(tokens):
            raise InputError(f"{name}: at least 1 token is needed, entry {number} has none")
        if min(tokens) < 0:
            raise InputError(f"{name}: tokens are numbers from 0 on, entry {number} has {min(tokens)}")
    check_token_ids(target.model, [prefix, suffix])
    if len(prefix) + len(suffix) > (target.length or 0):
        raise InputError(
            f"prefixes: entry {number} has {len(prefix) + len(suffix)} tokens with its suffix, the model takes at most "
            f"{target.length}"
        )


@torch.inference_mode()
def greedy_continuations(target: CausalLM, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
    """Decode greedily ``tokens`` tokens after each prefix; an end of text does not stop it.

    Prefixes of one length go together, so there is no padding.

    Raises:
        divulge.InputError: an empty prefix, more tokens than the model takes.
    """
    count = check_integer(tokens, "tokens", minimum=1)
    for number, prefix in enumerate(prefixes):
        _check_continuation(target, number, prefix, [0] * count)
    continuations: list[tuple[int, ...]] = [()] * len(prefixes)
    order = sorted(range(len(prefixes)), key=lambda row: len(prefixes[row]))
    for length, same in groupby(order, key=lambda row: len(prefixes[row])):
        rows_of_length = list(same)
        step = max((target.budget or 1) // (length + count), 1)
        for batch_start in range(0, len(rows_of_length), step):
            batch = [prefixes[row] for row in rows_of_length[batch_start : batch_start + step]]
            parts = device_memory.run_in_slices(
                lambda rows, batch=batch: _generate_greedily(target.model, batch[rows], count),
                len(batch),
                item_size=length + count,
                unit="tokens",
                device=target.device,
                remedy="a shorter prefix or suffix, dtype='bfloat16' or device='map' needs less",
            )
            for row, continuation in zip(rows_of_length[batch_start:], itertools.chain(*parts), strict=False):
                continuations[row] = tuple(continuation)
    return continuations


def _generate_greedily(model: Any, prefixes: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Decode greedily after prefixes of one length; keys and values are kept where the model keeps any."""
    device = device_memory.input_device(model)
    sequences = inputs = torch.tensor([list(prefix) for prefix in prefixes]).to(device)
    name, cache = cache_argument(model), None
    for _ in range(count):
        answer = model(input_ids=inputs, use_cache=True, **({} if cache is None else {name: cache}))
        next_tokens = answer.logits[:, -1].float().argmax(-1, keepdim=True)
        sequences = torch.cat([sequences, next_tokens.to(sequences.device)], dim=1)
        cache = getattr(answer, name, None)
        cache = getattr(answer, "past_key_values", None) if cache is None else cache
        inputs = sequences if cache is None else sequences[:, -1:]
    return sequences[:, -count:].tolist()


_LOGITS_IN_CACHE = 1 << 17


def reduce_logits(logits: torch.Tensor, target: torch.Tensor, *, vocabulary: bool = True) -> torch.Tensor:
    """Compute the statistics of a block of tokens, ``[7, t]`` float32, in the order of `PER_TOKEN`.

    The logits are cast up before the softmax: a bfloat16 log-softmax is wrong by .009 in the mean, this by .0006.

    Args:
        logits: ``[t, V]``, any floating type.
        target: the token that stands there, ``[t]``.
        vocabulary: False for the log-probability of the token alone, ``[1, t]``, which is cheaper.
    """
    part = _vocabulary_statistics if vocabulary else _token_log_probability
    return _reduce_in_cache(part, logits, target)


def _reduce_in_cache(
    reduce: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], logits: torch.Tensor, target: torch.Tensor
) -> torch.Tensor:
    """Reduce few enough rows at a time that they stay in the cache: there are several passes over the same numbers."""
    size = max(_LOGITS_IN_CACHE // logits.shape[-1], 1) if logits.device.type == "cpu" else len(logits)
    return torch.cat([reduce(*rows) for rows in zip(logits.split(size), target.split(size), strict=True)], dim=1)


def _token_log_probability(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    # As `_reduce` has it, to the bit: what else is asked of a model changes no score.
    x = logits.float()
    x = x - x.amax(1, keepdim=True)
    token_logit = x.gather(1, target[:, None])[:, 0]
    return (token_logit - x.exp_().sum(1).log())[None]


def _vocabulary_statistics(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    x = logits.float()
    x = x - x.amax(1, keepdim=True)
    token_logp = x.gather(1, target[:, None])[:, 0]
    p = x.exp()
    total = p.sum(1)
    log_total = total.log()  # minus the largest log-probability, as the largest x is 0
    half = 2 * p.sqrt().sum(1).log() - log_total
    p.div_(total[:, None])
    two = -torch.linalg.vecdot(p, p).log()
    mean = torch.linalg.vecdot(p, x)
    variance = torch.linalg.vecdot(p, x.sub_(mean[:, None]).square_())
    # p log(1 - p), where p = 1 can only be rounding: the largest float below 1 stands for it. That log1p would
    # be more accurate for small p does not count, as p is a factor, and it takes three times as long.
    log_rest = (1 - p).clamp_(min=2**-24).log_()
    token_logp = token_logp - log_total
    token_p = token_logp.exp()
    other_terms = torch.linalg.vecdot(p, log_rest) - token_p * (1 - token_p).clamp(min=2**-24).log()
    modified = -(1 - token_p) * token_logp - other_terms
    return torch.stack([token_logp, log_total - mean, variance, modified, half, two, log_total])


def sampling_log_probabilities(logits: torch.Tensor, target: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Return the log-probability with which a token is drawn, and 1 where it is the greedy one, ``[2, t]`` float32.

    Args:
        logits: ``[t, V]``, any floating type.
        target: the token that stands there, ``[t]``.
        decoding: how tokens are drawn; what it leaves out has minus infinity.
    """
    # In the order of transformers: another one would draw otherwise.
    warpers = []
    if decoding.temperature != 1:
        warpers.append(transformers.TemperatureLogitsWarper(float(decoding.temperature)))
    if decoding.top_k is not None and decoding.top_k < logits.shape[1]:
        warpers.append(transformers.TopKLogitsWarper(decoding.top_k))
    if decoding.top_p is not None and decoding.top_p < 1:
        warpers.append(transformers.TopPLogitsWarper(float(decoding.top_p)))

    def reduce(block: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        x = block.float()
        greedy = x.argmax(1) == tokens
        for warp in warpers:
            x = warp(None, x)
        return torch.stack([x.gather(1, tokens[:, None])[:, 0] - x.logsumexp(1), greedy.float()])

    return _reduce_in_cache(reduce, logits, target)


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a document that is run through the model at once.

    Args:
        document: which.
        start: place of its first token in the document.
        tokens: its token ids.
        skip: how many of its predictions were already made by the window before.
        is_scored: which of its tokens are; None for all that are predicted.
    """

    document: int
    start: int
    tokens: tuple[int, ...]
    skip: int
    is_scored: tuple[bool, ...] | None = None


def split_windows(
    document: int, tokens: Sequence[int], length: int, stride: int, is_scored: Sequence[bool] | None = None
) -> list[Window]:
    """Split into windows of at most ``length`` tokens, ``stride`` apart; each token is scored once, with most context.

    Windows without a token to score are left out.

    Examples:
        >>> [(w.tokens, w.skip) for w in split_windows(0, [1, 2, 3, 4, 5], length=3, stride=2)]
        [((1, 2, 3), 0), ((3, 4, 5), 0)]
        >>> [(w.tokens, w.skip) for w in split_windows(0, [1, 2, 3, 4], length=3, stride=1)]
        [((1, 2, 3), 0), ((2, 3, 4), 1)]
    """
    pieces, scored = [], 1  # the first token is predicted by nothing
    for start in range(0, max(len(tokens) - 1, 0), stride):
        piece = tuple(tokens[start : start + length])
        mask = None if is_scored is None else tuple(is_scored[start : start + length])
        if mask is None or any(mask[scored - start :]):
            pieces.append(Window(document, start, piece, scored - start - 1, mask))
        scored = start + len(piece)
        if scored >= len(tokens):
            break
    return pieces


def batch_windows(pieces: Sequence[Window], budget: int, before: int = 0) -> Iterator[list[Window]]:
    """Batch windows of similar length, with at most ``budget`` tokens per batch, padding included.

    Args:
        pieces: the windows.
        budget: tokens in a batch.
        before: tokens before each window that were read already; they take memory as well.
    """
    batch: list[Window] = []
    for window in sorted(pieces, key=lambda w: len(w.tokens), reverse=True):
        longest = len(batch[0].tokens) + before if batch else 0
        if batch and (len(batch) + 1) * longest > budget:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None


@dataclass(frozen=True, slots=True, eq=False)
class VisionLanguage:
    """A model that reads an image and a text, asked for statistics per token.

    An image takes up many places of the input, one per patch, and at each the model has a distribution
    over the next word. Nothing is said there that could be right or wrong, so the log-probability of
    "the token" does not exist (NaN); the Rényi entropies do, and members make the model surer
    (Li et al., "Membership inference attacks against large vision-language models", NeurIPS 2024).

    Args:
        model: a `transformers` image-text-to-text model, on its device.
        processor: its processor; the text must hold its image token, which is put before it if missing.
        name: what to call it; part of the cache key.
        batch: records run at a time.

    Raises:
        divulge.InputError: a configuration without an image token, or a batch below 1.
    """

    model: Any
    processor: Any
    name: str = "model"
    batch: int = 4
    _split: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_integer(self.batch, "batch", minimum=1)
        if _image_token_id(self.model) is None:
            raise InputError("model: its configuration names no image token; is it an image-text-to-text model?")
        self.model.eval()
        object.__setattr__(self, "_split", has_separate_head(self.model))

    @classmethod
    def load(cls, name: str, *, dtype: str = "float32", device: str = "auto", **options: Any) -> VisionLanguage:
        """Load from ``hf:NAME``, ``hf:NAME@REVISION`` or a local folder.

        Raises:
            divulge.InputError: unknown dtype, or a model that cannot be loaded.
        """
        model, processor = pretrained.load_pretrained(
            transformers.AutoModelForImageTextToText, transformers.AutoProcessor, name, dtype, device
        )
        return cls(model, processor, name=name, **options)

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers."""
        return {
            "model": self.name,
            "weights": pretrained.weights_digest(self.model),
            "tokenizer": pretrained.tokenizer_digest(self.processor.tokenizer),
            "dtype": str(self.model.dtype),
        }

    def statistics(self, images: Sequence[Any], texts: Sequence[str], *, part: str = "image") -> TokenStatistics:
        """Compute the statistics of each record.

        Args:
            images: one per record: arrays ``[height, width, 3]`` of uint8, or PIL images.
            texts: the instruction that goes with each.
            part: "image" (the places of the image; log-probabilities are NaN) or "text".

        Raises:
            divulge.InputError: an unknown part, or different numbers of images and texts.
        """
        check_choice(part, "part", ("image", "text"))
        if len(images) != len(texts):
            raise InputError(f"texts: {len(images)} are needed (one per image), got {len(texts)}")
        rows: list[dict[str, np.ndarray]] = []
        for answers in device_memory.run_in_slices(
            lambda some: self._run(list(images[some]), list(texts[some]), part),
            len(texts),
            item_size=1,
            unit="images with their texts",
            device=device_memory.input_device(self.model),
            remedy="a smaller image, or dtype='bfloat16', needs less",
            at_once=self.batch,
        ):
            rows += answers
        return TokenStatistics.from_documents(texts, rows)

    @torch.inference_mode()
    def _run(self, images: list[Any], texts: list[str], part: str) -> list[dict[str, np.ndarray]]:
        image_token = self.processor.image_token
        prompts = [text if image_token in text else f"{image_token}\n{text}" for text in texts]
        inputs = self.processor(
            images=images, text=prompts, return_tensors="pt", padding=True, padding_side="right"
        ).to(device_memory.input_device(self.model))
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
        ids, attention_mask = inputs["input_ids"], inputs["attention_mask"].bool()
        positions, target = _select_positions(ids, attention_mask, ids == _image_token_id(self.model), part)
        reduced = self._reduce(inputs, positions, target).cpu().numpy()
        if part == "image":
            reduced[PER_TOKEN.index("logp")] = reduced[PER_TOKEN.index("modified_entropy")] = np.nan
        cuts = np.cumsum(positions.sum(1).cpu().numpy())[:-1]
        return [
            dict(zip(PER_TOKEN, piece.astype(np.float64), strict=True)) for piece in np.split(reduced, cuts, axis=1)
        ]

    def _reduce(self, inputs: Any, positions: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if self._split:
            hidden = self.model.base_model(**inputs, use_cache=False).last_hidden_state
            head = partial(apply_head, self.model)
            n_logits = self.model.get_output_embeddings().weight.shape[0]
        else:
            hidden, head = self.model(**inputs, use_cache=False).logits, lambda rows: rows
            n_logits = hidden.shape[-1]
        return reduce_in_blocks(hidden[positions.to(hidden.device)], target, n_logits, head, reduce_logits)


def _select_positions(
    ids: torch.Tensor, attention_mask: torch.Tensor, image: torch.Tensor, part: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positions of a part's distributions, bool ``[B, L]``, and the token that comes next there, ``[t]``."""
    next_tokens = torch.roll(ids, -1, dims=1)
    if part == "image":
        positions = image & attention_mask
    else:
        positions = attention_mask & torch.roll(attention_mask & ~image, -1, dims=1)
        positions[:, -1] = False  # nothing follows the last place
    return positions, next_tokens[positions]


def _image_token_id(model: Any) -> int | None:
    config = model.config
    token = getattr(config, "image_token_id", None)
    return getattr(config, "image_token_index", None) if token is None else token
