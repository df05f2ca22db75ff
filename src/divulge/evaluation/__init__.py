"""Scores or decisions, and the true membership, into estimates with intervals.

Every function takes arrays of scores and of membership, never a model. Larger scores mean more like a member. No result
depends on the order of rows, except bounds on ε that break ties or draw pairs by chance.

| question | module |
|---|---|
| How well do scores separate members from non-members? Which groups and records are exposed? | `metrics` |
| Do they differ from another run's, or from a blind score? | `comparison` |
| What ε of differential privacy do they refute? | `epsilon`, under mechanisms of `families` |
| How many members stand above every non-member beyond chance? | `exposure` |
| What could so many records or canaries have shown? | `power` |
| Do members and non-members differ without the model? | `blind`, `near_duplicates` |
| Were non-members and population held out? | `held_out` |
| What remains after adjusting for covariates? | `covariates` |
| Does a target differ from models that saw none of the candidates? | `control_models` |
| Do forgotten records differ from what models show that never saw them? | `erasure` |
| Does a rate learned on seen classes hold on another? | `transfer` |
"""

from divulge.evaluation import blind, families, transfer
from divulge.evaluation.blind import differences
from divulge.evaluation.comparison import (
    AttackDifference,
    BaselineComparison,
    against_baseline,
    measure,
    paired_difference,
)
from divulge.evaluation.epsilon import (
    SurestRecords,
    epsilon_fixed_count,
    epsilon_lower_bound,
    epsilon_one_run,
    one_run_bound,
    surest_records,
)
from divulge.evaluation.erasure import ErasureTest, erasure_test
from divulge.evaluation.exposure import exposed_members, rank_exposed, smallest_exposed
from divulge.evaluation.families import GaussianMechanism, SubsampledGaussian
from divulge.evaluation.metrics import (
    ROC,
    Exposure,
    Rates,
    Subgroup,
    advantage,
    most_exposed,
    rates,
    roc,
    subgroups,
    tnr_at_fnr,
    tpr_at_fpr,
)
from divulge.evaluation.near_duplicates import NearDuplicates, near_duplicates
from divulge.evaluation.power import (
    CanaryPower,
    Detectable,
    canaries_needed,
    nonmembers_to_tell,
    records_to_see,
    smallest_detectable,
    smallest_violation,
)
from divulge.statistics import (
    auc,
    min_nonmembers,
    paired_rate_difference,
    proportion,
    rate_difference,
    text_differences,
)

__all__ = [
    "ROC",
    "AttackDifference",
    "BaselineComparison",
    "CanaryPower",
    "Detectable",
    "ErasureTest",
    "Exposure",
    "GaussianMechanism",
    "NearDuplicates",
    "Rates",
    "Subgroup",
    "SubsampledGaussian",
    "advantage",
    "against_baseline",
    "auc",
    "blind",
    "canaries_needed",
    "differences",
    "epsilon_fixed_count",
    "epsilon_lower_bound",
    "epsilon_one_run",
    "erasure_test",
    "exposed_members",
    "families",
    "measure",
    "min_nonmembers",
    "most_exposed",
    "near_duplicates",
    "nonmembers_to_tell",
    "one_run_bound",
    "paired_difference",
    "paired_rate_difference",
    "proportion",
    "rank_exposed",
    "rate_difference",
    "rates",
    "records_to_see",
    "roc",
    "smallest_detectable",
    "smallest_exposed",
    "smallest_violation",
    "subgroups",
    "text_differences",
    "tnr_at_fnr",
    "tpr_at_fpr",
    "transfer",
    "SurestRecords",
    "surest_records",
]
