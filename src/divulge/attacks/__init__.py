"""Numbers across models into a score: arrays in, one score a candidate out."""
