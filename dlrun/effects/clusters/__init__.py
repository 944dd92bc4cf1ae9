"""Clusters as they answer: the clients of a scheduler, run here or on a login node.

Begin with `clients` (where a job's scheduler is asked) and `query` (one call for any number of jobs); `login` runs clients
on a login node, `identity` holds a job's cluster against the one that answers, `local` is the scheduler of a machine
without one, `environment` is what clients are run with.
"""
