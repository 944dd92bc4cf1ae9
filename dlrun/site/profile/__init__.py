"""Create and check site profiles, from a scheduler's answers, probed nodes, and other tools' files.

Begin with `detect` (a first profile) and `check` (a profile by itself, with `missing`, and
compared with its cluster, with `differences`).
`query` finds the scheduler; `detection` in its folder asks it for `dlrun.schedulers.facts`;
`probe` and `node` collect facts of compute nodes; `new` and `imports` draft profiles without a cluster; `yaml_text` writes
profiles, `json_shape` checks JSON.
"""
