"""Text -> model: YAML nodes with places, typed decoding, layers, sites, JSON schemas. Pure."""
