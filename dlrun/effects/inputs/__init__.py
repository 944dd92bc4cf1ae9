"""What a command starts from, read from disk: the spec, its layers, the site profile, the nodes' topology.

Begin with `spec` (all inputs of a job); `profiles` finds site profiles, `node_types` and `topology` give what nodes
are made of, `preflight` and `installed` look for what the job will miss, `home` and `data_size` fill in what is left.
"""
