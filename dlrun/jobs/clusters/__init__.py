"""Access to schedulers, by their clients on this host or a login node.

Begin with `control` (submit, query, cancel) and its two modules: `batch` (a scheduler with clients) and `local` (processes
of this machine). `clients` is the host of a job's clients, `login` runs them on a login node, `query` asks about any number
of jobs in one call. `identity` compares the cluster of a job with the one that answers, `environment` is the environment
of clients, `allocation` the allocation of this shell, `reasons` why a job waits and `outlook` what to do about it.
"""
