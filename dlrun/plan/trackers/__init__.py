"""Names for experiment trackers: `table` (the variables of each, as data), `decide` (which ones a job sets)."""
