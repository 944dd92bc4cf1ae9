"""The inputs of a command, read from disk: spec, layers, site profile, node topology.

Begin with `spec` (all inputs of a job); `profiles` finds site profiles, `node_types` and `topology` read topologies,
`preflight` and `installed` check files and packages, `home` and `data_size` complete the spec.
"""
