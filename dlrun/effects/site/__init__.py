"""Create and check site profiles, from a scheduler's answers, probed nodes, and other tools' files.

Begin with `detect` (a first profile) and `check` (compare a profile with its cluster). `query` runs clients, `slurm`,
`sinfo`, `pbs`, `flux` and `gridengine` parse their output into `facts`; `probe` and `node` collect facts of compute
nodes; `yaml_text` writes profiles.
"""
