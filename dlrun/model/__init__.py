"""Frozen data and its arithmetic: specs, sites, topologies, plans. Standard library only."""
