"""The code and the environment of a job, as they are at its submission: files with digests, commit, distributions.

`names` (what is code), `git` (what git knows of a directory), `reach` (the files that a command can reach), `environment`,
`record` (the files of a job directory), `history` (what the starts of a job have found changed since),
`programs` (dlrun's own for the nodes, in the store of code).
"""
