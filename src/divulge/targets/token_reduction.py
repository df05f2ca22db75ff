"""Logits of a block of tokens, reduced on the device to a few numbers per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from divulge import lazy
from divulge.errors import missing_extra

try:
    import torch
except ImportError:  # pragma: no cover - exercised by the light install
    raise missing_extra("torch", "text") from None

if TYPE_CHECKING:
    import transformers

    from divulge.targets.decoding import Decoding
else:
    transformers = lazy.module("transformers")

_LOGITS_IN_CACHE = 1 << 17


def reduce_logits(logits: torch.Tensor, target: torch.Tensor, *, vocabulary: bool = True) -> torch.Tensor:
    """Statistics of a block of tokens, ``[7, t]`` float32, in the order of `PER_TOKEN`.

    The logits are cast up before the softmax: a bfloat16 log-softmax is wrong by .009 in the mean, this by .0006.

    Args:
        logits: ``[t, V]``, any floating type.
        target: the token that stands there, ``[t]``.
        vocabulary: False for the log-probability of the token alone, ``[1, t]``, which is cheaper.
    """
    part = _vocabulary_statistics if vocabulary else _token_log_probability
    # A dozen passes over the same numbers: few enough rows at a time that they stay in the cache.
    size = max(_LOGITS_IN_CACHE // logits.shape[-1], 1) if logits.device.type == "cpu" else len(logits)
    return torch.cat([part(*rows) for rows in zip(logits.split(size), target.split(size), strict=True)], dim=1)


def _token_log_probability(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    # As `_reduce` has it, to the bit: what else is asked of a model changes no score.
    x = logits.float()
    x = x - x.amax(1, keepdim=True)
    own = x.gather(1, target[:, None])[:, 0]
    return (own - x.exp_().sum(1).log())[None]


def _vocabulary_statistics(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    x = logits.float()
    x = x - x.amax(1, keepdim=True)
    own = x.gather(1, target[:, None])[:, 0]
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
    own = own - log_total
    p_own = own.exp()
    others = torch.linalg.vecdot(p, log_rest) - p_own * (1 - p_own).clamp(min=2**-24).log()
    modified = -(1 - p_own) * own - others
    return torch.stack([own, log_total - mean, variance, modified, half, two, log_total])


def sampling_log_probabilities(logits: torch.Tensor, target: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Log-probability with which a token is drawn, and 1 where it is the greedy one, ``[2, t]`` float32.

    Args:
        logits: ``[t, V]``, any floating type.
        target: the token that stands there, ``[t]``.
        decoding: how tokens are drawn; what it leaves out has minus infinity.
    """
    x = logits.float()
    greedy = x.argmax(1) == target
    for warp in _warpers(decoding, x.shape[1]):
        x = warp(None, x)
    own = x.gather(1, target[:, None])[:, 0] - x.logsumexp(1)
    return torch.stack([own, greedy.float()])


def _warpers(decoding: Decoding, vocabulary: int) -> list[transformers.LogitsProcessor]:
    """The steps of `transformers` that change what is drawn, in the order in which it takes them."""
    warpers = []
    if decoding.temperature != 1:
        warpers.append(transformers.TemperatureLogitsWarper(float(decoding.temperature)))
    if decoding.top_k is not None and decoding.top_k < vocabulary:
        warpers.append(transformers.TopKLogitsWarper(decoding.top_k))
    if decoding.top_p is not None and decoding.top_p < 1:
        warpers.append(transformers.TopPLogitsWarper(float(decoding.top_p)))
    return warpers
