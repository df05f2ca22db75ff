"""Membership inference audits: attacks, guarantees and estimates for one trained model."""

from divulge.auditing.findings import Outcome
from divulge.auditing.modality import Modality
from divulge.auditing.pipeline import audit, forecast, over_shares, prepare_audit, run_audit, run_shares
from divulge.auditing.prepared import Forecast
from divulge.auditing.result import Audit, load, rerender
from divulge.auditing.wording import Verdict

__all__ = [
    "Audit",
    "Forecast",
    "Modality",
    "Outcome",
    "Verdict",
    "audit",
    "forecast",
    "load",
    "over_shares",
    "prepare_audit",
    "rerender",
    "run_audit",
    "run_shares",
]
