"""Frameworks that are Spark applications.

Begin with `spark`; the others add variables or options.
"""
