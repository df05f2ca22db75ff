"""What an oracle raises when it answers no more."""


class QuotaReachedError(Exception):
    """The oracle answers no more queries for now; what was answered is kept."""
