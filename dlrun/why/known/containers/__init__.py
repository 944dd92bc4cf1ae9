"""Errors of the container runtimes of clusters."""
