"""Frameworks that are Spark applications.

Begin with `spark`; the others only add what they need.
"""
