"""What `dlrun tune` tries, and when it has seen enough: pure functions.

Begin with `candidates` (the settings that are worth a trial, from `knobs`), then `race` (which trial is next, and who won).
"""
