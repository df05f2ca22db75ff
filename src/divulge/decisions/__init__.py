"""Scores into yes/no with a guarantee."""
