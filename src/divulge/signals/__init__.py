"""Answers of a model into one number a record, larger = more member-like."""

from divulge.signals import classification, margin, tokens

__all__ = ["classification", "margin", "tokens"]
