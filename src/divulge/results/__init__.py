"""What a finished run says, as typed summaries: pages render them, one writer and one reader know their JSON."""

from divulge.results import provenance
from divulge.results.audit import (
    Answer,
    AuditSummary,
    Called,
    DecisionSummary,
    Group,
    HeatStrip,
    LowerBound,
    Numbers,
    RealisedRate,
    RecipeSummary,
    SmallestLeak,
    VerdictSummary,
)
from divulge.results.canaries import CanarySummary, LeastEpsilon
from divulge.results.environment import environment
from divulge.results.extraction import ExtractionRate, ExtractionSummary
from divulge.results.identification import Asked, ControlResult, IdentificationSummary, Realised
from divulge.results.json_files import VERSION, plain, read, write
from divulge.results.labels import CapacitySummary, DefenceSummary, LabelsSummary, OracleSummary, PlanSummary
from divulge.results.recorded import (
    About,
    Accuracy,
    BlindBaseline,
    Carried,
    Conducted,
    Digests,
    Environment,
    PartlyKnown,
    Plane,
    Settings,
    Sizes,
    TextSplit,
    TransferSummary,
)
from divulge.results.scoring import ScoringSummary, Skipped
from divulge.results.weights import CalledRecord, OpenStretch, ReconstructionSummary, RuleSummary, WeightsSummary

__all__ = [
    "VERSION",
    "About",
    "Accuracy",
    "Answer",
    "Asked",
    "AuditSummary",
    "BlindBaseline",
    "Called",
    "CalledRecord",
    "Carried",
    "Conducted",
    "ControlResult",
    "DecisionSummary",
    "DefenceSummary",
    "SmallestLeak",
    "Digests",
    "Environment",
    "ExtractionRate",
    "ExtractionSummary",
    "Group",
    "HeatStrip",
    "IdentificationSummary",
    "LabelsSummary",
    "CanarySummary",
    "CapacitySummary",
    "LeastEpsilon",
    "LowerBound",
    "Numbers",
    "OpenStretch",
    "OracleSummary",
    "PartlyKnown",
    "PlanSummary",
    "Plane",
    "Realised",
    "RealisedRate",
    "RecipeSummary",
    "ReconstructionSummary",
    "RuleSummary",
    "ScoringSummary",
    "Settings",
    "Sizes",
    "Skipped",
    "TextSplit",
    "TransferSummary",
    "VerdictSummary",
    "WeightsSummary",
    "environment",
    "plain",
    "provenance",
    "read",
    "write",
]
