"""Loss values into labels: what a scoring endpoint gives away, and what stops it."""
