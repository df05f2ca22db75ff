"""Data into trained reference models."""
