"""Logs of jobs.

`files` (find, read and follow them), `merge` (several as one, by time), `copies` (of jobs on login nodes).
"""
