"""Errors of libraries: of GPUs, of data, of weights, of command lines, of what shares a training out."""
