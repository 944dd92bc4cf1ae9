"""Metrics of a training: `spec` (what a spec declares), `log` (numbers read from a log), `trainers` (patterns of known ones)."""
