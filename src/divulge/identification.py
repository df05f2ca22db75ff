"""Which of these records were used? A set with a bound on false discoveries."""
