"""Causal language models of Hugging Face: one forward pass, reduced on the device to statistics per token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError, missing_extra
from divulge.store import panic_errors
from divulge.targets import continuations as written
from divulge.targets.pretrained import fingerprint, known_tokens, pretrained, tokenizer_digest
from divulge.targets.statistics import PER_TOKEN, TokenStatistics
from divulge.targets.token_reduction import reduce
from divulge.targets.token_windows import Window, batches, windows
from divulge.validation import check_choice, check_integer

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import transformers

    from divulge.targets.decoding import Continuations, Decoding
else:
    transformers = lazy.module("transformers")

# Logits held at a time, and of them reduced at a time. On a CPU: 28 MiB of float32, below what allocators give
# back to the system each time, and half a MiB, which stays in the cache.
_LOGITS, _LOGITS_CPU = 1 << 25, 7 << 20
# Tokens in a batch: more make a GPU faster; a CPU's caches hold few.
_BUDGET, _BUDGET_CPU = 8192, 1024


@dataclass(frozen=True, slots=True, eq=False)
class CausalLM:
    """A causal language model and its tokenizer, asked for token statistics.

    Hidden states go through the output layer in blocks, so logits of all tokens are never held; padding
    stands on the right, where a causal model does not see it, and is never scored.

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
        usual = _BUDGET_CPU if self.model.device.type == "cpu" else _BUDGET
        budget = usual if self.budget is None else check_integer(self.budget, "budget", least=1)
        object.__setattr__(self, "budget", budget)
        most = context(self.model)
        length = most if self.length is None else check_integer(self.length, "length", least=2)
        if length > most:
            raise InputError(f"length: the model takes at most {most} tokens, got {length}")
        object.__setattr__(self, "length", length)
        stride = max(length // 2, 1) if self.stride is None else check_integer(self.stride, "stride", least=1)
        if stride >= length:
            raise InputError(f"stride: must be below the length {length}, got {stride}")
        object.__setattr__(self, "stride", stride)
        if self.bos == "add" and self.tokenizer.bos_token_id is None:
            raise InputError("bos: the tokenizer has no BOS token to add")
        self.model.eval()
        object.__setattr__(self, "_split", splits(self.model))

    @classmethod
    def load(cls, name: str, *, dtype: str = "float32", device: str = "auto", **options: Any) -> CausalLM:
        """From ``hf:NAME``, ``hf:NAME@REVISION`` or a local folder; weights are read from safetensors alone.

        Args:
            name: which model.
            dtype: "float32", "bfloat16" or "float16"; logits are cast up in any case.
            device: "auto" (a GPU if there is one), "cpu", "cuda", or "map" to spread layers over all devices.
            **options: the other arguments of `CausalLM`.

        Raises:
            divulge.InputError: unknown dtype, or a model that cannot be loaded.
        """
        model, tokenizer = pretrained(
            transformers.AutoModelForCausalLM, transformers.AutoTokenizer, name, dtype, device
        )
        return cls(model, tokenizer, name=name, **options)

    def key(self) -> Mapping[str, Any]:
        """What decides the numbers: two runs with equal keys may share their results."""
        return {
            "model": self.name,
            "weights": fingerprint(self.model),
            "tokenizer": tokenizer_digest(self.tokenizer),
            "bos": self.bos,
            "length": self.length,
            "stride": self.stride,
            "truncation": self.truncation,
            "dtype": str(self.model.dtype),
        }

    def tokens(self, texts: Sequence[str], *, vocabulary: bool = True) -> TokenStatistics:
        """Statistics of each text; texts without a scored token keep their row.

        Args:
            texts: the documents.
            vocabulary: False to leave out what needs the whole distribution, which is cheaper.

        Raises:
            divulge.InputError: something that is not a string.
        """
        encoded = self.encoded(texts)
        cut = [window for i, ids in enumerate(encoded) for window in windows(i, ids, *self._step())]
        # Windows are run in the order of their length and put together in that of their documents.
        values: dict[tuple[int, int], np.ndarray] = {}
        work = list(batches(cut, self.budget or _BUDGET))
        for batch, rows in zip(work, self.side_by_side(work, partial(reduce, vocabulary=vocabulary)), strict=True):
            for window, part in zip(batch, rows, strict=True):
                values[window.document, window.start] = part
        pieces: list[list[np.ndarray]] = [[] for _ in texts]
        for window in cut:
            pieces[window.document].append(values[window.document, window.start])
        names = PER_TOKEN if vocabulary else PER_TOKEN[:1]
        return TokenStatistics.of(texts, [_joined(part, names) for part in pieces])

    @property
    def start(self) -> tuple[int, ...]:
        """The tokens that stand before every prompt: a BOS, or whatever the policy ``bos`` asks for."""
        return written.start(self.tokenizer, self.bos)

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each text, without those of `start`."""
        return written.encode(self.tokenizer, texts)

    @panic_errors("tokenizer")
    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False)

    def continuations(
        self, prefixes: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]], *, decoding: Decoding | None = None
    ) -> Continuations:
        """How likely each suffix follows its prefix, see `divulge.targets.continuations.score`."""
        return written.score(self, prefixes, suffixes, decoding)

    def greedy(self, prefixes: Sequence[Sequence[int]], tokens: int) -> list[tuple[int, ...]]:
        """The greedy continuation of each prefix, see `divulge.targets.continuations.greedy`."""
        return written.greedy(self, prefixes, tokens)

    def side_by_side(
        self, work: Sequence[Sequence[Window]], reducing: Callable[..., torch.Tensor]
    ) -> Iterator[Sequence[np.ndarray]]:
        """What ``reducing`` makes of each batch; on a CPU each core has a batch of its own, and no two share one."""
        threads = torch.get_num_threads() if self.model.device.type == "cpu" else 1
        if min(threads, len(work)) < 2:
            yield from (self._run(batch, reducing) for batch in work)
            return
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                yield from pool.map(partial(self._run, reducing=reducing), work)
        finally:
            torch.set_num_threads(threads)  # of what torch calls, some count threads for the whole process

    def _step(self) -> tuple[int, int]:
        return int(self.length or 0), int(self.stride or 0)

    def encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, a BOS included where there is one.

        Raises:
            divulge.InputError: something that is not a string.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("texts: a sequence of strings is needed")
        encoded = [self._encode(text) for text in texts]
        known_tokens(self.model, encoded)
        return encoded

    @panic_errors("tokenizer")
    def _encode(self, text: str) -> list[int]:
        ids = self.tokenizer(text, add_special_tokens=self.bos == "tokenizer", verbose=False)["input_ids"]
        ids = [self.tokenizer.bos_token_id, *ids] if self.bos == "add" else list(ids)
        return ids[: self.length] if self.truncation == "head" else ids

    @torch.inference_mode()
    def _run(self, batch: Sequence[Window], reducing: Callable[..., torch.Tensor]) -> list[np.ndarray]:
        """Rows ``[k, t]`` of each window: what ``reducing`` makes of the logits and tokens of a block."""
        longest = max(len(window.tokens) for window in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        real = torch.zeros(len(batch), longest, dtype=torch.long)
        scored = torch.zeros(len(batch), longest - 1, dtype=torch.bool)
        for row, window in enumerate(batch):
            size = len(window.tokens)
            ids[row, :size] = torch.tensor(window.tokens)
            real[row, :size] = 1
            scored[row, window.skip : size - 1] = True
        device = self.model.device
        ids, real, where = ids.to(device), real.to(device), scored.to(device)
        reduced = torch.cat([reducing(*part) for part in self._logits(ids, real, where, ids[:, 1:][where])], dim=1)
        return np.split(reduced.cpu().numpy(), np.cumsum(scored.sum(1).numpy())[:-1], axis=1)

    def _logits(
        self, ids: torch.Tensor, real: torch.Tensor, where: torch.Tensor, target: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The logits at the places asked for, some at a time, and the tokens that stand there."""
        if not self._split:
            logits = self.model(input_ids=ids, attention_mask=real, use_cache=False).logits[:, :-1][where]
            yield from blocks(logits, target, logits.shape[-1])
            return
        hidden = self.model.base_model(input_ids=ids, attention_mask=real, use_cache=False).last_hidden_state
        head = self.model.get_output_embeddings()
        for rows, own in blocks(hidden[:, :-1][where], target, head.weight.shape[0]):
            yield finished(self.model, head(rows)), own


def blocks(rows: torch.Tensor, target: torch.Tensor, vocabulary: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Rows and their tokens, few enough at a time for their logits to be held."""
    size = max((_LOGITS_CPU if rows.device.type == "cpu" else _LOGITS) // vocabulary, 1)
    return zip(rows.split(size), target.to(rows.device).split(size), strict=True)


def _joined(pieces: Sequence[np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    values = np.concatenate(pieces, axis=1) if pieces else np.empty((len(names), 0))
    return dict(zip(names, values.astype(np.float64), strict=True))


def context(model: Any) -> int:
    """The longest input, from whichever name the configuration has for it; 4096 where it names none."""
    config = getattr(model.config, "text_config", model.config)
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    lengths = [getattr(config, name, None) for name in names]
    return next((size for size in lengths if isinstance(size, int) and size > 1), 4096)  # -1: without end (XLNet)


@torch.inference_mode()
def splits(model: Any) -> bool:
    """Whether the logits are the output layer on the last hidden state, up to what `finished` knows."""
    head = model.get_output_embeddings()
    base = getattr(model, "base_model", model)
    if head is None or base is model:
        return False
    ids = torch.arange(2, 6, device=model.device)[None] % head.weight.shape[0]
    hidden = base(input_ids=ids, use_cache=False).last_hidden_state
    logits = model(input_ids=ids, use_cache=False).logits
    own = finished(model, head(hidden))
    return own.shape == logits.shape and bool(torch.allclose(own, logits, rtol=1e-3, atol=1e-3))


def finished(model: Any, logits: torch.Tensor) -> torch.Tensor:
    """What some families do to the logits after the output layer: scale (Cohere, Granite) or cap (Gemma)."""
    logits = logits * (getattr(model.config, "logit_scale", None) or 1.0)
    logits = logits / (getattr(model.config, "logits_scaling", None) or 1.0)
    cap = getattr(model.config, "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits
