"""Frameworks that are Spark applications: `spark` first; the others only add what they need."""
