"""What every other package uses and what is independent of data sets: errors, text, system calls, safe paths.

Read `errors` and `safety` first; the others are independent.
"""
