"""Code used by all packages of `node` that knows nothing about data sets: errors, text, system calls, safe paths.

Read `errors` and `safety` first; the others are independent.
"""
