"""Classical models of arrays and texts, on NumPy and SciPy alone: words, components, mixtures, a regression, a tree."""
