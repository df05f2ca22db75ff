"""Yes/no and truth into an estimate with an interval."""
