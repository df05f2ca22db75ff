"""Models before and after an erasure, and models that never saw the records, into an answer: was it really forgotten?

Examples:
    >>> import numpy as np
    >>> from divulge.unlearning import forget
    >>> rng, ids = np.random.default_rng(0), np.arange(900)
    >>> def table(shift):
    ...     return {"id": ids, "score": rng.normal(size=900) + shift * (ids < 300)}
    >>> never_saw = [table(0.0) for _ in range(4)]
    >>> result = forget(table(2.0), table(1.9), forget=ids[:300], never=ids[300:], retrained=never_saw)
    >>> result.verdict.answer
    'still remembered'
"""

from divulge.unlearning.pipeline import forget
from divulge.unlearning.result import ERASURE, Erasure

__all__ = ["ERASURE", "Erasure", "forget"]
