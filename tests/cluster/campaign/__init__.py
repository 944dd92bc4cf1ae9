"""The fault campaign: faults forced on a real scheduler, one after the other, and what dlrun made of each.

`python -m tests.cluster.campaign` forces all of them. `fault` is what one is, `programs`, `before_ranks`, `queues`,
`nodes` and `remote` have them, `field` and `grounds` break the cluster, and `run` forces one and asks why.
"""
