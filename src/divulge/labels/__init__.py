"""Loss values into labels: what a scoring endpoint leaks, through which query, and what prevents it.

For testing endpoints you are responsible for: every attack here comes with the defence that ends it.
"""

from divulge.labels.answers import LabelInference
from divulge.labels.capacity import Capacity, capacity, distinct_answers, information_bound
from divulge.labels.certificate import Certificate
from divulge.labels.certify import certify
from divulge.labels.contradiction import Contradiction
from divulge.labels.defend import Defence, defend
from divulge.labels.design import design
from divulge.labels.evaluated import Evaluated, KnownRange
from divulge.labels.host_menu import MenuItem, menu
from divulge.labels.http import HttpOracle
from divulge.labels.inference import infer, read
from divulge.labels.journal import Journal, Submission, read_scores, write_submissions
from divulge.labels.losses import Linear, mahalanobis, norm_like
from divulge.labels.oracles import Ladder, LocalOracle, ScikitLearn
from divulge.labels.plans import QueryPlan
from divulge.labels.quota import QuotaReachedError
from divulge.labels.simulation import Simulation, simulate
from divulge.labels.spec import OracleSpec

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
