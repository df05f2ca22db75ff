"""Signals of a language model: token statistics into one number per document, larger = more member-like.

Every function takes `TokenStatistics` of ``n`` documents and returns float64 ``[n]``; a document
without scored tokens is NaN. What a target does not show is refused, never approximated.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from divulge.errors import InputError
from divulge.targets.token_statistics import TokenStatistics
from divulge.validation import check_choice, check_instance, check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from divulge.types import Array, Floats, Ints

_ORDERS = {0.5: "renyi_half", 1.0: "entropy", 2.0: "renyi_two", np.inf: "renyi_inf"}
_FLAT = 1e-12  # variance below which a distribution is as good as one token; keeps Min-K%++ finite


def log_likelihood(stats: TokenStatistics) -> Floats:
    """Mean log-probability of the tokens: minus the logarithm of the perplexity (Yeom et al. 2018).

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> log_likelihood(TokenStatistics(np.array([0, 2, 2]), np.array([9, 8]), logp=np.array([-1.0, -3.0])))
        array([-2., nan])
    """
    return _mean_per_document(_check_statistics(stats).logp, stats.offsets)


def token_probability(stats: TokenStatistics) -> Floats:
    """Geometric mean of the tokens' probabilities, one over the perplexity, in [0, 1]; what RMIA compares.

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> token_probability(TokenStatistics(np.array([0, 2]), np.array([9]), logp=np.log([0.5, 0.125])))
        array([0.25])
    """
    return np.exp(np.minimum(log_likelihood(stats), 0.0))


def scaled_likelihood(stats: TokenStatistics) -> Floats:
    """``log(p / (1 - p))`` of that probability, which does not saturate where documents are learnt well.

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> scaled_likelihood(TokenStatistics(np.array([0, 1]), np.array([9]), logp=np.log([0.5])))
        array([0.])
    """
    mean = np.minimum(log_likelihood(stats), -_FLAT)
    return mean - np.log(-np.expm1(mean))


def last_tokens(stats: TokenStatistics) -> Floats:
    """Mean probability of the tokens, each weighing half as much as the one after it, in [0, 1].

    What a model shows that was fine-tuned on answers alone, which stand at the end. Probabilities and not their
    logarithms, as a rare word of the prompt would outweigh the answer; and tokens that are always certain (an
    end-of-text token, a full stop, a newline) leave the order of the documents to those before them.

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> stats = TokenStatistics(np.array([0, 2]), np.array([9]), logp=np.log([0.25, 1.0]))
        >>> last_tokens(stats).round(3)  # 2/3 of 1 and 1/3 of .25
        array([0.75])
    """
    return _mean_probability(stats, lambda n_later, length: np.exp2(-n_later))


def last_quarter(stats: TokenStatistics) -> Floats:
    """Mean probability of the last quarter of the tokens, at least one, in [0, 1]: where longer answers stand.

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> last_quarter(TokenStatistics(np.array([0, 4]), np.array([9]), logp=np.log([0.1, 0.2, 0.3, 0.4])))
        array([0.4])
    """
    return _mean_probability(stats, lambda n_later, length: n_later < np.maximum(length // 4, 1))


def zlib(stats: TokenStatistics) -> Floats:
    """Mean log-probability over the bytes that zlib needs for the text (Carlini et al. 2021, §5.2)."""
    return log_likelihood(stats) / stats.zlib_bytes


def min_k(stats: TokenStatistics, k: float = 0.2) -> Floats:
    """Mean log-probability of the least likely share ``k`` of the tokens, at least one (Shi et al. 2024, Min-K%).

    Examples:
        >>> from divulge.targets.token_statistics import TokenStatistics
        >>> min_k(TokenStatistics(np.array([0, 3]), np.array([9]), logp=np.array([-1.0, -3.0, -2.0])), k=0.67)
        array([-2.5])
    """
    return _mean_of_lowest(_check_statistics(stats).logp, stats.offsets, k)


def min_k_plus(stats: TokenStatistics, k: float = 0.2) -> Floats:
    """Min-K% of the standardised log-probability ``(log p_y - μ) / σ`` (Zhang et al. 2025, Min-K%++).

    ``μ`` and ``σ`` are mean and deviation of ``log p`` under ``p``, so ``μ`` is minus the entropy.

    Raises:
        divulge.InputError: the target shows no distribution over the vocabulary.
    """
    entropy, variance = _require_statistic(stats, "entropy"), _require_statistic(stats, "variance")
    return _mean_of_lowest((stats.logp + entropy) / np.sqrt(np.maximum(variance, _FLAT)), stats.offsets, k)


def modified_entropy(stats: TokenStatistics) -> Floats:
    """Minus the mean modified entropy (Song & Mittal 2021), which is small for members.

    Raises:
        divulge.InputError: the target shows no distribution over the vocabulary.
    """
    return -_mean_per_document(_require_statistic(stats, "modified_entropy"), stats.offsets)


def max_renyi(stats: TokenStatistics, alpha: float = 0.5, k: float = 0.1) -> Floats:
    """Minus the mean of the largest share ``k`` of the Rényi entropies (Li et al. 2024, VL-MIA, MaxRényi-K%).

    Args:
        stats: token statistics.
        alpha: order, one of 0.5, 1, 2 and infinity.
        k: share of the tokens, 1 for all of them.

    Raises:
        divulge.InputError: another order, or a target that shows no distribution over the vocabulary.
    """
    return _mean_of_lowest(-_renyi_entropies(stats, alpha), stats.offsets, k)


def min_renyi(stats: TokenStatistics, alpha: float = 0.5, k: float = 0.1) -> Floats:
    """Minus the mean of the smallest share ``k`` of the Rényi entropies, see `max_renyi`."""
    return -_mean_of_lowest(_renyi_entropies(stats, alpha), stats.offsets, k)


def lowercase(stats: TokenStatistics, lowered: TokenStatistics) -> Floats:
    """Loss of the lower-cased text over that of the text itself (Carlini et al. 2021, §5.2).

    Args:
        stats: of the documents.
        lowered: of the same documents in lower case.

    Raises:
        divulge.InputError: a different number of documents.
    """
    _check_paired(stats, lowered, "lowered")
    return log_likelihood(lowered) / np.minimum(log_likelihood(stats), -_FLAT)


def reference_difference(stats: TokenStatistics, reference: TokenStatistics) -> Floats:
    """Mean log-probability less that under a model that did not see the documents (Carlini et al. 2021).

    Args:
        stats: under the examined model.
        reference: under the other one, with the same tokenizer.

    Raises:
        divulge.InputError: a different number of documents, or of tokens in one of them.
    """
    _check_paired(stats, reference, "reference")
    if not np.array_equal(stats.lengths, reference.lengths):
        document = int(np.flatnonzero(stats.lengths != reference.lengths)[0])
        raise InputError(
            f"reference: document {document} has {reference.lengths[document]} tokens, not {stats.lengths[document]}; "
            "a model with the same tokenizer is needed"
        )
    return log_likelihood(stats) - log_likelihood(reference)


SIGNALS: Mapping[str, Callable[[TokenStatistics], Floats]] = MappingProxyType(
    {
        "log_likelihood": log_likelihood,
        "zlib": zlib,
        "min_k": min_k,
        "min_k_plus": min_k_plus,
        "modified_entropy": modified_entropy,
        "max_renyi": max_renyi,
        "min_renyi": min_renyi,
    }
)


# The likelihood in the units that attacks with reference models were made for; each ranks as the likelihood does.
RESCALED: Mapping[str, Callable[[TokenStatistics], Floats]] = MappingProxyType(
    {"token_probability": token_probability, "scaled_likelihood": scaled_likelihood}
)

# Of audits alone: an identification tries all of `SIGNALS`, and is of documents whose end means nothing.
OF_ENDS: Mapping[str, Callable[[TokenStatistics], Floats]] = MappingProxyType(
    {"last_tokens": last_tokens, "last_quarter": last_quarter}
)


def get_signal(name: str) -> Callable[[TokenStatistics], Floats]:
    """Return the signal of that name, of `SIGNALS`, `RESCALED` or `OF_ENDS`."""
    every = {**SIGNALS, **RESCALED, **OF_ENDS}
    return every[check_choice(name, "signal", every)]


def all_signals(stats: TokenStatistics) -> dict[str, Floats]:
    """Compute every signal that the target's answers allow, by name."""
    likelihood_signals = ("log_likelihood", "zlib", "min_k")
    has_distribution = _check_statistics(stats).entropy is not None
    return {name: signal(stats) for name, signal in SIGNALS.items() if name in likelihood_signals or has_distribution}


