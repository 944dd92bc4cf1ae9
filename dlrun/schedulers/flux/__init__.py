"""Flux: `flux` is the back end; `directives` writes `# flux:` lines, `states` parses `flux jobs`, `ending` its event log, `check`
validates a job without submitting it.
"""
