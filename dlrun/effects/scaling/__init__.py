"""Scaling studies: `study` (the directory and its measurements), `submitters` (where its runs are planned and submitted:
here or on a login node), `submit` (what is still missing).
"""