def _check_statistics(stats: TokenStatistics, name: str = "stats") -> TokenStatistics:
    return check_instance(stats, name, TokenStatistics, "a targets.TokenStatistics")


def _require_statistic(stats: TokenStatistics, name: str) -> Floats:
    values = getattr(_check_statistics(stats), name)
    if values is None:
        raise InputError(
            f"token statistics: {name} needs the whole distribution over the vocabulary, and this target shows only "
            "the log-probability of the tokens; log_likelihood, zlib and min_k work with that"
        )
    return values


def _renyi_entropies(stats: TokenStatistics, alpha: float) -> Floats:
    order = check_number(alpha, "alpha", above=0, closed=True)
    if order not in _ORDERS:
        orders = ", ".join(f"{order_value:g}" for order_value in _ORDERS)
        raise InputError(f"alpha: one of {orders} is needed, got {order:g}")
    return _require_statistic(stats, _ORDERS[order])


def _check_paired(stats: TokenStatistics, other_stats: TokenStatistics, name: str) -> None:
    if len(_check_statistics(stats)) != len(_check_statistics(other_stats, name)):
        raise InputError(f"{name}: {len(stats)} documents are needed, got {len(other_stats)}")


def _mean_probability(stats: TokenStatistics, weigh: Callable[[Floats, Ints], Array]) -> Floats:
    """Weighted mean of each document's probabilities; ``weigh`` is given how many tokens follow, and of how many."""
    lengths = np.diff(_check_statistics(stats).offsets)
    document = np.repeat(np.arange(len(lengths)), lengths)
    n_later = (stats.offsets[1:][document] - 1 - np.arange(len(document))).astype(np.float64)
    weights = weigh(n_later, lengths[document]).astype(np.float64)
    probabilities = np.exp(np.minimum(stats.logp, 0.0))
    sums, totals = (
        np.bincount(document, weights=values, minlength=len(lengths)) for values in (weights * probabilities, weights)
    )
    return np.where(lengths > 0, sums / np.maximum(totals, 1.0), np.nan)


def _mean_per_document(values: Floats, offsets: Ints) -> Floats:
    return _mean_of_lowest(values, offsets, 1.0)


def _mean_of_lowest(values: Floats, offsets: Ints, k: float) -> Floats:
    """Mean of the lowest share ``k`` of each document's values, at least one; NaN for a document without any."""
    if check_number(k, "k", above=0, below=1, closed=True) == 0:
        raise InputError("k: must lie in (0, 1], got 0")
    lengths = np.diff(offsets)
    document = np.repeat(np.arange(len(lengths)), lengths)
    # Written so that k = 0.2 of 10 tokens is 2 although 0.2 · 10 may come out a hair below.
    n_lowest = np.minimum(np.maximum((lengths * k + 1e-9).astype(np.int64), 1), lengths)
    order = np.arange(len(values)) if k == 1 else np.lexsort((values, document))
    is_lowest = np.arange(len(values)) - np.repeat(offsets[:-1], lengths) < np.repeat(n_lowest, lengths)
    total = np.bincount(document[is_lowest], weights=values[order][is_lowest], minlength=len(lengths))
    return np.where(lengths > 0, total / np.maximum(n_lowest, 1), np.nan)
