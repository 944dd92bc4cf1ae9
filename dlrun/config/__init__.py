"""Text -> model: YAML nodes with places, typed decoding, layers, sites, JSON schemas. Pure.

Begin with `load` (a spec from its layers) and `sites` (profiles); `document` parses, `layers` merges, `decode` gives values.
`wording` has the texts of problems, `topology` reads node topologies, `batch_script` imports existing batch scripts.
"""
