"""Connections between the nodes of a job, authenticated with the job's secret.

Read in this order: `hosts` (addresses), `wire` (proofs and frames), `link` (an authenticated connection), `listener` (a
port that untrusted programs can reach, too).
"""
