"""Pictures of a node: `cells` (use of each core), `boxes` (layout), then `svg` or `blocks` (terminal)."""
