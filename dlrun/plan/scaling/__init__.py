"""Evaluation of scaling studies: `table` (speed-up, efficiency), `compare` (two studies), `estimate` (extrapolation)."""
