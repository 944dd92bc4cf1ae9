"""Diagnosis of ended jobs.

Begin with `why`, which composes the answer: `evidence` (notes and logs; `remote_evidence` for login nodes), `patterns`
(known failures), `own_messages` and `own_patterns` (dlrun's messages), `stacks` (stacks of hung ranks), `dependencies`
(jobs under `after`).
"""
