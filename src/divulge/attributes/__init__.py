"""A model, records and one of their columns into an answer: does it give that column of its training records away?

Examples:
    >>> import numpy as np
    >>> import divulge as dv
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> x = np.c_[rng.integers(0, 2, 900), rng.normal(size=(900, 3))]
    >>> y = rng.integers(0, 2, 900) ^ x[:, 0].astype(int)
    >>> sets = {name: dv.Records(x[i:i + 300], y[i:i + 300]) for name, i in
    ...         (("members", 0), ("nonmembers", 300), ("population", 600))}
    >>> model = DecisionTreeClassifier(random_state=0).fit(sets["members"].x, sets["members"].y)
    >>> dv.attributes.infer(model, **sets, column=0).finding.answer
    'leak found'
"""

from divulge.attributes.inference import infer
from divulge.attributes.result import ATTRIBUTES

__all__ = ["ATTRIBUTES", "infer"]
