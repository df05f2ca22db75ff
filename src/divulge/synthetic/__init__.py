"""A released synthetic table, and the records it was made from, into an answer: what does it give away about them?

Examples:
    >>> import numpy as np
    >>> import divulge as dv
    >>> rng = np.random.default_rng(0)
    >>> sets = {name: rng.normal(size=(150, 3)).round(3) for name in ("members", "nonmembers", "population")}
    >>> released = np.concatenate([sets["members"][:60], rng.normal(size=(90, 3)).round(3)])
    >>> result = dv.synthetic.audit(released, **sets, attributes=())
    >>> result.verdict.answer, len(result.copies)
    ('leak found', 60)
"""

from divulge.synthetic.page import SYNTHETIC
from divulge.synthetic.pipeline import audit
from divulge.synthetic.scores import SCORES

__all__ = ["SCORES", "SYNTHETIC", "audit"]
