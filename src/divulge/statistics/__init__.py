"""What decisions and evaluation both rest on: intervals, placements, tests of two samples, orders of rows."""
