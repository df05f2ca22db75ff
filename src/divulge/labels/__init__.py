"""Loss values into labels: what a scoring endpoint leaks, through which query, and what prevents it.

For testing endpoints you are responsible for: every attack here comes with the defence that ends it.
"""

from divulge.labels.defences import (
    Capacity,
    Defence,
    MenuItem,
    capacity,
    defend,
    distinct_answers,
    information_bound,
    menu,
)
from divulge.labels.design import design
from divulge.labels.endpoints import HttpOracle, Journal, Submission, read_scores, write_submissions
from divulge.labels.inference import Contradiction, LabelInference, Simulation, infer, read, simulate
from divulge.labels.metrics import Evaluated, KnownRange, Linear, mahalanobis, norm_like
from divulge.labels.oracles import Ladder, LocalOracle, OracleSpec, QuotaReachedError, ScikitLearn
from divulge.labels.plans import Certificate, QueryPlan, certify

__all__ = [
    "Capacity",
    "Certificate",
    "Contradiction",
    "Defence",
    "Evaluated",
    "HttpOracle",
    "Journal",
    "KnownRange",
    "LabelInference",
    "Ladder",
    "Linear",
    "LocalOracle",
    "MenuItem",
    "OracleSpec",
    "QueryPlan",
    "QuotaReachedError",
    "ScikitLearn",
    "Simulation",
    "Submission",
    "capacity",
    "certify",
    "defend",
    "design",
    "distinct_answers",
    "infer",
    "information_bound",
    "mahalanobis",
    "menu",
    "norm_like",
    "read",
    "read_scores",
    "simulate",
    "write_submissions",
]
