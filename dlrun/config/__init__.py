"""From text to the model: YAML nodes with places, layers, typed decoding, site profiles, JSON Schemas. Pure.

Begin with `load` (a spec from its layers) and `sites` (profiles): `document` parses, `layers` merges, `decode` converts.
`wording` has the texts of problems, `topology` reads node topologies.
"""
