"""Code without knowledge of data sets, used by all packages of `node`: errors, text, system calls, safe paths.

Read `errors` and `safety` first; the others are independent.
"""
