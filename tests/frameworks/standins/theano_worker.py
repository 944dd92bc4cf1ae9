"""Stands in for Theano-MPI's worker.py: each rank is told its own device, and how and what to train."""

import sys

from training import NODE, expect, train

expect("the device", sys.argv[1], f"cuda{NODE.rank}")
expect("rule, strategy, model file and class", len(sys.argv[2:]), 4)
train()
