"""Sequence classifiers of Hugging Face: documents in, logits of the classes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge.errors import InputError, missing_extra
from divulge.store import panic_errors
from divulge.targets import outputs as out
from divulge.validation import check_integer, check_labels, require_callable

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

from divulge import networks
from divulge.targets import device_memory
from divulge.targets.language_models import Window, batch_windows, context_length
from divulge.targets.pretrained import check_token_ids, tokenizer_digest, weights_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from divulge.types import Array, Floats, Ints, Records

_BUDGET = 4096
_PADDING_TOLERANCE = {
    torch.float32: 1e-4,
    torch.float64: 1e-8,
}  # logits in one batch and alone; half precision is coarser


@dataclass(frozen=True, slots=True, eq=False)
class TextClassifier:
    """A sequence classifier and its tokenizer, asked for the logits of documents.

    Documents of similar length share a batch, padded on the right, where that was seen to change nothing: two
    stretches are run together and alone when the target is made. Otherwise (a decoder that knows no padding token,
    a model that reads its last place) each document is run by itself.

    Args:
        model: a `transformers` model for sequence classification, on its device.
        tokenizer: its tokenizer.
        name: what to call it; part of the cache key.
        length: tokens given to the model at most, special ones included; its context when None. Of longer documents
            only the beginning is read: `notes` says of how many.
        budget: tokens in a batch, padding included.

    Raises:
        divulge.InputError: a model that is no classifier of two or more classes that exclude each other, a length
            that the model cannot take.
    """

    model: Any
    tokenizer: Any
    name: str = "model"
    length: int | None = None
    budget: int = _BUDGET
    _can_batch: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        check_integer(self.budget, "budget", minimum=1)
        config = getattr(self.model, "config", None)
        classes, problem_type = getattr(config, "num_labels", None), getattr(config, "problem_type", None)
        if not type(self.model).__name__.endswith("ForSequenceClassification") or not isinstance(classes, int):
            raise InputError(f"model: a sequence classifier of transformers is needed, got {type(self.model).__name__}")
        if classes < 2 or problem_type not in (None, "single_label_classification"):
            raise InputError(
                f"model: two or more classes that exclude each other are needed, got {classes} "
                f"({problem_type or 'regression'})"
            )
        require_callable(self.tokenizer, "tokenizer", "get_vocab", "__call__")
        # Where places are numbered from behind the padding token (RoBERTa), so many fewer fit.
        places = [
            part.padding_idx + 1
            for name, part in self.model.named_modules()
            if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None
        ]
        max_length = min(
            context_length(self.model) - max(places, default=0), max(int(self.tokenizer.model_max_length), 4)
        )
        length = max_length if self.length is None else check_integer(self.length, "length", minimum=4)
        if length > max_length:
            raise InputError(f"length: the model takes at most {max_length} tokens, got {length}")
        object.__setattr__(self, "length", length)
        self.model.eval()
        object.__setattr__(self, "_can_batch", _is_padding_safe(self))

    def logits(self, records: Records) -> Floats:
        """Logits of each document, float64 ``[n, K]``.

        Raises:
            divulge.InputError: records that are no texts, a text without a token, tokens that the model does not know.
        """
        encoded = self._encoded(records.x)
        documents = [Window(i, 0, tuple(ids), 0) for i, ids in enumerate(encoded)]
        answers = np.empty((len(encoded), self.model.config.num_labels))
        for batch in batch_windows(documents, self.budget if self._can_batch else 1):
            answers[[part.document for part in batch]] = self.run([part.tokens for part in batch])
        return out.as_logits(answers, "logits", len(records))

    def labels(self, records: Records) -> Ints:
        """Predicted class of each document."""
        return self.logits(records).argmax(axis=1)

    def loss(self, records: Records) -> Floats:
        """Cross-entropy in nats of each document under its own label, ``[n]``."""
        if records.y is None:
            raise InputError("records: a loss needs labels, but y is None")
        labels = check_labels(records.y, "records.y", classes=self.model.config.num_labels)
        logits = torch.from_numpy(self.logits(records))
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels), reduction="none").numpy()

    def weights(self) -> Mapping[str, Array]:
        """Return every parameter by name."""
        parameters = {name: value.detach().cpu() for name, value in self.model.named_parameters()}
        plain = {name: value.float() if value.dtype == torch.bfloat16 else value for name, value in parameters.items()}
        return {name: value.numpy() for name, value in plain.items()}

    @panic_errors("tokenizer")
    def notes(self, records: Records) -> tuple[str, ...]:
        """Return a remark if records are longer than the model reads."""
        token_ids = self.tokenizer(list(records.x), verbose=False)["input_ids"]
        n_truncated = sum(len(ids) > int(self.length or 0) for ids in token_ids)
        if not n_truncated:
            return ()
        longer = f"{n_truncated} of {len(token_ids)} documents are longer than {self.length} tokens"
        return (f"{longer}; the rest of them is not read",)

    def key(self) -> Mapping[str, Any]:
        """Return what determines the numbers: two runs with equal keys may share their results."""
        return {
            "model": self.name,
            "weights": weights_digest(self.model),
            "tokenizer": tokenizer_digest(self.tokenizer),
            "length": self.length,
            "dtype": str(self.model.dtype),
        }

    def run(self, rows: Sequence[Sequence[int]]) -> Floats:
        """Logits ``[b, K]`` of token ids, padded on the right."""
        parts = device_memory.run_in_slices(
            lambda some: self._run_at_once(rows[some]),
            len(rows),
            item_size=max(map(len, rows)),
            unit="tokens",
            device=self.model.device,
            remedy="a smaller length (of the target) or dtype='bfloat16' needs less",
        )
        return np.concatenate(list(parts))

    @torch.inference_mode()
    def _run_at_once(self, rows: Sequence[Sequence[int]]) -> Floats:
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), getattr(self.model.config, "pad_token_id", None) or 0)
        attention_mask = torch.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            attention_mask[row, : len(tokens)] = 1
        device = self.model.device
        answer = self.model(input_ids=networks.move(ids, device), attention_mask=networks.move(attention_mask, device))
        return answer.logits.cpu().double().numpy()  # in this order: Apple's GPUs know no double precision

    @panic_errors("tokenizer")
    def _encoded(self, texts: Array) -> list[list[int]]:
        if texts.dtype != object:
            raise InputError(f"records: documents are needed, got numbers ({texts.dtype})")
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self.length, verbose=False)["input_ids"]
        if empty := [row for row, ids in enumerate(encoded) if not len(ids)]:
            raise InputError(
                f"records: documents without a token: {len(empty)} (first: row {empty[0]}, counted from 0)"
            )
        check_token_ids(self.model, encoded)
        return encoded


def _is_padding_safe(classifier: TextClassifier) -> bool:
    """Check whether a short and a longer document have the same logits in one batch as alone."""
    size, padding = len(classifier.tokenizer), getattr(classifier.model.config, "pad_token_id", None)
    usable = [token for token in range(min(size, 64)) if token != padding][-8:]
    if len(usable) < 2:
        return False
    rows = [usable[: len(usable) // 2], usable]
    try:
        batched_logits = classifier.run(rows)
    except ValueError:  # a decoder without a padding token refuses more than one document
        return False
    tolerance = _PADDING_TOLERANCE.get(classifier.model.dtype, 0.05)
    return bool(
        np.allclose(
            batched_logits, np.concatenate([classifier.run([row]) for row in rows]), rtol=tolerance, atol=tolerance
        )
    )
