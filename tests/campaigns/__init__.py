"""Staging, hurt at random places over and over: kills, failing system calls, power cuts.

`python -m tests.campaigns kills --count 1000 --seed 1` prints a tally; `test_campaigns` runs a few of each kind.
"""
