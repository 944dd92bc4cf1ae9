"""Scaling studies: `study` (the directory and its measurements), `submitters` (plan and submit runs on this host or a login
node), `submit` (submit the missing runs).
"""
