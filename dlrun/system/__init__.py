"""This machine and others: processes, files, connections, and what is read from them. Knows no job.

`inputs` reads spec, profiles and node topologies, `transport` connects to login nodes, `process` runs programs, `paths`
reads files named by users, `signals` delays signals.
"""
