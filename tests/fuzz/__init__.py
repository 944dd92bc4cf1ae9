"""Damage of everything that dlrun reads; see `areas`. In small with the tests, at length by `python -m tests.fuzz`."""
