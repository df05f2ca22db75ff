"""Statistics that decisions and evaluation share: intervals, placements, two-sample tests, duplicates."""
