"""What this machine knows of every job: files, not a database.

Begin with `jobs` (a job's directory, found by any of its names). `belief` reads records of which nothing is taken on
trust, `submitting` marks one that is being submitted, `outcome` is how a job ended, `bad_nodes` lists nodes that failed
its checks.
"""
