"""Logs of jobs.

`files` (which there are, and what comes next), `merge` (several as one, by time), `copies` (those of login nodes).
"""
