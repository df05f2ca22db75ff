"""Margins and multipliers into training points."""
