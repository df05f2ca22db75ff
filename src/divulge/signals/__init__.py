"""Answers of a model into one number a record."""
