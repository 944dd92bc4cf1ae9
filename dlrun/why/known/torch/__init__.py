"""Errors of parts of PyTorch, beside those of its process groups."""
