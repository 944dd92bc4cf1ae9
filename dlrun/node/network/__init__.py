"""Connections between the nodes of a job, authenticated with the job's secret.

Read in this order: `hosts` (addresses), `wire` (proofs and frames), `link` (a proven connection), `listener` (a port open to
untrusted clients).
"""
