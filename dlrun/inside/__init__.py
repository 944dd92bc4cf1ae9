"""Into a running job: a shell or a command beside a rank (`dlrun shell`), and its ports on this machine (`dlrun shell --tunnel`).

Begin with `place` (the node of a rank) and `way` (how a command gets there); `shell` and `tunnel` are the commands,
`join.sh` runs on the node, and so does `dlrun.node.carry`.
"""
