"""Yes/no and truth into an estimate with an interval.

Every function takes arrays of scores and of membership, never a model; larger scores mean more like a
member, and no function depends on the order of the rows, but for bounds on ε that break ties or draw pairs by chance.
"""

from divulge.evaluation import blind, families, linearity, transfer
from divulge.evaluation.baseline import AttackDifference, BaselineComparison, against_baseline
from divulge.evaluation.canary_power import CanaryPower, canaries_needed, smallest_violation
from divulge.evaluation.comparison import measure, paired_difference
from divulge.evaluation.curve import ROC, advantage, roc, tnr_at_fnr, tpr_at_fpr
from divulge.evaluation.epsilon import epsilon_lower_bound
from divulge.evaluation.families import GaussianMechanism, SubsampledGaussian
from divulge.evaluation.groups import Exposure, Rates, Subgroup, most_exposed, rates, subgroups
from divulge.evaluation.near_duplicates import NearDuplicates, near_duplicates
from divulge.evaluation.one_run import epsilon_fixed_count, epsilon_one_run, one_run_bound
from divulge.evaluation.power import Detectable, nonmembers_to_tell, records_to_see, smallest_detectable
from divulge.evaluation.set_differences import differences
from divulge.statistics import intervals
from divulge.statistics.intervals import proportion, rate_difference
from divulge.statistics.ranking import auc, min_nonmembers
from divulge.statistics.two_samples import text_differences

__all__ = [
    "ROC",
    "AttackDifference",
    "BaselineComparison",
    "CanaryPower",
    "Detectable",
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
    "families",
    "intervals",
    "min_nonmembers",
    "linearity",
    "measure",
    "most_exposed",
    "near_duplicates",
    "nonmembers_to_tell",
    "one_run_bound",
    "paired_difference",
    "proportion",
    "rate_difference",
    "rates",
    "records_to_see",
    "roc",
    "smallest_detectable",
    "smallest_violation",
    "subgroups",
    "text_differences",
    "tnr_at_fnr",
    "tpr_at_fpr",
    "transfer",
]
