"""What every other package needs and what knows nothing of data sets: errors, text, system calls, safe paths.

Read `errors` and `safety` first; the others stand alone.
"""
