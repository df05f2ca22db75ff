"""Was this record used? The only place where data, models, attacks and estimates meet."""

from divulge.auditing.result import Audit, Outcome, load
from divulge.auditing.run import audit

__all__ = ["Audit", "Outcome", "audit", "load"]
