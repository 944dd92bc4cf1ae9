"""Metrics of a training: `spec` (check of the declarations), `log` (values in a log), `trainers` (patterns of known trainers)."""
