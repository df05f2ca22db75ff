"""Next-token cross-entropy: documents into stretches, stretches into batches, a batch into gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from divulge.targets import text

_JITTER = 5.0  # tokens by which lengths are blurred, so that no two epochs have the same batches
_LOGITS = 1 << 20  # held at a time: on a CPU they stay in its cache


def split_stretches(ids: Sequence[int], longest: int) -> list[list[int]]:
    """Tokens cut into stretches; each after the first begins with the last token of the one before."""
    cut = [list(ids[at : at + longest]) for at in range(0, max(len(ids) - 1, 0), longest - 1)]
    return [stretch for stretch in cut if len(stretch) > 1]


def batch_stretches(cut: Sequence[list[int]], size: int, rng: np.random.Generator) -> Iterator[list[list[int]]]:
    """Stretches of nearly equal length together, so that little is padding, in a new order each time."""
    length = np.array([len(ids) for ids in cut]) + rng.normal(0, _JITTER, len(cut))
    order = np.argsort(length, kind="stable")
    starts = rng.permutation(np.arange(0, len(order), size))
    for start in starts:
        yield [cut[row] for row in order[start : start + size]]


@dataclass(frozen=True, slots=True, eq=False)
class NextTokenLoss:
    """Adds the gradients of a batch: cross-entropy of the next token, averaged over the tokens of the batch.

    The logits of a large vocabulary are most of what a batch takes, so they are made and used up some at a time, where
    the model's output layer can be asked by itself.

    Args:
        model: what is trained; an adapted one too.
        inner: the same model without adapters around it, if its output layer can be asked by itself; else None.
    """

    model: Any
    inner: Any

    @classmethod
    def of(cls, model: Any) -> NextTokenLoss:
        """A lesson for a model, which is not yet in training mode."""
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        return cls(model, inner if text.has_separate_head(inner) else None)

    def __call__(self, batch: Sequence[Sequence[int]]) -> float:
        """Add the gradients of a batch and give its loss; padding stands on the right."""
        width, device = max(map(len, batch)), self.model.device
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in batch], device=device)
        real = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch], device=device)
        place = real[:, 1:].bool()
        wanted = ids[:, 1:][place]
        asked = {"input_ids": ids, "attention_mask": real, "use_cache": False}
        if self.inner is None:
            loss = functional.cross_entropy(self.model(**asked).logits[:, :-1][place].float(), wanted)
            loss.backward()
            return loss.item()
        return self._by_parts(self.inner.base_model(**asked).last_hidden_state[:, :-1][place], wanted)

    def _by_parts(self, hidden: torch.Tensor, wanted: torch.Tensor) -> float:
        head = self.inner.get_output_embeddings()
        reached, total = hidden.detach().requires_grad_(), 0.0
        size = max(_LOGITS // head.weight.shape[0], 1)
        for rows, own in zip(reached.split(size), wanted.split(size), strict=True):
            logits = text.finish_logits(self.inner, head(rows)).float()
            loss = functional.cross_entropy(logits, own, reduction="sum") / len(wanted)
            loss.backward()
            total += loss.item()
        if hidden.requires_grad:  # adapters may sit in the output layer alone
            hidden.backward(reached.grad)
        return total
