"""What a finished run says, as typed summaries: pages render them, one writer and one reader know their JSON."""

from divulge.results.files import VERSION, plain, read, write
from divulge.results.identification import Asked, ControlResult, IdentificationSummary, Realised

__all__ = [
    "VERSION",
    "Asked",
    "ControlResult",
    "IdentificationSummary",
    "Realised",
    "plain",
    "read",
    "write",
]
