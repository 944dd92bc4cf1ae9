"""`dlrun verify`: a short job of the exact plan whose ranks report what they are, compared with that plan.

Begin with `job` (a job of its own) or `allocation` (in the nodes that are granted already); `report` reads the
ranks' answers, `compare` and `network` find the differences, both pure.
"""
