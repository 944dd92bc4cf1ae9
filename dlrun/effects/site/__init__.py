"""Site profiles made and checked: from a scheduler's answers, from probed nodes, from other tools' files.

Begin with `detect` (a first profile) and `check` (one compared with its cluster). `query` asks, `slurm`, `sinfo` and `pbs`
read the answers into `facts`; `probe` and `node` get what only a compute node knows; `yaml_text` writes.
"""
