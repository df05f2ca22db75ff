"""What weights alone prove: of shallow ReLU networks and linear heads, and of published regressions.

Networks: margins, multipliers and KKT residuals. Regressions: the cohorts, and the single record, behind coefficients.

Source of the claims: "Provable Privacy Attacks on Trained Shallow Neural Networks" (Smorodinsky, Vardi, Safran),
Lyu & Li 2020 for the convergence to KKT points, Haim et al. 2022 and Golbari et al. 2025 for multipliers as a
membership score. Where a statement of the paper does not hold as printed, the docstrings say so.
"""

from divulge.margin.cohorts import MAX_CHANCE, MAX_COHORTS, CohortMatch, SubsetFit, cohorts
from divulge.margin.gradient_flow import Optimum, Training, descend, solve, train
from divulge.margin.membership import (
    Assumption,
    Gaussian,
    MarginDecision,
    Mixture,
    Orthogonality,
    Sphere,
    assumption,
    bounded_margin,
    known_margin,
    leaked_point,
    least_margin,
    orthogonality,
)
from divulge.margin.multi_class import ClassNetwork, LinearHead, ShallowClassifier, read_network
from divulge.margin.odd_record import MAX_MISTAKE, OddRecord
from divulge.margin.published_regression import Publication
from divulge.margin.shallow_relu import Fit, ShallowReLU, Stationarity, explain, kkt, multipliers, read_margin

__all__ = [
    "MAX_CHANCE",
    "MAX_COHORTS",
    "MAX_MISTAKE",
    "Assumption",
    "ClassNetwork",
    "CohortMatch",
    "Fit",
    "Gaussian",
    "LinearHead",
    "MarginDecision",
    "Mixture",
    "OddRecord",
    "Optimum",
    "Orthogonality",
    "Publication",
    "ShallowClassifier",
    "ShallowReLU",
    "Sphere",
    "Stationarity",
    "SubsetFit",
    "Training",
    "assumption",
    "bounded_margin",
    "cohorts",
    "descend",
    "explain",
    "kkt",
    "known_margin",
    "leaked_point",
    "least_margin",
    "multipliers",
    "orthogonality",
    "read_margin",
    "read_network",
    "solve",
    "train",
]
