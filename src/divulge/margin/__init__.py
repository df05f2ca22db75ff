"""Weights of a shallow ReLU network into margins, multipliers and KKT residuals."""
