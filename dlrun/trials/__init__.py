"""Runs of one training with different settings, compared: `scale` (numbers of nodes and ranks) and `tune` (settings)."""
