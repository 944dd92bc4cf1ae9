"""Errors of what a training is made of: data formats, Python itself, training libraries, rarer accelerators."""
