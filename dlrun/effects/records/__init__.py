"""The records of jobs on this machine: files, not a database.

Begin with `jobs` (a job's directory, found by any of its names; `links` where it lies elsewhere). `belief` reads records
of which nothing is taken on trust, `submitting` marks one that is being submitted, `outcome` is how a job ended,
`bad_nodes` lists nodes that failed its checks.
"""
