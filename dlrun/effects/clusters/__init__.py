"""Access to schedulers, by their clients on this host or a login node.

Begin with `clients` (the host of a job's clients) and `query` (one call for any number of jobs); `login` runs clients on a
login node, `identity` compares the cluster of a job with the one that answers, `local` is the scheduler of a machine
without one, `environment` is the environment of clients.
"""
