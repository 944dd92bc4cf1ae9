"""Text -> model: YAML nodes with places, typed decoding, layers, sites, JSON schemas. Pure.

Begin with `load` (a spec from its layers) and `sites` (profiles); `document` parses, `layers` merges, `decode` gives values.
`wording` has the words of problems, `topology` reads nodes, `batch_script` reads scripts of others.
"""
