"""Why a job ended.

Begin with `why`, which puts the answer together: `evidence` (notes and logs; `remote_evidence` for login nodes), `patterns`
(known failures), `own_messages` (dlrun's own), `stacks` (where ranks hung), `dependencies` (jobs that it waits for).
"""
