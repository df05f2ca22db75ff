"""Answers of a model into one number a record, larger = more member-like."""

from divulge.signals import classification, completion, margin, tokens

__all__ = ["classification", "completion", "margin", "tokens"]
