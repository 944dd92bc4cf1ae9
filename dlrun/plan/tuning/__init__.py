"""Candidates and stopping rule of `dlrun tune`: pure functions.

Begin with `candidates` (settings worth a trial, from `knobs`), then `race` (next trial, and result).
"""
