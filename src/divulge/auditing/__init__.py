"""Was this record used? The only place where data, models, attacks and estimates meet."""

from divulge.auditing.findings import Outcome
from divulge.auditing.result import Audit, load, rerender
from divulge.auditing.run import audit
from divulge.auditing.shares import over_shares
from divulge.auditing.verdict import Verdict

__all__ = ["Audit", "Outcome", "Verdict", "audit", "load", "over_shares", "rerender"]
