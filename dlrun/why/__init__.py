"""`dlrun why`: the cause of a failure.

Begin with `diagnose`, which composes the answer: `evidence` (notes and logs; `remote_evidence` for login nodes), `verdict`
(the line with the cause in one log), `matching` and `known` (the errors of other programs), `own_messages`,
`passing_messages` and `own_patterns` (dlrun's messages), `patterns` (states, notes, signals), `stacks` (stacks of hung
ranks), `dependencies` (jobs under `after`).
"""
