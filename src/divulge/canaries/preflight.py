"""Look before training whether canaries will be learnt: are their secrets in what the trainer reads, with labels?

Secrets are looked for in the batches that the trainer's own collator makes, wherever packing, templates or truncation
have put them: three tokens in a row that are also in a secret count as found.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from divulge import lazy
from divulge.errors import InputError, user_code_errors
from divulge.validation import to_numpy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import torch

    from divulge.types import Array, Bools, Floats
else:
    torch = lazy.module("torch")

_WINDOW = 3  # tokens
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_ROWS_PER_BATCH = 32
_N_PROBED = 8  # canaries whose gradient is computed
MIN_TRAINED = 0.5  # of the tokens of an inserted canary's secret, which must have a label
_MIN_LEAKED = 0.8  # of those of a canary that was left out, in one row: it is in the data


@dataclass(slots=True)
class Sightings:
    """What was found of each of ``n`` secrets.

    Args:
        present: share of the tokens of each that was found, ``[n]``.
        trained: share that was found with a label, so that it is learnt, ``[n]``.
        whole: the largest share that was found in one row, ``[n]``.
        longest: tokens of the longest row.
        examples: for some canaries a row that holds their secret, and where in it labels are.
    """

    present: Floats
    trained: Floats
    whole: Floats
    longest: int = 0
    examples: dict[int, tuple[Mapping[str, Any], list[int]]] = field(default_factory=dict)


def collate(loader: Any) -> Iterator[Mapping[str, Any]]:
    """Return the batches of a data set by its loader's own collator, in the order of the rows.

    Neither the loader's sampler nor its random generators move, so that a training is what it would have been.
    """
    collator, data = getattr(loader, "collate_fn", None), getattr(loader, "dataset", None)
    if collator is None or not hasattr(data, "__getitem__"):
        yield from loader
        return
    for start in range(0, len(data), _ROWS_PER_BATCH):
        yield collator([data[i] for i in range(start, min(start + _ROWS_PER_BATCH, len(data)))])


def find_secrets(batches: Iterable[Mapping[str, Any]], secrets: Sequence[Sequence[int]]) -> Sightings:
    """Look for secrets in batches with ``input_ids`` and ``labels``, each ``[rows, tokens]``.

    Raises:
        divulge.InputError: batches without ``input_ids``.
    """
    window = max(min(_WINDOW, *map(len, secrets)), 1)
    table: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i, secret in enumerate(secrets):
        for position, key in enumerate(_hash_windows(np.asarray(secret), window).tolist()):
            table[key].append((i, position))
    known = np.sort(np.array(list(table), np.uint64))
    present, trained = ([np.zeros(len(secret), bool) for secret in secrets] for _ in range(2))
    found = Sightings(np.zeros(len(secrets)), np.zeros(len(secrets)), np.zeros(len(secrets)))
    for batch in batches:
        for row, (ids, labels) in enumerate(_read_rows(batch)):
            found.longest = max(found.longest, len(ids))
            keys = _hash_windows(ids, window)
            alignments: dict[tuple[int, int], set[int]] = defaultdict(set)
            nearest = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)]
            for at in np.flatnonzero(nearest == keys).tolist():
                for i, position in table[int(keys[at])]:
                    alignments[i, at - position].update(range(position, position + window))
            for (i, shift), positions in alignments.items():
                inside = np.array(sorted(positions))
                # Nothing comes before the first token of a row, so that it is not learnt.
                is_trained = (labels[inside + shift] != -100) & (inside + shift > 0)
                present[i][inside] = True
                trained[i][inside[is_trained]] = True
                found.whole[i] = max(found.whole[i], len(inside) / len(secrets[i]))
                if is_trained.mean() >= MIN_TRAINED and (i in found.examples or len(found.examples) < _N_PROBED):
                    found.examples[i] = (_take_row(batch, row), (inside[is_trained] + shift).tolist())
    found.present = np.array([marks.mean() for marks in present])
    found.trained = np.array([marks.mean() for marks in trained])
    return found


def _hash_windows(ids: Array, window: int) -> Array:
    """Return one number per stretch of ``window`` tokens, ``[tokens - window + 1]``."""
    if len(ids) < window:
        return np.zeros(0, np.uint64)
    stretches = np.lib.stride_tricks.sliding_window_view(ids.astype(np.uint64) + np.uint64(1), window)
    return (stretches * _FACTORS[:window]).sum(axis=1, dtype=np.uint64)


def _read_rows(batch: Mapping[str, Any]) -> Iterator[tuple[Array, Array]]:
    """Return token ids and labels of each row; without labels, all tokens are learnt."""
    if not hasattr(batch, "keys") or "input_ids" not in batch:
        raise InputError("loader: batches with input_ids are needed, as the model is given")
    ids = to_numpy(batch["input_ids"], "input_ids")
    labels = ids if batch.get("labels") is None else to_numpy(batch["labels"], "labels")
    return zip(np.atleast_2d(ids), np.atleast_2d(labels), strict=True)


def _take_row(batch: Mapping[str, Any], row: int) -> Mapping[str, Any]:
    n_rows = len(batch["input_ids"])
    return {
        name: value[row : row + 1]
        for name, value in batch.items()
        if hasattr(value, "detach") and value.ndim and len(value) == n_rows
    }


def explain_losses(
    found: Sightings, included: Bools, lengths: Sequence[int], limit: int | None, packs: bool
) -> list[str]:
    """Return why included canaries would not be learnt, each reason with the number of canaries.

    Args:
        found: of all canaries.
        included: which were inserted, ``[n]``.
        lengths: tokens of each canary's row before any truncation, ``[n]``.
        limit: the trainer's limit of tokens in a row, if it is known.
        packs: whether the trainer packs rows.
    """
    lost = included & (found.trained < MIN_TRAINED)
    masked = lost & (found.present >= MIN_TRAINED)
    is_longer = np.asarray(lengths) > (limit or found.longest)
    packed = lost & ~masked & packs
    truncated = lost & ~masked & ~packed & is_longer
    missing = lost & ~masked & ~packed & ~truncated
    cut = f"max_length = {limit}" if limit else f"the longest row has {found.longest} tokens"
    reasons = {
        "masked: the labels of their secret are -100 (completion_only_loss, assistant_only_loss, the collator)": masked,
        f"lost or cut in two by packing ({cut})": packed,
        f"truncated: their secret lies beyond the end of the row ({cut})": truncated,
        "missing: not in the data that the trainer reads (filtered out, or another data set was handed over)": missing,
    }
    return [f"{int(those.sum())} {reason}" for reason, those in reasons.items() if those.any()]


def count_leaked(found: Sightings, included: Bools) -> int:
    """Return how many canaries that were left out are in the data all the same."""
    return int((~included & (found.whole >= _MIN_LEAKED)).sum())


def count_without_gradient(model: Any, examples: Sequence[tuple[Mapping[str, Any], list[int]]], optimizer: Any) -> int:
    """Return on how many canaries the loss has no gradient for any parameter that is trained."""
    parameters = find_trained(model, optimizer)
    n_without = 0
    for row, positions in examples:
        inputs = {name: row[name] for name in row if name in ("input_ids", "attention_mask", "position_ids")}
        device = next(model.parameters()).device
        with torch.enable_grad():
            logits = model(**{name: value.to(device) for name, value in inputs.items()}).logits[0]
            at = torch.as_tensor(positions, device=device)
            targets = inputs["input_ids"][0].to(device)[at]
            loss = torch.nn.functional.cross_entropy(logits[at - 1].float(), targets)
            n_without += not _has_gradient(loss, parameters)
    return n_without


def require_trained(model: Any, optimizer: Any, n_inserted: int) -> None:
    """Raise where no parameter of a model is trained.

    Raises:
        divulge.InputError: in that case.
    """
    if not find_trained(model, optimizer):
        raise InputError(
            f"model: frozen: no parameter of it is trained, so that none of {n_inserted} inserted canaries would be "
            "learnt; attach an adapter, or set requires_grad, and hand these parameters to the optimizer"
        )


def find_trained(model: Any, optimizer: Any) -> list[Any]:
    """Return the parameters of a model that are trained: by the optimizer, where it is known."""
    in_optimizer = {id(each) for group in getattr(optimizer, "param_groups", ()) for each in group["params"]}
    return [
        each for each in model.parameters() if each.requires_grad and (not in_optimizer or id(each) in in_optimizer)
    ]


def _has_gradient(loss: Any, parameters: list[Any]) -> bool:
    if not loss.requires_grad:
        return False
    return any(
        each is not None and bool(each.ne(0).any()) for each in torch.autograd.grad(loss, parameters, allow_unused=True)
    )


def has_gradient(model: Any, x: Array, optimizer: Any) -> bool:
    """Return whether what a network gives for records ``[n, …]`` depends on a parameter that is trained."""
    parameters = find_trained(model, optimizer)
    device = parameters[0].device
    with torch.enable_grad(), user_code_errors("model"):
        dtype = parameters[0].dtype if x.dtype.kind == "f" else None
        outputs = model(torch.as_tensor(x, dtype=dtype, device=device))
        outputs = getattr(outputs, "logits", outputs)
        return _has_gradient(outputs.float().square().sum(), parameters)
