"""A question into a model's answer."""
