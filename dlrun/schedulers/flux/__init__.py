"""Flux: `flux` is the back end; `directives` writes `# flux:` lines, `states` reads `flux jobs`."""
