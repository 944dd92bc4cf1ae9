"""`dlrun verify`: a short job of the exact plan whose ranks report their placement, compared with the plan.

Begin with `job` (a separate job, or the nodes of this shell's allocation); `report` has the data types,
`compare` and `network` find the differences; both are pure.
"""
