"""Metrics of a training: `spec` (what a spec declares), `log` (the numbers in a log), `trainers` (patterns of known trainers)."""
