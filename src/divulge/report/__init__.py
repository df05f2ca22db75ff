"""Results into something to see."""
