"""Was this record used? The only place where data, models, attacks and estimates meet."""
