"""Features into a conditional distribution of a signal: networks for `divulge.attacks.QuantileRegression`.

Examples:
    >>> from divulge import regressors
    >>> regressors.Network(regressors.bodies.SmallCNN(), epochs=5).head
    'gaussian'
"""

from divulge.regressors import bodies
from divulge.regressors.network import Network

__all__ = ["Network", "bodies"]
