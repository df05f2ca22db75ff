"""What settings of classical models gave away in our own measurements (`benchmarks/results/defences.md`)."""

from __future__ import annotations

MEASURED = {"forest": "", "tree": "", "boosting": "", "stored": ""}
