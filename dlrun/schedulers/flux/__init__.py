"""Flux: `flux` is the back end, and validates jobs without submitting them; `directives` writes `# flux:` lines, `states`
parses `flux jobs`, `ending` its event log.
"""
